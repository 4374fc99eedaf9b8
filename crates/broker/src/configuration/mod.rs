//! What can be set, in Kafka's dotted keys with Kafka's defaults where one node makes sense of them.
//!
//! The tables are all there is: [`BROKER_KEYS`], [`TOPIC_KEYS`], [`GROUP_KEYS`] and [`CLIENT_METRICS_KEYS`]. A key that is in
//! none is refused by name: a setting that is silently ignored is worse than one that is missing. [`Settings`] is the broker's
//! table read once, at the start; what may change while it runs is looked up by [`Values`], and a topic's part of that stands
//! parsed in [`TopicSettings`].
//!
//! **What it does not know**: files, command lines, who asks.

mod broker_keys;
mod group_keys;
mod listeners;
mod properties_file;
mod topic_keys;
mod topic_settings;
mod values;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use broker_keys::BROKER_KEYS;
pub(crate) use group_keys::{CLIENT_METRICS_KEYS, GROUP_KEYS};
pub(crate) use listeners::{HostAndPort, parse as parse_listeners};
pub(crate) use properties_file::parse as parse_properties;
pub(crate) use topic_keys::{TOPIC_KEYS, TopicKey};
pub(crate) use topic_settings::TopicSettings;
pub(crate) use values::{MIN_INSYNC_REPLICAS, Source, Standing, Values};

/// What a value has to look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ValueKind {
    /// `true` or `false`.
    Boolean,
    /// A 32-bit number from `least` to `most`.
    Int { least: i32, most: i32 },
    /// A 64-bit number from `least` to `most`.
    Long { least: i64, most: i64 },
    /// A number from 0 to 1.
    Share,
    /// A number of things a second, of which there is one at least.
    Rate,
    /// Any text.
    Text,
    /// Any words, separated by commas.
    List,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Some of these words, separated by commas.
    SomeOf(&'static [&'static str]),
}

/// A key: its name, form, default and reason to exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Kafka's name of it.
    pub(crate) name: &'static str,
    /// What a value looks like.
    pub(crate) kind: ValueKind,
    /// The value when nobody set one.
    pub(crate) default: Option<&'static str>,
    /// What it does, for people who ask.
    pub(crate) documentation: &'static str,
    /// Whether it may be changed while the broker runs.
    pub(crate) is_dynamic: bool,
    /// Accepted in files, and without effect.
    pub(crate) is_kept: bool,
}

const fn key(name: &'static str, kind: ValueKind, default: &'static str, documentation: &'static str) -> Key {
    Key { name, kind, default: Some(default), documentation, is_dynamic: false, is_kept: false }
}

/// May be changed while the broker runs.
const fn dynamic(key: Key) -> Key {
    Key { is_dynamic: true, ..key }
}

/// Accepted without effect.
const fn kept(key: Key) -> Key {
    Key { is_kept: true, ..key }
}

/// Has no default.
const fn unset(key: Key) -> Key {
    Key { default: None, ..key }
}

const ANY_INT: ValueKind = ValueKind::Int { least: 0, most: i32::MAX };
const POSITIVE: ValueKind = ValueKind::Int { least: 1, most: i32::MAX };

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// No such key.
    #[error("Unknown configuration {key}.{}", nearest.as_ref().map(|it| format!(" Did you mean {it}?")).unwrap_or_default())]
    UnknownKey {
        /// What was given.
        key: String,
        /// The key that is most like it, if one is.
        nearest: Option<&'static str>,
    },
    /// The value does not fit the key.
    #[error("Invalid value {value} for configuration {key}: {expected}")]
    InvalidValue {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// A line of a file that is neither a comment nor a setting.
    #[error("line {line} of the configuration is no KEY=VALUE: {text}")]
    Line {
        /// Its number, from 1 on.
        line: usize,
        /// What stands there.
        text: String,
    },
}

/// The bound that a number breaks, in Kafka's words.
fn bound<N: PartialOrd + fmt::Display>(number: N, least: N, most: N) -> Result<(), String> {
    if number < least {
        return Err(format!("Value must be at least {least}"));
    }
    if number > most {
        return Err(format!("Value must be no more than {most}"));
    }
    Ok(())
}

