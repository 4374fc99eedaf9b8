//! Tasks that come to a worker and go from it, while those that it keeps go on.
//!
//! ```text
//! assigned ─► tasks that have changed: committed, given up
//!             new ones: producer initialised ─► offsets fetched ─► stores taken, times set ─► restored ─► running
//!                       (kept tasks are processed and committed meanwhile)
//! revoking ─► all committed ─► those that go: stores given back; the next call joins again, and then others get them
//! ```
//!
//! Invariants: the order of taking over is join, initialise, fetch the stable offsets, high watermarks, restore: another order commits or restores
//! what a former owner's open transaction still changes. A task ends before this worker's next joining says that it holds it no more.
//!
//! **What it does not know**: who gets what, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atonce_client::admin::CommittedOffset;
use atonce_client::error::AdminError;
use atonce_client::{ErrorClass, Position};
use atonce_kernel::{GroupId, TopicPartition};
use atonce_streams_core::{Guarantee, Task, TaskId};
use tokio::task::JoinSet;

use crate::error::WorkerError;
use crate::internal_topics::Topics;
use crate::partition_time;
use crate::restore::Restoration;
use crate::state::WorkerState;
use crate::worker::{Shared, Worker, blocking, measured};
use crate::writer::Writer;

/// How long another worker of the process may take to give a store back. (It has not yet heard that the group went on without it. Two that waited for
/// each other without an end would never hear of it.)
const STORE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Of a member that awaits tasks. The owner may be in the middle of a long commit; a division that waits for it already is not begun anew.
const ASK_FOR_AWAITED_EVERY_LEAST: Duration = Duration::from_secs(1);

/// How long to wait before committed offsets are asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// What a task is made of: with anything else it is another one.
pub(crate) struct Given {
    topics: Arc<Topics>,
    /// Those of its partitions that the group gave this member. (One may be missing that the leader does not know yet.)
    partitions: BTreeSet<TopicPartition>,
}

/// Tasks on their way to this worker.
pub(crate) struct Taking {
    tasks: BTreeMap<TaskId, BTreeSet<TopicPartition>>,
    committed: Committed,
    since: Instant,
}

/// Where the group stands in their partitions, and the times beside. What a former owner has pending is waited for.
enum Committed {
    /// Ends with what waits for it.
    Asked(JoinSet<Result<BTreeMap<TopicPartition, CommittedOffset>, AdminError>>),
    Known(BTreeMap<TopicPartition, CommittedOffset>),
}

impl Worker {
    /// These partitions go to others: all is committed, then the tasks that read them are given up. The others go on.
    pub(crate) async fn revoke(&mut self, partitions: &[TopicPartition]) -> Result<(), WorkerError> {
        if let Some(taking) = &mut self.taking {
            taking.tasks.retain(|_, mine| !partitions.iter().any(|partition| mine.contains(partition)));
        }
        let going: BTreeSet<TaskId> =
            partitions.iter().filter_map(|partition| self.owner_of.get(partition)).copied().collect();
        self.commit_and_give_up(&going).await
    }

    async fn commit_and_give_up(&mut self, going: &BTreeSet<TaskId>) -> Result<(), WorkerError> {
        if going.is_empty() {
            return Ok(());
        }
        // Of all tasks: their output is in one transaction.
        if self.has_uncommitted() {
            self.commit().await?;
        }
        self.give_up(going);
        Ok(())
    }

