//! A topic's settings as numbers: what is asked for with every batch, and by those who clean logs.

use atonce_protocol::records::Compression;

use super::{Values, find_topic_key};
use crate::dynamic::Configs;

/// What holds for a topic. Made anew when the topic's settings or the broker's change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TopicSettings {
    /// `max.message.bytes`
    pub(crate) batch_bytes_max: i32,
    /// `max.decompressed.message.bytes`
    pub(crate) decompressed_bytes_max: usize,
    /// `compression.type`; `None`: as they come.
    pub(crate) compression: Option<Compression>,
    /// `message.timestamp.type`
    pub(crate) is_log_append_time: bool,
    /// `message.timestamp.after.max.ms`
    pub(crate) timestamp_after_ms_max: i64,
    /// `message.timestamp.before.max.ms`
    pub(crate) timestamp_before_ms_max: i64,
    /// `cleanup.policy` names `compact`.
    pub(crate) is_compacted: bool,
    /// `cleanup.policy` names `delete`.
    pub(crate) is_deleted: bool,
}

impl TopicSettings {
    /// Of a topic for which `given` was set.
    pub(crate) fn new(values: Values<'_>, given: &Configs) -> Self {
        let text = |name: &'static str| {
            let key = find_topic_key(name).expect("asked for by its name in the table");
            values.topic_value(given, key)
        };
        let number = |name| text(name).parse::<i64>().unwrap_or(i64::MAX);
        let policy = text("cleanup.policy");
        let has_policy = |wanted: &str| policy.split(',').any(|word| word.trim() == wanted);
        Self {
            batch_bytes_max: i32::try_from(number("max.message.bytes")).unwrap_or(i32::MAX),
            decompressed_bytes_max: usize::try_from(number("max.decompressed.message.bytes")).unwrap_or(usize::MAX),
            compression: compression(&text("compression.type")),
            is_log_append_time: text("message.timestamp.type") == "LogAppendTime",
            timestamp_after_ms_max: number("message.timestamp.after.max.ms"),
            timestamp_before_ms_max: number("message.timestamp.before.max.ms"),
            is_compacted: has_policy("compact"),
            is_deleted: has_policy("delete"),
        }
    }
}

/// The codec of that name in `compression.type`; `None`: the producer's.
fn compression(name: &str) -> Option<Compression> {
    match name {
        "uncompressed" => Some(Compression::None),
        "gzip" => Some(Compression::Gzip),
        "snappy" => Some(Compression::Snappy),
        "lz4" => Some(Compression::Lz4),
        "zstd" => Some(Compression::Zstd),
        _ => None,
    }
}
