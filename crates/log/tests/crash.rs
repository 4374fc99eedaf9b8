//! Every point at which a process can be killed or the power go: after each, recovery, and then everything is
//! compared with a model.
//!
//! What holds afterwards: the state is the one after some number of units, exactly: watermarks, values by both
//! isolations, topics, settings, producers with all five batches of their windows. That number is not below what was
//! acknowledged, and not above what was staged. So nothing acknowledged is lost or doubled or out of order, a unit (a
//! transaction's markers) is there whole or not at all, and what a reader saw it sees again.

mod support;

use std::collections::BTreeMap;

use atonce_kernel::Uuid;
use atonce_kernel::chance::Chance;
use atonce_kernel::disk::Disk;
use atonce_log::{Checkpointing, Durability, Origin, Storage, StorageConfig};
use atonce_protocol::records::batches;
use atonce_testkit::disk::{Crash, FaultyDisk};
use support::model::{LogSnapshot, Model, Run, Snapshot, Step, look, workload};
use support::*;

fn small() -> StorageConfig {
    let mut config = config();
    config.journal_file_bytes = 16 << 10;
    config.journal_files_max = 3;
    config.tail_bytes_max = 12 << 10;
    config.segment_write_bytes = 1 << 10;
    config.write_behind_bytes = 4 << 10;
    config.unsynced_files_max = 3;
    config.reserve_bytes = 4 << 10;
    config.compaction_step_bytes = 300;
    config.key_map_bytes_max = 300;
    config.topic_defaults = [("file.delete.delay.ms".to_owned(), "3".to_owned())].into();
    config
}

/// What a run leaves when it stops: what may be found afterwards.
struct Left {
    history: Vec<Snapshot>,
    acknowledged: usize,
    is_finished: bool,
    compactions: usize,
    /// What readers saw last: topic id and high watermark of each partition.
    seen: BTreeMap<String, (Uuid, i64)>,
}

fn run(disk: &FaultyDisk, config: &StorageConfig, steps: &[Step]) -> Left {
    match Storage::open(disk.clone(), config.clone()) {
        Ok((storage, _)) => {
            let mut run = Run::new(storage, Model::default());
            let is_finished = run.all(steps).is_ok();
            let seen = seen(&run.storage);
            let compactions = run.compactions;
            Left { history: run.history, acknowledged: run.acknowledged, is_finished, compactions, seen }
        }
        Err(_) => Left {
            history: vec![Snapshot::default()],
            acknowledged: 0,
            is_finished: false,
            compactions: 0,
            seen: BTreeMap::new(),
        },
    }
}

fn seen(storage: &Storage<FaultyDisk>) -> BTreeMap<String, (Uuid, i64)> {
    let mut seen = BTreeMap::new();
    for topic in storage.catalog().topics() {
        for index in 0..topic.partitions {
            let partition = tp(topic.name.as_str(), index);
            let high_watermark = storage.reader(&partition).unwrap().watermarks().high_watermark;
            seen.insert(partition.to_string(), (topic.id, high_watermark));
        }
    }
    seen
}

/// What a reader saw, it sees again.
fn assert_seen_again(before: &BTreeMap<String, (Uuid, i64)>, storage: &Storage<FaultyDisk>, story: &str) {
    let after = seen(storage);
    for (name, (id, high_watermark)) in before {
        if let Some((found_id, found)) = after.get(name)
            && found_id == id
        {
            assert!(
                found >= high_watermark,
                "{story}: {name} was seen up to {high_watermark}, and is there up to {found}"
            );
        }
    }
}

/// Which states may be found.
fn allowed(left: &Left, durability: Durability, crash: Crash) -> std::ops::RangeInclusive<usize> {
    let last = left.history.len() - 1;
    match (durability, crash) {
        (Durability::Sync, Crash::Power | Crash::Process) | (Durability::Os, Crash::Process) => {
            left.acknowledged..=last
        }
        // A prefix of what was acknowledged.
        (Durability::Os, Crash::Power) => 0..=last,
    }
}

