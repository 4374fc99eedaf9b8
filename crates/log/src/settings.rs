//! A topic's settings, as far as a log obeys them.
//!
//! **What it does not know**: which values may be set; the broker has refused the others.

use std::collections::BTreeMap;

use crate::catalog::Topic;
use crate::config::StorageConfig;

/// What a topic says, else what the broker says for all topics, else Kafka's default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) segment_bytes: u64,
    /// Beyond, the segment that is written to is complete, though compaction may put it together with others.
    pub(crate) active_bytes: u64,
    /// Its holder reads it whole at each start.
    pub(crate) is_replayed: bool,
    /// Between the first batch of a segment and one that goes into the next.
    pub(crate) segment_ms: i64,
    pub(crate) is_log_append_time: bool,
    /// `cleanup.policy` has `compact`.
    pub(crate) is_compacted: bool,
    /// `cleanup.policy` has `delete`.
    pub(crate) is_deleted: bool,
    /// `None`: for ever.
    pub(crate) retention_ms: Option<i64>,
    /// `None`: however much there is.
    pub(crate) retention_bytes: Option<u64>,
    pub(crate) min_cleanable_dirty_ratio: f64,
    pub(crate) min_compaction_lag_ms: i64,
    pub(crate) max_compaction_lag_ms: i64,
    pub(crate) delete_retention_ms: i64,
    /// How long a file that is not the log's any more stays.
    pub(crate) file_delete_delay_ms: i64,
    pub(crate) index_interval_bytes: u64,
}

impl Settings {
    /// Of a topic in this storage.
    pub(crate) fn in_storage(topic: &Topic, config: &StorageConfig) -> Self {
        let mut settings = Self::of(topic, &config.topic_defaults, config.segment_bytes);
        settings.is_replayed = config.replayed_topics.contains(&topic.name);
        if settings.is_replayed && settings.is_compacted {
            settings.active_bytes = settings.segment_bytes.min(config.replayed_segment_bytes);
        }
        settings
    }

    /// A setting that makes no sense counts as not given.
    pub(crate) fn of(topic: &Topic, defaults: &BTreeMap<String, String>, segment_bytes: u64) -> Self {
        let text = |key: &str| topic.configs.get(key).or_else(|| defaults.get(key)).map(|text| text.trim());
        let long = |key: &str, default: i64| text(key).and_then(|text| text.parse().ok()).unwrap_or(default);
        let policy = text("cleanup.policy").unwrap_or("delete");
        let has_policy = |wanted: &str| policy.split(',').any(|word| word.trim() == wanted);
        let is_compacted = has_policy("compact");
        let max_compaction_lag_ms = long("max.compaction.lag.ms", i64::MAX);
        let segment_ms = long("segment.ms", 7 * 24 * 3_600_000);
        let segment_bytes = text("segment.bytes").and_then(|text| text.parse().ok()).unwrap_or(segment_bytes);
        Self {
            segment_bytes,
            active_bytes: segment_bytes,
            is_replayed: false,
            // What must be compacted by then must not be in the segment that is written to.
            segment_ms: if is_compacted { segment_ms.min(max_compaction_lag_ms) } else { segment_ms },
            is_log_append_time: text("message.timestamp.type") == Some("LogAppendTime"),
            is_compacted,
            is_deleted: has_policy("delete"),
            retention_ms: Some(long("retention.ms", 7 * 24 * 3_600_000)).filter(|ms| *ms >= 0),
            retention_bytes: u64::try_from(long("retention.bytes", -1)).ok(),
            min_cleanable_dirty_ratio: text("min.cleanable.dirty.ratio")
                .and_then(|text| text.parse().ok())
                .filter(|ratio| (0.0..=1.0).contains(ratio))
                .unwrap_or(0.5),
            min_compaction_lag_ms: long("min.compaction.lag.ms", 0),
            max_compaction_lag_ms,
            delete_retention_ms: long("delete.retention.ms", 24 * 3_600_000),
            file_delete_delay_ms: long("file.delete.delay.ms", 60_000),
            index_interval_bytes: u64::try_from(long("index.interval.bytes", 4096)).unwrap_or(4096),
        }
    }
}
