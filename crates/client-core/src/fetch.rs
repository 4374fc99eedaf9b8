//! The fetch machine: where to read next, what was read ahead, and which of it the user may see.
//!
//! **What it does not know**: sockets, groups, how an offset is looked up. Its host sends what
//! [`Fetcher::poll_request`] and [`Fetcher::poll_lookup`] say, and hands answers back.
//!
//! A partition's place is looked up (earliest, latest, committed, by time), then moves with what is fetched; the *position*
//! moves with what the user takes. Both step over control records, aborted records and the gaps of compaction, so that a
//! position that is committed at a topic's end is its end.
//!
//! When a partition has a leader of a newer epoch than that of the last batch read, the place is held against its log first
//! (KIP-320): a leader that was not in step has truncated what was read, and the same offsets are other records.
//!
//! Invariants: records come in the order of their offsets, each once, whatever is asked for twice; an answer to a question
//! from before a seek is dropped; nothing is fetched while [`FetchConfig::prefetch_bytes_max`] is reached.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use atonce_kernel::{Monotonic, Offset, Outcome, ProducerId, Timestamp, TopicId, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::records::{BATCH_HEADER_BYTES, BatchView, RecordError, batches, read_marker};
use bytes::Bytes;

use crate::backoff::Backoff;
use crate::classify::{Operation, Verdict};
use crate::error::Refusal;
use crate::fetch_session::{FetchSession, SessionReply, SessionRequest, Wanted};
use crate::metadata::{Leader, Metadata};
use crate::producer::Header;
use crate::transaction::CommitPosition;

/// How many fetches are in flight to a node at once. A broker holds a fetch that has nothing to answer; a partition that
/// joins later must not wait for it.
pub const FETCHES_PER_NODE_MAX: usize = 4;

/// How many answers of a partition are read ahead: one to work on, one to come.
const CHUNKS_AHEAD_MAX: usize = 2;

/// How long a replica that a leader recommended is read from before the leader is asked again: as long as metadata is
/// believed.
const PREFERRED_AGE_MAX: Duration = Duration::from_secs(300);

/// The most that one batch may decompress to. A batch is some kilobytes; this only bounds what a hostile one can claim.
const BATCH_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Which records of transactions are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Only those of committed transactions, up to the first that is open.
    ReadCommitted,
    /// All.
    #[default]
    ReadUncommitted,
}

impl Isolation {
    /// The number on the wire.
    #[must_use]
    pub fn level(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// Where to begin in a partition for which the group has no offset, or whose offset is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record there is.
    Earliest,
    /// At the end.
    #[default]
    Latest,
    /// At the first record that is not older than this (KIP-1106); at the end if there is none.
    Ago(Duration),
    /// Nowhere: it is an error.
    Fail,
}

/// A place in a partition to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The first record there is.
    Earliest,
    /// The end, at the consumer's isolation.
    Latest,
    /// What the group has committed; the reset policy decides if it has nothing.
    Committed,
    /// This offset.
    Offset(Offset),
    /// The first record at or after this time; the end if there is none.
    Timestamp(Timestamp),
    /// The first record that is not older than this; the end if there is none.
    Ago(Duration),
}

/// A record that was read. Key and value share the bytes of the answer they came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Its place.
    pub offset: Offset,
    /// When it happened, or was appended, as the topic says.
    pub timestamp: Timestamp,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order.
    pub headers: Vec<Header>,
}

impl ConsumerRecord {
    /// The key, shared.
    #[must_use]
    pub fn key(&self) -> Option<Bytes> {
        self.key.clone()
    }

    /// The value, shared.
    #[must_use]
    pub fn value(&self) -> Option<Bytes> {
        self.value.clone()
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &TopicName {
        &self.topic_partition.topic
    }

    /// The partition's index.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.topic_partition.partition
    }
}

/// What a consumer is told once.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// Which records are shown.
    pub isolation: Isolation,
    /// Where to begin without an offset.
    pub offset_reset: OffsetReset,
    /// How many bytes are kept ahead of the user.
    pub prefetch_bytes_max: usize,
    /// How long to wait after a refusal.
    pub retry_backoff: Backoff,
}

/// A fetch, by the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub u64);

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Read from a leader.
    Fetch(FetchCall),
    /// Ask a leader where epochs ended.
    Validate(ValidateCall),
    /// Look these topics up, then call [`Fetcher::handle_metadata`].
    RefreshMetadata(Vec<TopicName>),
}

/// Partitions to read, all led by one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchCall {
    /// Names the answer.
    pub id: FetchId,
    /// The leader of them all.
    pub node: i32,
    /// Which of the node's places for fetches this one takes, below [`FETCHES_PER_NODE_MAX`]: no two in flight share one.
    pub slot: usize,
    /// What to say, in the session of this place.
    pub request: SessionRequest,
    /// The topics that the answer may name by id.
    pub names: BTreeMap<TopicId, TopicName>,
}

