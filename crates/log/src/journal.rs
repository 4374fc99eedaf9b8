//! The journal: groups of entries in files that are written full of zeros once, and reused.
//!
//! **What it does not know**: what entries mean.
//!
//! A group is there whole or not at all: its checksum covers header and payload, and is chained from the group
//! before. Groups begin on blocks of 4 KiB, so a block with acknowledged bytes is never written again; none spans two
//! files. A header names its file's number, so what an earlier use of the file left behind is never taken for a group
//! of this one.
//!
//! Layout of a group (big-endian): `magic 8 ("atonceJ1") | file_number u64 | group_number u64 | synced_group u64 (the
//! last one known to be synced when this was written) | previous_checksum u32 | payload_length u32 | flags u32 |
//! checksum u32 (CRC-32C of the 44 bytes before it and of the payload) | payload`, then zeros to the next block.
//!
//! Before the first group of a file is written, the file before it says so: its last group is an *announcement*, which has no
//! payload and the flag 1. Else a file that is lost with all that came after it would look like the journal's end. The last block
//! of each file is kept for it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use bytes::{BufMut, Bytes, BytesMut};

use crate::checkpoint::JournalFiles;
use crate::error::{JournalFailed, OpenError};
use crate::fields::Fields;
use crate::spare::{SpareDone, SpareWork};

/// Groups begin here and at its multiples. The unit in which file systems write.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Bytes of a group before its payload.
pub(crate) const GROUP_HEADER_BYTES: usize = 48;
const CHECKSUM_AT: usize = 44;
const MAGIC: [u8; 8] = *b"atonceJ1";
/// The flag of a group that announces the next file, and is the last one in its own.
const ANNOUNCES: u32 = 1;
/// A file that is made beside the writer is begun when the active one is full to one part in so many: there is time, and an idle
/// folder stays small.
const SPARE_AHEAD_SHARE: u64 = 8;
/// It is synced in pieces of this size.
const SPARE_SYNC_BYTES: u64 = 1 << 20;
/// Free files kept for reuse; more are removed.
const SPARE_FILES_MAX: usize = 16;

/// A place in the journal, and what the group there must continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file_number: u64,
    pub(crate) offset: u64,
    /// The number of the group that comes here.
    pub(crate) group_number: u64,
    /// The checksum of the group before.
    pub(crate) previous_checksum: u32,
}

impl Place {
    /// Where the first journal of a folder begins.
    pub(crate) const FIRST: Self = Self { file_number: 1, offset: 0, group_number: 1, previous_checksum: 0 };
}

/// Bytes that a group with this buffer (header and entries) takes.
pub(crate) fn padded_bytes(buffer_bytes: usize) -> u64 {
    (buffer_bytes as u64).next_multiple_of(BLOCK_BYTES)
}

/// An empty group: room for the header, to which entries are appended.
pub(crate) fn new_group(capacity: usize) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(capacity.max(GROUP_HEADER_BYTES));
    buffer.put_bytes(0, GROUP_HEADER_BYTES);
    buffer
}

pub(crate) fn file_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:020}.journal"))
}

fn file_number(name: &Path) -> Option<u64> {
    name.to_str()?.strip_suffix(".journal").filter(|digits| digits.len() == 20)?.parse().ok()
}

/// The journal files in a folder, by number.
pub(crate) fn files<D: Disk>(disk: &D, directory: &Path) -> Result<BTreeMap<u64, PathBuf>, OpenError> {
    let names = disk.list(directory).map_err(|error| OpenError::disk("listing", directory, &error))?;
    Ok(names.iter().filter_map(|name| Some((file_number(name)?, directory.join(name)))).collect())
}

/// The journal's writing end.
pub(crate) struct Journal<D: Disk> {
    disk: Arc<D>,
    directory: PathBuf,
    file_bytes: u64,
    place: Place,
    active: Option<Active<D>>,
    /// Files before `place.file_number` that the last checkpoint still needs; oldest first.
    needed: VecDeque<u64>,
    /// Files that may be overwritten.
    spares: Vec<PathBuf>,
    /// Makes the names of new spares unique; the next start removes those that are left.
    last_spare: u64,
    /// One is being made elsewhere.
    is_spare_in_work: bool,
    /// Below this, and including it, groups are known to be synced.
    synced_group: u64,
}

struct Active<D: Disk> {
    file: Arc<D::File>,
    path: PathBuf,
    is_synced: bool,
}

