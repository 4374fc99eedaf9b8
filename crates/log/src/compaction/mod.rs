//! Compaction: of each key the last record stays, and what transactions have aborted goes.
//!
//! A plan: [`choose`] looks at all logs and returns a value; [`CompactionWork`] copies what is kept into new files, piece
//! by piece, on whatever thread its holder likes; the storage then puts these in the place of the old segments. The
//! checkpoint after that names them, and only then the old files go: whenever it all ends, recovery finds either the old
//! segments or the new ones.
//!
//! **What it does not know**: when it is time to look, who else reads or writes.
//!
//! Invariants: the active segment, and all from the first open transaction on, stay as they are; offsets, and the last
//! sequence of each producer, stay; of a key, nothing goes that no later record replaces.
//!
//! Source: the rules are those of Apache Kafka 4.4 (`Cleaner`, `CleanedTransactionMetadata`, `LogCleanerManager`).

mod keys;
mod transactions;
mod work;

use atonce_kernel::{Offset, Timestamp, TopicId, TopicPartition};

use crate::files::Stamps;
use crate::settings::Settings;

pub(crate) use work::{Cleaned, Source, SourceSegment, Target};
pub use work::{CompactionDone, CompactionError, CompactionProgress, CompactionWork};

/// A log that is to be compacted, and how far. Segments from `uncleanable_offset` on stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionChoice {
    /// Which.
    pub partition: TopicPartition,
    /// Of the topic that has the name now.
    pub topic_id: TopicId,
    /// Below, no key comes twice.
    pub first_dirty_offset: Offset,
    /// The base offset of a segment.
    pub uncleanable_offset: Offset,
    /// Bytes of segments that were compacted before.
    pub clean_bytes: u64,
    /// Bytes of those that were not.
    pub dirty_bytes: u64,
}

