//! The application's own topics: made before the workers start, with checked partition counts.

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_client::{Admin, AdminError, NewTopic};
use atonce_kernel::{TopicId, TopicName};
use atonce_streams_core::topology::{InternalTopicKind, Layout, Surroundings};
use atonce_streams_core::{FailureHandler, Topology};

use crate::error::Error;

/// How long a topic that was just created may take to be seen.
const VISIBLE_WITHIN: Duration = Duration::from_secs(30);

/// Kafka's default of `delete.retention.ms`, for a change log whose configuration cannot be read.
const DELETE_RETENTION_MS: i64 = 24 * 60 * 60 * 1000;

/// What workers know of topics.
#[derive(Debug)]
pub(crate) struct Topics {
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

/// Looks up the topics that are read and written, and makes the internal ones that are not there.
pub(crate) async fn prepare(
    admin: &Admin,
    topology: &Topology,
    application_id: &str,
    on_failure: FailureHandler,
) -> Result<Topics, Error> {
    let sources: Vec<TopicName> = topology.source_topics().into_iter().collect();
    let sinks: Vec<TopicName> = topology.sink_topics().into_iter().collect();
    let mut named = sources.clone();
    named.extend(sinks.iter().cloned());
    let known = describe(admin, &named).await?;
    let layout = topology.layout(Some(application_id), |topic| known.get(topic).map(|topic| topic.partitions))?;

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
    Ok(Topics { layout, surroundings, changelogs })
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