impl<D: Disk> Journal<D> {
    /// A journal that goes on at `place`, the beginning of a file that does not exist yet.
    pub(crate) fn new(disk: Arc<D>, directory: PathBuf, file_bytes: u64, place: Place, synced_group: u64) -> Self {
        Self {
            disk,
            directory,
            file_bytes,
            place,
            active: None,
            needed: VecDeque::new(),
            spares: Vec::new(),
            last_spare: 0,
            is_spare_in_work: false,
            synced_group,
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// What a recovery from here must find.
    pub(crate) fn files_to_expect(&self) -> JournalFiles {
        JournalFiles { bytes: self.file_bytes, has_file: self.active.is_some() }
    }

    /// Makes the first file, so that the checkpoint can say that it is there. On a full disk there is none.
    pub(crate) fn begin(&mut self) -> Result<(), JournalFailed> {
        if self.active.is_none() && (self.has_spare() || self.add_spare().is_ok()) { self.next_file() } else { Ok(()) }
    }

    /// Files that recovery would read.
    pub(crate) fn files_in_use(&self) -> usize {
        self.needed.len() + 1
    }

    /// The largest group buffer that fits into a file, beside the announcement of the next one.
    pub(crate) fn group_bytes_max(&self) -> u64 {
        self.file_bytes - BLOCK_BYTES
    }

    /// Whether groups of these padded sizes can be written into what is allocated, and leave `reserve` bytes beside.
    pub(crate) fn has_room(&self, groups: impl Iterator<Item = u64>, reserve: u64) -> bool {
        let whole = self.group_bytes_max();
        let mut left = if self.active.is_some() { whole.saturating_sub(self.place.offset) } else { 0 };
        let mut spares = self.spares.len();
        for bytes in groups.chain(std::iter::once(reserve.min(whole))) {
            if bytes > left {
                if spares == 0 {
                    return false;
                }
                spares -= 1;
                left = whole;
            }
            left = left.saturating_sub(bytes);
        }
        true
    }

    /// Allocates a file ahead, so that a commit need not.
    ///
    /// Errors: those of the disk, a full one among them; nothing is broken then.
    pub(crate) fn add_spare(&mut self) -> io::Result<()> {
        let done = self.new_spare(self.file_bytes).run();
        self.take_spare(done)
    }

    fn new_spare(&mut self, sync_bytes: u64) -> SpareWork<D> {
        self.last_spare += 1;
        let path = self.directory.join(format!("spare-{}.tmp", self.last_spare));
        SpareWork { disk: Arc::clone(&self.disk), path, file_bytes: self.file_bytes, sync_bytes }
    }

    fn take_spare(&mut self, done: SpareDone) -> io::Result<()> {
        let path = done.0?;
        if self.spares.len() < SPARE_FILES_MAX {
            self.spares.push(path);
            Ok(())
        } else {
            self.disk.remove_file(&path)
        }
    }

    /// A file to be made elsewhere, if there is none, none is being made, and it is time. A commit that comes to need one before it
    /// is there makes its own.
    pub(crate) fn begin_spare(&mut self) -> Option<SpareWork<D>> {
        let is_early = self.active.is_some() && self.place.offset < self.file_bytes / SPARE_AHEAD_SHARE;
        if is_early || self.has_spare() || self.is_spare_in_work {
            return None;
        }
        self.is_spare_in_work = true;
        Some(self.new_spare(SPARE_SYNC_BYTES))
    }

    /// Takes note of what became of it.
    pub(crate) fn finish_spare(&mut self, done: SpareDone) {
        self.is_spare_in_work = false;
        // One that could not be made is tried again; one that is left over and cannot be removed, the next start removes.
        let _ = self.take_spare(done);
    }

    pub(crate) fn has_spare(&self) -> bool {
        !self.spares.is_empty()
    }

    /// Whether the active file is more than half full.
    pub(crate) fn wants_spare(&self) -> bool {
        self.active.is_none() || self.place.offset > self.file_bytes / 2
    }

    /// Writes a group, of which [`new_group`] made the buffer. Returns it padded, as it stands in the file.
    ///
    /// Durability: none before [`sync`](Self::sync).
    pub(crate) fn write(&mut self, buffer: BytesMut) -> Result<Bytes, JournalFailed> {
        if self.active.is_none() || self.place.offset + padded_bytes(buffer.len()) > self.group_bytes_max() {
            self.next_file()?;
        }
        self.write_here(buffer, 0)
    }

    /// Writes a group into the active file, where it fits.
    fn write_here(&mut self, mut buffer: BytesMut, flags: u32) -> Result<Bytes, JournalFailed> {
        let payload_bytes = buffer.len() - GROUP_HEADER_BYTES;
        let padded = padded_bytes(buffer.len());
        self.fill_header(&mut buffer, payload_bytes, flags);
        let padding = usize::try_from(padded).unwrap_or(buffer.len()) - buffer.len();
        buffer.put_bytes(0, padding);
        let Some(active) = &mut self.active else {
            return Err(JournalFailed::new("opening", &self.directory, &io::Error::from(io::ErrorKind::NotFound)));
        };
        active.is_synced = false;
        active
            .file
            .write_at(&buffer, self.place.offset)
            .map_err(|error| JournalFailed::new("writing", &active.path, &error))?;
        self.place.offset += padded;
        self.place.group_number += 1;
        self.place.previous_checksum = checksum_field(&buffer);
        Ok(buffer.freeze())
    }

    fn fill_header(&self, buffer: &mut BytesMut, payload_bytes: usize, flags: u32) {
        let mut header = [0; GROUP_HEADER_BYTES];
        let mut rest = header.as_mut_slice();
        rest.put_slice(&MAGIC);
        rest.put_u64(self.place.file_number);
        rest.put_u64(self.place.group_number);
        rest.put_u64(self.synced_group);
        rest.put_u32(self.place.previous_checksum);
        rest.put_u32(u32::try_from(payload_bytes).expect("a group is below a file's size, which is below 4 GiB"));
        rest.put_u32(flags);
        let (fields, _) = header.split_at(CHECKSUM_AT);
        let checksum =
            crc32c::crc32c_append(crc32c::crc32c(fields), buffer.get(GROUP_HEADER_BYTES..).unwrap_or_default());
        if let Some(place) = header.get_mut(CHECKSUM_AT..) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
        if let Some(place) = buffer.get_mut(..GROUP_HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
    }

    /// Syncs what was written.
    pub(crate) fn sync(&mut self) -> Result<(), JournalFailed> {
        if let Some(active) = &mut self.active
            && !active.is_synced
        {
            active.file.sync().map_err(|error| JournalFailed::new("syncing", &active.path, &error))?;
            active.is_synced = true;
        }
        self.synced_group = self.place.group_number - 1;
        Ok(())
    }

    /// Goes on in the next file, whose name is durable before the file that is full announces it, and that announcement
    /// before the new one's first group is written.
    fn next_file(&mut self) -> Result<(), JournalFailed> {
        let file_number = self.place.file_number + u64::from(self.active.is_some());
        if self.spares.is_empty() {
            self.add_spare().map_err(|error| JournalFailed::new("allocating a file in", &self.directory, &error))?;
        }
        let path = file_path(&self.directory, file_number);
        if let Some(spare) = self.spares.pop() {
            self.disk.rename(&spare, &path).map_err(|error| JournalFailed::new("renaming", &spare, &error))?;
        }
        self.disk
            .sync_directory(&self.directory)
            .map_err(|error| JournalFailed::new("syncing", &self.directory, &error))?;
        if self.active.is_some() {
            self.write_here(new_group(0), ANNOUNCES)?;
            // Groups of one commit may lie in two files; both are synced before any of them is acknowledged. And a file
            // with unsynced writes is not closed, whatever the durability.
            self.sync()?;
            self.needed.push_back(self.place.file_number);
        }
        let file = self.disk.open(&path).map_err(|error| JournalFailed::new("opening", &path, &error))?;
        self.active = Some(Active { file: Arc::new(file), path, is_synced: true });
        if file_number != self.place.file_number {
            self.place = Place { file_number, offset: 0, ..self.place };
        }
        Ok(())
    }

    /// Recovery's: files that no checkpoint needs any more. Those of another size are removed.
    pub(crate) fn take_spares(&mut self, files: impl Iterator<Item = PathBuf>) -> Result<(), JournalFailed> {
        for path in files {
            let length = self.disk.open(&path).and_then(|file| file.length());
            let is_right = length.map_err(|error| JournalFailed::new("opening", &path, &error))? == self.file_bytes;
            if is_right && self.spares.len() < SPARE_FILES_MAX {
                self.spares.push(path);
            } else {
                self.disk.remove_file(&path).map_err(|error| JournalFailed::new("removing", &path, &error))?;
            }
        }
        Ok(())
    }

    /// A checkpoint has made the files before `file_number` free.
    pub(crate) fn free_before(&mut self, file_number: u64) {
        while let Some(oldest) = self.needed.front().copied()
            && oldest < file_number
        {
            self.needed.pop_front();
            let path = file_path(&self.directory, oldest);
            if self.spares.len() < SPARE_FILES_MAX {
                self.spares.push(path);
            } else {
                // If that fails, it is found and removed, or reused, after the next start.
                let _ = self.disk.remove_file(&path);
            }
        }
    }
}

fn checksum_field(group: &[u8]) -> u32 {
    Fields::of(group.get(CHECKSUM_AT..).unwrap_or_default()).u32().unwrap_or_default()
}

/// A group's header, as read.
#[derive(Clone, Copy, Debug)]
struct GroupHeader {
    file_number: u64,
    group_number: u64,
    synced_group: u64,
    previous_checksum: u32,
    payload_bytes: usize,
    flags: u32,
    checksum: u32,
}

impl GroupHeader {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(bytes);
        if fields.array()? != MAGIC {
            return None;
        }
        let header = Self {
            file_number: fields.u64()?,
            group_number: fields.u64()?,
            synced_group: fields.u64()?,
            previous_checksum: fields.u32()?,
            payload_bytes: usize::try_from(fields.u32()?).ok()?,
            flags: fields.u32()?,
            checksum: fields.u32()?,
        };
        Some(header)
    }

    fn continues(&self, place: &Place) -> bool {
        self.file_number == place.file_number
            && self.group_number == place.group_number
            && self.previous_checksum == place.previous_checksum
    }
}

/// Where a journal ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Behind the last whole group.
    pub(crate) place: Place,
    pub(crate) tail: Tail,
}

/// What stands behind the last whole group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Clean,
    /// Something that was being written; nobody was told that it was there.
    Torn {
        /// The file in which it stands.
        path: PathBuf,
        /// Where it begins.
        position: u64,
        /// As far as something can be recognized there.
        bytes: u64,
    },
    /// Something that was synced once.
    Damaged { path: PathBuf, position: u64, what: String },
}

