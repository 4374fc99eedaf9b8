//! What makes a data folder smaller: compaction, and retention by time and size.
//!
//! **What it does not know**: when to look; its holder asks now and then.
//!
//! Both only choose, here, on the writer's thread. Compaction's copying is [`CompactionWork`]'s, elsewhere. Retention moves
//! log starts, which are entries of the journal like any other. Files go when a checkpoint does not name them any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use atonce_kernel::disk::Disk;
use atonce_kernel::{Offset, Timestamp, TopicPartition};

use crate::compaction::{
    self, Cleaned, CompactionChoice, CompactionDone, CompactionError, CompactionWork, Source, SourceSegment,
};
use crate::error::{DeleteRecordsError, JournalFailed, ReadError};
use crate::partition::Partition;
use crate::storage::Storage;

/// A log whose start is to move, because of its age or its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionChoice {
    /// Which.
    pub partition: TopicPartition,
    /// The first offset that stays.
    pub offset: Offset,
}

impl<D: Disk> Storage<D> {
    /// Writes to segments what waits in memory and may be old enough, or much enough, to be cleaned: only segments are.
    ///
    /// Errors: as of [`commit`](Self::commit).
    pub fn write_what_may_be_cleaned(&mut self, now: Timestamp) -> Result<(), JournalFailed> {
        self.check_failed()?;
        for slot in 0..self.slots.len() {
            if self.partition(slot).is_some_and(|log| log.may_be_cleaned(now)) {
                let written = self.write_segments(slot);
                self.remember_failure(written)?;
            }
        }
        Ok(())
    }

    /// So much was written to topics that are replayed at each start that their compaction should not wait.
    pub fn is_compaction_wanted(&self) -> bool {
        !self.is_compaction_running && self.replayed_bytes >= self.config.replayed_bytes_max
    }

    /// The log that most needs compaction, if one does and none is under way. One that is replayed at each start comes before
    /// others.
    pub fn choose_compaction(&mut self, now: Timestamp) -> Option<CompactionChoice> {
        if self.is_compaction_running {
            return None;
        }
        let may_be = |log: &&Partition<D>| {
            log.settings.is_compacted
                && !log.is_uncleanable
                && log.damage.is_none()
                && log.files.segments().len() > 1
                && !log.files.has_swaps()
        };
        self.replayed_bytes = 0;
        let choose = |is_replayed: bool| {
            let logs = self.slots.iter().flatten().filter(|log| log.settings.is_replayed == is_replayed);
            compaction::choose(logs.filter(may_be).map(Partition::overview), now)
        };
        choose(true).or_else(|| choose(false))
    }

    /// Begins what was chosen; the slow part goes on elsewhere. `None` if the log is not there any more, or another
    /// compaction is under way.
    pub fn begin_compaction(&mut self, choice: &CompactionChoice, now: Timestamp) -> Option<CompactionWork<D>> {
        if self.is_compaction_running {
            return None;
        }
        let slot = self.slot_by_id(choice.topic_id, choice.partition.partition)?;
        let log = self.partition(slot)?;
        let bases: Vec<Offset> = log.files.segments().map(|files| files.segment.base_offset).collect();
        let segments = log
            .files
            .segments()
            .zip(bases.iter().skip(1))
            .take_while(|(_, end)| **end <= choice.uncleanable_offset)
            .map(|(files, end)| SourceSegment { segment: Arc::clone(&files.segment), end: *end })
            .collect();
        let producers = log
            .producers
            .iter()
            .map(|(id, state)| (id, (state.epoch(), state.recent_batches().last().map(|batch| batch.last_offset))));
        let source = Source {
            partition: choice.partition.clone(),
            folder: log.files.folder.clone(),
            segments,
            reader: Arc::clone(&log.reader),
            producers: producers.collect::<BTreeMap<_, _>>(),
            log_start_offset: log.log_start_offset,
            first_dirty_offset: choice.first_dirty_offset,
            settings: log.settings,
            now,
            key_map_bytes_max: self.config.key_map_bytes_max,
            step_bytes: self.config.compaction_step_bytes,
        };
        self.is_compaction_running = true;
        Some(CompactionWork::new(Arc::clone(&self.shared.disk), slot, source))
    }

    /// Lets readers see what a compaction has made. The next checkpoint, which is due now, makes it last.
    ///
    /// Errors: why it came to nothing; the log is as it was, and the storage goes on. A log with damage is left alone
    /// from then on.
    pub fn finish_compaction(&mut self, done: CompactionDone) -> Result<(), CompactionError> {
        self.is_compaction_running = false;
        let result = match done.result {
            Ok(cleaned) => self.swap_in(done.slot, &cleaned),
            Err(error) => match (self.partition_mut(done.slot), &error) {
                // Its files were removed under it, as they should be.
                (None, _) => Ok(false),
                (Some(log), _) if !log.has_segments(&done.sources) => Ok(false),
                (Some(log), CompactionError::Read(ReadError::Corrupt { .. })) => {
                    log.is_uncleanable = true;
                    Err(error)
                }
                (Some(_), CompactionError::Read(_) | CompactionError::Write { .. }) => Err(error),
            },
        };
        if !matches!(result, Ok(true)) {
            // Recovery removes what stays.
            done.made.iter().for_each(|path| drop(self.shared.disk.remove_file(path)));
        }
        result.map(drop)
    }

    /// Whether the files that were made are the log's now.
    fn swap_in(&mut self, slot: usize, cleaned: &Cleaned) -> Result<bool, CompactionError> {
        let Some(log) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return Ok(false) };
        let swapped = log.swap_in(cleaned, &mut self.shared).map_err(|error| CompactionError::Write {
            operation: error.operation,
            path: error.path,
            cause: error.cause.to_string(),
        })?;
        let Some(retired) = swapped else { return Ok(false) };
        if cleaned.targets.is_empty() {
            return Ok(false);
        }
        self.leftovers.files.extend(retired.into_iter().map(|path| (slot, path)));
        self.wants_checkpoint = true;
        Ok(true)
    }

    /// Logs that are older or larger than their topics allow, and how much of them may stay. Nothing that a reader of
    /// committed data has not had a chance to see goes: an open transaction, and all behind its beginning, stay.
    pub fn choose_retention(&self, now: Timestamp) -> Vec<RetentionChoice> {
        let logs = self.slots.iter().flatten().filter(|log| log.settings.is_deleted && log.damage.is_none());
        let choose = |log: &Partition<D>| {
            let offset = log.retention_offset(now)?;
            Some(RetentionChoice { partition: log.name.clone(), offset })
        };
        logs.filter_map(choose).collect()
    }

    /// Moves the log starts that [`choose_retention`](Self::choose_retention) names, and those of before: their files go
    /// with the next checkpoint, which is due if there are any. What is staged wants a commit.
    ///
    /// Errors: as of [`delete_records`](Self::delete_records).
    pub fn enforce_retention(&mut self, now: Timestamp) -> Result<Vec<RetentionChoice>, DeleteRecordsError> {
        let choices = self.choose_retention(now);
        for choice in &choices {
            self.delete_records(&choice.partition, Some(choice.offset))?;
        }
        self.wants_checkpoint |= !choices.is_empty()
            || self.slots.iter().flatten().any(|log| log.damage.is_none() && log.has_old_segments());
        Ok(choices)
    }
}
