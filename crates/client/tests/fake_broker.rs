//! The client against krafka's fake broker, an independent judge that can lose answers, refuse, and move leaders.

use std::time::Duration;

use atonce_client::{
    Client, CommitError, Consumer, ErrorClass, OffsetReset, Position, ProducerRecord, SendError, Settled,
    TopicPartition, TransactionError, TransactionalProducer,
};
use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker, TxnStatus};

/// Time for calls that are to give up.
const SHORT: Duration = Duration::from_millis(700);

async fn fake(transaction_version: i16) -> (FakeBroker, Client) {
    let broker = FakeBroker::start().await.expect("starts");
    broker.set_transaction_version(transaction_version);
    broker.create_topic("t", 2);
    let client = connect(&broker).await;
    (broker, client)
}

async fn connect(broker: &FakeBroker) -> Client {
    let builder = Client::builder(broker.bootstrap_servers()).request_timeout(Duration::from_millis(400));
    builder.connect().await.expect("the fake broker is there")
}

async fn start(client: &Client) -> TransactionalProducer {
    client.transactional_producer("id").start().await.expect("starts")
}

async fn one_transaction(producer: &mut TransactionalProducer, value: &str) -> Result<(), CommitError> {
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to("t").partition(0).value(value)).await.expect("is taken");
    transaction.commit().await
}

/// The values that a reader of committed records sees.
fn committed(broker: &FakeBroker) -> Vec<String> {
    let records = broker.committed_records("t").expect("can be read");
    records
        .iter()
        .map(|record| String::from_utf8(record.value.clone().expect("a value").to_vec()).expect("text"))
        .collect()
}

#[tokio::test]
async fn both_protocols_commit_and_abort() {
    for version in [1, 2] {
        let (broker, client) = fake(version).await;
        let mut producer = start(&client).await;
        one_transaction(&mut producer, "a").await.expect("commits");
        let transaction = producer.begin().await.expect("begins");
        transaction.send(ProducerRecord::to("t").partition(0).value("b")).await.expect("is taken");
        transaction.flush().await.expect("is written");
        transaction.abort().await.expect("aborts");
        one_transaction(&mut producer, "c").await.expect("commits");
        assert_eq!(committed(&broker), ["a", "c"], "transaction.version {version}");
        let adds = broker.request_count(ApiKey::AddPartitionsToTxn);
        assert_eq!(adds, if version == 1 { 3 } else { 0 });
    }
}