/// Reads all whole groups from `start` on, in order. `visit` gets each payload.
///
/// Errors: those of the disk, and of `visit`.
pub(crate) fn scan<D: Disk>(
    disk: &D,
    files: &BTreeMap<u64, PathBuf>,
    start: Place,
    mut visit: impl FnMut(&Path, Place, Bytes) -> Result<(), OpenError>,
) -> Result<End, OpenError> {
    let mut place = start;
    let mut file = open_numbered(disk, files, place.file_number)?;
    loop {
        if let Some((path, open)) = &file
            && let Some(group) = read_group(open, path, &place)?
        {
            if group.is_announcement {
                let announced = Place { file_number: place.file_number + 1, offset: 0, ..group.next };
                file = open_numbered(disk, files, announced.file_number)?;
                if file.is_none() {
                    let tail = missing(files, &place, announced.file_number);
                    return Ok(End { place: group.next, tail });
                }
                place = announced;
            } else {
                visit(path, place, group.payload)?;
                place = group.next;
            }
            continue;
        }
        // Before files were announced, one ended where the next group did not fit; that one stands at the beginning of the
        // next file.
        let following = Place { file_number: place.file_number + 1, offset: 0, ..place };
        if let Some((path, next_file)) = open_numbered(disk, files, following.file_number)?
            && read_group(&next_file, &path, &following)?.is_some()
        {
            place = following;
            file = Some((path, next_file));
            continue;
        }
        let tail = check_tail(disk, files, &place)?;
        return Ok(End { place, tail });
    }
}

