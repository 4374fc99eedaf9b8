//! KIP-98, exactly-once delivery: the transaction coordinator's part, a test for each clause, in our words.

use atonce_coordinator::Shard;
use atonce_coordinator::transaction::{Caller, State, StateName};
use atonce_kernel::{Outcome, ProducerEpoch, ProducerId, ProducerIdentity, TransactionalId};
use atonce_protocol::ErrorCode;

mod transaction_host;
use transaction_host::{Host, Producer, partition};

fn state(host: &Host, producer: &Producer) -> StateName {
    host.shard.transaction(&producer.transactional_id).unwrap().state.name()
}

#[test]
fn a_new_transactional_id_gets_a_new_producer_id_at_epoch_0() {
    let mut host = Host::new();
    let (mut a, mut b) = (Producer::new("a"), Producer::new("b"));
    assert_eq!(a.init(&mut host), Ok(ProducerIdentity::new(1, 0)));
    assert_eq!(b.init(&mut host), Ok(ProducerIdentity::new(2, 0)));
}

#[test]
fn a_producer_without_a_transactional_id_gets_a_producer_id_of_its_own_and_leaves_nothing_behind() {
    let mut host = Host::new();
    let mut anonymous = Producer::new("");
    let mut request = anonymous.init_request(5, ProducerIdentity::NONE);
    request.transactional_id = None;
    for id in [1, 2] {
        let decision = host.ask(&atonce_coordinator::transaction::Command::InitProducerId(request.clone()));
        let expected = atonce_coordinator::transaction::Reply::InitProducerId(Ok(ProducerIdentity::new(id, 0)));
        assert_eq!(decision.replies, [(host.last_waiter, expected)]);
    }
    assert!(host.log.is_empty());
    assert_eq!(anonymous.init(&mut host), Err(ErrorCode::InvalidRequest), "an empty id is not none");
}

#[test]
fn the_same_transactional_id_keeps_its_producer_id_and_raises_the_epoch() {
    let mut host = Host::new();
    let (mut first, mut second) = (Producer::new("a"), Producer::new("a"));
    first.init(&mut host).unwrap();
    assert_eq!(second.init(&mut host), Ok(ProducerIdentity::new(1, 1)));
    host.crash();
    assert_eq!(second.init(&mut host), Ok(ProducerIdentity::new(1, 2)));
}

#[test]
fn an_instance_of_an_older_epoch_is_fenced_from_every_request() {
    let mut host = Host::new();
    let (mut zombie, mut current) = (Producer::new("a"), Producer::new("a"));
    zombie.init(&mut host).unwrap();
    current.init(&mut host).unwrap();
    assert_eq!(zombie.add(&mut host, &["x-0"]), ErrorCode::ProducerFenced);
    assert_eq!(zombie.end(&mut host, 4, Outcome::Commit), Err(ErrorCode::ProducerFenced));
    let offsets = Caller::AddOffsetsToTxn { version: 3 };
    assert_eq!(zombie.add_by(&mut host, offsets, &["__consumer_offsets-0"]), ErrorCode::ProducerFenced);
    assert_eq!(current.add(&mut host, &["x-0"]), ErrorCode::None);
}

#[test]
fn a_transaction_begins_with_its_first_partition_and_holds_all_that_are_added() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    assert_eq!(state(&host, &a), StateName::Empty);
    assert_eq!(a.add(&mut host, &["x-0", "x-1"]), ErrorCode::None);
    let since = host.now;
    host.wait_ms(10);
    assert_eq!(a.add(&mut host, &["y-0"]), ErrorCode::None);
    host.crash();
    let State::Ongoing { partitions, since: began } =
        &host.shard.transaction(&TransactionalId::from("a")).unwrap().state
    else {
        panic!("not ongoing")
    };
    assert_eq!(partitions.iter().cloned().collect::<Vec<_>>(), ["x-0", "x-1", "y-0"].map(partition));
    assert_eq!(*began, since);
}

#[test]
fn a_partition_is_logged_before_it_is_answered_and_not_twice() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    a.add(&mut host, &["x-0"]);
    let logged = host.log.len();
    assert_eq!(a.add(&mut host, &["x-0"]), ErrorCode::None);
    assert_eq!(host.log.len(), logged);
    assert_eq!(a.add(&mut host, &["x-0", "x-1"]), ErrorCode::None);
    assert_eq!(host.log.len(), logged + 1);
}

#[test]
fn the_outcome_is_logged_first_then_markers_go_to_every_partition_then_the_completion_is_logged() {
    for (outcome, prepared, complete) in [
        (Outcome::Commit, StateName::PrepareCommit, StateName::CompleteCommit),
        (Outcome::Abort, StateName::PrepareAbort, StateName::CompleteAbort),
    ] {
        let mut host = Host::new();
        let mut a = Producer::new("a");
        a.init(&mut host).unwrap();
        a.add(&mut host, &["x-0", "x-1"]);
        assert_eq!(a.end(&mut host, 4, outcome), Ok(a.identity));
        assert_eq!(state(&host, &a), prepared);
        let owed = host.obligations();
        assert_eq!(owed.len(), 1);
        assert_eq!((owed[0].outcome, owed[0].producer), (outcome, a.identity));
        assert_eq!(owed[0].partitions.iter().cloned().collect::<Vec<_>>(), ["x-0", "x-1"].map(partition));
        host.settle();
        assert_eq!(state(&host, &a), complete);
        assert!(host.obligations().is_empty());
    }
}

