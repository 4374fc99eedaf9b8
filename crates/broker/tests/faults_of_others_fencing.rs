//! Faults that other brokers had with identities, epochs and ends of transactions, and the right behaviour. Each test is named for
//! the behaviour.

mod raw_client;

use std::time::Duration;

use atonce_broker::{Broker, Durability};
use atonce_kernel::{ProducerEpoch, ProducerId, ProducerIdentity};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::produce_request::ProduceRequest;
use atonce_protocol::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use atonce_protocol::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use raw_client::{RawClient, batch, broker, produce_request};

fn raised(producer: ProducerIdentity, by: i16) -> ProducerIdentity {
    ProducerIdentity { epoch: ProducerEpoch(producer.epoch.0 + by), ..producer }
}

/// Waits until read-committed readers see the end: a transaction that was open there is over.
async fn await_settled(client: &mut RawClient, topic: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while client.end_offset(topic, 0, true).await < client.end_offset(topic, 0, false).await {
        assert!(tokio::time::Instant::now() < deadline, "the last stable offset of {topic} does not move");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_write_after_the_time_is_up_is_told_an_invalid_epoch_and_the_producer_can_go_on() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init_for(Some("id"), 50).await;
    client.append(Some("id"), producer, 0, "t", 0, &["lost"]).await.expect("appended");
    await_settled(&mut client, "t").await;
    // Not INVALID_TXN_STATE, which is fatal: the epoch is looked at first.
    let late = client.append(Some("id"), producer, 1, "t", 0, &["late"]).await;
    assert_eq!(late, Err(ErrorCode::InvalidProducerEpoch));
    let request = InitProducerIdRequest {
        transactional_id: Some("id".to_owned()),
        transaction_timeout_ms: 60_000,
        producer_id: producer.id.0,
        producer_epoch: producer.epoch.0,
        ..Default::default()
    };
    let again = client.call(5, &request).await;
    assert_eq!(again.error_code, 0);
    let producer = ProducerIdentity::new(again.producer_id, again.producer_epoch);
    client.append(Some("id"), producer, 0, "t", 0, &["kept"]).await.expect("appended");
    client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.read("t", 0, true).await, ["kept"]);
}

#[tokio::test]
async fn a_zombie_without_an_open_transaction_is_told_an_invalid_epoch_too() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let zombie = client.init(Some("id")).await;
    client.append(Some("id"), zombie, 0, "t", 0, &["a"]).await.expect("appended");
    client.end(3, "id", zombie, true).await.expect("committed");
    let heir = client.init(Some("id")).await;
    client.append(Some("id"), heir, 0, "t", 0, &["b"]).await.expect("appended");
    client.end(5, "id", heir, true).await.expect("committed");
    for version in [11, 12] {
        let batch = batch(zombie, 1, true, &["zombie"]);
        let refused = client.produce(version, Some("id"), "t", 0, batch).await.error_code;
        assert_eq!(ErrorCode::from_wire(refused), ErrorCode::InvalidProducerEpoch, "version {version}");
    }
    assert_eq!(client.read("t", 0, true).await, ["a", "b"]);
}

#[tokio::test]
async fn taking_over_an_open_transaction_raises_the_epoch_once_to_abort_and_once_for_the_newcomer() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let first = client.init(Some("id")).await;
    client.append(Some("id"), first, 0, "t", 0, &["open"]).await.expect("appended");
    let second = client.init(Some("id")).await;
    assert_eq!(second, raised(first, 2));
    assert_eq!(client.read("t", 0, true).await, [""; 0]);
    assert_eq!(client.end_offset("t", 0, true).await, 2, "a record and its marker");
}

