//! `atonce topics`: create, list, describe, delete.

use std::collections::BTreeMap;

use atonce_client::admin::PerItem;
use atonce_client::{Client, Isolation, NewTopic, OffsetSpec, TopicName, TopicPartition};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use serde_json::json;

use super::Cluster;
use crate::failure::{Failure, OrFailure};
use crate::output::say;

/// Creates, lists, describes and deletes topics.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce topics create orders --partitions 8
  atonce topics create totals --partitions 8 --config cleanup.policy=compact
  atonce topics list --json
  atonce topics describe orders
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
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// How many partitions each gets; the broker's `num.partitions` if not given.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// How many replicas each partition gets; the broker's default if not given.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
        replication_factor: Option<i16>,
        /// A topic's setting by its name in Kafka. May be given again.
        #[arg(long = "config", value_name = "KEY=VALUE", value_parser = key_and_value)]
        configs: Vec<(String, String)>,
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
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// A line of JSON for each instead of tables.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Deletes topics with all their records. There is no way back.
    Delete {
        /// Their names.
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// It is no failure if a topic is not there.
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, as in cleanup.policy=compact")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Verb::Create { topics, partitions, replication_factor, configs, if_not_exists, cluster } => {
            let topics: Vec<NewTopic> = topics
                .iter()
                .map(|name| {
                    let topic = NewTopic::new(name.as_str(), partitions.unwrap_or(-1))
                        .replication_factor(replication_factor.unwrap_or(-1));
                    configs.iter().fold(topic, |topic, (key, value)| topic.config(key, value))
                })
                .collect();
            let results = cluster.connect().await?.admin().create_topics(&topics).await;
            let results = results.or_failure(|| "cannot create topics".into(), REACH)?;
            let is_fine = |error: &atonce_client::AdminError| if_not_exists && error.is_already_there();
            each(results, "create", is_fine, "see the cause above; `atonce topics list` shows what is there")
        }
        Verb::List { internal, json, cluster } => list(&cluster.connect().await?, internal, json).await,
        Verb::Describe { topics, json, cluster } => describe(&cluster.connect().await?, &topics, json).await,
        Verb::Delete { topics, if_exists, cluster } => {
            let topics: Vec<TopicName> = topics.into_iter().map(TopicName::from).collect();
            let results = cluster.connect().await?.admin().delete_topics(&topics).await;
            let results = results.or_failure(|| "cannot delete topics".into(), REACH)?;
            let is_fine = |error: &atonce_client::AdminError| if_exists && error.is_not_there();
            each(results, "delete", is_fine, "see the cause above; `atonce topics list` shows what is there")
        }
    }
}

const REACH: &str = "see the cause above; is the broker up, and is --bootstrap-servers right?";

/// Nothing is said of what worked; the first that did not is the failure, after the others have been named.
fn each<T>(
    results: PerItem<TopicName, T>,
    verb: &str,
    is_fine: impl Fn(&atonce_client::AdminError) -> bool,
    next: &str,
) -> Result<(), Failure> {
    let failed: BTreeMap<TopicName, _> = results
        .into_iter()
        .filter_map(|(topic, result)| Some((topic, result.err().filter(|error| !is_fine(error))?)))
        .collect();
    let others: Vec<String> = failed.keys().map(ToString::to_string).collect();
    match failed.into_iter().next() {
        None => Ok(()),
        Some((_, error)) => Err(error).or_failure(|| format!("cannot {verb} {}", others.join(", ")), next),
    }
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
        eprintln!("there are no topics; `atonce topics create NAME` makes one");
        return Ok(());
    }
    let mut table = table(&["topic", "partitions", "id"]);
    for topic in &topics {
        table.add_row([topic.name.to_string(), topic.partitions.to_string(), topic.id.to_string()]);
    }
    say(&table)?;
    Ok(())
}

async fn describe(client: &Client, topics: &[String], json: bool) -> Result<(), Failure> {
    let admin = client.admin();
    let names: Vec<TopicName> = topics.iter().map(TopicName::from).collect();
    let descriptions = admin.describe_topics(&names).await.or_failure(|| "cannot describe topics".into(), REACH)?;
    for (name, description) in descriptions {
        let description = description.or_failure(
            || format!("cannot describe {name}"),
            "see the cause above; `atonce topics list` shows what is there",
        )?;
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
        let at = |offsets: &BTreeMap<TopicPartition, atonce_client::admin::ListedOffset>, partition: i32| {
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

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(head.iter().copied());
    table
}