#[test]
fn a_decided_transaction_is_rolled_forward_after_a_crash() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    a.add(&mut host, &["x-0", "x-1"]);
    a.end(&mut host, 4, Outcome::Commit).unwrap();
    host.crash();
    assert_eq!(host.obligations()[0].partitions.len(), 2);
    host.settle();
    assert_eq!(state(&host, &a), StateName::CompleteCommit);
}

#[test]
fn a_repeated_end_is_answered_from_state_and_the_contrary_is_refused() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    a.add(&mut host, &["x-0"]);
    a.end(&mut host, 4, Outcome::Commit).unwrap();
    assert_eq!(a.end(&mut host, 4, Outcome::Commit), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(a.end(&mut host, 4, Outcome::Abort), Err(ErrorCode::InvalidTxnState));
    host.settle();
    assert_eq!(a.end(&mut host, 4, Outcome::Commit), Ok(a.identity));
    assert_eq!(a.end(&mut host, 4, Outcome::Abort), Err(ErrorCode::InvalidTxnState));
}

#[test]
fn what_was_never_begun_cannot_be_ended() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    for outcome in [Outcome::Commit, Outcome::Abort] {
        assert_eq!(a.end(&mut host, 4, outcome), Err(ErrorCode::InvalidTxnState));
    }
}

#[test]
fn a_producer_id_that_is_not_the_ids_own_is_refused() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    let stranger = Producer { identity: ProducerIdentity { id: ProducerId(99), epoch: ProducerEpoch(0) }, ..a.clone() };
    assert_eq!(stranger.add(&mut host, &["x-0"]), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(stranger.end(&mut host, 4, Outcome::Abort), Err(ErrorCode::InvalidProducerIdMapping));
    let unknown = Producer { identity: a.identity, ..Producer::new("unknown") };
    assert_eq!(unknown.add(&mut host, &["x-0"]), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(unknown.end(&mut host, 4, Outcome::Abort), Err(ErrorCode::InvalidProducerIdMapping));
    let nameless = Producer { identity: a.identity, ..Producer::new("") };
    assert_eq!(nameless.add(&mut host, &["x-0"]), ErrorCode::InvalidRequest);
    assert_eq!(nameless.end(&mut host, 4, Outcome::Abort), Err(ErrorCode::InvalidRequest));
}

#[test]
fn a_transaction_that_stays_open_beyond_its_timeout_is_aborted() {
    let mut host = Host::new();
    let mut a = Producer { timeout_ms: 1000, ..Producer::new("a") };
    a.init(&mut host).unwrap();
    a.add(&mut host, &["x-0"]);
    assert_eq!(host.shard.next_deadline(), Some(host.now.plus_ms(1001)));
    host.wait_ms(1000);
    assert!(host.tick().is_empty());
    host.wait_ms(1);
    assert_eq!(host.tick().len(), 1);
    assert_eq!(state(&host, &a), StateName::PrepareAbort);
    assert_eq!(host.obligations()[0].producer, ProducerIdentity::new(1, 1), "under a raised epoch");
}

#[test]
fn a_timeout_longer_than_the_broker_allows_is_refused() {
    let mut host = Host::new();
    for timeout_ms in [0, -1, i32::MIN, 900_001, i32::MAX] {
        let mut a = Producer { timeout_ms, ..Producer::new("a") };
        assert_eq!(a.init(&mut host), Err(ErrorCode::InvalidTransactionTimeout), "{timeout_ms}");
    }
    for timeout_ms in [1, 900_000] {
        assert!(Producer { timeout_ms, ..Producer::new("a") }.init(&mut host).is_ok(), "{timeout_ms}");
    }
}

#[test]
fn an_id_that_is_not_used_expires() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    host.wait_ms(7 * 24 * 3600 * 1000 - 1);
    assert!(host.tick().is_empty());
    host.wait_ms(1);
    assert_eq!(host.tick().len(), 1);
    assert_eq!(host.shard.transaction(&a.transactional_id), None);
    host.crash();
    assert_eq!(a.add(&mut host, &["x-0"]), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(a.init(&mut host), Ok(ProducerIdentity::new(2, 0)), "a producer id is never used again");
}

#[test]
fn a_transactional_id_too_long_for_the_log_is_refused() {
    let mut host = Host::new();
    assert!(Producer::new(&"i".repeat(32_767)).init(&mut host).is_ok());
    assert_eq!(Producer::new(&"i".repeat(32_768)).init(&mut host), Err(ErrorCode::InvalidRequest));
}
