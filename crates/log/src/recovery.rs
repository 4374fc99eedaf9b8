//! Opening a data folder: one path, after a clean end, a killed process, or the loss of power.
//!
//! **What it does not know**: coordinators; they read their partitions afterwards.
//!
//! First everything is read and nothing changed: the checkpoint, the journal from its place on, the folders. Damage
//! to what was durable ends it here. Then segments are cut to what the checkpoint vouches for, and *all* that the
//! journal holds is applied again and written again. It is not compared with what a segment may hold already: pages
//! that read well may be lost on disk after a sync that failed, and only writing them makes the next sync mean them.
//! At the end stands a new checkpoint, and the journal begins in a new file.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, PartitionIndex, TopicId, TopicName, TopicPartition};
use bytes::Bytes;

use crate::batch::{BatchHeader, EndTransactionMarker};
use crate::catalog::Topic;
use crate::checkpoint::{CHECKPOINT_FILE, Checkpoint, JournalFiles, PartitionCheckpoint, SegmentCheckpoint};
use crate::config::{Durability, RecoveryReport, StorageConfig, TornTail};
use crate::entry::Entry;
use crate::error::{Damage, JournalFailed, OpenError};
use crate::fields::Fields;
use crate::files::{SegmentFiles, swap_path};
use crate::folders::{
    Folder, Metadata, deleted_folder, is_unfinished, names_deletion, remove_log_files, set_aside, survey,
};
use crate::journal::{self, BLOCK_BYTES, Journal, Place, Tail, scan};
use crate::partition::{FoundFiles, GroupRange, Partition, Shared};
use crate::salvage::repair_all;
use crate::segment::{Segment, file_path, parse_file_name};
use crate::settings::Settings;
use crate::storage::{CLEAN_FILE, JOURNAL_FOLDER, Storage};

/// A journal file holds at least this, so that a marker for a hundred partitions fits into a group.
const JOURNAL_FILE_BYTES_MIN: u64 = 16 << 10;

pub(crate) fn open<D: Disk>(disk: Arc<D>, config: StorageConfig) -> Result<(Storage<D>, RecoveryReport), OpenError> {
    check_settings(&config)?;
    make_folders(&*disk, &config.directory)?;
    match Checkpoint::read(&*disk, &config.directory)? {
        None => create(disk, config),
        Some(checkpoint) => recover(disk, config, checkpoint),
    }
}

fn check_settings(config: &StorageConfig) -> Result<(), OpenError> {
    let bytes = config.journal_file_bytes;
    if !bytes.is_multiple_of(BLOCK_BYTES) || bytes < JOURNAL_FILE_BYTES_MIN || bytes > u64::from(u32::MAX) {
        return Err(OpenError::Settings("journal_file_bytes must be a multiple of 4096, from 16 KiB to 4 GiB"));
    }
    if config.journal_files_max < 2 {
        return Err(OpenError::Settings("journal_files_max must be at least 2: one is written while another is freed"));
    }
    Ok(())
}

fn make_folders<D: Disk>(disk: &D, directory: &Path) -> Result<(), OpenError> {
    let journal = directory.join(JOURNAL_FOLDER);
    disk.create_directories(&journal).map_err(|error| OpenError::disk("making", &journal, &error))?;
    let above = directory.parent().filter(|path| !path.as_os_str().is_empty());
    for folder in [Some(directory), above].into_iter().flatten() {
        disk.sync_directory(folder).map_err(|error| OpenError::disk("syncing", folder, &error))?;
    }
    Ok(())
}

