//! The transaction manager, step by step: what it asks, when, and what each answer makes of the transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_client_core::error::{ErrorClass, TransactionError};
use atonce_client_core::transaction::{
    CommitPosition, CoordinatorReply, CoordinatorRequest, GroupMetadata, InDoubt, Protocol, Settled, State,
    TransactionManager,
};
use atonce_kernel::{Monotonic, Outcome, ProducerIdentity, TopicPartition};
use atonce_protocol::ErrorCode;

const FIRST: ProducerIdentity =
    ProducerIdentity { id: atonce_kernel::ProducerId(7), epoch: atonce_kernel::ProducerEpoch(0) };

struct World {
    manager: TransactionManager,
    now: Monotonic,
}

impl World {
    /// Ready, with the first epoch.
    fn ready() -> Self {
        let mut world = Self { manager: TransactionManager::new(), now: Monotonic::START };
        world.manager.initialize();
        assert_eq!(world.asks(), "init from -1/-1");
        world.answer(CoordinatorReply::InitProducerId(Ok(FIRST)));
        assert_eq!(*world.manager.state(), State::Ready);
        world
    }

    /// In a transaction that the broker has heard of.
    fn open(protocol: Protocol) -> Self {
        let mut world = Self::ready();
        assert!(world.manager.begin(protocol));
        world.manager.handle_batch_sent();
        world
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
    }

    fn asks(&mut self) -> String {
        let Some(call) = self.manager.poll_request(self.now, true) else { return "nothing".to_owned() };
        let refresh = if call.refresh { ", of another" } else { "" };
        let text = match call.request {
            CoordinatorRequest::InitProducerId { expected } => format!("init from {expected}"),
            CoordinatorRequest::AddPartitions { partitions, .. } => format!("add {partitions:?}"),
            CoordinatorRequest::AddOffsets { group_id, .. } => format!("add group {group_id}"),
            CoordinatorRequest::CommitOffsets { offsets, .. } => {
                format!("offsets of {:?}", offsets.iter().map(|(it, _)| it).collect::<Vec<_>>())
            }
            CoordinatorRequest::EndTxn { identity, outcome, .. } => format!("{outcome} of {identity}"),
        };
        text + refresh
    }

    fn answer(&mut self, reply: CoordinatorReply) {
        self.manager.handle_reply(self.now, reply);
    }

    fn end_refused(&mut self, code: ErrorCode) {
        self.answer(CoordinatorReply::EndTxn(Err(code)));
    }

    fn ended(&mut self) -> (Settled, Option<TransactionError>) {
        let ended = self.manager.take_ended().expect("it has ended");
        (ended.settled, ended.error)
    }

    fn send_offsets(&mut self, partitions: &[i32]) {
        let position = CommitPosition { offset: 5, leader_epoch: -1, metadata: String::new() };
        let offsets: BTreeMap<_, _> =
            partitions.iter().map(|it| (TopicPartition::new("t", *it), position.clone())).collect();
        self.manager.send_offsets(GroupMetadata::without_member("g"), offsets);
    }

    fn offsets_answered(&mut self, codes: &[(i32, ErrorCode)]) {
        let codes = codes.iter().map(|(it, code)| (TopicPartition::new("t", *it), *code)).collect();
        self.answer(CoordinatorReply::CommitOffsets(codes));
    }
}

