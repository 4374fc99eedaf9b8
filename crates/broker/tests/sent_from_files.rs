//! Batches that are sent from their files as they stand: over TCP an answer is the same as in process, where they are read first, and
//! nothing that becomes of the file afterwards changes it.

mod raw_client;

use atonce_broker::Broker;
use atonce_protocol::messages::fetch_request::{FetchPartition, FetchRequest};
use atonce_protocol::messages::fetch_response::FetchResponse;
use atonce_protocol::records::batches;
use bytes::Bytes;
use raw_client::{RawClient, broker, fetch_request, plain_batch};
use tokio::net::TcpStream;

/// Of each partition but the last, so many batches are in files.
const BATCHES_IN_FILES: usize = 40;

/// Three partitions with large batches in files, and one with a small batch; in the second, one more in memory; in the third,
/// an aborted transaction and one that is open.
async fn filled() -> Broker {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 4).await;
    for number in 0..BATCHES_IN_FILES {
        for partition in 0..3 {
            let value = format!("{partition}/{number}/{}", "x".repeat(7_000 + 31 * number));
            client.produce(9, None, "t", partition, plain_batch(&[&value, "and a small one"])).await;
        }
    }
    client.produce(9, None, "t", 3, plain_batch(&["alone"])).await;
    let large = "y".repeat(30_000);
    let aborted = client.init(Some("aborted")).await;
    client.append(Some("aborted"), aborted, 0, "t", 2, &[&large]).await.expect("appended");
    client.end(5, "aborted", aborted, false).await.expect("aborted");
    let open = client.init(Some("open")).await;
    client.append(Some("open"), open, 0, "t", 2, &[&large]).await.expect("appended");
    broker.shutdown().await.expect("stopped");
    broker.restart().await.expect("restarted");
    RawClient::of(&broker).produce(9, None, "t", 1, plain_batch(&["in memory"])).await;
    broker
}

async fn over_tcp(broker: &Broker) -> RawClient {
    RawClient::over(TcpStream::connect(broker.bootstrap_servers()).await.expect("it listens"))
}

/// All four partitions, from these offsets.
fn of_all(offsets: [i64; 4], partition_bytes_max: i32) -> FetchRequest {
    let mut request = fetch_request("t", 0, 0, true, 0);
    let partitions = (0..).zip(offsets).map(|(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: partition_bytes_max,
        ..Default::default()
    });
    request.topics[0].partitions = partitions.collect();
    request
}

fn records(response: &FetchResponse) -> Vec<Bytes> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.records.clone().expect("records, perhaps none")).collect()
}

#[tokio::test]
async fn an_answer_from_files_is_the_answer_from_memory_byte_for_byte() {
    let broker = filled().await;
    let (mut reading, mut sent) = (RawClient::of(&broker), over_tcp(&broker).await);
    let end = 2 * i64::try_from(BATCHES_IN_FILES).expect("few");
    let mut answers_with_files = 0;
    for version in [4, 11, 12] {
        for offsets in [[0, 0, 0, 0], [7, 40, 79, 0], [end, end, end, 1], [0, end, 3, 0], [1, 0, end, 1]] {
            for partition_bytes_max in [1, 20_000, 100_000, 1 << 20] {
                let request = of_all(offsets, partition_bytes_max);
                let expected = reading.call(version, &request).await;
                assert_eq!(
                    sent.call(version, &request).await,
                    expected,
                    "v{version} {offsets:?} {partition_bytes_max}"
                );
                answers_with_files += usize::from(records(&expected).iter().any(|records| records.len() > 16 << 10));
            }
        }
    }
    assert!(answers_with_files > 20, "{answers_with_files}: few of these answers are large enough to come from files");
}

#[tokio::test]
async fn nothing_of_an_open_transaction_is_sent_to_readers_of_committed_data() {
    let broker = filled().await;
    let mut client = over_tcp(&broker).await;
    // Two records a batch, then one record that was aborted, and its marker.
    let aborted_offset = 2 * i64::try_from(BATCHES_IN_FILES).expect("few");
    let (mut position, mut told) = (0, Vec::new());
    loop {
        let answer = client.call(12, &of_all([0, 0, position, 0], 1 << 20)).await;
        let data = &answer.responses[0].partitions[2];
        assert_eq!((data.last_stable_offset, data.high_watermark), (aborted_offset + 2, aborted_offset + 3));
        let aborted = data.aborted_transactions.as_ref().expect("a list");
        told.extend(aborted.iter().map(|it| it.first_offset));
        match batches(data.records.as_ref().expect("records")).last() {
            Some(last) => position = last.expect("whole").last_offset() + 1,
            None => break,
        }
    }
    assert_eq!(position, aborted_offset + 2, "all before the open transaction, and nothing of it");
    told.dedup();
    assert_eq!(told, [aborted_offset]);
    let mut of_the_rest = of_all([0, 0, aborted_offset + 2, 0], 1 << 20);
    assert_eq!(records(&client.call(12, &of_the_rest).await)[2], Bytes::new());
    of_the_rest.isolation_level = 0;
    assert!(records(&client.call(12, &of_the_rest).await)[2].len() > 30_000, "who reads uncommitted data gets it");
}

#[tokio::test]
async fn a_client_that_takes_its_answers_late_gets_all_of_each() {
    let broker = filled().await;
    let request = of_all([0; 4], 1 << 20);
    let expected = RawClient::of(&broker).call(12, &request).await;
    let mut late = over_tcp(&broker).await;
    // Far more than the sockets between the two can hold.
    let mut asked = Vec::new();
    for _ in 0..30 {
        asked.push(late.send(12, &request).await);
    }
    for correlation_id in asked {
        assert_eq!(late.receive::<FetchRequest>(12).await, (correlation_id, expected.clone()));
    }
}

#[tokio::test]
async fn a_topic_that_is_deleted_while_its_records_are_on_their_way_arrives_whole() {
    let broker = filled().await;
    let request = of_all([0; 4], 1 << 20);
    let mut client = RawClient::of(&broker);
    let expected = client.call(12, &request).await;
    let mut late = over_tcp(&broker).await;
    let mut asked = Vec::new();
    for _ in 0..30 {
        asked.push(late.send(12, &request).await);
    }
    // The first is under way, and the sockets hold no more than a few.
    let length = late.receive_length().await;
    client.delete_topic("t").await;
    let mut first = late.receive_bytes(length).await;
    assert_eq!(i32::from_be_bytes(*first.first_chunk().expect("a correlation id")), asked[0]);
    let _correlation_id_and_tag = first.split_to(5);
    let mut whole = 0;
    for _ in &asked[1..] {
        let (_, answer) = late.receive::<FetchRequest>(12).await;
        let found = records(&answer);
        // The topic may go between two partitions of one answer: what is there of each is whole.
        for (found, expected) in found.iter().zip(records(&expected)) {
            assert!(found.is_empty() || *found == expected, "{} bytes instead of {}", found.len(), expected.len());
        }
        whole += usize::from(found.iter().all(|records| !records.is_empty()));
    }
    assert!(first.ends_with(&[0, 0, 0]), "the first ends as an answer does");
    assert!(whole < 29, "the topic is gone for the last of them");
}
