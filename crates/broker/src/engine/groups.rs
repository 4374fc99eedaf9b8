//! The host of the group coordinator's shards, one for each partition of `__consumer_offsets`.
//!
//! For each command: decide, stage the records (as part of the producer's transaction, for offsets sent to one), apply them,
//! note, and hand out the answers, some of them to those who waited. The end of a transaction comes here as a marker, on one
//! path whether we run or recover.
//!
//! **What it does not know**: what any command means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atonce_coordinator::group::config::{ConsumerConfig, MigrationPolicy};
use atonce_coordinator::group::consumer::assignor::Assignor;
use atonce_coordinator::group::consumer::topics::{TopicShape, TopicsImage};
use atonce_coordinator::group::{Command, GroupConfig, GroupCoordinator, Note, Record, Reply};
use atonce_coordinator::{Context, Entry, Shard, Waiter};
use atonce_kernel::{GroupId, Offset, Timestamp, TopicPartition};
use atonce_log::{Marker, Origin, VerificationGuard};
use atonce_protocol::ErrorCode;

use super::Engine;
use super::hashing::partition_for;
use super::held::{Held, HeldBy};
use super::transactions::{not_encoded, not_logged};
use crate::configuration::Settings;
use crate::coordinator_batch;
use crate::topic_name::CONSUMER_OFFSETS;

/// How long to wait after a tick whose records could not be logged.
const TICK_RETRY_MS: i64 = 1000;

/// Runs once the coordinator has answered.
type Continuation = Box<dyn FnOnce(&mut Engine, Reply) + Send>;

/// The picture of the topics that the shards have. It is made anew when a consumer group needs it, not with each topic.
#[derive(Debug, Default)]
struct TopicsShown {
    /// The picture's number; larger with each, also over restarts.
    version: i64,
    is_stale: bool,
    /// There is, or was, a consumer group.
    is_needed: bool,
}

/// The shards, and who waits for them.
pub(super) struct GroupHost {
    pub(super) shards: Vec<GroupCoordinator>,
    /// Those whose log cannot be read: they know nothing, and are asked nothing.
    offline: BTreeSet<i32>,
    waiting: BTreeMap<Waiter, Continuation>,
    topics: TopicsShown,
    /// After a tick that could not be logged: no other before this.
    no_tick_before: Timestamp,
}

impl GroupHost {
    pub(super) fn new(settings: &Settings) -> Self {
        let config = GroupConfig {
            session_timeout_ms_min: settings.group_session_timeout_ms_min,
            session_timeout_ms_max: settings.group_session_timeout_ms_max,
            initial_rebalance_delay_ms: settings.group_initial_rebalance_delay_ms,
            members_max: settings.group_members_max,
            offset_metadata_max: settings.offset_metadata_bytes_max,
            offsets_retention_ms: settings.offsets_retention_ms,
            consumer: ConsumerConfig {
                heartbeat_interval_ms: settings.consumer_heartbeat_interval_ms,
                session_timeout_ms: settings.consumer_session_timeout_ms,
                members_max: settings.consumer_members_max,
                assignors: settings.consumer_assignors.iter().filter_map(|name| Assignor::named(name)).collect(),
                migration: MigrationPolicy::named(&settings.consumer_migration_policy).unwrap_or_default(),
                assignment_interval_ms: settings.consumer_assignment_interval_ms,
            },
            ..GroupConfig::default()
        };
        let shards = (0..settings.offsets_partitions).map(|_| GroupCoordinator::new(config.clone())).collect();
        let offline = BTreeSet::new();
        Self {
            shards,
            offline,
            waiting: BTreeMap::new(),
            topics: TopicsShown::default(),
            no_tick_before: Timestamp::NONE,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = self.shards.iter().filter_map(Shard::next_deadline);
        deadlines.min().map(|deadline| deadline.max(self.no_tick_before))
    }

    /// Requests that wait for others.
    pub(super) fn held(&self) -> usize {
        self.waiting.len()
    }

    /// Topics are not what they were.
    pub(super) fn topics_have_changed(&mut self) {
        self.topics.is_stale = true;
    }

    pub(super) fn partitions(&self) -> i32 {
        i32::try_from(self.shards.len()).unwrap_or(i32::MAX)
    }

    fn shard(&self, partition: i32) -> Option<&GroupCoordinator> {
        let index = usize::try_from(partition).ok().filter(|_| !self.offline.contains(&partition))?;
        self.shards.get(index)
    }

    fn shard_mut(&mut self, partition: i32) -> Option<&mut GroupCoordinator> {
        let index = usize::try_from(partition).ok().filter(|_| !self.offline.contains(&partition))?;
        self.shards.get_mut(index)
    }

    /// Half of what a shard knew is worse than nothing: it forgets all, and is asked nothing more.
    pub(super) fn take_offline(&mut self, partition: i32, settings: &Settings) {
        self.offline.insert(partition);
        let mut fresh = Self::new(settings);
        let place = usize::try_from(partition).ok().and_then(|index| self.shards.get_mut(index));
        if let (Some(place), Some(shard)) = (place, fresh.shards.pop()) {
            *place = shard;
        }
    }
}

impl Engine {
    /// The partition of `__consumer_offsets` that a group belongs to.
    pub(crate) fn group_partition(&self, group: &GroupId) -> i32 {
        partition_for(group.as_str(), self.groups.partitions())
    }

