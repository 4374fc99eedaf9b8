//! A disk in memory that forgets: after the loss of power, any subset of what was not synced is there.
//!
//! **What it does not know**: what is written to it.
//!
//! What POSIX promises it keeps, and nothing more: bytes and lengths last once their file is synced, names once their
//! folder is. Until then each sector of 512 bytes of each write, each change of a length, each creation, renaming and
//! removal is kept or lost by itself. A sync can be made to fail; then it drops what it should have kept, the pages
//! still read well, and the next sync says success.
//!
//! Every operation that changes something, and every sync, is a *point* at which the process or the machine can be
//! made to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atonce_kernel::chance::Chance;
use atonce_kernel::disk::{Disk, DiskFile};

/// The unit in which writes are torn.
pub const SECTOR_BYTES: u64 = 512;

/// How a run ended, and so what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed: all that was written is there.
    Process,
    /// The machine went down: of what was not synced, any subset is there.
    Power,
}

/// The disk. Clones are the same one.
#[derive(Clone)]
pub struct FaultyDisk {
    world: Arc<Mutex<World>>,
    life: u64,
}

/// An open file. Handles from before a crash are dead.
pub struct FaultyFile {
    world: Arc<Mutex<World>>,
    inode: u64,
    life: u64,
}

struct World {
    inodes: BTreeMap<u64, Inode>,
    last_inode: u64,
    /// Changes of names since the last sync of their folders, oldest first.
    pending_names: Vec<NameChange>,
    life: u64,
    points: u64,
    stop_at: Option<u64>,
    is_stopped: bool,
    syncs: u64,
    fail_sync_at: Option<u64>,
    capacity_bytes: Option<u64>,
    chance: Chance,
}

enum Inode {
    File(FileState),
    Folder { current: BTreeMap<OsString, u64>, durable: BTreeMap<OsString, u64> },
}

#[derive(Default)]
struct FileState {
    /// What a read sees.
    current: Vec<u8>,
    /// What is certain to be there after power loss.
    durable: Vec<u8>,
    /// What is not.
    pending: Vec<Change>,
}

enum Change {
    Write { position: u64, bytes: Vec<u8> },
    Length(u64),
}

enum NameChange {
    Add { folder: u64, name: OsString, inode: u64 },
    Remove { folder: u64, name: OsString },
    Rename { from: (u64, OsString), to: (u64, OsString) },
}

impl NameChange {
    fn touches(&self, inode: u64) -> bool {
        match self {
            Self::Add { folder, .. } | Self::Remove { folder, .. } => *folder == inode,
            Self::Rename { from, to } => from.0 == inode || to.0 == inode,
        }
    }
}

const ROOT: u64 = 0;

impl Default for FaultyDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultyDisk {
    /// An empty disk that has no faults yet.
    #[must_use]
    pub fn new() -> Self {
        let root = Inode::Folder { current: BTreeMap::new(), durable: BTreeMap::new() };
        let world = World {
            inodes: BTreeMap::from([(ROOT, root)]),
            last_inode: ROOT,
            pending_names: Vec::new(),
            life: 0,
            points: 0,
            stop_at: None,
            is_stopped: false,
            syncs: 0,
            fail_sync_at: None,
            capacity_bytes: None,
            chance: Chance::from_seed(0),
        };
        Self { world: Arc::new(Mutex::new(world)), life: 0 }
    }

