//! KIP-447, one transactional producer for many input partitions: the transaction coordinator's part (the group
//! coordinator's is `kip_0447_offsets`), a test for each clause, in our words.

use atonce_coordinator::transaction::Caller;
use atonce_kernel::Outcome;
use atonce_protocol::ErrorCode;

mod transaction_host;
use transaction_host::{Host, Producer, partition};

#[test]
fn the_offsets_partition_joins_the_transaction_and_gets_its_marker() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    let caller = Caller::AddOffsetsToTxn { version: 3 };
    assert_eq!(a.add_by(&mut host, caller, &["__consumer_offsets-7"]), ErrorCode::None);
    assert_eq!(a.add(&mut host, &["x-0"]), ErrorCode::None);
    a.end(&mut host, 4, Outcome::Commit).unwrap();
    let owed = host.obligations().remove(0).partitions;
    assert_eq!(owed.into_iter().collect::<Vec<_>>(), ["__consumer_offsets-7", "x-0"].map(partition));
}

#[test]
fn offsets_of_a_partition_that_did_not_join_are_refused() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    a.init(&mut host).unwrap();
    a.add(&mut host, &["x-0"]);
    let offsets = ["__consumer_offsets-7"];
    let verify = |host: &mut Host, version| a.verify(host, Caller::TxnOffsetCommit { version }, &offsets);
    assert_eq!(verify(&mut host, 3), ErrorCode::InvalidTxnState);
    assert_eq!(verify(&mut host, 4), ErrorCode::TransactionAbortable);
    a.add_by(&mut host, Caller::AddOffsetsToTxn { version: 3 }, &offsets);
    assert_eq!(verify(&mut host, 3), ErrorCode::None);
}

#[test]
fn of_two_instances_with_ids_of_their_own_neither_fences_the_other() {
    let mut host = Host::new();
    let (mut a, mut b) = (Producer::new("a"), Producer::new("b"));
    a.init(&mut host).unwrap();
    b.init(&mut host).unwrap();
    a.add(&mut host, &["x-0"]);
    b.add(&mut host, &["x-0"]);
    assert_eq!(a.end(&mut host, 4, Outcome::Commit), Ok(a.identity));
    assert_eq!(b.end(&mut host, 4, Outcome::Abort), Ok(b.identity));
}

#[test]
fn a_producer_left_open_is_aborted_soon_enough_for_its_successor_to_read_stable_offsets() {
    // The successor waits while offsets are pending; the time-out of the transaction bounds that, whoever died.
    let mut host = Host::new();
    let mut a = Producer { timeout_ms: 10_000, ..Producer::new("a") };
    a.init(&mut host).unwrap();
    a.add_by(&mut host, Caller::AddOffsetsToTxn { version: 3 }, &["__consumer_offsets-7"]);
    host.wait_ms(10_001);
    host.tick();
    let owed = host.obligations().remove(0);
    assert_eq!(owed.outcome, Outcome::Abort);
    assert!(owed.partitions.contains(&partition("__consumer_offsets-7")));
}