/// Recovers and compares; returns the number of units that are there.
fn recover_and_compare(
    disk: &FaultyDisk,
    config: &StorageConfig,
    history: &[Snapshot],
    allowed: std::ops::RangeInclusive<usize>,
    story: &str,
) -> (Storage<FaultyDisk>, usize) {
    let (storage, _) = Storage::open(disk.clone(), config.clone())
        .unwrap_or_else(|error| panic!("{story}: recovery refuses: {error}"));
    let found = look(&storage);
    // States may repeat (a unit that changes nothing visible): the last one that fits.
    let unit = history.iter().rposition(|snapshot| *snapshot == found);
    let Some(unit) = unit else {
        let nearest = history.get(*allowed.start()).unwrap();
        panic!(
            "{story}: no state of the run looks like what was found.\nfound: {found:#?}\nacknowledged: {nearest:#?}"
        );
    };
    let is_allowed = allowed.clone().any(|unit| history[unit] == found);
    assert!(is_allowed, "{story}: the state after unit {unit} was found, {allowed:?} are allowed");
    (storage, unit)
}

/// A longer look: `ATONCE_SEEDS=20 ATONCE_WORKLOAD=7000 cargo test -p atonce-log --test crash` takes that many
/// crashes of each point, in other workloads than usual.
fn seeds(usual: u64) -> u64 {
    setting("ATONCE_SEEDS").unwrap_or(usual)
}

fn other_workload(usual: u64) -> u64 {
    setting("ATONCE_WORKLOAD").unwrap_or(0) + usual
}

#[expect(clippy::disallowed_methods, reason = "a test may be told how long to look")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

struct Kind {
    crash: Crash,
    durability: Durability,
    checkpointing: Checkpointing,
    seeds: u64,
}

fn every_crash_point(kind: &Kind, workload_seed: u64, units: u64) {
    let workload_seed = other_workload(workload_seed);
    let steps = workload(workload_seed, units);
    let mut config = small();
    config.durability = kind.durability;
    config.checkpointing = kind.checkpointing;
    let points = {
        let disk = FaultyDisk::new();
        let left = run(&disk, &config, &steps);
        assert!(left.is_finished, "the workload runs through when nothing fails");
        assert!(left.compactions > 0, "workload {workload_seed} compacts nothing");
        disk.points()
    };
    assert!(points > units, "{points} points for {units} units");
    for point in 1..=points {
        for seed in 0..seeds(kind.seeds) {
            let story = format!(
                "workload {workload_seed}, {:?}, {:?}, stopped at point {point} of {points}, seed {seed}",
                kind.durability, kind.crash
            );
            let mut chance = Chance::from_seed(seed * 1_000_003 + point);
            let disk = FaultyDisk::new();
            disk.stop_at(point);
            let left = run(&disk, &config, &steps);
            assert!(disk.is_stopped(), "{story}: it did not get there");
            let allowed = allowed(&left, kind.durability, kind.crash);
            let mut disk = disk.restart(kind.crash, &mut chance);

            // Sometimes recovery is interrupted as well, and more than once. An interrupted one has answered nobody.
            while chance.one_in(1, 2) {
                disk.stop_at(1 + chance.below(40));
                drop(Storage::open(disk.clone(), config.clone()));
                disk = disk.restart(kind.crash, &mut chance);
            }

            let (storage, unit) = recover_and_compare(&disk, &config, &left.history, allowed, &story);
            if kind.durability == Durability::Sync || kind.crash == Crash::Process {
                assert_seen_again(&left.seen, &storage, &story);
            }
            drop(storage);

            // Once recovery has answered, all of it is durable, and a second one finds the same.
            for crash in [Crash::Process, Crash::Power] {
                disk = disk.restart(crash, &mut chance);
                let (mut storage, again) = recover_and_compare(&disk, &config, &left.history, unit..=unit, &story);
                assert_segments_are_kafkas(&disk, kind.crash, &left.history[unit], &story);
                assert_eq!(again, unit, "{story}: recovered twice");
                assert_duplicates_are_known(&mut storage, &left.history[unit], &story);
            }
        }
    }
}

