//! What a process keeps on disk between two lives: its id, how many workers it had, its stores; and the lock that keeps a second
//! process out.
//!
//! ```text
//! <state_dir>/<application id>/lock         held as long as the process lives; the system drops it with the process
//!                              process-id   the name its workers have in the group and as producers
//!                              workers      how many there were: the ids of those that run no more are still to be settled
//!                              stores/      see `disk_store`
//!                              stores.untrusted…, stores.suspect    see there too
//! ```
//!
//! Invariants: a store is open in one worker at most. It moves by value: the next owner waits until it was given back. An engine that has given up is
//! opened anew once all stores on disk have been given back, and not before: two would write into one folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atonce_kernel::chance::Chance;
use atonce_streams_core::TaskId;
use atonce_streams_core::store::{MemoryStore, StateStore, StoreEngine, StoreError};
use atonce_streams_core::task::NeededStore;

use crate::disk_store::{DiskEngine, OpenError, SetAside};
use crate::error::Error;

pub(crate) struct StateFolder {
    process_id: String,
    former_workers: usize,
    /// Where the stores on disk lie.
    stores_path: PathBuf,
    /// `None` after it could not be opened anew.
    disk: Mutex<Option<DiskEngine>>,
    stores: Mutex<Stores>,
    opened: Instant,
    /// Dropped last: with it goes the lock.
    _lock: File,
}

#[derive(Default)]
struct Stores {
    /// Stores in memory between two owners.
    in_memory: BTreeMap<(TaskId, String), Box<dyn StateStore>>,
    /// Those that somebody has, and whether they lie on disk.
    in_use: BTreeMap<(TaskId, String), bool>,
    /// Stores that were found damaged when they were taken.
    set_aside: BTreeMap<(TaskId, String), SetAside>,
    /// Since when nobody here has a task that somebody had.
    idle_since: BTreeMap<TaskId, Instant>,
}

impl StateFolder {
    /// Opens and locks the folder of an application; `process_id` overrides the one that is kept there.
    pub(crate) fn open(state_dir: &Path, application_id: &str, process_id: Option<String>) -> Result<Self, Error> {
        let path = state_dir.join(application_id);
        let failed = |source: io::Error| Error::StateFolder { path: path.clone(), source };
        std::fs::create_dir_all(&path).map_err(failed)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::StateFolderInUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let process_id = match process_id {
            Some(process_id) => process_id,
            None => match read_line(&path.join("process-id")).map_err(failed)? {
                Some(process_id) => process_id,
                None => {
                    let process_id = fresh_process_id();
                    write_line(&path, "process-id", &process_id).map_err(failed)?;
                    process_id
                }
            },
        };
        let former_workers = read_line(&path.join("workers")).map_err(failed)?;
        let former_workers = former_workers.and_then(|workers| workers.parse().ok()).unwrap_or(0);
        let stores = path.join("stores");
        let disk = DiskEngine::open(&stores)
            .map_err(|error| Error::Stores { path: stores.clone(), cause: error.source.to_string() })?;
        Ok(Self {
            process_id,
            former_workers,
            stores_path: stores,
            disk: Mutex::new(Some(disk)),
            stores: Mutex::new(Stores::default()),
            opened: Instant::now(),
            _lock: lock,
        })
    }

    pub(crate) fn process_id(&self) -> &str {
        &self.process_id
    }

    /// How many workers the last life of this process had.
    pub(crate) fn former_workers(&self) -> usize {
        self.former_workers
    }

    /// Keeps the number of workers, for the next life.
    pub(crate) fn write_workers(&self, workers: usize) -> Result<(), Error> {
        let path = self.stores_path.parent().unwrap_or(Path::new("."));
        write_line(path, "workers", &workers.to_string())
            .map_err(|source| Error::StateFolder { path: path.to_owned(), source })
    }

    /// The tasks whose stores lie here.
    pub(crate) fn stored_tasks(&self) -> BTreeSet<TaskId> {
        self.disk().as_ref().map(DiskEngine::stored_tasks).unwrap_or_default()
    }

