//! Stores follow their change logs before their tasks run; tasks whose stores need nothing run meanwhile.
//!
//! What to replay is chosen by [`atonce_streams_core::restore`]; here it is read: up to the high watermark, *reading committed*. A
//! transaction of another that is still open in a change log is waited out, or committed state behind it would be missed.
//!
//! A restoration is a part of its worker's loop: a batch of the change logs, then whatever else there is to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use atonce_client::{Consumer, ConsumerEvent, Isolation, OffsetReset, OffsetSpec, Position};
use atonce_kernel::{Offset, TopicPartition};
use atonce_streams_core::restore::{ChangelogFacts, Distrust, RestoreChoice, choose};
use atonce_streams_core::store::{StoreError, StorePosition};
use atonce_streams_core::task::NeededStore;
use atonce_streams_core::{ChangelogRecord, Task, TaskId};

use crate::error::WorkerError;
use crate::internal_topics::Changelog;
use crate::listeners::RestoringStore;
use crate::metrics::lock;
use crate::statistics::add;
use crate::worker::{Worker, blocking, measured, now};

/// How long a fetch of change logs may wait at the broker: they hold what is wanted, or nothing more comes.
const FETCH_WAIT: Duration = Duration::from_millis(100);

/// How often the user hears how far it is.
const PROGRESS: Duration = Duration::from_secs(5);

/// How long nothing may come before it is looked whether the end is still where it was. An open transaction of another is waited out, however long.
const STALLED: Duration = Duration::from_secs(5);

/// Attempts before a change log that cannot be read ends the worker.
const ATTEMPTS: u32 = 3;

/// Stores on their way.
pub(crate) struct Restoration {
    consumer: Consumer,
    stores: BTreeMap<TopicPartition, Restoring>,
    started: Instant,
    last_progress: Instant,
    last_movement: Instant,
    records: u64,
    /// Offsets of stores that are there already.
    done_before: Offset,
    /// How often it has been begun.
    attempt: u32,
}

/// One store on its way.
struct Restoring {
    task: TaskId,
    store: String,
    changelog: Changelog,
    from: Offset,
    next: Offset,
    to: Offset,
    records: u64,
}

impl Restoring {
    fn told<'a>(&'a self, changelog: &'a TopicPartition) -> RestoringStore<'a> {
        RestoringStore { task: self.task, store: &self.store, changelog }
    }
}

impl Restoration {
    /// The tasks that must wait for a store.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.stores.values().map(|store| store.task)
    }

    /// How many offsets a task's stores have to go.
    pub(crate) fn remaining(&self, task: TaskId) -> Offset {
        let stores = self.stores.values().filter(|store| store.task == task);
        stores.map(|store| (store.to - store.next).max(0)).sum()
    }

    /// How far all of it is: offsets, since how many records lie between them is not known. Control records and what was compacted away count too.
    fn progress(&self) -> Progress {
        let (mut done, mut left) = (0, 0);
        for store in self.stores.values() {
            done += store.next - store.from;
            left += (store.to - store.next).max(0);
        }
        Progress { records: self.records, done: done + self.done_before, left, elapsed: self.started.elapsed() }
    }
}

/// What a user who waits is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    records: u64,
    done: Offset,
    left: Offset,
    elapsed: Duration,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { records, done, left, elapsed } = self;
        let percent = done.saturating_mul(100).checked_div(done + left).unwrap_or(100);
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = records.saturating_mul(1000) / milliseconds;
        write!(f, "{percent} % ({records} records, {rate} records/s, {left} offsets to go")?;
        let elapsed = elapsed.as_secs_f64();
        if *done > 0 {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let to_go = elapsed * *left as f64 / *done as f64;
            write!(f, ", about {to_go:.0} s")?;
        }
        f.write_str(")")
    }
}

impl Worker {
    /// Chooses what each store of these tasks has to replay. Those that need nothing may run at once; the others follow in
    /// [`restore_some`](Self::restore_some).
    pub(crate) async fn begin_restoring(&mut self, tasks: &BTreeSet<TaskId>) -> Result<(), WorkerError> {
        self.try_begin(tasks, 1).await
    }

