//! KIP-890, defence against hanging and mixed-up transactions: the coordinator's part of both of its halves, a test for
//! each clause, in our words.

use atonce_coordinator::transaction::{Caller, Protocol, Record, StateName, Transaction};
use atonce_kernel::{Outcome, ProducerIdentity};
use atonce_protocol::ErrorCode;

mod transaction_host;
use transaction_host::{Host, Producer};

fn initialised(host: &mut Host) -> Producer {
    let mut a = Producer::new("a");
    a.init(host).unwrap();
    a
}

// Part 1: verification, for clients of v1.

#[test]
fn a_write_outside_its_transaction_can_be_aborted_and_is_fatal_only_to_clients_that_do_not_know_that() {
    let mut host = Host::new();
    let a = initialised(&mut host);
    for (version, code) in [(11, ErrorCode::TransactionAbortable), (10, ErrorCode::InvalidTxnState)] {
        assert_eq!(a.verify(&mut host, Caller::Produce { version }, &["x-0"]), code);
    }
    for (version, code) in [(4, ErrorCode::TransactionAbortable), (3, ErrorCode::InvalidTxnState)] {
        assert_eq!(a.verify(&mut host, Caller::TxnOffsetCommit { version }, &["__consumer_offsets-0"]), code);
    }
}

#[test]
fn verification_adds_nothing() {
    let mut host = Host::new();
    let a = initialised(&mut host);
    a.add(&mut host, &["x-0"]);
    let logged = host.log.len();
    assert_eq!(a.verify(&mut host, Caller::Produce { version: 11 }, &["x-0"]), ErrorCode::None);
    assert_eq!(a.verify(&mut host, Caller::Produce { version: 11 }, &["x-1"]), ErrorCode::TransactionAbortable);
    assert_eq!(host.log.len(), logged);
}

#[test]
fn while_markers_are_owed_a_write_is_told_to_come_again_in_words_that_its_version_retries() {
    let mut host = Host::new();
    let a = initialised(&mut host);
    a.add(&mut host, &["x-0"]);
    a.end(&mut host, 4, Outcome::Abort).unwrap();
    let produce = |version| Caller::Produce { version };
    assert_eq!(a.verify(&mut host, produce(11), &["x-0"]), ErrorCode::NotEnoughReplicas);
    let commit = |version| Caller::TxnOffsetCommit { version };
    assert_eq!(a.verify(&mut host, commit(4), &["x-0"]), ErrorCode::CoordinatorNotAvailable);
    assert_eq!(a.add_by(&mut host, produce(12), &["x-0"]), ErrorCode::ConcurrentTransactions);
    assert_eq!(a.add_by(&mut host, commit(5), &["x-0"]), ErrorCode::ConcurrentTransactions);
    assert_eq!(a.add(&mut host, &["x-0"]), ErrorCode::ConcurrentTransactions);
}

#[test]
fn a_delayed_write_after_the_end_does_not_open_a_transaction() {
    let mut host = Host::new();
    let a = initialised(&mut host);
    a.add(&mut host, &["x-0"]);
    a.end(&mut host, 4, Outcome::Abort).unwrap();
    host.settle();
    assert_eq!(a.verify(&mut host, Caller::Produce { version: 11 }, &["x-0"]), ErrorCode::TransactionAbortable);
}

// Part 2: an epoch for each transaction.

#[test]
fn writing_adds_the_partition() {
    let mut host = Host::new();
    let a = initialised(&mut host);
    assert_eq!(a.add_by(&mut host, Caller::Produce { version: 12 }, &["x-0"]), ErrorCode::None);
    let offsets = Caller::TxnOffsetCommit { version: 5 };
    assert_eq!(a.add_by(&mut host, offsets, &["__consumer_offsets-0"]), ErrorCode::None);
    a.end(&mut host, 5, Outcome::Commit).unwrap();
    assert_eq!(host.obligations()[0].partitions.len(), 2);
}

#[test]
fn who_speaks_which_protocol() {
    for (caller, protocol) in [
        (Caller::Produce { version: 11 }, Protocol::V1),
        (Caller::Produce { version: 12 }, Protocol::V2),
        (Caller::TxnOffsetCommit { version: 4 }, Protocol::V1),
        (Caller::TxnOffsetCommit { version: 5 }, Protocol::V2),
        (Caller::AddPartitionsToTxn { version: 3 }, Protocol::V1),
        (Caller::AddPartitionsToTxn { version: 4 }, Protocol::V2),
        (Caller::AddOffsetsToTxn { version: 4 }, Protocol::V1),
    ] {
        assert_eq!(caller.protocol(), protocol, "{caller:?}");
    }
}

#[test]
fn every_end_raises_the_epoch_and_the_answer_names_the_next() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    for (epoch, outcome) in [(1, Outcome::Commit), (2, Outcome::Abort)] {
        a.write(&mut host, &["x-0"]);
        assert_eq!(a.end(&mut host, 5, outcome), Ok(ProducerIdentity::new(1, epoch)));
        assert_eq!(host.obligations()[0].producer, ProducerIdentity::new(1, epoch), "and so do the markers");
        assert_eq!(host.obligations()[0].protocol, Protocol::V2);
        host.settle();
        a.identity = ProducerIdentity::new(1, epoch);
    }
}

#[test]
fn in_v1_the_epoch_stays() {
    let mut host = Host::new();
    let a = initialised(&mut host);
    a.add(&mut host, &["x-0"]);
    assert_eq!(a.end(&mut host, 4, Outcome::Commit), Ok(a.identity));
    assert_eq!((host.obligations()[0].producer, host.obligations()[0].protocol), (a.identity, Protocol::V1));
}