    /// Takes a store for a task; `None` while another worker has it, or has one of an engine that has given up: they give them back, and it is opened
    /// anew.
    pub(crate) fn try_take(
        &self,
        task: TaskId,
        needed: &NeededStore,
    ) -> Option<Result<Box<dyn StateStore>, StoreError>> {
        let key = (task, needed.name.clone());
        let mut stores = self.stores();
        if stores.in_use.contains_key(&key) {
            return None;
        }
        let taken = if needed.is_persistent {
            self.living_engine(&stores)?
                .map_err(|error| StoreError::Engine { store: needed.name.clone(), source: error.into() })
                .and_then(|engine| open_on_disk(engine, &mut stores, task, &needed.name))
        } else {
            Ok(stores.in_memory.remove(&key).unwrap_or_else(|| Box::new(MemoryStore::default())))
        };
        if taken.is_ok() {
            stores.in_use.insert(key, needed.is_persistent);
        }
        Some(taken)
    }

    /// The engine; opened anew if it has given up and nobody has a store of it any more.
    fn living_engine(&self, stores: &Stores) -> Option<Result<DiskEngine, OpenError>> {
        let mut disk = self.disk();
        if disk.as_ref().is_some_and(DiskEngine::has_failed) {
            if stores.in_use.values().any(|is_persistent| *is_persistent) {
                return None;
            }
            tracing::warn!("the stores in {} are opened anew: their engine had given up", self.stores_path.display());
            // Its last handle: it lets go of the folder.
            *disk = None;
        }
        if let Some(engine) = &*disk {
            return Some(Ok(engine.clone()));
        }
        match DiskEngine::open(&self.stores_path) {
            // Somebody looks at it for a moment still.
            Err(error) if error.is_in_use() => None,
            opened => Some(opened.map(|engine| disk.insert(engine).clone())),
        }
    }

    /// Whether the engine has given up. Who has a store of it gives it back, or nobody can open it anew.
    pub(crate) fn has_failed(&self) -> bool {
        self.disk().as_ref().is_some_and(DiskEngine::has_failed)
    }

    /// What was set aside of a store that was taken just now, or when the folder was opened: told once.
    pub(crate) fn take_set_aside(&self, task: TaskId, store: &str) -> Option<SetAside> {
        let now = self.stores().set_aside.remove(&(task, store.to_owned()));
        now.or_else(|| self.disk().as_ref()?.take_set_aside(task, store))
    }

    /// Sets aside what a taken store holds, and opens it anew. The old handle must be dropped by the caller. Says where the old one lies.
    pub(crate) fn set_aside(
        &self,
        task: TaskId,
        needed: &NeededStore,
        reason: &str,
    ) -> Result<(Box<dyn StateStore>, Option<PathBuf>), StoreError> {
        // Whoever has a store on disk has it from an engine that is there.
        let Some(mut disk) = self.disk().clone().filter(|_| needed.is_persistent) else {
            return Ok((Box::new(MemoryStore::default()), None));
        };
        let kept = disk.set_aside_store(task, &needed.name, reason)?;
        Ok((disk.open(task, &needed.name)?, kept))
    }

    /// Gives a store back, for its next owner in this process.
    pub(crate) fn give_back(&self, task: TaskId, store: &str, is_persistent: bool, engine: Box<dyn StateStore>) {
        let key = (task, store.to_owned());
        let mut stores = self.stores();
        if is_persistent {
            drop(engine);
        } else {
            stores.in_memory.insert(key.clone(), engine);
        }
        stores.in_use.remove(&key);
        stores.idle_since.insert(task, Instant::now());
    }

    /// Throws away the stores of tasks that nobody here has had for `delay`: another process has them, and their change logs have
    /// everything. Returns how many stores that were.
    pub(crate) fn clean(&self, delay: Duration) -> Result<u64, StoreError> {
        let Some(disk) = self.disk().clone().filter(|disk| !disk.has_failed()) else { return Ok(0) };
        let mut deleted = 0;
        for task in disk.stored_tasks() {
            // The lock is held while a task is deleted, so that it is not taken in between.
            let mut stores = self.stores();
            let idle_since = stores.idle_since.get(&task).copied().unwrap_or(self.opened);
            if stores.in_use.keys().any(|(user, _)| *user == task) || idle_since.elapsed() < delay {
                continue;
            }
            deleted += disk.delete_task(task)?;
            stores.in_memory.retain(|(owner, _), _| *owner != task);
            stores.idle_since.remove(&task);
        }
        Ok(deleted)
    }