    /// All of this worker's partitions, as the group has divided them now.
    pub(crate) async fn take_over(
        &mut self,
        partitions: &[TopicPartition],
        is_more_to_come: bool,
    ) -> Result<(), WorkerError> {
        let mut new: BTreeMap<TaskId, BTreeSet<TopicPartition>> = BTreeMap::new();
        for partition in partitions {
            match self.topics.layout.task_of(partition) {
                Some(id) => drop(new.entry(id).or_default().insert(partition.clone())),
                // The leader knows more than this process. Its partition waits, and comes again once the topic is known here too.
                None => self.shared.look_again.notify_one(),
            }
        }
        let is_same = |given: &Given, partitions: &BTreeSet<TopicPartition>| {
            Arc::ptr_eq(&given.topics, &self.topics) && given.partitions == *partitions
        };
        let made_of = self.made_of.iter();
        let changed: BTreeSet<TaskId> = made_of
            .filter(|(id, given)| !new.get(id).is_some_and(|partitions| is_same(given, partitions)))
            .map(|(id, _)| *id)
            .collect();
        self.commit_and_give_up(&changed).await?;
        new.retain(|id, _| !self.tasks.contains_key(id));
        let (index, kept) = (self.index, list(self.tasks.keys()));
        tracing::info!("worker {index}: keeps tasks {kept}, takes over {}", list(new.keys()));

        self.awaits_since = is_more_to_come.then(Instant::now);
        self.taking = None;
        let partitions: Vec<TopicPartition> = new.values().flatten().cloned().collect();
        self.consumer.pause(&partitions);
        if !self.initialise_producer().await? {
            return Ok(());
        }
        // After the producer: what its predecessor left open is settled now, so what is committed is where the group really stands.
        for partition in &partitions {
            // An error means that it is lost already, as the next event says.
            let _ = self.consumer.seek(partition, Position::Committed);
        }
        if !new.is_empty() {
            let mut asked = JoinSet::new();
            asked.spawn(committed_offsets(Arc::clone(&self.shared), self.index, partitions));
            self.taking = Some(Taking { tasks: new, committed: Committed::Asked(asked), since: Instant::now() });
        }
        self.assignor.set_stored(self.shared.folder.stored_tasks());
        self.say_state();
        Ok(())
    }

    /// Asks for a division now and then while it awaits tasks. Their owners ask for one when they have given them up; but one that is killed in between
    /// comes back as the same static member, is told what it was told before, and does not know that it has given anything up.
    pub(crate) fn ask_for_awaited(&mut self) {
        let every = (self.shared.heartbeat_interval * 2).max(ASK_FOR_AWAITED_EVERY_LEAST);
        if self.awaits_since.is_some_and(|since| since.elapsed() >= every) {
            self.awaits_since = Some(Instant::now());
            self.consumer.enforce_rebalance();
        }
    }

    /// Makes those of the new tasks of which all is there by now.
    pub(crate) async fn take_some(&mut self) -> Result<(), WorkerError> {
        let Some(mut taking) = self.taking.take() else { return Ok(()) };
        if let Committed::Asked(asked) = &mut taking.committed
            && let Some(answered) = asked.try_join_next()
        {
            // It is not cancelled before it is dropped, so an error is a panic of ours.
            let answered = answered.expect("asking for offsets does not panic");
            taking.committed = Committed::Known(answered.map_err(|error| WorkerError::Restore(error.to_string()))?);
        }
        let committed = match &taking.committed {
            Committed::Known(committed) if self.stands_in_all(&taking) => committed,
            Committed::Known(_) | Committed::Asked(_) => {
                self.taking = Some(taking);
                return Ok(());
            }
        };
        let mut made = BTreeSet::new();
        for (id, partitions) in &taking.tasks {
            if self.make_task(*id, partitions)? {
                made.insert(*id);
            }
        }
        for (partition, committed) in committed {
            let task =
                self.owner_of.get(partition).filter(|id| made.contains(id)).and_then(|id| self.tasks.get_mut(id));
            // The times of the partitions lie beside their offsets. Without them stream time begins anew, which only late records would notice.
            if let (Some(time), Some(task)) = (partition_time::decode(&committed.metadata), task) {
                task.set_partition_time(partition, time);
            }
        }
        taking.tasks.retain(|id, _| !made.contains(id));
        if taking.tasks.is_empty() {
            tracing::debug!("worker {}: all tasks are made", self.index);
        } else if taking.since.elapsed() < STORE_WAIT_MAX {
            self.taking = Some(taking);
        } else {
            let (index, tasks) = (self.index, list(taking.tasks.keys()));
            tracing::warn!("worker {index}: another worker still has the stores of tasks {tasks}; it joins again");
            self.consumer.enforce_rebalance();
        }
        if !made.is_empty() {
            self.restore_and_run(&made).await?;
            self.assignor.set_stored(self.shared.folder.stored_tasks());
        }
        self.say_state();
        Ok(())
    }

