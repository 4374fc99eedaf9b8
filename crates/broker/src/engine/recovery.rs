//! What the writer does before it serves: replays the coordinators' logs through `apply`, then settles what they owe.
//!
//! Live running and recovery are the same code from `apply` on. What was prepared gets its markers where they are missing.

use std::io::Write as _;
use std::path::Path;

use atonce_coordinator::transaction::DecodeRecordError;
use atonce_coordinator::{Entry, Shard};
use atonce_kernel::TopicPartition;
use atonce_kernel::chance::Chance;
use atonce_log::{Durability, IsolationLevel};

use super::Engine;
use crate::coordinator_batch::{self, Logged};
use crate::topic_name::{CONSUMER_OFFSETS, TRANSACTION_STATE};

/// Producer ids that are skipped after a loss of power that may have taken reservations with it: a thousand blocks, more
/// than anybody draws between two checkpoints, and next to nothing of the 2^63 that there are.
const PRODUCER_IDS_SKIPPED: u32 = 1_000_000;

/// Bytes read from a coordinator's log at a time.
const READ_BYTES: usize = 1 << 20;

/// The file in the data folder that holds the cluster's id, which clients compare across connections.
const CLUSTER_ID_FILE: &str = "cluster.id";

/// The file in the data folder that says under which durability it is being written: after a loss of power that tells
/// whether acknowledged writes may be missing, whatever the durability is now.
const DURABILITY_FILE: &str = "durability";

impl Engine {
    /// Brings the coordinators to what their logs say, does what they owe, and shows all topics.
    ///
    /// `may_have_forgotten`: the machine went down while acknowledged writes were not synced. What the logs say is a
    /// prefix of what clients were told, so every transactional id gets a new producer, and clients begin anew.
    pub(super) fn recover(&mut self, may_have_forgotten: bool) -> Result<(), String> {
        self.fit_shards();
        let began = std::time::Instant::now();
        self.replayed_entries = 0;
        for partition in 0..self.transactions.partitions() {
            if let Err(error) = self.replay_transactions(partition) {
                tracing::error!(error, "this part of the transaction coordinator is offline, all else is served");
                let settings = std::sync::Arc::clone(&self.settings);
                self.transactions.take_offline(partition, &settings);
            }
        }
        for partition in 0..self.groups.partitions() {
            if let Err(error) = self.replay_groups(partition) {
                tracing::error!(error, "this part of the group coordinator is offline, all else is served");
                let settings = std::sync::Arc::clone(&self.settings);
                self.groups.take_offline(partition, &settings);
            }
        }
        let (entries, took) = (self.replayed_entries, began.elapsed());
        tracing::debug!(entries, ?took, "the coordinators' logs are replayed");
        self.look_for_consumer_groups();
        for partition in 0..self.transactions.partitions() {
            self.settle_again(partition);
        }
        if may_have_forgotten {
            // Blocks may have been handed out whose reservation is lost.
            self.storage
                .reserve_producer_ids(PRODUCER_IDS_SKIPPED)
                .map_err(|error| format!("no producer ids can be skipped after power loss: {error}"))?;
            for partition in 0..self.transactions.partitions() {
                self.renew_transactions(partition)?;
            }
        }
        self.commit();
        if let Some(reason) = self.failed.take() {
            return Err(reason);
        }
        self.show_all_topics();
        Ok(())
    }

    /// An internal topic that is there has the number of partitions it was made with, whatever is configured now: ids would
    /// else be looked for in the wrong one.
    fn fit_shards(&mut self) {
        let mut settings = (*self.settings).clone();
        if let Some(topic) = self.topic(TRANSACTION_STATE) {
            settings.transaction_state_partitions = topic.partitions;
        }
        if let Some(topic) = self.topic(CONSUMER_OFFSETS) {
            settings.offsets_partitions = topic.partitions;
        }
        self.transactions = super::TransactionHost::new(&settings);
        self.groups = super::GroupHost::new(&settings);
        self.settings = std::sync::Arc::new(settings);
    }

