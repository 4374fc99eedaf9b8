//! `atonce topics`: create, list, describe, alter, delete.

use std::collections::BTreeMap;

use atonce_client::admin::{AlterConfig, ConfigResource, ListedOffset};
use atonce_client::{Admin, AdminError, Client, Isolation, NewTopic, OffsetSpec, TopicName, TopicPartition};
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Cluster, REACH, SEE_TOPICS, each, key_and_value, topic_name};
use crate::failure::{Failure, OrFailure};
use crate::output::{remark, say, table};

/// Creates, lists, describes, alters and deletes topics.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce topics create orders --partitions 8
  atonce topics create totals --partitions 8 --config cleanup.policy=compact
  atonce topics list --json
  atonce topics describe orders
  atonce topics alter orders --partitions 16 --config retention.ms=86400000
  atonce topics delete orders totals")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Creates topics.
    Create {
        /// Their names.
        #[arg(required = true, value_name = "TOPIC", value_parser = topic_name)]
        topics: Vec<TopicName>,
        /// How many partitions each gets; the broker's `num.partitions` if not given.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// How many replicas each partition gets; the broker's default if not given.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
        replication_factor: Option<i16>,
        /// A topic's setting by its name in Kafka. May be given again.
        #[arg(long = "config", value_name = "KEY=VALUE", value_parser = key_and_value)]
        configs: Vec<(String, String)>,
        /// Only says whether they could be created.
        #[arg(long)]
        validate_only: bool,
        /// It is no failure if a topic is there already.
        #[arg(long)]
        if_not_exists: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Lists topics.
    List {
        /// Also those of the cluster itself (offsets, transactions).
        #[arg(long)]
        internal: bool,
        /// A line of JSON for each instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Shows topics with their partitions and settings.
    Describe {
        /// Their names.
        #[arg(required = true, value_name = "TOPIC", value_parser = topic_name)]
        topics: Vec<TopicName>,
        /// A line of JSON for each instead of tables.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Gives a topic more partitions, or other settings.
    ///
    /// With more partitions a key may go to another one than before: records that were written stay where they are.
    #[command(group = clap::ArgGroup::new("changes").required(true).multiple(true).args(["partitions", "configs", "deletes"]))]
    Alter {
        /// Its name.
        #[arg(value_parser = topic_name)]
        topic: TopicName,
        /// How many partitions it is to have, more than it has.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// A setting by its name in Kafka. May be given again.
        #[arg(long = "config", value_name = "KEY=VALUE", value_parser = key_and_value)]
        configs: Vec<(String, String)>,
        /// A setting that goes back to the broker's. May be given again.
        #[arg(long = "delete-config", value_name = "KEY")]
        deletes: Vec<String>,
        /// Only says whether it could be altered so.
        #[arg(long)]
        validate_only: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Deletes topics with all their records. There is no way back.
    Delete {
        /// Their names.
        #[arg(required = true, value_name = "TOPIC", value_parser = topic_name)]
        topics: Vec<TopicName>,
        /// It is no failure if a topic is not there.
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
}

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Verb::Create { topics, partitions, replication_factor, configs, validate_only, if_not_exists, cluster } => {
            let topics: Vec<NewTopic> = topics
                .into_iter()
                .map(|name| {
                    let topic = NewTopic::new(name, partitions.unwrap_or(-1))
                        .replication_factor(replication_factor.unwrap_or(-1));
                    configs.iter().fold(topic, |topic, (key, value)| topic.config(key, value))
                })
                .collect();
            let admin = cluster.connect().await?.admin();
            let is_fine = |error: &AdminError| if_not_exists && error.is_already_there();
            if validate_only {
                let results = admin.validate_topics(&topics).await;
                let results = results.or_failure(|| "cannot check topics".into(), REACH)?;
                return each(results, "create", is_fine, SEE_TOPICS).map(drop);
            }
            let results = admin.create_topics(&topics).await.or_failure(|| "cannot create topics".into(), REACH)?;
            each(results, "create", is_fine, SEE_TOPICS).map(drop)
        }
        Verb::List { internal, json, cluster } => list(&cluster.connect().await?, internal, json).await,
        Verb::Describe { topics, json, cluster } => describe(&cluster.connect().await?, &topics, json).await,
        Verb::Alter { topic, partitions, configs, deletes, validate_only, cluster } => {
            let sets = configs.into_iter().map(|(key, value)| AlterConfig::set(key, value));
            let changes = sets.chain(deletes.into_iter().map(AlterConfig::delete)).collect();
            alter(&cluster.connect().await?.admin(), &topic, partitions, changes, validate_only).await
        }
        Verb::Delete { topics, if_exists, cluster } => {
            let results = cluster.connect().await?.admin().delete_topics(&topics).await;
            let results = results.or_failure(|| "cannot delete topics".into(), REACH)?;
            let is_fine = |error: &AdminError| if_exists && error.is_not_there();
            each(results, "delete", is_fine, SEE_TOPICS).map(drop)
        }
    }
}

/// Settings first: they can be changed back, and partitions cannot be taken away.
async fn alter(
    admin: &Admin,
    topic: &TopicName,
    partitions: Option<i32>,
    changes: Vec<AlterConfig>,
    validate_only: bool,
) -> Result<(), Failure> {
    let failed = || format!("cannot alter {topic}");
    if !changes.is_empty() {
        let changes = [(ConfigResource::Topic(topic.clone()), changes)];
        let altered = match validate_only {
            true => admin.validate_configs(&changes).await,
            false => admin.alter_configs(&changes).await,
        };
        let next = "see the cause above; `atonce configs describe topic NAME --all` shows the settings there are";
        each(altered.or_failure(failed, REACH)?, "alter", |_| false, next)?;
    }
    let Some(count) = partitions else { return Ok(()) };
    let widened = match validate_only {
        true => admin.validate_partitions(topic, count).await,
        false => admin.create_partitions(topic, count).await,
    };
    widened.or_failure(failed, "see the cause above; `atonce topics describe NAME` shows the partitions it has")
}

async fn list(client: &Client, internal: bool, json: bool) -> Result<(), Failure> {
    let mut topics = client.admin().list_topics().await.or_failure(|| "cannot list topics".into(), REACH)?;
    topics.retain(|topic| internal || !topic.is_internal);
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    if json {
        for topic in &topics {
            say(json!({"topic": topic.name.as_str(), "id": topic.id.to_string(), "partitions": topic.partitions,
                       "internal": topic.is_internal}))?;
        }
        return Ok(());
    }
    if topics.is_empty() {
        remark("there are no topics; `atonce topics create NAME` makes one");
        return Ok(());
    }
    let mut table = table(&["topic", "partitions", "id"]);
    for topic in &topics {
        table.add_row([topic.name.to_string(), topic.partitions.to_string(), topic.id.to_string()]);
    }
    say(&table)?;
    Ok(())
}

async fn describe(client: &Client, topics: &[TopicName], json: bool) -> Result<(), Failure> {
    let admin = client.admin();
    let descriptions = admin.describe_topics(topics).await.or_failure(|| "cannot describe topics".into(), REACH)?;
    for (name, description) in each(descriptions, "describe", |_| false, SEE_TOPICS)? {
        let partitions = || description.partitions.iter().map(|p| TopicPartition::new(name.clone(), p.partition));
        let look_up = async |which: OffsetSpec, isolation: Isolation| {
            let asked: Vec<_> = partitions().map(|partition| (partition, which)).collect();
            admin
                .list_offsets(&asked, isolation)
                .await
                .or_failure(|| format!("cannot look up offsets of {name}"), REACH)
        };
        let start = look_up(OffsetSpec::Earliest, Isolation::ReadUncommitted).await?;
        let high = look_up(OffsetSpec::Latest, Isolation::ReadUncommitted).await?;
        let stable = look_up(OffsetSpec::Latest, Isolation::ReadCommitted).await?;
        let configs =
            admin.topic_configs(&name).await.or_failure(|| format!("cannot read the settings of {name}"), REACH)?;
        let at = |offsets: &BTreeMap<TopicPartition, ListedOffset>, partition: i32| {
            offsets.get(&TopicPartition::new(name.clone(), partition)).and_then(|listed| listed.offset)
        };
        if json {
            let partitions: Vec<_> = description
                .partitions
                .iter()
                .map(|p| {
                    json!({"partition": p.partition, "leader": p.leader, "replicas": p.replicas,
                           "in_sync_replicas": p.in_sync_replicas, "log_start_offset": at(&start, p.partition),
                           "last_stable_offset": at(&stable, p.partition), "high_watermark": at(&high, p.partition)})
                })
                .collect();
            say(
                json!({"topic": name.as_str(), "id": description.id.to_string(), "partitions": partitions, "configs": configs}),
            )?;
            continue;
        }
        say(format_args!("{name} ({})", description.id))?;
        let mut table = table(&["partition", "leader", "replicas", "log start", "last stable", "high watermark"]);
        let show = |offset: Option<i64>| offset.map_or_else(|| "?".to_owned(), |offset| offset.to_string());
        for p in &description.partitions {
            let replicas: Vec<String> = p.replicas.iter().map(ToString::to_string).collect();
            table.add_row([
                p.partition.to_string(),
                p.leader.to_string(),
                replicas.join(","),
                show(at(&start, p.partition)),
                show(at(&stable, p.partition)),
                show(at(&high, p.partition)),
            ]);
        }
        say(&table)?;
        for (key, value) in &configs {
            say(format_args!("  {key}={value}"))?;
        }
    }
    Ok(())
}