impl ValueKind {
    fn check(self, value: &str) -> Result<(), String> {
        let no_number = |what: &str| format!("Not a number of type {what}");
        match self {
            Self::Boolean if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => Ok(()),
            Self::Boolean => Err("Expected value to be either true or false".to_owned()),
            Self::Int { least, most } => bound(value.parse::<i32>().map_err(|_| no_number("INT"))?, least, most),
            Self::Long { least, most } => bound(value.parse::<i64>().map_err(|_| no_number("LONG"))?, least, most),
            Self::Share => {
                let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
                bound(number.ok_or_else(|| no_number("DOUBLE"))?, 0.0, 1.0)
            }
            Self::Rate => {
                let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
                bound(number.ok_or_else(|| no_number("DOUBLE"))?, 1.0, f64::MAX)
            }
            Self::Text | Self::List => Ok(()),
            Self::OneOf(words) if words.contains(&value) => Ok(()),
            Self::OneOf(words) => Err(format!("String must be one of: {}", words.join(", "))),
            Self::SomeOf(words) => {
                if value.is_empty() || value.split(',').all(|word| words.contains(&word.trim())) {
                    return Ok(());
                }
                Err(format!("String must be one of: {}", words.join(", ")))
            }
        }
    }

    /// Whether a value is several words.
    pub(crate) fn is_list(self) -> bool {
        match self {
            Self::List | Self::SomeOf(_) => true,
            Self::Boolean
            | Self::Int { .. }
            | Self::Long { .. }
            | Self::Share
            | Self::Rate
            | Self::Text
            | Self::OneOf(_) => false,
        }
    }
}

impl Key {
    /// Whether `value` fits.
    pub(crate) fn check(&self, value: &str) -> Result<(), ConfigurationError> {
        let value = value.trim();
        self.kind.check(value).map_err(|expected| ConfigurationError::InvalidValue {
            key: self.name.to_owned(),
            value: value.to_owned(),
            expected,
        })
    }

    /// The wire's number for the form (KIP-569).
    pub(crate) fn wire_type(&self) -> i8 {
        match self.kind {
            ValueKind::Boolean => 1,
            ValueKind::Text | ValueKind::OneOf(_) => 2,
            ValueKind::Int { .. } => 3,
            ValueKind::Long { .. } => 5,
            ValueKind::Share | ValueKind::Rate => 6,
            ValueKind::List | ValueKind::SomeOf(_) => 7,
        }
    }
}

/// The key of that name in `table`.
pub(crate) fn find(table: &'static [Key], name: &str) -> Result<&'static Key, ConfigurationError> {
    table.iter().find(|key| key.name == name).ok_or_else(|| ConfigurationError::UnknownKey {
        key: name.to_owned(),
        nearest: nearest(table.iter().map(|key| key.name), name),
    })
}

/// A topic's key of that name.
pub(crate) fn find_topic_key(name: &str) -> Option<&'static TopicKey> {
    TOPIC_KEYS.iter().find(|topic| topic.key.name == name)
}

/// The name that is most like `name`, if it takes few changes to come from one to the other.
fn nearest(names: impl Iterator<Item = &'static str>, name: &str) -> Option<&'static str> {
    // Names are short; one that is not is like none of them.
    const NAME_BYTES_MAX: usize = 100;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let (changes, found) = names.map(|known| (changes_between(known, name), known)).min()?;
    (changes <= (name.len() / 3).max(2)).then_some(found)
}

/// How many letters must be put in, taken away or replaced.
fn changes_between(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = (0..=b.len()).collect();
    for (row, in_a) in a.chars().enumerate() {
        let mut now = vec![row + 1];
        for (column, in_b) in b.iter().enumerate() {
            let replaced = before[column] + usize::from(in_a != *in_b);
            now.push(replaced.min(before[column + 1] + 1).min(now[column] + 1));
        }
        before = now;
    }
    before[b.len()]
}

/// What was set for the broker when it was started; all else has its default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    values: BTreeMap<&'static str, String>,
}