impl FetchCall {
    /// The partitions that it speaks of, with the offsets to read from, sorted.
    #[must_use]
    pub fn offsets(&self) -> Vec<(TopicPartition, Offset)> {
        self.request.partitions.iter().map(|(it, wanted)| (it.clone(), wanted.offset)).collect()
    }
}

/// Places to hold against the log of a new leader, all led by one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidateCall {
    /// Names the answer.
    pub id: FetchId,
    /// The leader of them all.
    pub node: i32,
    /// Partitions, sorted.
    pub partitions: Vec<Validated>,
}

/// A place to hold against the log of a new leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The epoch that the leader is believed to have.
    pub current_leader_epoch: i32,
    /// The epoch of the last batch before the place.
    pub leader_epoch: i32,
}

/// Where the largest epoch that is not above the one asked for ended, in a leader's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch; -1 if the leader does not know.
    pub leader_epoch: i32,
    /// The offset behind its last record; -1 if the leader does not know.
    pub end_offset: Offset,
}

/// A place to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// What to look up; never an offset.
    pub position: Position,
    /// Comes back with the answer.
    pub generation: u64,
}

/// What a leader sent of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The end, for those who read everything.
    pub high_watermark: Offset,
    /// The end, for those who read what is committed; -1 if the broker does not say.
    pub last_stable_offset: Offset,
    /// Aborted transactions among the records: producer and first offset. Of no meaning if everything is read.
    pub aborted: Vec<(ProducerId, Offset)>,
    /// Batches, the last one perhaps torn.
    pub records: Bytes,
    /// Another replica to read from, if the leader knows a nearer one.
    pub preferred_read_replica: Option<i32>,
}

/// A leader's answer for a partition.
pub type PartitionReply = Result<Fetched, ErrorCode>;

/// A node's answer to a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchReply {
    /// The session that the answer belongs to; 0 if it is in none.
    pub session_id: i32,
    /// What it says of partitions, or why nothing is said of any.
    pub result: Result<Vec<(TopicPartition, PartitionReply)>, ErrorCode>,
}

impl FetchReply {
    /// An answer of a broker that keeps no session.
    #[must_use]
    pub fn without_session(replies: Vec<(TopicPartition, PartitionReply)>) -> Self {
        Self { session_id: 0, result: Ok(replies) }
    }
}

/// What the user must be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No offset to begin at, and no policy.
    #[error("{topic_partition}: no committed offset, and no reset policy")]
    NoOffset {
        /// The partition.
        topic_partition: TopicPartition,
    },
    /// A position that is not in the log, and no policy.
    #[error("{topic_partition}: position {offset} is not in the log")]
    OutOfRange {
        /// The partition.
        topic_partition: TopicPartition,
        /// The position.
        offset: Offset,
    },
    /// Bytes that are no batch.
    #[error("{topic_partition}: bytes at offset {offset}: {cause}")]
    Corrupt {
        /// The partition.
        topic_partition: TopicPartition,
        /// The position.
        offset: Offset,
        /// What is wrong.
        cause: RecordError,
    },
    /// A refusal that asking again does not cure.
    #[error("{topic_partition}: {refusal}")]
    Refused {
        /// The partition.
        topic_partition: TopicPartition,
        /// What the broker said.
        refusal: Refusal,
    },
}

impl FetchError {
    /// The partition it is about.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        match self {
            Self::NoOffset { topic_partition }
            | Self::OutOfRange { topic_partition, .. }
            | Self::Corrupt { topic_partition, .. }
            | Self::Refused { topic_partition, .. } => topic_partition,
        }
    }
}

/// Records that the user takes, and the positions after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The records, by partition, in order.
    pub records: Vec<ConsumerRecord>,
    /// The positions of the partitions that moved.
    pub positions: BTreeMap<TopicPartition, CommitPosition>,
}

/// Where to fetch next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// To be looked up, not before a time.
    Wanted {
        position: Position,
        not_before: Monotonic,
    },
    LookingUp,
    At(Offset),
    /// An error was told: the user must seek.
    Lost,
}

#[derive(Clone, Debug)]
struct Partition {
    place: Place,
    generation: u64,
    is_paused: bool,
    is_in_flight: bool,
    not_before: Monotonic,
    /// Refusals and lost answers in succession.
    failures: u32,
    /// Another replica than the leader to read from, and until when (KIP-392).
    preferred: Option<(i32, Monotonic)>,
    chunks: VecDeque<Chunk>,
    /// The next record for the user, once it is known.
    position: Option<Offset>,
    leader_epoch: i32,
    /// The epoch of the last batch before the place to fetch next; -1 if not known.
    place_epoch: i32,
    /// The leader's epoch that the place was held against last.
    validated_epoch: i32,
    /// Where reading began: where to go back to when nothing was committed.
    start: Option<Offset>,
    end: Option<Offset>,
}

