//! The settings of a topic, with Kafka's names, defaults and synonyms: what a topic does not say for itself, the broker may say
//! for all topics, under another name and sometimes in another unit.

use super::{ANY_INT, Key, POSITIVE, ValueKind, key};

const MS_PER_MINUTE: i64 = 60_000;
const MS_PER_HOUR: i64 = 3_600_000;

/// The broker's word for a topic's key, and how many of the topic's units make one of the broker's.
pub(crate) type Synonym = (&'static str, i64);

/// A topic's key, and the broker's words for it, the strongest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicKey {
    pub(crate) key: Key,
    pub(crate) synonyms: &'static [Synonym],
}

const fn topic(key: Key, synonyms: &'static [Synonym]) -> TopicKey {
    TopicKey { key, synonyms }
}

const LONG_MAX: &str = "9223372036854775807";
const KEPT: &str = "Kept for tools: it has no effect here.";
const ANY_LONG: ValueKind = ValueKind::Long { least: 0, most: i64::MAX };

/// Codecs that a topic may ask for.
pub(crate) const COMPRESSION_TYPES: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
pub(super) const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];
pub(super) const CLEANUP_POLICIES: &[&str] = &["compact", "delete"];

/// A topic's keys. Sorted by name.
pub(crate) const TOPIC_KEYS: &[TopicKey] = &[
    topic(
        key("cleanup.policy", ValueKind::SomeOf(CLEANUP_POLICIES), "delete", "What is to happen to old records."),
        &[("log.cleanup.policy", 1)],
    ),
    topic(
        key("compression.gzip.level", ValueKind::Int { least: -1, most: 9 }, "-1", KEPT),
        &[("compression.gzip.level", 1)],
    ),
    topic(
        key("compression.lz4.level", ValueKind::Int { least: 1, most: 17 }, "9", KEPT),
        &[("compression.lz4.level", 1)],
    ),
    topic(
        key(
            "compression.type",
            ValueKind::OneOf(COMPRESSION_TYPES),
            "producer",
            "How batches are stored: as they come (producer), or compressed so, whatever they come as.",
        ),
        &[("compression.type", 1)],
    ),
    topic(
        key("compression.zstd.level", ValueKind::Int { least: -131_072, most: 22 }, "3", KEPT),
        &[("compression.zstd.level", 1)],
    ),
    topic(
        key("delete.retention.ms", ANY_LONG, "86400000", "How long tombstones stay."),
        &[("log.cleaner.delete.retention.ms", 1)],
    ),
    topic(key("errors.deadletterqueue.group.enable", ValueKind::Boolean, "false", KEPT), &[]),
    topic(
        key("file.delete.delay.ms", ANY_LONG, "60000", "How long a removed file stays."),
        &[("log.segment.delete.delay.ms", 1)],
    ),
    topic(
        key(
            "flush.messages",
            ValueKind::Long { least: 1, most: i64::MAX },
            LONG_MAX,
            "Kept for tools; durability is the broker's.",
        ),
        &[("log.flush.interval.messages", 1)],
    ),
    topic(
        key("flush.ms", ANY_LONG, LONG_MAX, "Kept for tools; durability is the broker's."),
        &[("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)],
    ),
    topic(key("follower.replication.throttled.replicas", ValueKind::List, "", KEPT), &[]),
    topic(
        key("index.interval.bytes", ANY_INT, "4096", "Bytes between index entries."),
        &[("log.index.interval.bytes", 1)],
    ),
    topic(key("leader.replication.throttled.replicas", ValueKind::List, "", KEPT), &[]),
    topic(
        key("local.retention.bytes", ValueKind::Long { least: -2, most: i64::MAX }, "-2", KEPT),
        &[("log.local.retention.bytes", 1)],
    ),
    topic(
        key("local.retention.ms", ValueKind::Long { least: -2, most: i64::MAX }, "-2", KEPT),
        &[("log.local.retention.ms", 1)],
    ),
    topic(
        key(
            "max.compaction.lag.ms",
            ValueKind::Long { least: 1, most: i64::MAX },
            LONG_MAX,
            "Longest time a record waits for compaction.",
        ),
        &[("log.cleaner.max.compaction.lag.ms", 1)],
    ),
    topic(
        key(
            "max.decompressed.message.bytes",
            ANY_INT,
            "2147483639",
            "Most bytes that the records of a compressed batch may have. The broker never unpacks more than 256 MiB.",
        ),
        &[("max.decompressed.message.bytes", 1)],
    ),
    topic(key("max.message.bytes", ANY_INT, "1048588", "Largest record batch."), &[("message.max.bytes", 1)]),
    topic(
        key("message.timestamp.after.max.ms", ANY_LONG, "3600000", "How far in the future a record may be."),
        &[("log.message.timestamp.after.max.ms", 1)],
    ),
    topic(
        key("message.timestamp.before.max.ms", ANY_LONG, LONG_MAX, "How far in the past a record may be."),
        &[("log.message.timestamp.before.max.ms", 1)],
    ),
    topic(
        key(
            "message.timestamp.type",
            ValueKind::OneOf(TIMESTAMP_TYPES),
            "CreateTime",
            "Whose clock stamps the records.",
        ),
        &[("log.message.timestamp.type", 1)],
    ),
    topic(
        key(
            "min.cleanable.dirty.ratio",
            ValueKind::Share,
            "0.5",
            "How dirty a log must be to be compacted, from 0 to 1.",
        ),
        &[("log.cleaner.min.cleanable.ratio", 1)],
    ),
    topic(
        key("min.compaction.lag.ms", ANY_LONG, "0", "Shortest time a record stays uncompacted."),
        &[("log.cleaner.min.compaction.lag.ms", 1)],
    ),
    topic(
        key(
            "min.insync.replicas",
            POSITIVE,
            "1",
            "Kept for tools: there is one replica, and what is acknowledged is durable in it.",
        ),
        &[("min.insync.replicas", 1)],
    ),
    topic(key("preallocate", ValueKind::Boolean, "false", KEPT), &[("log.preallocate", 1)]),
    topic(
        key("remote.copy.lag.bytes", ValueKind::Long { least: -1, most: i64::MAX }, "-1", KEPT),
        &[("log.remote.copy.lag.bytes", 1)],
    ),
    topic(
        key("remote.copy.lag.ms", ValueKind::Long { least: -1, most: i64::MAX }, "0", KEPT),
        &[("log.remote.copy.lag.ms", 1)],
    ),
    topic(key("remote.log.copy.disable", ValueKind::Boolean, "false", KEPT), &[]),
    topic(key("remote.log.delete.on.disable", ValueKind::Boolean, "false", KEPT), &[]),
    topic(key("remote.storage.enable", ValueKind::Boolean, "false", "There is no remote storage: false."), &[]),
    topic(
        key(
            "retention.bytes",
            ValueKind::Long { least: -1, most: i64::MAX },
            "-1",
            "Size at which old segments are to go; -1: no limit.",
        ),
        &[("log.retention.bytes", 1)],
    ),
    topic(
        key(
            "retention.ms",
            ValueKind::Long { least: -1, most: i64::MAX },
            "604800000",
            "Age at which old segments are to go; -1: no limit.",
        ),
        &[("log.retention.ms", 1), ("log.retention.minutes", MS_PER_MINUTE), ("log.retention.hours", MS_PER_HOUR)],
    ),
    topic(
        key(
            "segment.bytes",
            ValueKind::Int { least: 1024 * 1024, most: i32::MAX },
            "1073741824",
            "Size of a segment file.",
        ),
        &[("log.segment.bytes", 1)],
    ),
    topic(
        key("segment.index.bytes", ValueKind::Int { least: 4, most: i32::MAX }, "10485760", "Size of an index file."),
        &[("log.index.size.max.bytes", 1)],
    ),
    topic(
        key("segment.jitter.ms", ANY_LONG, "0", "Spread of segment ages."),
        &[("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", MS_PER_HOUR)],
    ),
    topic(
        key(
            "segment.ms",
            ValueKind::Long { least: 1, most: i64::MAX },
            "604800000",
            "Age at which a segment is closed.",
        ),
        &[("log.roll.ms", 1), ("log.roll.hours", MS_PER_HOUR)],
    ),
    topic(
        key("unclean.leader.election.enable", ValueKind::Boolean, "false", "Kept for tools; there is one leader."),
        &[("unclean.leader.election.enable", 1)],
    ),
];
