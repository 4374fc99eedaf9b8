//! Fetch sessions over the wire, in names and in ids: what Apache Kafka 4.4 answered to the same requests.

mod raw_client;

use atonce_kernel::Uuid;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use atonce_protocol::messages::fetch_response::FetchResponse;
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use raw_client::{RawClient, broker, plain_batch};

struct Fetcher {
    client: RawClient,
    id: Uuid,
    version: i16,
}

impl Fetcher {
    async fn request(&mut self, session: (i32, i32), asked: &[(i32, i64)], forgotten: &[i32]) -> FetchResponse {
        self.request_in(self.version, session, asked, forgotten).await
    }

    async fn request_in(
        &mut self,
        version: i16,
        (session_id, session_epoch): (i32, i32),
        asked: &[(i32, i64)],
        forgotten: &[i32],
    ) -> FetchResponse {
        let (topic, topic_id) = if version >= 13 { (String::new(), self.id) } else { ("t".to_owned(), Uuid::ZERO) };
        let partitions: Vec<FetchPartition> = asked
            .iter()
            .map(|(partition, fetch_offset)| FetchPartition {
                partition: *partition,
                fetch_offset: *fetch_offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            })
            .collect();
        let mut request = FetchRequest { max_bytes: 1 << 20, session_id, session_epoch, ..Default::default() };
        if !partitions.is_empty() {
            request.topics.push(FetchTopic { topic: topic.clone(), topic_id, partitions, ..Default::default() });
        }
        if !forgotten.is_empty() {
            let partitions = forgotten.to_vec();
            request.forgotten_topics_data.push(ForgottenTopic { topic, topic_id, partitions, ..Default::default() });
        }
        self.client.call(version, &request).await
    }
}

/// Error of the whole, session, and each partition with its error and whether it has records.
fn told(response: &FetchResponse) -> (ErrorCode, i32, Vec<(i32, ErrorCode, bool)>) {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions).map(|it| {
        let has_records = it.records.as_ref().is_some_and(|records| !records.is_empty());
        (it.partition_index, ErrorCode::from_wire(it.error_code), has_records)
    });
    (ErrorCode::from_wire(response.error_code), response.session_id, partitions.collect())
}

#[tokio::test]
async fn a_session_answers_what_changed_and_every_fault_as_kafka_does() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let topics = Some(vec![MetadataRequestTopic { name: Some("t".to_owned()), ..Default::default() }]);
    let id = client.call(12, &MetadataRequest { topics, ..Default::default() }).await.topics[0].topic_id;
    let mut writer = RawClient::of(&broker);
    for (round, version) in (0..).zip([7, 12, 13, 18]) {
        let end = round;
        let mut fetcher = Fetcher { client: RawClient::of(&broker), id, version };
        let good = ErrorCode::None;
        let first = fetcher.request((0, 0), &[(0, end), (1, 0)], &[]).await;
        let (code, session, partitions) = told(&first);
        assert_eq!((code, partitions), (good, vec![(0, good, false), (1, good, false)]));
        assert_ne!(session, 0);
        assert_eq!(told(&fetcher.request((session, 1), &[], &[]).await), (good, session, vec![]));
        assert_eq!(told(&fetcher.request((session, 2), &[(0, end)], &[]).await), (good, session, vec![]));
        let refused = |code| (code, 0, vec![]);
        let repeated = fetcher.request((session, 2), &[], &[]).await;
        assert_eq!(told(&repeated), refused(ErrorCode::InvalidFetchSessionEpoch));

        assert_eq!(writer.produce(9, None, "t", 0, plain_batch(&["v"])).await.error_code, 0);
        let news = fetcher.request((session, 3), &[], &[]).await;
        assert_eq!(told(&news), (good, session, vec![(0, good, true)]));
        // Not taken further yet: the same again.
        let again = fetcher.request((session, 4), &[], &[]).await;
        assert_eq!(told(&again), (good, session, vec![(0, good, true)]));
        assert_eq!(told(&fetcher.request((session, 5), &[(0, end + 1)], &[]).await), (good, session, vec![]));

        let out = (1, ErrorCode::OffsetOutOfRange, false);
        assert_eq!(told(&fetcher.request((session, 6), &[(1, 99)], &[]).await), (good, session, vec![out]));
        assert_eq!(told(&fetcher.request((session, 7), &[], &[]).await), (good, session, vec![out]));
        assert_eq!(told(&fetcher.request((session, 8), &[], &[1]).await), (good, session, vec![]));
        let unknown = (8, ErrorCode::UnknownTopicOrPartition, false);
        assert_eq!(told(&fetcher.request((session, 9), &[(8, 0)], &[]).await), (good, session, vec![unknown]));
        assert_eq!(told(&fetcher.request((session, 10), &[], &[8]).await), (good, session, vec![]));

        let mixed = fetcher.request_in(if version < 13 { 13 } else { 12 }, (session, 11), &[], &[]).await;
        assert_eq!(told(&mixed), refused(ErrorCode::FetchSessionTopicIdError));
        for (other, epoch) in [(session ^ 1, 1), (0, 1)] {
            let strange = fetcher.request((other, epoch), &[], &[]).await;
            assert_eq!(told(&strange), refused(ErrorCode::FetchSessionIdNotFound));
        }
        let closing = fetcher.request((session, -1), &[(0, end + 1)], &[]).await;
        assert_eq!(told(&closing), (good, 0, vec![(0, good, false)]));
        let gone = fetcher.request((session, 11), &[], &[]).await;
        assert_eq!(told(&gone), refused(ErrorCode::FetchSessionIdNotFound));
        let alone = fetcher.request((0, -1), &[(0, end + 1)], &[]).await;
        assert_eq!(told(&alone), (good, 0, vec![(0, good, false)]));
    }
}

#[tokio::test]
async fn a_waiting_session_is_woken_by_what_is_written_and_told_only_that() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 3).await;
    let asked = |partition| FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    let partitions = (0..3).map(asked).collect();
    let topic = FetchTopic { topic: "t".to_owned(), partitions, ..Default::default() };
    let full = FetchRequest { max_bytes: 1 << 20, session_epoch: 0, topics: vec![topic], ..Default::default() };
    let session_id = client.call(12, &full).await.session_id;
    let waiting = FetchRequest {
        max_bytes: 1 << 20,
        min_bytes: 1,
        max_wait_ms: 60_000,
        session_id,
        session_epoch: 1,
        ..Default::default()
    };
    client.send(12, &waiting).await;
    RawClient::of(&broker).produce(9, None, "t", 2, plain_batch(&["v"])).await;
    let (_, response) = client.receive::<FetchRequest>(12).await;
    assert_eq!(told(&response), (ErrorCode::None, session_id, vec![(2, ErrorCode::None, true)]));
}
