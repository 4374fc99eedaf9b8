//! What can be set, in Kafka's dotted keys with Kafka's defaults where one node makes sense of them.
//!
//! Two tables are all there is: [`BROKER_KEYS`] and [`TOPIC_KEYS`]. A key that is in neither is refused by name: a
//! setting that is silently ignored is worse than one that is missing. [`Settings`] is the broker's table read once, at
//! the start; a topic's settings are read from the catalog when they are needed.
//!
//! **What it does not know**: files, command lines, who asks.

use std::collections::BTreeMap;
use std::fmt;

/// What a value has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// `true` or `false`.
    Boolean,
    /// A 32-bit number from `least` to `most`.
    Int { least: i32, most: i32 },
    /// A 64-bit number from `least`.
    Long { least: i64 },
    /// Any text.
    Text,
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
    pub(crate) default: &'static str,
    /// What it does, for people who ask.
    pub(crate) documentation: &'static str,
}

const fn key(name: &'static str, kind: ValueKind, default: &'static str, documentation: &'static str) -> Key {
    Key { name, kind, default, documentation }
}

const ANY_INT: ValueKind = ValueKind::Int { least: 0, most: i32::MAX };
const POSITIVE: ValueKind = ValueKind::Int { least: 1, most: i32::MAX };

/// The broker's keys. Sorted by name.
pub(crate) const BROKER_KEYS: &[Key] = &[
    key("auto.create.topics.enable", ValueKind::Boolean, "true", "Make a topic when somebody asks for its metadata."),
    key("broker.id", ANY_INT, "1", "This node's id."),
    key("connections.max", POSITIVE, "10000", "Connections held open; one more is closed at once."),
    key(
        "connections.max.idle.ms",
        ValueKind::Long { least: 1 },
        "600000",
        "How long a connection may be silent, with nothing to be answered, before it is closed.",
    ),
    key("default.replication.factor", ValueKind::Int { least: 1, most: 1 }, "1", "One node keeps one copy."),
    key("fetch.max.bytes", POSITIVE, "57671680", "Most bytes one fetch returns, whatever it asks for."),
    key(
        "group.initial.rebalance.delay.ms",
        ANY_INT,
        "3000",
        "How long the first rebalance of a group waits for more members.",
    ),
    key("group.max.session.timeout.ms", POSITIVE, "1800000", "Longest session a member may ask for."),
    key("group.max.size", POSITIVE, "2147483647", "Most members of one group."),
    key("group.min.session.timeout.ms", POSITIVE, "6000", "Shortest session a member may ask for."),
    key("message.max.bytes", POSITIVE, "1048588", "Largest record batch, as it stands in the log."),
    key("num.partitions", POSITIVE, "1", "Partitions of a topic that is made without saying how many."),
    key("offset.metadata.max.bytes", ANY_INT, "4096", "Longest text that may go with a committed offset."),
    key("offsets.retention.minutes", POSITIVE, "10080", "How long an empty group keeps its offsets."),
    key(
        "offsets.topic.num.partitions",
        POSITIVE,
        "50",
        "Partitions of __consumer_offsets; fixed once the topic is there.",
    ),
    key("producer.id.expiration.ms", POSITIVE, "86400000", "How long a silent producer's sequences are remembered."),
    key(
        "queued.max.request.bytes",
        ValueKind::Long { least: 1 },
        "134217728",
        "Bytes of requests waiting for the writer; then connections wait.",
    ),
    key("socket.request.max.bytes", POSITIVE, "104857600", "Largest request; a longer one closes its connection."),
    key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        POSITIVE,
        "10000",
        "Kept for tools: a transaction is aborted when its time is up, not at the next look.",
    ),
    key("transaction.max.timeout.ms", POSITIVE, "900000", "Longest transaction a producer may ask for."),
    key(
        "transaction.state.log.num.partitions",
        POSITIVE,
        "50",
        "Partitions of __transaction_state; fixed once the topic is there.",
    ),
    key(
        "transaction.version",
        ValueKind::Int { least: 0, most: 2 },
        "2",
        "The transaction protocol offered: 2 is KIP-890's, 0 and 1 the one before.",
    ),
    key("transactional.id.expiration.ms", POSITIVE, "604800000", "How long an unused transactional id is remembered."),
];

