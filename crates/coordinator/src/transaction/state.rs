//! What is known of one transactional id, and how it may change.
//!
//! ```text
//! from \ to   Empty   Ongoing              Prepared                       Complete          (forgotten)
//! (unknown)   init    ·                    ·                              ·                 ·
//! Empty       init    partitions added     abort of nothing (v2)          ·                 expiry
//! Ongoing     ·       added, topic gone    end, timeout, init by another  ·                 ·
//! Prepared    ·       ·                    ·                              markers written   ·
//! Complete    init    partitions added     abort of nothing (v2)          ·                 expiry
//! ```
//!
//! **What it does not know**: commands, replies, who waits, which markers have been written already.
//!
//! Invariants: the epoch of a producer id never falls; a transaction is prepared with exactly the partitions that
//! were added; it is completed with the outcome that was prepared. [`Transaction::admits`] holds every record
//! against them, ours and those found in a log.

use std::collections::BTreeSet;
use std::fmt;

use atonce_kernel::{Outcome, ProducerEpoch, ProducerId, ProducerIdentity, Timestamp, TopicPartition};

/// All that is durable about one transactional id. A record of the log holds one of these, whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// Who may use the id now.
    pub producer: ProducerIdentity,
    /// The producer id of the state before; another one than now only just after a rotation. By it the repetition
    /// of a request is recognised that was sent under the id that ran out.
    pub previous_producer_id: ProducerId,
    /// How long a transaction may stay open before the coordinator aborts it. `i32::MAX`: for ever.
    pub timeout_ms: i32,
    /// In which protocol the last change was asked for.
    pub protocol: Protocol,
    /// Where the transaction stands.
    pub state: State,
    /// When this was decided.
    pub last_update: Timestamp,
}

/// Where a transaction stands.
///
/// Kafka has three more. `Dead` is here the absence of the id: one tombstone expires it, so nobody ever meets a dying
/// one. `PrepareEpochFence`, and a pending state beside every other, bridge the time between Kafka's decision and
/// its append; ours are one step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The id has a producer, and no transaction under this epoch yet.
    Empty,
    /// Open: partitions join.
    Ongoing {
        /// Those that may hold records of the transaction.
        partitions: BTreeSet<TopicPartition>,
        /// When the first one joined; the timeout counts from here.
        since: Timestamp,
    },
    /// The outcome is decided and will not change. Every partition is owed a marker.
    Prepared {
        /// How it ends.
        outcome: Outcome,
        /// Those that are owed a marker.
        partitions: BTreeSet<TopicPartition>,
        /// When it had begun.
        since: Timestamp,
        /// Who follows when the epoch is used up: with the completion the id passes to this producer id.
        successor: Option<ProducerId>,
    },
    /// Every partition has its marker.
    Complete {
        /// How it ended.
        outcome: Outcome,
        /// When it had begun.
        since: Timestamp,
    },
}

/// The transaction protocol that a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Of KIP-98: partitions are added by request, and an epoch lasts over many transactions.
    V1,
    /// Of KIP-890: writing adds the partition, and each end of a transaction raises the epoch.
    V2,
}

impl Transaction {
    /// What an initialisation leaves: `producer`, with nothing begun.
    ///
    /// Shape: `Empty | Complete → Empty`.
    pub(super) fn initialized(&self, producer: ProducerIdentity, timeout_ms: i32, now: Timestamp) -> Self {
        Self {
            producer,
            previous_producer_id: self.producer.id,
            timeout_ms,
            protocol: self.protocol,
            state: State::Empty,
            last_update: now,
        }
    }

    /// The transaction open since `since`, with `partitions` in it.
    ///
    /// Shape: `Empty | Ongoing | Complete → Ongoing`.
    pub(super) fn opened(
        &self,
        partitions: BTreeSet<TopicPartition>,
        since: Timestamp,
        protocol: Protocol,
        now: Timestamp,
    ) -> Self {
        Self {
            producer: self.producer,
            previous_producer_id: self.producer.id,
            timeout_ms: self.timeout_ms,
            protocol,
            state: State::Ongoing { partitions, since },
            last_update: now,
        }
    }