impl Partition {
    /// The leader, if it has to be asked first whether its log is the one that was read.
    fn unconfirmed_by(&self, leader: Option<Leader>) -> Option<Leader> {
        let Place::At(_) = self.place else { return None };
        let known = self.validated_epoch.max(self.place_epoch);
        leader.filter(|leader| self.place_epoch >= 0 && leader.epoch > known)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Fetcher {
    config: FetchConfig,
    partitions: BTreeMap<TopicPartition, Partition>,
    calls: BTreeMap<FetchId, InFlight>,
    /// One for each place at a node.
    sessions: BTreeMap<(i32, usize), FetchSession>,
    validations: BTreeMap<FetchId, Vec<(Validated, u64)>>,
    next_call: u64,
    next_generation: u64,
    buffered_bytes: usize,
    /// Whose turn it is to be taken from.
    turn: Option<TopicPartition>,
    errors: VecDeque<FetchError>,
    stale_topics: BTreeSet<TopicName>,
    is_refreshing: bool,
    refresh_not_before: Monotonic,
}

#[derive(Clone, Debug)]
struct InFlight {
    node: i32,
    slot: usize,
    partitions: Vec<(TopicPartition, u64)>,
}

impl Fetcher {
    /// A fetcher without partitions.
    #[must_use]
    pub fn new(config: FetchConfig) -> Self {
        Self {
            config,
            partitions: BTreeMap::new(),
            calls: BTreeMap::new(),
            sessions: BTreeMap::new(),
            validations: BTreeMap::new(),
            next_call: 0,
            next_generation: 0,
            buffered_bytes: 0,
            turn: None,
            errors: VecDeque::new(),
            stale_topics: BTreeSet::new(),
            is_refreshing: false,
            refresh_not_before: Monotonic::START,
        }
    }

    // --- ask ---

    /// The partitions that are read.
    pub fn assignment(&self) -> impl Iterator<Item = &TopicPartition> {
        self.partitions.keys()
    }

    /// Whether a partition is read.
    #[must_use]
    pub fn is_assigned(&self, topic_partition: &TopicPartition) -> bool {
        self.partitions.contains_key(topic_partition)
    }

    /// The next record for the user, once it is known.
    #[must_use]
    pub fn position(&self, topic_partition: &TopicPartition) -> Option<CommitPosition> {
        let partition = self.partitions.get(topic_partition)?;
        partition.position.map(|offset| commit_position(offset, partition.leader_epoch))
    }

    /// All positions that are known.
    #[must_use]
    pub fn positions(&self) -> BTreeMap<TopicPartition, CommitPosition> {
        self.partitions.keys().filter_map(|it| Some((it.clone(), self.position(it)?))).collect()
    }

    /// The end at this isolation, as the last answer had it.
    #[must_use]
    pub fn end(&self, topic_partition: &TopicPartition) -> Option<Offset> {
        self.partitions.get(topic_partition)?.end
    }

    /// Whether every partition's place is known, or lost.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.partitions.values().all(|partition| match partition.place {
            Place::At(_) | Place::Lost => true,
            Place::Wanted { .. } | Place::LookingUp => false,
        })
    }

    // --- command ---

    /// Reads another partition.
    pub fn assign(&mut self, topic_partition: TopicPartition, position: Position) {
        let partition = Partition {
            place: Place::At(0),
            generation: 0,
            is_paused: false,
            is_in_flight: false,
            not_before: Monotonic::START,
            failures: 0,
            preferred: None,
            chunks: VecDeque::new(),
            position: None,
            leader_epoch: -1,
            place_epoch: -1,
            validated_epoch: -1,
            start: None,
            end: None,
        };
        self.unassign(&topic_partition);
        self.partitions.insert(topic_partition.clone(), partition);
        self.seek(&topic_partition, position);
    }

    /// Reads a partition no longer.
    pub fn unassign(&mut self, topic_partition: &TopicPartition) {
        if let Some(partition) = self.partitions.remove(topic_partition) {
            self.buffered_bytes -= partition.chunks.iter().map(Chunk::bytes).sum::<usize>();
        }
    }

    /// Reads nothing any more.
    pub fn unassign_all(&mut self) {
        self.partitions.clear();
        self.buffered_bytes = 0;
        self.errors.clear();
    }

    /// Reads on only what `keep` says; what is wrong with the others is of no interest any more.
    pub fn retain(&mut self, mut keep: impl FnMut(&TopicPartition) -> bool) {
        let gone: Vec<TopicPartition> = self.partitions.keys().filter(|it| !keep(it)).cloned().collect();
        for topic_partition in &gone {
            self.unassign(topic_partition);
        }
        self.errors.retain(|error| !gone.contains(error.topic_partition()));
    }

    /// Goes elsewhere; what was read ahead is dropped. False if the partition is not read.
    pub fn seek(&mut self, topic_partition: &TopicPartition, position: Position) -> bool {
        let Some(partition) = self.partitions.get_mut(topic_partition) else { return false };
        self.next_generation += 1;
        partition.generation = self.next_generation;
        self.buffered_bytes -= partition.chunks.iter().map(Chunk::bytes).sum::<usize>();
        partition.chunks.clear();
        partition.is_in_flight = false;
        partition.leader_epoch = -1;
        partition.place_epoch = -1;
        partition.place = match position {
            Position::Offset(offset) => Place::At(offset),
            Position::Earliest | Position::Latest | Position::Committed | Position::Timestamp(_) | Position::Ago(_) => {
                Place::Wanted { position, not_before: Monotonic::START }
            }
        };
        partition.position = None;
        if let Place::At(offset) = partition.place {
            partition.position = Some(offset);
            partition.start = partition.start.or(Some(offset));
        }
        true
    }

    /// Hands out nothing of a partition, and reads no further ahead.
    pub fn pause(&mut self, topic_partition: &TopicPartition, is_paused: bool) {
        if let Some(partition) = self.partitions.get_mut(topic_partition) {
            partition.is_paused = is_paused;
        }
    }

    // --- it happened ---

    /// Topics were looked up.
    pub fn handle_metadata(&mut self, now: Monotonic) {
        self.is_refreshing = false;
        self.refresh_not_before = now + self.config.retry_backoff.initial();
    }

    /// A place was looked up: the offset, and the epoch of the record before it, -1 if that is not known. `None` if there is
    /// none: no offset is committed, or no record is at or after the time.
    pub fn handle_lookup(&mut self, lookup: &Lookup, found: Option<(Offset, i32)>) {
        let reset = self.config.offset_reset;
        let Some(partition) = self.current(&lookup.topic_partition, lookup.generation) else { return };
        let next = match (found, lookup.position) {
            (Some((offset, epoch)), _) => {
                (partition.leader_epoch, partition.place_epoch) = (epoch, epoch);
                Place::At(offset)
            }
            (None, Position::Timestamp(_) | Position::Ago(_)) => wanted(Position::Latest),
            // A rewind, and nothing was ever committed: back to where reading began, for the reset policy could skip
            // what was read and given up.
            (None, Position::Committed) => match (partition.start, reset) {
                (Some(start), _) => Place::At(start),
                (None, OffsetReset::Earliest) => wanted(Position::Earliest),
                (None, OffsetReset::Latest) => wanted(Position::Latest),
                (None, OffsetReset::Ago(duration)) => wanted(Position::Ago(duration)),
                (None, OffsetReset::Fail) => Place::Lost,
            },
            (None, Position::Earliest | Position::Latest | Position::Offset(_)) => Place::Lost,
        };
        partition.place = next;
        if let Place::At(offset) = next {
            partition.position = Some(offset);
            partition.start = partition.start.or(Some(offset));
        }
        if next == Place::Lost {
            self.errors.push_back(FetchError::NoOffset { topic_partition: lookup.topic_partition.clone() });
        }
    }

    /// A place could not be looked up; it will be tried again.
    pub fn handle_lookup_failed(&mut self, now: Monotonic, lookup: &Lookup) {
        let not_before = now + self.config.retry_backoff.initial();
        if let Some(partition) = self.current(&lookup.topic_partition, lookup.generation) {
            partition.place = Place::Wanted { position: lookup.position, not_before };
        }
    }

    /// A node answered.
    pub fn handle_reply(&mut self, now: Monotonic, id: FetchId, reply: FetchReply) {
        let Some(call) = self.calls.remove(&id) else { return };
        let mut reply = match self.sessions.get_mut(&(call.node, call.slot)) {
            Some(session) => session.handle_reply(reply.session_id, reply.result),
            // The node is no longer one of the cluster's.
            None => {
                reply.result.map_or_else(SessionReply::Refused, |told| SessionReply::Told(told.into_iter().collect()))
            }
        };
        for (topic_partition, generation) in call.partitions {
            let Some(partition) = self.current(&topic_partition, generation) else { continue };
            partition.is_in_flight = false;
            match &mut reply {
                SessionReply::Told(told) => match told.remove(&topic_partition) {
                    Some(Ok(fetched)) => self.handle_fetched(now, &topic_partition, fetched),
                    Some(Err(code)) => self.handle_refused(now, &topic_partition, code),
                    // Left out: the broker has said nothing of it.
                    None => self.back_off(now, &topic_partition, true),
                },
                SessionReply::AskAgain => {}
                SessionReply::Refused(code) => self.handle_refused(now, &topic_partition, *code),
                SessionReply::Unfit => self.back_off(now, &topic_partition, true),
            }
        }
    }

    /// A leader said where epochs ended.
    pub fn handle_validated(
        &mut self,
        now: Monotonic,
        id: FetchId,
        replies: Vec<(TopicPartition, Result<EpochEnd, ErrorCode>)>,
    ) {
        let mut replies: BTreeMap<TopicPartition, Result<EpochEnd, ErrorCode>> = replies.into_iter().collect();
        for (asked, generation) in self.validations.remove(&id).unwrap_or_default() {
            let topic_partition = asked.topic_partition.clone();
            let Some(partition) = self.current(&topic_partition, generation) else { continue };
            partition.is_in_flight = false;
            match replies.remove(&topic_partition) {
                Some(Ok(end)) => self.handle_epoch_end(&asked, end),
                // A broker that cannot say: reading goes on as it did before there were epochs.
                Some(Err(ErrorCode::UnsupportedVersion)) => partition.validated_epoch = asked.current_leader_epoch,
                Some(Err(code)) => self.handle_refused(now, &topic_partition, code),
                None => self.back_off(now, &topic_partition, true),
            }
        }
    }

    /// A leader did not say where epochs ended.
    pub fn handle_validation_lost(&mut self, now: Monotonic, id: FetchId) {
        self.handle_validated(now, id, Vec::new());
    }

    fn handle_epoch_end(&mut self, asked: &Validated, end: EpochEnd) {
        let reset = self.config.offset_reset;
        let Some(partition) = self.partitions.get_mut(&asked.topic_partition) else { return };
        let Place::At(offset) = partition.place else { return };
        partition.failures = 0;
        partition.validated_epoch = asked.current_leader_epoch;
        // A leader that does not know has nothing against it; a place beyond its log is refused by the fetch.
        if end.end_offset < 0 || end.leader_epoch < 0 || end.end_offset >= offset {
            return;
        }
        if reset == OffsetReset::Fail {
            let topic_partition = asked.topic_partition.clone();
            return self.lose(&topic_partition.clone(), FetchError::OutOfRange { topic_partition, offset });
        }
        // Back to where the logs part; what was read ahead from there is in no log any more.
        let position = partition.position.map_or(end.end_offset, |position| position.min(end.end_offset));
        let start = partition.start;
        self.seek(&asked.topic_partition, Position::Offset(position));
        if let Some(partition) = self.partitions.get_mut(&asked.topic_partition) {
            partition.start = start.map(|start| start.min(position));
            (partition.leader_epoch, partition.place_epoch) = (end.leader_epoch, end.leader_epoch);
        }
    }

    /// A leader did not answer.
    pub fn handle_lost(&mut self, now: Monotonic, id: FetchId) {
        let Some(call) = self.calls.remove(&id) else { return };
        if let Some(session) = self.sessions.get_mut(&(call.node, call.slot)) {
            session.handle_lost();
        }
        for (topic_partition, generation) in call.partitions {
            let Some(partition) = self.current(&topic_partition, generation) else { continue };
            partition.is_in_flight = false;
            self.back_off(now, &topic_partition, true);
        }
    }

    /// Nothing more is fetched: the sessions to end, by node.
    pub fn close_sessions(&mut self) -> Vec<(i32, i32)> {
        let mut sessions = std::mem::take(&mut self.sessions);
        sessions.iter_mut().filter_map(|((node, _), session)| Some((*node, session.close()?))).collect()
    }

    /// The partition, if nobody has gone elsewhere since.
    fn current(&mut self, topic_partition: &TopicPartition, generation: u64) -> Option<&mut Partition> {
        self.partitions.get_mut(topic_partition).filter(|partition| partition.generation == generation)
    }

    fn back_off(&mut self, now: Monotonic, topic_partition: &TopicPartition, refresh: bool) {
        let backoff = self.config.retry_backoff;
        if let Some(partition) = self.partitions.get_mut(topic_partition) {
            partition.failures += 1;
            // Back to the leader, which sends it elsewhere again if it means to.
            partition.preferred = None;
            let salt = partition.generation ^ u64::from(now.since_start().subsec_nanos());
            partition.not_before = now + backoff.after(partition.failures, salt);
        }
        if refresh {
            self.stale_topics.insert(topic_partition.topic.clone());
        }
    }

    fn handle_fetched(&mut self, now: Monotonic, topic_partition: &TopicPartition, fetched: Fetched) {
        let isolation = self.config.isolation;
        let Some(partition) = self.partitions.get_mut(topic_partition) else { return };
        let Place::At(from) = partition.place else { return };
        partition.failures = 0;
        if let Some(node) = fetched.preferred_read_replica {
            partition.preferred = Some((node, now + PREFERRED_AGE_MAX));
            // A leader that sends elsewhere answers nothing else.
            return;
        }
        partition.end = Some(match isolation {
            Isolation::ReadCommitted if fetched.last_stable_offset >= 0 => fetched.last_stable_offset,
            Isolation::ReadCommitted | Isolation::ReadUncommitted => fetched.high_watermark,
        });
        if fetched.records.is_empty() {
            return;
        }
        let mut next = from;
        let mut epoch = partition.place_epoch;
        for batch in batches(&fetched.records) {
            match batch {
                Ok(batch) => {
                    next = next.max(batch.next_offset());
                    epoch = batch.partition_leader_epoch();
                }
                // What is wrong is told when the user comes to it, after all that is right before it.
                Err(_) => break,
            }
        }
        if next == from {
            // Not one whole batch beyond the position: to ask again would bring the same again.
            let (needed, found) = (BATCH_HEADER_BYTES, fetched.records.len());
            let (topic_partition, offset) = (topic_partition.clone(), from);
            let cause = RecordError::Truncated { needed, found };
            return self.lose(&topic_partition.clone(), FetchError::Corrupt { topic_partition, offset, cause });
        }
        let chunk = Chunk::new(fetched, isolation);
        self.buffered_bytes += chunk.bytes();
        partition.chunks.push_back(chunk);
        partition.place = Place::At(next);
        partition.place_epoch = epoch;
    }

    fn handle_refused(&mut self, now: Monotonic, topic_partition: &TopicPartition, code: ErrorCode) {
        let refusal = Refusal::new(Operation::Fetch, code);
        if code == ErrorCode::OffsetOutOfRange {
            return self.handle_out_of_range(topic_partition);
        }
        match refusal.verdict() {
            Verdict::Done | Verdict::Retry => self.back_off(now, topic_partition, false),
            Verdict::RefreshThenRetry => self.back_off(now, topic_partition, true),
            Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => {
                self.lose(topic_partition, FetchError::Refused { topic_partition: topic_partition.clone(), refusal });
            }
        }
    }

    fn handle_out_of_range(&mut self, topic_partition: &TopicPartition) {
        let reset = self.config.offset_reset;
        let Some(partition) = self.partitions.get_mut(topic_partition) else { return };
        let Place::At(offset) = partition.place else { return };
        if partition.preferred.take().is_some() {
            // A replica that is not the leader may lag behind: only the leader knows what there is.
            return;
        }
        let position = match reset {
            OffsetReset::Earliest => Position::Earliest,
            OffsetReset::Latest => Position::Latest,
            OffsetReset::Ago(duration) => Position::Ago(duration),
            OffsetReset::Fail => {
                let error = FetchError::OutOfRange { topic_partition: topic_partition.clone(), offset };
                return self.lose(topic_partition, error);
            }
        };
        partition.start = None;
        partition.place_epoch = -1;
        partition.place = wanted(position);
    }

    fn lose(&mut self, topic_partition: &TopicPartition, error: FetchError) {
        if let Some(partition) = self.partitions.get_mut(topic_partition) {
            partition.place = Place::Lost;
        }
        self.errors.push_back(error);
    }

    // --- do this ---

    /// Places to look up now.
    pub fn poll_lookup(&mut self, now: Monotonic) -> Vec<Lookup> {
        let mut lookups = Vec::new();
        for (topic_partition, partition) in &mut self.partitions {
            if let Place::Wanted { position, not_before } = partition.place
                && now >= not_before
            {
                partition.place = Place::LookingUp;
                let topic_partition = topic_partition.clone();
                lookups.push(Lookup { topic_partition, position, generation: partition.generation });
            }
        }
        lookups
    }

    /// What to send now.
    pub fn poll_request(&mut self, now: Monotonic, metadata: &Metadata) -> Option<Outgoing> {
        if let Some(call) = self.next_validation(now, metadata) {
            return Some(Outgoing::Validate(call));
        }
        if let Some(call) = self.next_fetch(now, metadata) {
            return Some(Outgoing::Fetch(call));
        }
        if !self.stale_topics.is_empty() && !self.is_refreshing && now >= self.refresh_not_before {
            self.is_refreshing = true;
            return Some(Outgoing::RefreshMetadata(std::mem::take(&mut self.stale_topics).into_iter().collect()));
        }
        None
    }

    /// Places that a new leader has not confirmed.
    fn next_validation(&mut self, now: Monotonic, metadata: &Metadata) -> Option<ValidateCall> {
        let mut call: Option<ValidateCall> = None;
        let mut asked = Vec::new();
        for (topic_partition, partition) in &mut self.partitions {
            if partition.is_in_flight || now < partition.not_before {
                continue;
            }
            let Some(leader) = partition.unconfirmed_by(metadata.leader(topic_partition)) else { continue };
            let id = FetchId(self.next_call);
            let call = call.get_or_insert_with(|| ValidateCall { id, node: leader.node, partitions: Vec::new() });
            if call.node == leader.node {
                let (current_leader_epoch, leader_epoch) = (leader.epoch, partition.place_epoch);
                let validated =
                    Validated { topic_partition: topic_partition.clone(), current_leader_epoch, leader_epoch };
                call.partitions.push(validated.clone());
                partition.is_in_flight = true;
                asked.push((validated, partition.generation));
            }
        }
        let call = call?;
        self.next_call += 1;
        self.validations.insert(call.id, asked);
        Some(call)
    }

    fn next_fetch(&mut self, now: Monotonic, metadata: &Metadata) -> Option<FetchCall> {
        if self.buffered_bytes >= self.config.prefetch_bytes_max {
            return None;
        }
        let by_node = self.due(now, metadata);
        for (node, wanted) in by_node {
            let taken: BTreeSet<usize> =
                self.calls.values().filter(|call| call.node == node).map(|call| call.slot).collect();
            let Some(slot) = (0..FETCHES_PER_NODE_MAX).find(|slot| !taken.contains(slot)) else { continue };
            let id = FetchId(self.next_call);
            self.next_call += 1;
            let mut asked = Vec::with_capacity(wanted.len());
            let mut names = BTreeMap::new();
            for (topic_partition, wanted) in &wanted {
                if let Some(partition) = self.partitions.get_mut(topic_partition) {
                    partition.is_in_flight = true;
                    asked.push((topic_partition.clone(), partition.generation));
                }
                names.insert(wanted.topic_id, topic_partition.topic.clone());
            }
            // A node that is gone has no session of ours, should it come back.
            self.sessions.retain(|(node, _), _| metadata.brokers().contains_key(node));
            let request = self.sessions.entry((node, slot)).or_default().request(wanted);
            self.calls.insert(id, InFlight { node, slot, partitions: asked });
            return Some(FetchCall { id, node, slot, request, names });
        }
        None
    }

    /// What can be fetched now, by the node to ask. Notes topics whose leaders are not known.
    fn due(&mut self, now: Monotonic, metadata: &Metadata) -> BTreeMap<i32, BTreeMap<TopicPartition, Wanted>> {
        let mut by_node: BTreeMap<i32, BTreeMap<TopicPartition, Wanted>> = BTreeMap::new();
        for (topic_partition, partition) in &self.partitions {
            let Place::At(offset) = partition.place else { continue };
            let has_enough = partition.chunks.len() >= CHUNKS_AHEAD_MAX;
            if partition.is_paused || partition.is_in_flight || has_enough || now < partition.not_before {
                continue;
            }
            let nearer =
                partition.preferred.filter(|(node, until)| now < *until && metadata.brokers().contains_key(node));
            let Some(leader) = metadata.leader(topic_partition) else {
                self.stale_topics.insert(topic_partition.topic.clone());
                continue;
            };
            if partition.unconfirmed_by(Some(leader)).is_none() {
                let node = nearer.map_or(leader.node, |(node, _)| node);
                let topic_id = metadata.topic(&topic_partition.topic).map(|topic| topic.id).unwrap_or_default();
                let wanted = Wanted { topic_id, offset, current_leader_epoch: leader.epoch };
                by_node.entry(node).or_default().insert(topic_partition.clone(), wanted);
            }
        }
        by_node
    }

    /// When to poll again, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self, now: Monotonic) -> Option<Monotonic> {
        let refresh = (!self.stale_topics.is_empty() && !self.is_refreshing).then_some(self.refresh_not_before);
        let partitions = self.partitions.values().map(|partition| match partition.place {
            Place::Wanted { not_before, .. } => not_before,
            Place::At(_) | Place::LookingUp | Place::Lost => partition.not_before,
        });
        refresh.into_iter().chain(partitions).filter(|time| *time > now).min()
    }

    // --- the user takes ---

    /// What the user must be told first.
    pub fn poll_error(&mut self) -> Option<FetchError> {
        self.errors.pop_front()
    }

    /// The next records, at most `records_max`, from the partitions in turn; `None` if nothing is there. There may be no
    /// record, if only positions have moved.
    pub fn take(&mut self, records_max: usize) -> Option<Taken> {
        let mut taken = Taken::default();
        for topic_partition in self.turns() {
            if taken.records.len() >= records_max {
                break;
            }
            self.take_from(&topic_partition, records_max, &mut taken);
            self.turn = Some(topic_partition);
        }
        (!taken.positions.is_empty()).then_some(taken)
    }

    /// Partitions that have something, beginning behind the one that was taken from last.
    fn turns(&self) -> Vec<TopicPartition> {
        let has_something = |partition: &Partition| !partition.is_paused && !partition.chunks.is_empty();
        let mut turns: Vec<TopicPartition> = self
            .partitions
            .iter()
            .filter(|(_, partition)| has_something(partition))
            .map(|(topic_partition, _)| topic_partition.clone())
            .collect();
        if let Some(last) = &self.turn {
            let next = turns.partition_point(|topic_partition| topic_partition <= last);
            let next = if next == turns.len() { 0 } else { next };
            turns.rotate_left(next);
        }
        turns
    }

    fn take_from(&mut self, topic_partition: &TopicPartition, records_max: usize, taken: &mut Taken) {
        let Some(partition) = self.partitions.get_mut(topic_partition) else { return };
        let Some(mut position) = partition.position else { return };
        let before = position;
        let mut failed = None;
        while let Some(chunk) = partition.chunks.front_mut() {
            let chunk_bytes = chunk.bytes();
            let room = records_max.saturating_sub(taken.records.len());
            match chunk.take(topic_partition, &mut position, &mut partition.leader_epoch, room, &mut taken.records) {
                Ok(Progress::Exhausted) => {
                    self.buffered_bytes -= chunk_bytes;
                    partition.chunks.pop_front();
                }
                Ok(Progress::Full) => break,
                Err(cause) => {
                    failed = Some(cause);
                    break;
                }
            }
        }
        partition.position = Some(position);
        if position != before {
            taken.positions.insert(topic_partition.clone(), commit_position(position, partition.leader_epoch));
        }
        if let Some(cause) = failed {
            self.buffered_bytes -= partition.chunks.iter().map(Chunk::bytes).sum::<usize>();
            partition.chunks.clear();
            let topic_partition = topic_partition.clone();
            self.lose(&topic_partition.clone(), FetchError::Corrupt { topic_partition, offset: position, cause });
        }
    }
}

