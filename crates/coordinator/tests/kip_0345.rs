//! KIP-345: static members, who have a name of their own and keep their place over a restart. One test per clause.

use atonce_coordinator::group::classic::State;
use atonce_coordinator::group::command::{JoinGroup, LeaveGroup, MemberIdentity, SyncGroup};
use atonce_coordinator::group::{Command, Record, Reply};
use atonce_kernel::{GroupId, GroupInstanceId, MemberId};
use atonce_protocol::ErrorCode;

mod group_host;
use group_host::{Group, join, only, sync};

fn restart(client: &str) -> JoinGroup {
    JoinGroup { instance: Some(GroupInstanceId::from(client)), ..join(client, None) }
}

fn member_of(group: &Group, instance: &str) -> MemberId {
    group.host.group().instances[instance].clone()
}

#[test]
fn a_static_member_needs_no_id_to_be_let_in() {
    let group = Group::of_static(&["a", "b"]);
    assert_eq!(group.host.group().members.len(), 2, "nobody was sent away for an id");
    assert!(member_of(&group, "a").as_str().starts_with("a-"), "its id begins with its own name");
}

#[test]
fn a_restart_within_the_session_is_no_rebalance_and_keeps_generation_and_assignment() {
    let mut group = Group::of_static(&["a", "b"]);
    let old = member_of(&group, "b");
    let decision = group.host.ask(&Command::JoinGroup(restart("b")));
    let Reply::JoinGroup(Ok(joined)) = only(&decision) else { panic!("{decision:?}") };
    assert_eq!(joined.generation, group.generation);
    assert_ne!(joined.member, old);
    assert!(matches!(group.host.group().state, State::Stable { .. }));
    let sync = Command::SyncGroup(sync(group.generation, &joined.member, &[]));
    let Reply::SyncGroup(Ok(synced)) = only(&group.host.ask(&sync)).clone() else { panic!() };
    assert_eq!(&synced.assignment[..], b"p1");
    assert_eq!(group.beat(0), ErrorCode::None, "the other member has not heard of it");
}

#[test]
fn the_new_id_is_recorded_before_it_is_told() {
    let mut group = Group::of_static(&["a", "b"]);
    let decision = group.host.ask(&Command::JoinGroup(restart("b")));
    let [Record::Group { metadata: Some(metadata), .. }] = &decision.records[..] else { panic!("{decision:?}") };
    let now = member_of(&group, "b");
    assert_eq!(metadata.generation, group.generation);
    assert!(metadata.members.iter().any(|member| member.member == now));
    group.host.crash();
    assert_eq!(member_of(&group, "b"), now, "and a crash does not forget it");
}

#[test]
fn whoever_uses_the_old_id_with_the_name_is_fenced_everywhere() {
    let mut group = Group::of_static(&["a", "b"]);
    let old = member_of(&group, "b");
    let generation = group.generation;
    group.host.ask(&Command::JoinGroup(restart("b")));
    let name = Some(GroupInstanceId::from("b"));
    let fenced = ErrorCode::FencedInstanceId;

    let join = JoinGroup { instance: name.clone(), member: Some(old.clone()), ..join("b", None) };
    assert_eq!(group.host.refused_join(join), fenced);
    let sync = SyncGroup { instance: name.clone(), ..sync(generation, &old, &[]) };
    assert_eq!(*only(&group.host.ask(&Command::SyncGroup(sync))), Reply::SyncGroup(Err(fenced)));
    let mut beat = group_host::beat(generation, &old);
    beat.instance.clone_from(&name);
    assert_eq!(*only(&group.host.ask(&Command::Heartbeat(beat))), Reply::Heartbeat(fenced));
    assert_eq!(group.host.commit(generation, Some(&old), Some("b")), fenced);
    assert_eq!(group.host.send(generation, Some(&old), Some("b")), fenced);
    let members = vec![MemberIdentity { member: Some(old), instance: name }];
    let leave = Command::LeaveGroup(LeaveGroup { group: GroupId::from("g"), members });
    let Reply::LeaveGroup(Ok(left)) = only(&group.host.ask(&leave)).clone() else { panic!() };
    assert_eq!(left[0].error, fenced);
}

#[test]
fn a_name_that_nobody_has_is_unknown_not_fenced() {
    let mut group = Group::of_static(&["a"]);
    let a = member_of(&group, "a");
    assert_eq!(group.host.commit(group.generation, Some(&a), Some("z")), ErrorCode::UnknownMemberId);
}

#[test]
fn the_old_self_that_still_waits_is_fenced_at_once() {
    let mut group = Group::of_static(&["a", "b"]);
    let b = group.members[1].clone();
    let waits = JoinGroup { instance: Some(GroupInstanceId::from("b")), ..join("b", Some(&b)) };
    let changed = JoinGroup { rebalance_timeout_ms: 40_000, session_timeout_ms: 40_000, ..waits };
    // It says something new, so a rebalance begins and it waits in it.
    let changed =
        JoinGroup { protocols: changed.protocols.iter().cloned().chain([other_protocol()]).collect(), ..changed };
    assert!(group.host.ask(&Command::JoinGroup(changed)).replies.is_empty());
    let decision = group.host.ask(&Command::JoinGroup(restart("b")));
    let Reply::JoinGroup(Err(refused)) = only(&decision) else { panic!("{decision:?}") };
    assert_eq!((refused.error, refused.member.as_ref()), (ErrorCode::FencedInstanceId, Some(&b)));
}

fn other_protocol() -> atonce_coordinator::group::classic::JoinProtocol {
    atonce_coordinator::group::classic::JoinProtocol { name: "other".to_owned(), metadata: bytes::Bytes::new() }
}