    async fn try_begin(&mut self, tasks: &BTreeSet<TaskId>, mut attempt: u32) -> Result<(), WorkerError> {
        loop {
            match self.begin(tasks, attempt).await {
                Ok(restoration) => {
                    self.suspend_restoration();
                    self.restoration = restoration;
                    return Ok(());
                }
                Err(failure) => self.bear(failure, &mut attempt).await?,
            }
        }
    }

    /// A change log may be readable later; a store that fails is final.
    async fn bear(&mut self, failure: RestoreFailure, attempt: &mut u32) -> Result<(), WorkerError> {
        match failure {
            RestoreFailure::Store(error) => Err(error.into()),
            RestoreFailure::Damaged(.., reason) if *attempt == ATTEMPTS => Err(WorkerError::Restore(reason)),
            RestoreFailure::Damaged(task, store, reason) => {
                *attempt += 1;
                Ok(self.set_aside(task, &store, &reason)?)
            }
            RestoreFailure::Changelog(message) if *attempt == ATTEMPTS => Err(WorkerError::Restore(message)),
            RestoreFailure::Changelog(message) => {
                tracing::warn!("worker {}: restoring: {message}; trying again", self.index);
                *attempt += 1;
                self.back_off().await;
                Ok(())
            }
        }
    }

    async fn begin(&mut self, tasks: &BTreeSet<TaskId>, attempt: u32) -> Result<Option<Restoration>, RestoreFailure> {
        let stores = self.plan(tasks).await?;
        if stores.is_empty() {
            return Ok(None);
        }
        let from: Vec<(TopicPartition, Position)> =
            stores.iter().map(|(partition, store)| (partition.clone(), Position::Offset(store.next))).collect();
        let client = self.shared.client.clone();
        let consumer = client
            .consumer()
            .read_committed()
            // Anywhere else than where the store stands would be a wrong store.
            .auto_offset_reset(OffsetReset::Fail)
            .fetch_wait_max(FETCH_WAIT)
            .assign(from)
            .await
            .map_err(changelog)?;
        if let Some(listener) = &self.shared.restore_listener {
            for (changelog, store) in &stores {
                listener.on_restore_start(&store.told(changelog), store.from, store.to);
            }
        }
        let now = Instant::now();
        let (started, last_progress, last_movement) = (now, now, now);
        let (records, done_before) = (0, 0);
        Ok(Some(Restoration { consumer, stores, started, last_progress, last_movement, records, done_before, attempt }))
    }

    /// Takes in what has come of the change logs, waiting for it up to `wait`. Returns the tasks that can run now.
    pub(crate) async fn restore_some(&mut self, wait: Duration) -> Result<BTreeSet<TaskId>, WorkerError> {
        let Some(mut restoration) = self.restoration.take() else { return Ok(BTreeSet::new()) };
        let waiting: BTreeSet<TaskId> = restoration.tasks().collect();
        match self.restore_batch(&mut restoration, wait).await {
            Ok(()) => {}
            Err(failure) => {
                let mut attempt = restoration.attempt;
                self.tell_suspended(&restoration);
                drop(restoration);
                self.bear(failure, &mut attempt).await?;
                self.try_begin(&waiting, attempt).await?;
                let still: BTreeSet<TaskId> = self.restoration.iter().flat_map(Restoration::tasks).collect();
                return Ok(waiting.difference(&still).copied().collect());
            }
        }
        let mut done = 0;
        restoration.stores.retain(|changelog, store| {
            let is_there = store.next >= store.to;
            if is_there {
                done += store.next - store.from;
                if let Some(listener) = &self.shared.restore_listener {
                    listener.on_restore_end(&store.told(changelog), store.records);
                }
            }
            !is_there
        });
        restoration.done_before += done;
        let still: BTreeSet<TaskId> = restoration.tasks().collect();
        if still.is_empty() {
            let (records, elapsed) = (restoration.records, restoration.started.elapsed());
            tracing::info!("worker {}: restored {records} records in {elapsed:?}", self.index);
        } else {
            self.restoration = Some(restoration);
        }
        Ok(waiting.difference(&still).copied().collect())
    }