    /// Whether the consumer knows where it stands in all partitions of the tasks on their way.
    fn stands_in_all(&self, taking: &Taking) -> bool {
        taking.tasks.values().flatten().all(|partition| self.consumer.position(partition).is_some())
    }

    /// Begins to bring the stores of these tasks up to their change logs, beside those that are on their way already, and lets those run that need
    /// nothing.
    pub(crate) async fn restore_and_run(&mut self, tasks: &BTreeSet<TaskId>) -> Result<(), WorkerError> {
        let all: BTreeSet<TaskId> = tasks.union(&self.restoring_tasks()).copied().collect();
        self.begin_restoring(&all).await?;
        let waiting = self.restoring_tasks();
        let partitions: Vec<TopicPartition> = self.partitions_of(&waiting);
        self.consumer.pause(&partitions);
        self.let_run(&all.difference(&waiting).copied().collect());
        Ok(())
    }

    /// Restores for a moment, and lets those tasks run whose stores are there.
    pub(crate) async fn restore(&mut self, wait: Duration) -> Result<(), WorkerError> {
        if self.restoration.is_some() {
            let ready = self.restore_some(wait).await?;
            self.let_run(&ready);
        }
        Ok(())
    }

    fn let_run(&mut self, ready: &BTreeSet<TaskId>) {
        if !self.is_paused {
            let partitions = self.partitions_of(ready);
            self.consumer.resume(&partitions);
        }
        self.say_state();
    }

    /// As seen from outside.
    fn say_state(&self) {
        self.state.send_replace(if self.awaits_since.is_some() {
            WorkerState::Joining
        } else if self.taking.is_some() || self.restoration.is_some() {
            WorkerState::Restoring
        } else {
            WorkerState::Running
        });
    }

    pub(crate) fn restoring_tasks(&self) -> BTreeSet<TaskId> {
        self.restoration.iter().flat_map(Restoration::tasks).collect()
    }

    pub(crate) fn partitions_of(&self, tasks: &BTreeSet<TaskId>) -> Vec<TopicPartition> {
        let tasks = self.tasks.iter().filter(|(id, _)| tasks.contains(id));
        tasks.flat_map(|(_, task)| task.partitions().cloned()).collect()
    }

    /// After the group is joined, and never before. `false`: told to stop meanwhile.
    async fn initialise_producer(&mut self) -> Result<bool, WorkerError> {
        while matches!(self.writer, Writer::Absent) {
            let started = match self.commit.guarantee() {
                Guarantee::ExactlyOnce => {
                    let transactional_id = self.shared.transactional_id(self.index);
                    Writer::initialise(&self.shared, transactional_id).await
                }
                Guarantee::AtLeastOnce | Guarantee::AtMostOnce => Writer::plain(&self.shared).await,
            };
            match started {
                Ok(writer) => self.writer = writer,
                Err(error) if error.class() == ErrorClass::InvalidConfiguration => return Err(error.into()),
                Err(error) => {
                    tracing::warn!("worker {}: {error}; trying again", self.index);
                    if self.is_stopping() {
                        return Ok(false);
                    }
                    self.back_off().await;
                }
            }
        }
        Ok(true)
    }

