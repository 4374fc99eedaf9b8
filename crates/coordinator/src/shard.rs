//! The shape of a coordinator: durable state that serves commands.
//!
//! ```text
//!              ┌───────────────────────────── Shard ─────────────────────────────┐
//!  command ──► │ decide(&self): state × command → records, notes, replies        │
//!              │ apply(&mut self): state × record → state                        │ ──► obligations
//!              └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The host, and only the host, moves things between the two halves. For each command it
//!
//! 1. calls [`Shard::decide`];
//! 2. stages the decision's records in the log, in order, and gives each to [`Shard::apply`] as an [`Entry`];
//! 3. gives the notes to [`Shard::note`], in order;
//! 4. sends each reply once everything staged so far is durable: a refusal too depends on state;
//! 5. does what [`Shard::obligations`] lists, and reports each deed as a further command. Whether it loops until
//!    nothing is owed within one group of the log, or spreads this over time, is its choice, not the machine's.
//!
//! After a crash it replays the log through `apply`, and the obligations are those of before.
//!
//! **What it does not know**: how records reach a disk, when a reply leaves, which connection a [`Waiter`] is.
//!
//! Invariants: `decide` cannot write; `apply` alone writes what is durable, `note` alone what may vanish; a reply
//! never stands for a record that is not in the same decision or before it.

use std::fmt::Debug;

use atonce_kernel::{Offset, Outcome, ProducerId, ProducerIdentity, Timestamp, Uuid};

/// A coordinator's state machine, one for each partition of its internal topic.
pub trait Shard {
    /// What a client, the clock or the host asks.
    type Command: Debug;
    /// A fact: logged, then applied.
    type Record: Debug + Clone + PartialEq;
    /// A change of soft state: never logged, allowed to vanish in a crash.
    type Note: Debug + Clone + PartialEq;
    /// An answer to a caller.
    type Reply: Debug + Clone + PartialEq;
    /// A deed that the world is owed until it is reported done.
    type Obligation: Debug + Clone + PartialEq;

    /// Chooses what to do. Reads; cannot write.
    fn decide(&self, context: &Context, command: &Self::Command) -> Decision<Self>;

    /// Takes in an entry of the log: the only writer of durable state.
    ///
    /// Refuses: a record that could not follow the state it meets, and changes nothing then. While loading that
    /// means a corrupt log: the shard answers `COORDINATOR_NOT_AVAILABLE` and says where. After a decision of our
    /// own it is a bug, and the host asserts.
    fn apply(&mut self, entry: &Entry<'_, Self::Record>) -> Result<(), Corrupt>;

    /// Takes in a note: the only writer of soft state (who waits for an answer, who was last seen when).
    fn note(&mut self, note: &Self::Note);

    /// What must still happen in the world, whoever we were before the crash.
    fn obligations(&self) -> impl Iterator<Item = Self::Obligation>;

    /// When the host should send the shard its tick at the latest. In the past: at once, and again until it is not.
    fn next_deadline(&self) -> Option<Timestamp>;
}

/// What a decision may depend on besides state and command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Wall-clock time at the host.
    pub now: Timestamp,
    /// Who asks. Replies name it, now or later.
    pub waiter: Waiter,
    /// A producer id that nobody was ever given. The host draws the next one after each decision that
    /// [took it](Decision::took_producer_id); a decision needs one at most.
    pub fresh_producer_id: ProducerId,
    /// A random id, another one in each context.
    pub fresh_uuid: Uuid,
}

/// Names a request that waits for its reply; chosen by the host, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter(pub u64);

/// What was decided: a value, printable and comparable. Nothing has happened yet.
pub struct Decision<S: Shard + ?Sized> {
    /// Facts, in order: to be logged, then applied.
    pub records: Vec<S::Record>,
    /// Soft state, in order: to be noted after the records have been applied.
    pub notes: Vec<S::Note>,
    /// This caller's answer, or those of others who waited. To be sent once the records are durable.
    pub replies: Vec<(Waiter, S::Reply)>,
    /// Whether [`Context::fresh_producer_id`] now belongs to somebody.
    pub took_producer_id: bool,
}

impl<S: Shard + ?Sized> Decision<S> {
    /// Changes nothing, tells nobody.
    #[must_use]
    pub fn nothing() -> Self {
        Self { records: Vec::new(), notes: Vec::new(), replies: Vec::new(), took_producer_id: false }
    }

    /// Changes nothing, and answers `waiter`.
    #[must_use]
    pub fn reply(waiter: Waiter, reply: S::Reply) -> Self {
        Self { replies: vec![(waiter, reply)], ..Self::nothing() }
    }

    /// Both, this one first. At most one of them takes the fresh producer id.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        assert!(!(self.took_producer_id && next.took_producer_id), "one fresh producer id went to two producers");
        self.records.extend(next.records);
        self.notes.extend(next.notes);
        self.replies.extend(next.replies);
        self.took_producer_id |= next.took_producer_id;
        self
    }
}

impl<S: Shard + ?Sized> Clone for Decision<S> {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            notes: self.notes.clone(),
            replies: self.replies.clone(),
            took_producer_id: self.took_producer_id,
        }
    }
}

impl<S: Shard + ?Sized> Debug for Decision<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decision")
            .field("records", &self.records)
            .field("notes", &self.notes)
            .field("replies", &self.replies)
            .field("took_producer_id", &self.took_producer_id)
            .finish()
    }
}

impl<S: Shard + ?Sized> PartialEq for Decision<S> {
    fn eq(&self, other: &Self) -> bool {
        self.records == other.records
            && self.notes == other.notes
            && self.replies == other.replies
            && self.took_producer_id == other.took_producer_id
    }
}

/// An entry of the shard's log, as `apply` sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a, R> {
    /// A record of the coordinator.
    Record {
        /// The fact.
        record: &'a R,
        /// Whose transaction the record is part of; `None` for most: it then counts at once.
        producer: Option<ProducerIdentity>,
        /// Where it stands in the shard's partition.
        offset: Offset,
        /// When it was appended.
        timestamp: Timestamp,
    },
    /// The end of a transaction that had records in this partition.
    Marker {
        /// Whose transaction; the epoch is the marker's.
        producer: ProducerIdentity,
        /// How it ended.
        outcome: Outcome,
        /// Where the marker stands.
        offset: Offset,
    },
}

/// An entry that could not follow the state it met. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset}: {reason}; the log of this coordinator partition cannot be followed beyond it")]
pub struct Corrupt {
    /// Where the entry stands.
    pub offset: Offset,
    /// What was found, and what could have been.
    pub reason: String,
}
