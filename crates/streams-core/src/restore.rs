//! Which part of its change log a store has to replay, or whether it cannot be trusted at all: a choice from facts, made before any
//! record is read.

use atonce_kernel::{Offset, Timestamp, TopicId};

use crate::commit::Guarantee;
use crate::store::StorePosition;

/// What is known of a change log's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangelogFacts {
    /// The topic's id.
    pub topic_id: TopicId,
    /// Its first offset.
    pub log_start_offset: Offset,
    /// Its end *reading uncommitted*: an open transaction of another may hide committed records behind it, and is waited out.
    pub high_watermark: Offset,
    /// `delete.retention.ms` of the topic: how long a tombstone is sure to be there.
    pub delete_retention_ms: i64,
    /// The wall clock's time.
    pub now: Timestamp,
    /// The guarantee that the application runs under.
    pub guarantee: Guarantee,
}

/// What to do with a store before its task may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreChoice {
    /// Nothing: it has everything.
    UpToDate,
    /// Read committed from `from` until the position has passed `to`.
    Replay {
        /// The first offset to read.
        from: Offset,
        /// The end, exclusive.
        to: Offset,
    },
    /// Set the store aside, and replay everything into a new one.
    Rebuild {
        /// Why.
        reason: Distrust,
        /// The first offset to read.
        from: Offset,
        /// The end, exclusive.
        to: Offset,
    },
}

/// Why a store cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// The topic was deleted and made again.
    #[error("its change log is another topic now (it was {found}, and is {expected})")]
    OtherTopic {
        /// The id in the store's position.
        found: TopicId,
        /// The topic's id.
        expected: TopicId,
    },
    /// The store has seen more than the change log holds.
    #[error("it lies beyond its change log's end ({position} is after {high_watermark}): the log was cut")]
    BeyondEnd {
        /// The store's position.
        position: Offset,
        /// The log's end.
        high_watermark: Offset,
    },
    /// Records between the store and the log's start are gone.
    #[error("its change log begins at {log_start_offset}, after the store's position {position}")]
    BeforeStart {
        /// The store's position.
        position: Offset,
        /// The log's start.
        log_start_offset: Offset,
    },
    /// Deletions that the store has not seen may have been compacted away.
    #[error("it is {age_ms} ms old and behind: tombstones are kept for {delete_retention_ms} ms")]
    TooOld {
        /// Its age.
        age_ms: i64,
        /// The topic's `delete.retention.ms`.
        delete_retention_ms: i64,
    },
    /// It may hold what exactly once would not have let through.
    #[error("it was written under {found}, and the application runs under {expected}")]
    OtherGuarantee {
        /// The guarantee in the store's position.
        found: Guarantee,
        /// The one that holds now.
        expected: Guarantee,
    },
    /// It has data and no position that can be read.
    #[error("it has data, but no readable position")]
    NoPosition,
}

/// Chooses. `position` is `None` for a new store.
#[must_use]
pub fn choose(position: Option<StorePosition>, facts: &ChangelogFacts) -> RestoreChoice {
    let (from, to) = (facts.log_start_offset, facts.high_watermark);
    let Some(position) = position else {
        return if from < to { RestoreChoice::Replay { from, to } } else { RestoreChoice::UpToDate };
    };
    if let Some(reason) = distrust(&position, facts) {
        return RestoreChoice::Rebuild { reason, from, to };
    }
    if position.offset < to { RestoreChoice::Replay { from: position.offset, to } } else { RestoreChoice::UpToDate }
}

fn distrust(position: &StorePosition, facts: &ChangelogFacts) -> Option<Distrust> {
    let age_ms = facts.now.ms_since(position.written_at);
    if position.topic_id != facts.topic_id {
        Some(Distrust::OtherTopic { found: position.topic_id, expected: facts.topic_id })
    } else if position.guarantee != facts.guarantee {
        Some(Distrust::OtherGuarantee { found: position.guarantee, expected: facts.guarantee })
    } else if position.offset > facts.high_watermark {
        Some(Distrust::BeyondEnd { position: position.offset, high_watermark: facts.high_watermark })
    } else if position.offset < facts.log_start_offset {
        Some(Distrust::BeforeStart { position: position.offset, log_start_offset: facts.log_start_offset })
    } else if position.offset < facts.high_watermark && age_ms > facts.delete_retention_ms / 2 {
        // Half: the clocks of this machine and the broker's may differ, and the replay itself takes time.
        Some(Distrust::TooOld { age_ms, delete_retention_ms: facts.delete_retention_ms })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atonce_kernel::Uuid;

    const FACTS: ChangelogFacts = ChangelogFacts {
        topic_id: Uuid([1; 16]),
        log_start_offset: 10,
        high_watermark: 100,
        delete_retention_ms: 1000,
        now: Timestamp(10_000),
        guarantee: Guarantee::ExactlyOnce,
    };

    fn at(offset: Offset) -> StorePosition {
        StorePosition {
            topic_id: FACTS.topic_id,
            offset,
            leader_epoch: None,
            written_at: FACTS.now,
            guarantee: FACTS.guarantee,
        }
    }

    #[test]
    fn a_trusted_store_replays_only_its_tail() {
        assert_eq!(choose(Some(at(90)), &FACTS), RestoreChoice::Replay { from: 90, to: 100 });
        assert_eq!(choose(Some(at(100)), &FACTS), RestoreChoice::UpToDate);
        assert_eq!(choose(None, &FACTS), RestoreChoice::Replay { from: 10, to: 100 });
        assert_eq!(choose(None, &ChangelogFacts { log_start_offset: 100, ..FACTS }), RestoreChoice::UpToDate);
    }

    #[test]
    fn a_store_that_cannot_be_trusted_is_rebuilt_and_the_reason_said() {
        let reason = |position: StorePosition| match choose(Some(position), &FACTS) {
            RestoreChoice::Rebuild { reason, from: 10, to: 100 } => reason,
            other => panic!("{other:?}"),
        };
        assert!(matches!(reason(at(101)), Distrust::BeyondEnd { .. }));
        assert!(matches!(reason(at(9)), Distrust::BeforeStart { .. }));
        assert!(matches!(reason(StorePosition { topic_id: Uuid([2; 16]), ..at(90) }), Distrust::OtherTopic { .. }));
        assert!(matches!(
            reason(StorePosition { guarantee: Guarantee::AtLeastOnce, ..at(90) }),
            Distrust::OtherGuarantee { .. }
        ));
        assert!(matches!(reason(StorePosition { written_at: Timestamp(9_499), ..at(90) }), Distrust::TooOld { .. }));
    }

    #[test]
    fn an_old_store_that_has_everything_is_not_rebuilt() {
        let old = StorePosition { written_at: Timestamp(0), ..at(100) };
        assert_eq!(choose(Some(old), &FACTS), RestoreChoice::UpToDate);
    }
}