/// Whatever happened before, a recovery leaves segments as Kafka's own tools read them: whole batches, one after the
/// other, and nothing else. And nothing is left of topics that are gone, but for folders of which power loss has taken
/// what says that they are ours: these stay, and are set aside when there is something to write.
fn assert_segments_are_kafkas(disk: &FaultyDisk, crash: Crash, snapshot: &Snapshot, story: &str) {
    for folder_name in disk.list(folder()).unwrap() {
        let path = folder().join(&folder_name);
        let name = folder_name.to_str().unwrap();
        let is_of_ours = !name.contains('-') || name == "clean-shutdown" || snapshot.logs.contains_key(name);
        let has_data = snapshot.logs.get(name).is_some_and(|log| *log != LogSnapshot::default());
        if crash == Crash::Power && !has_data && !name.ends_with("-delete") {
            continue;
        }
        assert!(is_of_ours, "{story}: {name} belongs to no topic");
        let mut next_offset = None;
        for name in disk.list(&path).unwrap_or_default() {
            if name.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let bytes = disk.bytes(&path.join(&name)).unwrap();
            let mut all = batches(&bytes);
            for batch in all.by_ref() {
                let batch =
                    batch.unwrap_or_else(|error| panic!("{story}: {}/{}: {error}", path.display(), name.display()));
                batch.validate().unwrap();
                let expected = next_offset.unwrap_or(batch.base_offset());
                let follows = if folder_name.to_str() == Some("k-0") {
                    batch.base_offset() >= expected
                } else {
                    batch.base_offset() == expected
                };
                assert!(follows, "{story}: {}: {} after {expected}", path.display(), batch.base_offset());
                next_offset = Some(batch.next_offset());
            }
            assert_eq!(all.torn_bytes(), 0, "{story}: {}/{}", path.display(), name.display());
        }
    }
}