    async fn restore_batch(&mut self, restoration: &mut Restoration, wait: Duration) -> Result<(), RestoreFailure> {
        if let Some(ConsumerEvent::Batch(batch)) = restoration.consumer.next_event(wait).await.map_err(changelog)? {
            restoration.records += batch.len() as u64;
            restoration.last_movement = Instant::now();
            self.follow(&mut restoration.stores, batch)?;
        }
        if restoration.last_movement.elapsed() >= STALLED {
            restoration.last_movement = Instant::now();
            self.look_for_ends(restoration).await?;
        }
        if restoration.last_progress.elapsed() >= PROGRESS {
            restoration.last_progress = Instant::now();
            tracing::info!("worker {}: restoring, {}", self.index, restoration.progress());
        }
        Ok(())
    }

    /// Nothing has come for long: whether it can come at all. A log that was cut would be waited for for ever.
    async fn look_for_ends(&mut self, restoration: &Restoration) -> Result<(), RestoreFailure> {
        let latest: Vec<_> =
            restoration.stores.keys().map(|partition| (partition.clone(), OffsetSpec::Latest)).collect();
        let admin = self.shared.client.admin();
        let ends = admin.list_offsets(&latest, Isolation::ReadUncommitted).await.map_err(changelog)?;
        for (partition, store) in &restoration.stores {
            let (Some(end), to) = (ends.get(partition).and_then(|listed| listed.offset), store.to) else { continue };
            if end < to {
                return Err(RestoreFailure::Changelog(format!(
                    "{partition} was cut: it ends at {end}, and ended at {to}"
                )));
            }
            let next = store.next;
            tracing::info!(
                "worker {}: {partition} shows nothing from {next} on, and ends at {end}: an open transaction is waited for",
                self.index
            );
        }
        Ok(())
    }

    /// Its tasks go away.
    pub(crate) fn suspend_restoration(&mut self) {
        if let Some(restoration) = self.restoration.take() {
            self.tell_suspended(&restoration);
        }
    }