#[test]
fn a_repeated_end_is_known_by_the_epoch_it_retired() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    let zombie = a.clone();
    a.write(&mut host, &["x-0"]);
    let next = a.end(&mut host, 5, Outcome::Commit);
    assert_eq!(a.end(&mut host, 5, Outcome::Commit), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(a.end(&mut host, 5, Outcome::Abort), Err(ErrorCode::InvalidTxnState));
    host.settle();
    assert_eq!(a.end(&mut host, 5, Outcome::Commit), next);
    assert_eq!(a.end(&mut host, 5, Outcome::Abort), Err(ErrorCode::InvalidTxnState));
    host.crash();
    assert_eq!(a.end(&mut host, 5, Outcome::Commit), next, "after a restart as well");
    a.identity = next.unwrap();
    a.write(&mut host, &["x-0"]);
    assert_eq!(zombie.end(&mut host, 5, Outcome::Commit), Err(ErrorCode::ProducerFenced), "but not the next one");
}

#[test]
fn the_delayed_end_of_a_transaction_does_not_end_the_next() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    let delayed = a.clone();
    a.write(&mut host, &["x-0"]);
    a.finish(&mut host, Outcome::Commit).unwrap();
    a.write(&mut host, &["x-0"]);
    for outcome in [Outcome::Commit, Outcome::Abort] {
        assert_eq!(delayed.end(&mut host, 5, outcome), Err(ErrorCode::ProducerFenced));
    }
    assert_eq!(host.shard.describe(&a.transactional_id).unwrap().state, StateName::Ongoing);
}

#[test]
fn an_abort_of_nothing_raises_the_epoch_and_a_commit_of_nothing_is_refused() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    assert_eq!(a.end(&mut host, 5, Outcome::Commit), Err(ErrorCode::InvalidTxnState));
    assert_eq!(a.finish(&mut host, Outcome::Abort), Ok(ProducerIdentity::new(1, 1)));
    assert_eq!(a.end(&mut host, 5, Outcome::Commit), Err(ErrorCode::InvalidTxnState));
    assert_eq!(a.finish(&mut host, Outcome::Abort), Ok(ProducerIdentity::new(1, 2)));
}

#[test]
fn an_initialisation_over_an_open_transaction_raises_the_epoch_once_to_abort_and_once_for_the_newcomer() {
    let mut host = Host::new();
    let a = initialised(&mut host);
    a.write(&mut host, &["x-0"]);
    let mut b = Producer::new("a");
    assert_eq!(b.init(&mut host), Ok(ProducerIdentity::new(1, 2)));
    assert_eq!(a.end(&mut host, 5, Outcome::Commit), Err(ErrorCode::ProducerFenced));
}

/// One that has come there by 32,766 ends, of which the log was compacted.
fn at_the_last_epoch(host: &mut Host) -> Producer {
    let mut a = initialised(host);
    let first = host.shard.transaction(&a.transactional_id).unwrap().clone();
    let producer = ProducerIdentity::new(1, 32_765);
    host.append(Record::new(&a.transactional_id, Some(Transaction { producer, ..first }))).unwrap();
    a.identity = producer;
    assert_eq!(a.finish(host, Outcome::Abort), Ok(ProducerIdentity::new(1, 32_766)));
    a
}

#[test]
fn the_last_epoch_hands_over_to_a_new_producer_id_when_its_transaction_is_completed() {
    let mut host = Host::new();
    let mut a = at_the_last_epoch(&mut host);
    let last = a.clone();
    a.write(&mut host, &["x-0"]);
    let next = a.end(&mut host, 5, Outcome::Commit);
    assert_eq!(next, Ok(ProducerIdentity::new(2, 0)));
    assert_eq!(host.obligations()[0].producer, ProducerIdentity::new(1, 32_767), "markers still bear the old id");
    host.crash();
    host.settle();
    host.crash();
    assert_eq!(last.end(&mut host, 5, Outcome::Commit), next, "the repeated request is known by the id that ran out");
    assert_eq!(last.end(&mut host, 5, Outcome::Abort), Err(ErrorCode::InvalidTxnState));
    a.identity = next.unwrap();
    assert_eq!(a.write(&mut host, &["x-0"]), ErrorCode::None);
    assert_eq!(last.end(&mut host, 5, Outcome::Commit), Err(ErrorCode::InvalidProducerIdMapping));
}

#[test]
fn the_last_epoch_hands_over_when_the_clock_or_another_instance_ends_it() {
    for by_clock in [true, false] {
        let mut host = Host::new();
        let a = at_the_last_epoch(&mut host);
        a.write(&mut host, &["x-0"]);
        if by_clock {
            host.wait_ms(60_001);
            host.tick();
            host.settle();
        }
        let mut b = Producer::new("a");
        assert_eq!(b.init(&mut host), Ok(ProducerIdentity::new(2, 1)));
    }
}

#[test]
fn a_client_of_v1_and_one_of_v2_may_follow_each_other_under_one_id() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    a.add(&mut host, &["x-0"]);
    a.end(&mut host, 4, Outcome::Commit).unwrap();
    host.settle();
    a.write(&mut host, &["x-0"]);
    assert_eq!(a.finish(&mut host, Outcome::Commit), Ok(ProducerIdentity::new(1, 1)));
    a.add(&mut host, &["x-0"]);
    assert_eq!(a.end(&mut host, 4, Outcome::Abort), Ok(ProducerIdentity::new(1, 1)));
}