impl Properties {
    /// Sets `name`.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigurationError> {
        let key = find(BROKER_KEYS, name)?;
        key.check(value)?;
        self.values.insert(key.name, value.trim().to_owned());
        Ok(())
    }

    /// What was set, if anything was.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// What was set and has no effect.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        self.values.keys().copied().filter(|name| find(BROKER_KEYS, name).is_ok_and(|key| key.is_kept))
    }

    /// What holds: what was set, else the default.
    ///
    /// Panics: if there is no such key, or neither.
    fn value(&self, name: &'static str) -> &str {
        self.given(name).unwrap_or_else(|| {
            let key = find(BROKER_KEYS, name).expect("asked for by its name in the table");
            key.default.expect("asked for because it has a default")
        })
    }

    fn number<N: std::str::FromStr>(&self, name: &'static str) -> N {
        self.value(name).parse().ok().expect("checked when it was set")
    }

    fn boolean(&self, name: &'static str) -> bool {
        self.value(name).eq_ignore_ascii_case("true")
    }

    /// `node.id`, or its older name.
    fn node_id(&self) -> i32 {
        let older: i32 = self.number("broker.id");
        if self.given("node.id").is_none() && older >= 0 { older } else { self.number("node.id") }
    }

    /// Reads the table once.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            node_id: self.node_id(),
            auto_create_topics: self.boolean("auto.create.topics.enable"),
            partitions_default: self.number("num.partitions"),
            connections_max: self.number("connections.max"),
            connection_idle_ms_max: self.number("connections.max.idle.ms"),
            fetch_bytes_max: self.number("fetch.max.bytes"),
            fetch_sessions_max: self.number("max.incremental.fetch.session.cache.slots"),
            request_bytes_max: self.number("socket.request.max.bytes"),
            queued_request_bytes_max: self.number("queued.max.request.bytes"),
            queued_response_bytes_max: self.number("queued.max.response.bytes"),
            offsets_partitions: self.number("offsets.topic.num.partitions"),
            transaction_state_partitions: self.number("transaction.state.log.num.partitions"),
            transaction_version: self.number("transaction.version"),
            transaction_timeout_ms_max: self.number("transaction.max.timeout.ms"),
            transactional_id_expiration_ms: self.number("transactional.id.expiration.ms"),
            producer_id_expiration_ms: self.number("producer.id.expiration.ms"),
            offset_metadata_bytes_max: self.number("offset.metadata.max.bytes"),
            offsets_retention_ms: self.number::<i64>("offsets.retention.minutes") * 60_000,
            group_initial_rebalance_delay_ms: self.number("group.initial.rebalance.delay.ms"),
            group_session_timeout_ms_min: self.number("group.min.session.timeout.ms"),
            group_session_timeout_ms_max: self.number("group.max.session.timeout.ms"),
            group_members_max: self.number("group.max.size"),
            consumer_assignment_interval_ms: self.number("group.consumer.assignment.interval.ms"),
            consumer_assignors: self
                .value("group.consumer.assignors")
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
            consumer_heartbeat_interval_ms: self.number("group.consumer.heartbeat.interval.ms"),
            consumer_members_max: self.number("group.consumer.max.size"),
            consumer_migration_policy: self.value("group.consumer.migration.policy").to_owned(),
            consumer_session_timeout_ms: self.number("group.consumer.session.timeout.ms"),
            offsets_segment_bytes: self.number("offsets.topic.segment.bytes"),
            transaction_state_segment_bytes: self.number("transaction.state.log.segment.bytes"),
            is_cleaner_enabled: self.boolean("log.cleaner.enable"),
            cleaner_backoff_ms: self.number("log.cleaner.backoff.ms"),
            cleaner_key_bytes_max: self.number("log.cleaner.dedupe.buffer.size"),
            retention_check_interval_ms: self.number("log.retention.check.interval.ms"),
            properties: self.clone(),
        }
    }
}