/// A file was announced, and is not there.
fn missing(files: &BTreeMap<u64, PathBuf>, place: &Place, announced: u64) -> Tail {
    let before = files.get(&place.file_number).cloned().unwrap_or_default();
    let folder = before.parent().unwrap_or(Path::new(""));
    let what = format!(
        "the journal file is missing, and with it all that was acknowledged after group {}: file {} says that it comes next",
        place.group_number, place.file_number
    );
    Tail::Damaged { path: file_path(folder, announced), position: 0, what }
}

fn open_numbered<D: Disk>(
    disk: &D,
    files: &BTreeMap<u64, PathBuf>,
    number: u64,
) -> Result<Option<(PathBuf, D::File)>, OpenError> {
    let Some(path) = files.get(&number) else { return Ok(None) };
    let file = disk.open(path).map_err(|error| OpenError::disk("opening", path, &error))?;
    Ok(Some((path.clone(), file)))
}

/// A whole group.
struct Group {
    payload: Bytes,
    /// It says that the next file is there, and nothing else.
    is_announcement: bool,
    /// The place after it, in its file.
    next: Place,
}

/// The group at `place`; `None` if there is no whole one that continues what came before.
fn read_group<F: DiskFile>(file: &F, path: &Path, place: &Place) -> Result<Option<Group>, OpenError> {
    let length = file.length().map_err(|error| OpenError::disk("reading the length", path, &error))?;
    let mut header_bytes = [0; GROUP_HEADER_BYTES];
    if !read_exactly(file, &mut header_bytes, place.offset, path)? {
        return Ok(None);
    }
    let Some(header) = GroupHeader::parse(&header_bytes).filter(|header| header.continues(place)) else {
        return Ok(None);
    };
    let Some(payload) = read_payload(file, path, &header_bytes, &header, place.offset, length)? else {
        return Ok(None);
    };
    let next = Place {
        offset: place.offset + padded_bytes(GROUP_HEADER_BYTES + header.payload_bytes),
        group_number: place.group_number + 1,
        previous_checksum: header.checksum,
        ..*place
    };
    Ok(Some(Group { payload, is_announcement: header.flags & ANNOUNCES != 0, next }))
}