    /// All partitions of `__consumer_offsets`.
    pub(crate) fn group_partitions(&self) -> std::ops::Range<i32> {
        0..self.groups.partitions()
    }

    /// Asks the shard of `group`; `then` runs with its answer, perhaps at once, perhaps after others have come.
    pub(crate) fn ask_groups(
        &mut self,
        group: &GroupId,
        command: &Command,
        held: &Held,
        then: impl FnOnce(&mut Self, Result<Reply, ErrorCode>) + Send + 'static,
    ) {
        let (partition, waiter) = (self.group_partition(group), self.new_waiter());
        match self.run_groups(partition, waiter, command, None) {
            Err(code) => then(self, Err(code)),
            Ok(Some(reply)) => then(self, Ok(reply)),
            Ok(None) => {
                held.by(HeldBy::Group { partition, group: group.clone(), waiter });
                self.groups.waiting.insert(waiter, Box::new(move |engine, reply| then(engine, Ok(reply))));
            }
        }
    }

    /// Nobody listens any more to the answer that `waiter` was promised.
    pub(super) fn group_caller_gone(&mut self, partition: i32, gone: &Command, waiter: Waiter) {
        if self.groups.waiting.remove(&waiter).is_none() {
            return;
        }
        let asking = self.new_waiter();
        if let Err(code) = self.run_groups(partition, asking, gone, None) {
            tracing::debug!(partition, %code, "a member that hung up is left to its time-out");
        }
    }

    /// Asks a group shard something that it answers at once. `guard` is for offsets sent to a transaction.
    pub(crate) fn groups_now(
        &mut self,
        partition: i32,
        command: &Command,
        guard: Option<VerificationGuard>,
    ) -> Result<Reply, ErrorCode> {
        let waiter = self.new_waiter();
        self.run_groups(partition, waiter, command, guard)?.ok_or(ErrorCode::UnknownServerError)
    }

    fn run_groups(
        &mut self,
        partition: i32,
        waiter: Waiter,
        command: &Command,
        guard: Option<VerificationGuard>,
    ) -> Result<Option<Reply>, ErrorCode> {
        self.show_topics_to_groups(command);
        let context =
            Context { now: self.now, waiter, fresh_producer_id: self.fresh_producer_id()?, fresh_uuid: self.uuid() };
        let shard = self.groups.shard(partition).ok_or(ErrorCode::NotCoordinator)?;
        let decision = shard.decide(&context, command);
        if !decision.records.is_empty() {
            self.begin_unit();
            let logged = self.log_groups(partition, &decision.records, command, guard);
            self.end_unit();
            logged?;
        }
        let shard = self.groups.shard_mut(partition).ok_or(ErrorCode::NotCoordinator)?;
        for note in &decision.notes {
            shard.note(note);
        }
        let mut own = None;
        for (to, reply) in decision.replies {
            if to == waiter {
                own = Some(reply);
            } else if let Some(then) = self.groups.waiting.remove(&to) {
                then(self, reply);
            }
        }
        Ok(own)
    }

