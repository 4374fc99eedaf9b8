//! What a user sees of each error code, for each operation: krafka's fake broker answers one request with it, and the
//! whole is written down in `testdata/what_errors_do.txt`.
//!
//! Besides the table, three things must hold of every case. What the client's own table calls retriable is not seen at
//! all. Whoever does what an error's class says goes on. And what an error says did not happen did not happen.
//!
//! Not here, since the fake broker has no version of them that this client speaks, or words their refusals in a form of
//! its own: AddOffsetsToTxn, OffsetFetch, JoinGroup, ConsumerGroupHeartbeat and LeaveGroup are `error_table_of_groups`'s.
//!
//! Regenerate with `ATONCE_REGENERATE=1`, and review the difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use atonce_client::error::{Operation, Verdict, classify};
use atonce_client::{
    Client, ConsumerEvent, Error, ErrorClass, ErrorCode, GroupMetadata, OffsetReset, Position, Positions,
    ProducerRecord, TopicPartition, TransactionalProducer,
};
use krafka::testing::{ApiKey, Control, FakeBroker};
use tokio::sync::Semaphore;

/// Far more than a case needs: whoever is still there is stuck.
const STUCK: Duration = Duration::from_secs(90);

/// How many cases run at once.
const AT_ONCE: usize = 12;

async fn fake(transaction_version: i16) -> (FakeBroker, Client) {
    let broker = FakeBroker::start().await.expect("starts");
    broker.set_transaction_version(transaction_version);
    broker.create_topic("t", 1);
    let client = connect(&broker).await;
    (broker, client)
}

async fn connect(broker: &FakeBroker) -> Client {
    let builder = Client::builder(broker.bootstrap_servers()).request_timeout(Duration::from_secs(10));
    let builder = builder.retry_backoff(Duration::from_millis(5)).retry_backoff_max(Duration::from_millis(20));
    builder.connect().await.expect("the fake broker is there")
}

fn inject(broker: &FakeBroker, api: ApiKey, code: ErrorCode) {
    let code = krafka::error::ErrorCode::from_i16(code.to_i16());
    broker.on_once(api, move |_| Control::Error(code));
}

async fn start(client: &Client) -> Result<TransactionalProducer, Error> {
    Ok(client.transactional_producer("id").max_block(Duration::from_secs(40)).start().await?)
}

/// With offsets only in the new protocol: of TxnOffsetCommit the fake broker has no version of the old one.
async fn one_transaction(producer: &mut TransactionalProducer, value: &str, with_offsets: bool) -> Result<(), Error> {
    let transaction = producer.begin().await?;
    drop(transaction.send(ProducerRecord::to("t").partition(0).value(value.to_owned())).await?);
    transaction.flush().await?;
    if with_offsets {
        let mut positions = Positions::new(GroupMetadata::without_member("g"));
        positions.insert(TopicPartition::new("t", 0), 1);
        transaction.send_offsets(positions).await?;
    }
    transaction.commit().await?;
    Ok(())
}

fn committed(broker: &FakeBroker) -> Vec<String> {
    let records = broker.committed_records("t").expect("can be read");
    let text = |value: Option<_>| -> String {
        let value: bytes::Bytes = value.expect("a value");
        String::from_utf8(value.to_vec()).expect("text")
    };
    records.iter().map(|record| text(record.value.clone())).collect()
}

fn told(result: &Result<(), Error>) -> &'static str {
    match result.as_ref().map_err(Error::class) {
        Ok(()) => "-",
        Err(ErrorClass::Retriable) => "retriable",
        Err(ErrorClass::RefreshRetriable) => "refresh-retriable",
        Err(ErrorClass::Abortable) => "abortable",
        Err(ErrorClass::ApplicationRecoverable) => "application-recoverable",
        Err(ErrorClass::InvalidConfiguration) => "invalid-configuration",
    }
}

