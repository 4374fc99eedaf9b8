//! The store engine on disk: fjall, an LSM tree, by rules that were paid for.
//!
//! - **Gated snapshots.** In fjall 3.1 a background flush can make a batch visible while it is still being applied, so that a scan
//!   beside a writer now and then sees half of it. One lock is held around each batch and around the snapshot of each scan. (A scan of the keyspace itself is no snapshot at all.)
//! - **Journal capped** at 64 MiB: opening replays it, and a crash should cost a second, not ten.
//! - **The position lies with the data**, in the same keyspace and batch: a second keyspace, seldom flushed, would pin the journal.
//! - **No sync for a commit**: a batch is handed to the operating system, which survives the process; what a loss of power takes, the
//!   change log gives back. A clean close syncs.
//!
//! - **What is damaged or not to be trusted is set aside**, never used and never just deleted: the whole folder if it cannot be opened
//!   (`stores.untrusted-1`), else the store (`stores.untrusted/<task>.<store>`, the last one of each, with the reason in a file beside it). Every block has the
//!   engine's checksum, every position ours.
//!
//! - **An engine that has given up is opened anew.** It refuses all writes of the process once its work in the background has failed. Whoever opens it next reads
//!   every store first.
//!
//! Layout: a keyspace `<task>.<store>` for each store; key `0x00 "position"`: the [`StorePosition`]; keys `0x01 ‖ key`: the entries.
//! The engine takes keys up to 65,535 bytes, and Kafka's may be longer: see [`long_keys`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atonce_streams_core::TaskId;
use atonce_streams_core::store::{
    Direction, StateStore, StoreBatch, StoreEngine, StoreError, StorePosition, is_empty_range,
};
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

/// The least that fjall takes; see the module.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// Memtables are flushed at this size. Two of them fit the journal, so that its cap does not force small flushes.
const MEMTABLE_BYTES_MAX: u64 = 16 << 20;

const POSITION_KEY: &[u8] = b"\0position";
const DATA: u8 = 1;

/// How long memtables may take to be written before a store is set aside; without them it is set aside all the same.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(5);

/// All stores of a process: one database, a keyspace for each store.
#[derive(Clone)]
pub struct DiskEngine {
    path: PathBuf,
    database: Database,
    /// See the module: held around batches and the opening of scans.
    gate: Arc<Mutex<()>>,
    /// What was found wrong when it was opened, until someone asks.
    set_aside: Arc<Mutex<SetAsides>>,
    /// Its work in the background has failed, and from then on it refuses all writes.
    has_failed: Arc<AtomicBool>,
}

/// A store that was not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetAside {
    pub(crate) reason: String,
    /// Where it lies now.
    pub(crate) kept: Option<PathBuf>,
}

/// What was set aside when the stores were opened.
#[derive(Debug, Default)]
struct SetAsides {
    /// The whole folder.
    all: Option<SetAside>,
    /// Who has heard of that.
    told: BTreeSet<(TaskId, String)>,
    one: BTreeMap<(TaskId, String), SetAside>,
}

/// The engine could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct OpenError {
    /// Where.
    pub path: PathBuf,
    /// Why.
    pub source: fjall::Error,
}

impl OpenError {
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self.source, fjall::Error::Locked)
    }
}