/// An empty folder.
fn create<D: Disk>(disk: Arc<D>, config: StorageConfig) -> Result<(Storage<D>, RecoveryReport), OpenError> {
    let journal_folder = config.directory.join(JOURNAL_FOLDER);
    // The first journal file is made after the first checkpoint, and folders of partitions after that.
    let has_folders = survey(&*disk, &config.directory)?.iter().any(Folder::holds_log_files);
    if config.was_used || has_folders || !journal::files(&*disk, &journal_folder)?.is_empty() {
        return Err(OpenError::NoCheckpoint { path: config.directory });
    }
    let journal = Journal::new(Arc::clone(&disk), journal_folder, config.journal_file_bytes, Place::FIRST, 0);
    let shared = Shared::new(disk, config.open_files_max);
    let mut storage = Storage::new(config, shared, journal, 0);
    remove_unfinished_spares(&storage)?;
    finish(&mut storage)?;
    // Only now, and told by another checkpoint: a journal file without a checkpoint is a folder that lost it.
    storage.journal.begin()?;
    finish(&mut storage)?;
    allocate_ahead(&mut storage);
    storage.makes_index_files = true;
    Ok((storage, RecoveryReport { created: true, clean: true, ..RecoveryReport::default() }))
}

/// So that the first commit need not. On a full disk there is none, and appends are refused until there is.
fn allocate_ahead<D: Disk>(storage: &mut Storage<D>) {
    if storage.journal.wants_spare() && !storage.journal.has_spare() {
        let _ = storage.journal.add_spare();
    }
}

/// The last step: what was found is durable, and the journal begins anew.
fn finish<D: Disk>(storage: &mut Storage<D>) -> Result<(), OpenError> {
    let directory = storage.config.directory.clone();
    let Some(work) = storage.prepare_checkpoint()? else {
        return Err(OpenError::Disk {
            operation: "writing segments",
            path: directory,
            cause: "the disk does not take what the journal holds; is it full?".to_owned(),
        });
    };
    storage.conclude_checkpoint(work.run())?;
    Ok(())
}

fn remove_unfinished_spares<D: Disk>(storage: &Storage<D>) -> Result<(), OpenError> {
    let disk = &*storage.shared.disk;
    let folder = storage.config.directory.join(JOURNAL_FOLDER);
    let names = disk.list(&folder).map_err(|error| OpenError::disk("listing", &folder, &error))?;
    for name in names.iter().filter(|name| name.extension().is_some_and(|extension| extension == "tmp")) {
        let path = folder.join(name);
        disk.remove_file(&path).map_err(|error| OpenError::disk("removing", &path, &error))?;
    }
    Ok(())
}

fn recover<D: Disk>(
    disk: Arc<D>,
    config: StorageConfig,
    checkpoint: Checkpoint,
) -> Result<(Storage<D>, RecoveryReport), OpenError> {
    let directory = config.directory.clone();
    let journal_folder = directory.join(JOURNAL_FOLDER);
    let files = journal::files(&*disk, &journal_folder)?;
    let start = checkpoint.place;
    check_start(&*disk, &journal_folder, &files, &start)?;
    if let Some(expected) = checkpoint.journal_files
        && !config.salvage
    {
        check_files(&*disk, &journal_folder, &files, &start, expected, config.journal_file_bytes)?;
    }
    let mut contents = Contents::default();
    let end = scan(&*disk, &files, start, |path, place, payload| contents.add(path, place, &payload))?;
    let (torn_tail, is_salvaged) = match end.tail {
        Tail::Clean => (None, false),
        Tail::Torn { path, position, bytes } => (Some(TornTail { path, position, bytes }), false),
        Tail::Damaged { .. } if config.salvage => (None, true),
        Tail::Damaged { path, position, what } => return Err(OpenError::Corrupt { path, position, what }),
    };
    let mut plan = Plan::choose(&*disk, &directory, &checkpoint, &contents)?;
    let names: BTreeMap<TopicId, TopicName> =
        checkpoint.topics.iter().map(|topic| (topic.id, topic.name.clone())).collect();
    let damaged = plan.damaged.iter().filter_map(|((id, index), found)| {
        Some((TopicPartition::new(names.get(id)?.clone(), *index), Arc::clone(&found.damage)))
    });

    let is_clean = remove_clean_mark(&*disk, &directory)?;
    plan.execute(&*disk, &directory)?;

    let after_power_loss = !is_clean && (checkpoint.boot_id.is_none() || checkpoint.boot_id != config.boot_id);
    let mut report = RecoveryReport {
        created: false,
        clean: is_clean,
        after_power_loss,
        groups_replayed: contents.groups,
        entries_replayed: contents.entries,
        torn_tail,
        salvaged: is_salvaged,
        damaged: damaged.collect(),
        salvaged_partitions: Vec::new(),
        segments_cut: plan.cut.len() as u64,
        foreign_folders: std::mem::take(&mut plan.foreign),
    };
    // Readers may have seen offsets that are lost now and will be given to other records: a new epoch tells them.
    let is_raised = config.raise_leader_epoch && checkpoint.durability == Durability::Os && after_power_loss;
    let leader_epoch = checkpoint.leader_epoch.saturating_add(i32::from(is_raised));

    let place = Place { file_number: next_file_number(&files, &start), offset: 0, ..end.place };
    let journal =
        Journal::new(Arc::clone(&disk), journal_folder, config.journal_file_bytes, place, end.place.group_number - 1);
    let shared = Shared::new(Arc::clone(&disk), config.open_files_max);
    let mut storage = Storage::new(config, shared, journal, leader_epoch);
    plan.load(&mut storage, checkpoint, &contents.dead)?;
    if storage.config.salvage {
        report.salvaged_partitions = repair_all(&mut storage)?;
        report.damaged.clear();
    }
    scan(&*disk, &files, start, |path, place, payload| replay(&mut storage, &contents.dead, path, place, payload))?;
    remove_unfinished_spares(&storage)?;
    storage.journal.begin()?;
    finish(&mut storage)?;
    storage.forget_moved();
    storage.journal.take_spares(files.into_values())?;
    allocate_ahead(&mut storage);
    storage.makes_index_files = true;
    Ok((storage, report))
}