    /// The open transaction decided: prepared under an epoch of its own in v2, under the producer's own in v1.
    ///
    /// Shape: `Ongoing → Prepared`; in v2 also `Empty | Complete → Prepared`, an abort of nothing.
    /// Source: KIP-98 (states), KIP-890 part 2 (the epoch rises with every end; a producer id whose epochs are used
    /// up hands over to `successor`).
    pub(super) fn prepared(
        &self,
        outcome: Outcome,
        protocol: Protocol,
        successor: Option<ProducerId>,
        now: Timestamp,
    ) -> Self {
        let (partitions, since) = match &self.state {
            State::Ongoing { partitions, since } => (partitions.clone(), *since),
            State::Empty | State::Prepared { .. } | State::Complete { .. } => (BTreeSet::new(), now),
        };
        let epoch = match protocol {
            Protocol::V1 => self.producer.epoch,
            // The marker carries the *new* epoch. With the old one, a delayed batch of the ended transaction could
            // arrive after its own marker and be taken for part of the next.
            Protocol::V2 if self.producer.epoch < ProducerEpoch(i16::MAX) => self.producer.epoch.next(),
            // Nobody was ever given this epoch; an old coordinator left it here. The abort has to go through, or the
            // partitions stay blocked for ever (KAFKA-20090), and the successor follows.
            Protocol::V2 => self.producer.epoch,
        };
        Self {
            producer: ProducerIdentity { id: self.producer.id, epoch },
            previous_producer_id: self.producer.id,
            protocol,
            state: State::Prepared { outcome, partitions, since, successor },
            last_update: now,
            timeout_ms: self.timeout_ms,
        }
    }

    /// The prepared transaction with all its markers written; any other as it is.
    ///
    /// Shape: `Prepared → Complete`.
    /// Source: KIP-890 part 2 (the successor begins at epoch 0).
    pub(super) fn settled(&self, now: Timestamp) -> Self {
        match self.state {
            State::Prepared { outcome, since, successor, .. } => Self {
                producer: self.producer_after(successor),
                previous_producer_id: self.producer.id,
                timeout_ms: self.timeout_ms,
                protocol: self.protocol,
                state: State::Complete { outcome, since },
                last_update: now,
            },
            State::Empty | State::Ongoing { .. } | State::Complete { .. } => self.clone(),
        }
    }

    /// Who uses the id once the prepared transaction is completed.
    fn producer_after(&self, successor: Option<ProducerId>) -> ProducerIdentity {
        match successor {
            Some(id) => ProducerIdentity { id, epoch: ProducerEpoch::FIRST },
            None => self.producer,
        }
    }

    /// Under whom this transaction was open, if its end retired that identity: its holder may ask again how it ended.
    ///
    /// In v2 an end raises the epoch by one, so the record itself tells, also after a crash. In v1 an end retires
    /// nobody. What an *initialisation* retired is not in the record; that is soft state.
    pub(super) fn retired_by_end(&self) -> Option<ProducerIdentity> {
        match (&self.state, self.protocol) {
            (State::Empty | State::Ongoing { .. }, Protocol::V1 | Protocol::V2) => None,
            (State::Prepared { .. } | State::Complete { .. }, Protocol::V1) => None,
            (State::Prepared { .. } | State::Complete { .. }, Protocol::V2) => {
                let ProducerIdentity { id, epoch } = self.producer;
                if epoch > ProducerEpoch::FIRST {
                    Some(ProducerIdentity { id, epoch: ProducerEpoch(epoch.0 - 1) })
                } else {
                    // The id that ran out; or nobody, if an old log has an end at the very first epoch.
                    let ran_out = self.previous_producer_id;
                    (ran_out != id).then_some(ProducerIdentity { id: ran_out, epoch: ProducerEpoch::LAST_USABLE })
                }
            }
        }
    }

    /// When a transaction that began at `since` has been open too long; never if its timeout is `i32::MAX`, which
    /// two-phase commit asks for.
    pub(super) fn open_until(&self, since: Timestamp) -> Option<Timestamp> {
        // One more, because a transaction may use its timeout to the full.
        (self.timeout_ms < i32::MAX).then(|| since.plus_ms(i64::from(self.timeout_ms) + 1))
    }