#[test]
fn partitions_and_groups_are_added_before_anything_else_in_the_old_protocol() {
    let mut world = World::ready();
    assert!(world.manager.begin(Protocol::V1));
    let partition = TopicPartition::new("t", 0);
    world.manager.add_partition(&partition);
    assert!(!world.manager.may_send_to(&partition));
    world.send_offsets(&[0]);
    assert_eq!(world.asks(), "add [t-0]");
    assert_eq!(world.asks(), "nothing", "one at a time");
    world.answer(CoordinatorReply::AddPartitions(vec![(partition.clone(), ErrorCode::None)]));
    assert!(world.manager.may_send_to(&partition));
    assert!(!world.manager.may_send_to(&TopicPartition::new("t", 1)));
    assert_eq!(world.asks(), "add group g");
    world.answer(CoordinatorReply::AddOffsets(ErrorCode::None));
    assert_eq!(world.asks(), "offsets of [t-0]");
    assert!(!world.manager.has_sent_offsets());
    world.offsets_answered(&[(0, ErrorCode::None)]);
    assert!(world.manager.has_sent_offsets());
    // The group is in the transaction now.
    world.send_offsets(&[1]);
    assert_eq!(world.asks(), "offsets of [t-1]");
    world.offsets_answered(&[(1, ErrorCode::None)]);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.answer(CoordinatorReply::EndTxn(Ok(None)));
    assert_eq!(world.ended(), (Settled::Committed, None));
    assert_eq!(world.manager.identity(), FIRST, "the epoch stays");
    assert_eq!(*world.manager.state(), State::Ready);
}

#[test]
fn nothing_is_added_in_the_new_protocol_and_the_epoch_rises() {
    let mut world = World::open(Protocol::V2);
    let partition = TopicPartition::new("t", 0);
    world.manager.add_partition(&partition);
    assert!(world.manager.may_send_to(&partition));
    world.send_offsets(&[0]);
    assert_eq!(world.asks(), "offsets of [t-0]");
    world.offsets_answered(&[(0, ErrorCode::None)]);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    let next = ProducerIdentity::new(7, 1);
    world.answer(CoordinatorReply::EndTxn(Ok(Some(next))));
    assert_eq!(world.manager.identity(), next);
    assert_eq!(world.manager.statistics().committed, 1);
}

#[test]
fn the_end_waits_until_all_is_flushed() {
    let mut world = World::open(Protocol::V2);
    world.manager.end(Outcome::Commit).expect("may end");
    assert!(world.manager.is_flushing());
    assert_eq!(world.manager.poll_request(world.now, false), None);
    assert_eq!(world.asks(), "commit of 7/0");
}

#[test]
fn a_transaction_that_no_broker_heard_of_ends_without_a_request() {
    for outcome in [Outcome::Commit, Outcome::Abort] {
        let mut world = World::ready();
        assert!(world.manager.begin(Protocol::V2));
        world.manager.end(outcome).expect("may end");
        assert_eq!(world.asks(), "nothing");
        assert_eq!(world.ended().1, None);
        assert!(world.manager.begin(Protocol::V2));
    }
}

#[test]
fn passing_refusals_are_waited_out() {
    for (code, wait_ms, refresh) in [
        (ErrorCode::ConcurrentTransactions, 20, ""),
        (ErrorCode::CoordinatorLoadInProgress, 100, ""),
        (ErrorCode::NotCoordinator, 100, ", of another"),
        (ErrorCode::CoordinatorNotAvailable, 100, ", of another"),
    ] {
        let mut world = World::open(Protocol::V2);
        world.manager.end(Outcome::Commit).expect("may end");
        assert_eq!(world.asks(), "commit of 7/0");
        world.end_refused(code);
        world.pass_ms(wait_ms - 1);
        assert_eq!(world.asks(), "nothing", "{code}");
        assert!(world.manager.poll_timeout().is_some());
        world.pass_ms(1);
        assert_eq!(world.asks(), format!("commit of 7/0{refresh}"), "{code}");
    }
}

#[test]
fn a_lost_end_is_in_doubt_until_it_is_answered() {
    let mut world = World::open(Protocol::V2);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.manager.handle_lost(world.now, true);
    assert_eq!(*world.manager.state(), State::InDoubt(InDoubt::Repeat { outcome: Outcome::Commit }));
    assert!(!world.manager.begin(Protocol::V2), "nothing begins meanwhile");
    assert_eq!(world.manager.take_ended(), None);
    world.pass_ms(100);
    assert_eq!(world.asks(), "commit of 7/0, of another");
    world.answer(CoordinatorReply::EndTxn(Ok(Some(ProducerIdentity::new(7, 1)))));
    assert_eq!(world.ended(), (Settled::Committed, None));
}

