//! `atonce broker check` and `atonce broker salvage`: a data folder that no broker uses at the moment.

use std::path::{Path, PathBuf};

use atonce_broker::data_folder::{self, Damage, DataFolderError, FolderCheck, PartitionCheck};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{say, table};

/// What is done with the folder.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Reads all of a stopped broker's folder, and says what is there and what is damaged.
    ///
    /// Nothing is written. The exit status is 1 if something is damaged.
    Check {
        #[command(flatten)]
        folder: Folder,
        /// A line of JSON instead of tables.
        #[arg(long)]
        json: bool,
    },
    /// Brings damaged partitions of a stopped broker back, with every batch that is whole.
    ///
    /// Without --yes it only says what would be kept and what lost. What is lost is lost for good: copy the folder before.
    Salvage {
        #[command(flatten)]
        folder: Folder,
        /// Do it.
        #[arg(long)]
        yes: bool,
    },
}

/// Which folder.
#[derive(Debug, Args)]
pub(crate) struct Folder {
    /// The broker's data folder.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Runs one of the verbs.
pub(crate) fn run(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Check { folder, json } => check(&folder.data_dir, *json),
        Verb::Salvage { folder, yes } => salvage(&folder.data_dir, *yes),
    }
}

fn check(folder: &Path, json: bool) -> Result<(), Failure> {
    let found = look(folder)?;
    if json {
        say(in_json(&found))?;
    } else {
        show(&found)?;
    }
    if found.is_whole() {
        return Ok(());
    }
    let next = "put the files back from a copy, or see what could be kept: atonce broker salvage --data-dir …";
    Err(Failure::new(format!("{} is damaged", folder.display()), next))
}

fn salvage(folder: &Path, yes: bool) -> Result<(), Failure> {
    let found = look(folder)?;
    if found.is_whole() {
        return say("nothing is damaged: there is nothing to salvage");
    }
    show(&found)?;
    if found.journal.damage.is_some() {
        say("The journal would be cut before its damage: what was acknowledged behind it would be lost.")?;
    }
    if !yes {
        return say("Nothing was changed. Copy the folder, then say --yes to keep what is whole, and lose the rest.");
    }
    let report = data_folder::salvage(folder).map_err(|error| refused("cannot salvage", folder, error))?;
    for partition in &report.partitions {
        let lost = partition.damages.len();
        let (name, kept) = (&partition.partition, partition.offsets_kept);
        say(format!("{name}: {kept} offsets kept; lost what stood at {lost} places"))?;
    }
    if report.is_journal_cut {
        say("the journal was cut before its damage")?;
    }
    say("The broker may be started on it again.")
}

fn look(folder: &Path) -> Result<FolderCheck, Failure> {
    data_folder::check(folder).map_err(|error| refused("cannot look at", folder, error))
}

fn refused(what: &str, folder: &Path, error: DataFolderError) -> Failure {
    let next = match &error {
        DataFolderError::Nothing(_) => "name the folder that the broker was given with --data-dir",
        DataFolderError::InUse(_) => "stop that broker first: it writes while we would read",
        _ => "see the cause above; nothing was changed",
    };
    Failure::caused(format!("{what} {}", folder.display()), error, next)
}

fn show(found: &FolderCheck) -> Result<(), Failure> {
    say(format!("format version {}, durability {}", found.format_version, durability(found)))?;
    let journal = &found.journal;
    say(format!(
        "journal: {} files, {} entries in {} groups beyond the checkpoint",
        journal.files, journal.entries, journal.groups
    ))?;
    if let Some(torn) = &journal.torn_tail {
        let (path, position) = (torn.path.display(), torn.position);
        say(format!(
            "journal: a write that was not finished at {position} in {path}; nobody was told that it was there"
        ))?;
    }
    let mut rows = table(&["partition", "offsets", "segments", "bytes", "records", "damage"]);
    for partition in &found.partitions {
        rows.add_row([
            partition.partition.to_string(),
            format!("{} to {}", partition.log_start_offset, partition.end_offset),
            partition.segments.to_string(),
            partition.bytes.to_string(),
            partition.records.to_string(),
            if partition.damages.is_empty() { "-".to_owned() } else { partition.damages.len().to_string() },
        ]);
    }
    if !found.partitions.is_empty() {
        say(rows)?;
    }
    let damages = journal.damage.iter().chain(found.partitions.iter().flat_map(|partition| &partition.damages));
    for damage in damages {
        say(format!("damaged: {damage}"))?;
    }
    for foreign in &found.foreign_folders {
        say(format!("of no topic here: {}", foreign.display()))?;
    }
    Ok(())
}

fn durability(found: &FolderCheck) -> &'static str {
    match found.durability {
        atonce_broker::Durability::Sync => "sync",
        atonce_broker::Durability::Os => "os",
    }
}

fn in_json(found: &FolderCheck) -> Value {
    let damage = |damage: &Damage| json!({ "file": damage.path.display().to_string(), "offset": damage.position, "what": damage.what });
    let partition = |partition: &PartitionCheck| {
        json!({
            "partition": partition.partition.to_string(),
            "log_start_offset": partition.log_start_offset,
            "end_offset": partition.end_offset,
            "segments": partition.segments,
            "bytes": partition.bytes,
            "batches": partition.batches,
            "records": partition.records,
            "damages": partition.damages.iter().map(damage).collect::<Vec<_>>(),
        })
    };
    json!({
        "format_version": found.format_version,
        "durability": durability(found),
        "is_whole": found.is_whole(),
        "journal": {
            "files": found.journal.files,
            "groups": found.journal.groups,
            "entries": found.journal.entries,
            "is_torn": found.journal.torn_tail.is_some(),
            "damage": found.journal.damage.as_ref().map(damage),
        },
        "partitions": found.partitions.iter().map(partition).collect::<Vec<_>>(),
        "foreign_folders": found.foreign_folders.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
    })
}