    /// Points passed since the last start: writes, changes of length and of names, and syncs.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.lock().points
    }

    /// Syncs of files since the last start.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Stops at the `point`-th point from the last start, counted from 1: that operation is done in part or not at
    /// all, and it and all after it fail.
    pub fn stop_at(&self, point: u64) {
        self.lock().stop_at = Some(point);
    }

    /// Whether it has stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Lets the `sync`-th sync of a file from the last start, counted from 1, fail and drop what it should have kept.
    pub fn fail_sync_at(&self, sync: u64) {
        self.lock().fail_sync_at = Some(sync);
    }

    /// Writes that need more than this in all fail with `StorageFull`. `None`: there is no end.
    pub fn set_capacity_bytes(&self, capacity: Option<u64>) {
        self.lock().capacity_bytes = capacity;
    }

    /// Ends the run, keeps what that kind of crash keeps, and gives the disk as the next run finds it. Handles of
    /// before are dead.
    #[must_use]
    pub fn restart(&self, crash: Crash, chance: &mut Chance) -> Self {
        let mut world = self.lock();
        match crash {
            Crash::Process => {}
            Crash::Power => world.lose_power(chance),
        }
        world.life += 1;
        (world.points, world.syncs, world.is_stopped, world.stop_at, world.fail_sync_at) = (0, 0, false, None, None);
        world.chance = Chance::from_seed(chance.next_u64());
        Self { world: Arc::clone(&self.world), life: world.life }
    }

    /// The bytes of a file, as a read sees them; for tests that look at, or damage, what was written.
    pub fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut world = self.lock();
        let inode = world.find(path)?;
        Ok(world.file(inode)?.current.clone())
    }

    /// Changes bytes behind everyone's back: damage, not a write.
    pub fn damage(&self, path: &Path, position: usize, byte: u8) -> io::Result<()> {
        let mut world = self.lock();
        let inode = world.find(path)?;
        let file = world.file(inode)?;
        for bytes in [&mut file.current, &mut file.durable] {
            if let Some(place) = bytes.get_mut(position) {
                *place = byte;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world, if this life still goes on.
    fn live(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.lock();
        world.check_life(self.life)?;
        Ok(world)
    }
}

fn stopped() -> io::Error {
    io::Error::other("the disk has stopped")
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl World {
    fn check_life(&self, life: u64) -> io::Result<()> {
        if self.is_stopped || self.life != life { Err(stopped()) } else { Ok(()) }
    }

    /// A point. `Err` if the run stops here; the caller may have done its operation in part.
    fn pass_point(&mut self) -> io::Result<()> {
        self.points += 1;
        if self.stop_at == Some(self.points) {
            self.is_stopped = true;
            return Err(stopped());
        }
        Ok(())
    }

    fn names(&mut self, folder: u64) -> io::Result<&mut BTreeMap<OsString, u64>> {
        match self.inodes.get_mut(&folder) {
            Some(Inode::Folder { current, .. }) => Ok(current),
            Some(Inode::File(_)) => Err(io::Error::from(io::ErrorKind::NotADirectory)),
            None => Err(not_found()),
        }
    }

    fn file(&mut self, inode: u64) -> io::Result<&mut FileState> {
        match self.inodes.get_mut(&inode) {
            Some(Inode::File(file)) => Ok(file),
            Some(Inode::Folder { .. }) => Err(io::Error::from(io::ErrorKind::IsADirectory)),
            None => Err(not_found()),
        }
    }

    fn find(&mut self, path: &Path) -> io::Result<u64> {
        let mut inode = ROOT;
        for name in path_names(path) {
            inode = *self.names(inode)?.get(&name).ok_or_else(not_found)?;
        }
        Ok(inode)
    }

    /// The folder that a path is in, and its last name.
    fn find_parent(&mut self, path: &Path) -> io::Result<(u64, OsString)> {
        let name = path_names(path).last().ok_or_else(not_found)?;
        let parent = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.names(parent)?;
        Ok((parent, name))
    }

    fn add(&mut self, folder: u64, name: OsString, inode: Inode) -> io::Result<u64> {
        self.pass_point()?;
        self.last_inode += 1;
        let number = self.last_inode;
        self.inodes.insert(number, inode);
        self.names(folder)?.insert(name.clone(), number);
        self.pending_names.push(NameChange::Add { folder, name, inode: number });
        Ok(number)
    }

    /// Bytes of all files that have a name.
    fn used_bytes(&self) -> u64 {
        let folders = self.inodes.values().filter_map(|inode| match inode {
            Inode::Folder { current, .. } => Some(current),
            Inode::File(_) => None,
        });
        let named: BTreeSet<u64> = folders.flat_map(|names| names.values().copied()).collect();
        let length = |inode| match self.inodes.get(inode) {
            Some(Inode::File(file)) => file.current.len() as u64,
            Some(Inode::Folder { .. }) | None => 0,
        };
        named.iter().map(length).sum()
    }

    fn write(&mut self, inode: u64, bytes: &[u8], position: u64) -> io::Result<()> {
        let end = position + bytes.len() as u64;
        let length = self.file(inode)?.current.len() as u64;
        if let Some(capacity) = self.capacity_bytes
            && end > length
            && self.used_bytes() + (end - length) > capacity
        {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if let Err(error) = self.pass_point() {
            // Killed in the middle of a write: whatever came first is there.
            let sectors = self.chance.below(bytes.len() as u64 / SECTOR_BYTES + 1);
            let kept = usize::try_from(sectors * SECTOR_BYTES).unwrap_or(usize::MAX).min(bytes.len());
            self.file(inode)?.write(bytes.get(..kept).unwrap_or(bytes), position);
            return Err(error);
        }
        self.file(inode)?.write(bytes, position);
        Ok(())
    }

    fn sync_file(&mut self, inode: u64) -> io::Result<()> {
        self.pass_point()?;
        self.syncs += 1;
        if self.fail_sync_at == Some(self.syncs) {
            self.file(inode)?.pending.clear();
            return Err(io::Error::other("the sync failed"));
        }
        let file = self.file(inode)?;
        for change in std::mem::take(&mut file.pending) {
            change.apply(&mut file.durable);
        }
        Ok(())
    }

    fn sync_folder(&mut self, folder: u64) -> io::Result<()> {
        self.names(folder)?;
        self.pass_point()?;
        let (synced, pending) =
            std::mem::take(&mut self.pending_names).into_iter().partition(|change| change.touches(folder));
        self.pending_names = pending;
        self.make_durable(synced);
        Ok(())
    }

    fn make_durable(&mut self, changes: Vec<NameChange>) {
        for change in changes {
            match change {
                NameChange::Add { folder, name, inode } => {
                    self.durable_names(folder).map(|names| names.insert(name, inode));
                }
                NameChange::Remove { folder, name } => {
                    self.durable_names(folder).map(|names| names.remove(&name));
                }
                NameChange::Rename { from, to } => {
                    // Its creation may be among what was lost.
                    if let Some(inode) = self.durable_names(from.0).and_then(|names| names.remove(&from.1)) {
                        self.durable_names(to.0).map(|names| names.insert(to.1, inode));
                    }
                }
            }
        }
    }

    fn durable_names(&mut self, folder: u64) -> Option<&mut BTreeMap<OsString, u64>> {
        match self.inodes.get_mut(&folder) {
            Some(Inode::Folder { durable, .. }) => Some(durable),
            Some(Inode::File(_)) | None => None,
        }
    }

    fn lose_power(&mut self, chance: &mut Chance) {
        // How much is lost is drawn once for each crash, so that "nothing", "everything" and "nearly everything" all
        // occur.
        let (kept, of) = match chance.below(6) {
            0 => (0, 1),
            1 => (1, 1),
            2 => (1, 10),
            3 => (9, 10),
            _ => (1, 2),
        };
        let names = std::mem::take(&mut self.pending_names);
        let survivors = names.into_iter().filter(|_| chance.one_in(kept, of)).collect();
        self.make_durable(survivors);
        for inode in self.inodes.values_mut() {
            match inode {
                Inode::File(file) => file.lose_power(chance, kept, of),
                Inode::Folder { current, durable } => current.clone_from(durable),
            }
        }
    }
}

impl FileState {
    fn write(&mut self, bytes: &[u8], position: u64) {
        let change = Change::Write { position, bytes: bytes.to_vec() };
        change.apply(&mut self.current);
        self.pending.push(change);
    }

    fn lose_power(&mut self, chance: &mut Chance, kept: u64, of: u64) {
        let mut image = std::mem::take(&mut self.durable);
        let mut length = image.len() as u64;
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Length(to) => {
                    if chance.one_in(kept, of) {
                        length = to;
                        image.truncate(usize::try_from(to).unwrap_or(usize::MAX));
                    }
                }
                Change::Write { position, bytes } => {
                    let end = position + bytes.len() as u64;
                    if end > length && chance.one_in(kept, of) {
                        length = end;
                    }
                    for sector in sectors(position, &bytes).filter(|_| chance.one_in(kept, of)) {
                        sector.apply(&mut image);
                    }
                }
            }
        }
        image.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        self.current.clone_from(&image);
        self.durable = image;
    }
}

/// A write, cut at the boundaries of sectors.
fn sectors(position: u64, bytes: &[u8]) -> impl Iterator<Item = Change> {
    let end = position + bytes.len() as u64;
    let first = position / SECTOR_BYTES;
    (first..end.div_ceil(SECTOR_BYTES)).map(move |sector| {
        let from = (sector * SECTOR_BYTES).max(position);
        let to = ((sector + 1) * SECTOR_BYTES).min(end);
        let place = |at: u64| usize::try_from(at - position).unwrap_or(usize::MAX);
        Change::Write { position: from, bytes: bytes.get(place(from)..place(to)).unwrap_or_default().to_vec() }
    })
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Length(length) => image.resize(usize::try_from(*length).unwrap_or(usize::MAX), 0),
            Self::Write { position, bytes } => {
                let from = usize::try_from(*position).unwrap_or(usize::MAX);
                if image.len() < from + bytes.len() {
                    image.resize(from + bytes.len(), 0);
                }
                if let Some(place) = image.get_mut(from..from + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }
}

fn path_names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
    })
}

