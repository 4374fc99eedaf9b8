//! The checkpoint: what recovery begins with. It vouches for segments up to a length, and names the place in the
//! journal from which the rest is to be applied again.
//!
//! **What it does not know**: how it came about. Here are its bytes, how they are made durable, and what is removed
//! afterwards.
//!
//! Layout (big-endian): `magic 7 ("atonceC") | version u8 ("3") | checksum u32 (CRC-32C of the version and all that follows) | durability u8 (0 sync, 1
//! os) | boot_id 16 (zero: unknown) | leader_epoch i32 | file_number u64 | offset u64 | group_number u64 |
//! previous_checksum u32 | journal_file_bytes u64 | has_file u8 | next_producer_id i64 | topics u32 | topic… | partitions u32 | partition…`. A topic as in
//! the journal's entry 2. A partition: `topic_id 16 | index i32 | log_start_offset i64 | end_offset i64 | cleaned_end i64 | last_swap u64 |
//! segments u32 | (base_offset i64 | log_bytes u64 | txnindex_bytes u64 | first_timestamp i64 | max_timestamp i64 |
//! max_timestamp_offset i64 | swap u64)… | producers`, these as in [`Producers::encode`].
//! `journal_file_bytes`: the length of every journal file from the place on. `has_file`: 1 if the place's was there. Both
//! are missing in version 1. `cleaned_end`, `last_swap`, timestamps and `swap` (0: none) are missing in versions 1 and 2, whose checksum does not
//! cover the version. All three are read; a later version is refused by name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, PartitionIndex, Timestamp, TopicId, Uuid};
use bytes::{BufMut, BytesMut};

use crate::catalog::{Catalog, Topic};
use crate::config::Durability;
use crate::entry::{decode_topic, encode_topic};
use crate::error::{JournalFailed, OpenError};
use crate::fields::Fields;
use crate::files::{Stamps, UnsyncedFiles};
use crate::handles::SegmentNumber;
use crate::index::IndexJob;
use crate::journal::Place;
use crate::producer::Producers;
use crate::storage::Slot;

pub(crate) const CHECKPOINT_FILE: &str = "checkpoint";
const TEMPORARY_FILE: &str = "checkpoint.tmp";
/// The first seven bytes of every checkpoint; the eighth is the version of the format.
const MAGIC: [u8; 7] = *b"atonceC";
/// The version that is written. 1: without what is known of journal files. 2: without what compaction and retention need.
pub(crate) const FORMAT_VERSION: u8 = 3;
const BODY_AT: usize = 12;
/// A checkpoint larger than this is taken for damage. 1 GiB is some ten million partitions.
const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;

/// What a checkpoint says.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) version: u8,
    pub(crate) durability: Durability,
    pub(crate) boot_id: Option<Uuid>,
    pub(crate) leader_epoch: i32,
    pub(crate) place: Place,
    /// `None`: it does not say.
    pub(crate) journal_files: Option<JournalFiles>,
    pub(crate) next_producer_id: i64,
    pub(crate) topics: Vec<Topic>,
    pub(crate) partitions: Vec<PartitionCheckpoint>,
}

/// What must be found of the journal's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalFiles {
    /// Length of each file from the place on.
    pub(crate) bytes: u64,
    /// The place's file was there.
    pub(crate) has_file: bool,
}

#[derive(Debug)]
pub(crate) struct PartitionCheckpoint {
    pub(crate) topic_id: TopicId,
    pub(crate) index: PartitionIndex,
    pub(crate) log_start_offset: Offset,
    pub(crate) end_offset: Offset,
    /// Below, compaction has left each key once.
    pub(crate) cleaned_end: Offset,
    /// The number of the last swap.
    pub(crate) last_swap: u64,
    pub(crate) segments: Vec<SegmentCheckpoint>,
    pub(crate) producers: Producers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentCheckpoint {
    pub(crate) base_offset: Offset,
    pub(crate) log_bytes: u64,
    pub(crate) aborted_bytes: u64,
    /// Before version 3 nobody wrote them down: `NONE`.
    pub(crate) stamps: Stamps,
    /// Its files have the names of that swap, or were renamed since.
    pub(crate) swap: Option<u64>,
}

/// What stands before the partitions.
pub(crate) struct Head<'a> {
    pub(crate) durability: Durability,
    pub(crate) boot_id: Option<Uuid>,
    pub(crate) leader_epoch: i32,
    pub(crate) place: Place,
    pub(crate) journal_files: JournalFiles,
    pub(crate) catalog: &'a Catalog,
}