impl DiskEngine {
    /// Opens the stores in `path`, and makes the folder if it is not there.
    ///
    /// A folder that cannot be read is set aside under another name: everything in it can be rebuilt from change logs.
    ///
    /// Errors: the folder is in use, or the disk fails.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path = path.into();
        let mut set_asides = SetAsides::default();
        let database = match open_database(&path) {
            Ok(database) => database,
            Err(source) if !is_damage(&source) && !is_half_made(&source) => return Err(OpenError { path, source }),
            Err(unreadable) => {
                let aside =
                    set_aside(&path).map_err(|source| OpenError { path: path.clone(), source: source.into() })?;
                let reason = format!("the stores of this process could not be opened: {unreadable}");
                set_asides.all = Some(SetAside { reason, kept: Some(aside.clone()) });
                tracing::warn!(
                    "the stores in {} cannot be read ({unreadable}); they are kept in {} and rebuilt from their change logs",
                    path.display(),
                    aside.display()
                );
                match open_database(&path) {
                    Ok(database) => database,
                    Err(source) => {
                        // It is not the stores that are at fault: they go back.
                        let _ = std::fs::remove_dir_all(&path).and_then(|()| std::fs::rename(&aside, &path));
                        return Err(OpenError { path, source });
                    }
                }
            }
        };
        let engine = Self {
            path,
            database,
            gate: Arc::default(),
            set_aside: Arc::new(Mutex::new(set_asides)),
            has_failed: Arc::default(),
        };
        engine.check_if_suspect();
        Ok(engine)
    }

    /// If the engine gave up in its last life, which it does when its work in the background fails: reads all of every store, and sets aside
    /// what cannot be read. Otherwise it might give up in each life.
    fn check_if_suspect(&self) {
        let marker = self.suspect_marker();
        if !marker.exists() {
            return;
        }
        tracing::warn!("the stores in {} failed when they were last used; every one is read now", self.path.display());
        for name in self.database.list_keyspace_names() {
            let place = name.split_once('.').and_then(|(task, store)| Some((task.parse::<TaskId>().ok()?, store)));
            let Some((task, store)) = place else { continue };
            let Err(error) = self.read_all(task, store) else { continue };
            let reason = error.to_string();
            match self.set_aside_store(task, store, &reason) {
                Ok(kept) => {
                    let place = (task, store.to_owned());
                    self.set_asides().one.insert(place, SetAside { reason, kept });
                }
                Err(error) => tracing::error!("store {store} of task {task} is damaged and stays where it is: {error}"),
            }
        }
        if let Err(error) = std::fs::remove_file(&marker) {
            tracing::warn!("{} cannot be removed, so the stores are read again next time: {error}", marker.display());
        }
    }

    fn read_all(&self, task: TaskId, store: &str) -> Result<(), StoreError> {
        let store = self.open_store(task, store)?;
        let snapshot = {
            let _gate = self.gate();
            self.database.snapshot().range::<&[u8], _>(&store.keyspace, ..)
        };
        for entry in snapshot {
            entry.into_inner().map_err(|error| store.failed(error))?;
        }
        Ok(())
    }

    fn suspect_marker(&self) -> PathBuf {
        beside(&self.path, ".suspect")
    }

    /// What was set aside of a store when the stores were opened: told once.
    pub(crate) fn take_set_aside(&self, task: TaskId, store: &str) -> Option<SetAside> {
        let mut set_asides = self.set_asides();
        let place = (task, store.to_owned());
        if let Some(one) = set_asides.one.remove(&place) {
            return Some(one);
        }
        let all = set_asides.all.clone()?;
        set_asides.told.insert(place).then_some(all)
    }

    fn set_asides(&self) -> MutexGuard<'_, SetAsides> {
        self.set_aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks that have a store here.
    #[must_use]
    pub fn stored_tasks(&self) -> BTreeSet<TaskId> {
        let names = self.database.list_keyspace_names();
        names.iter().filter_map(|name| name.split_once('.')?.0.parse().ok()).collect()
    }

    /// Where the stores lie.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has given up: it writes nothing more, and can only be opened anew.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn open_store(&self, task: TaskId, store: &str) -> Result<DiskStore, StoreError> {
        let failed = |source: fjall::Error| self.engine_error(store, source);
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES_MAX);
        let keyspace = self.database.keyspace(&keyspace_name(task, store), options).map_err(failed)?;
        let position = keyspace.get(POSITION_KEY).map_err(failed)?;
        let position = position.and_then(|bytes| StorePosition::decode(&bytes));
        Ok(DiskStore { name: store.to_owned(), engine: self.clone(), keyspace, position })
    }

    fn delete_store(&self, task: TaskId, store: &str) -> Result<(), StoreError> {
        let name = keyspace_name(task, store);
        if !self.database.keyspace_exists(&name) {
            return Ok(());
        }
        let failed = |source: fjall::Error| self.engine_error(store, source);
        let keyspace = self.database.keyspace(&name, KeyspaceCreateOptions::default).map_err(failed)?;
        self.database.delete_keyspace(keyspace).map_err(failed)
    }

    /// Takes a store that cannot be trusted out of use. What it has on disk is kept, the last one of each name; where, is the answer. It must be open
    /// nowhere else, but by who is about to drop it.
    pub(crate) fn set_aside_store(
        &self,
        task: TaskId,
        store: &str,
        reason: &str,
    ) -> Result<Option<PathBuf>, StoreError> {
        let kept = self.keep_aside(task, store, reason).unwrap_or_else(|error| {
            // It is there for people to look at, and nothing depends on it.
            tracing::warn!("store {store} of task {task} could not be kept, and is thrown away: {error}");
            None
        });
        self.delete_store(task, store)?;
        Ok(kept)
    }

    fn keep_aside(&self, task: TaskId, store: &str, reason: &str) -> io::Result<Option<PathBuf>> {
        let name = keyspace_name(task, store);
        if !self.database.keyspace_exists(&name) {
            return Ok(None);
        }
        let keyspace = self.database.keyspace(&name, KeyspaceCreateOptions::default).map_err(io::Error::other)?;
        // What lies in memory and in the common journal only would go with the keyspace.
        if keyspace.rotate_memtable().is_ok() {
            let begun = Instant::now();
            while keyspace.sealed_memtable_count() > 0 && begun.elapsed() < FLUSH_WAIT_MAX {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let target = beside(&self.path, ".untrusted").join(&name);
        match std::fs::remove_dir_all(&target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        link_all(keyspace.path(), &target)?;
        std::fs::write(target.join("reason.txt"), format!("{reason}\n"))?;
        Ok(Some(target))
    }

    fn engine_error(&self, store: &str, source: fjall::Error) -> StoreError {
        let store = store.to_owned();
        if is_damage(&source) {
            return StoreError::Damaged { store, source: Box::new(source) };
        }
        if matches!(source, fjall::Error::Poisoned) {
            // The next life looks for the reason. If not even that can be written, it fails in the same way again, and is heard again.
            let _ = std::fs::write(self.suspect_marker(), "");
            self.has_failed.store(true, Ordering::Relaxed);
        }
        StoreError::Engine { store, source: Box::new(source) }
    }

    /// Throws away every store of a task; says how many there were. None of them may be open.
    pub(crate) fn delete_task(&self, task: TaskId) -> Result<u64, StoreError> {
        let prefix = format!("{task}.");
        let names = self.database.list_keyspace_names();
        let mut deleted = 0;
        for store in names.iter().filter_map(|name| name.strip_prefix(&prefix)) {
            self.delete_store(task, store)?;
            deleted += 1;
        }
        Ok(deleted)
    }

    fn gate(&self) -> MutexGuard<'_, ()> {
        // It guards no data of its own, so a panic elsewhere has broken nothing in it.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for DiskEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskEngine({})", self.path.display())
    }
}

impl StoreEngine for DiskEngine {
    fn open(&mut self, task: TaskId, store: &str) -> Result<Box<dyn StateStore>, StoreError> {
        Ok(Box::new(self.open_store(task, store)?))
    }

    fn reset(&mut self, task: TaskId, store: &str) -> Result<Box<dyn StateStore>, StoreError> {
        self.delete_store(task, store)?;
        Ok(Box::new(self.open_store(task, store)?))
    }

    fn keep(&mut self, _task: TaskId, _store: &str, engine: Box<dyn StateStore>) {
        // The keyspace stays; only the handle goes.
        drop(engine);
    }
}

fn open_database(path: &Path) -> fjall::Result<Database> {
    std::fs::create_dir_all(path)?;
    // One thread flushes and compacts: workers need the cores more.
    Database::builder(path).max_journaling_size(JOURNAL_BYTES_MAX).worker_threads(1).open()
}

/// Whether the bytes on disk are not those that were written, however that was seen. (All else passes, or is for people: a full disk, say.)
fn is_damage(error: &fjall::Error) -> bool {
    let io_damage = |error: &io::Error| {
        use io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
        // Invalid input: a place before a file's beginning, for the file is shorter than it should be.
        matches!(error.kind(), InvalidData | InvalidInput | NotFound | UnexpectedEof)
    };
    match error {
        fjall::Error::Storage(fjall::LsmError::Io(error)) | fjall::Error::Io(error) => io_damage(error),
        fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted | fjall::Error::Locked => false,
        _ => true,
    }
}

/// Whether an opening failed because the process died while it made the folder: the engine takes it for a new one, and finds its own files there.
fn is_half_made(error: &fjall::Error) -> bool {
    matches!(error, fjall::Error::Io(error) if error.kind() == io::ErrorKind::AlreadyExists)
}

/// The path with something behind its last name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// The same files under another folder, without copying them where that can be.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            link_all(&from, &to)?;
            continue;
        }
        let linked = std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(|_| ()));
        match linked {
            Ok(()) => {}
            // The engine has replaced it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let aside = beside(path, &format!(".untrusted-{number}"));
        if !aside.try_exists()? {
            std::fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    unreachable!("some number is free")
}

fn keyspace_name(task: TaskId, store: &str) -> String {
    format!("{task}.{store}")
}

/// One store of one task.
pub(crate) struct DiskStore {
    name: String,
    engine: DiskEngine,
    keyspace: Keyspace,
    position: Option<StorePosition>,
}

impl DiskStore {
    fn failed(&self, source: fjall::Error) -> StoreError {
        self.engine.engine_error(&self.name, source)
    }

    /// The long keys that begin alike; see [`long_keys`].
    fn shared_entry(&self, place: &[u8]) -> Result<BTreeMap<Vec<u8>, Bytes>, StoreError> {
        match self.keyspace.get(place).map_err(|error| self.failed(error))? {
            Some(bytes) => long_keys::decode(&bytes).ok_or_else(|| self.unreadable()),
            None => Ok(BTreeMap::new()),
        }
    }

    fn unreadable(&self) -> StoreError {
        let source = Box::from("an entry of long keys is not what was written");
        StoreError::Damaged { store: self.name.clone(), source }
    }
}

/// A bound of a scan. A long key's place is always looked into: what else lies there is left out afterwards.
fn bound(key: &[u8], bound: fn(Vec<u8>) -> Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match long_keys::place(key) {
        Some(place) => Bound::Included(place),
        None => bound(data_key(key)),
    }
}

fn data_key(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.len());
    bytes.push(DATA);
    bytes.extend_from_slice(key);
    bytes
}