    fn replay_transactions(&mut self, partition: i32) -> Result<(), String> {
        let from = TopicPartition::new(TRANSACTION_STATE, partition);
        let index = usize::try_from(partition).unwrap_or(0);
        let shard = &mut self.transactions.shards[index];
        let entries = &mut self.replayed_entries;
        for_each_entry(&self.storage, &from, |logged| {
            *entries += 1;
            let Logged::Record { key, value, producer, offset, timestamp } = logged else {
                return Err(format!("{from}: a marker, where there are no transactions"));
            };
            match atonce_coordinator::transaction::Record::decode(key, value) {
                Ok(record) => {
                    let entry = Entry::Record { record: &record, producer, offset, timestamp };
                    shard.apply(&entry).map_err(|corrupt| format!("{from}: {corrupt}"))
                }
                // A kind of record from the future: whoever wrote it said that it may be skipped (KIP-915).
                Err(DecodeRecordError::UnknownKey { .. }) => Ok(()),
                Err(error) => Err(format!("{from} at offset {offset}: {error}")),
            }
        })
    }

    fn replay_groups(&mut self, partition: i32) -> Result<(), String> {
        let from = TopicPartition::new(CONSUMER_OFFSETS, partition);
        let index = usize::try_from(partition).unwrap_or(0);
        let shard = &mut self.groups.shards[index];
        let entries = &mut self.replayed_entries;
        for_each_entry(&self.storage, &from, |logged| {
            *entries += 1;
            let corrupt = |error: &dyn std::fmt::Display| format!("{from}: {error}");
            match logged {
                Logged::Record { key, value, producer, offset, timestamp } => {
                    match atonce_coordinator::group::Record::decode(key, value) {
                        Ok(Some(record)) => {
                            let entry = Entry::Record { record: &record, producer, offset, timestamp };
                            shard.apply(&entry).map_err(|error| corrupt(&error))
                        }
                        Ok(None) => Ok(()),
                        Err(error) => Err(format!("{from} at offset {offset}: {error}")),
                    }
                }
                Logged::Marker { producer, outcome, offset } => {
                    let entry = Entry::Marker { producer, outcome, offset };
                    shard.apply(&entry).map_err(|error| corrupt(&error))
                }
            }
        })
    }
}

/// Reads a coordinator's partition from its start to its end.
pub(super) fn for_each_entry(
    storage: &atonce_log::Storage<crate::disk::StdDisk>,
    from: &TopicPartition,
    mut entry: impl FnMut(Logged) -> Result<(), String>,
) -> Result<(), String> {
    let Some(reader) = storage.reader(from) else { return Ok(()) };
    let watermarks = reader.watermarks();
    let mut offset = watermarks.log_start_offset;
    while offset < watermarks.high_watermark {
        let read =
            reader.read(offset, READ_BYTES, IsolationLevel::ReadUncommitted).map_err(|error| error.to_string())?;
        let before = offset;
        for batch in &read.batches {
            offset =
                coordinator_batch::decode(batch, offset, &mut entry).map_err(|error| format!("{from}: {error}"))?;
        }
        if offset == before {
            return Err(format!("{from}: nothing can be read at offset {offset}"));
        }
    }
    Ok(())
}

/// The cluster's id: kept in the folder, made with it.
pub(super) fn cluster_id(folder: &Path, chance: &mut Chance) -> Result<String, String> {
    let path = folder.join(CLUSTER_ID_FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    let id = chance.uuid().to_string();
    write_durably(folder, CLUSTER_ID_FILE, &id)?;
    Ok(id)
}

/// Whether a broker has used the folder before: the id is written after the first checkpoint.
pub(super) fn has_cluster_id(folder: &Path) -> bool {
    folder.join(CLUSTER_ID_FILE).exists()
}

/// Under which durability the folder was written last; `None` if nobody said.
pub(crate) fn durability_before(folder: &Path) -> Option<Durability> {
    match std::fs::read_to_string(folder.join(DURABILITY_FILE)).ok()?.trim() {
        "sync" => Some(Durability::Sync),
        "os" => Some(Durability::Os),
        _ => None,
    }
}

/// Notes under which durability the folder is written from now on.
pub(super) fn remember_durability(folder: &Path, durability: Durability) -> Result<(), String> {
    let word = match durability {
        Durability::Sync => "sync",
        Durability::Os => "os",
    };
    write_durably(folder, DURABILITY_FILE, word)
}

/// Writes a small file that is there whole or not at all.
pub(super) fn write_durably(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let (path, beside) = (folder.join(name), folder.join(format!("{name}.new")));
    let write = || {
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &path)?;
        std::fs::File::open(folder)?.sync_all()
    };
    write().map_err(|error| format!("{}: {error}", path.display()))
}
