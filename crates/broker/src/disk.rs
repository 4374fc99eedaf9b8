//! The real disk: [`StdDisk`] keeps the promises of [`atonce_kernel::disk::Disk`] with the operating system's files.
//!
//! **What it does not know**: what is in the files. It also does not retry: after a failed sync nothing is known about
//! the bytes, and only the log can say what follows from that.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use atonce_kernel::disk::{Disk, DiskFile};

/// The files of the operating system, under one data folder (which is asked how much room is left).
#[derive(Clone, Debug)]
pub struct StdDisk {
    data_directory: PathBuf,
}

impl StdDisk {
    /// The disk that holds `data_directory`.
    #[must_use]
    pub fn new(data_directory: impl Into<PathBuf>) -> Self {
        Self { data_directory: data_directory.into() }
    }
}

/// An open file.
#[derive(Debug)]
pub struct StdFile(File);

impl StdFile {
    /// Whether the system hands bytes of a file to a socket without their being read by us first.
    pub(crate) const SENDS: bool = cfg!(target_os = "linux");

    /// Hands at most `count` bytes from `position` on to `socket`; returns how many it took, none at the file's end.
    #[cfg(target_os = "linux")]
    pub(crate) fn send_to(&self, socket: impl AsFd, position: u64, count: usize) -> io::Result<usize> {
        let mut from = position;
        loop {
            match rustix::fs::sendfile(&socket, &self.0, Some(&mut from), count) {
                Err(rustix::io::Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// There is no such way here.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn send_to(&self, _socket: impl AsFd, _position: u64, _count: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Tells the system that these bytes are wanted soon, so that who sends them need not wait for the disk.
    pub(crate) fn announce(&self, position: u64, count: usize) {
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(
            &self.0,
            position,
            std::num::NonZeroU64::new(count as u64),
            rustix::fs::Advice::WillNeed,
        );
        #[cfg(not(target_os = "linux"))]
        let _ = (position, count);
    }
}

impl Disk for StdDisk {
    type File = StdFile;

    fn open_or_create(&self, path: &Path) -> io::Result<StdFile> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(StdFile)
    }

    fn open(&self, path: &Path) -> io::Result<StdFile> {
        OpenOptions::new().read(true).write(true).open(path).map(StdFile)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        let statistics = rustix::fs::statvfs(&self.data_directory)?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }
}

impl DiskFile for StdFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read_at(&mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end_and_writes_grow() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = StdDisk::new(folder.path());
        let file = disk.open_or_create(&folder.path().join("a")).expect("made");
        file.write_at(b"hello", 3).expect("written");
        assert_eq!(file.length().expect("length"), 8);
        let mut buffer = [9; 10];
        assert_eq!(file.read_at(&mut buffer, 3).expect("read"), 5);
        assert_eq!(&buffer[..5], b"hello");
        file.set_length(4).expect("cut");
        assert_eq!(file.read_at(&mut buffer, 3).expect("read"), 1);
        file.sync().expect("synced");
        disk.sync_directory(folder.path()).expect("synced");
        assert_eq!(disk.list(folder.path()).expect("listed"), [PathBuf::from("a")]);
        assert_eq!(disk.open(&folder.path().join("b")).expect_err("not there").kind(), io::ErrorKind::NotFound);
        assert!(disk.available_bytes().expect("asked") > 0);
    }
}
