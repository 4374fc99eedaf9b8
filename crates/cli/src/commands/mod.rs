//! The commands, one file each, and what they share: the address flag, and how names are read.

pub(crate) mod broker;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod configs;
pub(crate) mod consume;
pub(crate) mod data_folder;
pub(crate) mod groups;
pub(crate) mod produce;
pub(crate) mod records;
pub(crate) mod streams;
pub(crate) mod topics;
pub(crate) mod transactions;

use std::collections::BTreeMap;
use std::fmt::Display;

use atonce_client::admin::PerItem;
use atonce_client::{AdminError, Client, GroupId, Isolation, TopicName, TopicPartition, TransactionalId};
use clap::{Args, ValueEnum};

use crate::failure::{Failure, OrFailure};

/// Where the cluster is.
#[derive(Clone, Debug, Args)]
pub(crate) struct Cluster {
    /// A broker of the cluster, or several with commas between.
    #[arg(long, value_name = "HOST:PORT", env = "ATONCE_BOOTSTRAP_SERVERS", hide_env_values = true, default_value = "127.0.0.1:9092", value_parser = addresses)]
    bootstrap_servers: String,
}

impl Cluster {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.bootstrap_servers).await
    }
}

/// Which records count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IsolationChoice {
    /// Those of committed transactions, and those outside any.
    Committed,
    /// All, also of transactions that are open or were aborted.
    Uncommitted,
}

impl From<IsolationChoice> for Isolation {
    fn from(choice: IsolationChoice) -> Self {
        match choice {
            IsolationChoice::Committed => Self::ReadCommitted,
            IsolationChoice::Uncommitted => Self::ReadUncommitted,
        }
    }
}

/// What to do where the cluster does not answer at all.
const REACH: &str = "see the cause above; is the broker up, and is --bootstrap-servers right?";

/// What worked, if all did or what did not is fine. Else a failure that names all that did not, with their causes.
fn each<K: Ord + Display, V>(
    results: PerItem<K, V>,
    verb: &str,
    is_fine: impl Fn(&AdminError) -> bool,
    next: &str,
) -> Result<BTreeMap<K, V>, Failure> {
    let mut done = BTreeMap::new();
    let (mut names, mut causes) = (Vec::new(), Vec::new());
    for (key, result) in results {
        match result {
            Ok(value) => drop(done.insert(key, value)),
            Err(error) if is_fine(&error) => {}
            Err(error) => {
                names.push(key.to_string());
                causes.push(error.to_string());
            }
        }
    }
    if names.is_empty() {
        return Ok(done);
    }
    // One refusal of all is often said in the same words.
    causes.dedup();
    Err(Failure::caused(format!("cannot {verb} {}", names.join(", ")), causes.join("; "), next))
}

/// A topic's name, by Kafka's rules: so that a slip of the keyboard is told at once.
fn topic_name(text: &str) -> Result<TopicName, String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if text.is_empty() {
        return Err("a topic's name has at least one character".to_owned());
    }
    if text == "." || text == ".." {
        return Err(format!("a topic cannot be called {text:?}"));
    }
    if text.len() > 249 {
        return Err(format!("a topic's name has at most 249 characters, and this one has {}", text.len()));
    }
    match text.chars().find(|it| !u8::try_from(*it).is_ok_and(is_legal)) {
        Some(wrong) => {
            Err(format!("{wrong:?} cannot stand in a topic's name: it has letters a-z, digits, '.', '_' and '-'"))
        }
        None => Ok(TopicName::from(text)),
    }
}

/// A group's id: any text but none.
fn group_id(text: &str) -> Result<GroupId, String> {
    if text.is_empty() { Err("a group's id has at least one character".to_owned()) } else { Ok(GroupId::from(text)) }
}

/// A transactional id: any text but none.
fn transactional_id(text: &str) -> Result<TransactionalId, String> {
    if text.is_empty() {
        return Err("a transactional id has at least one character".to_owned());
    }
    Ok(TransactionalId::from(text))
}

/// A topic, or some of its partitions: `orders`, `orders:0`, `orders:0,2`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selection {
    topic: TopicName,
    /// All, if none is named.
    partitions: Vec<i32>,
}

impl Selection {
    fn contains(&self, it: &TopicPartition) -> bool {
        it.topic == self.topic && (self.partitions.is_empty() || self.partitions.contains(&it.partition))
    }
}