/// Begins a checkpoint's bytes. `partitions` times [`encode_partition`] must follow, then [`seal`].
pub(crate) fn encode_head(head: &Head<'_>, partitions: usize) -> BytesMut {
    let mut buffer = BytesMut::new();
    buffer.put_slice(&MAGIC);
    buffer.put_u8(b'0' + FORMAT_VERSION);
    buffer.put_u32(0);
    buffer.put_u8(match head.durability {
        Durability::Sync => 0,
        Durability::Os => 1,
    });
    buffer.put_slice(&head.boot_id.unwrap_or(Uuid::ZERO).0);
    buffer.put_i32(head.leader_epoch);
    buffer.put_u64(head.place.file_number);
    buffer.put_u64(head.place.offset);
    buffer.put_u64(head.place.group_number);
    buffer.put_u32(head.place.previous_checksum);
    buffer.put_u64(head.journal_files.bytes);
    buffer.put_u8(u8::from(head.journal_files.has_file));
    buffer.put_i64(head.catalog.next_producer_id().0);
    buffer.put_u32(u32::try_from(head.catalog.topics().count()).expect("topics fit in memory"));
    for topic in head.catalog.topics() {
        encode_topic(topic, &mut buffer);
    }
    buffer.put_u32(u32::try_from(partitions).expect("partitions fit in memory"));
    buffer
}

pub(crate) fn encode_partition(
    buffer: &mut BytesMut,
    (topic_id, index): (TopicId, PartitionIndex),
    (log_start_offset, end_offset, cleaned_end): (Offset, Offset, Offset),
    last_swap: u64,
    segments: impl ExactSizeIterator<Item = SegmentCheckpoint>,
    producers: &Producers,
) {
    buffer.put_slice(&topic_id.0);
    buffer.put_i32(index);
    buffer.put_i64(log_start_offset);
    buffer.put_i64(end_offset);
    buffer.put_i64(cleaned_end);
    buffer.put_u64(last_swap);
    buffer.put_u32(u32::try_from(segments.len()).expect("segments fit in memory"));
    for segment in segments {
        buffer.put_i64(segment.base_offset);
        buffer.put_u64(segment.log_bytes);
        buffer.put_u64(segment.aborted_bytes);
        buffer.put_i64(segment.stamps.first_timestamp.0);
        buffer.put_i64(segment.stamps.max_timestamp.0);
        buffer.put_i64(segment.stamps.max_timestamp_offset);
        buffer.put_u64(segment.swap.unwrap_or(0));
    }
    producers.encode(buffer);
}

