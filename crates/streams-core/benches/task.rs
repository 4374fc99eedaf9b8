//! Nanoseconds per word of a word count's two halves, without any cluster: what a task costs on one core.
//!
//! `cargo bench -p atonce-streams-core`. The best of several rounds: what the code costs, not what the machine was doing.

#![allow(clippy::print_stdout, missing_docs, reason = "a bench talks to its user")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench needs a clock")]

use std::collections::BTreeMap;
use std::time::Instant;

use atonce_kernel::{Timestamp, TopicPartition};
use atonce_streams_core::store::MemoryStore;
use atonce_streams_core::topology::Surroundings;
use atonce_streams_core::{Guarantee, SourceRecord, StateStore, Task, TaskId, TopologyBuilder, store};
use bytes::Bytes;

const WORDS: usize = 200_000;
const WORDS_PER_LINE: usize = 10;
/// Words of one commit: 100 ms of work or so.
const INTERVAL: usize = 20_000;

fn main() {
    let builder = TopologyBuilder::new();
    builder
        .stream::<Option<Bytes>, String>("lines")
        .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .to("word-counts");
    let topology = builder.build().expect("works");
    let partitions = BTreeMap::from([("counts-repartition".into(), 4), ("word-counts".into(), 4)]);
    let surroundings = Surroundings { partitions, ..Surroundings::default() };
    let task = |subtopology| {
        let id = TaskId { subtopology, partition: 0 };
        let engines = Task::stores_of(&topology, id, &surroundings);
        let engines =
            engines.into_iter().map(|store| (store.name, Box::<MemoryStore>::default() as Box<dyn StateStore>));
        Task::new(&topology, id, surroundings.clone(), engines.collect())
    };
    for (name, distinct) in [("1,000 distinct words", 1_000_u64), ("100,000 distinct words", 100_000)] {
        let words: Vec<Bytes> = words(distinct);
        let lines = words.chunks(WORDS_PER_LINE).map(|words| {
            let words: Vec<&str> = words.iter().map(|word| std::str::from_utf8(word).expect("ASCII")).collect();
            (None, Bytes::from(words.join(" ")))
        });
        let lines: Vec<(Option<Bytes>, Bytes)> = lines.collect();
        let words: Vec<(Option<Bytes>, Bytes)> = words.iter().map(|word| (Some(word.clone()), word.clone())).collect();
        println!("{name}");
        run("  lines to words, to the repartition topic", &lines, INTERVAL / WORDS_PER_LINE, "lines", || task(0));
        run("  words to counts, with store and change log", &words, INTERVAL, "counts-repartition", || task(1));
    }
}

/// Common ones often, rare ones seldom, as in a language.
fn words(distinct: u64) -> Vec<Bytes> {
    let mut state = 42_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % distinct
    };
    (0..WORDS).map(|_| Bytes::from(format!("word{}", next().min(next()).min(next())))).collect()
}

fn run(name: &str, records: &[(Option<Bytes>, Bytes)], interval: usize, topic: &str, task: impl Fn() -> Task) {
    let topic_partition = TopicPartition::new(topic, 0);
    let mut best = u128::MAX;
    let (mut outputs, mut changes) = (0, 0);
    for _ in 0..5 {
        let mut task = task();
        (outputs, changes) = (0, 0);
        let mut offset = 0;
        let started = Instant::now();
        for chunk in records.chunks(interval) {
            let records = chunk.iter().zip(offset..).map(|((key, value), offset)| SourceRecord {
                offset,
                timestamp: Timestamp(offset),
                key: key.clone(),
                value: Some(value.clone()),
                headers: Vec::new(),
            });
            offset += chunk.len() as i64;
            task.add(&topic_partition, records.collect::<Vec<_>>(), offset);
            while task.process(1000).expect("processes") > 0 {
                outputs += task.take_outputs().len();
            }
            changes += task.changelog_records().len();
            task.committed(Timestamp(offset), Guarantee::ExactlyOnce, |_| None).expect("applies");
        }
        best = best.min(started.elapsed().as_nanos());
    }
    println!("{name}: {} ns a word ({outputs} records out, {changes} to the change log)", best / WORDS as u128);
}