/// Sends every batch of every window of the plain idempotent producer again.
fn assert_duplicates_are_known(storage: &mut Storage<FaultyDisk>, snapshot: &Snapshot, story: &str) {
    for (name, log) in &snapshot.logs {
        let (topic, index) = name.rsplit_once('-').unwrap();
        let partition = tp(topic, index.parse().unwrap());
        for producer in log.producers.iter().filter(|producer| producer.id == 7) {
            for (base, last, offset) in &producer.window {
                let values = vec!["again"; (last - base + 1) as usize];
                let identity = atonce_kernel::ProducerIdentity::new(producer.id, producer.epoch);
                let bytes = batch(identity, *base, false, &values);
                let appended = storage.append(&partition, &bytes, Origin::CLIENT, NOW).unwrap();
                assert!(appended.duplicate && appended.base_offset == *offset, "{story}: {name}, sequence {base}");
            }
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_at_any_point() {
    for workload_seed in 0..2 {
        let kind = Kind {
            crash: Crash::Process,
            durability: Durability::Sync,
            checkpointing: Checkpointing::Inline,
            seeds: 1,
        };
        every_crash_point(&kind, workload_seed, 60);
    }
}

#[test]
fn power_loss_loses_nothing_that_was_acknowledged_at_any_point() {
    for workload_seed in 10..12 {
        let kind =
            Kind { crash: Crash::Power, durability: Durability::Sync, checkpointing: Checkpointing::Inline, seeds: 2 };
        every_crash_point(&kind, workload_seed, 60);
    }
}

#[test]
fn power_loss_during_checkpoints_that_run_beside_the_writer_loses_nothing() {
    let kind =
        Kind { crash: Crash::Power, durability: Durability::Sync, checkpointing: Checkpointing::ByCaller, seeds: 2 };
    for workload_seed in 20..22 {
        every_crash_point(&kind, workload_seed, 60);
    }
}

/// Deletions and new topics of the same name, while a checkpoint of before runs: many workloads, each to its end.
#[test]
fn a_checkpoint_that_runs_while_topics_come_and_go_takes_nothing_with_it() {
    let mut config = small();
    config.checkpointing = Checkpointing::ByCaller;
    for workload_seed in 100..160 {
        let workload_seed = other_workload(workload_seed);
        let steps = workload(workload_seed, 150);
        let disk = FaultyDisk::new();
        let left = run(&disk, &config, &steps);
        let story = format!("workload {workload_seed}");
        assert!(left.is_finished, "{story}: the storage stopped");
        let disk = disk.restart(Crash::Process, &mut Chance::from_seed(workload_seed));
        let last = left.history.len() - 1;
        recover_and_compare(&disk, &config, &left.history, last..=last, &story);
    }
}

#[test]
fn without_syncs_a_killed_process_loses_nothing_at_any_point() {
    let kind =
        Kind { crash: Crash::Process, durability: Durability::Os, checkpointing: Checkpointing::Inline, seeds: 1 };
    every_crash_point(&kind, 30, 60);
}

#[test]
fn without_syncs_power_loss_leaves_a_prefix() {
    let kind = Kind { crash: Crash::Power, durability: Durability::Os, checkpointing: Checkpointing::Inline, seeds: 2 };
    every_crash_point(&kind, 40, 60);
}

/// The trap: after a sync that failed, the pages read well, and the next sync says success.
#[test]
fn after_a_sync_that_failed_recovery_does_not_believe_pages_that_read_well() {
    let steps = workload(other_workload(50), 60);
    let config = small();
    let syncs = {
        let disk = FaultyDisk::new();
        run(&disk, &config, &steps);
        disk.syncs()
    };
    for (sync, first) in (1..=syncs).flat_map(|sync| [(sync, Crash::Process), (sync, Crash::Power)]) {
        for seed in 0..seeds(1) {
            let story = format!("sync {sync} of {syncs} failed, then {first:?}, seed {seed}");
            let mut chance = Chance::from_seed(seed * 7919 + sync);
            let disk = FaultyDisk::new();
            disk.fail_sync_at(sync);
            let left = run(&disk, &config, &steps);
            let disk = disk.restart(first, &mut chance);
            let allowed = allowed(&left, Durability::Sync, first);
            let (storage, unit) = recover_and_compare(&disk, &config, &left.history, allowed, &story);
            drop(storage);
            let disk = disk.restart(Crash::Power, &mut chance);
            recover_and_compare(&disk, &config, &left.history, unit..=unit, &story);
        }
    }
}

/// A unit larger than what would otherwise end a group, in a commit with others.
#[test]
fn a_unit_of_many_blocks_is_there_whole_or_not_at_all() {
    let run = |disk: &FaultyDisk| -> Option<()> {
        let (mut storage, _) = Storage::open(disk.clone(), config()).ok()?;
        storage.create_topic(&"t".into(), topic_id(1), 5, BTreeMap::new()).ok()?;
        storage.commit().ok()?;
        let value = "x".repeat(7000);
        append(&mut storage, &tp("t", 0), &plain(&["before"])).ok()?;
        storage.begin_unit();
        for partition in 0..5 {
            append(&mut storage, &tp("t", partition), &plain(&[value.as_str()])).ok()?;
        }
        storage.end_unit();
        storage.commit().ok()?;
        Some(())
    };
    let whole = FaultyDisk::new();
    run(&whole).unwrap();
    for point in 1..=whole.points() {
        for seed in 0..20 {
            let disk = FaultyDisk::new();
            disk.stop_at(point);
            run(&disk);
            let crash = if seed == 0 { Crash::Process } else { Crash::Power };
            let disk = disk.restart(crash, &mut Chance::from_seed(seed * 1000 + point));
            let (storage, _) = open(&disk);
            if storage.catalog().topics().next().is_none() {
                continue;
            }
            let large = |partition| committed(&storage, &tp("t", partition)).iter().any(|(_, text)| text.len() == 7000);
            let found = (0..5).filter(|partition| large(*partition)).count();
            assert!(found == 0 || found == 5, "point {point}, seed {seed}: {found} of 5 partitions");
        }
    }
}
