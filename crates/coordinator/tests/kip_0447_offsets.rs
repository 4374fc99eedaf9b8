//! KIP-447, the group coordinator's half: offsets of a transaction carry the consumer's generation, which fences zombies, and a reader can
//! wait until no open transaction holds an offset back. One test per clause.

use atonce_coordinator::group::command::JoinGroup;
use atonce_coordinator::group::{Command, GroupConfig};
use atonce_kernel::{GroupId, Outcome, ProducerId, ProducerIdentity};
use atonce_protocol::ErrorCode;

mod group_host;
use group_host::{Group, Host, join};

const PRODUCER: fn() -> ProducerIdentity = || ProducerIdentity::new(1, 0);

fn empty() -> Host {
    Host::new(GroupConfig::default())
}

#[test]
fn the_member_of_this_generation_is_let_in() {
    let mut group = Group::of(&["a"]);
    assert_eq!(group.host.send(1, Some(&group.members[0]), None), ErrorCode::None);
}

#[test]
fn a_zombie_of_an_older_generation_is_refused_though_its_producer_is_alive() {
    // The consumer was put out of its partitions; its producer, with an id of its own, has not heard of it.
    let mut group = Group::of(&["a", "b"]);
    let (a, b) = (group.members[0].clone(), group.members[1].clone());
    group.rejoin(0);
    group.rejoin(1);
    assert_eq!(group.host.send(1, Some(&a), None), ErrorCode::IllegalGeneration);
    assert_eq!(group.host.send(2, Some(&b), None), ErrorCode::None);
}

#[test]
fn a_member_that_is_out_is_unknown() {
    let mut group = Group::of(&["a", "b"]);
    group.host.pass_ms(9_000);
    group.beat(0);
    group.host.pass_ms(1_000);
    assert_eq!(group.host.send(1, Some(&group.members[1]), None), ErrorCode::UnknownMemberId);
}

#[test]
fn a_static_member_that_was_replaced_is_fenced() {
    let mut group = Group::of_static(&["a"]);
    let old = group.members[0].clone();
    group.host.ask_join(JoinGroup { instance: Some("a".into()), ..join("a", None) }).expect("it takes its place again");
    assert_eq!(group.host.send(1, Some(&old), Some("a")), ErrorCode::FencedInstanceId);
}

#[test]
fn a_rebalance_that_has_begun_refuses_nobody_of_the_generation_that_still_holds() {
    let mut group = Group::of(&["a", "b"]);
    let a = group.members[0].clone();
    group.rejoin(1);
    assert_eq!(group.beat(0), ErrorCode::None, "b said the same: nothing has begun");
    group.rejoin(0);
    assert_eq!(group.host.send(1, Some(&a), None), ErrorCode::None, "preparing: what was read is still a's to commit");
    group.rejoin(1);
    assert_eq!(group.host.send(2, Some(&a), None), ErrorCode::None, "completing: not refused in a transaction");
    assert_eq!(group.host.commit(2, Some(&a), None), ErrorCode::RebalanceInProgress, "but outside of one");
}

#[test]
fn who_gives_no_generation_and_no_name_is_let_in_as_older_clients_were() {
    let mut group = Group::of(&["a"]);
    assert_eq!(group.host.send(-1, None, None), ErrorCode::None);
    assert_eq!(group.host.commit(-1, None, None), ErrorCode::UnknownMemberId, "outside of a transaction it is not");
}

#[test]
fn half_a_claim_is_checked_in_full() {
    let mut group = Group::of(&["a"]);
    let a = group.members[0].clone();
    assert_eq!(group.host.send(1, None, None), ErrorCode::UnknownMemberId);
    assert_eq!(group.host.send(-1, Some(&a), None), ErrorCode::IllegalGeneration);
    assert_eq!(group.host.send(-1, None, Some("i")), ErrorCode::UnknownMemberId);
}

#[test]
fn a_group_that_is_not_there_has_no_generation() {
    assert_eq!(empty().send(0, Some(&"a-1".into()), None), ErrorCode::IllegalGeneration);
    assert_eq!(empty().send(-1, Some(&"a-1".into()), None), ErrorCode::None);
}

#[test]
fn an_offset_of_an_open_transaction_is_unstable_to_those_who_ask_and_hidden_from_others() {
    let mut host = empty();
    assert_eq!(host.fetch(true), (-1, ErrorCode::None));
    host.commit(-1, None, None);
    host.send_offset(-1, None, None, 9);
    assert_eq!(host.fetch(false), (5, ErrorCode::None));
    assert_eq!(host.fetch(true), (-1, ErrorCode::UnstableOffsetCommit));
}

#[test]
fn it_is_stable_again_when_the_transaction_has_ended_either_way() {
    for (outcome, offset) in [(Outcome::Commit, 9), (Outcome::Abort, 5)] {
        let mut host = empty();
        host.commit(-1, None, None);
        host.send_offset(-1, None, None, 9);
        host.marker(PRODUCER(), outcome);
        assert_eq!(host.fetch(true), (offset, ErrorCode::None), "{outcome}");
        assert_eq!(host.fetch(false), (offset, ErrorCode::None), "{outcome}");
    }
}

#[test]
fn a_crash_forgets_neither_the_offset_nor_that_it_is_undecided() {
    let mut host = empty();
    host.send_offset(-1, None, None, 9);
    host.crash();
    assert_eq!(host.fetch(true), (-1, ErrorCode::UnstableOffsetCommit));
    let group = GroupId::from("g");
    assert_eq!(host.shard.pending_of(ProducerId(1)).map(|(group, _, _)| group).collect::<Vec<_>>(), [&group]);
    host.marker(PRODUCER(), Outcome::Commit);
    host.crash();
    assert_eq!(host.fetch(true), (9, ErrorCode::None));
}

#[test]
fn the_last_offset_of_a_transaction_counts() {
    let mut host = empty();
    host.send_offset(-1, None, None, 9);
    host.send_offset(-1, None, None, 7);
    host.marker(PRODUCER(), Outcome::Commit);
    assert_eq!(host.fetch(true), (7, ErrorCode::None));
}

#[test]
fn a_marker_of_a_transaction_without_offsets_here_changes_nothing() {
    let mut host = empty();
    host.commit(-1, None, None);
    host.marker(PRODUCER(), Outcome::Abort);
    host.marker(PRODUCER(), Outcome::Commit);
    assert_eq!(host.fetch(true), (5, ErrorCode::None));
    assert!(matches!(host.ask(&Command::Tick).replies[..], []));
}