/// What is looked at of a log.
#[derive(Clone, Debug)]
pub(crate) struct Overview {
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: TopicId,
    pub(crate) settings: Settings,
    pub(crate) log_start_offset: Offset,
    pub(crate) last_stable_offset: Offset,
    /// Up to here it was compacted.
    pub(crate) cleaned_end: Offset,
    /// Oldest first; the last one is active.
    pub(crate) segments: Vec<SegmentOverview>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentOverview {
    pub(crate) base_offset: Offset,
    pub(crate) bytes: u64,
    pub(crate) stamps: Stamps,
}

/// The log that most needs it: the dirtiest, or one whose records have waited for longer than they may.
pub(crate) fn choose(logs: impl Iterator<Item = Overview>, now: Timestamp) -> Option<CompactionChoice> {
    let mut best: Option<(f64, CompactionChoice)> = None;
    for (ratio, choice) in logs.filter_map(|log| consider(&log, now)) {
        if best.as_ref().is_none_or(|(most, _)| ratio > *most) {
            best = Some((ratio, choice));
        }
    }
    best.map(|(_, choice)| choice)
}

/// How urgent a log's compaction is, if it is.
fn consider(log: &Overview, now: Timestamp) -> Option<(f64, CompactionChoice)> {
    let Overview { settings, .. } = log;
    if !settings.is_compacted {
        return None;
    }
    let first_dirty_offset = log.cleaned_end.max(log.log_start_offset);
    let (mut clean_bytes, mut dirty_bytes, mut uncleanable_offset) = (0, 0, None);
    let mut oldest = None;
    for (segment, next) in log.segments.iter().zip(log.segments.iter().skip(1)) {
        let is_dirty = next.base_offset > first_dirty_offset;
        let must_wait = settings.min_compaction_lag_ms > 0
            && segment.stamps.max_timestamp > now.plus_ms(settings.min_compaction_lag_ms.saturating_neg());
        if next.base_offset > log.last_stable_offset || (is_dirty && must_wait) {
            break;
        }
        if is_dirty {
            dirty_bytes += segment.bytes;
            oldest = oldest.or(Some(segment.stamps.first_timestamp).filter(|first| *first > Timestamp(0)));
        } else {
            clean_bytes += segment.bytes;
        }
        uncleanable_offset = Some(next.base_offset);
    }
    let uncleanable_offset = uncleanable_offset.filter(|_| dirty_bytes > 0)?;
    let lag_ms_max = settings.max_compaction_lag_ms.max(settings.min_compaction_lag_ms);
    let is_late = oldest.is_some_and(|oldest| oldest < now.plus_ms(lag_ms_max.saturating_neg()));
    let ratio = dirty_bytes as f64 / (clean_bytes + dirty_bytes) as f64;
    if !is_late && ratio <= settings.min_cleanable_dirty_ratio {
        return None;
    }
    let choice = CompactionChoice {
        partition: log.partition.clone(),
        topic_id: log.topic_id,
        first_dirty_offset,
        uncleanable_offset,
        clean_bytes,
        dirty_bytes,
    };
    // What is late comes before what is only dirty.
    Some((if is_late { ratio + 1.0 } else { ratio }, choice))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use atonce_kernel::Uuid;

    use super::*;
    use crate::catalog::Topic;

    fn settings(given: &[(&str, &str)]) -> Settings {
        let compact = [("cleanup.policy", "compact")];
        let configs =
            compact.iter().chain(given).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let topic = Topic { id: Uuid([1; 16]), name: "t".into(), partitions: 1, configs };
        Settings::of(&topic, &BTreeMap::new(), 1 << 30)
    }

    /// Segments of ten offsets and 100 bytes, each from its own minute on.
    fn log(segments: i64, given: &[(&str, &str)]) -> Overview {
        Overview {
            partition: TopicPartition::new("t", 0),
            topic_id: Uuid([1; 16]),
            settings: settings(given),
            log_start_offset: 0,
            last_stable_offset: segments * 10,
            cleaned_end: 0,
            segments: (0..segments)
                .map(|number| SegmentOverview {
                    base_offset: number * 10,
                    bytes: 100,
                    stamps: Stamps {
                        first_timestamp: Timestamp(60_000 * (number + 1)),
                        max_timestamp: Timestamp(60_000 * (number + 1) + 59_000),
                        max_timestamp_offset: number * 10 + 9,
                    },
                })
                .collect(),
        }
    }

    const NOW: Timestamp = Timestamp(1_000_000);

    fn uncleanable(log: Overview) -> Option<Offset> {
        choose([log].into_iter(), NOW).map(|choice| choice.uncleanable_offset)
    }

    #[test]
    fn the_active_segment_is_never_chosen() {
        assert_eq!(uncleanable(log(1, &[])), None);
        assert_eq!(uncleanable(log(3, &[])), Some(20));
    }

    #[test]
    fn only_a_topic_that_says_so_is_compacted() {
        assert_eq!(uncleanable(log(3, &[("cleanup.policy", "delete")])), None);
        assert_eq!(uncleanable(log(3, &[("cleanup.policy", "delete,compact")])), Some(20));
    }

    #[test]
    fn nothing_is_chosen_from_the_segment_of_the_first_open_transaction_on() {
        let mut open = log(5, &[]);
        open.last_stable_offset = 25;
        assert_eq!(uncleanable(open.clone()), Some(20));
        open.last_stable_offset = 20;
        assert_eq!(uncleanable(open.clone()), Some(20));
        open.last_stable_offset = 9;
        assert_eq!(uncleanable(open), None);
    }

    #[test]
    fn what_is_clean_waits_until_there_is_more_dirt_than_the_ratio() {
        let mut half = log(5, &[("min.cleanable.dirty.ratio", "0.5")]);
        half.cleaned_end = 20;
        assert_eq!(uncleanable(half.clone()), None);
        half.cleaned_end = 10;
        let choice = choose([half].into_iter(), NOW).expect("three of four are dirty");
        assert_eq!((choice.clean_bytes, choice.dirty_bytes, choice.first_dirty_offset), (100, 300, 10));
        let mut clean = log(5, &[("min.cleanable.dirty.ratio", "0")]);
        clean.cleaned_end = 40;
        assert_eq!(uncleanable(clean), None);
    }

    #[test]
    fn young_records_wait_for_the_least_lag() {
        // Segment 1 ends at 179,000.
        for (end, expected) in [(178_999, Some(10)), (179_000, Some(20))] {
            let lag = (NOW.0 - end).to_string();
            assert_eq!(uncleanable(log(5, &[("min.compaction.lag.ms", &lag)])), expected);
        }
    }

    #[test]
    fn old_records_do_not_wait_for_the_ratio_beyond_the_greatest_lag() {
        let mut log = log(5, &[("min.cleanable.dirty.ratio", "0.9")]);
        log.cleaned_end = 30;
        assert_eq!(uncleanable(log.clone()), None);
        log.settings.max_compaction_lag_ms = NOW.0 - 240_001;
        assert_eq!(uncleanable(log), Some(40));
    }

    #[test]
    fn the_dirtiest_comes_first() {
        let mut cleaner = log(5, &[]);
        cleaner.cleaned_end = 10;
        let mut dirtier = log(5, &[]);
        dirtier.partition = TopicPartition::new("u", 0);
        let choice = choose([cleaner, dirtier].into_iter(), NOW).expect("both are dirty");
        assert_eq!(choice.partition, TopicPartition::new("u", 0));
    }
}
