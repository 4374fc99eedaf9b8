//! KIP-360, a producer that goes on after an error: it names the identity it had, and is given the next. The
//! coordinator's part, a test for each clause, in our words.

use atonce_kernel::{Outcome, ProducerIdentity};
use atonce_protocol::ErrorCode;

mod transaction_host;
use transaction_host::{Host, Producer};

fn initialised(host: &mut Host) -> Producer {
    let mut a = Producer::new("a");
    a.init(host).unwrap();
    a
}

#[test]
fn a_producer_that_names_its_identity_is_given_the_next_epoch() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    assert_eq!(a.init_as(&mut host, 3, a.identity), Ok(ProducerIdentity::new(1, 1)));
    assert_eq!(a.init_as(&mut host, 3, a.identity), Ok(ProducerIdentity::new(1, 2)));
}

#[test]
fn the_same_request_again_is_given_the_same_epoch() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    let before = a.identity;
    let given = a.init_as(&mut host, 3, before);
    let logged = host.log.len();
    assert_eq!(a.init_as(&mut host, 3, before), given);
    assert_eq!(a.init_as(&mut host, 3, before), given);
    assert_eq!(host.log.len(), logged, "and nothing is written for it");
}

#[test]
fn another_timeout_with_the_same_request_is_taken_over() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    let before = a.identity;
    let given = a.init_as(&mut host, 3, before);
    a.timeout_ms = 1234;
    assert_eq!(a.init_as(&mut host, 3, before), given);
    assert_eq!(host.shard.transaction(&a.transactional_id).unwrap().timeout_ms, 1234);
    assert_eq!(a.init_as(&mut host, 3, before), given, "and still it may be repeated");
}

#[test]
fn one_that_was_fenced_meanwhile_cannot_go_on() {
    let mut host = Host::new();
    let mut zombie = initialised(&mut host);
    let _newer = initialised(&mut host);
    let named = zombie.identity;
    assert_eq!(zombie.init_as(&mut host, 4, named), Err(ErrorCode::ProducerFenced));
    assert_eq!(zombie.init_as(&mut host, 3, named), Err(ErrorCode::InvalidProducerEpoch), "as older clients know it");
    assert_eq!(zombie.init_as(&mut host, 4, ProducerIdentity::new(1, 7)), Err(ErrorCode::ProducerFenced));
    assert_eq!(zombie.init_as(&mut host, 4, ProducerIdentity::new(9, 1)), Err(ErrorCode::ProducerFenced));
}

#[test]
fn a_new_instance_ends_the_repetition_of_older_requests() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    let before = a.identity;
    a.init_as(&mut host, 3, before).unwrap();
    let _newer = initialised(&mut host);
    assert_eq!(a.init_as(&mut host, 4, before), Err(ErrorCode::ProducerFenced));
}

#[test]
fn half_an_identity_is_refused() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    for half in [ProducerIdentity::new(1, -1), ProducerIdentity::new(-1, 0)] {
        assert_eq!(a.init_as(&mut host, 3, half), Err(ErrorCode::InvalidRequest));
    }
}

#[test]
fn an_identity_of_a_forgotten_life_is_given_a_new_one() {
    let mut host = Host::new();
    let mut a = Producer::new("a");
    assert_eq!(a.init_as(&mut host, 3, ProducerIdentity::new(42, 17)), Ok(ProducerIdentity::new(1, 0)));
}

#[test]
fn a_producer_that_names_its_identity_aborts_its_own_open_transaction() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    a.add(&mut host, &["x-0"]);
    let before = a.identity;
    assert_eq!(a.init_as(&mut host, 3, before), Ok(ProducerIdentity::new(1, 1)));
    assert_eq!(a.add(&mut host, &["x-0"]), ErrorCode::None);
    let zombie = Producer { identity: before, ..a.clone() };
    assert_eq!(zombie.end(&mut host, 4, Outcome::Commit), Err(ErrorCode::ProducerFenced));
}

#[test]
fn used_up_epochs_lead_to_a_new_producer_id_and_that_may_be_repeated_too() {
    let mut host = Host::new();
    let mut a = initialised(&mut host);
    while a.identity.epoch.0 < 32_766 {
        let named = a.identity;
        a.init_as(&mut host, 3, named).unwrap();
    }
    let last = a.identity;
    let rotated = a.init_as(&mut host, 3, last);
    assert_eq!(rotated, Ok(ProducerIdentity::new(2, 0)));
    assert_eq!(a.init_as(&mut host, 3, last), rotated);
    assert_eq!(a.init_as(&mut host, 4, ProducerIdentity::new(1, 32_765)), Err(ErrorCode::ProducerFenced));
}
