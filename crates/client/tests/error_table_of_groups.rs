//! What a user sees of each error code, for the operations that `error_table` cannot answer with it: our own broker is asked, and a
//! proxy puts the code into the first answer. All of it is written down in `testdata/what_errors_do_in_groups.txt`.
//!
//! As there: what the client's own table calls retriable is not seen at all, and whoever does what an error's class says goes on.
//!
//! Of the many codes that mean nothing to an operation, and so are the user's, one in eight is tried; all of them with
//! `ATONCE_TEST_ALL_CODES=1`, and when the text is written anew: `ATONCE_REGENERATE=1`, and review the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use atonce_broker::{Broker, Durability};
use atonce_client::error::{Operation, Verdict, classify};
use atonce_client::{
    Client, Consumer, ConsumerEvent, Error, ErrorClass, ErrorCode, GroupMetadata, GroupProtocol, NewTopic, OffsetReset,
    Positions, ProducerRecord, TopicPartition, TransactionalProducer,
};
use atonce_protocol::{AnyResponse, ApiKey};
use atonce_testkit::proxy::Proxy;
use tokio::sync::Semaphore;

/// Far more than a case needs: whoever is still there is stuck.
const STUCK: Duration = Duration::from_secs(180);

/// How many cases run at once.
const AT_ONCE: usize = 32;

const OPERATIONS: [(Operation, ApiKey); 5] = [
    (Operation::AddOffsetsToTxn, ApiKey::AddOffsetsToTxn),
    (Operation::OffsetFetch, ApiKey::OffsetFetch),
    (Operation::JoinGroup, ApiKey::JoinGroup),
    (Operation::ConsumerGroupHeartbeat, ApiKey::ConsumerGroupHeartbeat),
    (Operation::LeaveGroup, ApiKey::LeaveGroup),
];

/// Puts the code into the first answer of this API; returns how often it was put.
fn inject(proxy: &Proxy, api: ApiKey, code: ErrorCode) -> Arc<AtomicUsize> {
    let (is_done, count) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    proxy.change_answers(api, move |answer, _| {
        if is_done.swap(true, Ordering::Relaxed) {
            return;
        }
        counted.fetch_add(1, Ordering::Relaxed);
        let code = code.to_i16();
        match answer {
            AnyResponse::AddOffsetsToTxn(answer) => answer.error_code = code,
            AnyResponse::OffsetFetch(answer) => {
                for group in &mut answer.groups {
                    group.error_code = code;
                    group.topics.clear();
                }
            }
            AnyResponse::JoinGroup(answer) => answer.error_code = code,
            AnyResponse::ConsumerGroupHeartbeat(answer) => {
                answer.error_code = code;
                answer.assignment = None;
            }
            AnyResponse::LeaveGroup(answer) => {
                answer.error_code = code;
                answer.members.clear();
            }
            _ => unreachable!("only these are changed"),
        }
    });
    count
}