/// A number that no file has had, so that nothing a file holds can continue the journal by chance.
fn next_file_number(files: &BTreeMap<u64, PathBuf>, start: &Place) -> u64 {
    files.last_key_value().map_or(0, |(number, _)| *number).max(start.file_number) + 1
}

/// The checkpoint points behind a group that was synced: so far the file must reach.
pub(crate) fn check_start<D: Disk>(
    disk: &D,
    folder: &Path,
    files: &BTreeMap<u64, PathBuf>,
    start: &Place,
) -> Result<(), OpenError> {
    if start.offset == 0 {
        return Ok(());
    }
    let path = journal::file_path(folder, start.file_number);
    if !files.contains_key(&start.file_number) {
        return Err(OpenError::corrupt(&path, 0, "the journal file that the checkpoint points into is missing"));
    }
    let file = disk.open(&path).map_err(|error| OpenError::disk("opening", &path, &error))?;
    let length = file.length().map_err(|error| OpenError::disk("reading the length", &path, &error))?;
    if length < start.offset {
        return Err(OpenError::corrupt(
            &path,
            length,
            "the journal file ends before the place that the checkpoint points to",
        ));
    }
    Ok(())
}

/// Files are full of zeros, and synced, before they get their names: neither a crash nor the loss of power shortens one.
pub(crate) fn check_files<D: Disk>(
    disk: &D,
    folder: &Path,
    files: &BTreeMap<u64, PathBuf>,
    start: &Place,
    expected: JournalFiles,
    file_bytes_now: u64,
) -> Result<(), OpenError> {
    if expected.has_file && !files.contains_key(&start.file_number) {
        let path = journal::file_path(folder, start.file_number);
        return Err(OpenError::corrupt(&path, 0, "the journal file that the checkpoint points into is missing"));
    }
    for path in files.range(start.file_number..).map(|(_, path)| path) {
        let length = disk.open(path).and_then(|file| file.length());
        let length = length.map_err(|error| OpenError::disk("reading the length", path, &error))?;
        // A start that was interrupted may have made a file of the size that is set now.
        if length != expected.bytes && length != file_bytes_now {
            let what = format!("the journal file has {length} bytes instead of {}", expected.bytes);
            return Err(OpenError::corrupt(path, length.min(expected.bytes), what));
        }
    }
    Ok(())
}

/// What a first pass over the journal finds.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) groups: u64,
    pub(crate) entries: u64,
    /// Topics that are deleted in the journal: nothing of them is applied, and their folders may be gone already.
    pub(crate) dead: BTreeSet<TopicId>,
    /// Topics that are made in the journal, by what they were called.
    made: BTreeMap<TopicId, TopicName>,
}