impl Disk for FaultyDisk {
    type File = FaultyFile;

    fn open_or_create(&self, path: &Path) -> io::Result<FaultyFile> {
        let mut world = self.live()?;
        let (folder, name) = world.find_parent(path)?;
        let inode = match world.names(folder)?.get(&name) {
            Some(inode) => *inode,
            None => world.add(folder, name, Inode::File(FileState::default()))?,
        };
        world.file(inode)?;
        Ok(FaultyFile { world: Arc::clone(&self.world), inode, life: self.life })
    }

    fn open(&self, path: &Path) -> io::Result<FaultyFile> {
        let mut world = self.live()?;
        let inode = world.find(path)?;
        world.file(inode)?;
        Ok(FaultyFile { world: Arc::clone(&self.world), inode, life: self.life })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.live()?;
        let from = world.find_parent(from)?;
        let to = world.find_parent(to)?;
        let inode = *world.names(from.0)?.get(&from.1).ok_or_else(not_found)?;
        let replaced = world.names(to.0)?.get(&to.1).copied();
        if let Some(replaced) = replaced
            && world.names(replaced).is_ok_and(|names| !names.is_empty())
        {
            return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
        }
        world.pass_point()?;
        world.names(from.0)?.remove(&from.1);
        world.names(to.0)?.insert(to.1.clone(), inode);
        world.pending_names.push(NameChange::Rename { from, to });
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.live()?;
        let (folder, name) = world.find_parent(path)?;
        let inode = *world.names(folder)?.get(&name).ok_or_else(not_found)?;
        world.file(inode)?;
        world.pass_point()?;
        world.names(folder)?.remove(&name);
        world.pending_names.push(NameChange::Remove { folder, name });
        Ok(())
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        let mut world = self.live()?;
        let mut folder = ROOT;
        for name in path_names(path) {
            folder = match world.names(folder)?.get(&name) {
                Some(inode) => *inode,
                None => {
                    let made = Inode::Folder { current: BTreeMap::new(), durable: BTreeMap::new() };
                    world.add(folder, name, made)?
                }
            };
        }
        world.names(folder)?;
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut world = self.live()?;
        let (folder, name) = world.find_parent(path)?;
        let inode = *world.names(folder)?.get(&name).ok_or_else(not_found)?;
        // One by one, as the system does it: the machine may stop between any two.
        let names: Vec<OsString> = world.names(inode)?.keys().cloned().collect();
        drop(world);
        for name in names {
            let path = path.join(name);
            let is_folder = {
                let mut world = self.live()?;
                let inode = world.find(&path)?;
                world.names(inode).is_ok()
            };
            if is_folder { self.remove_directory(&path)? } else { self.remove_file(&path)? }
        }
        let mut world = self.live()?;
        world.pass_point()?;
        world.names(folder)?.remove(&name);
        world.pending_names.push(NameChange::Remove { folder, name });
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut world = self.live()?;
        let folder = world.find(path)?;
        Ok(world.names(folder)?.keys().map(PathBuf::from).collect())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut world = self.live()?;
        let folder = world.find(path)?;
        world.sync_folder(folder)
    }