pub(crate) fn seal(buffer: &mut BytesMut) {
    let checksum = checksum(FORMAT_VERSION, buffer.get(BODY_AT..).unwrap_or_default());
    if let Some(place) = buffer.get_mut(8..BODY_AT) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The version of the format; `None` if this is no checkpoint.
fn version(bytes: &[u8]) -> Option<u8> {
    let (magic, rest) = bytes.split_first_chunk::<7>()?;
    rest.first().filter(|_| *magic == MAGIC)?.checked_sub(b'0')
}

fn checksum(version: u8, body: &[u8]) -> u32 {
    let start = if version >= 3 { crc32c::crc32c(&[version]) } else { 0 };
    crc32c::crc32c_append(start, body)
}

impl Checkpoint {
    /// Reads the folder's checkpoint; `None` if there is none.
    pub(crate) fn read<D: Disk>(disk: &D, directory: &Path) -> Result<Option<Self>, OpenError> {
        let path = directory.join(CHECKPOINT_FILE);
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::disk("opening", &path, &error)),
        };
        let length = file.length().map_err(|error| OpenError::disk("reading the length", &path, &error))?;
        if length > CHECKPOINT_BYTES_MAX {
            return Err(OpenError::corrupt(&path, 0, format!("{length} bytes are no checkpoint")));
        }
        let mut bytes = BytesMut::zeroed(usize::try_from(length).unwrap_or_default());
        let count = file.read_at(&mut bytes, 0).map_err(|error| OpenError::disk("reading", &path, &error))?;
        let bytes = bytes.get(..count).unwrap_or_default();
        if let Some(version) = version(bytes).filter(|version| *version > FORMAT_VERSION) {
            return Err(OpenError::NewerFormat { path, found: version, known: FORMAT_VERSION });
        }
        Self::decode(bytes)
            .map(Some)
            .ok_or_else(|| OpenError::corrupt(&path, 0, "the checkpoint's checksum or content is wrong"))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(bytes);
        let version = version(bytes).filter(|version| (1..=FORMAT_VERSION).contains(version))?;
        let _magic: [u8; 8] = fields.array()?;
        if fields.u32()? != checksum(version, fields.rest()) {
            return None;
        }
        let durability = match fields.u8()? {
            0 => Durability::Sync,
            1 => Durability::Os,
            _ => return None,
        };
        let boot_id = Some(Uuid(fields.array()?)).filter(|id| !id.is_zero());
        let leader_epoch = fields.i32()?;
        let place = Place {
            file_number: fields.u64()?,
            offset: fields.u64()?,
            group_number: fields.u64()?,
            previous_checksum: fields.u32()?,
        };
        let journal_files =
            if version >= 2 { Some(JournalFiles { bytes: fields.u64()?, has_file: fields.u8()? != 0 }) } else { None };
        let next_producer_id = fields.i64()?;
        let mut topics = Vec::new();
        for _ in 0..fields.u32()? {
            topics.push(decode_topic(&mut fields)?);
        }
        let mut partitions = Vec::new();
        for _ in 0..fields.u32()? {
            partitions.push(PartitionCheckpoint::decode(&mut fields, version)?);
        }
        Some(Self {
            version,
            durability,
            boot_id,
            leader_epoch,
            place,
            journal_files,
            next_producer_id,
            topics,
            partitions,
        })
    }
}

impl PartitionCheckpoint {
    fn decode(fields: &mut Fields<'_>, version: u8) -> Option<Self> {
        let (topic_id, index) = (Uuid(fields.array()?), fields.i32()?);
        let (log_start_offset, end_offset) = (fields.i64()?, fields.i64()?);
        let (cleaned_end, last_swap) = if version >= 3 { (fields.i64()?, fields.u64()?) } else { (0, 0) };
        let mut segments = Vec::new();
        for _ in 0..fields.u32()? {
            let mut segment = SegmentCheckpoint {
                base_offset: fields.i64()?,
                log_bytes: fields.u64()?,
                aborted_bytes: fields.u64()?,
                stamps: Stamps::NONE,
                swap: None,
            };
            if version >= 3 {
                segment.stamps = Stamps {
                    first_timestamp: Timestamp(fields.i64()?),
                    max_timestamp: Timestamp(fields.i64()?),
                    max_timestamp_offset: fields.i64()?,
                };
                segment.swap = Some(fields.u64()?).filter(|swap| *swap != 0);
            }
            segments.push(segment);
        }
        let producers = Producers::decode(fields)?;
        Some(Self { topic_id, index, log_start_offset, end_offset, cleaned_end, last_swap, segments, producers })
    }
}

/// The slow part of a checkpoint: syncing. It touches nothing that the writer needs, so it may run on another thread.
pub struct CheckpointWork<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) directory: PathBuf,
    /// With unsynced writes.
    pub(crate) files: UnsyncedFiles<D>,
    /// With new names.
    pub(crate) folders: Vec<UnsyncedFolder>,
    pub(crate) bytes: BytesMut,
    /// Not named by it any more.
    pub(crate) leftovers: Leftovers,
    /// Complete segments without index files.
    pub(crate) indexes: Vec<IndexJob>,
    /// Journal files before this one are not needed any more.
    pub(crate) first_file_number: u64,
}