fn wanted(position: Position) -> Place {
    Place::Wanted { position, not_before: Monotonic::START }
}

fn commit_position(offset: Offset, leader_epoch: i32) -> CommitPosition {
    CommitPosition { offset, leader_epoch, metadata: String::new() }
}

/// Whether there is more in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Exhausted,
    Full,
}

/// One answer of one partition, on its way to the user: the filter of read-committed.
///
/// `aborted` and `aborted_producers` live as long as the answer: the next one brings its own.
#[derive(Clone, Debug)]
struct Chunk {
    bytes: Bytes,
    /// The next batch.
    at: usize,
    isolation: Isolation,
    /// By first offset, rising.
    aborted: VecDeque<(ProducerId, Offset)>,
    aborted_producers: BTreeSet<ProducerId>,
    /// Records of a batch that were decoded and not taken yet, and the offset behind the batch.
    decoded: VecDeque<ConsumerRecord>,
    decoded_end: Offset,
}

impl Chunk {
    fn new(fetched: Fetched, isolation: Isolation) -> Self {
        let mut aborted = fetched.aborted;
        // Brokers send them in this order, but not all of them.
        aborted.sort_by_key(|(_, first_offset)| *first_offset);
        Self {
            bytes: fetched.records,
            at: 0,
            isolation,
            aborted: aborted.into(),
            aborted_producers: BTreeSet::new(),
            decoded: VecDeque::new(),
            decoded_end: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Moves records to the user until there are `room` more or none is left, and the position with them. Batches behind
    /// the last record that nobody sees are stepped over too, so that a position at the end is the end.
    fn take(
        &mut self,
        topic_partition: &TopicPartition,
        position: &mut Offset,
        leader_epoch: &mut i32,
        room: usize,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<Progress, RecordError> {
        let full = records.len() + room;
        loop {
            while records.len() < full
                && let Some(record) = self.decoded.pop_front()
            {
                *position = record.offset + 1;
                records.push(record);
            }
            if !self.decoded.is_empty() {
                return Ok(Progress::Full);
            }
            *position = (*position).max(self.decoded_end);
            let bytes = self.bytes.slice(self.at..);
            let Some(batch) = batches(&bytes).next() else { return Ok(Progress::Exhausted) };
            let batch = batch?;
            let is_hidden = self.hides(&batch)?;
            if !is_hidden && records.len() >= full {
                // Looked at again by the next call. That an aborted transaction begins here was noted; that does no harm.
                return Ok(Progress::Full);
            }
            self.at += batch.size_bytes();
            self.decoded_end = batch.next_offset();
            *leader_epoch = batch.partition_leader_epoch().max(*leader_epoch);
            if !is_hidden {
                self.decode(topic_partition, &bytes, &batch, *position)?;
            }
        }
    }

    /// Whether nobody sees the batch: control batches at either isolation, aborted ones if only what is committed is read.
    fn hides(&mut self, batch: &BatchView<'_>) -> Result<bool, RecordError> {
        batch.validate()?;
        let producer = batch.producer().id;
        if self.isolation == Isolation::ReadCommitted && producer.is_some() {
            while let Some((producer, _)) =
                self.aborted.pop_front_if(|(_, first_offset)| *first_offset <= batch.last_offset())
            {
                self.aborted_producers.insert(producer);
            }
            if batch.is_control() {
                if is_abort_marker(batch) {
                    self.aborted_producers.remove(&producer);
                }
                return Ok(true);
            }
            return Ok(batch.is_transactional() && self.aborted_producers.contains(&producer));
        }
        Ok(batch.is_control())
    }

    fn decode(
        &mut self,
        topic_partition: &TopicPartition,
        bytes: &Bytes,
        batch: &BatchView<'_>,
        position: Offset,
    ) -> Result<(), RecordError> {
        let payload = batch.decompress_shared(bytes, BATCH_BYTES_MAX)?;
        for record in batch.records_in(&payload) {
            let record = record?;
            // A fetch from within a batch brings the whole of it.
            if record.offset < position {
                continue;
            }
            self.decoded.push_back(ConsumerRecord {
                topic_partition: topic_partition.clone(),
                offset: record.offset,
                timestamp: Timestamp(record.timestamp),
                key: record.key.map(|key| payload.slice_ref(key)),
                value: record.value.map(|value| payload.slice_ref(value)),
                headers: record
                    .headers()
                    .map(|header| Header {
                        key: header.key_text().into_owned(),
                        value: header.value.map(|value| payload.slice_ref(value)),
                    })
                    .collect(),
            });
        }
        Ok(())
    }
}

/// Whether a control batch says that a transaction was aborted. Control records of other kinds are for others.
fn is_abort_marker(batch: &BatchView<'_>) -> bool {
    let Ok(mut records) = batch.records() else { return false };
    let Some(Ok(record)) = records.next() else { return false };
    read_marker(&record).is_ok_and(|marker| marker.outcome == Outcome::Abort)
}
