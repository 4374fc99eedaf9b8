//! Making damaged partitions usable again: what is whole is kept, what is not is lost, and nothing else changes.
//!
//! **What it does not know**: who asked for it. It runs as a part of opening, when
//! [`StorageConfig::salvage`](crate::StorageConfig::salvage) says so.
//!
//! A damaged partition's segments are written anew, of whole batches alone, and take the place of the old ones as those of
//! a compaction do: with the checkpoint that ends the opening, or not at all. Offsets stay; where records are lost, readers find
//! a gap. What is known of producers and open transactions is in the checkpoint, and is not lost with them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::Offset;
use atonce_kernel::TopicPartition;
use atonce_kernel::disk::{Disk, DiskFile};
use bytes::{Bytes, BytesMut};

use crate::aborted::{encode_aborted, follow};
use crate::batch::BatchHeader;
use crate::compaction::{Cleaned, Target};
use crate::error::{Damage, OpenError};
use crate::files::{Stamps, cleaned_path};
use crate::handles::SegmentNumber;
use crate::partition::Partition;
use crate::producer::Producers;
use crate::storage::{Slot, Storage};
use crate::survey::Surveyed;

/// What became of a damaged partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Which.
    pub partition: TopicPartition,
    /// What was, or would be, lost; bytes behind each place up to the next whole batch.
    pub damages: Vec<Damage>,
    /// Offsets that have whole batches.
    pub offsets_kept: i64,
    /// Offsets from the log start to the end.
    pub offsets_expected: i64,
}

/// Repairs all partitions that need it.
pub(crate) fn repair_all<D: Disk>(storage: &mut Storage<D>) -> Result<Vec<Salvaged>, OpenError> {
    let mut salvaged = Vec::new();
    for slot in 0..storage.slots.len() {
        salvaged.extend(repair(storage, slot)?);
    }
    Ok(salvaged)
}

fn repair<D: Disk>(storage: &mut Storage<D>, slot: Slot) -> Result<Option<Salvaged>, OpenError> {
    let Some(log) = storage.slots.get_mut(slot).and_then(Option::as_mut) else { return Ok(None) };
    let disk = Arc::clone(&storage.shared.disk);
    let found = survey(&*disk, log)?;
    if found.damages.is_empty() && log.damage.is_none() {
        return Ok(None);
    }
    let folder = log.files.folder.clone();
    log.files.restore_folder(log.topic_id, &storage.shared)?;
    let mut producers = Producers::default();
    let mut targets = Vec::new();
    for segment in segments(log) {
        targets.push(write_anew(&*disk, &folder, &segment, &mut producers)?);
    }
    log.files.seal();
    let cleaned = Cleaned { targets, replaced: 0..log.files.written_end(), end: 0 };
    let retired = log.swap_in(&cleaned, &mut storage.shared)?;
    log.end_damage();
    storage.leftovers.files.extend(retired.into_iter().flatten().map(|path| (slot, path)));
    Ok(Some(found))
}

/// What is looked at of a segment, and copied.
pub(crate) struct Old {
    pub(crate) number: SegmentNumber,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) base_offset: Offset,
    pub(crate) end: Offset,
}

fn segments<D: Disk>(log: &Partition<D>) -> Vec<Old> {
    let ends = log.files.segments().skip(1).map(|files| files.segment.base_offset);
    log.files
        .segments()
        .zip(ends.chain([log.files.written_end()]))
        .map(|(files, end)| Old {
            number: files.segment.number,
            path: files.segment.path.clone(),
            bytes: files.segment.written_bytes(),
            base_offset: files.segment.base_offset,
            end,
        })
        .collect()
}

/// What is whole of a partition, and what is not. Nothing is changed.
pub(crate) fn survey<D: Disk>(disk: &D, log: &Partition<D>) -> Result<Salvaged, OpenError> {
    let mut damages: Vec<Damage> = Vec::new();
    let mut offsets_kept = 0;
    for segment in segments(log) {
        damages.extend(each_batch(disk, &segment, |header, _| {
            offsets_kept += (header.next_offset() - header.base_offset.max(log.log_start_offset)).max(0);
        })?);
    }
    let known = log.damage.as_deref().filter(|damage| damages.iter().all(|found| found.path != damage.path));
    damages.extend(known.cloned());
    let offsets_expected = log.files.written_end() - log.log_start_offset;
    Ok(Salvaged { partition: log.name.clone(), damages, offsets_kept, offsets_expected })
}

/// Calls `whole` with each whole batch of a segment. Returns what is damaged.
pub(crate) fn each_batch<D: Disk>(
    disk: &D,
    segment: &Old,
    whole: impl FnMut(&BatchHeader, &Bytes),
) -> Result<Vec<Damage>, OpenError> {
    let Old { path, bytes, base_offset, end, .. } = segment;
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(vec![Damage { path: path.clone(), position: 0, what: "the file is missing".to_owned() }]);
        }
        Err(error) => return Err(OpenError::disk("opening", path, &error)),
    };
    let surveyed = Surveyed { file: &file, path, bytes: *bytes, base_offset: *base_offset, end: *end };
    surveyed.survey(whole).map_err(|error| OpenError::disk("reading", path, &error))
}

/// Copies what is whole, with an index of what was aborted in it.
fn write_anew<D: Disk>(disk: &D, folder: &Path, segment: &Old, producers: &mut Producers) -> Result<Target, OpenError> {
    let path = cleaned_path(folder, segment.base_offset, "log");
    let file = make(disk, &path)?;
    let (mut written, mut stamps, mut aborted) = (0, Stamps::NONE, BytesMut::new());
    let mut failed = None;
    each_batch(disk, segment, |header, batch| {
        stamps.note(header.max_timestamp, header.last_offset());
        follow(producers, header, batch).iter().for_each(|entry| encode_aborted(entry, &mut aborted));
        failed = failed.take().or_else(|| file.write_at(batch, written).err());
        written += batch.len() as u64;
    })?;
    match failed {
        None => file.sync().map_err(|error| OpenError::disk("syncing", &path, &error))?,
        Some(error) => return Err(OpenError::disk("writing", &path, &error)),
    }
    if !aborted.is_empty() {
        let path = cleaned_path(folder, segment.base_offset, "txnindex");
        let file = make(disk, &path)?;
        let write = || {
            file.write_at(&aborted, 0)?;
            file.sync()
        };
        write().map_err(|error: io::Error| OpenError::disk("writing", &path, &error))?;
    }
    Ok(Target {
        old: vec![segment.number],
        base_offset: segment.base_offset,
        log_bytes: written,
        aborted_bytes: aborted.len() as u64,
        stamps,
    })
}

fn make<D: Disk>(disk: &D, path: &Path) -> Result<D::File, OpenError> {
    let make = || {
        let file = disk.open_or_create(path)?;
        file.set_length(0)?;
        Ok(file)
    };
    make().map_err(|error: io::Error| OpenError::disk("making", path, &error))
}
