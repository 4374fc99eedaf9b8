//! KIP-588, a producer whose transaction timed out may go on: the coordinator's part, a test for each clause, in our
//! words.

use atonce_coordinator::transaction::Caller;
use atonce_kernel::{Outcome, ProducerIdentity};
use atonce_protocol::ErrorCode;

mod transaction_host;
use transaction_host::{Host, Producer};

fn timed_out(host: &mut Host) -> Producer {
    let mut a = Producer { timeout_ms: 1000, ..Producer::new("a") };
    a.init(host).unwrap();
    a.add(host, &["x-0"]);
    host.wait_ms(1001);
    host.tick();
    host.settle();
    a
}

#[test]
fn the_epoch_rises_when_a_transaction_times_out() {
    let mut host = Host::new();
    let a = timed_out(&mut host);
    assert_eq!(
        host.shard.transaction(&a.transactional_id).unwrap().producer,
        ProducerIdentity::new(a.identity.id.0, a.identity.epoch.0 + 1)
    );
}

#[test]
fn the_late_producer_is_told_in_words_that_its_version_knows() {
    let mut host = Host::new();
    let a = timed_out(&mut host);
    for (version, code) in [
        (0, ErrorCode::InvalidProducerEpoch),
        (1, ErrorCode::InvalidProducerEpoch),
        (2, ErrorCode::ProducerFenced),
        (3, ErrorCode::ProducerFenced),
    ] {
        assert_eq!(a.add_by(&mut host, Caller::AddPartitionsToTxn { version }, &["x-0"]), code);
        assert_eq!(a.add_by(&mut host, Caller::AddOffsetsToTxn { version }, &["__consumer_offsets-0"]), code);
        assert_eq!(a.end(&mut host, version, Outcome::Commit), Err(code));
    }
}

#[test]
fn a_fenced_write_is_told_invalid_producer_epoch_in_every_version() {
    let mut host = Host::new();
    let a = timed_out(&mut host);
    for version in [3, 10, 11] {
        assert_eq!(a.verify(&mut host, Caller::Produce { version }, &["x-0"]), ErrorCode::InvalidProducerEpoch);
    }
    for version in [0, 3, 4] {
        let caller = Caller::TxnOffsetCommit { version };
        assert_eq!(a.verify(&mut host, caller, &["__consumer_offsets-0"]), ErrorCode::InvalidProducerEpoch);
    }
    assert_eq!(a.write(&mut host, &["x-0"]), ErrorCode::InvalidProducerEpoch);
}

#[test]
fn it_goes_on_by_naming_the_identity_it_had() {
    let mut host = Host::new();
    let mut a = timed_out(&mut host);
    let had = a.identity;
    assert_eq!(a.init_as(&mut host, 4, had), Ok(ProducerIdentity::new(1, 1)));
    assert_eq!(a.add(&mut host, &["x-0"]), ErrorCode::None);
}

#[test]
fn it_goes_on_after_a_restart_of_the_broker_as_well() {
    let mut host = Host::new();
    let mut a = timed_out(&mut host);
    host.crash();
    let had = a.identity;
    assert_eq!(a.init_as(&mut host, 4, had), Ok(ProducerIdentity::new(1, 1)));
}

#[test]
fn one_that_another_instance_fenced_cannot_go_on() {
    let mut host = Host::new();
    let mut a = timed_out(&mut host);
    let mut newer = Producer::new("a");
    newer.init(&mut host).unwrap();
    let had = a.identity;
    assert_eq!(a.init_as(&mut host, 4, had), Err(ErrorCode::ProducerFenced));
    assert_eq!(a.init_as(&mut host, 3, had), Err(ErrorCode::InvalidProducerEpoch));
}
