//! A data folder that no broker uses at the moment: what is in it, what of it is damaged, and bringing back what is whole.
//!
//! **What it does not know**: who asks, and how the answer is shown.

use std::path::{Path, PathBuf};

pub use atonce_log::{Damage, FolderCheck, JournalCheck, PartitionCheck, Salvaged, TornTail};
use atonce_log::{Durability, Storage, StorageConfig};

use crate::disk::StdDisk;
use crate::engine::durability_before;
use crate::folder_lock::{FolderLock, FolderLockError};

/// Why a data folder cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataFolderError {
    /// There is no such folder, or nothing of a broker's in it.
    #[error("{} holds no data of a broker", .0.display())]
    Nothing(PathBuf),
    /// A broker runs on it.
    #[error("{} is in use by a broker", .0.display())]
    InUse(PathBuf),
    /// It cannot be read, or is of a later format, or nothing can be said of what it holds.
    #[error("{0}")]
    Unreadable(String),
}

/// What salvaging a folder has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageReport {
    /// The journal was cut at its damage.
    pub is_journal_cut: bool,
    /// Partitions that were brought back.
    pub partitions: Vec<Salvaged>,
}

/// Reads all of a data folder, and writes nothing.
///
/// Errors: as at [`DataFolderError`]; damage to journal and partitions is no error, but what is looked for.
pub fn check(folder: &Path) -> Result<FolderCheck, DataFolderError> {
    let _lock = take(folder)?;
    let config = StorageConfig::new(folder);
    atonce_log::check::check(&StdDisk::new(folder), folder, config.journal_file_bytes)
        .map_err(|error| DataFolderError::Unreadable(error.to_string()))
}

/// Brings damaged partitions back with what is whole of them, and cuts a damaged journal before its damage. What is lost by
/// that is lost for good: [`check`] says before what it would be.
///
/// Retry: an interrupted one has happened or not; it may be repeated.
pub fn salvage(folder: &Path) -> Result<SalvageReport, DataFolderError> {
    let _lock = take(folder)?;
    let mut config = StorageConfig::new(folder);
    config.durability = durability_before(folder).unwrap_or(Durability::Sync);
    config.salvage = true;
    // No boot is named, and no clean end left: what the next start would have concluded from the last run it still does.
    let opened = Storage::open(StdDisk::new(folder), config);
    let (_, report) = opened.map_err(|error| DataFolderError::Unreadable(error.to_string()))?;
    Ok(SalvageReport { is_journal_cut: report.salvaged, partitions: report.salvaged_partitions })
}

fn take(folder: &Path) -> Result<FolderLock, DataFolderError> {
    if !folder.join("checkpoint").exists() && !folder.join("journal").exists() {
        return Err(DataFolderError::Nothing(folder.to_owned()));
    }
    FolderLock::take(folder).map_err(|error| match error {
        FolderLockError::InUse(folder) => DataFolderError::InUse(folder),
        error @ FolderLockError::Io { .. } => DataFolderError::Unreadable(error.to_string()),
    })
}
