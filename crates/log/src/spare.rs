//! A journal file made ahead: full of zeros, and synced. That takes far longer than a commit, so it can be done elsewhere.
//!
//! **What it does not know**: what the file is used for, and when.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};

/// Zeros are written in pieces of this size.
const ZEROS_BYTES: usize = 256 << 10;

/// A file to be made.
#[derive(Debug)]
pub struct SpareWork<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) path: PathBuf,
    pub(crate) file_bytes: u64,
    /// Synced after so many bytes each. A disk that is handed all of it at once lets the next commit's sync wait until all is written.
    pub(crate) sync_bytes: u64,
}

/// What became of it.
#[derive(Debug)]
pub struct SpareDone(pub(crate) io::Result<PathBuf>);

impl SpareDone {
    /// The work was not even begun.
    pub fn not_begun(error: io::Error) -> Self {
        Self(Err(error))
    }

    /// Why there is no file, if there is none.
    pub fn error(&self) -> Option<&io::Error> {
        self.0.as_ref().err()
    }
}

impl<D: Disk> SpareWork<D> {
    /// Makes the file. On a full disk there is none afterwards.
    pub fn run(self) -> SpareDone {
        match self.write_zeros() {
            Ok(()) => SpareDone(Ok(self.path)),
            Err(error) => {
                // What was written so far would hold the space that is missing.
                let _ = self.disk.remove_file(&self.path);
                SpareDone(Err(error))
            }
        }
    }

    fn write_zeros(&self) -> io::Result<()> {
        let file = self.disk.open_or_create(&self.path)?;
        let zeros = vec![0; usize::try_from(self.file_bytes).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES)];
        let (mut position, mut synced) = (0, 0);
        while position < self.file_bytes {
            let left = usize::try_from(self.file_bytes - position).unwrap_or(usize::MAX);
            let piece = zeros.get(..left).unwrap_or(&zeros);
            file.write_at(piece, position)?;
            position += piece.len() as u64;
            if position - synced >= self.sync_bytes {
                file.sync()?;
                synced = position;
            }
        }
        if synced < position { file.sync() } else { Ok(()) }
    }
}