impl StateStore for DiskStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if let Some(place) = long_keys::place(key) {
            return Ok(self.shared_entry(&place)?.remove(long_keys::rest(key)));
        }
        let value = self.keyspace.get(data_key(key)).map_err(|error| self.failed(error))?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        if is_empty_range(from, to) {
            return Ok(Vec::new());
        }
        let low = match from {
            Bound::Unbounded => Bound::Included(vec![DATA]),
            Bound::Included(key) => bound(key, Bound::Included),
            Bound::Excluded(key) => bound(key, Bound::Excluded),
        };
        let high = match to {
            Bound::Unbounded => Bound::Excluded(vec![DATA + 1]),
            Bound::Included(key) => bound(key, Bound::Included),
            Bound::Excluded(key) => bound(key, Bound::Excluded),
        };
        let mut entries = {
            let _gate = self.engine.gate();
            self.engine.database.snapshot().range(&self.keyspace, (low, high))
        };
        let mut found = Vec::new();
        while found.len() < limit {
            let entry = match direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry.into_inner().map_err(|error| self.failed(error))?;
            let key = key.get(1..).unwrap_or_default();
            let Some(beginning) = long_keys::beginning(key) else {
                found.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(&value)));
                continue;
            };
            let sharing = long_keys::decode(&value).ok_or_else(|| self.unreadable())?;
            let whole = sharing.into_iter().map(|(rest, value)| (Bytes::from([beginning, &rest].concat()), value));
            let whole = whole.filter(|(key, _)| RangeBounds::<[u8]>::contains(&(from, to), &key[..]));
            match direction {
                Direction::Ascending => found.extend(whole),
                Direction::Descending => found.extend(whole.collect::<Vec<_>>().into_iter().rev()),
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn position(&self) -> Option<StorePosition> {
        self.position
    }

    fn apply(&mut self, batch: StoreBatch) -> Result<(), StoreError> {
        let mut writes = self.engine.database.batch().durability(Some(PersistMode::Buffer));
        let mut shared: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Bytes>> = BTreeMap::new();
        for (key, value) in batch.changes {
            if let Some(place) = long_keys::place(&key) {
                let mut sharing = match shared.remove(&place) {
                    Some(sharing) => sharing,
                    None => self.shared_entry(&place)?,
                };
                match value {
                    Some(value) => sharing.insert(long_keys::rest(&key).to_vec(), value),
                    None => sharing.remove(long_keys::rest(&key)),
                };
                shared.insert(place, sharing);
                continue;
            }
            match value {
                Some(value) => writes.insert(&self.keyspace, data_key(&key), &*value),
                None => writes.remove(&self.keyspace, data_key(&key)),
            }
        }
        for (place, sharing) in shared {
            if sharing.is_empty() {
                writes.remove(&self.keyspace, place);
            } else {
                writes.insert(&self.keyspace, place, long_keys::encode(&sharing));
            }
        }
        if let Some(position) = batch.position {
            writes.insert(&self.keyspace, POSITION_KEY, &*position.encode());
        }
        let applied = {
            let _gate = self.engine.gate();
            writes.commit()
        };
        applied.map_err(|error| self.failed(error))?;
        self.position = batch.position.or(self.position);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.engine.database.persist(PersistMode::SyncAll).map_err(|error| self.failed(error))
    }
}

mod long_keys;

#[cfg(test)]
mod tests;
