//! The store engine on disk: fjall, an LSM tree, by rules that were paid for.
//!
//! - **Gated snapshots.** In fjall 3.1 a background flush can make a batch visible while it is still being applied, so that a scan
//!   beside a writer now and then sees half of it. One lock is held around each batch and around the snapshot of each scan. (A scan of the keyspace itself is no snapshot at all.)
//! - **Journal capped** at 64 MiB: opening replays it, and a crash should cost a second, not ten.
//! - **The position lies with the data**, in the same keyspace and batch: a second keyspace, seldom flushed, would pin the journal.
//! - **No sync for a commit**: a batch is handed to the operating system, which survives the process; what a loss of power takes, the
//!   change log gives back. A clean close syncs.
//!
//! Layout: a keyspace `<task>.<store>` for each store; key `0x00 "position"`: the [`StorePosition`]; keys `0x01 ‖ key`: the entries.
//! The engine takes keys up to 65,535 bytes, and Kafka's may be longer: see [`long_keys`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// All stores of a process: one database, a keyspace for each store.
#[derive(Clone)]
pub struct DiskEngine {
    path: PathBuf,
    database: Database,
    /// See the module: held around batches and the opening of scans.
    gate: Arc<Mutex<()>>,
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

impl DiskEngine {
    /// Opens the stores in `path`, and makes the folder if it is not there.
    ///
    /// A folder that cannot be read is set aside under another name: everything in it can be rebuilt from change logs.
    ///
    /// Errors: the folder is in use, or the disk fails.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path = path.into();
        let database = match open_database(&path) {
            Ok(database) => database,
            Err(source @ (fjall::Error::Locked | fjall::Error::Io(_))) => return Err(OpenError { path, source }),
            Err(unreadable) => {
                let aside =
                    set_aside(&path).map_err(|source| OpenError { path: path.clone(), source: source.into() })?;
                tracing::warn!(
                    "the stores in {} cannot be read ({unreadable}); they are kept in {} and rebuilt from their change logs",
                    path.display(),
                    aside.display()
                );
                open_database(&path).map_err(|source| OpenError { path: path.clone(), source })?
            }
        };
        Ok(Self { path, database, gate: Arc::new(Mutex::new(())) })
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

    pub(crate) fn open_store(&self, task: TaskId, store: &str) -> Result<DiskStore, StoreError> {
        let failed = |source: fjall::Error| engine_error(store, source);
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
        let failed = |source: fjall::Error| engine_error(store, source);
        let keyspace = self.database.keyspace(&name, KeyspaceCreateOptions::default).map_err(failed)?;
        self.database.delete_keyspace(keyspace).map_err(failed)
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

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".untrusted-{number}"));
        let aside = path.with_file_name(name);
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

fn engine_error(store: &str, source: fjall::Error) -> StoreError {
    StoreError::Engine { store: store.to_owned(), source: Box::new(source) }
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
        engine_error(&self.name, source)
    }

    /// The long keys that begin alike; see [`long_keys`].
    fn shared_entry(&self, place: &[u8]) -> Result<BTreeMap<Vec<u8>, Bytes>, StoreError> {
        match self.keyspace.get(place).map_err(|error| self.failed(error))? {
            Some(bytes) => long_keys::decode(&bytes).ok_or_else(|| self.unreadable()),
            None => Ok(BTreeMap::new()),
        }
    }

    fn unreadable(&self) -> StoreError {
        let source = Box::from(
            "an entry of long keys is not what was written; delete the store, and its change log rebuilds it",
        );
        StoreError::Engine { store: self.name.clone(), source }
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
