//! Measures commits on a real folder: `cargo run --release -p atonce-log --example measure_commit [FOLDER] [SECONDS]`.
//!
//! A unit is what a transaction costs the log: a record of 100 bytes in each of its partitions and, when it ends, a
//! marker in each, and a coordinator's record with both. Two syncs then, one for the data and one for the end. Beside
//! it: one plain record, synced, and readers at the end and in old data.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example that measures, on real files, against a real clock"
)]

mod files;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use atonce_kernel::{Outcome, ProducerIdentity, Sequence, Timestamp, TopicName, TopicPartition, Uuid};
use atonce_log::{
    CheckpointDone, Checkpointing, Durability, IsolationLevel, Marker, Origin, Storage, StorageConfig,
    TransactionVersion, Verification,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions};
use bytes::Bytes;

use files::Files;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(|| std::env::temp_dir().join("atonce-measure-commit"), PathBuf::from);
    let seconds: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let duration = Duration::from_secs(seconds);
    for durability in [Durability::Sync, Durability::Os] {
        println!("{durability:?}, in {}", folder.display());
        println!("{:>12} {:>14} {:>10} {:>10} {:>10}", "partitions", "transactions/s", "p50 ms", "p99 ms", "max ms");
        for partitions in [1, 10, 100, 1000] {
            let (times, checkpoints) = transactions(&folder, durability, partitions, duration)?;
            print_row(partitions, &times);
            if checkpoints > 0 {
                println!("{:>12} {checkpoints} checkpoints beside it", "");
            }
        }
    }
    plain_records(&folder, duration)?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn open(folder: &Path, durability: Durability, partitions: i32) -> Result<Storage<Files>, Box<dyn Error>> {
    let _ = fs::remove_dir_all(folder);
    let mut config = StorageConfig::new(folder);
    config.durability = durability;
    config.checkpointing = Checkpointing::ByCaller;
    config.unsynced_files_max = 4000;
    let (mut storage, _) = Storage::open(Files, config)?;
    storage.create_topic(&TopicName::from("data"), Uuid([1; 16]), partitions, BTreeMap::new())?;
    storage.create_topic(&TopicName::from("state"), Uuid([2; 16]), 1, BTreeMap::new())?;
    storage.commit()?;
    Ok(storage)
}

/// Checkpoints beside the writer, as a broker makes them.
#[derive(Default)]
struct Background {
    running: Option<Receiver<CheckpointDone>>,
    count: usize,
}

