//! What is in a data folder, and what of it is damaged: every byte is read, and none is written.
//!
//! **What it does not know**: what is to be done about it. [`StorageConfig::salvage`](crate::StorageConfig::salvage) does it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use atonce_kernel::disk::Disk;
use atonce_kernel::{Offset, TopicId, TopicName, TopicPartition};

use crate::checkpoint::{Checkpoint, PartitionCheckpoint};
use crate::config::{Durability, TornTail};
use crate::error::{Damage, OpenError};
use crate::files::swap_path;
use crate::handles::SegmentNumber;
use crate::journal::{self, Tail, scan};
use crate::recovery::{Contents, Plan, check_files, check_start};
use crate::salvage::{Old, each_batch};
use crate::segment::file_path;
use crate::storage::JOURNAL_FOLDER;

/// What a data folder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderCheck {
    /// The version of the checkpoint's format, and so of the folder's.
    pub format_version: u8,
    /// Under which durability it was written last.
    pub durability: Durability,
    /// What the journal has beyond the checkpoint.
    pub journal: JournalCheck,
    /// Topics, as of the checkpoint.
    pub topics: usize,
    /// Partitions, as of the checkpoint.
    pub partitions: Vec<PartitionCheck>,
    /// Folders that are called like a partition's and are of none.
    pub foreign_folders: Vec<PathBuf>,
}

/// What a journal holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JournalCheck {
    /// Files that a start reads.
    pub files: usize,
    /// Whole groups in them.
    pub groups: u64,
    /// Entries in these.
    pub entries: u64,
    /// What was being written when the last run ended, and was acknowledged to nobody.
    pub torn_tail: Option<TornTail>,
    /// What was acknowledged once, and cannot be read any more. A start is refused.
    pub damage: Option<Damage>,
}

/// What a partition holds, as of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionCheck {
    /// Which.
    pub partition: TopicPartition,
    /// The first offset.
    pub log_start_offset: Offset,
    /// The offset after the last.
    pub end_offset: Offset,
    /// Segment files.
    pub segments: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// Whole batches.
    pub batches: u64,
    /// Records in these.
    pub records: u64,
    /// What is damaged; bytes behind each place up to the next whole batch. A start takes the partition offline if files are
    /// missing or cut, and otherwise serves what is whole.
    pub damages: Vec<Damage>,
}

impl FolderCheck {
    /// Whether all of it is as it was written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.journal.damage.is_none() && self.partitions.iter().all(|partition| partition.damages.is_empty())
    }
}

/// Looks at the data folder `directory`, of which nobody else may be making use. `journal_file_bytes` is the setting.
///
/// Errors: as of opening it, but for damage to journal and partitions, which is what is looked for.
pub fn check<D: Disk>(disk: &D, directory: &Path, journal_file_bytes: u64) -> Result<FolderCheck, OpenError> {
    let checkpoint = Checkpoint::read(disk, directory)?;
    let checkpoint = checkpoint.ok_or_else(|| OpenError::NoCheckpoint { path: directory.to_owned() })?;
    let mut contents = Contents::default();
    let journal = check_journal(disk, directory, &checkpoint, journal_file_bytes, &mut contents)?;
    let mut plan = Plan::choose(disk, directory, &checkpoint, &contents)?;
    let names: BTreeMap<TopicId, &TopicName> = checkpoint.topics.iter().map(|topic| (topic.id, &topic.name)).collect();
    let mut partitions = Vec::new();
    for partition in checkpoint.partitions.iter().filter(|it| !contents.dead.contains(&it.topic_id)) {
        let Some(name) = names.get(&partition.topic_id) else { continue };
        let name = TopicPartition::new((*name).clone(), partition.index);
        let known = plan.damaged.remove(&(partition.topic_id, partition.index));
        let known = known.map(|found| Damage::clone(&found.damage));
        partitions.push(check_partition(disk, directory, name, partition, known)?);
    }
    partitions.sort_by(|one, other| one.partition.cmp(&other.partition));
    Ok(FolderCheck {
        format_version: checkpoint.version,
        durability: checkpoint.durability,
        journal,
        topics: checkpoint.topics.len(),
        partitions,
        foreign_folders: plan.foreign,
    })
}

fn check_journal<D: Disk>(
    disk: &D,
    directory: &Path,
    checkpoint: &Checkpoint,
    journal_file_bytes: u64,
    contents: &mut Contents,
) -> Result<JournalCheck, OpenError> {
    let folder = directory.join(JOURNAL_FOLDER);
    let files = journal::files(disk, &folder)?;
    let start = checkpoint.place;
    let mut check = JournalCheck { files: files.range(start.file_number..).count(), ..JournalCheck::default() };
    let lengths = check_start(disk, &folder, &files, &start).and_then(|()| match checkpoint.journal_files {
        Some(expected) => check_files(disk, &folder, &files, &start, expected, journal_file_bytes),
        None => Ok(()),
    });
    check.damage = damage_of(lengths)?;
    let end = scan(disk, &files, start, |path, place, payload| contents.add(path, place, &payload));
    match end {
        Ok(end) => match end.tail {
            Tail::Clean => {}
            Tail::Torn { path, position, bytes } => check.torn_tail = Some(TornTail { path, position, bytes }),
            // What was found first is why the rest cannot be read.
            Tail::Damaged { path, position, what } => {
                check.damage.get_or_insert(Damage { path, position, what });
            }
        },
        Err(error) => {
            let found = damage_of(Err(error))?;
            check.damage = check.damage.or(found);
        }
    }
    (check.groups, check.entries) = (contents.groups, contents.entries);
    Ok(check)
}

fn damage_of(result: Result<(), OpenError>) -> Result<Option<Damage>, OpenError> {
    match result {
        Ok(()) => Ok(None),
        Err(OpenError::Corrupt { path, position, what }) => Ok(Some(Damage { path, position, what })),
        Err(error) => Err(error),
    }
}

fn check_partition<D: Disk>(
    disk: &D,
    directory: &Path,
    name: TopicPartition,
    partition: &PartitionCheckpoint,
    known: Option<Damage>,
) -> Result<PartitionCheck, OpenError> {
    let folder = directory.join(name.to_string());
    let mut check = PartitionCheck {
        partition: name,
        log_start_offset: partition.log_start_offset,
        end_offset: partition.end_offset,
        segments: partition.segments.len(),
        bytes: partition.segments.iter().map(|segment| segment.log_bytes).sum(),
        batches: 0,
        records: 0,
        damages: Vec::new(),
    };
    let ends = partition.segments.iter().skip(1).map(|segment| segment.base_offset);
    for (segment, end) in partition.segments.iter().zip(ends.chain([partition.end_offset])) {
        let swap = segment.swap.map(|swap| swap_path(&folder, segment.base_offset, "log", swap));
        let path = swap.filter(|path| disk.open(path).is_ok());
        let old = Old {
            number: SegmentNumber(0),
            path: path.unwrap_or_else(|| file_path(&folder, segment.base_offset, "log")),
            bytes: segment.log_bytes,
            base_offset: segment.base_offset,
            end,
        };
        check.damages.extend(each_batch(disk, &old, |header, _| {
            check.batches += 1;
            check.records += u64::try_from(header.records_count).unwrap_or(0);
        })?);
    }
    // Files missing or cut are found twice.
    let known = known.filter(|damage| check.damages.iter().all(|found| found.path != damage.path));
    check.damages.extend(known);
    Ok(check)
}