    /// `false`: another worker of this process has one of its stores still.
    fn make_task(&mut self, id: TaskId, partitions: &BTreeSet<TopicPartition>) -> Result<bool, WorkerError> {
        let (topology, surroundings) = (&self.topics.topology, &self.topics.surroundings);
        let mut engines = BTreeMap::new();
        let stores = Task::stores_of(topology, id, surroundings);
        for needed in &stores {
            match blocking(|| self.shared.folder.try_take(id, needed)) {
                Some(Ok(engine)) => {
                    engines.insert(needed.name.clone(), engine);
                }
                failed @ (Some(Err(_)) | None) => {
                    for (name, engine) in engines {
                        self.give_back(id, &name, engine);
                    }
                    return failed.map_or(Ok(false), |taken| taken.map(|_| false).map_err(WorkerError::from));
                }
            }
        }
        let names = stores.iter().map(|needed| needed.name.as_str());
        let numbers = self.shared.metrics.add_task(self.index, id, names);
        for needed in &stores {
            if let Some(engine) = engines.remove(&needed.name) {
                engines.insert(needed.name.clone(), measured(&numbers, needed, engine));
            }
        }
        for needed in &stores {
            if let Some(set_aside) = self.shared.folder.take_set_aside(id, &needed.name) {
                self.tell_set_aside(id, &needed.name, &set_aside.reason, set_aside.kept.as_deref());
            }
        }
        let task = Task::new(topology, id, surroundings.clone(), engines);
        self.task_numbers.insert(id, numbers);
        for partition in task.partitions() {
            self.owner_of.insert(partition.clone(), id);
        }
        self.tasks.insert(id, task);
        self.made_of.insert(id, Given { topics: Arc::clone(&self.topics), partitions: partitions.clone() });
        Ok(true)
    }

    /// Gives every task up; what was not committed is dropped with it.
    pub(crate) fn give_up_tasks(&mut self) {
        self.taking = None;
        self.awaits_since = None;
        let all = self.tasks.keys().copied().collect();
        self.give_up(&all);
        self.drop_held();
        self.last_changes.clear();
        self.uncommitted_since = None;
        self.uncommitted_records = 0;
        self.state.send_replace(WorkerState::Joining);
    }

    /// Gives tasks up, with what they have not committed.
    fn give_up(&mut self, going: &BTreeSet<TaskId>) {
        self.drop_restoring(going);
        let partitions = self.partitions_of(going);
        // This member may hold them still, and be given them again.
        self.consumer.pause(&partitions);
        for id in going {
            let Some(task) = self.tasks.remove(id) else { continue };
            self.made_of.remove(id);
            if let Some(numbers) = self.task_numbers.remove(id) {
                self.shared.metrics.remove_task(self.index, *id, &numbers);
            }
            for (store, engine) in task.into_engines() {
                self.give_back(*id, &store, engine);
            }
        }
        self.owner_of.retain(|_, id| !going.contains(id));
    }

    fn give_back(&self, id: TaskId, store: &str, engine: Box<dyn atonce_streams_core::StateStore>) {
        let needed = self.topics.topology.stores().iter().find(|specification| specification.name == store);
        let is_persistent = needed.is_some_and(|specification| specification.is_persistent);
        self.shared.folder.give_back(id, store, is_persistent, engine);
    }
}

/// Asks until there is an answer: an application may begin while its cluster does.
async fn committed_offsets(
    shared: Arc<Shared>,
    index: usize,
    partitions: Vec<TopicPartition>,
) -> Result<BTreeMap<TopicPartition, CommittedOffset>, AdminError> {
    let group = GroupId::from(shared.application_id.as_str());
    loop {
        match shared.client.admin().committed_offsets(&group, &partitions, true).await {
            Err(error) if error.class() != ErrorClass::InvalidConfiguration => {
                tracing::warn!("worker {index}: where the group stands is not known: {error}; trying again");
                tokio::time::sleep(ASK_AGAIN).await;
            }
            answered => return answered,
        }
    }
}

fn list<'a>(ids: impl IntoIterator<Item = &'a TaskId>) -> String {
    let ids: Vec<String> = ids.into_iter().map(ToString::to_string).collect();
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}