#[tokio::test]
async fn epochs_that_are_used_up_lead_to_another_producer_and_nobody_fences_himself() {
    // Some thirty thousand ends: they need not survive a loss of power.
    let broker = Broker::builder().temporary().durability(Durability::Os).start().await.expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let first = client.init(Some("id")).await;
    // An abort of nothing raises the epoch, and costs little; many are on their way at once.
    const AT_ONCE: i16 = 100;
    const LAST: i16 = i16::MAX - 1;
    for epoch in (0..LAST).step_by(100) {
        let epochs = epoch..LAST.min(epoch.saturating_add(AT_ONCE));
        for epoch in epochs.clone() {
            let request = EndTxnRequest {
                transactional_id: "id".to_owned(),
                producer_id: first.id.0,
                producer_epoch: epoch,
                ..Default::default()
            };
            client.send(5, &request).await;
        }
        for epoch in epochs {
            let (_, response) = client.receive::<EndTxnRequest>(5).await;
            assert_eq!((response.error_code, response.producer_epoch), (0, epoch + 1));
        }
    }
    let producer = ProducerIdentity { epoch: ProducerEpoch(LAST), ..first };
    client.append(Some("id"), producer, 0, "t", 0, &["last"]).await.expect("appended");
    let next = client.end(5, "id", producer, true).await.expect("committed");
    assert_ne!(next.id, first.id);
    assert_eq!(next.epoch, ProducerEpoch(0));
    // The same end again, as after a lost answer.
    assert_eq!(client.end(5, "id", producer, true).await, Ok(next));
    client.append(Some("id"), next, 0, "t", 0, &["first"]).await.expect("appended");
    client.end(5, "id", next, true).await.expect("committed");
    assert_eq!(client.read("t", 0, true).await, ["last", "first"]);
}

#[tokio::test]
async fn the_delayed_end_of_a_transaction_does_not_end_the_next_one() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let first = client.init(Some("id")).await;
    client.append(Some("id"), first, 0, "t", 0, &["one"]).await.expect("appended");
    let second = client.end(5, "id", first, true).await.expect("committed");
    client.append(Some("id"), second, 0, "t", 0, &["two"]).await.expect("appended");
    // It was held up on another connection.
    assert_eq!(RawClient::of(&broker).end(5, "id", first, true).await, Err(ErrorCode::ProducerFenced));
    assert_eq!(client.read("t", 0, true).await, ["one"]);
    client.end(5, "id", second, false).await.expect("still open");
    assert_eq!(client.read("t", 0, true).await, ["one"]);
}

#[tokio::test]
async fn the_marker_of_one_transaction_again_does_not_end_the_next_one() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let first = client.init(Some("id")).await;
    client.append(Some("id"), first, 0, "t", 0, &["one"]).await.expect("appended");
    let second = client.end(5, "id", first, true).await.expect("committed");
    client.append(Some("id"), second, 0, "t", 0, &["two"]).await.expect("appended");
    let topic = WritableTxnMarkerTopic { name: "t".to_owned(), partition_indexes: vec![0], ..Default::default() };
    let marker = WritableTxnMarker {
        producer_id: second.id.0,
        producer_epoch: second.epoch.0,
        transaction_result: false,
        topics: vec![topic],
        transaction_version: 2,
        ..Default::default()
    };
    let response = client.call(2, &WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() }).await;
    let code = response.markers[0].topics[0].partitions[0].error_code;
    assert_eq!(ErrorCode::from_wire(code), ErrorCode::InvalidProducerEpoch);
    client.end(5, "id", second, true).await.expect("still open");
    assert_eq!(client.read("t", 0, true).await, ["one", "two"]);
}

#[tokio::test]
async fn a_marker_from_a_later_coordinator_does_not_keep_out_the_end_of_what_is_written_after_it() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["ended by an administrator"]).await.expect("appended");
    let topic = WritableTxnMarkerTopic { name: "t".to_owned(), partition_indexes: vec![0], ..Default::default() };
    let marker = WritableTxnMarker {
        producer_id: producer.id.0,
        producer_epoch: producer.epoch.0,
        coordinator_epoch: 7,
        transaction_result: false,
        topics: vec![topic],
        ..Default::default()
    };
    let response = client.call(1, &WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() }).await;
    assert_eq!(response.markers[0].topics[0].partitions[0].error_code, 0);
    client
        .append(Some("id"), producer, 1, "t", 0, &["written after it"])
        .await
        .expect("it is still in the transaction");
    client.end(5, "id", producer, true).await.expect("committed");
    // What is committed is seen.
    assert_eq!(client.read("t", 0, true).await, ["written after it"]);
    assert_eq!(client.end_offset("t", 0, true).await, client.end_offset("t", 0, false).await);
}

#[tokio::test]
async fn an_end_with_an_epoch_from_the_future_is_fenced() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("appended");
    for (version, expected) in
        [(1, ErrorCode::InvalidProducerEpoch), (2, ErrorCode::ProducerFenced), (5, ErrorCode::ProducerFenced)]
    {
        assert_eq!(client.end(version, "id", raised(producer, 1), true).await, Err(expected), "version {version}");
    }
    client.end(5, "id", producer, true).await.expect("the true one ends it");
}