/// The payload that belongs to `header`, if its checksum holds. A length beyond the file's end allocates nothing.
fn read_payload<F: DiskFile>(
    file: &F,
    path: &Path,
    header_bytes: &[u8; GROUP_HEADER_BYTES],
    header: &GroupHeader,
    offset: u64,
    file_length: u64,
) -> Result<Option<Bytes>, OpenError> {
    let payload_at = offset + GROUP_HEADER_BYTES as u64;
    if payload_at.saturating_add(header.payload_bytes as u64) > file_length {
        return Ok(None);
    }
    let mut payload = BytesMut::zeroed(header.payload_bytes);
    if !read_exactly(file, &mut payload, payload_at, path)? {
        return Ok(None);
    }
    let (fields, _) = header_bytes.split_at(CHECKSUM_AT);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(fields), &payload);
    Ok((checksum == header.checksum).then(|| payload.freeze()))
}

fn read_exactly<F: DiskFile>(file: &F, buffer: &mut [u8], position: u64, path: &Path) -> Result<bool, OpenError> {
    let count = file.read_at(buffer, position).map_err(|error| OpenError::disk("reading", path, &error))?;
    Ok(count == buffer.len())
}

/// Looks behind the end for groups that are whole in themselves. If one of them knows the first bad group to have
/// been synced, that one was acknowledged, and is damaged. Returns whether anything was being written there.
fn check_tail<D: Disk>(disk: &D, files: &BTreeMap<u64, PathBuf>, end: &Place) -> Result<Tail, OpenError> {
    let mut tail = Tail::Clean;
    for (number, path) in files.range(end.file_number..) {
        let file = disk.open(path).map_err(|error| OpenError::disk("opening", path, &error))?;
        let length = file.length().map_err(|error| OpenError::disk("reading the length", path, &error))?;
        let mut offset = if *number == end.file_number { end.offset } else { 0 };
        while offset < length {
            let mut header_bytes = [0; GROUP_HEADER_BYTES];
            if !read_exactly(&file, &mut header_bytes, offset, path)? {
                break;
            }
            if let Some(header) = GroupHeader::parse(&header_bytes)
                && header.file_number == *number
                && header.group_number >= end.group_number
            {
                let end_of_group = offset + padded_bytes(GROUP_HEADER_BYTES.saturating_add(header.payload_bytes));
                tail = match tail {
                    Tail::Torn { path, position, bytes } => {
                        Tail::Torn { path, position, bytes: bytes + end_of_group.min(length).saturating_sub(offset) }
                    }
                    Tail::Clean | Tail::Damaged { .. } => {
                        let bytes = end_of_group.min(length).saturating_sub(offset);
                        Tail::Torn { path: path.clone(), position: offset, bytes }
                    }
                };
                if header.synced_group >= end.group_number
                    && read_payload(&file, path, &header_bytes, &header, offset, length)?.is_some()
                {
                    return Ok(Tail::Damaged {
                        path: files.get(&end.file_number).unwrap_or(path).clone(),
                        position: end.offset,
                        what: format!(
                            "journal group {} is damaged or missing, but group {} in file {number} was written after it had been synced",
                            end.group_number, header.group_number
                        ),
                    });
                }
            }
            offset += BLOCK_BYTES;
        }
    }
    Ok(tail)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