    /// Gives the shards a new picture of the topics, if they need one and it is not what they have.
    fn show_topics_to_groups(&mut self, command: &Command) {
        let asks = matches!(command, Command::ConsumerGroupHeartbeat(_) | Command::ConsumerGroupDescribe(_));
        if asks && !self.groups.topics.is_needed {
            self.groups.topics = TopicsShown { is_needed: true, is_stale: true, ..self.groups.topics };
        }
        let shown = &mut self.groups.topics;
        if !shown.is_stale || !shown.is_needed {
            return;
        }
        shown.is_stale = false;
        shown.version = self.now.0.max(shown.version + 1);
        let topics = self.storage.catalog().topics();
        let topics =
            topics.map(|topic| (topic.name.clone(), TopicShape { id: topic.id, partitions: topic.partitions }));
        let image = Arc::new(TopicsImage::new(shown.version, topics));
        for shard in &mut self.groups.shards {
            shard.note(&Note::Topics(Arc::clone(&image)));
        }
    }

    /// After recovery: whether there are consumer groups, who have to know the topics.
    pub(super) fn look_for_consumer_groups(&mut self) {
        let mut shards = self.groups.shards.iter();
        self.groups.topics.is_needed = shards.any(|shard| shard.consumer_groups().next().is_some());
    }

    /// Stages the records as one batch, and applies them.
    fn log_groups(
        &mut self,
        partition: i32,
        records: &[Record],
        command: &Command,
        guard: Option<VerificationGuard>,
    ) -> Result<(), ErrorCode> {
        self.make_internal_topic(CONSUMER_OFFSETS)?;
        let to = TopicPartition::new(CONSUMER_OFFSETS, partition);
        let producer = command.producer();
        let batch = coordinator_batch::encode(records.iter().map(Record::encode), producer, self.now)
            .map_err(|error| not_encoded(&to, &error))?;
        let appended =
            self.append(&to, &batch, Origin::Coordinator { guard }).map_err(|error| not_logged(&to, &error))?;
        let timestamp = self.now;
        let shard = self.groups.shard_mut(partition).ok_or(ErrorCode::NotCoordinator)?;
        for (offset, record) in (appended.base_offset..).zip(records) {
            tracing::debug!(partition, ?record, "group");
            let entry = Entry::Record { record, producer, offset, timestamp };
            shard.apply(&entry).expect("what the shard decided follows its own state");
        }
        Ok(())
    }

    /// A transaction that sent offsets has ended: they become visible, or are dropped.
    pub(super) fn end_transaction_in_group(&mut self, partition: i32, marker: &Marker, offset: Offset) {
        let Some(shard) = self.groups.shard_mut(partition) else { return };
        let entry = Entry::Marker { producer: marker.producer, outcome: marker.outcome, offset };
        if let Err(corrupt) = shard.apply(&entry) {
            tracing::error!(partition, %corrupt, "a group shard cannot follow a marker");
        }
    }

    /// Sends each shard its tick while one is due.
    pub(super) fn tick_groups(&mut self) {
        let now = self.now;
        if self.groups.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        for partition in 0..self.groups.partitions() {
            let is_due = |engine: &Self| {
                let shard = engine.groups.shard(partition);
                shard.and_then(Shard::next_deadline).is_some_and(|deadline| deadline <= now)
            };
            while is_due(self) {
                let waiter = self.new_waiter();
                if self.run_groups(partition, waiter, &Command::Tick, None).is_err() {
                    self.groups.no_tick_before = now.plus_ms(TICK_RETRY_MS);
                    return;
                }
            }
        }
    }

    /// Removes what groups had committed for partitions that are no more.
    pub(super) fn forget_partitions_in_groups(&mut self, partitions: Vec<TopicPartition>) {
        let command = Command::PartitionsDeleted(partitions);
        for partition in 0..self.groups.partitions() {
            let waiter = self.new_waiter();
            if let Err(code) = self.run_groups(partition, waiter, &command, None) {
                tracing::error!(partition, %code, "offsets of a deleted topic stay");
            }
        }
    }
}