impl Contents {
    pub(crate) fn add(&mut self, path: &Path, place: Place, payload: &[u8]) -> Result<(), OpenError> {
        self.groups += 1;
        for_each_entry(path, place, payload, |entry, _| {
            self.entries += 1;
            match entry {
                Entry::TopicDeleted { topic_id } => {
                    self.dead.insert(topic_id);
                }
                Entry::TopicCreated(topic) => {
                    self.made.insert(topic.id, topic.name);
                }
                Entry::Batch { .. }
                | Entry::PartitionsAdded { .. }
                | Entry::ConfigAltered { .. }
                | Entry::ProducerIdsReserved { .. }
                | Entry::LogStartMoved { .. } => {}
            }
            Ok(())
        })
    }
}

/// Calls `visit` with each entry and the place in `payload` where it ends.
fn for_each_entry(
    path: &Path,
    place: Place,
    payload: &[u8],
    mut visit: impl FnMut(Entry<'_>, usize) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let mut fields = Fields::of(payload);
    while !fields.is_empty() {
        let entry = Entry::decode(&mut fields).ok_or_else(|| {
            OpenError::corrupt(
                path,
                place.offset,
                format!("journal group {} holds an entry of no known kind", place.group_number),
            )
        })?;
        visit(entry, payload.len() - fields.rest().len())?;
    }
    Ok(())
}

fn remove_clean_mark<D: Disk>(disk: &D, directory: &Path) -> Result<bool, OpenError> {
    let path = directory.join(CLEAN_FILE);
    match disk.remove_file(&path) {
        Ok(()) => {
            disk.sync_directory(directory).map_err(|error| OpenError::disk("syncing", directory, &error))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(OpenError::disk("removing", &path, &error)),
    }
}

/// What has to be done to the folders before the journal is applied. Chosen by reading alone.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Folders of topics that were deleted: named so, or known from the journal.
    remove_folders: Vec<PathBuf>,
    /// Folders of partitions of which the checkpoint vouches for no file: the journal has all of it.
    clear_folders: Vec<PathBuf>,
    /// A deletion that was not durable had set them aside.
    rename: Vec<(PathBuf, PathBuf)>,
    /// Folders that look like a partition's and are of none. They stay as they are.
    pub(crate) foreign: Vec<PathBuf>,
    /// Partitions whose files are not what the checkpoint vouches for.
    pub(crate) damaged: BTreeMap<(TopicId, PartitionIndex), Found>,
    /// Files of partitions that are kept, which the checkpoint does not name.
    remove_files: Vec<PathBuf>,
    /// Segments that compaction had made, which take their names now.
    swap: Vec<Swap>,
    /// Files that are longer than what the checkpoint vouches for.
    cut: Vec<Cut>,
    /// Base offsets of segments with index files.
    indexed: BTreeMap<(TopicId, PartitionIndex), BTreeSet<Offset>>,
    /// Base offsets of segments whose index of aborted transactions is missing, or cut.
    lost_aborted: BTreeMap<(TopicId, PartitionIndex), BTreeSet<Offset>>,
}

/// Damage, and whether there is a folder at all.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) damage: Arc<Damage>,
    has_folder: bool,
}

#[derive(Debug)]
struct Swap {
    from: PathBuf,
    to: PathBuf,
}

#[derive(Debug)]
struct Cut {
    key: (TopicId, PartitionIndex),
    path: PathBuf,
    length: u64,
}