/// A topic's keys. Sorted by name.
pub(crate) const TOPIC_KEYS: &[Key] = &[
    key(
        "cleanup.policy",
        ValueKind::SomeOf(&["compact", "delete"]),
        "delete",
        "What is to happen to old records. For now all are kept; `compact` asks for keys.",
    ),
    key(
        "compression.type",
        ValueKind::OneOf(&["producer"]),
        "producer",
        "How batches are stored: as they come. Recompressing is not offered.",
    ),
    key("delete.retention.ms", ValueKind::Long { least: 0 }, "86400000", "How long tombstones stay."),
    key("file.delete.delay.ms", ValueKind::Long { least: 0 }, "60000", "How long a removed file stays."),
    key(
        "flush.messages",
        ValueKind::Long { least: 1 },
        "9223372036854775807",
        "Kept for tools; durability is the broker's.",
    ),
    key("flush.ms", ValueKind::Long { least: 0 }, "9223372036854775807", "Kept for tools; durability is the broker's."),
    key("index.interval.bytes", ANY_INT, "4096", "Bytes between index entries."),
    key(
        "max.compaction.lag.ms",
        ValueKind::Long { least: 1 },
        "9223372036854775807",
        "Longest time a record waits for compaction.",
    ),
    key("max.message.bytes", ANY_INT, "1048588", "Largest record batch."),
    key(
        "message.timestamp.after.max.ms",
        ValueKind::Long { least: 0 },
        "3600000",
        "How far in the future a record may be.",
    ),
    key(
        "message.timestamp.before.max.ms",
        ValueKind::Long { least: 0 },
        "9223372036854775807",
        "How far in the past a record may be.",
    ),
    key(
        "message.timestamp.type",
        ValueKind::OneOf(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        "Whose clock stamps the records.",
    ),
    key("min.cleanable.dirty.ratio", ValueKind::Text, "0.5", "How dirty a log must be to be compacted."),
    key("min.compaction.lag.ms", ValueKind::Long { least: 0 }, "0", "Shortest time a record stays uncompacted."),
    key("min.insync.replicas", ValueKind::Int { least: 1, most: 1 }, "1", "One node has one replica."),
    key("preallocate", ValueKind::Boolean, "false", "Kept for tools."),
    key(
        "retention.bytes",
        ValueKind::Long { least: -1 },
        "-1",
        "Size at which old segments are to go; -1: no limit. For now all are kept.",
    ),
    key(
        "retention.ms",
        ValueKind::Long { least: -1 },
        "604800000",
        "Age at which old segments are to go; -1: no limit. For now all are kept.",
    ),
    key(
        "segment.bytes",
        ValueKind::Int { least: 1024 * 1024, most: i32::MAX },
        "1073741824",
        "Size of a segment file.",
    ),
    key("segment.index.bytes", ValueKind::Int { least: 4, most: i32::MAX }, "10485760", "Size of an index file."),
    key("segment.jitter.ms", ValueKind::Long { least: 0 }, "0", "Spread of segment ages."),
    key("segment.ms", ValueKind::Long { least: 1 }, "604800000", "Age at which a segment is closed."),
    key("unclean.leader.election.enable", ValueKind::Boolean, "false", "Kept for tools; there is one leader."),
];

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// No such key.
    #[error("Unknown configuration {0}.")]
    UnknownKey(String),
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
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("true or false"),
            Self::Int { least, most } if *most == i32::MAX => write!(f, "a whole number from {least}"),
            Self::Int { least, most } => write!(f, "a whole number from {least} to {most}"),
            Self::Long { least } => write!(f, "a whole number from {least}"),
            Self::Text => f.write_str("a text"),
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Self::SomeOf(words) => write!(f, "a list out of {}", words.join(", ")),
        }
    }
}

