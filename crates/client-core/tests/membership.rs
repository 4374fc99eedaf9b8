//! A member of a classic group, step by step.

use std::time::Duration;

use atonce_client_core::classify::Operation;
use atonce_client_core::membership::{
    Event, GroupReply, GroupRequest, Joined, JoinedMember, Membership, MembershipConfig, RebalanceProtocol, State,
    Subscription, decode_assignment, decode_subscription, encode_assignment, encode_subscription,
};
use atonce_kernel::{MemberId, Monotonic, TopicPartition};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

struct World {
    membership: Membership,
    now: Monotonic,
}

impl World {
    fn new(instance_id: Option<&str>) -> Self {
        Self::speaking(RebalanceProtocol::Eager, instance_id)
    }

    fn speaking(rebalance_protocol: RebalanceProtocol, instance_id: Option<&str>) -> Self {
        let config = MembershipConfig {
            group_id: "g".into(),
            instance_id: instance_id.map(Into::into),
            session_timeout: Duration::from_secs(10),
            heartbeat_interval: Duration::from_secs(3),
            max_poll_interval: Duration::from_secs(60),
            retry_backoff: Duration::from_millis(100),
            rebalance_protocol,
        };
        Self { membership: Membership::new(config, Monotonic::START), now: Monotonic::START }
    }

    fn pass(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    fn asks(&mut self) -> Option<&'static str> {
        self.membership.poll_request(self.now).map(|call| match call.request {
            GroupRequest::Join { .. } => "join",
            GroupRequest::Sync { .. } => "sync",
            GroupRequest::Heartbeat { .. } => "heartbeat",
            GroupRequest::Leave { .. } => "leave",
        })
    }

    fn answer(&mut self, reply: GroupReply) {
        self.membership.handle_reply(self.now, reply);
    }

    fn joined(&mut self, leader: &str, generation_id: i32) {
        let member = JoinedMember { member_id: "me".into(), instance_id: None, metadata: Bytes::new() };
        self.answer(GroupReply::Join(Ok(Joined {
            generation_id,
            member_id: "me".into(),
            leader: leader.into(),
            members: if leader == "me" { vec![member] } else { Vec::new() },
            skip_assignment: false,
            protocol_name: None,
        })));
    }

    fn synced(&mut self, partitions: &[i32]) {
        let partitions: Vec<TopicPartition> = partitions.iter().map(|it| TopicPartition::new("t", *it)).collect();
        let assignment = encode_assignment(&partitions, &Bytes::from_static(b"hello")).expect("is small");
        self.answer(GroupReply::Sync(Ok(assignment)));
    }

    /// Joins as a follower, and is given partition 0.
    fn stable(instance_id: Option<&str>) -> Self {
        Self::new(instance_id).made_stable()
    }

    fn made_stable(self) -> Self {
        let mut world = self;
        world.membership.handle_user_called();
        assert_eq!(world.asks(), Some("join"));
        world.joined("other", 1);
        assert_eq!(world.asks(), Some("sync"));
        world.synced(&[0]);
        assert_eq!(world.event(), "assigned [t-0] hello");
        world.membership.handle_user_left(world.now);
        world
    }

    fn event(&mut self) -> String {
        match self.membership.poll_event() {
            None => "nothing".to_owned(),
            Some(Event::Revoking(partitions)) => format!("revoking {partitions:?}"),
            Some(Event::Lost(partitions)) => format!("lost {partitions:?}"),
            Some(Event::Assigned(partitions, userdata)) => {
                format!("assigned {partitions:?} {}", String::from_utf8_lossy(&userdata))
            }
        }
    }
}

#[test]
fn nobody_joins_before_the_user_calls() {
    let mut world = World::new(None);
    assert_eq!(world.asks(), None);
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
    assert_eq!(world.asks(), None, "one request in flight");
}