async fn connect(proxy: &Proxy) -> Client {
    let builder = Client::builder(proxy.bootstrap_servers()).request_timeout(Duration::from_secs(30));
    let builder = builder.retry_backoff(Duration::from_millis(5)).retry_backoff_max(Duration::from_millis(20));
    builder.connect().await.expect("the broker is there")
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

async fn start(client: &Client, id: &str) -> Result<TransactionalProducer, Error> {
    Ok(client.transactional_producer(id).max_block(Duration::from_secs(40)).start().await?)
}

async fn offsets_in_a_transaction(producer: &mut TransactionalProducer, group: &str) -> Result<(), Error> {
    let transaction = producer.begin().await?;
    let mut positions = Positions::new(GroupMetadata::without_member(group));
    positions.insert(TopicPartition::new("t", 0), 1);
    transaction.send_offsets(positions).await?;
    transaction.commit().await?;
    Ok(())
}

async fn in_a_transaction(proxy: &Proxy, name: &str) -> Result<(), Error> {
    // Positions are added by a request of their own in the old protocol only.
    proxy.change_answers(ApiKey::ApiVersions, |answer, _| {
        if let AnyResponse::ApiVersions(answer) = answer {
            answer.finalized_features.retain(|feature| feature.name != "transaction.version");
        }
    });
    let client = connect(proxy).await;
    let mut producer = start(&client, name).await.expect("starts");
    let first = offsets_in_a_transaction(&mut producer, name).await;
    if let Err(error) = &first {
        let again = match error.class() {
            ErrorClass::Abortable | ErrorClass::Retriable | ErrorClass::RefreshRetriable => {
                offsets_in_a_transaction(&mut producer, name).await
            }
            ErrorClass::ApplicationRecoverable | ErrorClass::InvalidConfiguration => {
                let mut producer = start(&client, name).await.expect("starts again");
                offsets_in_a_transaction(&mut producer, name).await
            }
        };
        again.unwrap_or_else(|again| panic!("{name}: {error}; and doing as it says: {again}"));
    }
    first
}

async fn member(client: &Client, group: &str, protocol: GroupProtocol) -> Consumer {
    let builder = client.consumer().group(group).auto_offset_reset(OffsetReset::Earliest).group_protocol(protocol);
    let builder = builder.call_timeout(Duration::from_secs(40)).heartbeat_interval(Duration::from_millis(50));
    builder.subscribe(["t"]).await.expect("starts")
}

/// Events until there is a record.
async fn reads(consumer: &mut Consumer) -> Result<(), Error> {
    loop {
        match consumer.next_event(Duration::from_secs(1)).await? {
            Some(ConsumerEvent::Batch(batch)) if !batch.is_empty() => return Ok(()),
            Some(
                ConsumerEvent::Batch(_)
                | ConsumerEvent::Assigned(..)
                | ConsumerEvent::Revoking(_)
                | ConsumerEvent::Lost(_),
            )
            | None => {}
        }
    }
}

async fn in_a_group(proxy: &Proxy, name: &str, operation: Operation) -> Result<(), Error> {
    let client = connect(proxy).await;
    let protocol = match operation {
        Operation::ConsumerGroupHeartbeat | Operation::OffsetFetch => GroupProtocol::Consumer,
        _ => GroupProtocol::Classic,
    };
    let mut consumer = member(&client, name, protocol).await;
    let mut first = reads(&mut consumer).await;
    let closed = consumer.close().await.map_err(Error::from);
    if operation == Operation::LeaveGroup {
        first = first.and(closed);
    }
    if let Err(error) = &first {
        // A group of its own: the member that was refused may still stand in the other for a while.
        let mut again = member(&client, &format!("{name} again"), protocol).await;
        let again = reads(&mut again).await;
        again.unwrap_or_else(|again| panic!("{name}: {error}; and a new consumer: {again}"));
    }
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_code_of_every_operation_of_groups_does_what_is_written_down() {
    let broker = Broker::builder().temporary().durability(Durability::Os);
    let broker = broker.property("group.initial.rebalance.delay.ms", "0");
    let broker = broker.property("group.consumer.min.heartbeat.interval.ms", "100");
    let broker = broker.property("group.consumer.heartbeat.interval.ms", "100");
    let broker = broker.start().await.expect("starts");
    let client = Client::builder(broker.bootstrap_servers()).connect().await.expect("the broker is there");
    client.admin().create_topics(&[NewTopic::new("t", 1)]).await.expect("is answered");
    let producer = client.producer().start().await.expect("starts");
    drop(producer.send(ProducerRecord::to("t").partition(0).value("a")).await.expect("is taken"));
    producer.close().await.expect("is written");

    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut cases = tokio::task::JoinSet::new();
    let is_written = std::env::var_os("ATONCE_REGENERATE").is_some();
    let are_all = is_written || std::env::var_os("ATONCE_TEST_ALL_CODES").is_some();
    for code in ErrorCode::ALL.iter().copied().filter(|code| code.is_error()) {
        for (operation, api) in OPERATIONS {
            if !are_all && classify(operation, code) == Verdict::Fatal && code.to_i16() % 8 != 0 {
                continue;
            }
            let (permits, servers) = (Arc::clone(&permits), broker.bootstrap_servers());
            cases.spawn(async move {
                let _permit = permits.acquire_owned().await.expect("is not closed");
                let name = format!("{operation} answered {code}");
                let case = async {
                    let proxy = Proxy::start(&servers, 1).await.expect("starts");
                    let put = inject(&proxy, api, code);
                    let seen = if operation == Operation::AddOffsetsToTxn {
                        in_a_transaction(&proxy, &name).await
                    } else {
                        in_a_group(&proxy, &name, operation).await
                    };
                    assert_eq!(put.load(Ordering::Relaxed), 1, "{name}: it was asked");
                    told(&seen)
                };
                let seen = tokio::time::timeout(STUCK, case).await.unwrap_or_else(|_| panic!("{name}: stuck"));
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

    let mut rows = vec![
        "# What a user sees when one request is answered with a code: nothing (-), or an error's class.".to_owned(),
    ];
    for (operation, codes) in &table {
        for (code, seen) in codes.values() {
            let verdict = classify(*operation, *code);
            if matches!(verdict, Verdict::Done | Verdict::Retry | Verdict::RefreshThenRetry) {
                assert_eq!(*seen, "-", "{operation} answered {code}, which is to be tried again");
            }
            rows.push(format!("{operation} {} {seen}", code.name()));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/what_errors_do_in_groups.txt");
    if is_written {
        std::fs::write(path, rows.join("\n") + "\n").expect("the table is written");
    }
    let kept = std::fs::read_to_string(path).expect("testdata/what_errors_do_in_groups.txt is there");
    if are_all {
        assert_eq!(kept.lines().collect::<Vec<_>>(), rows);
    }
    let kept: BTreeSet<&str> = kept.lines().collect();
    let others: Vec<&String> = rows.iter().filter(|row| !kept.contains(row.as_str())).collect();
    assert!(others.is_empty(), "not what is written down: {others:?}");
}
