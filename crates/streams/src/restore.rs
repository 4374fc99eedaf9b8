//! Stores follow their change logs before their tasks run.
//!
//! What to replay is chosen by [`atonce_streams_core::restore`]; here it is read: up to the high watermark, *reading committed*. A
//! transaction of another that is still open in a change log is waited out, or committed state behind it would be missed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use atonce_client::{ConsumerEvent, Isolation, OffsetReset, OffsetSpec, Position};
use atonce_kernel::{Offset, TopicPartition};
use atonce_streams_core::restore::{ChangelogFacts, Distrust, RestoreChoice, choose};
use atonce_streams_core::store::StorePosition;
use atonce_streams_core::task::NeededStore;
use atonce_streams_core::{ChangelogRecord, Task, TaskId};

use crate::error::WorkerError;
use crate::internal_topics::Changelog;
use crate::statistics::add;
use crate::worker::{Worker, blocking, now};

/// How often the group hears of a worker that restores, and the user of how far it is.
const SIGN_OF_LIFE: Duration = Duration::from_millis(100);
const PROGRESS: Duration = Duration::from_secs(5);

/// Attempts before a change log that cannot be read ends the worker.
const ATTEMPTS: u32 = 3;

/// One store on its way.
struct Restoring {
    task: TaskId,
    store: String,
    changelog: Changelog,
    next: Offset,
    to: Offset,
}

impl Worker {
    /// Brings every store of every task up to its change log. `false`: the group, or the user, wants something else first; what
    /// was restored until then stands.
    pub(crate) async fn restore(&mut self) -> Result<bool, WorkerError> {
        let mut attempt = 1;
        loop {
            let failed = match self.try_restore().await {
                Ok(is_done) => return Ok(is_done),
                Err(RestoreFailure::Store(error)) => return Err(error.into()),
                Err(RestoreFailure::Changelog(message)) => message,
            };
            if attempt == ATTEMPTS {
                return Err(WorkerError::Restore(failed));
            }
            tracing::warn!("worker {}: restoring: {failed}; trying again", self.index);
            attempt += 1;
            self.back_off().await;
        }
    }

    async fn try_restore(&mut self) -> Result<bool, RestoreFailure> {
        let mut restoring = self.plan().await?;
        if restoring.is_empty() {
            return Ok(true);
        }
        let started = Instant::now();
        let from = restoring.iter().map(|(partition, store)| (partition.clone(), Position::Offset(store.next)));
        let from: Vec<(TopicPartition, Position)> = from.collect();
        let client = self.shared.client.clone();
        let mut consumer = client
            .consumer()
            .read_committed()
            // Anywhere else than where the store stands would be a wrong store.
            .auto_offset_reset(OffsetReset::Fail)
            .fetch_wait_max(SIGN_OF_LIFE)
            .assign(from)
            .await
            .map_err(changelog)?;
        let (mut last_sign, mut last_progress) = (Instant::now(), Instant::now());
        let mut records = 0;
        while restoring.values().any(|store| store.next < store.to) {
            if let Some(ConsumerEvent::Batch(batch)) = consumer.next_event(SIGN_OF_LIFE).await.map_err(changelog)? {
                records += batch.len() as u64;
                self.follow(&mut restoring, batch)?;
            }
            if last_progress.elapsed() >= PROGRESS {
                last_progress = Instant::now();
                let left: Offset = restoring.values().map(|store| (store.to - store.next).max(0)).sum();
                tracing::info!("worker {}: restored {records} records, {left} offsets to go", self.index);
            }
            if last_sign.elapsed() >= SIGN_OF_LIFE {
                last_sign = Instant::now();
                if self.is_stopping() || self.is_called_away().await {
                    return Ok(false);
                }
            }
        }
        tracing::info!("worker {}: restored {records} records in {:?}", self.index, started.elapsed());
        Ok(true)
    }

    /// The group's consumer is paused, but must be heard: whatever else comes than records goes first.
    async fn is_called_away(&mut self) -> bool {
        match self.consumer.next_event(Duration::ZERO).await {
            Ok(None | Some(ConsumerEvent::Batch(_))) => false,
            Ok(Some(event)) => {
                self.pending = Some(event);
                true
            }
            Err(error) => {
                // The main loop meets a lasting error again, and knows what to do. After a passing one the tasks come back by joining.
                tracing::warn!("worker {}: while restoring: {error}", self.index);
                self.consumer.enforce_rebalance();
                true
            }
        }
    }

    async fn plan(&mut self) -> Result<BTreeMap<TopicPartition, Restoring>, RestoreFailure> {
        let mut stores: Vec<(TaskId, String, TopicPartition, Option<StorePosition>)> = Vec::new();
        for (id, task) in &self.tasks {
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
            let Some(changelog) = self.shared.topics.changelogs.get(&partition.topic).copied() else {
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
                    tracing::warn!("worker {}: store {store} of task {task} is rebuilt: {reason}", self.index);
                    add(&self.shared.counters.rebuilt_stores, 1);
                    self.set_aside(task, &store)?;
                    (from, to)
                }
            };
            tracing::info!(
                "worker {}: store {store} of task {task} replays {partition} from {next} to {to}",
                self.index
            );
            restoring.insert(partition, Restoring { task, store, changelog, next, to });
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
            Some(task) if position.is_none() => task.has_stored_data(store).map_err(RestoreFailure::Store)?,
            Some(_) | None => false,
        };
        if has_data {
            let (from, to) = (facts.log_start_offset, facts.high_watermark);
            return Ok(RestoreChoice::Rebuild { reason: Distrust::NoPosition, from, to });
        }
        Ok(choose(position, facts))
    }

    fn set_aside(&mut self, id: TaskId, store: &str) -> Result<(), RestoreFailure> {
        let (topology, surroundings) = (&self.shared.topology, &self.shared.topics.surroundings);
        let needed =
            Task::stores_of(topology, id, surroundings).into_iter().find(|needed: &NeededStore| needed.name == store);
        if let (Some(needed), Some(task)) = (needed, self.tasks.get_mut(&id)) {
            let engine = self.shared.folder.reset(id, &needed).map_err(RestoreFailure::Store)?;
            task.replace_engine(store, engine);
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
            let position = StorePosition {
                topic_id: store.changelog.topic_id,
                offset: store.next,
                leader_epoch: (position.leader_epoch >= 0).then_some(position.leader_epoch),
                written_at: now(),
                guarantee: self.shared.guarantee,
            };
            add(&self.shared.counters.restored_records, records.len() as u64);
            if let Some(task) = self.tasks.get_mut(&store.task) {
                blocking(|| task.restore(&store.store, &records, position)).map_err(RestoreFailure::Store)?;
            }
        }
        Ok(())
    }
}

enum RestoreFailure {
    Store(atonce_streams_core::store::StoreError),
    /// The change log could not be read; it may be later.
    Changelog(String),
}

fn changelog(error: impl std::fmt::Display) -> RestoreFailure {
    RestoreFailure::Changelog(error.to_string())
}
