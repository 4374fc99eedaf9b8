//! What the application reads and writes: topics that match its patterns are found, at the start and while it runs, and its own topics are
//! made before the workers need them, with checked partition counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use atonce_client::{Admin, AdminError, NewTopic};
use atonce_kernel::{TopicId, TopicName};
use atonce_streams_core::topology::{InternalTopicKind, Layout, LayoutError, Surroundings};
use atonce_streams_core::{FailureHandler, Topology};

use crate::error::Error;
use crate::worker::Shared;

/// How long a topic that was just created may take to be seen.
const VISIBLE_WITHIN: Duration = Duration::from_secs(30);

/// Kafka's default of `delete.retention.ms`, for a change log whose configuration cannot be read.
const DELETE_RETENTION_MS: i64 = 24 * 60 * 60 * 1000;

/// How often is looked again, and how soon, for a topic that another process has seen already.
const LOOKS_IN_HASTE: u32 = 25;
const HASTE: Duration = Duration::from_millis(200);

/// What workers know of topics.
#[derive(Debug)]
pub(crate) struct Topics {
    /// The topology, with the topics that its patterns have found.
    pub(crate) topology: Topology,
    pub(crate) layout: Layout,
    pub(crate) surroundings: Surroundings,
    /// Change logs: their ids, and how long they keep tombstones.
    pub(crate) changelogs: BTreeMap<TopicName, Changelog>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Changelog {
    pub(crate) topic_id: TopicId,
    pub(crate) delete_retention_ms: i64,
}

/// The topics of others that are read and written.
struct Around {
    topology: Topology,
    known: BTreeMap<TopicName, Found>,
    layout: Layout,
}

/// Looks up the topics that are read and written.
async fn look(admin: &Admin, topology: &Topology, application_id: &str) -> Result<Around, Error> {
    let mut topology = topology.clone();
    let mut named: Vec<TopicName> = topology.sink_topics().into_iter().collect();
    if topology.has_patterns() {
        let failed = |source| Error::Admin { what: "topics cannot be listed".to_owned(), source };
        let listed = admin.list_topics().await.map_err(failed)?;
        let listed: Vec<TopicName> =
            listed.into_iter().filter(|topic| !topic.is_internal).map(|topic| topic.name).collect();
        topology = topology.with_topics(Some(application_id), &listed)?;
        named.extend(topology.source_topics());
        let known = describe(admin, &named).await?;
        // One that is being made, or deleted, is not there for now.
        let there: Vec<&TopicName> = listed.iter().filter(|topic| known.contains_key(*topic)).collect();
        topology = topology.with_topics(Some(application_id), there)?;
    } else {
        named.extend(topology.source_topics());
    }
    let known = describe(admin, &named).await?;
    let layout = topology.layout(Some(application_id), |topic| known.get(topic).map(|topic| topic.partitions))?;
    Ok(Around { topology, known, layout })
}

/// Makes topics that a topology names and that are not there, with as many partitions as the broker makes by itself.
#[cfg(feature = "embedded")]
pub(crate) async fn create_missing(admin: &Admin, topology: &Topology) -> Result<(), Error> {
    let named: Vec<TopicName> = topology.source_topics().into_iter().chain(topology.sink_topics()).collect();
    let known = describe(admin, &named).await?;
    let missing = named.iter().filter(|topic| !known.contains_key(*topic));
    let new: Vec<NewTopic> = missing.map(|topic| NewTopic::new(topic.clone(), -1)).collect();
    if !new.is_empty() {
        create(admin, &new).await?;
        wait_until_visible(admin, &named).await?;
    }
    Ok(())
}

/// Looks for topics that match, for as long as the application runs, and hands on what has changed. Returns when the application cannot
/// work with what there is now.
pub(crate) async fn follow(shared: &Shared) -> Error {
    if !shared.topics.borrow().topology.has_patterns() {
        return std::future::pending().await;
    }
    let admin = shared.client.admin();
    let mut looks_in_haste = 0;
    loop {
        let wait = if looks_in_haste > 0 { HASTE } else { shared.topics_refresh_interval };
        tokio::select! {
            () = tokio::time::sleep(wait) => looks_in_haste = u32::saturating_sub(looks_in_haste, 1),
            () = shared.look_again.notified() => looks_in_haste = LOOKS_IN_HASTE,
        }
        let current = Arc::clone(&shared.topics.borrow());
        match look_again(&admin, &current, &shared.application_id).await {
            Ok(None) => {}
            Ok(Some(topics)) => {
                let now: Vec<String> = topics.layout.subscription().iter().map(ToString::to_string).collect();
                tracing::info!("the topics that are read have changed; they are {}", now.join(", "));
                shared.topics.send_replace(Arc::new(topics));
                looks_in_haste = 0;
            }
            Err(error @ (Error::Layout(LayoutError::MatchedTwice { .. }) | Error::InternalTopic { .. })) => {
                return error;
            }
            Err(error) => tracing::warn!("{error}; looking for topics again later"),
        }
    }
}

/// What there is now, if it is not the same any more.
async fn look_again(admin: &Admin, current: &Topics, application_id: &str) -> Result<Option<Topics>, Error> {
    let around = look(admin, &current.topology, application_id).await?;
    if around.layout == current.layout {
        return Ok(None);
    }
    settle(admin, around, application_id, current.surroundings.on_failure.clone()).await.map(Some)
}

/// Looks up the topics that are read and written, and makes the internal ones that are not there.
pub(crate) async fn prepare(
    admin: &Admin,
    topology: &Topology,
    application_id: &str,
    on_failure: FailureHandler,
) -> Result<Topics, Error> {
    let around = look(admin, topology, application_id).await?;
    settle(admin, around, application_id, on_failure).await
}

async fn settle(
    admin: &Admin,
    around: Around,
    application_id: &str,
    on_failure: FailureHandler,
) -> Result<Topics, Error> {
    let Around { topology, known, layout } = around;
    let sinks: Vec<TopicName> = topology.sink_topics().into_iter().collect();

    let internal: Vec<TopicName> = layout.internal_topics.iter().map(|topic| topic.name.clone()).collect();
    let mut found = describe(admin, &internal).await?;
    let missing = layout.internal_topics.iter().filter(|topic| !found.contains_key(&topic.name));
    let new: Vec<NewTopic> = missing
        .map(|topic| {
            let new = NewTopic::new(topic.name.clone(), topic.partitions);
            topic.configs().iter().fold(new, |new, (key, value)| new.config(*key, *value))
        })
        .collect();
    if !new.is_empty() {
        create(admin, &new).await?;
        found = wait_until_visible(admin, &internal).await?;
    }
    for topic in &layout.internal_topics {
        if let Some(found) = found.get(&topic.name)
            && found.partitions != topic.partitions
        {
            let (found, expected) = (found.partitions, topic.partitions);
            return Err(Error::InternalTopic { topic: topic.name.clone(), found, expected });
        }
    }

    let mut changelogs = BTreeMap::new();
    for topic in layout.internal_topics.iter().filter(|topic| topic.kind == InternalTopicKind::Changelog) {
        let Some(found) = found.get(&topic.name) else { continue };
        // The default stands in for a broker that does not tell: tombstones kept for longer than believed do no harm.
        let configs = admin.topic_configs(&topic.name).await.unwrap_or_default();
        let retention = configs.get("delete.retention.ms").and_then(|value| value.parse().ok());
        let delete_retention_ms = retention.unwrap_or(DELETE_RETENTION_MS);
        changelogs.insert(topic.name.clone(), Changelog { topic_id: found.id, delete_retention_ms });
    }
    let partitions = known.iter().chain(&found).map(|(name, topic)| (name.clone(), topic.partitions)).collect();
    let mut max_message_bytes = BTreeMap::new();
    for topic in sinks.iter().chain(&internal) {
        // What is not known is not checked: the cluster refuses it then.
        let configs = admin.topic_configs(topic).await.unwrap_or_default();
        if let Some(max) = configs.get("max.message.bytes").and_then(|value| value.parse().ok()) {
            max_message_bytes.insert(topic.clone(), max);
        }
    }
    let application_id = Some(application_id.to_owned());
    let surroundings = Surroundings { application_id, partitions, max_message_bytes, on_failure };
    Ok(Topics { topology, layout, surroundings, changelogs })
}

struct Found {
    id: TopicId,
    partitions: i32,
}

async fn describe(admin: &Admin, topics: &[TopicName]) -> Result<BTreeMap<TopicName, Found>, Error> {
    if topics.is_empty() {
        return Ok(BTreeMap::new());
    }
    let failed = |source| Error::Admin { what: "topics cannot be described".to_owned(), source };
    let mut found = BTreeMap::new();
    for (name, described) in admin.describe_topics(topics).await.map_err(failed)? {
        match described {
            Ok(topic) => {
                let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                found.insert(name, Found { id: topic.id, partitions });
            }
            Err(error) if error.is_not_there() => {}
            Err(source) => return Err(failed(source)),
        }
    }
    Ok(found)
}

async fn create(admin: &Admin, topics: &[NewTopic]) -> Result<(), Error> {
    let failed = |what: String| move |source: AdminError| Error::Admin { what, source };
    let created = admin.create_topics(topics).await.map_err(failed("internal topics cannot be created".to_owned()))?;
    for (name, outcome) in created {
        match outcome {
            Ok(_) => tracing::info!("created internal topic {name}"),
            // Another process of the application was faster; its partitions are checked like any other's.
            Err(error) if error.is_already_there() => {}
            Err(source) => return Err(failed(format!("internal topic {name} cannot be created"))(source)),
        }
    }
    Ok(())
}

async fn wait_until_visible(admin: &Admin, topics: &[TopicName]) -> Result<BTreeMap<TopicName, Found>, Error> {
    let deadline = tokio::time::Instant::now() + VISIBLE_WITHIN;
    loop {
        let found = describe(admin, topics).await?;
        if found.len() == topics.len() || tokio::time::Instant::now() >= deadline {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
