//! The disk as an argument. Durable code is written against [`Disk`]; the broker gives it a real one, and
//! the test kit one that forgets any subset of what was not synced.

use std::io;
use std::path::{Path, PathBuf};

/// Files in folders, with the promises that POSIX makes and no others.
///
/// Durability: a file's bytes and length are kept once its [`DiskFile::sync`] has returned; its name (after
/// creation, renaming or removal) once [`Disk::sync_directory`] of its folder has. Until then a crash of
/// the machine may keep any subset, in sectors of 512 bytes; a crash of the process alone loses nothing.
/// After a sync that failed nothing is known about the bytes since the last good one.
pub trait Disk: Send + Sync + 'static {
    /// An open file. A clone of the handle is the same file.
    type File: DiskFile;

    /// Opens for reading and writing; makes it, empty, if it is not there.
    fn open_or_create(&self, path: &Path) -> io::Result<Self::File>;
    /// Opens for reading and writing; `NotFound` if it is not there.
    fn open(&self, path: &Path) -> io::Result<Self::File>;
    /// Renames a file or folder, replacing a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder and those above it; it may be there already.
    fn create_directories(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder with all in it.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// What is in a folder: names only, sorted; `NotFound` if it is not there.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes creations, renames and removals in this folder durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Bytes that can still be written, as far as the file system tells.
    fn available_bytes(&self) -> io::Result<u64>;
}

/// A file that is read and written at places, never at a cursor, so that readers and the writer share it.
pub trait DiskFile: Send + Sync + 'static {
    /// Reads until `buffer` is full or the file ends; returns how much was read.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes all of `bytes`, growing the file if needed.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts or grows (with zeros) to `length`.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Makes bytes and length durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
}