#[test]
fn an_end_that_was_never_sent_is_not_in_doubt() {
    let mut world = World::open(Protocol::V1);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.manager.handle_lost(world.now, false);
    assert_eq!(*world.manager.state(), State::Ending { outcome: Outcome::Commit });
    world.pass_ms(100);
    assert_eq!(world.asks(), "commit of 7/0, of another");
    world.answer(CoordinatorReply::EndTxn(Ok(None)));
    assert_eq!(*world.manager.state(), State::Ready, "and needs no new epoch");
}

#[test]
fn after_a_lost_end_the_old_protocol_takes_a_new_epoch() {
    let mut world = World::open(Protocol::V1);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.manager.handle_lost(world.now, true);
    world.pass_ms(100);
    assert_eq!(world.asks(), "commit of 7/0, of another");
    world.answer(CoordinatorReply::EndTxn(Ok(None)));
    assert_eq!(world.ended().0, Settled::Committed);
    assert!(!world.manager.begin(Protocol::V1));
    assert_eq!(world.asks(), "init from 7/0", "with what it has, so that a zombie is told");
    // That answer is lost too: the same question is answered from state.
    world.manager.handle_lost(world.now, true);
    world.pass_ms(100);
    assert_eq!(world.asks(), "init from 7/0, of another");
    world.answer(CoordinatorReply::InitProducerId(Ok(ProducerIdentity::new(7, 1))));
    assert!(world.manager.begin(Protocol::V1));
}

#[test]
fn a_commit_that_makes_no_sense_is_probed_and_told_apart() {
    // Timed out: the abort of the same epoch succeeds, and brings the epoch to go on with.
    let mut world = World::open(Protocol::V2);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.end_refused(ErrorCode::InvalidTxnState);
    assert_eq!(world.asks(), "abort of 7/0");
    world.answer(CoordinatorReply::EndTxn(Ok(Some(ProducerIdentity::new(7, 1)))));
    let (settled, error) = world.ended();
    assert_eq!(settled, Settled::Aborted);
    assert!(matches!(error, Some(TransactionError::TimedOut(_))));
    assert!(world.manager.begin(Protocol::V2));

    // Fenced: the abort is refused.
    let mut world = World::open(Protocol::V2);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.end_refused(ErrorCode::InvalidTxnState);
    assert_eq!(world.asks(), "abort of 7/0");
    world.end_refused(ErrorCode::ProducerFenced);
    let (settled, error) = world.ended();
    assert_eq!(settled, Settled::Aborted, "it was refused at the first attempt");
    assert!(error.expect("says why").is_fenced());
    assert!(matches!(world.manager.state(), State::FatalError(_)));
    assert_eq!(world.manager.statistics().fenced, 1);
}

#[test]
fn a_refused_repetition_of_a_commit_says_nothing_of_it() {
    let mut world = World::open(Protocol::V2);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.manager.handle_lost(world.now, true);
    world.pass_ms(100);
    assert_eq!(world.asks(), "commit of 7/0, of another");
    world.end_refused(ErrorCode::ProducerFenced);
    assert_eq!(world.ended().0, Settled::Unknown);
    assert_eq!(world.manager.statistics().unknown, 1);
}

/// By the tables it is aborted then; but a coordinator that has refused the repetition of what it may have done itself is
/// not believed.
#[test]
fn a_commit_whose_repetition_makes_no_sense_and_whose_probe_is_fenced_is_unknown() {
    let mut world = World::open(Protocol::V2);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.manager.handle_lost(world.now, true);
    world.pass_ms(100);
    assert_eq!(world.asks(), "commit of 7/0, of another");
    world.end_refused(ErrorCode::InvalidTxnState);
    assert_eq!(world.asks(), "abort of 7/0");
    world.end_refused(ErrorCode::ProducerFenced);
    assert_eq!(world.ended().0, Settled::Unknown);
}