impl Key {
    /// Whether `value` fits.
    pub(crate) fn check(&self, value: &str) -> Result<(), ConfigurationError> {
        let value = value.trim();
        let fits = match self.kind {
            ValueKind::Boolean => matches!(value, "true" | "false"),
            ValueKind::Int { least, most } => value.parse::<i32>().is_ok_and(|number| (least..=most).contains(&number)),
            ValueKind::Long { least } => value.parse::<i64>().is_ok_and(|number| number >= least),
            ValueKind::Text => true,
            ValueKind::OneOf(words) => words.contains(&value),
            ValueKind::SomeOf(words) => !value.is_empty() && value.split(',').all(|word| words.contains(&word.trim())),
        };
        if fits {
            return Ok(());
        }
        Err(ConfigurationError::InvalidValue {
            key: self.name.to_owned(),
            value: value.to_owned(),
            expected: self.kind.to_string(),
        })
    }

    /// The wire's number for the form (KIP-569).
    pub(crate) fn wire_type(&self) -> i8 {
        match self.kind {
            ValueKind::Boolean => 1,
            ValueKind::Text | ValueKind::OneOf(_) => 2,
            ValueKind::Int { .. } => 3,
            ValueKind::Long { .. } => 5,
            ValueKind::SomeOf(_) => 7,
        }
    }
}

/// The key of that name in `table`.
pub(crate) fn find(table: &'static [Key], name: &str) -> Result<&'static Key, ConfigurationError> {
    table.iter().find(|key| key.name == name).ok_or_else(|| ConfigurationError::UnknownKey(name.to_owned()))
}

/// What holds for a topic for which `given` was set.
///
/// Panics: if there is no such key.
pub(crate) fn topic_value<'a>(given: &'a BTreeMap<String, String>, name: &'static str) -> &'a str {
    match given.get(name) {
        Some(value) => value,
        None => find(TOPIC_KEYS, name).expect("asked for by its name in the table").default,
    }
}

/// What was set for the broker; all else has its default.
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

    /// What holds: what was set, else the default.
    fn value(&self, name: &'static str) -> &str {
        self.given(name).unwrap_or_else(|| find(BROKER_KEYS, name).expect("asked for by its name in the table").default)
    }

    fn number<N: std::str::FromStr>(&self, name: &'static str) -> N {
        self.value(name).parse().ok().expect("checked when it was set")
    }

    /// Reads the table once.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            node_id: self.number("broker.id"),
            auto_create_topics: self.number("auto.create.topics.enable"),
            partitions_default: self.number("num.partitions"),
            connections_max: self.number("connections.max"),
            connection_idle_ms_max: self.number("connections.max.idle.ms"),
            fetch_bytes_max: self.number("fetch.max.bytes"),
            batch_bytes_max: self.number("message.max.bytes"),
            request_bytes_max: self.number("socket.request.max.bytes"),
            queued_request_bytes_max: self.number("queued.max.request.bytes"),
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
    pub(crate) batch_bytes_max: i32,
    pub(crate) request_bytes_max: usize,
    pub(crate) queued_request_bytes_max: usize,
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
    /// What was set by hand, for those who ask.
    pub(crate) properties: Properties,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_fits_its_own_key_and_names_are_sorted() {
        for table in [BROKER_KEYS, TOPIC_KEYS] {
            for key in table {
                assert_eq!(key.check(key.default), Ok(()), "{}", key.name);
            }
            assert!(table.is_sorted_by_key(|key| key.name));
        }
        let settings = Properties::default().settings();
        assert_eq!((settings.offsets_partitions, settings.transaction_version), (50, 2));
    }

    #[test]
    fn what_is_not_known_or_does_not_fit_is_refused_by_name() {
        let mut properties = Properties::default();
        properties.set("num.partitions", "4").expect("fits");
        assert_eq!(properties.settings().partitions_default, 4);
        assert_eq!(
            properties.set("num.partition", "4").expect_err("no such key").to_string(),
            "Unknown configuration num.partition."
        );
        assert_eq!(
            properties.set("num.partitions", "0").expect_err("too few").to_string(),
            "Invalid value 0 for configuration num.partitions: a whole number from 1"
        );
    }
}