#[test]
fn a_member_joins_again_at_once_with_the_id_it_was_given() {
    let mut world = World::new(None);
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
    world.answer(GroupReply::Join(Err((ErrorCode::MemberIdRequired, "me".into()))));
    let call = world.membership.poll_request(world.now).expect("asks at once");
    assert!(matches!(call.request, GroupRequest::Join { member_id, .. } if member_id == MemberId::from("me")));
}

/// It is static: its group keeps it over a division that it missed, by the words of its last JoinGroup, which name nothing of what it was given since.
#[test]
fn a_cooperative_member_that_was_passed_over_loses_what_it_held_and_one_that_was_asked_keeps_it() {
    for (generation_id, is_kept) in [(1, true), (2, true), (3, false), (9, false)] {
        let mut world = World::speaking(RebalanceProtocol::Cooperative, Some("i")).made_stable();
        world.pass(Duration::from_secs(3));
        assert_eq!(world.asks(), Some("heartbeat"));
        world.answer(GroupReply::Heartbeat(ErrorCode::RebalanceInProgress));
        world.membership.handle_user_called();
        assert_eq!(world.event(), "nothing");
        assert_eq!(world.asks(), Some("join"));
        world.joined("other", generation_id);
        let partition = TopicPartition::new("t", 0);
        assert_eq!(world.membership.holds(&partition), is_kept, "generation {generation_id}");
        if !is_kept {
            assert_eq!(world.event(), "lost [t-0]");
        }
        assert_eq!(world.asks(), Some("sync"));
        world.synced(&[0]);
        assert_eq!(world.event(), "assigned [t-0] hello", "as if it were new to it");
    }
}

#[test]
fn a_leader_divides_before_it_syncs() {
    let mut world = World::new(None);
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
    world.joined("me", 1);
    assert_eq!(world.asks(), None);
    assert_eq!(world.membership.poll_assigning(world.now).expect("is asked to divide").len(), 1);
    assert_eq!(world.membership.poll_assigning(world.now), None, "once");
    world.membership.handle_assignments(vec![("me".into(), Bytes::new())]);
    let call = world.membership.poll_request(world.now).expect("syncs");
    assert!(matches!(call.request, GroupRequest::Sync { assignments, .. } if assignments.len() == 1));
}

#[test]
fn no_join_leaves_between_revoking_and_the_users_next_call() {
    let mut world = World::stable(None);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.asks(), Some("heartbeat"));
    world.answer(GroupReply::Heartbeat(ErrorCode::RebalanceInProgress));
    world.membership.handle_user_called();
    assert_eq!(world.event(), "revoking [t-0]");
    world.membership.handle_user_left(world.now);
    // The user commits, and takes his time; heartbeats go on.
    for _ in 0..5 {
        world.pass(Duration::from_secs(3));
        assert_eq!(world.asks(), Some("heartbeat"));
        world.answer(GroupReply::Heartbeat(ErrorCode::RebalanceInProgress));
        assert_eq!(world.event(), "nothing", "it was told once");
    }
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
    world.joined("other", 2);
    assert_eq!(world.asks(), Some("sync"));
    world.synced(&[]);
    assert_eq!(world.event(), "assigned [] hello");
    assert_eq!(world.membership.group_metadata().generation_id, 2);
}

#[test]
fn a_generation_that_is_over_loses_the_partitions_and_keeps_the_member() {
    let mut world = World::stable(None);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.asks(), Some("heartbeat"));
    world.answer(GroupReply::Heartbeat(ErrorCode::IllegalGeneration));
    assert_eq!(world.asks(), None, "the user is told first");
    assert_eq!(world.event(), "lost [t-0]");
    world.membership.handle_user_called();
    let call = world.membership.poll_request(world.now).expect("joins again");
    assert!(matches!(call.request, GroupRequest::Join { member_id, .. } if member_id == MemberId::from("me")));
}

#[test]
fn a_member_that_the_group_gave_up_joins_as_a_new_one() {
    let mut world = World::stable(None);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.asks(), Some("heartbeat"));
    world.answer(GroupReply::Heartbeat(ErrorCode::UnknownMemberId));
    assert_eq!(world.event(), "lost [t-0]");
    world.membership.handle_user_called();
    let call = world.membership.poll_request(world.now).expect("joins again");
    assert!(matches!(call.request, GroupRequest::Join { member_id, .. } if member_id == MemberId::from("")));
}