/// Neither commit nor abort: only a new epoch makes a clean start, and the outcome is not guessed.
#[test]
fn a_coordinator_that_contradicts_itself_is_asked_for_a_new_epoch() {
    let mut world = World::open(Protocol::V2);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.end_refused(ErrorCode::InvalidTxnState);
    assert_eq!(world.asks(), "abort of 7/0");
    world.end_refused(ErrorCode::InvalidTxnState);
    assert_eq!(world.asks(), "init from 7/0");
    world.answer(CoordinatorReply::InitProducerId(Ok(ProducerIdentity::new(7, 1))));
    let (settled, error) = world.ended();
    assert_eq!(settled, Settled::Unknown);
    assert!(error.is_some());
    assert!(world.manager.begin(Protocol::V2));
}

#[test]
fn a_refused_epoch_in_mid_transaction_is_probed_while_its_user_waits() {
    let mut world = World::open(Protocol::V2);
    world.send_offsets(&[0]);
    assert_eq!(world.asks(), "offsets of [t-0]");
    world.offsets_answered(&[(0, ErrorCode::InvalidProducerEpoch)]);
    assert!(matches!(world.manager.state(), State::InDoubt(InDoubt::Probe { wanted: None, .. })));
    assert!(!world.manager.may_send_to(&TopicPartition::new("t", 0)));
    assert_eq!(world.asks(), "abort of 7/0");
    world.answer(CoordinatorReply::EndTxn(Ok(Some(ProducerIdentity::new(7, 1)))));
    assert!(matches!(world.manager.state(), State::AbortableError(TransactionError::TimedOut(_))));
    let refused = world.manager.end(Outcome::Commit).expect_err("cannot be committed");
    assert_eq!(refused.class(), ErrorClass::Abortable);
    world.manager.end(Outcome::Abort).expect("may be aborted");
    assert_eq!(world.asks(), "nothing", "the coordinator has ended it already");
    assert_eq!(world.ended(), (Settled::Aborted, None));
    assert!(world.manager.begin(Protocol::V2));
}

#[test]
fn a_group_that_moved_on_costs_the_transaction_and_not_the_producer() {
    for code in [
        ErrorCode::IllegalGeneration,
        ErrorCode::UnknownMemberId,
        ErrorCode::FencedInstanceId,
        ErrorCode::StaleMemberEpoch,
        ErrorCode::GroupIdNotFound,
    ] {
        let mut world = World::open(Protocol::V2);
        world.send_offsets(&[0, 1]);
        assert_eq!(world.asks(), "offsets of [t-0, t-1]");
        world.offsets_answered(&[(0, ErrorCode::None), (1, code)]);
        assert!(matches!(world.manager.state(), State::AbortableError(TransactionError::CommitFailed(_))), "{code}");
        assert_eq!(world.manager.statistics().fenced, 1);
        world.manager.end(Outcome::Abort).expect("may be aborted");
        assert_eq!(world.asks(), "abort of 7/0");
        world.answer(CoordinatorReply::EndTxn(Ok(Some(ProducerIdentity::new(7, 1)))));
        assert_eq!(world.ended(), (Settled::Aborted, None));
        assert!(world.manager.begin(Protocol::V2));
    }
}