/// What became of a checkpoint's slow part. Hand it to
/// [`Storage::finish_checkpoint`](crate::Storage::finish_checkpoint).
#[derive(Debug)]
#[must_use]
pub struct CheckpointDone {
    pub(crate) result: Result<CheckpointOutcome, JournalFailed>,
    pub(crate) first_file_number: u64,
    /// Still to be removed: files by the writer, who knows whether their partitions are the same; folders by the next
    /// one.
    pub(crate) left: Leftovers,
    /// Segments that have index files now.
    pub(crate) indexed: Vec<(Slot, SegmentNumber)>,
}

/// Files and folders that the next checkpoint does not name.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// With their partition: should it be deleted meanwhile, a new topic may have a file of that name.
    pub(crate) files: Vec<(Slot, PathBuf)>,
    /// Set aside under names that are never used again.
    pub(crate) folders: Vec<PathBuf>,
    /// Segments that compaction has made, which it names for the first time.
    pub(crate) swaps: Vec<(Slot, Offset)>,
}

/// A partition's folder with new names in it.
#[derive(Debug)]
pub(crate) struct UnsyncedFolder {
    pub(crate) path: PathBuf,
    /// What it is called when its topic was deleted meanwhile. Without syncs for each group, power loss may undo the
    /// deletion and keep the renaming.
    pub(crate) aside: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointOutcome {
    /// The checkpoint is durable.
    Written,
    /// There was no space for it; the last one still holds.
    NoSpace,
}

impl<D: Disk> CheckpointWork<D> {
    /// Syncs segments and folders, then the checkpoint beside the old one, then puts it in its place; only then
    /// removes folders that it does not name.
    pub fn run(mut self) -> CheckpointDone {
        let result = self.sync_and_write();
        match &result {
            // What cannot be removed is found by the next start: the checkpoint does not name it.
            Ok(CheckpointOutcome::Written) => {
                self.leftovers.folders.drain(..).for_each(|path| drop(self.disk.remove_directory(&path)));
            }
            Ok(CheckpointOutcome::NoSpace) | Err(_) => {}
        }
        let indexed = match &result {
            Ok(CheckpointOutcome::Written) => self.indexes.iter().filter_map(|job| job.run(&*self.disk)).collect(),
            Ok(CheckpointOutcome::NoSpace) | Err(_) => Vec::new(),
        };
        CheckpointDone { result, first_file_number: self.first_file_number, left: self.leftovers, indexed }
    }

    fn sync_and_write(&self) -> Result<CheckpointOutcome, JournalFailed> {
        for (path, file) in &self.files {
            // Never twice: after a sync that failed, the next one says success about pages that were dropped. The
            // next start cuts these files and writes the bytes again, from the journal.
            file.sync().map_err(|error| JournalFailed::new("syncing", path, &error))?;
        }
        for folder in &self.folders {
            self.sync_if_there(&folder.path)?;
            self.sync_if_there(&folder.aside)?;
        }
        if !self.folders.is_empty() {
            self.sync_if_there(&self.directory)?;
        }
        let temporary = self.directory.join(TEMPORARY_FILE);
        match self.write_beside(&temporary) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let _ = self.disk.remove_file(&temporary);
                return Ok(CheckpointOutcome::NoSpace);
            }
            Err(error) => return Err(JournalFailed::new("writing", &temporary, &error)),
        }
        self.disk
            .rename(&temporary, &self.directory.join(CHECKPOINT_FILE))
            .map_err(|error| JournalFailed::new("renaming", &temporary, &error))?;
        self.disk
            .sync_directory(&self.directory)
            .map_err(|error| JournalFailed::new("syncing", &self.directory, &error))?;
        Ok(CheckpointOutcome::Written)
    }

    fn sync_if_there(&self, folder: &Path) -> Result<(), JournalFailed> {
        match self.disk.sync_directory(folder) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(JournalFailed::new("syncing", folder, &error)),
        }
    }

    fn write_beside(&self, path: &Path) -> io::Result<()> {
        let file = self.disk.open_or_create(path)?;
        file.set_length(0)?;
        file.write_at(&self.bytes, 0)?;
        file.sync()
    }
}

