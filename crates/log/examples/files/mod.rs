//! Real files, for the examples that measure.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use atonce_kernel::disk::{Disk, DiskFile};

/// All of them.
pub(crate) struct Files;

/// One of them.
pub(crate) struct OpenFile(File);

impl Disk for Files {
    type File = OpenFile;

    fn open_or_create(&self, path: &Path) -> io::Result<OpenFile> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(OpenFile)
    }

    fn open(&self, path: &Path) -> io::Result<OpenFile> {
        OpenOptions::new().read(true).write(true).open(path).map(OpenFile)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.push(PathBuf::from(entry?.file_name()));
        }
        names.sort();
        Ok(names)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

impl DiskFile for OpenFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut count = 0;
        while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, position + count as u64)? {
                0 => break,
                read => count += read,
            }
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