async fn in_a_transaction(operation: Operation, api: ApiKey, code: ErrorCode) -> &'static str {
    let case = format!("{operation} answered {code}");
    let with_offsets = operation == Operation::TxnOffsetCommit;
    let (broker, client) = fake(if with_offsets { 2 } else { 1 }).await;
    inject(&broker, api, code);
    let mut producer = None;
    let first = async {
        let producer = producer.insert(start(&client).await?);
        one_transaction(producer, "a", with_offsets).await
    };
    let first: Result<(), Error> = first.await;
    let seen = told(&first);
    let is_there = committed(&broker).contains(&"a".to_owned());
    match &first {
        // The broker claims that it has the record already.
        Ok(()) if code == ErrorCode::DuplicateSequenceNumber => {}
        Ok(()) => assert!(is_there, "{case}: it is said to be committed"),
        Err(error) => assert!(error.may_have_taken_effect() || !is_there, "{case}: {error}, but it is committed"),
    }
    if let Err(error) = &first {
        // Do as the class says.
        let again = match (error.class(), producer) {
            (ErrorClass::Abortable | ErrorClass::Retriable | ErrorClass::RefreshRetriable, Some(mut producer)) => {
                one_transaction(&mut producer, "b", with_offsets).await
            }
            (_, _) => match start(&client).await {
                Ok(mut producer) => one_transaction(&mut producer, "b", with_offsets).await,
                Err(error) => Err(error),
            },
        };
        again.unwrap_or_else(|again| panic!("{case}: {error}; and doing as it says: {again}"));
    }
    let values = committed(&broker);
    let mut once = values.clone();
    once.dedup();
    assert_eq!(values, once, "{case}");
    seen
}

async fn reads_and_commits(client: &Client) -> Result<(), Error> {
    let partition = TopicPartition::new("t", 0);
    let builder = client.consumer().group("g").auto_offset_reset(OffsetReset::Earliest);
    let builder = builder.call_timeout(Duration::from_secs(20));
    let mut consumer = builder.assign([(partition, Position::Earliest)]).await?;
    loop {
        let Some(batch) = consumer.next_batch().await? else { continue };
        if !batch.is_empty() {
            assert_eq!(batch.len(), 1);
            consumer.commit(batch.positions()).await?;
            return Ok(());
        }
    }
}