#[tokio::test]
async fn transactions_back_to_back_lose_nothing() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 3).await;
    let mut producer = client.init(Some("id")).await;
    let (mut sequences, mut expected) = ([0; 3], 0);
    for round in 0..60 {
        for (partition, sequence) in (0..).zip(&mut sequences) {
            if round > 0 {
                *sequence = 0;
            }
            client.append(Some("id"), producer, *sequence, "t", partition, &["v", "w"]).await.expect("appended");
            expected += 2;
        }
        producer = client.end(5, "id", producer, true).await.expect("committed, and not told to come again");
    }
    let mut found = 0;
    for partition in 0..3 {
        found += client.read("t", partition, true).await.len();
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_first_batches_of_a_transaction_may_come_all_at_once_and_only_in_their_order() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    // The second one first: it may not slip in.
    let early = client.append(Some("id"), producer, 1, "t", 0, &["1"]).await;
    assert_eq!(early, Err(ErrorCode::OutOfOrderSequenceNumber));
    for sequence in 0..5 {
        let batch = batch(producer, sequence, true, &[&sequence.to_string()]);
        client.send(12, &produce_request(Some("id"), "t", 0, batch)).await;
    }
    for _ in 0..5 {
        let (_, response) = client.receive::<ProduceRequest>(12).await;
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    }
    client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.read("t", 0, true).await, ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn all_five_batches_in_flight_are_recognised_again_after_a_crash() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    let mut offsets = Vec::new();
    for sequence in 0..5 {
        offsets.push(client.append(None, producer, sequence, "t", 0, &["v"]).await.expect("appended"));
    }
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    for (sequence, offset) in (0..).zip(offsets) {
        assert_eq!(client.append(None, producer, sequence, "t", 0, &["v"]).await, Ok(offset));
    }
    assert_eq!(client.end_offset("t", 0, false).await, 5);
    assert_eq!(client.append(None, producer, 6, "t", 0, &["v"]).await, Err(ErrorCode::OutOfOrderSequenceNumber));
}

#[tokio::test]
async fn sequences_go_on_from_the_greatest_number_at_zero_also_within_a_batch() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    client.append(None, producer, i32::MAX - 1, "t", 0, &["a"]).await.expect("any first sequence");
    client.append(None, producer, i32::MAX, "t", 0, &["b", "c"]).await.expect("goes over the end");
    client.append(None, producer, 1, "t", 0, &["d"]).await.expect("goes on");
    assert_eq!(client.read("t", 0, true).await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn an_id_that_has_expired_keeps_out_whoever_had_it() {
    let broker = Broker::builder()
        .temporary()
        .property("transaction.state.log.num.partitions", "4")
        .property("transactional.id.expiration.ms", "50")
        .start()
        .await
        .expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("appended");
    let next = client.end(5, "id", producer, true).await.expect("committed");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match client.end(5, "id", next, false).await {
            Err(ErrorCode::InvalidProducerIdMapping) => break,
            // It is not forgotten yet; that was another use of it.
            Ok(_) | Err(ErrorCode::ProducerFenced) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(tokio::time::Instant::now() < deadline, "it does not expire");
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let refused = client.append(Some("id"), next, 0, "t", 0, &["late"]).await;
    assert_eq!(refused, Err(ErrorCode::InvalidProducerIdMapping));
    let newcomer = client.init(Some("id")).await;
    assert_ne!(newcomer.id, producer.id);
}

#[tokio::test]
async fn a_fresh_node_gives_producers_at_once_and_refuses_time_outs_out_of_range() {
    let broker = Broker::temporary().await.expect("started");
    let mut client = RawClient::of(&broker);
    let given = tokio::time::timeout(Duration::from_secs(20), client.init(Some("id"))).await.expect("at once");
    assert_eq!(given.epoch, ProducerEpoch(0));
    for transaction_timeout_ms in [0, -1, 900_001, i32::MAX] {
        let request = InitProducerIdRequest {
            transactional_id: Some("id".to_owned()),
            transaction_timeout_ms,
            ..Default::default()
        };
        for version in [0, 5] {
            let code = client.call(version, &request).await.error_code;
            assert_eq!(ErrorCode::from_wire(code), ErrorCode::InvalidTransactionTimeout);
        }
    }
}

#[tokio::test]
async fn an_administrator_who_fences_an_open_transaction_is_answered_and_not_told_to_wait() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["open"]).await.expect("appended");
    let fenced = RawClient::of(&broker).init_for(Some("id"), 1).await;
    assert_eq!(fenced.id, producer.id);
    assert_eq!(client.end(5, "id", producer, true).await, Err(ErrorCode::ProducerFenced));
    assert_eq!(client.read("t", 0, true).await, [""; 0]);
}

