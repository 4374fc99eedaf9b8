//! One broker per data folder: a lock on the file `.lock` in it, as Kafka names it. The operating system drops the lock
//! with the process, so a killed broker never leaves a folder locked.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Held while a broker owns the folder.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

/// Why a folder could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderLockError {
    /// Another broker has it.
    #[error("{0} is in use by another broker")]
    InUse(PathBuf),
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The folder or lock file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl FolderLock {
    /// Makes the folder if need be, and takes it.
    pub(crate) fn take(folder: &Path) -> Result<Self, FolderLockError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| FolderLockError::Io { path, source }
        };
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        let path = folder.join(".lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(std::fs::TryLockError::WouldBlock) => Err(FolderLockError::InUse(folder.to_owned())),
            Err(std::fs::TryLockError::Error(source)) => Err(failed(&path)(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_owned_once_and_free_when_dropped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lock = FolderLock::take(folder.path()).expect("free");
        let refused = FolderLock::take(folder.path()).expect_err("in use");
        assert!(refused.to_string().contains(&folder.path().display().to_string()));
        assert!(refused.to_string().contains("in use by another broker"));
        drop(lock);
        FolderLock::take(folder.path()).expect("free again");
    }
}