#[test]
fn a_session_that_ends_without_an_answer_loses_the_partitions() {
    let mut world = World::stable(None);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.asks(), Some("heartbeat"));
    world.membership.handle_lost(world.now, Operation::Heartbeat);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.asks(), Some("heartbeat"), "it tries again");
    assert_eq!(world.event(), "nothing");
    world.pass(Duration::from_secs(1));
    world.membership.handle_timeout(world.now);
    assert_eq!(world.event(), "lost [t-0]");
}

#[test]
fn a_user_who_stays_away_makes_a_dynamic_member_leave_and_a_static_one_fall_silent() {
    for (instance_id, expected) in [(None, Some("leave")), (Some("i"), None)] {
        let mut world = World::stable(instance_id);
        for _ in 0..19 {
            world.pass(Duration::from_secs(3));
            assert_eq!(world.asks(), Some("heartbeat"));
            world.answer(GroupReply::Heartbeat(ErrorCode::None));
        }
        world.pass(Duration::from_secs(3));
        assert_eq!(world.asks(), expected);
        assert_eq!(world.event(), "lost [t-0]");
    }
}

#[test]
fn a_user_who_waits_inside_a_call_is_not_away() {
    let mut world = World::stable(None);
    world.membership.handle_user_called();
    for _ in 0..100 {
        world.pass(Duration::from_secs(3));
        assert_eq!(world.asks(), Some("heartbeat"));
        world.answer(GroupReply::Heartbeat(ErrorCode::None));
    }
    assert_eq!(*world.membership.state(), State::Stable);
}

#[test]
fn a_static_member_that_was_replaced_stops() {
    let mut world = World::stable(Some("i"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.asks(), Some("heartbeat"));
    world.answer(GroupReply::Heartbeat(ErrorCode::FencedInstanceId));
    assert_eq!(world.event(), "lost [t-0]");
    assert!(matches!(world.membership.state(), State::Failed(_)));
    world.membership.handle_user_called();
    assert_eq!(world.asks(), None);
}

#[test]
fn a_static_member_that_is_fenced_after_it_was_left_without_an_answer_believes_it_the_second_time() {
    let mut world = World::new(Some("i"));
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
    world.membership.handle_lost(world.now, Operation::JoinGroup);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.asks(), Some("join"));
    // The first JoinGroup is worked off after this one.
    world.joined("other", 1);
    assert_eq!(world.asks(), Some("sync"));
    world.answer(GroupReply::Sync(Err(ErrorCode::FencedInstanceId)));
    world.pass(Duration::from_millis(100));
    let Some(GroupRequest::Join { member_id, .. }) = world.membership.poll_request(world.now).map(|call| call.request)
    else {
        panic!("it joins once more")
    };
    assert_eq!(member_id, MemberId::from(""), "the id that was fenced is of no use any more");
    world.joined("other", 2);
    assert_eq!(world.asks(), Some("sync"));
    // There is another indeed.
    world.answer(GroupReply::Sync(Err(ErrorCode::FencedInstanceId)));
    assert!(matches!(world.membership.state(), State::Failed(_)), "{:?}", world.membership.state());
}

#[test]
fn a_static_member_that_is_fenced_on_its_way_in_with_all_answered_stops_at_once() {
    let mut world = World::new(Some("i"));
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
    world.joined("other", 1);
    assert_eq!(world.asks(), Some("sync"));
    world.answer(GroupReply::Sync(Err(ErrorCode::FencedInstanceId)));
    assert!(matches!(world.membership.state(), State::Failed(_)), "{:?}", world.membership.state());
}

