//! Measures a log with many aborted transactions: `cargo run --release -p atonce-log --example measure_aborted [FOLDER] [COUNT]`.
//!
//! One partition, segments of 4 MiB, a record of 100 bytes and a marker for each transaction; every tenth is committed. What
//! it takes to open the folder, to read all of it as a reader of committed data does, and how much memory is held then.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example that measures, on real files, against a real clock"
)]

mod files;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use atonce_kernel::{Outcome, ProducerIdentity, Sequence, Timestamp, TopicName, TopicPartition, Uuid};
use atonce_log::{
    Durability, IsolationLevel, Marker, Origin, Storage, StorageConfig, TransactionVersion, Verification,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView};

use files::Files;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
/// Producers that take turns.
const PRODUCERS: i64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(|| std::env::temp_dir().join("atonce-measure-aborted"), PathBuf::from);
    let count: i64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let _ = fs::remove_dir_all(&folder);
    write(&folder, count)?;
    let log = TopicPartition::new("t", 0);
    let began = Instant::now();
    let storage = open(&folder)?;
    println!("{count} transactions, nine of ten aborted; opened in {:.1} ms", ms(began));
    println!("memory: {} KiB", resident_kib());
    for bytes_max in [1 << 20, 16 << 10] {
        let began = Instant::now();
        let (mut offset, mut fetches, mut named) = (0, 0, 0);
        let reader = storage.reader(&log).ok_or("the partition is gone")?;
        while offset < reader.watermarks().last_stable_offset {
            let read = reader.read(offset, bytes_max, IsolationLevel::ReadCommitted)?;
            let last = read.batches.last().ok_or("nothing can be read")?;
            offset = BatchView::new(last)?.next_offset();
            named += read.aborted.map_or(0, |aborted| aborted.len());
            fetches += 1;
        }
        let took = ms(began);
        println!(
            "fetches of {bytes_max} bytes: {fetches} in {took:.1} ms, {:.3} ms each, {named} transactions named",
            took / f64::from(fetches)
        );
    }
    println!("memory: {} KiB", resident_kib());
    drop(storage);
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn open(folder: &Path) -> Result<Storage<Files>, Box<dyn Error>> {
    let mut config = StorageConfig::new(folder);
    config.durability = Durability::Os;
    config.segment_bytes = 4 << 20;
    config.tail_bytes_max = 1 << 20;
    Ok(Storage::open(Files, config)?.0)
}

fn write(folder: &Path, count: i64) -> Result<(), Box<dyn Error>> {
    let mut storage = open(folder)?;
    let log = TopicPartition::new("t", 0);
    storage.create_topic(&TopicName::from("t"), Uuid([1; 16]), 1, Default::default())?;
    let mut sequences = vec![0_i32; usize::try_from(PRODUCERS)?];
    for number in 0..count {
        let id = number % PRODUCERS;
        let producer = ProducerIdentity::new(id, 0);
        let sequence = &mut sequences[usize::try_from(id)?];
        let version = TransactionVersion::V1;
        let guard = match storage.start_verification(&log, producer, Sequence(*sequence), version, NOW) {
            Some(Verification::Needed(guard)) => Some(guard),
            Some(Verification::NotNeeded) | None => None,
        };
        let mut builder = BatchBuilder::with_capacity(256);
        builder.append(NOW.0, None, Some(&[b'x'; 100]), [])?;
        let options = BatchOptions {
            producer,
            base_sequence: Sequence(*sequence),
            is_transactional: true,
            ..BatchOptions::default()
        };
        storage.append(&log, &builder.finish(&options)?, Origin::Client { guard }, NOW)?;
        *sequence += 1;
        let outcome = if number % 10 == 0 { Outcome::Commit } else { Outcome::Abort };
        let marker = Marker { producer, outcome, coordinator_epoch: 0, version };
        storage.append_marker(&log, &marker, NOW)?;
        if number % 100 == 0 {
            storage.commit()?;
        }
    }
    storage.commit()?;
    storage.close()?;
    Ok(())
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// What the system says that this process holds in memory.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}