#[tokio::test]
async fn a_commit_of_nothing_is_refused_and_leaves_the_producer_usable() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    for version in [3, 5] {
        assert_eq!(client.end(version, "id", producer, true).await, Err(ErrorCode::InvalidTxnState));
    }
    client.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("appended");
    client.end(5, "id", producer, true).await.expect("committed");
    let other = ProducerIdentity { id: ProducerId(producer.id.0 + 999), ..producer };
    assert_eq!(client.end(5, "id", other, true).await, Err(ErrorCode::InvalidProducerIdMapping));
}

/// Sets the level of `transaction.version`; downwards it has to be meant.
async fn set_protocol(client: &mut RawClient, level: i16, is_upgrade: bool) {
    let update = FeatureUpdateKey {
        feature: "transaction.version".to_owned(),
        max_version_level: level,
        upgrade_type: if is_upgrade { 1 } else { 2 },
        ..Default::default()
    };
    let request = UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() };
    assert_eq!(client.call(2, &request).await.error_code, 0);
}

#[tokio::test]
async fn raising_the_protocol_in_mid_transaction_mixes_no_two_transactions() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    set_protocol(&mut client, 1, false).await;
    let begin = async |client: &mut RawClient, id: &str, value: &str| {
        let producer = client.init(Some(id)).await;
        client.add_partition(id, producer, "t", 0).await.expect("added");
        let written = client.produce(11, Some(id), "t", 0, batch(producer, 0, true, &[value])).await;
        assert_eq!(written.error_code, 0);
        producer
    };
    // One ends in the protocol that it began in, and goes on in the other under the same epoch.
    let old = begin(&mut client, "old", "a").await;
    // One ends in the other protocol.
    let new = begin(&mut client, "new", "b").await;
    set_protocol(&mut client, 2, true).await;
    let more = client.produce(11, Some("old"), "t", 0, batch(old, 1, true, &["c"])).await;
    assert_eq!(more.error_code, 0);
    client.end(3, "old", old, true).await.expect("committed");
    client.append(Some("old"), old, 2, "t", 0, &["of the next"]).await.expect("its write opens the next one");
    let after_new = client.end(5, "new", new, true).await.expect("committed");
    assert_eq!(after_new, raised(new, 1));
    assert_eq!(client.read("t", 0, true).await, ["a", "b", "c"], "and nothing of the next one, which is open");
    client.end(5, "old", old, false).await.expect("aborted");
    assert_eq!(client.read("t", 0, true).await, ["a", "b", "c"]);
    for version in [11, 12] {
        let late = client.produce(version, Some("new"), "t", 0, batch(new, 1, true, &["late"])).await;
        assert_eq!(ErrorCode::from_wire(late.error_code), ErrorCode::InvalidProducerEpoch, "version {version}");
    }
    client.append(Some("new"), after_new, 0, "t", 0, &["d"]).await.expect("appended");
    client.end(5, "new", after_new, true).await.expect("committed");
    assert_eq!(client.read("t", 0, true).await, ["a", "b", "c", "d"]);
    assert_eq!(client.end_offset("t", 0, true).await, client.end_offset("t", 0, false).await);
}

