//! KIP-394: a newcomer gets an id before it is let in, so that a client whose answers are lost leaves no members behind. One test
//! per clause.

use atonce_coordinator::group::classic::State;
use atonce_coordinator::group::command::JoinGroup;
use atonce_coordinator::group::{Command, GroupConfig, Reply};
use atonce_protocol::ErrorCode;

mod group_host;
use group_host::{Group, Host, beat, join, leave, only};

fn host() -> Host {
    Host::new(GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() })
}

#[test]
fn a_newcomer_is_sent_away_with_an_id_of_its_own() {
    let mut host = host();
    let first = host.ask_join(join("a", None)).expect_err("it has no id");
    let second = host.ask_join(join("a", None)).expect_err("it has no id");
    assert_eq!((first.error, second.error), (ErrorCode::MemberIdRequired, ErrorCode::MemberIdRequired));
    assert_ne!(first.member, second.member);
    assert!(first.member.unwrap().as_str().starts_with("a-"), "it begins with the client's name for itself");
    assert!(host.group().members.is_empty(), "nobody is in by that");
}

#[test]
fn until_version_3_newcomers_are_let_in_at_once() {
    let mut host = host();
    for version in 0..4 {
        assert!(host.ask(&Command::JoinGroup(JoinGroup { version, ..join("a", None) })).replies.is_empty());
    }
    assert_eq!(host.group().members.len(), 4);
    for version in 4..10 {
        assert_eq!(host.refused_join(JoinGroup { version, ..join("a", None) }), ErrorCode::MemberIdRequired);
    }
}

#[test]
fn it_comes_again_with_the_id_and_is_in() {
    let mut host = host();
    let id = host.ask_join(join("a", None)).expect_err("it has no id").member.unwrap();
    assert!(host.ask(&Command::JoinGroup(join("a", Some(&id)))).replies.is_empty(), "it waits for the generation");
    let decisions = host.tick();
    let Reply::JoinGroup(Ok(joined)) = &decisions[0].replies[0].1 else { panic!("{decisions:?}") };
    assert_eq!((&joined.member, joined.generation), (&id, 1));
}

#[test]
fn an_id_given_to_nobody_is_unknown() {
    let mut group = Group::of(&["a"]);
    assert_eq!(group.host.refused_join(join("b", Some(&"b-made-up".into()))), ErrorCode::UnknownMemberId);
}

#[test]
fn until_it_comes_its_id_is_good_for_nothing_else() {
    let mut group = Group::of(&["a"]);
    let id = group.host.ask_join(join("b", None)).expect_err("it has no id").member.unwrap();
    let command = Command::Heartbeat(beat(1, &id));
    assert_eq!(*only(&group.host.ask(&command)), Reply::Heartbeat(ErrorCode::UnknownMemberId));
    assert_eq!(group.host.commit(1, Some(&id), None), ErrorCode::UnknownMemberId);
}

#[test]
fn an_id_alone_begins_no_rebalance() {
    let mut group = Group::of(&["a"]);
    group.host.refused_join(join("b", None));
    assert_eq!(group.beat(0), ErrorCode::None);
}

#[test]
fn a_rebalance_waits_for_those_who_have_an_id_but_no_longer_than_their_session() {
    let mut group = Group::of(&["a"]);
    let id = group.host.ask_join(join("b", None)).expect_err("it has no id").member.unwrap();
    assert!(group.rejoin(0).replies.is_empty(), "b may be on its way");
    assert!(group.host.pass_ms(9_999).iter().all(|(_, decision)| decision.replies.is_empty()));
    assert_eq!(group.host.pass_ms(1).len(), 1, "its session would have ended");
    assert!(matches!(group.host.group().state, State::CompletingRebalance { .. }));
    assert_eq!(group.host.refused_join(join("b", Some(&id))), ErrorCode::UnknownMemberId);
}

#[test]
fn it_may_give_the_id_back() {
    let mut group = Group::of(&["a"]);
    let id = group.host.ask_join(join("b", None)).expect_err("it has no id").member.unwrap();
    group.rejoin(0);
    let decision = group.host.ask(&Command::LeaveGroup(leave(&id)));
    assert_eq!(decision.replies.len(), 2, "b is out, and so a need not wait: {decision:?}");
}

#[test]
fn a_client_that_never_hears_its_id_leaves_no_members_behind() {
    let mut group = Group::of(&["a"]);
    for _ in 0..100 {
        group.host.refused_join(join("b", None));
    }
    assert_eq!(group.host.group().members.len(), 1);
    group.host.pass_ms(9_000);
    group.beat(0);
    group.host.pass_ms(1_000);
    assert!(group.host.group().pending.is_empty(), "nor anything else, after a session");
}

#[test]
fn nor_any_number_of_ids_while_sessions_last() {
    let mut group = Group::of(&["a"]);
    let first = group.host.ask_join(join("b", None)).expect_err("it has no id").member.unwrap();
    group.host.pass_ms(1);
    for _ in 0..999 {
        group.host.refused_join(join("b", None));
    }
    assert!(group.host.group().pending.contains_key(&first));
    group.host.refused_join(join("b", None));
    assert_eq!(group.host.group().pending.len(), 1_000);
    assert!(!group.host.group().pending.contains_key(&first), "the oldest is forgotten");
    assert_eq!(group.host.refused_join(join("b", Some(&first))), ErrorCode::UnknownMemberId);
}
