//! KIP-664, finding hanging transactions (and KIP-994, by duration): the coordinator's part, a test for each clause, in
//! our words.

use std::collections::BTreeSet;

use atonce_coordinator::transaction::{ListFilter, StateName};
use atonce_kernel::{Outcome, ProducerId, Timestamp, TransactionalId};
use atonce_protocol::ErrorCode;

mod transaction_host;
use transaction_host::{Host, Producer, partition};

/// `empty`, `open` (10 ms later) and `done`.
fn three() -> Host {
    let mut host = Host::new();
    Producer::new("empty").init(&mut host).unwrap();
    host.wait_ms(10);
    for id in ["open", "done"] {
        let mut producer = Producer { timeout_ms: 45_000, ..Producer::new(id) };
        producer.init(&mut host).unwrap();
        producer.write(&mut host, &["x-0", "y-1"]);
        if id == "done" {
            producer.finish(&mut host, Outcome::Commit).unwrap();
        }
    }
    host
}

fn listed(host: &Host, filter: &ListFilter) -> Vec<String> {
    host.shard.list(filter, host.now).map(|entry| entry.transactional_id.as_str().to_owned()).collect()
}

fn all() -> ListFilter {
    ListFilter { duration_ms: -1, ..ListFilter::default() }
}

#[test]
fn every_id_is_listed_with_its_producer_and_state() {
    let host = three();
    let entries: Vec<_> = host.shard.list(&all(), host.now).collect();
    let shown: Vec<_> = entries.iter().map(|it| (it.transactional_id.as_str(), it.producer_id.0, it.state)).collect();
    assert_eq!(
        shown,
        [("done", 3, StateName::CompleteCommit), ("empty", 1, StateName::Empty), ("open", 2, StateName::Ongoing)]
    );
}

#[test]
fn states_and_producer_ids_filter_the_list() {
    let host = three();
    let states = |states: &[StateName]| ListFilter { states: states.iter().copied().collect(), ..all() };
    assert_eq!(listed(&host, &states(&[StateName::Ongoing])), ["open"]);
    assert_eq!(listed(&host, &states(&[StateName::Empty, StateName::CompleteCommit])), ["done", "empty"]);
    assert_eq!(listed(&host, &states(&[StateName::Dead])), [""; 0]);
    let ids = ListFilter { producer_ids: BTreeSet::from([ProducerId(2), ProducerId(9)]), ..all() };
    assert_eq!(listed(&host, &ids), ["open"]);
    let both = ListFilter { states: BTreeSet::from([StateName::Empty]), ..ids };
    assert_eq!(listed(&host, &both), [""; 0]);
}

#[test]
fn a_duration_keeps_what_began_longer_ago() {
    let mut host = three();
    host.wait_ms(100);
    let open = |duration_ms| ListFilter { duration_ms, states: BTreeSet::from([StateName::Ongoing]), ..all() };
    assert_eq!(listed(&host, &open(99)), ["open"]);
    assert_eq!(listed(&host, &open(100)), [""; 0]);
    assert_eq!(listed(&host, &open(0)), ["open"]);
    assert_eq!(listed(&host, &open(-1)), ["open"]);
}

#[test]
fn state_names_are_kafkas() {
    for name in [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ] {
        let state = StateName::from_name(name).unwrap();
        assert_eq!((state.as_str(), state.to_string().as_str()), (name, name));
        assert_eq!(StateName::from_number(state.number()), Some(state));
    }
    assert_eq!(StateName::from_name("ongoing"), None);
    assert_eq!(StateName::from_number(8), None);
}

#[test]
fn a_transaction_is_described_with_its_start_and_partitions() {
    let host = three();
    let described = host.shard.describe(&TransactionalId::from("open")).unwrap();
    assert_eq!(described.state, StateName::Ongoing);
    assert_eq!((described.producer.id.0, described.producer.epoch.0, described.timeout_ms), (2, 0, 45_000));
    assert_eq!(described.since, host.now);
    assert_eq!(described.partitions.into_iter().collect::<Vec<_>>(), ["x-0", "y-1"].map(partition));
    let done = host.shard.describe(&TransactionalId::from("done")).unwrap();
    assert_eq!((done.state, done.since), (StateName::CompleteCommit, host.now));
    assert!(done.partitions.is_empty());
    assert_eq!(host.shard.describe(&TransactionalId::from("empty")).unwrap().since, Timestamp::NONE);
}

#[test]
fn an_unknown_id_cannot_be_described() {
    let host = three();
    assert_eq!(host.shard.describe(&TransactionalId::from("other")), Err(ErrorCode::TransactionalIdNotFound));
    assert_eq!(host.shard.describe(&TransactionalId::from("")), Err(ErrorCode::InvalidRequest));
}