    /// Whether a record may follow this one; the reason if not.
    ///
    /// Refuses: an epoch that falls; a change of producer id without rotation; partitions that get lost on the way
    ///   to their marker; an outcome that changes; a state that cannot come next.
    /// Source: KIP-98 (states). Wider than what we write by what older coordinators wrote: they raised the epoch of a
    ///   fenced transaction by one in v1, and by two for a while in v2 (KAFKA-19367).
    pub(super) fn admits(&self, next: &Self) -> Result<(), &'static str> {
        let rises = next.producer.id == self.producer.id && next.producer.epoch >= self.producer.epoch;
        let same = next.producer == self.producer;
        match (&self.state, &next.state) {
            (State::Empty | State::Complete { .. }, State::Empty) => {
                let rotates = next.producer.id != self.producer.id && next.producer.epoch == ProducerEpoch::FIRST;
                if rises || rotates { Ok(()) } else { Err("an initialisation that lowers the epoch") }
            }
            (State::Empty | State::Complete { .. }, State::Ongoing { .. }) => {
                if same {
                    Ok(())
                } else {
                    Err("a transaction opened by another producer")
                }
            }
            (State::Ongoing { partitions: before, .. }, State::Ongoing { partitions: after, .. }) => {
                if !same {
                    Err("a transaction continued by another producer")
                } else if !lost_only_whole_topics(before, after) {
                    Err("an open transaction that loses a partition")
                } else {
                    Ok(())
                }
            }
            (State::Ongoing { partitions: before, .. }, State::Prepared { partitions: after, .. }) => {
                if !rises {
                    Err("an end by another producer")
                } else if before != after {
                    Err("an end that owes markers to other partitions than were added")
                } else {
                    Ok(())
                }
            }
            (State::Empty | State::Complete { .. }, State::Prepared { outcome, partitions, .. }) => {
                if !rises {
                    Err("an end by another producer")
                } else if *outcome == Outcome::Commit || !partitions.is_empty() {
                    Err("an end of a transaction that never was opened")
                } else {
                    Ok(())
                }
            }
            (State::Prepared { outcome, successor, .. }, State::Complete { outcome: completed, .. }) => {
                if outcome != completed {
                    Err("a completion with the other outcome")
                } else if next.producer != self.producer_after(*successor) {
                    Err("a completion for another producer")
                } else {
                    Ok(())
                }
            }
            (State::Ongoing { .. } | State::Prepared { .. }, State::Empty) => {
                Err("an initialisation over a transaction that is not completed")
            }
            (State::Prepared { .. }, State::Ongoing { .. }) => {
                Err("a partition added to a transaction that is decided")
            }
            (State::Prepared { .. }, State::Prepared { .. }) => Err("a transaction decided twice"),
            (State::Empty | State::Ongoing { .. } | State::Complete { .. }, State::Complete { .. }) => {
                Err("a completion of what was not prepared")
            }
        }
    }

    /// Whether the id may be forgotten; the reason if not.
    pub(super) fn admits_expiry(&self) -> Result<(), &'static str> {
        match self.state {
            State::Empty | State::Complete { .. } => Ok(()),
            State::Ongoing { .. } | State::Prepared { .. } => {
                Err("an expiry of an id whose transaction is not completed")
            }
        }
    }
}

/// Whether all that `after` lacks of `before` are topics as a whole: those were deleted. A single partition does not
/// go by itself; it would never get its marker.
fn lost_only_whole_topics(before: &BTreeSet<TopicPartition>, after: &BTreeSet<TopicPartition>) -> bool {
    before.difference(after).all(|lost| after.iter().all(|kept| kept.topic != lost.topic))
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.state.name(), self.producer)
    }
}

/// Kafka's states by name and number, as records, filters and descriptions have them. [`State`] holds those of them
/// that an id can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    /// 0.
    Empty,
    /// 1.
    Ongoing,
    /// 2: [`State::Prepared`] to commit.
    PrepareCommit,
    /// 3: [`State::Prepared`] to abort.
    PrepareAbort,
    /// 4.
    CompleteCommit,
    /// 5.
    CompleteAbort,
    /// 6: never written; no id is in it.
    Dead,
    /// 7: never written; no id is in it.
    PrepareEpochFence,
}

impl StateName {
    /// Those that an id can be in.
    pub const HELD: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    const ALL: [Self; 8] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
        Self::Dead,
        Self::PrepareEpochFence,
    ];

    /// The number that stands in a record.
    #[must_use]
    pub fn number(self) -> i8 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
            Self::Dead => 6,
            Self::PrepareEpochFence => 7,
        }
    }

    /// The state of this number.
    #[must_use]
    pub fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.number() == number)
    }

    /// The name that clients see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    /// The state that a client's filter names, if it is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl State {
    /// What Kafka calls it.
    #[must_use]
    pub fn name(&self) -> StateName {
        match self {
            Self::Empty => StateName::Empty,
            Self::Ongoing { .. } => StateName::Ongoing,
            Self::Prepared { outcome: Outcome::Commit, .. } => StateName::PrepareCommit,
            Self::Prepared { outcome: Outcome::Abort, .. } => StateName::PrepareAbort,
            Self::Complete { outcome: Outcome::Commit, .. } => StateName::CompleteCommit,
            Self::Complete { outcome: Outcome::Abort, .. } => StateName::CompleteAbort,
        }
    }

    /// When the transaction began; `NONE` if none has since the last initialisation.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        match self {
            Self::Empty => Timestamp::NONE,
            Self::Ongoing { since, .. } | Self::Prepared { since, .. } | Self::Complete { since, .. } => *since,
        }
    }
}