    /// Some tasks go away; the others are restored on.
    pub(crate) fn drop_restoring(&mut self, going: &BTreeSet<TaskId>) {
        let Some(mut restoration) = self.restoration.take() else { return };
        let (gone, left): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut restoration.stores).into_iter().partition(|(_, store)| going.contains(&store.task));
        if let Some(listener) = &self.shared.restore_listener {
            for (changelog, store) in &gone {
                listener.on_restore_suspended(&store.told(changelog), store.records);
            }
        }
        if left.is_empty() {
            return;
        }
        let partitions: Vec<TopicPartition> = gone.into_keys().collect();
        restoration.consumer.unassign(&partitions).expect("it reads what it is told");
        restoration.stores = left;
        self.restoration = Some(restoration);
    }

    fn tell_suspended(&self, restoration: &Restoration) {
        if let Some(listener) = &self.shared.restore_listener {
            for (changelog, store) in &restoration.stores {
                listener.on_restore_suspended(&store.told(changelog), store.records);
            }
        }
    }

    async fn plan(&mut self, tasks: &BTreeSet<TaskId>) -> Result<BTreeMap<TopicPartition, Restoring>, RestoreFailure> {
        let mut stores: Vec<(TaskId, String, TopicPartition, Option<StorePosition>)> = Vec::new();
        for (id, task) in self.tasks.iter().filter(|(id, _)| tasks.contains(id)) {
            stores.extend(
                task.store_positions()
                    .into_iter()
                    .map(|(store, partition, position)| (*id, store, partition, position)),
            );
        }
        if stores.is_empty() {
            return Ok(BTreeMap::new());
        }
        let admin = self.shared.client.admin();
        let at =
            |spec: OffsetSpec| stores.iter().map(|(_, _, partition, _)| (partition.clone(), spec)).collect::<Vec<_>>();
        let ends = admin.list_offsets(&at(OffsetSpec::Latest), Isolation::ReadUncommitted).await.map_err(changelog)?;
        let starts =
            admin.list_offsets(&at(OffsetSpec::Earliest), Isolation::ReadUncommitted).await.map_err(changelog)?;
        let mut restoring = BTreeMap::new();
        for (task, store, partition, position) in stores {
            let offset = |offsets: &BTreeMap<TopicPartition, atonce_client::admin::ListedOffset>| {
                offsets.get(&partition).and_then(|listed| listed.offset)
            };
            let (Some(high_watermark), Some(log_start_offset)) = (offset(&ends), offset(&starts)) else {
                return Err(RestoreFailure::Changelog(format!("{partition} does not tell where it begins and ends")));
            };
            let Some(changelog) = self.topics.changelogs.get(&partition.topic).copied() else {
                return Err(RestoreFailure::Changelog(format!(
                    "{partition} is not one of the application's change logs"
                )));
            };
            let facts = ChangelogFacts {
                topic_id: changelog.topic_id,
                log_start_offset,
                high_watermark,
                delete_retention_ms: changelog.delete_retention_ms,
                now: now(),
                guarantee: self.shared.guarantee,
            };
            let (next, to) = match self.choose(task, &store, position, &facts)? {
                RestoreChoice::UpToDate => continue,
                RestoreChoice::Replay { from, to } => (from, to),
                RestoreChoice::Rebuild { reason, from, to } => {
                    self.set_aside(task, &store, &reason.to_string()).map_err(RestoreFailure::Store)?;
                    (from, to)
                }
            };
            tracing::info!(
                "worker {}: store {store} of task {task} replays {partition} from {next} to {to}",
                self.index
            );
            restoring.insert(partition, Restoring { task, store, changelog, from: next, next, to, records: 0 });
        }
        Ok(restoring)
    }

    fn choose(
        &self,
        task: TaskId,
        store: &str,
        position: Option<StorePosition>,
        facts: &ChangelogFacts,
    ) -> Result<RestoreChoice, RestoreFailure> {
        let has_data = match self.tasks.get(&task) {
            Some(of) if position.is_none() => {
                of.has_stored_data(store).map_err(|error| RestoreFailure::of_store(task, error))?
            }
            Some(_) | None => false,
        };
        if has_data {
            let (from, to) = (facts.log_start_offset, facts.high_watermark);
            return Ok(RestoreChoice::Rebuild { reason: Distrust::NoPosition, from, to });
        }
        Ok(choose(position, facts))
    }

    /// After a damaged store has ended an interval: sets it aside, and lets its task wait until it is rebuilt. `false`: this error is about something
    /// else, or about a store that no change log has.
    pub(crate) async fn mend(&mut self, error: &WorkerError) -> Result<bool, WorkerError> {
        let WorkerError::Processing(error) = error else { return Ok(false) };
        let Some(store) = error.damaged_store() else { return Ok(false) };
        let needed = Task::stores_of(&self.topics.topology, error.task, &self.topics.surroundings);
        if !needed.iter().any(|needed| needed.name == store && needed.changelog.is_some()) {
            return Ok(false);
        }
        // On a disk that fails, one after the other may be damaged.
        self.back_off().await;
        if self.tasks.contains_key(&error.task) {
            self.set_aside(error.task, store, &error.cause.to_string())?;
            self.restore_and_run(&BTreeSet::from([error.task])).await?;
        }
        Ok(true)
    }

    /// A store was set aside, and says so.
    pub(crate) fn tell_set_aside(&self, task: TaskId, store: &str, reason: &str, kept: Option<&Path>) {
        let lies = kept.map_or_else(String::new, |kept| format!("; what it was lies in {}", kept.display()));
        tracing::warn!("worker {}: store {store} of task {task} is set aside and rebuilt: {reason}{lies}", self.index);
        add(&self.shared.counters.rebuilt_stores, 1);
        let needed = Task::stores_of(&self.topics.topology, task, &self.topics.surroundings);
        let changelog = needed.into_iter().find(|needed| needed.name == store).and_then(|needed| needed.changelog);
        if let (Some(listener), Some(changelog)) = (&self.shared.restore_listener, &changelog) {
            listener.on_store_set_aside(&RestoringStore { task, store, changelog }, reason, kept);
        }
    }

    fn set_aside(&mut self, id: TaskId, store: &str, reason: &str) -> Result<(), StoreError> {
        let (topology, surroundings) = (&self.topics.topology, &self.topics.surroundings);
        let needed =
            Task::stores_of(topology, id, surroundings).into_iter().find(|needed: &NeededStore| needed.name == store);
        if let (Some(needed), Some(task)) = (needed, self.tasks.get_mut(&id)) {
            let (engine, kept) = blocking(|| self.shared.folder.set_aside(id, &needed, reason))?;
            let engine = match self.task_numbers.get(&id) {
                Some(numbers) => measured(numbers, &needed, engine),
                None => engine,
            };
            task.replace_engine(store, engine);
            self.tell_set_aside(id, store, reason, kept.as_deref());
        }
        Ok(())
    }

    fn follow(
        &mut self,
        restoring: &mut BTreeMap<TopicPartition, Restoring>,
        batch: atonce_client::Batch,
    ) -> Result<(), RestoreFailure> {
        let positions = batch.positions();
        let mut changes: BTreeMap<TopicPartition, Vec<ChangelogRecord>> = BTreeMap::new();
        for record in batch.records {
            // A record without a key is none of ours; a change log has a key in each.
            let Some(key) = record.key else { continue };
            changes.entry(record.topic_partition.clone()).or_default().push(ChangelogRecord {
                topic_partition: record.topic_partition,
                key,
                value: record.value,
                timestamp: record.timestamp,
            });
        }
        for (partition, position) in positions.iter() {
            let Some(store) = restoring.get_mut(partition) else { continue };
            let records = changes.remove(partition).unwrap_or_default();
            store.next = position.offset;
            store.records += records.len() as u64;
            let position = StorePosition {
                topic_id: store.changelog.topic_id,
                offset: store.next,
                leader_epoch: (position.leader_epoch >= 0).then_some(position.leader_epoch),
                written_at: now(),
                guarantee: self.shared.guarantee,
            };
            add(&self.shared.counters.restored_records, records.len() as u64);
            if let Some(task) = self.tasks.get_mut(&store.task) {
                blocking(|| task.restore(&store.store, &records, position))
                    .map_err(|error| RestoreFailure::of_store(store.task, error))?;
            }
            if let Some(numbers) = self.task_numbers.get(&store.task) {
                lock(numbers).restored(records.len() as u64);
            }
            if let Some(listener) = &self.shared.restore_listener {
                listener.on_batch_restored(&store.told(partition), store.next, records.len() as u64);
            }
        }
        Ok(())
    }
}