/// The broker's settings, as they stand while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) node_id: i32,
    pub(crate) auto_create_topics: bool,
    pub(crate) partitions_default: i32,
    pub(crate) connections_max: usize,
    pub(crate) connection_idle_ms_max: u64,
    pub(crate) fetch_bytes_max: i32,
    pub(crate) fetch_sessions_max: usize,
    pub(crate) request_bytes_max: usize,
    pub(crate) queued_request_bytes_max: usize,
    pub(crate) queued_response_bytes_max: usize,
    pub(crate) offsets_partitions: i32,
    pub(crate) transaction_state_partitions: i32,
    pub(crate) transaction_version: i16,
    pub(crate) transaction_timeout_ms_max: i32,
    pub(crate) transactional_id_expiration_ms: i64,
    pub(crate) producer_id_expiration_ms: i64,
    pub(crate) offset_metadata_bytes_max: usize,
    pub(crate) offsets_retention_ms: i64,
    pub(crate) group_initial_rebalance_delay_ms: i32,
    pub(crate) group_session_timeout_ms_min: i32,
    pub(crate) group_session_timeout_ms_max: i32,
    pub(crate) group_members_max: usize,
    pub(crate) consumer_assignment_interval_ms: i32,
    pub(crate) consumer_assignors: Vec<String>,
    pub(crate) consumer_heartbeat_interval_ms: i32,
    pub(crate) consumer_members_max: usize,
    pub(crate) consumer_migration_policy: String,
    pub(crate) consumer_session_timeout_ms: i32,
    pub(crate) offsets_segment_bytes: i32,
    pub(crate) transaction_state_segment_bytes: i32,
    pub(crate) is_cleaner_enabled: bool,
    pub(crate) cleaner_backoff_ms: i64,
    pub(crate) cleaner_key_bytes_max: usize,
    pub(crate) retention_check_interval_ms: i64,
    /// What was set by hand, for those who ask.
    pub(crate) properties: Properties,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_fits_its_own_key_and_names_are_sorted() {
        let topic_keys = TOPIC_KEYS.iter().map(|topic| &topic.key);
        for key in [BROKER_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS].into_iter().flatten().chain(topic_keys) {
            if let Some(default) = key.default {
                assert_eq!(key.check(default), Ok(()), "{}", key.name);
            }
        }
        for table in [BROKER_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS] {
            assert!(table.is_sorted_by_key(|key| key.name));
        }
        assert!(TOPIC_KEYS.is_sorted_by_key(|topic| topic.key.name));
        let settings = Properties::default().settings();
        assert_eq!((settings.offsets_partitions, settings.transaction_version, settings.node_id), (50, 2, 1));
    }

    #[test]
    fn a_topics_default_is_the_brokers() {
        for topic in TOPIC_KEYS {
            for (name, _) in topic.synonyms {
                find(BROKER_KEYS, name).unwrap_or_else(|error| panic!("{}: {error}", topic.key.name));
            }
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_the_nearest_name() {
        let mut properties = Properties::default();
        properties.set("num.partitions", "4").expect("fits");
        assert_eq!(properties.settings().partitions_default, 4);
        for (given, expected) in [
            ("num.partition", "Unknown configuration num.partition. Did you mean num.partitions?"),
            ("log.retention.hour", "Unknown configuration log.retention.hour. Did you mean log.retention.hours?"),
            (
                "transaction.timeout.max.ms",
                "Unknown configuration transaction.timeout.max.ms. Did you mean transaction.max.timeout.ms?",
            ),
            ("nothing.like.it", "Unknown configuration nothing.like.it."),
        ] {
            assert_eq!(properties.set(given, "4").expect_err("no such key").to_string(), expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_in_kafkas_words() {
        for (key, value, expected) in [
            ("num.partitions", "0", Err("Value must be at least 1")),
            ("num.partitions", "x", Err("Not a number of type INT")),
            ("log.retention.ms", "-2", Err("Value must be at least -1")),
            ("log.retention.ms", "x", Err("Not a number of type LONG")),
            ("compression.zstd.level", "99", Err("Value must be no more than 22")),
            ("log.cleaner.min.cleanable.ratio", "2.0", Err("Value must be no more than 1")),
            ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", Ok(())),
            ("log.cleaner.io.max.bytes.per.second", "0.5", Err("Value must be at least 1")),
            ("log.cleaner.io.max.bytes.per.second", "inf", Err("Not a number of type DOUBLE")),
            ("log.cleaner.min.cleanable.ratio", "NaN", Err("Not a number of type DOUBLE")),
            ("log.cleanup.policy", "nix", Err("String must be one of: compact, delete")),
            ("log.cleanup.policy", "compact, delete", Ok(())),
            ("auto.create.topics.enable", "TRUE", Ok(())),
            ("auto.create.topics.enable", "maybe", Err("Expected value to be either true or false")),
        ] {
            let found = Properties::default().set(key, value).map_err(|error| error.to_string());
            let expected = expected.map_err(|why| format!("Invalid value {value} for configuration {key}: {why}"));
            assert_eq!(found, expected, "{key}={value}");
        }
    }

    #[test]
    fn the_older_name_of_the_nodes_id_holds_where_the_newer_one_is_not_given() {
        let mut properties = Properties::default();
        properties.set("broker.id", "7").expect("fits");
        assert_eq!(properties.settings().node_id, 7);
        properties.set("node.id", "8").expect("fits");
        assert_eq!(properties.settings().node_id, 8);
    }
}