#[test]
fn a_refused_commit_says_what_a_heartbeat_would_have_said() {
    let mut world = World::stable(None);
    world.membership.handle_commit_refused(ErrorCode::RebalanceInProgress);
    assert_eq!(world.event(), "revoking [t-0]");
    let mut world = World::stable(None);
    world.membership.handle_commit_refused(ErrorCode::IllegalGeneration);
    assert_eq!(world.event(), "lost [t-0]");
}

#[test]
fn a_rebalance_of_ones_own_gives_the_user_his_chance_too() {
    let mut world = World::stable(None);
    world.membership.enforce_rebalance();
    assert_eq!(world.event(), "revoking [t-0]");
    assert_eq!(world.asks(), None);
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
}

#[test]
fn closing_leaves_if_asked_to() {
    let mut world = World::stable(None);
    world.membership.close(true);
    assert_eq!(world.asks(), Some("leave"));
    world.answer(GroupReply::Leave(ErrorCode::None));
    assert_eq!(*world.membership.state(), State::Closed);
    let mut world = World::stable(Some("i"));
    world.membership.close(false);
    assert_eq!(world.asks(), None);
    assert_eq!(*world.membership.state(), State::Closed);
}

#[test]
fn closing_does_not_wait_for_a_group_that_holds_its_join() {
    let mut world = World::stable(None);
    world.membership.enforce_rebalance();
    assert_eq!(world.event(), "revoking [t-0]");
    world.membership.handle_user_called();
    assert_eq!(world.asks(), Some("join"));
    world.membership.close(true);
    assert_eq!(world.asks(), Some("leave"));
    world.membership.handle_lost(world.now, Operation::JoinGroup);
    assert_eq!(*world.membership.state(), State::Leaving);
    world.answer(GroupReply::Leave(ErrorCode::None));
    assert_eq!(*world.membership.state(), State::Closed);
}

#[test]
fn a_static_member_that_is_closed_before_it_knows_its_id_leaves_by_its_name() {
    for (instance_id, expected) in [(Some("i"), Some("leave")), (None, None)] {
        let mut world = World::new(instance_id);
        world.membership.handle_user_called();
        assert_eq!(world.asks(), Some("join"));
        world.membership.close(true);
        assert_eq!(world.asks(), expected);
    }
}

#[test]
fn another_coordinator_is_looked_for() {
    let mut world = World::stable(None);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.asks(), Some("heartbeat"));
    world.answer(GroupReply::Heartbeat(ErrorCode::NotCoordinator));
    world.pass(Duration::from_millis(3100));
    assert!(world.membership.poll_request(world.now).expect("asks again").refresh);
}

#[test]
fn subscriptions_and_assignments_keep_what_they_carry() {
    let subscription = Subscription {
        topics: vec!["a".into(), "b".into()],
        userdata: Bytes::from_static(b"data"),
        owned: vec![TopicPartition::new("a", 1), TopicPartition::new("a", 2)],
        generation_id: 7,
        rack_id: Some("r".to_owned()),
    };
    let bytes = encode_subscription(&subscription).expect("is small");
    assert_eq!(decode_subscription(&bytes).expect("can be read"), subscription);
    assert_eq!(decode_assignment(&Bytes::new()).expect("is nothing"), (Vec::new(), Bytes::new()));
    assert!(decode_subscription(&Bytes::from_static(b"x")).is_err());
}

#[test]
fn what_a_member_says_it_owns_is_read_in_order_and_each_partition_once() {
    // Version 1 of another client: no topics, no userdata, and of "b" partitions 1 and 0, of "a" 0, of "b" 1 again.
    let mut bytes = vec![0, 1, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 3];
    for (topic, partitions) in [(b'b', vec![1_i32, 0]), (b'a', vec![0]), (b'b', vec![1])] {
        bytes.extend([0, 1, topic, 0, 0, 0, u8::try_from(partitions.len()).expect("few")]);
        partitions.into_iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
    }
    let read = decode_subscription(&Bytes::from(bytes)).expect("can be read");
    let owned = [("a", 0), ("b", 0), ("b", 1)].map(|(topic, partition)| TopicPartition::new(topic, partition));
    assert_eq!(read.owned, owned);
}