enum RestoreFailure {
    Store(StoreError),
    /// This task's store is damaged: it can be set aside.
    Damaged(TaskId, String, String),
    /// The change log could not be read; it may be later.
    Changelog(String),
}

impl RestoreFailure {
    fn of_store(task: TaskId, error: StoreError) -> Self {
        let reason = error.to_string();
        match error {
            StoreError::Damaged { store, .. } => Self::Damaged(task, store, reason),
            error => Self::Store(error),
        }
    }
}

fn changelog(error: impl std::fmt::Display) -> RestoreFailure {
    RestoreFailure::Changelog(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_far_how_fast_and_how_long() {
        let progress = Progress { records: 5000, done: 6000, left: 18_000, elapsed: Duration::from_secs(2) };
        assert_eq!(progress.to_string(), "25 % (5000 records, 2500 records/s, 18000 offsets to go, about 6 s)");
        let nothing = Progress { records: 0, done: 0, left: 10, elapsed: Duration::ZERO };
        assert_eq!(nothing.to_string(), "0 % (0 records, 0 records/s, 10 offsets to go)");
        let all = Progress { records: 1, done: 0, left: 0, elapsed: Duration::ZERO };
        assert_eq!(all.to_string(), "100 % (1 records, 1000 records/s, 0 offsets to go)");
    }
}
