//! The folders of partitions: which of those in a data folder are ours, by what they say and what they are called.
//!
//! **What it does not know**: checkpoint and journal, which say what topics there are.
//!
//! A data folder may hold what others put there: a copy of a partition's folder, an empty folder that is called like
//! one, notes. Nothing is removed that is not provably ours: a folder is a partition's if its `partition.metadata` names
//! the topic's id *and* it is called what the partition's folder is called.

use std::io;
use std::path::{Path, PathBuf};

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{PartitionIndex, TopicId, Uuid};

use crate::segment::parse_file_name;

/// The file that says which topic a folder belongs to, as Kafka writes it.
pub(crate) const METADATA_FILE: &str = "partition.metadata";
/// Metadata is two short lines; more is not read.
const METADATA_BYTES_MAX: usize = 512;
/// What stays of a topic's name in a folder that is set aside.
const TOPIC_BYTES_MAX: usize = 190;
/// Ends the name of a deleted topic's folder.
const DELETE_SUFFIX: &str = "-delete";

/// A folder that is called like a partition's.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) index: PartitionIndex,
    pub(crate) names: Vec<PathBuf>,
}

/// What a folder says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metadata {
    /// Of this topic.
    Topic(TopicId),
    /// `partition.metadata` is there, and what stood in it was not durable when power was lost.
    Unfinished,
    /// Nothing, or nothing that makes sense.
    Missing,
}

impl Folder {
    /// Something in it is called what we call files.
    pub(crate) fn holds_log_files(&self) -> bool {
        self.names.iter().any(|name| is_ours(name))
    }
}

/// The folders that are called like a partition's, by name.
pub(crate) fn survey<D: Disk>(disk: &D, directory: &Path) -> Result<Vec<Folder>, crate::error::OpenError> {
    let names = disk.list(directory).map_err(|error| crate::error::OpenError::disk("listing", directory, &error))?;
    let mut folders = Vec::new();
    for name in names {
        let Some(index) = name.to_str().and_then(partition_index) else { continue };
        let path = directory.join(&name);
        // A file stays as it is.
        let Ok(names) = disk.list(&path) else { continue };
        folders.push(Folder { metadata: read_metadata(disk, &path), path, index, names });
    }
    Ok(folders)
}

/// `topic-3` or `topic-3.0123…-delete`.
fn partition_index(name: &str) -> Option<PartitionIndex> {
    let name = match name.strip_suffix(DELETE_SUFFIX) {
        Some(deleted) => deleted.rsplit_once('.')?.0,
        None => name,
    };
    let digits = name.rsplit_once('-')?.1;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn is_ours(name: &Path) -> bool {
    let name = name.to_str().unwrap_or_default();
    name == METADATA_FILE || is_log_file(name)
}

/// What a partition's log is made of, here and at Kafka.
fn is_log_file(name: &str) -> bool {
    name == "leader-epoch-checkpoint"
        || parse_file_name(name).is_some_and(|(_, extension)| {
            let is_whole = matches!(extension, "log" | "txnindex" | "index" | "timeindex" | "snapshot");
            is_whole || is_unfinished(extension)
        })
}

/// Whether a file with this extension is one that compaction has not finished: `log.cleaned`, `log.7.swap`.
pub(crate) fn is_unfinished(extension: &str) -> bool {
    let Some((kind, state)) = extension.split_once('.') else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(kind, "log" | "txnindex" | "index" | "timeindex")
        && (state == "cleaned" || state.strip_suffix(".swap").is_some_and(is_number))
}

/// What `folder` says of itself.
pub(crate) fn read_metadata<D: Disk>(disk: &D, folder: &Path) -> Metadata {
    let read = || {
        let file = disk.open(&folder.join(METADATA_FILE))?;
        let mut bytes = vec![0; METADATA_BYTES_MAX];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok::<_, io::Error>(bytes)
    };
    let Ok(bytes) = read() else { return Metadata::Missing };
    if bytes.iter().all(|byte| *byte == 0) {
        return Metadata::Unfinished;
    }
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let id = text.lines().find_map(|line| parse_uuid(line.strip_prefix("topic_id: ")?.trim_end()));
    id.map_or(Metadata::Missing, Metadata::Topic)
}

/// An id as Kafka prints it: 22 characters of URL-safe base 64.
fn parse_uuid(text: &str) -> Option<Uuid> {
    if text.len() != 22 {
        return None;
    }
    let mut bits = 0_u128;
    for (place, byte) in text.bytes().enumerate() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        // The last character carries the last two bits.
        bits = if place == 21 { bits << 2 | u128::from(value >> 4) } else { bits << 6 | u128::from(value) };
    }
    Some(Uuid(bits.to_be_bytes()))
}

/// The name of a deleted partition's folder, as Kafka makes it: with the topic's id, so that it is found by what it is.
pub(crate) fn deleted_folder(folder: &Path, topic_id: TopicId) -> PathBuf {
    let id = hexadecimal(topic_id);
    with_suffix(folder, &format!(".{id}{DELETE_SUFFIX}"))
}

/// Whether `folder` is called what we call the folder of a deleted topic, whichever it was.
pub(crate) fn names_deletion(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = name.strip_suffix(DELETE_SUFFIX).and_then(|name| name.rsplit_once('.')).map_or("", |(_, id)| id);
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hexadecimal(topic_id: TopicId) -> String {
    topic_id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn with_suffix(folder: &Path, suffix: &str) -> PathBuf {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (topic, index) = name.rsplit_once('-').unwrap_or((name, "0"));
    // A folder's name ends at 255 bytes.
    let topic = topic.get(..TOPIC_BYTES_MAX).unwrap_or(topic);
    folder.with_file_name(format!("{topic}-{index}{suffix}"))
}

/// Renames what stands at `path`, if anything does, to `path.1-stray`, or the next number that is free. Nothing here
/// looks at a folder of such a name again.
pub(crate) fn set_aside<D: Disk>(disk: &D, path: &Path) -> io::Result<()> {
    if !exists(disk, path)? {
        return Ok(());
    }
    let mut number = 1_u64;
    loop {
        let aside = with_suffix(path, &format!(".{number}-stray"));
        if !exists(disk, &aside)? {
            return disk.rename(path, &aside);
        }
        number += 1;
    }
}

fn exists<D: Disk>(disk: &D, path: &Path) -> io::Result<bool> {
    match disk.list(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(error),
    }
}

/// Removes the files of a partition's log that a folder holds; `true` if nothing but its metadata is left.
pub(crate) fn remove_log_files<D: Disk>(disk: &D, folder: &Path) -> io::Result<bool> {
    let mut is_all = true;
    for name in disk.list(folder)? {
        let text = name.to_str().unwrap_or_default();
        if is_log_file(text) {
            disk.remove_file(&folder.join(&name))?;
        } else {
            is_all &= text == METADATA_FILE;
        }
    }
    Ok(is_all)
}

/// Makes room for the folder of a partition without files: what stands there and is not ours is set aside, and what is
/// ours goes, for the journal has all of it.
pub(crate) fn prepare_folder<D: Disk>(disk: &D, folder: &Path, topic_id: TopicId) -> io::Result<()> {
    let names = match disk.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return set_aside(disk, folder),
        Err(error) => return Err(error),
    };
    if names.is_empty() {
        return Ok(());
    }
    match read_metadata(disk, folder) {
        Metadata::Topic(id) if id == topic_id => remove_log_files(disk, folder).map(drop),
        Metadata::Unfinished => remove_log_files(disk, folder).map(drop),
        Metadata::Topic(_) | Metadata::Missing => set_aside(disk, folder),
    }
}