#[test]
fn offsets_of_a_member_that_went_on_with_its_group_may_be_sent_again_in_the_same_transaction() {
    let position = CommitPosition { offset: 5, leader_epoch: -1, metadata: String::new() };
    let offsets = BTreeMap::from([(TopicPartition::new("t", 0), position)]);
    let group = GroupMetadata::without_member("g");
    for code in [ErrorCode::IllegalGeneration, ErrorCode::StaleMemberEpoch, ErrorCode::RebalanceInProgress] {
        let mut world = World::open(Protocol::V2);
        world.manager.send_renewable_offsets(group.clone(), offsets.clone());
        assert_eq!(world.asks(), "offsets of [t-0]");
        world.offsets_answered(&[(0, code)]);
        assert_eq!(*world.manager.state(), State::InTransaction, "{code}");
        assert!(!world.manager.has_sent_offsets());
        assert_eq!(world.manager.outdated_offsets().map(|refusal| refusal.code()), Some(code));
        assert_eq!(world.asks(), "nothing", "until it is said who it is by now");
        world.manager.send_renewable_offsets(group.clone(), offsets.clone());
        assert_eq!(world.asks(), "offsets of [t-0]");
        world.offsets_answered(&[(0, ErrorCode::None)]);
        assert!(world.manager.has_sent_offsets());
        assert_eq!(world.manager.statistics().fenced, 0);

        // Nobody is by now what the group wants.
        world.manager.send_renewable_offsets(group.clone(), offsets.clone());
        assert_eq!(world.asks(), "offsets of [t-0]");
        world.offsets_answered(&[(0, code)]);
        world.manager.give_offsets_up();
        assert!(matches!(world.manager.state(), State::AbortableError(TransactionError::CommitFailed(_))), "{code}");
        assert_eq!(world.manager.statistics().fenced, 1);
    }
    // Whose wait is dropped half way leaves nothing that could be committed without them.
    let mut world = World::open(Protocol::V2);
    world.manager.send_renewable_offsets(group.clone(), offsets.clone());
    assert_eq!(world.asks(), "offsets of [t-0]");
    world.offsets_answered(&[(0, ErrorCode::IllegalGeneration)]);
    world.manager.abandon_offsets();
    assert_eq!(*world.manager.state(), State::AbortableError(TransactionError::OffsetsAbandoned));
    // Another has the place.
    for code in [ErrorCode::UnknownMemberId, ErrorCode::FencedInstanceId] {
        let mut world = World::open(Protocol::V2);
        world.manager.send_renewable_offsets(group.clone(), offsets.clone());
        assert_eq!(world.asks(), "offsets of [t-0]");
        world.offsets_answered(&[(0, code)]);
        assert!(matches!(world.manager.state(), State::AbortableError(TransactionError::CommitFailed(_))), "{code}");
    }
}

#[test]
fn offsets_that_were_taken_in_part_are_sent_again_in_part() {
    let mut world = World::open(Protocol::V2);
    world.send_offsets(&[0, 1]);
    assert_eq!(world.asks(), "offsets of [t-0, t-1]");
    world.offsets_answered(&[(0, ErrorCode::None), (1, ErrorCode::CoordinatorLoadInProgress)]);
    world.pass_ms(100);
    assert_eq!(world.asks(), "offsets of [t-1]");
}

#[test]
fn offsets_that_nobody_waits_for_cannot_be_committed() {
    let mut world = World::open(Protocol::V2);
    world.send_offsets(&[0]);
    assert_eq!(world.asks(), "offsets of [t-0]");
    world.manager.abandon_offsets();
    assert!(matches!(world.manager.state(), State::AbortableError(TransactionError::OffsetsAbandoned)));
    world.offsets_answered(&[(0, ErrorCode::None)]);
    assert!(world.manager.end(Outcome::Commit).is_err());
    let mut world = World::open(Protocol::V2);
    world.manager.abandon_offsets();
    assert_eq!(*world.manager.state(), State::InTransaction, "nothing was on its way");
}

