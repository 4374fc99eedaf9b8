//! What becomes of a group's positions as time passes, over restarts: its clocks are soft, what it holds is not.

use std::collections::BTreeMap;

use atonce_coordinator::group::command::{OffsetCommit, OffsetFetch, OffsetToCommit, OffsetToFetch};
use atonce_coordinator::group::consumer::command::{ConsumerGroupHeartbeat, GroupSettings};
use atonce_coordinator::group::{Command as GroupCommand, Reply as GroupReply};
use atonce_kernel::{GroupId, MemberId};

use super::*;

const MEMBER: &str = "m";

fn group(engine: &mut Engine, group: &GroupId, command: &GroupCommand) -> GroupReply {
    let partition = engine.group_partition(group);
    engine.groups_now(partition, command, None).expect("answered at once")
}

/// A heartbeat of the one member of a group that reads `t`; its epoch from then on.
fn beat(engine: &mut Engine, of: &GroupId, epoch: i32) -> i32 {
    let is_new = epoch == 0;
    let command = GroupCommand::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
        version: 1,
        group: of.clone(),
        member: Some(MemberId::from(MEMBER)),
        epoch,
        instance: None,
        rack: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout_ms: is_new.then_some(60_000),
        topics: is_new.then(|| ["t".into()].into()),
        pattern: None,
        assignor: None,
        owned: is_new.then(BTreeMap::new),
        settings: GroupSettings::default(),
    });
    match group(engine, of, &command) {
        GroupReply::ConsumerGroupHeartbeat(Ok(beat)) => beat.epoch,
        other => panic!("{other:?}"),
    }
}

fn commit_position(engine: &mut Engine, of: &GroupId, epoch: i32) {
    let offset = OffsetToCommit {
        topic_partition: TopicPartition::new("t", 0),
        topic_id: Uuid([0; 16]),
        offset: 7,
        leader_epoch: -1,
        metadata: None,
    };
    let command = GroupCommand::OffsetCommit(OffsetCommit {
        version: 9,
        group: of.clone(),
        generation: epoch,
        member: (epoch >= 0).then(|| MemberId::from(MEMBER)),
        instance: None,
        retention_ms: None,
        offsets: vec![offset],
    });
    match group(engine, of, &command) {
        GroupReply::OffsetsCommitted(answers) => assert_eq!(answers[0].1, ErrorCode::None),
        other => panic!("{other:?}"),
    }
}

fn position(engine: &mut Engine, of: &GroupId) -> i64 {
    let asked = OffsetToFetch { topic_partition: TopicPartition::new("t", 0), topic_id: Uuid([0; 16]) };
    let command = GroupCommand::OffsetFetch(OffsetFetch {
        group: of.clone(),
        partitions: Some(vec![asked]),
        member: None,
        epoch: -1,
        require_stable: true,
    });
    match group(engine, of, &command) {
        GroupReply::OffsetsFetched(Ok(offsets)) => offsets[0].offset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn positions_outlive_their_time_while_a_member_lives_and_go_after_it_with_an_application_that_is_gone() {
    const BEAT_MS: i64 = 40_000;
    let folder = tempfile::tempdir().expect("a folder");
    let open = |folder: &Path| engine_with(folder, Durability::Os, 1, &[("offsets.retention.minutes", "15")]);
    let mut engine = open(folder.path());
    engine.create_topic(NewTopic { name: "t".to_owned(), partitions: 1, configs: Default::default() }).expect("made");
    let (live, paused) = (GroupId::from("live"), GroupId::from("paused"));
    let mut epoch = beat(&mut engine, &live, 0);
    commit_position(&mut engine, &live, epoch);
    commit_position(&mut engine, &paused, -1);
    let mut found = Vec::new();
    // 13 minutes, a restart, 27 more. Old positions are looked for every ten.
    for round in 0..60 {
        if round == 20 {
            let now = engine.now;
            engine.commit();
            drop(engine);
            engine = open(folder.path());
            engine.now = now;
        }
        engine.now = engine.now.plus_ms(BEAT_MS);
        engine.do_what_is_due();
        epoch = beat(&mut engine, &live, epoch);
        found.push((position(&mut engine, &live), position(&mut engine, &paused)));
    }
    assert_eq!(found[19], (7, 7), "it is not old enough");
    assert_eq!(found.last(), Some(&(7, -1)), "only the one who is gone has lost it");
    assert_eq!(beat(&mut engine, &live, -1), -1);
    for _ in 0..30 {
        engine.now = engine.now.plus_ms(BEAT_MS);
        engine.do_what_is_due();
    }
    assert_eq!(position(&mut engine, &live), -1, "now it is gone, too");
}