impl Background {
    fn turn(&mut self, storage: &mut Storage<Files>) -> Result<(), Box<dyn Error>> {
        if let Some(running) = &self.running
            && let Ok(done) = running.try_recv()
        {
            storage.finish_checkpoint(done)?;
            self.running = None;
        }
        if self.running.is_none()
            && storage.is_checkpoint_due()
            && let Some(work) = storage.begin_checkpoint()?
        {
            let (sender, receiver) = channel();
            thread::spawn(move || {
                let _ = sender.send(work.run());
            });
            self.running = Some(receiver);
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&mut self, storage: &mut Storage<Files>) -> Result<(), Box<dyn Error>> {
        if let Some(running) = self.running.take() {
            storage.finish_checkpoint(running.recv()?)?;
        }
        Ok(())
    }
}

/// Whole transactions, one after the other, as one producer makes them.
fn transactions(
    folder: &Path,
    durability: Durability,
    partitions: i32,
    duration: Duration,
) -> Result<(Vec<Duration>, usize), Box<dyn Error>> {
    let mut background = Background::default();
    let mut storage = open(folder, durability, partitions)?;
    let state = TopicPartition::new("state", 0);
    let data: Vec<TopicPartition> = (0..partitions).map(|index| TopicPartition::new("data", index)).collect();
    let mut times = Vec::new();
    let (mut id, mut epoch) = (1, 0_i16);
    let start = Instant::now();
    while start.elapsed() < duration {
        let began = Instant::now();
        let producer = ProducerIdentity::new(id, epoch);
        storage.append(&state, &batch(ProducerIdentity::NONE, -1, false), Origin::COORDINATOR, NOW)?;
        let bytes = batch(producer, 0, true);
        for partition in &data {
            let version = TransactionVersion::V2;
            let guard = match storage.start_verification(partition, producer, Sequence(0), version, NOW) {
                Some(Verification::Needed(guard)) => Some(guard),
                Some(Verification::NotNeeded) | None => None,
            };
            storage.append(partition, &bytes, Origin::Client { guard }, NOW)?;
        }
        storage.commit()?;
        epoch += 1;
        let producer = ProducerIdentity::new(id, epoch);
        let marker =
            Marker { producer, outcome: Outcome::Commit, coordinator_epoch: 0, version: TransactionVersion::V2 };
        storage.begin_unit();
        storage.append(&state, &batch(ProducerIdentity::NONE, -1, false), Origin::COORDINATOR, NOW)?;
        for partition in &data {
            storage.append_marker(partition, &marker, NOW)?;
        }
        storage.append(&state, &batch(ProducerIdentity::NONE, -1, false), Origin::COORDINATOR, NOW)?;
        storage.end_unit();
        storage.commit()?;
        if epoch == 30_000 {
            (id, epoch) = (id + 1, 0);
        }
        background.turn(&mut storage)?;
        times.push(began.elapsed());
    }
    background.finish(&mut storage)?;
    storage.close()?;
    Ok((times, background.count))
}

/// Single records, each synced; then reading them all.
fn plain_records(folder: &Path, duration: Duration) -> Result<(), Box<dyn Error>> {
    let mut storage = open(folder, Durability::Sync, 1)?;
    let partition = TopicPartition::new("data", 0);
    let bytes = batch(ProducerIdentity::NONE, -1, false);
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < duration {
        let began = Instant::now();
        storage.append(&partition, &bytes, Origin::CLIENT, NOW)?;
        storage.commit()?;
        times.push(began.elapsed());
    }
    println!("one record of 100 bytes, synced");
    print_row(1, &times);

    // Large batches, sixteen to a commit.
    let mut background = Background::default();
    let large = large_batch();
    let mut appended = 0;
    let start = Instant::now();
    while start.elapsed() < duration {
        for _ in 0..16 {
            storage.append(&partition, &large, Origin::CLIENT, NOW)?;
            appended += large.len();
        }
        storage.commit()?;
        background.turn(&mut storage)?;
    }
    background.finish(&mut storage)?;
    let rate = appended as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("batches of {} bytes, 16 to a synced commit: {rate:.0} MB/s", large.len());

    let reader = storage.reader(&partition).ok_or("the partition is there")?;
    for pass in ["first pass, index built on the way", "second pass"] {
        let (mut offset, mut read_bytes) = (0, 0);
        let start = Instant::now();
        loop {
            let read = reader.read(offset, 1 << 20, IsolationLevel::ReadCommitted)?;
            let Some(last) = read.batches.last() else { break };
            read_bytes += read.bytes();
            offset = atonce_log::batch::BatchHeader::parse(last)?.next_offset();
        }
        let rate = read_bytes as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("reading {} MB from the start, {pass}: {rate:.0} MB/s", read_bytes / 1_000_000);
    }
    drop(storage);
    let mut config = StorageConfig::new(folder);
    config.durability = Durability::Sync;
    let start = Instant::now();
    let (_, report) = Storage::open(Files, config)?;
    println!("opening after a crash, {} groups replayed: {:?}", report.groups_replayed, start.elapsed());
    Ok(())
}

fn print_row(partitions: i32, times: &[Duration]) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: usize| sorted.get(sorted.len() * part / 1000).or(sorted.last()).copied().unwrap_or_default();
    let total: Duration = times.iter().sum();
    println!(
        "{partitions:>12} {:>14.0} {:>10.3} {:>10.3} {:>10.3}",
        times.len() as f64 / total.as_secs_f64(),
        at(500).as_secs_f64() * 1e3,
        at(990).as_secs_f64() * 1e3,
        at(1000).as_secs_f64() * 1e3,
    );
}

fn batch(producer: ProducerIdentity, sequence: i32, is_transactional: bool) -> Bytes {
    let mut builder = BatchBuilder::with_capacity(256);
    builder.append(NOW.0, Some(b"key"), Some(&[7; 100]), []).expect("it is small");
    let base_sequence = Sequence(sequence);
    let options = BatchOptions { producer, base_sequence, is_transactional, ..BatchOptions::default() };
    builder.finish(&options).expect("nothing is compressed")
}

fn large_batch() -> Bytes {
    let mut builder = BatchBuilder::with_capacity(64 << 10);
    for _ in 0..500 {
        builder.append(NOW.0, Some(b"key"), Some(&[7; 100]), []).expect("it is small");
    }
    builder.finish(&BatchOptions::default()).expect("nothing is compressed")
}