#[cfg(test)]
mod tests {
    use atonce_kernel::ProducerIdentity;
    use atonce_kernel::chance::Chance;

    use super::*;
    use crate::batch::{BatchHeader, EndTransactionMarker};
    use crate::dump;

    fn checkpoint() -> BytesMut {
        let mut catalog = Catalog::default();
        let configs = [("segment.bytes".to_owned(), "100".to_owned())].into();
        catalog.insert(Topic { id: Uuid([1; 16]), name: "t".into(), partitions: 1, configs });
        let (durability, boot_id) = (Durability::Os, Some(Uuid([9; 16])));
        let journal_files = JournalFiles { bytes: 4096, has_file: true };
        let head = Head { durability, boot_id, leader_epoch: 3, place: Place::FIRST, journal_files, catalog: &catalog };
        let mut bytes = encode_head(&head, 1);
        let stamps = Stamps { first_timestamp: Timestamp(1), max_timestamp: Timestamp(2), max_timestamp_offset: 8 };
        let segment = SegmentCheckpoint { base_offset: 5, log_bytes: 1000, aborted_bytes: 34, stamps, swap: Some(4) };
        let mut producers = Producers::default();
        let marker = EndTransactionMarker { outcome: atonce_kernel::Outcome::Abort, coordinator_epoch: 1 };
        let batch = marker.encode(ProducerIdentity::new(1, 2), Timestamp(3));
        producers.apply_batch(&BatchHeader::parse_whole(&batch).unwrap(), 5);
        encode_partition(&mut bytes, (Uuid([1; 16]), 0), (5, 9, 7), 4, [segment].into_iter(), &producers);
        seal(&mut bytes);
        bytes
    }

    #[test]
    fn a_checkpoint_reads_back_and_no_truncation_or_changed_byte_does() {
        let bytes = checkpoint();
        let read = Checkpoint::decode(&bytes).unwrap();
        assert_eq!((read.leader_epoch, read.place, read.topics.len()), (3, Place::FIRST, 1));
        let partition = &read.partitions[0];
        assert_eq!((partition.cleaned_end, partition.segments[0].log_bytes), (7, 1000));
        assert!(
            partition.segments[0].swap == Some(4)
                && partition.last_swap == 4
                && partition.segments[0].stamps.max_timestamp_offset == 8
        );
        for length in 0..bytes.len() {
            assert!(Checkpoint::decode(&bytes[..length]).is_none(), "{length} bytes");
            let mut changed = bytes.clone();
            changed[length] ^= 1;
            assert!(Checkpoint::decode(&changed).is_none(), "byte {length}");
        }
    }

    /// Whatever the bytes say, nothing panics and nothing is allocated for what is not there.
    #[test]
    fn bytes_that_make_no_sense_are_refused_by_every_decoder() {
        let mut chance = Chance::from_seed(1);
        let good = checkpoint();
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=chance.below(3) {
                let place = usize::try_from(chance.below(bytes.len() as u64)).unwrap();
                bytes[place] =
                    [0, 0x7f, 0x80, 0xff, chance.next_u64() as u8][usize::try_from(chance.below(5)).unwrap()];
            }
            seal(&mut bytes);
            let _ = Checkpoint::decode(&bytes);
            let _ = crate::entry::Entry::decode(&mut Fields::of(&bytes));
            let _ = BatchHeader::parse(&bytes);
            let _ = EndTransactionMarker::parse(&bytes);
            let _ = dump::producer_snapshot(&bytes);
            let _ = dump::transaction_index(&bytes);
            let _ = dump::log_lines(&bytes, dump::Detail::Records);
        }
    }
}