    fn available_bytes(&self) -> io::Result<u64> {
        let world = self.live()?;
        Ok(world.capacity_bytes.map_or(u64::MAX, |capacity| capacity.saturating_sub(world.used_bytes())))
    }
}

impl FaultyFile {
    fn live(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.check_life(self.life)?;
        Ok(world)
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut world = self.live()?;
        let file = world.file(self.inode)?;
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(file.current.len());
        let rest = file.current.get(from..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.live()?.write(self.inode, bytes, position)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.live()?.file(self.inode)?.current.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut world = self.live()?;
        world.pass_point()?;
        let file = world.file(self.inode)?;
        let change = Change::Length(length);
        change.apply(&mut file.current);
        file.pending.push(change);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.live()?.sync_file(self.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with_file() -> (FaultyDisk, FaultyFile) {
        let disk = FaultyDisk::new();
        disk.create_directories(Path::new("/a/b")).unwrap();
        let file = disk.open_or_create(Path::new("/a/b/c")).unwrap();
        (disk, file)
    }

    fn sync_names(disk: &FaultyDisk) {
        for path in ["/", "/a", "/a/b"] {
            disk.sync_directory(Path::new(path)).unwrap();
        }
    }

    #[test]
    fn what_was_synced_survives_every_power_loss() {
        for seed in 0..100 {
            let (disk, file) = folder_with_file();
            file.write_at(&[7; 5000], 0).unwrap();
            file.sync().unwrap();
            sync_names(&disk);
            file.write_at(&[8; 5000], 5000).unwrap();
            let disk = disk.restart(Crash::Power, &mut Chance::from_seed(seed));
            let bytes = disk.bytes(Path::new("/a/b/c")).unwrap();
            assert_eq!(bytes[..5000], [7; 5000]);
        }
    }

    #[test]
    fn power_loss_keeps_some_sectors_of_a_write_and_loses_others() {
        let mut is_torn = false;
        for seed in 0..100 {
            let (disk, file) = folder_with_file();
            sync_names(&disk);
            file.write_at(&[8; 4096], 0).unwrap();
            let disk = disk.restart(Crash::Power, &mut Chance::from_seed(seed));
            let bytes = disk.bytes(Path::new("/a/b/c")).unwrap();
            let kept = bytes.chunks(512).filter(|sector| sector.contains(&8)).count();
            is_torn |= kept > 0 && kept < 8;
        }
        assert!(is_torn);
    }

    #[test]
    fn a_name_that_was_not_synced_may_be_lost_and_a_killed_process_loses_nothing() {
        let lost = (0..100).filter(|seed| {
            let (disk, file) = folder_with_file();
            file.sync().unwrap();
            let disk = disk.restart(Crash::Power, &mut Chance::from_seed(*seed));
            disk.open(Path::new("/a/b/c")).is_err()
        });
        assert!(lost.count() > 10);
        let (disk, file) = folder_with_file();
        file.write_at(b"x", 0).unwrap();
        let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
        assert_eq!(disk.bytes(Path::new("/a/b/c")).unwrap(), b"x");
        assert!(file.length().is_err(), "a handle of the dead process");
    }

    #[test]
    fn a_failed_sync_drops_what_it_should_have_kept_and_the_next_one_says_success() {
        let (disk, file) = folder_with_file();
        sync_names(&disk);
        file.write_at(b"lost", 0).unwrap();
        disk.fail_sync_at(1);
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(disk.bytes(Path::new("/a/b/c")).unwrap(), b"lost");
        let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
        assert_eq!(disk.bytes(Path::new("/a/b/c")).unwrap(), b"");
    }

    #[test]
    fn it_stops_at_the_point_it_was_told_and_stays_stopped() {
        let (disk, file) = folder_with_file();
        disk.stop_at(disk.points() + 2);
        file.write_at(b"a", 0).unwrap();
        file.write_at(b"b", 0).unwrap_err();
        assert!(disk.is_stopped() && file.sync().is_err());
    }

    #[test]
    fn a_full_disk_takes_overwrites_but_does_not_grow() {
        let (disk, file) = folder_with_file();
        disk.set_capacity_bytes(Some(10));
        file.write_at(&[1; 10], 0).unwrap();
        assert_eq!(file.write_at(&[1; 1], 10).unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.write_at(&[2; 10], 0).unwrap();
        assert_eq!(disk.available_bytes().unwrap(), 0);
    }
}