    fn disk(&self) -> MutexGuard<'_, Option<DiskEngine>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stores(&self) -> MutexGuard<'_, Stores> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is damaged where it is looked at first is set aside at once.
fn open_on_disk(
    mut disk: DiskEngine,
    stores: &mut Stores,
    task: TaskId,
    store: &str,
) -> Result<Box<dyn StateStore>, StoreError> {
    match disk.open(task, store) {
        Err(damaged @ StoreError::Damaged { .. }) => {
            let reason = damaged.to_string();
            let kept = disk.set_aside_store(task, store, &reason)?;
            stores.set_aside.insert((task, store.to_owned()), SetAside { reason, kept });
            disk.open(task, store)
        }
        opened => opened,
    }
}

fn read_line(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whole or not at all, whenever the process dies.
fn write_line(folder: &Path, name: &str, line: &str) -> io::Result<()> {
    let temporary: PathBuf = folder.join(format!("{name}.new"));
    std::fs::write(&temporary, format!("{line}\n"))?;
    std::fs::rename(&temporary, folder.join(name))
}

/// The standard library seeds its hash maps from the system's entropy; that is chance enough for a name.
fn fresh_process_id() -> String {
    let seed = RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()));
    let bytes = Chance::from_seed(seed).uuid().0;
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = TaskId { subtopology: 0, partition: 0 };

    fn needed(is_persistent: bool) -> NeededStore {
        NeededStore { name: "s".to_owned(), is_persistent, changelog: None }
    }

    #[test]
    fn a_process_keeps_its_id_and_its_number_of_workers() {
        let folder = tempfile::tempdir().unwrap();
        let first = StateFolder::open(folder.path(), "app", None).unwrap();
        let id = first.process_id().to_owned();
        assert_eq!((id.len(), first.former_workers()), (32, 0));
        first.write_workers(3).unwrap();
        drop(first);
        let second = StateFolder::open(folder.path(), "app", None).unwrap();
        assert_eq!((second.process_id(), second.former_workers()), (id.as_str(), 3));
    }

    #[test]
    fn a_second_process_is_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let _first = StateFolder::open(folder.path(), "app", None).unwrap();
        // A lock belongs to the open file, so a second opening in one process stands for another process.
        let second = StateFolder::open(folder.path(), "app", None);
        assert!(matches!(second, Err(Error::StateFolderInUse { .. })));
        assert!(StateFolder::open(folder.path(), "other", None).is_ok());
    }

    #[test]
    fn a_store_is_with_one_worker_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(folder.path(), "app", None).unwrap();
        for is_persistent in [true, false] {
            let first = folder.try_take(TASK, &needed(is_persistent)).unwrap().unwrap();
            assert!(folder.try_take(TASK, &needed(is_persistent)).is_none(), "the store is in use");
            folder.give_back(TASK, "s", is_persistent, first);
            let second = folder.try_take(TASK, &needed(is_persistent)).unwrap().unwrap();
            folder.give_back(TASK, "s", is_persistent, second);
        }
    }

    #[test]
    fn only_what_nobody_has_had_for_long_is_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, gone): (TaskId, TaskId) = ("0_0".parse().unwrap(), "0_1".parse().unwrap());
        let needed = NeededStore { name: "s".to_owned(), is_persistent: true, changelog: None };
        let state = StateFolder::open(folder.path(), "app", None).unwrap();
        let in_use = state.try_take(kept, &needed).unwrap().unwrap();
        let idle = state.try_take(gone, &needed).unwrap().unwrap();
        state.give_back(gone, "s", true, idle);
        assert_eq!(state.clean(Duration::from_secs(3600)).unwrap(), 0);
        assert_eq!(state.clean(Duration::ZERO).unwrap(), 1);
        assert_eq!(state.stored_tasks(), BTreeSet::from([kept]));
        // It can be taken again, empty.
        assert_eq!(state.try_take(gone, &needed).unwrap().unwrap().position(), None);
        drop(in_use);
    }
}
