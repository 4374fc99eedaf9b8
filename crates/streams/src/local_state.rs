//! The state of an application that does not run, to be thrown away: what a reset does on this machine.
//!
//! **What it does not know**: what lies in a state folder but the lock (see `state_folder`), and the cluster, where change logs and offsets
//! are to be reset too, or the stores come back as they were.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The state folder of an application, locked: as long as this lives, no process of the application starts in it.
///
/// ```
/// # fn main() -> Result<(), atonce::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let state_dir = folder.path();
/// if let Some(state) = atonce::LocalState::open(state_dir, "word-count")? {
///     println!("throwing away {}", state.path().display());
///     state.delete()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LocalState {
    path: PathBuf,
    /// Dropped last: with it goes the lock.
    _lock: File,
}

impl LocalState {
    /// Finds what an application keeps in `state_dir`, and locks it; `None` if it keeps nothing there.
    ///
    /// Errors: a process of the application runs in it.
    pub fn open(state_dir: &Path, application_id: &str) -> Result<Option<Self>, Error> {
        let path = state_dir.join(application_id);
        let failed = |source: io::Error| Error::StateFolder { path: path.clone(), source };
        let lock = match File::options().write(true).open(path.join("lock")) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { path, _lock: lock })),
            Err(TryLockError::WouldBlock) => Err(Error::StateFolderInUse { path }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Throws it away: stores, the process's id, all. After a crash in between, again does the rest.
    pub fn delete(self) -> Result<(), Error> {
        let failed = |source: io::Error| Error::StateFolder { path: self.path.clone(), source };
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // The lock goes last, with the folder.
            if entry.file_name() == "lock" {
                continue;
            }
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            if is_folder { std::fs::remove_dir_all(entry.path()) } else { std::fs::remove_file(entry.path()) }
                .map_err(failed)?;
        }
        std::fs::remove_dir_all(&self.path).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_folder::StateFolder;

    #[test]
    fn state_is_thrown_away_once_nobody_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(LocalState::open(folder.path(), "app").unwrap().is_none());
        let running = StateFolder::open(folder.path(), "app", None).unwrap();
        let other = StateFolder::open(folder.path(), "other", None).unwrap();
        let id = running.process_id().to_owned();
        assert!(matches!(LocalState::open(folder.path(), "app"), Err(Error::StateFolderInUse { .. })));
        drop(running);
        let state = LocalState::open(folder.path(), "app").unwrap().unwrap();
        assert!(matches!(StateFolder::open(folder.path(), "app", None), Err(Error::StateFolderInUse { .. })));
        state.delete().unwrap();
        assert!(!folder.path().join("app").exists());
        assert!(folder.path().join("other").exists(), "another application's stays");
        drop(other);
        assert_ne!(StateFolder::open(folder.path(), "app", None).unwrap().process_id(), id, "a process of a new life");
    }
}
