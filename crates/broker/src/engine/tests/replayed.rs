//! What a start reads of the coordinators' logs.

use atonce_coordinator::group;
use atonce_coordinator::group::command::{OffsetCommit, OffsetToCommit};
use atonce_kernel::{TopicPartition, Uuid};
use atonce_log::Durability;

use super::super::{Engine, NewTopic, WakeUp};
use super::{engine_and_wake_ups, mpsc};

/// A group's offset, as a client without membership commits it.
fn commit_offset(engine: &mut Engine, group: &str, partition: i32, offset: i64) {
    let offsets = vec![OffsetToCommit {
        topic_partition: TopicPartition::new("t", partition),
        topic_id: Uuid::ZERO,
        offset,
        leader_epoch: -1,
        metadata: None,
    }];
    let command = group::Command::OffsetCommit(OffsetCommit {
        version: 8,
        group: group.into(),
        generation: -1,
        member: None,
        instance: None,
        retention_ms: None,
        offsets,
    });
    let partition = engine.group_partition(&group.into());
    let reply = engine.groups_now(partition, &command, None).expect("answered");
    assert!(matches!(reply, group::Reply::OffsetsCommitted(_)), "{reply:?}");
}

/// What the thread does between two pieces of work; checkpoints and compactions run to their end.
fn turn(engine: &mut Engine, wake_ups: &mpsc::Receiver<WakeUp>) {
    engine.now = engine.now.plus_ms(100);
    engine.do_what_is_due();
    engine.commit();
    loop {
        engine.begin_checkpoint_if_due();
        if engine.checkpoint.is_none() && engine.cleaning.is_idle() {
            return;
        }
        match wake_ups.recv().expect("it says when it is done") {
            WakeUp::Checkpointed(done) => engine.finish_checkpoint(done),
            WakeUp::SpareMade(done) => engine.finish_spare(done),
            WakeUp::Compacted(done) => engine.finish_compaction(done),
            WakeUp::Work(_) | WakeUp::Stop(_) => panic!("nobody asked"),
        }
    }
}

/// How long a start takes depends on how many offsets there are, and not on how often they were committed.
/// `ATONCE_OFFSETS=1000000` with `--nocapture` says how long that is.
#[test]
#[expect(clippy::print_stdout, reason = "whoever measures wants to see it")]
fn a_start_reads_each_committed_offset_a_few_times_at_most() {
    const KEYS: i64 = 1000;
    let commits: i64 = std::env::var("ATONCE_OFFSETS").ok().and_then(|text| text.parse().ok()).unwrap_or(12_000);
    let replayed = |is_compacted: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let given = [
            ("log.cleaner.enable", if is_compacted { "true" } else { "false" }),
            ("log.cleaner.backoff.ms", if commits > 100_000 { "15000" } else { "100" }),
        ];
        let (mut first, wake_ups) = engine_and_wake_ups(folder.path(), Durability::Os, 1, &given);
        first
            .create_topic(NewTopic { name: "t".to_owned(), partitions: 100, configs: Default::default() })
            .expect("made");
        for number in 0..commits {
            let key = number % KEYS;
            commit_offset(&mut first, &format!("group {}", key / 100), i32::try_from(key % 100).expect("fits"), number);
            if number % 100 == 99 {
                turn(&mut first, &wake_ups);
            }
        }
        drop(first);
        let began = std::time::Instant::now();
        let (second, _) = engine_and_wake_ups(folder.path(), Durability::Os, 1, &given);
        println!(
            "{commits} commits, compacted: {is_compacted}: {} records read, {:?}",
            second.replayed_entries,
            began.elapsed()
        );
        second.replayed_entries
    };
    let (short, long) = (replayed(true), replayed(false));
    assert!(long >= commits.unsigned_abs(), "{long} records");
    // Each offset once or twice, and what fits into two active segments.
    assert!((1000..6000).contains(&short) || commits > 12_000, "{short} records");
}