impl Plan {
    pub(crate) fn choose<D: Disk>(
        disk: &D,
        directory: &Path,
        checkpoint: &Checkpoint,
        contents: &Contents,
    ) -> Result<Self, OpenError> {
        let names: BTreeMap<TopicId, &Topic> = checkpoint.topics.iter().map(|topic| (topic.id, topic)).collect();
        let mut wanted: BTreeMap<(TopicId, PartitionIndex), &PartitionCheckpoint> = checkpoint
            .partitions
            .iter()
            .filter(|partition| !contents.dead.contains(&partition.topic_id) && !partition.segments.is_empty())
            .map(|partition| ((partition.topic_id, partition.index), partition))
            .collect();
        // What a topic's folder is called; a copy of it has another name, and is nobody's.
        let right_path = |topic_id: TopicId, index: PartitionIndex| {
            let name = names.get(&topic_id).map(|topic| &topic.name).or_else(|| contents.made.get(&topic_id))?;
            Some(directory.join(TopicPartition::new(name.clone(), index).to_string()))
        };
        let mut plan = Self::default();
        let mut deleted = Vec::new();
        for folder in survey(disk, directory)? {
            let Metadata::Topic(topic_id) = folder.metadata else {
                plan.sort_unnamed(folder, &names, contents, directory);
                continue;
            };
            let path = right_path(topic_id, folder.index);
            if path.as_ref() != Some(&folder.path) {
                deleted.push((folder, topic_id, path));
            } else if let Some(partition) = wanted.remove(&(topic_id, folder.index)) {
                plan.keep(disk, &folder, partition, &folder.path)?;
            } else if contents.dead.contains(&topic_id) {
                plan.remove_folders.push(folder.path);
            } else {
                plan.clear_folders.push(folder.path);
            }
        }
        for (folder, topic_id, path) in deleted {
            let is_own_deletion = path.as_ref().is_some_and(|path| deleted_folder(path, topic_id) == folder.path);
            let partition = if is_own_deletion { wanted.remove(&(topic_id, folder.index)) } else { None };
            match (partition, path) {
                (Some(partition), Some(path)) => {
                    plan.keep(disk, &folder, partition, &path)?;
                    plan.rename.push((folder.path, path));
                }
                _ if names_deletion(&folder.path) => plan.remove_folders.push(folder.path),
                _ => plan.foreign.push(folder.path),
            }
        }
        for key in wanted.into_keys() {
            let path = right_path(key.0, key.1).unwrap_or_else(|| directory.to_owned());
            // It is ours by its name; what it holds stays, and is not called somebody else's.
            let has_folder = plan.foreign.contains(&path);
            plan.foreign.retain(|foreign| *foreign != path);
            let what = "the partition's folder, or its partition.metadata, is missing".to_owned();
            plan.damaged.insert(key, Found { damage: Arc::new(Damage { path, position: 0, what }), has_folder });
        }
        Ok(plan)
    }

    /// A folder that does not say of which topic it is: power was lost before that was durable, or it is somebody
    /// else's.
    fn sort_unnamed(
        &mut self,
        folder: Folder,
        names: &BTreeMap<TopicId, &Topic>,
        contents: &Contents,
        directory: &Path,
    ) {
        let topics = names.values().map(|topic| &topic.name).chain(contents.made.values());
        let is_named_right = topics
            .map(|name| directory.join(TopicPartition::new(name.clone(), folder.index).to_string()))
            .any(|path| path == folder.path);
        match folder.metadata {
            _ if names_deletion(&folder.path) => self.remove_folders.push(folder.path),
            Metadata::Unfinished if is_named_right => self.clear_folders.push(folder.path),
            Metadata::Unfinished | Metadata::Missing | Metadata::Topic(_) => self.foreign.push(folder.path),
        }
    }

    /// Plans to keep a partition's folder. If its files are damaged nothing is cut, and nothing removed but what is in the
    /// journal and will be written again. `path` is the folder's right name.
    fn keep<D: Disk>(
        &mut self,
        disk: &D,
        folder: &Folder,
        partition: &PartitionCheckpoint,
        path: &Path,
    ) -> Result<(), OpenError> {
        let mut kept = Self::default();
        let damage = match kept.examine(disk, folder, partition, path) {
            Ok(()) => None,
            Err(OpenError::Corrupt { path, position, what }) => Some(Arc::new(Damage { path, position, what })),
            Err(error) => return Err(error),
        };
        self.swap.append(&mut kept.swap);
        let Some(damage) = damage else {
            self.cut.append(&mut kept.cut);
            self.remove_files.append(&mut kept.remove_files);
            self.lost_aborted.append(&mut kept.lost_aborted);
            self.indexed.append(&mut kept.indexed);
            return Ok(());
        };
        for name in &folder.names {
            let parsed = name.to_str().and_then(parse_file_name);
            if parsed.is_some_and(|(base_offset, _)| base_offset >= partition.end_offset) {
                self.remove_files.push(path.join(name));
            }
        }
        self.damaged.insert((partition.topic_id, partition.index), Found { damage, has_folder: true });
        Ok(())
    }