#[test]
fn a_restart_while_the_leader_assigns_begins_a_rebalance() {
    let mut group = Group::of_static(&["a", "b"]);
    group.rejoin(0);
    group.rejoin(1);
    assert!(matches!(group.host.group().state, State::CompletingRebalance { .. }));
    assert!(group.host.ask(&Command::JoinGroup(restart("b"))).replies.is_empty(), "it waits for the next generation");
    assert!(matches!(group.host.group().state, State::PreparingRebalance { .. }));
}

#[test]
fn a_restart_that_changes_the_protocol_chosen_begins_a_rebalance() {
    let mut group = Group::of_static(&["a"]);
    // As long as nothing is in common, it is not let in at all.
    let other = JoinGroup { protocols: [other_protocol()].into(), ..restart("a") };
    assert_eq!(group.host.refused_join(other), ErrorCode::InconsistentGroupProtocol);
    let range = restart("a").protocols[0].clone();
    let both = JoinGroup { protocols: [other_protocol(), range].into(), ..restart("a") };
    let decision = group.host.ask(&Command::JoinGroup(both));
    let Reply::JoinGroup(Ok(joined)) = only(&decision) else { panic!("{decision:?}") };
    assert_eq!((joined.generation, joined.protocol.as_deref()), (group.generation + 1, Some("other")));
}

#[test]
fn a_restart_longer_than_the_session_is_a_rebalance() {
    let mut group = Group::of_static(&["a", "b"]);
    group.host.pass_ms(9_000);
    group.beat(0);
    group.host.pass_ms(1_000);
    assert!(matches!(group.host.group().state, State::PreparingRebalance { .. }));
    assert!(!group.host.group().instances.contains_key("b"));
}

#[test]
fn a_static_member_is_not_put_out_for_missing_the_join_phase() {
    let mut group = Group::of_static(&["a", "b"]);
    group.rejoin(0);
    // b sends heartbeats but does not come back: a dynamic member would be out after the rebalance time-out.
    for _ in 0..4 {
        group.host.pass_ms(7_000);
        group.beat(1);
    }
    let decisions = group.host.pass_ms(2_000);
    assert!(
        decisions
            .iter()
            .flat_map(|(_, decision)| &decision.replies)
            .any(|(_, reply)| matches!(reply, Reply::JoinGroup(Ok(_))))
    );
    assert!(group.host.group().instances.contains_key("b"));
}

#[test]
fn an_administrator_removes_static_members_by_name_many_at_once_each_with_its_own_answer() {
    let mut group = Group::of_static(&["a", "b", "c"]);
    let name = |name: &str| MemberIdentity { member: None, instance: Some(GroupInstanceId::from(name)) };
    let members = vec![name("a"), name("nobody"), name("c"), MemberIdentity { member: None, instance: None }];
    let leave = Command::LeaveGroup(LeaveGroup { group: GroupId::from("g"), members });
    let decision = group.host.ask(&leave);
    let Reply::LeaveGroup(Ok(left)) = only(&decision) else { panic!("{decision:?}") };
    let errors: Vec<_> = left.iter().map(|left| left.error).collect();
    assert_eq!(errors, [ErrorCode::None, ErrorCode::UnknownMemberId, ErrorCode::None, ErrorCode::UnknownMemberId]);
    assert_eq!(group.host.group().instances.keys().map(GroupInstanceId::as_str).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn the_leader_sees_static_members_by_their_names() {
    let mut group = Group::of_static(&["a", "b"]);
    group.rejoin(0);
    let decision = group.rejoin(1);
    let led = decision.replies.iter().find_map(|(_, reply)| match reply {
        Reply::JoinGroup(Ok(joined)) if !joined.members.is_empty() => Some(joined.members.clone()),
        _ => None,
    });
    let names: Vec<_> = led.expect("somebody leads").iter().map(|member| member.instance.clone()).collect();
    assert_eq!(names, [Some(GroupInstanceId::from("a")), Some(GroupInstanceId::from("b"))]);
}

#[test]
fn a_restart_near_the_end_of_the_session_begins_a_whole_one() {
    let mut group = Group::of_static(&["a", "b"]);
    group.host.pass_ms(9_000);
    group.beat(0);
    group.host.ask(&Command::JoinGroup(restart("b")));
    group.host.pass_ms(9_999);
    assert!(group.host.group().instances.contains_key("b"));
    group.host.pass_ms(1);
    assert!(!group.host.group().instances.contains_key("b"));
}

#[test]
fn a_member_replaced_before_it_had_fetched_its_assignment_still_has_to() {
    let mut group = Group::of_static(&["a", "b"]);
    group.rejoin(0);
    group.rejoin(1);
    group.generation += 1;
    let leader = group.members[0].clone();
    group.host.ask(&Command::SyncGroup(sync(group.generation, &leader, &[])));
    group.host.ask(&Command::JoinGroup(restart("b")));
    group.members[1] = member_of(&group, "b");
    for _ in 0..4 {
        group.host.pass_ms(7_000);
        assert_eq!((group.beat(0), group.beat(1)), (ErrorCode::None, ErrorCode::None));
    }
    group.host.pass_ms(2_000);
    assert!(!group.host.group().instances.contains_key("b"), "it never did, and is out");
}

#[test]
fn a_static_member_that_missed_the_join_phase_has_a_whole_session_in_the_generation_that_began() {
    let mut group = Group::of_static(&["a", "b"]);
    group.rejoin(0);
    for _ in 0..3 {
        group.host.pass_ms(7_000);
        group.beat(1);
    }
    // b's session would end at 31 s; the generation begins at 30 s.
    group.host.pass_ms(9_000);
    assert!(matches!(group.host.group().state, State::CompletingRebalance { .. }));
    group.host.pass_ms(9_999);
    assert!(group.host.group().instances.contains_key("b"));
}