async fn is_a_member(broker: &FakeBroker, client: &Client, operation: Operation) -> Result<(), Error> {
    let builder = client.consumer().group("g").auto_offset_reset(OffsetReset::Earliest);
    let builder = builder.call_timeout(Duration::from_secs(20)).heartbeat_interval(Duration::from_millis(10));
    let mut consumer = builder.subscribe(["t"]).await?;
    let of_heartbeat = operation == Operation::Heartbeat;
    let (mut has_waited, mut looks, mut joins) = (!of_heartbeat, 0, 0);
    loop {
        // The answer to the first heartbeat has been dealt with once the next one is out, or the group is joined again. (Or an error tells of it.)
        let is_dealt_with = !of_heartbeat
            || broker.request_count(ApiKey::Heartbeat) >= 2
            || broker.request_count(ApiKey::JoinGroup) > joins;
        match consumer.next_event(Duration::from_secs(1)).await {
            Ok(Some(ConsumerEvent::Assigned(..))) if has_waited => return Ok(()),
            // Nothing came of it.
            Ok(None) if of_heartbeat && has_waited && is_dealt_with => return Ok(()),
            Ok(_) => {}
            // The fake broker cannot tell stable offsets; this is about membership only.
            Err(error) if error.to_string().contains("OffsetFetch") => {
                looks += u32::from(has_waited && is_dealt_with);
                if looks > 5 {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error.into()),
        }
        while !has_waited && !consumer.assignment().is_empty() {
            has_waited = broker.request_count(ApiKey::Heartbeat) >= 1;
            joins = broker.request_count(ApiKey::JoinGroup);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn in_a_consumer(operation: Operation, api: ApiKey, code: ErrorCode) -> &'static str {
    let case = format!("{operation} answered {code}");
    let (broker, client) = fake(2).await;
    let producer = client.producer().start().await.expect("starts");
    drop(producer.send(ProducerRecord::to("t").partition(0).value("a")).await.expect("is taken"));
    producer.close().await.expect("is written");
    // One that has not asked anything yet.
    let client = connect(&broker).await;
    inject(&broker, api, code);
    let of_membership = matches!(operation, Operation::SyncGroup | Operation::Heartbeat);
    let attempt = || async {
        if of_membership { is_a_member(&broker, &client, operation).await } else { reads_and_commits(&client).await }
    };
    let first = attempt().await;
    if let Err(error) = &first {
        attempt().await.unwrap_or_else(|again| panic!("{case}: {error}; and a new consumer: {again}"));
    }
    told(&first)
}

const IN_A_TRANSACTION: &[(Operation, ApiKey)] = &[
    (Operation::InitProducerId, ApiKey::InitProducerId),
    (Operation::AddPartitionsToTxn, ApiKey::AddPartitionsToTxn),
    (Operation::Produce, ApiKey::Produce),
    (Operation::TxnOffsetCommit, ApiKey::TxnOffsetCommit),
    (Operation::EndTxn, ApiKey::EndTxn),
];

const IN_A_CONSUMER: &[(Operation, ApiKey)] = &[
    (Operation::FindCoordinator, ApiKey::FindCoordinator),
    (Operation::Metadata, ApiKey::Metadata),
    (Operation::SyncGroup, ApiKey::SyncGroup),
    (Operation::Heartbeat, ApiKey::Heartbeat),
    (Operation::ListOffsets, ApiKey::ListOffsets),
    (Operation::Fetch, ApiKey::Fetch),
    (Operation::OffsetCommit, ApiKey::OffsetCommit),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_error_code_of_every_operation_does_what_is_written_down() {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut cases = tokio::task::JoinSet::new();
    for code in ErrorCode::ALL.iter().copied().filter(|code| code.is_error()) {
        // What the fake broker cannot say.
        if i16::from(krafka::error::ErrorCode::from_i16(code.to_i16())) != code.to_i16() {
            continue;
        }
        let transactional = IN_A_TRANSACTION.iter().map(|case| (true, *case));
        for (is_transactional, (operation, api)) in transactional.chain(IN_A_CONSUMER.iter().map(|case| (false, *case)))
        {
            let permits = Arc::clone(&permits);
            cases.spawn(async move {
                let _permit = permits.acquire_owned().await.expect("is not closed");
                let case = async {
                    if is_transactional {
                        in_a_transaction(operation, api, code).await
                    } else {
                        in_a_consumer(operation, api, code).await
                    }
                };
                let seen = tokio::time::timeout(STUCK, case).await;
                let seen = seen.unwrap_or_else(|_| panic!("{operation} answered {code}: stuck"));
                (operation, code, seen)
            });
        }
    }
    let mut table: BTreeMap<Operation, BTreeMap<i16, (ErrorCode, &'static str)>> = BTreeMap::new();
    let mut failures = Vec::new();
    while let Some(case) = cases.join_next().await {
        match case {
            Ok((operation, code, seen)) => {
                table.entry(operation).or_default().insert(code.to_i16(), (code, seen));
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    assert!(failures.is_empty(), "{} cases failed", failures.len());

    let mut text = String::from(
        "# What a user sees when one request is answered with a code: nothing (-), or an error's class.\n",
    );
    for (operation, codes) in &table {
        for (code, seen) in codes.values() {
            let verdict = classify(*operation, *code);
            if matches!(verdict, Verdict::Retry | Verdict::RefreshThenRetry) {
                assert_eq!(*seen, "-", "{operation} answered {code}, which is to be tried again");
            }
            writeln!(text, "{operation} {} {seen}", code.name()).expect("writes to a string");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/what_errors_do.txt");
    if std::env::var_os("ATONCE_REGENERATE").is_some() {
        std::fs::write(path, &text).expect("the table is written");
    }
    let kept = std::fs::read_to_string(path).expect("testdata/what_errors_do.txt is there");
    assert_eq!(kept, text);
}