#[test]
fn a_failed_record_can_only_be_aborted_and_costs_an_epoch_in_the_old_protocol() {
    for (protocol, next) in [(Protocol::V1, "init from 7/0"), (Protocol::V2, "nothing")] {
        let mut world = World::open(protocol);
        world.manager.handle_record_failure(TransactionError::OffsetsAbandoned, true);
        assert!(world.manager.drops_unsent());
        assert!(world.manager.end(Outcome::Commit).is_err());
        world.manager.end(Outcome::Abort).expect("may be aborted");
        assert_eq!(world.asks(), "abort of 7/0");
        let identity = (protocol == Protocol::V2).then(|| ProducerIdentity::new(7, 1));
        world.answer(CoordinatorReply::EndTxn(Ok(identity)));
        assert_eq!(world.asks(), next, "{protocol:?}");
    }
}

#[test]
fn a_change_of_the_protocol_begins_with_a_new_epoch() {
    let mut world = World::open(Protocol::V1);
    world.manager.end(Outcome::Commit).expect("may end");
    assert_eq!(world.asks(), "commit of 7/0");
    world.answer(CoordinatorReply::EndTxn(Ok(None)));
    assert!(!world.manager.begin(Protocol::V2));
    assert_eq!(world.asks(), "init from 7/0");
    world.answer(CoordinatorReply::InitProducerId(Ok(ProducerIdentity::new(7, 1))));
    assert!(world.manager.begin(Protocol::V2));
}

#[test]
fn what_aborting_does_not_cure_is_fatal() {
    let mut world = World { manager: TransactionManager::new(), now: Monotonic::START };
    world.manager.initialize();
    assert_eq!(world.asks(), "init from -1/-1");
    world.answer(CoordinatorReply::InitProducerId(Err(ErrorCode::InvalidTransactionTimeout)));
    let State::FatalError(error) = world.manager.state() else { panic!("{:?}", world.manager.state()) };
    assert_eq!(error.class(), ErrorClass::InvalidConfiguration);

    let mut world = World::ready();
    assert!(world.manager.begin(Protocol::V1));
    world.manager.add_partition(&TopicPartition::new("t", 0));
    assert_eq!(world.asks(), "add [t-0]");
    let codes = vec![(TopicPartition::new("t", 0), ErrorCode::InvalidProducerIdMapping)];
    world.answer(CoordinatorReply::AddPartitions(codes));
    let State::FatalError(error) = world.manager.state() else { panic!("{:?}", world.manager.state()) };
    assert_eq!(error.class(), ErrorClass::ApplicationRecoverable);
    assert!(world.manager.end(Outcome::Abort).is_err());
}

#[test]
fn all_partitions_or_none_are_added() {
    let mut world = World::ready();
    assert!(world.manager.begin(Protocol::V1));
    let (a, b) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
    world.manager.add_partition(&a);
    world.manager.add_partition(&b);
    assert_eq!(world.asks(), "add [t-0, t-1]");
    let codes = vec![(a, ErrorCode::OperationNotAttempted), (b, ErrorCode::TopicAuthorizationFailed)];
    world.answer(CoordinatorReply::AddPartitions(codes));
    let State::AbortableError(TransactionError::Abortable(refusal)) = world.manager.state() else {
        panic!("{:?}", world.manager.state())
    };
    assert_eq!(refusal.code(), ErrorCode::TopicAuthorizationFailed, "the reason, not its consequence");
}

#[test]
fn the_end_of_a_transaction_that_is_over_already_asks_for_the_new_epoch_in_the_same_breath() {
    let mut world = World::ready();
    assert!(world.manager.begin(Protocol::V1));
    world.send_offsets(&[0]);
    assert_eq!(world.asks(), "add group g");
    world.answer(CoordinatorReply::AddOffsets(ErrorCode::ProducerFenced));
    assert_eq!(world.asks(), "abort of 7/0");
    world.answer(CoordinatorReply::EndTxn(Ok(None)));
    assert!(matches!(world.manager.state(), State::AbortableError(TransactionError::TimedOut(_))));
    world.manager.end(Outcome::Abort).expect("may end");
    // Nobody would ask the machine again: it sleeps until something happens.
    assert_eq!(world.asks(), "init from 7/0");
}