#[tokio::test]
async fn a_write_that_races_the_end_of_its_transaction_is_part_of_it_or_refused() {
    let broker = broker().await;
    let (mut writing, mut ending) = (RawClient::of(&broker), RawClient::of(&broker));
    writing.create_topic("t", 1).await;
    let mut producer = writing.init(Some("id")).await;
    let mut expected = Vec::new();
    for round in 0..40 {
        let (first, late) = (format!("{round} first"), format!("{round} late"));
        writing.append(Some("id"), producer, 0, "t", 0, &[&first]).await.expect("appended");
        let is_committed = round % 4 != 3;
        let end = EndTxnRequest {
            transactional_id: "id".to_owned(),
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            committed: is_committed,
            ..Default::default()
        };
        let write = produce_request(Some("id"), "t", 0, batch(producer, 1, true, &[&late]));
        // Both are on their way at once, in either order.
        if round % 2 == 0 {
            writing.send(12, &write).await;
            ending.send(5, &end).await;
        } else {
            ending.send(5, &end).await;
            writing.send(12, &write).await;
        }
        let (_, ended) = ending.receive::<EndTxnRequest>(5).await;
        let (_, written) = writing.receive::<ProduceRequest>(12).await;
        assert_eq!((ended.error_code, ended.producer_epoch), (0, producer.epoch.0 + 1));
        let is_in = match ErrorCode::from_wire(written.responses[0].partition_responses[0].error_code) {
            ErrorCode::None => true,
            ErrorCode::InvalidProducerEpoch => false,
            other => panic!("round {round}: {other}"),
        };
        if is_committed {
            expected.push(first);
            expected.extend(is_in.then_some(late));
        }
        producer = ProducerIdentity::new(ended.producer_id, ended.producer_epoch);
        assert_eq!(
            writing.end_offset("t", 0, true).await,
            writing.end_offset("t", 0, false).await,
            "round {round}: nothing is left open"
        );
    }
    assert_eq!(writing.read("t", 0, true).await, expected);
}

/// Asks for a marker in `topic` that aborts; what is answered.
async fn abort_by_marker(
    client: &mut RawClient,
    version: i16,
    transaction_version: i8,
    topic: &str,
    producer: ProducerIdentity,
) -> ErrorCode {
    let topic = WritableTxnMarkerTopic { name: topic.to_owned(), partition_indexes: vec![0], ..Default::default() };
    let marker = WritableTxnMarker {
        producer_id: producer.id.0,
        producer_epoch: producer.epoch.0,
        transaction_result: false,
        topics: vec![topic],
        transaction_version,
        ..Default::default()
    };
    let request = WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() };
    let response = client.call(version, &request).await;
    ErrorCode::from_wire(response.markers[0].topics[0].partitions[0].error_code)
}

#[tokio::test]
async fn markers_by_request_are_judged_by_what_their_version_says_of_the_transaction() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    // Version 1 cannot say it, and means the first protocol, whose markers have the transaction's own epoch.
    for (number, (version, transaction_version, raised_by, expected)) in [
        (1, 0, 0, ErrorCode::None),
        (1, 0, -1, ErrorCode::InvalidProducerEpoch),
        (2, 1, 0, ErrorCode::None),
        (2, 2, 0, ErrorCode::InvalidProducerEpoch),
        (2, 2, 1, ErrorCode::None),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("t{number}");
        client.create_topic(&name, 1).await;
        client.init(Some(&name)).await;
        let producer = client.init(Some(&name)).await;
        client.append(Some(&name), producer, 0, &name, 0, &["v"]).await.expect("appended");
        let answer =
            abort_by_marker(&mut client, version, transaction_version, &name, raised(producer, raised_by)).await;
        assert_eq!(answer, expected, "{name}");
        let stable = client.end_offset(&name, 0, true).await;
        assert_eq!(stable, if expected == ErrorCode::None { 2 } else { 0 }, "{name}");
        assert_eq!(client.read(&name, 0, true).await, [""; 0], "{name}");
    }
}

#[tokio::test]
async fn a_marker_by_request_does_not_damage_the_coordinators_own_log() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    let answer = abort_by_marker(&mut client, 2, 2, "__transaction_state", raised(producer, 1)).await;
    assert_eq!(answer, ErrorCode::TopicAuthorizationFailed);
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    client.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("all is there");
    client.end(5, "id", producer, true).await.expect("committed");
}

#[tokio::test]
async fn quick_restarts_one_after_the_other_forget_no_transactional_id() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let ids: Vec<String> = (0..8).map(|number| format!("id-{number}")).collect();
    let mut producers = Vec::new();
    for id in &ids {
        let producer = client.init(Some(id)).await;
        client.append(Some(id), producer, 0, "t", 0, &[id]).await.expect("appended");
        producers.push(producer);
    }
    for _ in 0..5 {
        broker.crash().await.expect("crashed");
        broker.restart().await.expect("restarted");
    }
    let mut client = RawClient::of(&broker);
    for (id, producer) in ids.iter().zip(producers) {
        client.end(5, id, producer, true).await.expect("it is open as it was");
    }
    assert_eq!(client.read("t", 0, true).await, ids);
}