    /// Checks what the checkpoint vouches for, and plans to cut the rest.
    fn examine<D: Disk>(
        &mut self,
        disk: &D,
        folder: &Folder,
        partition: &PartitionCheckpoint,
        path: &Path,
    ) -> Result<(), OpenError> {
        let key = (partition.topic_id, partition.index);
        let mut found = Vec::new();
        for segment in &partition.segments {
            let mut swapped = |extension: &str| {
                let swap = segment.swap.map(|swap| swap_path(Path::new(""), segment.base_offset, extension, swap));
                match swap.filter(|swap| folder.names.contains(swap)) {
                    Some(swap) => {
                        let to = file_path(path, segment.base_offset, extension);
                        self.swap.push(Swap { from: path.join(&swap), to });
                        folder.path.join(swap)
                    }
                    None => file_path(&folder.path, segment.base_offset, extension),
                }
            };
            found.push((segment, swapped("log"), swapped("txnindex")));
        }
        // Only now: what takes its right name does so whatever is damaged elsewhere.
        for (segment, log, txnindex) in found {
            self.check_file(disk, &log, file_path(path, segment.base_offset, "log"), key, segment.log_bytes)?;
            if segment.aborted_bytes > 0 {
                let name = file_path(path, segment.base_offset, "txnindex");
                match self.check_file(disk, &txnindex, name, key, segment.aborted_bytes) {
                    Ok(()) => {}
                    // The markers tell what it said.
                    Err(OpenError::Corrupt { .. }) => {
                        self.lost_aborted.entry(key).or_default().insert(segment.base_offset);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        for name in &folder.names {
            let Some((base_offset, extension)) = name.to_str().and_then(parse_file_name) else { continue };
            let is_of = |segment: &SegmentCheckpoint| segment.base_offset == base_offset;
            let is_named = match extension {
                "log" => partition.segments.iter().any(is_of),
                "txnindex" => partition.segments.iter().any(|segment| is_of(segment) && segment.aborted_bytes > 0),
                // Of the last segment, which is written to, there are none yet.
                "index" | "timeindex" => {
                    let complete = partition.segments.iter().rev().skip(1);
                    let is_named = complete.into_iter().any(is_of);
                    let index = file_path(Path::new(""), base_offset, "index");
                    if is_named && extension == "timeindex" && folder.names.contains(&index) {
                        self.indexed.entry(key).or_default().insert(base_offset);
                    }
                    is_named
                }
                _ => !is_unfinished(extension) || self.swap.iter().any(|swap| swap.from == path.join(name)),
            };
            if !is_named {
                self.remove_files.push(path.join(name));
            }
        }
        Ok(())
    }

    /// Looks at a file that the checkpoint vouches for; `name` is what it will be called.
    fn check_file<D: Disk>(
        &mut self,
        disk: &D,
        path: &Path,
        name: PathBuf,
        key: (TopicId, PartitionIndex),
        bytes: u64,
    ) -> Result<(), OpenError> {
        let length = match disk.open(path).and_then(|file| file.length()) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::corrupt(path, 0, "the file is missing"));
            }
            Err(error) => return Err(OpenError::disk("opening", path, &error)),
        };
        if length < bytes {
            return Err(OpenError::corrupt(
                path,
                length,
                format!("the file ends here, and the checkpoint vouches for {bytes} bytes"),
            ));
        }
        if length > bytes {
            self.cut.push(Cut { key, path: name, length: bytes });
        }
        Ok(())
    }

    fn execute<D: Disk>(&self, disk: &D, directory: &Path) -> Result<(), OpenError> {
        for path in &self.remove_folders {
            disk.remove_directory(path).map_err(|error| OpenError::disk("removing", path, &error))?;
        }
        for path in &self.clear_folders {
            // With nothing else in it, it is made anew when there is something to write.
            if remove_log_files(disk, path).map_err(|error| OpenError::disk("clearing", path, &error))? {
                disk.remove_directory(path).map_err(|error| OpenError::disk("removing", path, &error))?;
            }
        }
        for (from, to) in &self.rename {
            set_aside(disk, to).map_err(|error| OpenError::disk("setting aside", to, &error))?;
            disk.rename(from, to).map_err(|error| OpenError::disk("renaming", from, &error))?;
        }
        for path in &self.remove_files {
            disk.remove_file(path).map_err(|error| OpenError::disk("removing", path, &error))?;
        }
        for Swap { from, to } in &self.swap {
            disk.rename(from, to).map_err(|error| OpenError::disk("renaming", from, &error))?;
        }
        disk.sync_directory(directory).map_err(|error| OpenError::disk("syncing", directory, &error))
    }

    /// Makes the storage what the checkpoint says, and cuts the files.
    fn load<D: Disk>(
        mut self,
        storage: &mut Storage<D>,
        checkpoint: Checkpoint,
        dead: &BTreeSet<TopicId>,
    ) -> Result<(), OpenError> {
        storage.catalog.set_next_producer_id(checkpoint.next_producer_id);
        let mut partitions: BTreeMap<(TopicId, PartitionIndex), PartitionCheckpoint> = checkpoint
            .partitions
            .into_iter()
            .map(|partition| ((partition.topic_id, partition.index), partition))
            .collect();
        for topic in checkpoint.topics.into_iter().filter(|topic| !dead.contains(&topic.id)) {
            for index in 0..topic.partitions {
                let partition = partitions.remove(&(topic.id, index)).ok_or_else(|| {
                    let path = storage.config.directory.join(CHECKPOINT_FILE);
                    OpenError::corrupt(&path, 0, format!("it has no partition {index} of topic {}", topic.name))
                })?;
                let damaged = self.damaged.remove(&(topic.id, index));
                let indexed = self.indexed.remove(&(topic.id, index)).unwrap_or_default();
                load_partition(storage, &topic, partition, damaged, &indexed);
            }
            storage.catalog.insert(topic);
        }
        let disk = Arc::clone(&storage.shared.disk);
        for cut in self.cut {
            let file = disk.open(&cut.path).map_err(|error| OpenError::disk("opening", &cut.path, &error))?;
            file.set_length(cut.length).map_err(|error| OpenError::disk("cutting", &cut.path, &error))?;
            if let Some(slot) = storage.slot_by_id(cut.key.0, cut.key.1)
                && let Some(partition) = storage.partition_mut(slot)
            {
                partition.files.note_unsynced(cut.path, file);
                partition.files.note_folder_unsynced();
            }
        }
        for ((topic_id, index), base_offsets) in self.lost_aborted {
            if let Some(slot) = storage.slot_by_id(topic_id, index)
                && let Some(partition) = storage.slots.get_mut(slot).and_then(Option::as_mut)
            {
                partition.rebuild_aborted(&base_offsets, &storage.shared);
            }
        }
        Ok(())
    }
}

fn load_partition<D: Disk>(
    storage: &mut Storage<D>,
    topic: &Topic,
    partition: PartitionCheckpoint,
    damaged: Option<Found>,
    indexed: &BTreeSet<Offset>,
) {
    let name = TopicPartition::new(topic.name.clone(), partition.index);
    let folder = storage.config.directory.join(name.to_string());
    let settings = Settings::in_storage(topic, &storage.config);
    let segments: Vec<SegmentFiles> = partition
        .segments
        .iter()
        .map(|segment| {
            let path = file_path(&folder, segment.base_offset, "log");
            let number = storage.shared.next_segment();
            let found = Segment::new(number, segment.base_offset, path, segment.log_bytes);
            let mut stamps = segment.stamps;
            if stamps.max_timestamp_offset < 0
                && damaged.is_none()
                && let Ok(file) = storage.shared.disk.open(&found.path)
            {
                // Before version 3 of the checkpoint nobody wrote them down. Of an empty segment there are none.
                let _ = found.for_each_header(&file, |_, header| {
                    stamps.note(header.max_timestamp, header.last_offset());
                });
            }
            if stamps.max_timestamp_offset >= 0 {
                found.set_max_timestamp(stamps.max_timestamp);
            }
            if indexed.contains(&segment.base_offset) {
                found.set_has_index_files();
            }
            found.set_aborted_bytes(segment.aborted_bytes);
            SegmentFiles { segment: Arc::new(found), stamps, swap: None }
        })
        .collect();
    let found = FoundFiles {
        written_end: partition.end_offset,
        cleaned_end: partition.cleaned_end,
        last_swap: partition.last_swap,
        has_folder: damaged.as_ref().map_or(!segments.is_empty(), |found| found.has_folder),
        damage: damaged.map(|found| found.damage),
        segments,
    };
    // Whoever renamed them, we or the run that ended: the next checkpoint names them by their right names, and these must
    // be durable by then.
    let has_swaps = partition.segments.iter().any(|segment| segment.swap.is_some());
    let mut log = Partition::with_files(
        name,
        topic.id,
        folder,
        settings,
        &storage.shared,
        found,
        partition.producers,
        partition.log_start_offset,
    );
    if has_swaps {
        log.files.note_folder_unsynced();
    }
    storage.add_log(log);
}

/// Applies one group again, through the same functions that staged it.
fn replay<D: Disk>(
    storage: &mut Storage<D>,
    dead: &BTreeSet<TopicId>,
    path: &Path,
    place: Place,
    payload: Bytes,
) -> Result<(), OpenError> {
    for_each_entry(path, place, &payload, |entry, end| {
        let topic_id = match &entry {
            Entry::Batch { topic_id, .. }
            | Entry::TopicDeleted { topic_id }
            | Entry::PartitionsAdded { topic_id, .. }
            | Entry::ConfigAltered { topic_id, .. }
            | Entry::LogStartMoved { topic_id, .. } => Some(*topic_id),
            Entry::TopicCreated(topic) => Some(topic.id),
            Entry::ProducerIdsReserved { .. } => None,
        };
        if topic_id.is_some_and(|id| dead.contains(&id)) {
            return Ok(());
        }
        match entry {
            Entry::Batch { topic_id, partition, batch } => {
                let range = GroupRange { group: 0, start: end - batch.len(), end };
                replay_batch(storage, topic_id, partition, batch, range)
                    .map_err(|what| OpenError::corrupt(path, place.offset, what))
            }
            Entry::TopicCreated(_)
            | Entry::TopicDeleted { .. }
            | Entry::PartitionsAdded { .. }
            | Entry::ConfigAltered { .. }
            | Entry::ProducerIdsReserved { .. }
            | Entry::LogStartMoved { .. } => {
                storage.apply(entry);
                Ok(())
            }
        }
    })?;
    storage.publish(&[payload])?;
    storage.after_publish()?;
    Ok(())
}

fn replay_batch<D: Disk>(
    storage: &mut Storage<D>,
    topic_id: TopicId,
    index: PartitionIndex,
    batch: &[u8],
    range: GroupRange,
) -> Result<(), String> {
    let header = BatchHeader::parse_whole(batch).map_err(|error| error.to_string())?;
    let slot = storage
        .slot_by_id(topic_id, index)
        .ok_or_else(|| format!("a batch for partition {index} of topic {topic_id}, which does not exist"))?;
    storage.touch(slot);
    let Some(partition) = storage.partition_mut(slot) else { return Ok(()) };
    if header.base_offset != partition.next_offset {
        return Err(format!(
            "{}: the journal has offset {} where {} should come",
            partition.name, header.base_offset, partition.next_offset
        ));
    }
    if header.is_control() {
        let marker = EndTransactionMarker::parse(batch).map_err(|error| error.to_string())?;
        partition.stage_marker(&header, marker, range);
    } else {
        partition.stage_batch(&header, range);
    }
    Ok(())
}

impl From<crate::files::FileError> for OpenError {
    fn from(error: crate::files::FileError) -> Self {
        Self::disk(error.operation, &error.path, &error.cause)
    }
}

impl From<crate::files::FileError> for JournalFailed {
    fn from(error: crate::files::FileError) -> Self {
        Self::new(error.operation, &error.path, &error.cause)
    }
}