fn selection(text: &str) -> Result<Selection, String> {
    let (topic, partitions) = match text.split_once(':') {
        Some((topic, partitions)) => {
            let read = |it: &str| it.trim().parse::<i32>().ok().filter(|it| *it >= 0);
            let read: Option<Vec<i32>> = partitions.split(',').map(read).collect();
            (topic, read.ok_or("expected partitions after the colon, as in orders:0,2")?)
        }
        None => (text, Vec::new()),
    };
    Ok(Selection { topic: topic_name(topic)?, partitions })
}

/// The partitions that are selected, of topics that are there.
async fn partitions(client: &Client, selections: &[Selection]) -> Result<Vec<TopicPartition>, Failure> {
    let names: Vec<TopicName> = selections.iter().map(|it| it.topic.clone()).collect();
    let described =
        client.admin().describe_topics(&names).await.or_failure(|| "cannot look topics up".into(), REACH)?;
    let described = each(described, "look up", |_| false, SEE_TOPICS)?;
    let mut all = Vec::new();
    for it in selections {
        let Some(description) = described.get(&it.topic) else { continue };
        let there: Vec<i32> = description.partitions.iter().map(|it| it.partition).collect();
        if let Some(wanted) = it.partitions.iter().find(|wanted| !there.contains(wanted)) {
            return Err(no_partition(&it.topic, *wanted, there.len()));
        }
        let partitions = if it.partitions.is_empty() { &there } else { &it.partitions };
        all.extend(partitions.iter().map(|partition| TopicPartition::new(it.topic.clone(), *partition)));
    }
    all.sort();
    all.dedup();
    Ok(all)
}

const SEE_TOPICS: &str = "see the cause above; `atonce topics list` shows what is there";

/// `KEY=VALUE`.
fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, as in cleanup.policy=compact")?;
    if key.trim().is_empty() {
        return Err("expected a key before the equals sign, as in cleanup.policy=compact".to_owned());
    }
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// A partition that was asked for and is not there.
fn no_partition(topic: &TopicName, wanted: i32, count: usize) -> Failure {
    Failure::new(
        format!("{topic} has no partition {wanted}"),
        format!("it has {count}; the first is 0 (`atonce topics describe {topic}`)"),
    )
}

/// `HOST:PORT`, also with an IPv6 address in brackets.
pub(crate) fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT, as in kafka.example.org:9092")?;
    if host.is_empty() {
        return Err("expected a host before the colon, as in 127.0.0.1:9092".to_owned());
    }
    let port = port.parse().map_err(|_| format!("{port} is no port; expected a number up to 65535"))?;
    Ok((host.to_owned(), port))
}

/// One `HOST:PORT`, as it was written.
fn address(text: &str) -> Result<String, String> {
    host_and_port(text).map(|_| text.to_owned())
}

/// One or more of `HOST:PORT` with commas between, as they were written.
pub(crate) fn addresses(text: &str) -> Result<String, String> {
    let mut entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).peekable();
    if entries.peek().is_none() {
        return Err("expected HOST:PORT, as in kafka.example.org:9092".to_owned());
    }
    entries.try_for_each(|entry| host_and_port(entry).map(|_| ()))?;
    Ok(text.to_owned())
}

/// Connects to the cluster at `bootstrap_servers`.
pub(crate) async fn connect(bootstrap_servers: &str) -> Result<Client, Failure> {
    Client::builder(bootstrap_servers).client_id("atonce").connect().await.or_failure(
        || format!("cannot reach a broker at {bootstrap_servers}"),
        "start one with `atonce broker --data-dir ./data`, or name another with --bootstrap-servers HOST:PORT",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_are_held_against_kafkas_rules() {
        for good in ["orders", "a.b_c-D9", "...", &"x".repeat(249)] {
            assert_eq!(topic_name(good), Ok(TopicName::from(good)));
        }
        for wrong in ["", ".", "..", "a b", "a/b", "größe", &"x".repeat(250)] {
            assert!(topic_name(wrong).is_err(), "{wrong:?}");
        }
        assert!(topic_name("a b").is_err_and(|told| told.contains("' '")));
    }

    #[test]
    fn partitions_are_selected_after_a_colon() {
        let of = |partitions: &[i32]| Ok(Selection { topic: "orders".into(), partitions: partitions.to_vec() });
        assert_eq!(selection("orders"), of(&[]));
        assert_eq!(selection("orders:0"), of(&[0]));
        assert_eq!(selection("orders:0,2"), of(&[0, 2]));
        for wrong in ["orders:", "orders:x", "orders:-1", "orders:0,", ":0"] {
            assert!(selection(wrong).is_err(), "{wrong}");
        }
    }
}
