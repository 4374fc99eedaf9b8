//! KIP-62: heartbeats of their own, and two time-outs: one for silence, one for coming back. One test per clause.

use atonce_coordinator::group::classic::State;
use atonce_coordinator::group::command::JoinGroup;
use atonce_coordinator::group::{Command, GroupState, Reply};
use atonce_protocol::ErrorCode;

mod group_host;
use group_host::{Group, Host, beat, join, leave, only, sync};

#[test]
fn a_member_may_choose_a_session_time_out_within_the_brokers_limits_only() {
    let mut host = Host::new(Default::default());
    for session_timeout_ms in [i32::MIN, 0, 5_999, 1_800_001, i32::MAX] {
        let request = JoinGroup { session_timeout_ms, ..join("a", None) };
        assert_eq!(host.refused_join(request), ErrorCode::InvalidSessionTimeout, "{session_timeout_ms}");
    }
    for session_timeout_ms in [6_000, 1_800_000] {
        let request = JoinGroup { session_timeout_ms, ..join("a", None) };
        assert_eq!(host.refused_join(request), ErrorCode::MemberIdRequired, "{session_timeout_ms}");
    }
}

#[test]
fn silence_longer_than_the_session_puts_a_member_out_and_begins_a_rebalance() {
    let mut group = Group::of(&["a", "b"]);
    group.host.pass_ms(9_999);
    assert_eq!(group.beat(0), ErrorCode::None);
    group.host.pass_ms(1);
    assert_eq!(group.beat(1), ErrorCode::UnknownMemberId, "b was silent for 10 s");
    assert_eq!(group.beat(0), ErrorCode::RebalanceInProgress);
}

#[test]
fn heartbeats_keep_a_member_in_however_slowly_it_processes() {
    let mut group = Group::of(&["a"]);
    for _ in 0..100 {
        group.host.pass_ms(9_999);
        assert_eq!(group.beat(0), ErrorCode::None);
    }
}

#[test]
fn a_member_in_a_rebalance_has_its_rebalance_time_out_to_come_back_and_not_its_session() {
    // b beats, but processes for 29 s before it joins: it is still welcome.
    let mut group = Group::of(&["a", "b"]);
    group.host.ask(&Command::JoinGroup(JoinGroup { version: 3, ..join("c", None) }));
    group.rejoin(0);
    for _ in 0..4 {
        group.host.pass_ms(7_000);
        assert_eq!(group.beat(1), ErrorCode::RebalanceInProgress);
    }
    let decision = group.rejoin(1);
    assert_eq!(decision.replies.len(), 3, "all three are in the next generation");
}

#[test]
fn a_member_that_does_not_come_back_in_time_is_out_though_it_beats() {
    let mut group = Group::of(&["a", "b"]);
    group.host.ask(&Command::JoinGroup(JoinGroup { version: 3, ..join("c", None) }));
    group.rejoin(0);
    for _ in 0..4 {
        group.host.pass_ms(7_000);
        assert_eq!(group.beat(1), ErrorCode::RebalanceInProgress);
    }
    group.host.pass_ms(2_000);
    assert_eq!(group.beat(1), ErrorCode::UnknownMemberId);
    assert_eq!(group.host.group().members.len(), 2);
}

#[test]
fn the_longest_rebalance_time_out_of_all_members_counts() {
    let mut group = Group::of(&["a", "b"]);
    let patient = JoinGroup { version: 3, rebalance_timeout_ms: 60_000, ..join("c", None) };
    group.host.ask(&Command::JoinGroup(patient));
    for _ in 0..8 {
        group.host.pass_ms(7_000);
        assert_eq!(group.beat(0), ErrorCode::RebalanceInProgress, "30 s would have put it out");
        assert_eq!(group.beat(1), ErrorCode::RebalanceInProgress);
    }
}

#[test]
fn a_member_whose_request_is_held_needs_no_heartbeats() {
    let mut group = Group::of(&["a", "b"]);
    group.rejoin(0);
    for _ in 0..4 {
        group.host.pass_ms(7_000);
        group.beat(1);
    }
    let decision = group.rejoin(1);
    let joined = decision.replies.iter().filter(|(_, reply)| matches!(reply, Reply::JoinGroup(Ok(_))));
    assert_eq!(joined.count(), 2, "a has waited for 28 s, and is in");
}

#[test]
fn a_member_that_never_fetches_its_assignment_is_out_after_the_rebalance_time_out() {
    let mut group = Group::of(&["a", "b"]);
    group.rejoin(0);
    group.rejoin(1);
    group.generation += 1;
    let leader = group.members[0].clone();
    group.host.ask(&Command::SyncGroup(sync(group.generation, &leader, &[])));
    for _ in 0..4 {
        group.host.pass_ms(7_000);
        assert_eq!((group.beat(0), group.beat(1)), (ErrorCode::None, ErrorCode::None));
    }
    group.host.pass_ms(2_000);
    assert_eq!((group.beat(0), group.beat(1)), (ErrorCode::RebalanceInProgress, ErrorCode::UnknownMemberId));
}

#[test]
fn leaving_is_at_once() {
    let mut group = Group::of(&["a", "b"]);
    let b = group.members[1].clone();
    group.host.ask(&Command::LeaveGroup(leave(&b)));
    assert_eq!(group.beat(0), ErrorCode::RebalanceInProgress);
    let a = group.members[0].clone();
    group.host.ask(&Command::LeaveGroup(leave(&a)));
    assert_eq!(group.host.group().state, State::Empty);
}

#[test]
fn a_heartbeat_of_another_generation_is_refused() {
    let mut group = Group::of(&["a"]);
    for generation in [-1, 0, 2] {
        let command = Command::Heartbeat(beat(generation, &group.members[0]));
        assert_eq!(*only(&group.host.ask(&command)), Reply::Heartbeat(ErrorCode::IllegalGeneration), "{generation}");
    }
}

#[test]
fn heartbeats_go_on_while_the_assignment_is_made() {
    let mut group = Group::of(&["a", "b"]);
    group.rejoin(0);
    group.rejoin(1);
    group.generation += 1;
    assert!(matches!(group.host.group().state, State::CompletingRebalance { .. }));
    assert_eq!((group.beat(0), group.beat(1)), (ErrorCode::None, ErrorCode::None));
    // And an assignment is fetched in its own generation only.
    let early = Command::SyncGroup(sync(group.generation - 1, &group.members[1], &[]));
    assert_eq!(*only(&group.host.ask(&early)), Reply::SyncGroup(Err(ErrorCode::IllegalGeneration)));
    assert_eq!(GroupState::CompletingRebalance.to_string(), "CompletingRebalance");
}