#[tokio::test]
async fn an_end_whose_answer_is_lost_once_is_repeated_and_is_true() {
    for version in [1, 2] {
        let (broker, client) = fake(version).await;
        let mut producer = start(&client).await;
        broker.on_once(ApiKey::EndTxn, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
        one_transaction(&mut producer, "a").await.expect("is committed, and said so");
        let initialized = broker.request_count(ApiKey::InitProducerId);
        one_transaction(&mut producer, "b").await.expect("commits");
        assert_eq!(committed(&broker), ["a", "b"], "transaction.version {version}");
        assert_eq!(broker.request_count(ApiKey::EndTxn), 3);
        // In the old protocol the lost request could still arrive, and would end the next transaction: a new epoch shuts
        // it out. In the new one every end brings a new epoch anyway.
        let expected = if version == 1 { 2 } else { 1 };
        assert_eq!(broker.request_count(ApiKey::InitProducerId), expected, "{initialized}");
    }
}

#[tokio::test]
async fn an_end_that_is_lost_before_it_arrives_is_repeated() {
    for version in [1, 2] {
        let (broker, client) = fake(version).await;
        let mut producer = start(&client).await;
        broker.on_once(ApiKey::EndTxn, |_| Control::Disconnect);
        one_transaction(&mut producer, "a").await.expect("commits");
        assert_eq!(committed(&broker), ["a"], "transaction.version {version}");
    }
}

#[tokio::test]
async fn a_commit_that_is_never_answered_is_in_doubt_and_settled_later() {
    for version in [1, 2] {
        let (broker, client) = fake(version).await;
        let mut producer = client.transactional_producer("id").max_block(SHORT).start().await.expect("starts");
        broker.on(ApiKey::EndTxn, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
        let error = one_transaction(&mut producer, "a").await.expect_err("is not known");
        assert!(matches!(error, CommitError::InDoubt { .. }), "{error}");
        assert_eq!((error.class(), error.may_have_taken_effect()), (ErrorClass::Retriable, true));
        let error = producer.begin().await.map(drop).expect_err("nothing begins while in doubt");
        assert!(error.may_have_taken_effect());

        broker.clear_hooks();
        assert_eq!(producer.settle().await.expect("is learnt"), Some(Settled::Committed));
        assert_eq!(producer.settle().await.expect("is told once"), None);
        one_transaction(&mut producer, "b").await.expect("commits");
        assert_eq!(committed(&broker), ["a", "b"], "transaction.version {version}");
        assert_eq!(producer.statistics().committed, 2);
    }
}

#[tokio::test]
async fn a_commit_in_doubt_that_the_coordinator_aborted_is_not_called_committed() {
    let (broker, client) = fake(2).await;
    let mut producer = client.transactional_producer("id").max_block(SHORT).start().await.expect("starts");
    broker.on(ApiKey::EndTxn, |_| Control::Disconnect);
    let error = one_transaction(&mut producer, "a").await.expect_err("is not known");
    assert!(matches!(error, CommitError::InDoubt { .. }), "{error}");
    assert!(broker.abort_transaction("id"), "the time-out ends it");
    broker.clear_hooks();
    // (Apache Kafka remembers the epoch that timed out, and says "aborted"; this broker says "fenced".)
    match producer.settle().await {
        Ok(settled) => assert!(matches!(settled, Some(Settled::Aborted | Settled::Unknown)), "{settled:?}"),
        Err(error) => assert_eq!(error.class(), ErrorClass::ApplicationRecoverable, "{error}"),
    }
    assert_eq!(producer.statistics().committed, 0);
    drop(producer);
    let mut producer = start(&client).await;
    one_transaction(&mut producer, "b").await.expect("commits");
    assert_eq!(committed(&broker), ["b"]);
}

#[tokio::test]
async fn concurrent_transactions_are_waited_for_inside() {
    for (version, api) in [
        (1, ApiKey::InitProducerId),
        (2, ApiKey::InitProducerId),
        (1, ApiKey::AddPartitionsToTxn),
        (1, ApiKey::EndTxn),
        (2, ApiKey::EndTxn),
        (2, ApiKey::Produce),
    ] {
        let (broker, client) = fake(version).await;
        broker.on_times(api, 3, |_| Control::Error(ErrorCode::ConcurrentTransactions));
        let mut producer = start(&client).await;
        one_transaction(&mut producer, "a").await.expect("commits");
        assert_eq!(committed(&broker), ["a"], "{api:?} in transaction.version {version}");
        assert_eq!(broker.request_count(api), 4);
    }
}

#[tokio::test]
async fn another_coordinator_is_looked_for() {
    for api in [ApiKey::InitProducerId, ApiKey::EndTxn] {
        let (broker, client) = fake(2).await;
        broker.on_once(api, |_| Control::Error(ErrorCode::NotCoordinator));
        let mut producer = start(&client).await;
        one_transaction(&mut producer, "a").await.expect("commits");
        assert_eq!(committed(&broker), ["a"]);
        assert_eq!(broker.request_count(ApiKey::FindCoordinator), 2, "{api:?}");
    }
}

#[tokio::test]
async fn an_initialisation_whose_answer_is_lost_is_run_again() {
    let (broker, client) = fake(2).await;
    broker.on_once(ApiKey::InitProducerId, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    let mut producer = start(&client).await;
    one_transaction(&mut producer, "a").await.expect("with the epoch of the second answer");
    assert_eq!(committed(&broker), ["a"]);
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_keeps_no_old_epoch() {
    let (broker, client) = fake(1).await;
    let mut producer = start(&client).await;
    // The lost end makes a renewal necessary; the renewal's answer is lost too.
    broker.on_once(ApiKey::EndTxn, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    broker.on_once(ApiKey::InitProducerId, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    one_transaction(&mut producer, "a").await.expect("commits");
    one_transaction(&mut producer, "b").await.expect("commits");
    assert_eq!(committed(&broker), ["a", "b"]);
}

#[tokio::test]
async fn a_fenced_producer_says_so_in_both_protocols() {
    for version in [1, 2] {
        let (broker, client) = fake(version).await;
        let mut zombie = start(&client).await;
        let transaction = zombie.begin().await.expect("begins");
        transaction.send(ProducerRecord::to("t").partition(0).value("zombie")).await.expect("is taken");
        transaction.flush().await.expect("is written");
        let mut heir = start(&client).await;
        let error = transaction.commit().await.expect_err("is refused");
        assert!(matches!(error, CommitError::NotCommitted(TransactionError::Fenced(_))), "{error}");
        assert!(!error.may_have_taken_effect());
        one_transaction(&mut heir, "heir").await.expect("commits");
        assert_eq!(committed(&broker), ["heir"], "transaction.version {version}");
    }
}

#[tokio::test]
async fn a_zombie_does_not_fence_its_heir() {
    for version in [1, 2] {
        let (broker, client) = fake(version).await;
        let mut zombie = start(&client).await;
        let transaction = zombie.begin().await.expect("begins");
        transaction.send(ProducerRecord::to("t").partition(0).value("zombie")).await.expect("is taken");
        let mut heir = start(&client).await;
        let open = heir.begin().await.expect("begins");
        open.send(ProducerRecord::to("t").partition(1).value("heir")).await.expect("is taken");
        open.flush().await.expect("is written");
        transaction.commit().await.expect_err("is refused");
        zombie.begin().await.map(drop).expect_err("stays refused, whatever it tries");
        open.commit().await.expect("was left alone");
        assert_eq!(committed(&broker), ["heir"], "transaction.version {version}");
    }
}

#[tokio::test]
async fn a_repeated_end_that_is_fenced_is_not_called_aborted() {
    let (broker, client) = fake(2).await;
    let mut producer = start(&client).await;
    // The first end commits, its answer is lost; before it is repeated another producer takes the id over.
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to("t").partition(0).value("kept")).await.expect("is taken");
    transaction.flush().await.expect("is written");
    broker.on_once(ApiKey::EndTxn, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    broker.on_once(ApiKey::EndTxn, |_| Control::Error(ErrorCode::ProducerFenced));
    let error = transaction.commit().await.expect_err("cannot be known");
    assert!(matches!(error, CommitError::OutcomeUnknown(TransactionError::Fenced(_))), "{error}");
    assert!(error.may_have_taken_effect());
    assert_eq!(committed(&broker), ["kept"]);
    assert_eq!(producer.statistics().unknown, 1);
}

#[tokio::test]
async fn an_abort_that_makes_no_sense_to_the_coordinator_still_ends() {
    for code in [ErrorCode::TransactionAbortable, ErrorCode::InvalidTxnState] {
        let (broker, client) = fake(2).await;
        let mut producer = start(&client).await;
        let transaction = producer.begin().await.expect("begins");
        transaction.send(ProducerRecord::to("t").partition(0).value("a")).await.expect("is taken");
        transaction.flush().await.expect("is written");
        broker.on_once(ApiKey::EndTxn, move |_| Control::Error(code));
        // (This broker fences who asks for a new epoch over an open transaction.)
        if let Err(error) = transaction.abort().await {
            assert_eq!(error.class(), ErrorClass::ApplicationRecoverable, "{error}");
            producer = start(&client).await;
        }
        one_transaction(&mut producer, "b").await.expect("commits");
        assert_eq!(committed(&broker), ["b"], "{code:?}");
    }
}

#[tokio::test]
async fn a_record_that_is_refused_makes_the_transaction_abortable_and_the_next_one_is_well() {
    for version in [1, 2] {
        let (broker, client) = fake(version).await;
        let mut producer = start(&client).await;
        broker.on_once(ApiKey::Produce, |_| Control::Error(ErrorCode::InvalidRecord));
        let error = one_transaction(&mut producer, "a").await.expect_err("is refused");
        assert!(matches!(error, CommitError::NotCommitted(TransactionError::RecordFailed { .. })), "{error}");
        assert_eq!(error.class(), ErrorClass::Abortable);
        let transaction = producer.begin().await.expect("begins, after the abort");
        assert_eq!(transaction.settled(), Some(Settled::Aborted));
        transaction.send(ProducerRecord::to("t").partition(0).value("b")).await.expect("is taken");
        transaction.commit().await.expect("commits");
        assert_eq!(committed(&broker), ["b"], "transaction.version {version}");
    }
}

#[tokio::test]
async fn a_lost_acknowledgement_does_not_write_twice() {
    let (broker, client) = fake(2).await;
    let producer = client.producer().linger(Duration::ZERO).start().await.expect("starts");
    for round in 0..5 {
        broker.on_once(ApiKey::Produce, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
        for number in 0..20 {
            let value = (round * 20 + number).to_string();
            drop(producer.send(ProducerRecord::to("t").partition(0).value(value)).await.expect("is taken"));
        }
        producer.flush().await.expect("all is written");
    }
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(committed(&broker), expected, "each once, in order");
}

#[tokio::test]
async fn records_keep_their_order_when_a_batch_must_be_sent_again() {
    let (broker, client) = fake(2).await;
    let producer = client.producer().linger(Duration::ZERO).batch_bytes_max(100).start().await.expect("starts");
    drop(producer.send(ProducerRecord::to("t").partition(0).value("0")).await.expect("is taken"));
    producer.flush().await.expect("is written");
    broker.on_once(ApiKey::Produce, |_| Control::Error(ErrorCode::NotEnoughReplicas));
    for number in 1..200 {
        drop(producer.send(ProducerRecord::to("t").partition(0).value(number.to_string())).await.expect("is taken"));
    }
    producer.flush().await.expect("all is written");
    let expected: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    assert_eq!(committed(&broker), expected);
}

#[tokio::test]
async fn a_record_that_is_never_acknowledged_says_that_it_may_be_written() {
    let (broker, client) = fake(2).await;
    let builder = client.producer().linger(Duration::ZERO).delivery_timeout(Duration::from_millis(600));
    let producer = builder.start().await.expect("starts");
    broker.on(ApiKey::Produce, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    let delivery = producer.send(ProducerRecord::to("t").partition(0).value("a")).await.expect("is taken");
    let error = delivery.await.expect_err("is given up");
    assert!(matches!(error, SendError::TimedOut { may_be_written: true, .. }), "{error}");
    assert!(error.may_have_taken_effect());

    broker.clear_hooks();
    let delivery = producer.send(ProducerRecord::to("t").partition(0).value("b")).await.expect("is taken");
    delivery.await.expect("the partition goes on, under a new identity");
    assert_eq!(committed(&broker), ["a", "b"]);
}

#[tokio::test]
async fn a_broker_that_forgot_the_producer_is_given_a_new_one() {
    let (broker, client) = fake(2).await;
    let producer = client.producer().linger(Duration::ZERO).start().await.expect("starts");
    for value in ["a", "b"] {
        drop(producer.send(ProducerRecord::to("t").partition(0).value(value)).await.expect("is taken"));
        producer.flush().await.expect("is written");
    }
    broker.on_once(ApiKey::Produce, |_| Control::Error(ErrorCode::UnknownProducerId));
    drop(producer.send(ProducerRecord::to("t").partition(0).value("c")).await.expect("is taken"));
    producer.flush().await.expect("is written");
    assert_eq!(committed(&broker), ["a", "b", "c"]);
    assert_eq!(broker.request_count(ApiKey::InitProducerId), 2);
}

#[tokio::test]
async fn a_batch_that_is_too_large_for_the_topic_is_cut_in_two() {
    let (broker, client) = fake(2).await;
    let producer = client.producer().linger(Duration::from_millis(50)).start().await.expect("starts");
    broker.on_once(ApiKey::Produce, |_| Control::Error(ErrorCode::MessageTooLarge));
    let mut deliveries = Vec::new();
    for number in 0..9 {
        let record = ProducerRecord::to("t").partition(0).value(number.to_string());
        deliveries.push(producer.send(record).await.expect("is taken"));
    }
    producer.flush().await.expect("all is written");
    for (number, delivery) in (0..).zip(deliveries) {
        assert_eq!(delivery.await.expect("is written").offset, Some(number));
    }
    assert_eq!(broker.request_count(ApiKey::Produce), 3);
}

#[tokio::test]
async fn a_leader_that_moved_is_found() {
    let broker = FakeBroker::start_cluster(2).await.expect("starts");
    broker.create_topic("t", 2);
    let client = connect(&broker).await;
    let producer = client.producer().linger(Duration::ZERO).start().await.expect("starts");
    for (round, node) in [0, 1, 0, 1].into_iter().enumerate() {
        for partition in 0..2 {
            broker.set_leader("t", partition, if partition == 0 { node } else { 1 - node });
            let record = ProducerRecord::to("t").partition(partition).value(round.to_string());
            drop(producer.send(record).await.expect("is taken"));
        }
        producer.flush().await.expect("all is written");
    }
    let mut consumer = consumer(&client, 2).await;
    let mut values = Vec::new();
    while values.len() < 8 {
        broker.set_leader("t", 0, i32::try_from(values.len() % 2).expect("fits"));
        for record in consumer.next_batch().await.expect("reads").expect("is not stopped") {
            values.push((record.partition(), record.offset));
        }
    }
    values.sort_unstable();
    assert_eq!(values, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]);
}

#[tokio::test]
async fn a_coordinator_that_moved_is_found() {
    let broker = FakeBroker::start_cluster(2).await.expect("starts");
    broker.set_transaction_version(2);
    broker.create_topic("t", 2);
    broker.set_txn_coordinator("id", 0);
    let client = connect(&broker).await;
    let mut producer = start(&client).await;
    one_transaction(&mut producer, "a").await.expect("commits");
    broker.set_txn_coordinator("id", 1);
    one_transaction(&mut producer, "b").await.expect("commits");
    assert_eq!(committed(&broker), ["a", "b"]);
    assert!(broker.request_nodes(ApiKey::EndTxn).contains(&1));
}

#[tokio::test]
async fn a_broker_that_crashes_and_comes_back_is_reached_again() {
    let (broker, client) = fake(2).await;
    let mut producer = start(&client).await;
    one_transaction(&mut producer, "a").await.expect("commits");
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to("t").partition(0).value("b")).await.expect("is taken");
    broker.crash(0);
    let restart = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        broker.restart(0);
    };
    let (committed_now, ()) = tokio::join!(transaction.commit(), restart);
    committed_now.expect("is committed once the broker is back");
    assert_eq!(committed(&broker), ["a", "b"]);
}

async fn consumer(client: &Client, partitions: i32) -> Consumer {
    let builder = client.consumer().read_committed().auto_offset_reset(OffsetReset::Earliest);
    let places = (0..partitions).map(|partition| (TopicPartition::new("t", partition), Position::Earliest));
    builder.fetch_wait_max(Duration::from_millis(50)).assign(places).await.expect("starts")
}

#[tokio::test]
async fn fetches_that_are_refused_or_lost_lose_and_repeat_nothing() {
    let (broker, client) = fake(2).await;
    let producer = client.producer().linger(Duration::ZERO).start().await.expect("starts");
    for number in 0..100 {
        drop(producer.send(ProducerRecord::to("t").partition(0).value(number.to_string())).await.expect("is taken"));
        if number % 10 == 0 {
            producer.flush().await.expect("is written");
        }
    }
    producer.flush().await.expect("is written");
    broker.on(ApiKey::Fetch, |request| match request.api_call_index % 5 {
        0 => Control::Disconnect,
        1 => Control::Error(ErrorCode::NotLeaderForPartition),
        2 => Control::ApplyThen(Box::new(Control::Disconnect)),
        3 => Control::Error(ErrorCode::OffsetNotAvailable),
        _ => Control::Pass,
    });
    let mut consumer = consumer(&client, 1).await;
    let mut offsets = Vec::new();
    while offsets.len() < 100 {
        offsets.extend(consumer.next_batch().await.expect("reads").expect("is not stopped").iter().map(|it| it.offset));
    }
    assert_eq!(offsets, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_damaged_batch_is_an_error_with_its_place_and_is_not_skipped() {
    let (broker, client) = fake(2).await;
    let producer = client.producer().start().await.expect("starts");
    drop(producer.send(ProducerRecord::to("t").partition(0).value("sound")).await.expect("is taken"));
    producer.flush().await.expect("is written");
    broker.on_once(ApiKey::Fetch, |_| Control::CorruptRecords);
    let mut consumer = consumer(&client, 1).await;
    let error = consumer.next_batch().await.expect_err("is damaged");
    assert!(error.to_string().contains("t-0") && error.to_string().contains("offset 0"), "{error}");
    assert_eq!(error.class(), ErrorClass::ApplicationRecoverable);
    let partition = TopicPartition::new("t", 0);
    assert_eq!(consumer.position(&partition), Some(0));
    consumer.seek(&partition, Position::Offset(0)).expect("is assigned");
    let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
    assert_eq!(batch.len(), 1);
}

#[tokio::test]
async fn an_open_transaction_holds_back_readers_of_what_is_committed() {
    let (broker, client) = fake(2).await;
    let mut producer = start(&client).await;
    one_transaction(&mut producer, "a").await.expect("commits");
    broker.hold_transaction_markers(true);
    one_transaction(&mut producer, "b").await.expect("is decided");
    assert_eq!(broker.transaction_status("id"), Some(TxnStatus::PrepareCommit));
    let mut consumer = consumer(&client, 1).await;
    let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
    assert_eq!(batch.iter().map(|record| record.offset).collect::<Vec<_>>(), [0]);
    let open = producer.begin();
    broker.hold_transaction_markers(false);
    drop(open.await.expect("begins"));
    let mut offsets = Vec::new();
    while offsets.is_empty() {
        offsets.extend(consumer.next_batch().await.expect("reads").expect("is not stopped").iter().map(|it| it.offset));
    }
    assert_eq!(offsets, [2], "behind the marker of the first");
}
