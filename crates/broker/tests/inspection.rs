//! What administrators and clients look at: transactions, producers, groups, pages of topics, ends of epochs, coordinators. And
//! requests that name very much at once, which are taken apart before they reach the one thread that decides.

mod raw_client;

use std::time::{SystemTime, UNIX_EPOCH};

use atonce_kernel::{ProducerIdentity, Uuid};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use atonce_protocol::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use atonce_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use atonce_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use atonce_protocol::messages::describe_cluster_request::DescribeClusterRequest;
use atonce_protocol::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest as ProducersOf};
use atonce_protocol::messages::describe_producers_response::ProducerState;
use atonce_protocol::messages::describe_topic_partitions_request::{
    Cursor, DescribeTopicPartitionsRequest, TopicRequest as PartitionsOf,
};
use atonce_protocol::messages::describe_transactions_request::DescribeTransactionsRequest;
use atonce_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::messages::list_groups_request::ListGroupsRequest;
use atonce_protocol::messages::list_transactions_request::ListTransactionsRequest;
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use atonce_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use atonce_protocol::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use raw_client::{RawClient, batch, broker, plain_batch};

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("fits")
}

#[tokio::test]
async fn transactions_are_listed_by_state_by_producer_and_by_age() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let idle = client.init(Some("idle")).await;
    for (id, ends) in [("open", false), ("done", true)] {
        let producer = client.init(Some(id)).await;
        client.append(Some(id), producer, 0, "t", 0, &["v"]).await.expect("appended");
        if ends {
            client.end(5, id, producer, true).await.expect("committed");
        }
    }
    let mut list = async |states: &[&str], producers: &[i64], duration_filter: i64| {
        let request = ListTransactionsRequest {
            state_filters: states.iter().map(|state| (*state).to_owned()).collect(),
            producer_id_filters: producers.to_vec(),
            duration_filter,
            ..Default::default()
        };
        let response = client.call(2, &request).await;
        let mut ids: Vec<String> = response.transaction_states.into_iter().map(|it| it.transactional_id).collect();
        ids.sort();
        (ids.join(" "), response.unknown_state_filters.join(" "))
    };
    let answer = |ids: &str, unknown: &str| (ids.to_owned(), unknown.to_owned());
    assert_eq!(list(&[], &[], -1).await, answer("done idle open", ""));
    assert_eq!(list(&["Ongoing"], &[], -1).await, answer("open", ""));
    assert_eq!(list(&["CompleteCommit", "Empty"], &[], -1).await, answer("done idle", ""));
    assert_eq!(list(&["Ongoing", "Gone"], &[], -1).await, answer("open", "Gone"));
    assert_eq!(list(&["Gone"], &[], -1).await, answer("", "Gone"), "nothing, and not everything");
    assert_eq!(list(&[], &[idle.id.0], -1).await, answer("idle", ""));
    assert_eq!(list(&["Ongoing"], &[], 3_600_000).await, answer("", ""), "it is not that old");
}

#[tokio::test]
async fn a_transaction_and_its_producer_are_described_while_it_is_open_and_after() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let producer = client.init_for(Some("id"), 70_000).await;
    let plain = client.init(None).await;
    client.append(None, plain, 0, "t", 1, &["v"]).await.expect("appended");
    let before = now_ms();
    client.append(Some("id"), producer, 0, "t", 1, &["a", "b"]).await.expect("appended");
    let after = now_ms();
    let request = DescribeTransactionsRequest {
        transactional_ids: vec!["id".to_owned(), "nobody".to_owned()],
        ..Default::default()
    };
    let described = client.call(0, &request).await.transaction_states;
    assert_eq!(ErrorCode::from_wire(described[1].error_code), ErrorCode::TransactionalIdNotFound);
    let open = &described[0];
    assert_eq!((open.error_code, open.transaction_state.as_str(), open.transaction_timeout_ms), (0, "Ongoing", 70_000));
    assert_eq!((open.producer_id, open.producer_epoch), (producer.id.0, producer.epoch.0));
    assert!((before..=after).contains(&open.transaction_start_time_ms), "{open:?}");
    assert_eq!((open.topics.len(), open.topics[0].partitions.as_slice()), (1, [1].as_slice()));
    // Offset 0 is the other's. No marker of any coordinator was seen yet.
    let state = producer_of(&mut client, producer).await;
    assert_eq!((state.current_txn_start_offset, state.last_sequence, state.coordinator_epoch), (1, 1, -1));
    assert_eq!(producer_of(&mut client, plain).await.current_txn_start_offset, -1);
    client.end(5, "id", producer, true).await.expect("committed");
    let state = producer_of(&mut client, producer).await;
    assert_eq!((state.current_txn_start_offset, state.coordinator_epoch), (-1, 0));
    assert_eq!(state.producer_epoch, i32::from(producer.epoch.0) + 1);
}

/// What partition 1 of `t` knows of a producer.
async fn producer_of(client: &mut RawClient, producer: ProducerIdentity) -> ProducerState {
    let topic = ProducersOf { name: "t".to_owned(), partition_indexes: vec![1], ..Default::default() };
    let response = client.call(0, &DescribeProducersRequest { topics: vec![topic], ..Default::default() }).await;
    let mut states = response.topics[0].partitions[0].active_producers.iter();
    states.find(|state| state.producer_id == producer.id.0).expect("it has written").clone()
}

/// `transaction.partition.verification.enable`: a writer of the older protocol that never added the partition to its transaction. No
/// coordinator will ever end it there, so readers of what is committed wait until an administrator does.
#[tokio::test]
async fn a_batch_of_no_transaction_is_refused_and_without_verification_hangs_until_a_marker_is_written_by_hand() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let producer = client.init(Some("late")).await;
    let refused = client.produce(11, Some("late"), "t", 1, batch(producer, 0, true, &["x"])).await;
    assert_eq!(ErrorCode::from_wire(refused.error_code), ErrorCode::TransactionAbortable);
    set_for_all(&mut client, "transaction.partition.verification.enable", "false").await;
    let taken = client.produce(11, Some("late"), "t", 1, batch(producer, 0, true, &["x"])).await;
    assert_eq!((taken.error_code, taken.base_offset), (0, 0));
    assert_eq!(client.produce(9, None, "t", 1, plain_batch(&["y"])).await.error_code, 0);
    // Its coordinator knows of nothing to end, and ends nothing.
    assert_eq!(client.end(4, "late", producer, false).await, Err(ErrorCode::InvalidTxnState));
    assert_eq!(producer_of(&mut client, producer).await.current_txn_start_offset, 0);
    assert_eq!(client.read("t", 1, true).await, [] as [&str; 0]);
    let marker = WritableTxnMarker {
        producer_id: producer.id.0,
        producer_epoch: producer.epoch.0,
        transaction_result: false,
        topics: vec![WritableTxnMarkerTopic { name: "t".to_owned(), partition_indexes: vec![1], ..Default::default() }],
        ..Default::default()
    };
    let written = client.call(1, &WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() }).await;
    assert_eq!(written.markers[0].topics[0].partitions[0].error_code, 0);
    assert_eq!(producer_of(&mut client, producer).await.current_txn_start_offset, -1);
    assert_eq!(client.read("t", 1, true).await, ["y"]);
    // The newer protocol adds what it writes to, whatever is set.
    let taken = client.append(Some("late"), producer, 1, "t", 1, &["z"]).await;
    assert_eq!(taken, Ok(3));
    client.end(5, "late", producer, true).await.expect("its coordinator knows of it");
    assert_eq!(client.read("t", 1, true).await, ["y", "z"]);
    set_for_all(&mut client, "transaction.partition.verification.enable", "true").await;
    let producer = client.init(Some("late")).await;
    let refused = client.produce(11, Some("late"), "t", 1, batch(producer, 0, true, &["w"])).await;
    assert_eq!(ErrorCode::from_wire(refused.error_code), ErrorCode::TransactionAbortable);
}

async fn set_for_all(client: &mut RawClient, key: &str, value: &str) {
    const BROKER: i8 = 4;
    let change = AlterableConfig { name: key.to_owned(), value: Some(value.to_owned()), ..Default::default() };
    let resource = AlterConfigsResource { resource_type: BROKER, configs: vec![change], ..Default::default() };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    assert_eq!(client.call(1, &request).await.responses[0].error_code, 0, "{key}={value}");
}

#[tokio::test]
async fn an_epoch_ends_where_the_log_does_whatever_is_open() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["a", "b"]).await.expect("appended");
    for (partition, known, asked, expected) in [
        (0, -1, 0, (ErrorCode::None, 0, 2)),
        (0, 0, 0, (ErrorCode::None, 0, 2)),
        (0, -1, 3, (ErrorCode::None, -1, -1)),
        (0, 5, 0, (ErrorCode::UnknownLeaderEpoch, -1, -1)),
        (9, -1, 0, (ErrorCode::UnknownTopicOrPartition, -1, -1)),
    ] {
        let partitions = vec![OffsetForLeaderPartition {
            partition,
            current_leader_epoch: known,
            leader_epoch: asked,
            ..Default::default()
        }];
        let topics = vec![OffsetForLeaderTopic { topic: "t".to_owned(), partitions, ..Default::default() }];
        let response = client.call(4, &OffsetForLeaderEpochRequest { topics, ..Default::default() }).await;
        let found = &response.topics[0].partitions[0];
        assert_eq!((ErrorCode::from_wire(found.error_code), found.leader_epoch, found.end_offset), expected);
    }
}

#[tokio::test]
async fn coordinators_are_found_for_groups_and_transactions_and_nothing_else() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    for (key_type, expected) in [(0, ErrorCode::None), (1, ErrorCode::None), (2, ErrorCode::InvalidRequest)] {
        let keys = vec!["a".to_owned(), "b".to_owned()];
        let request = FindCoordinatorRequest { key_type, coordinator_keys: keys, ..Default::default() };
        let found = client.call(4, &request).await.coordinators;
        assert_eq!(found.len(), 2);
        for coordinator in found {
            assert_eq!(ErrorCode::from_wire(coordinator.error_code), expected, "type {key_type}");
            let here = (1, i32::from(broker.address().port()));
            let expected = if expected == ErrorCode::None { here } else { (-1, -1) };
            assert_eq!((coordinator.node_id, coordinator.port), expected, "type {key_type}");
        }
    }
    let request = DescribeClusterRequest { endpoint_type: 2, ..Default::default() };
    let code = client.call(1, &request).await.error_code;
    assert_eq!(ErrorCode::from_wire(code), ErrorCode::MismatchedEndpointType);
}

#[tokio::test]
async fn partitions_of_many_topics_come_in_pages_without_gap_or_repetition() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("a", 3).await;
    client.create_topic("b", 2).await;
    for limit in 1..=6 {
        let (mut found, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let topics = ["b", "a"].map(|name| PartitionsOf { name: name.to_owned(), ..Default::default() }).to_vec();
            let request = DescribeTopicPartitionsRequest {
                topics,
                response_partition_limit: limit,
                cursor: cursor.take(),
                ..Default::default()
            };
            let response = client.call(0, &request).await;
            let of = |topic: &str| format!("{topic}-");
            for topic in &response.topics {
                let name = topic.name.as_deref().expect("a name");
                found.extend(topic.partitions.iter().map(|it| format!("{}{}", of(name), it.partition_index)));
            }
            pages += 1;
            let Some(next) = response.next_cursor else { break };
            assert!(pages < 10, "it does not end");
            cursor = Some(Cursor {
                topic_name: next.topic_name,
                partition_index: next.partition_index,
                ..Default::default()
            });
        }
        assert_eq!(found, ["a-0", "a-1", "a-2", "b-0", "b-1"], "{limit} a page");
    }
}

#[tokio::test]
async fn what_one_may_do_is_told_to_who_asks() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    for is_asked in [false, true] {
        let topics = Some(vec![MetadataRequestTopic { name: Some("t".to_owned()), ..Default::default() }]);
        let request = MetadataRequest { topics, include_topic_authorized_operations: is_asked, ..Default::default() };
        let told = client.call(9, &request).await.topics[0].topic_authorized_operations;
        assert_eq!(told, if is_asked { 0b1101_1111_1000 } else { i32::MIN });
    }
}

#[tokio::test]
async fn what_is_only_tried_or_not_allowed_changes_nothing() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let topic = CreatePartitionsTopic { name: "t".to_owned(), count: 3, assignments: None, ..Default::default() };
    let mut request =
        CreatePartitionsRequest { topics: vec![topic], timeout_ms: 10_000, validate_only: true, ..Default::default() };
    assert_eq!(client.call(3, &request).await.results[0].error_code, 0);
    let gone = client.fetch("t", 2, 0, false).await;
    let code = ErrorCode::from_wire(gone.responses[0].partitions[0].error_code);
    assert_eq!(code, ErrorCode::UnknownTopicOrPartition, "it was only tried");
    request.validate_only = false;
    assert_eq!(client.call(3, &request).await.results[0].error_code, 0);
    assert_eq!(client.read("t", 2, false).await, [""; 0]);
    // A topic named in two ways at once.
    let both = DeleteTopicState { name: Some("t".to_owned()), topic_id: Uuid([7; 16]), ..Default::default() };
    let deleted = client.call(6, &DeleteTopicsRequest { topics: vec![both], ..Default::default() }).await;
    assert_eq!(ErrorCode::from_wire(deleted.responses[0].error_code), ErrorCode::InvalidRequest);
    client.end_offset("t", 0, false).await;
    // The coordinators' own.
    client.init(Some("id")).await;
    let partitions =
        (0..4).map(|index| DeleteRecordsPartition { partition_index: index, offset: -1, ..Default::default() });
    let topics = vec![DeleteRecordsTopic {
        name: "__transaction_state".to_owned(),
        partitions: partitions.collect(),
        ..Default::default()
    }];
    let response = client.call(2, &DeleteRecordsRequest { topics, ..Default::default() }).await;
    for partition in &response.topics[0].partitions {
        assert_eq!(ErrorCode::from_wire(partition.error_code), ErrorCode::InvalidTopicException);
    }
}

#[tokio::test]
async fn groups_are_listed_by_state() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.send_offset("id", producer, "g", "t", 1).await.expect("sent");
    client.end(5, "id", producer, true).await.expect("committed");
    for (states, expected) in [(vec![], 1), (vec!["empty"], 1), (vec!["Stable"], 0), (vec!["Stable", "Empty"], 1)] {
        let states_filter = states.iter().map(|state| (*state).to_owned()).collect();
        let listed = client.call(5, &ListGroupsRequest { states_filter, ..Default::default() }).await;
        assert_eq!((listed.error_code, listed.groups.len()), (0, expected), "{states:?}");
    }
}

#[tokio::test]
async fn a_partition_that_is_named_again_and_again_joins_a_transaction_once() {
    const TIMES: usize = 20_000;
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let producer = client.init(Some("id")).await;
    let mut add = async |partitions: Vec<i32>| {
        let topics = vec![AddPartitionsToTxnTopic { name: "t".to_owned(), partitions, ..Default::default() }];
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: "id".to_owned(),
            v3_and_below_producer_id: producer.id.0,
            v3_and_below_producer_epoch: producer.epoch.0,
            v3_and_below_topics: topics,
            ..Default::default()
        };
        let response = client.call(3, &request).await;
        let results = response.results_by_topic_v3_and_below[0].results_by_partition.clone();
        results.into_iter().map(|it| (it.partition_index, ErrorCode::from_wire(it.partition_error_code))).collect()
    };
    // One that is not there keeps all others out.
    let told: Vec<(i32, ErrorCode)> = add(vec![1, 9, 1]).await;
    let (left, unknown) = (ErrorCode::OperationNotAttempted, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(told, [(1, left), (9, unknown), (1, left)]);
    let told: Vec<(i32, ErrorCode)> = add(vec![1; TIMES]).await;
    assert_eq!(told, vec![(1, ErrorCode::None); TIMES], "each is answered, in the order of the request");
    let request = DescribeTransactionsRequest { transactional_ids: vec!["id".to_owned()], ..Default::default() };
    let open = &client.call(0, &request).await.transaction_states[0];
    assert_eq!(open.topics[0].partitions, [1]);
    client.end(3, "id", producer, true).await.expect("committed");
    assert_eq!((client.end_offset("t", 0, true).await, client.end_offset("t", 1, true).await), (0, 1), "one marker");
}

#[tokio::test]
async fn positions_of_very_many_partitions_come_in_the_order_of_the_question() {
    const MANY: i32 = 12_345;
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let mut producer = client.init(Some("id")).await;
    for (group, offset) in [("first", 5), ("second", 7)] {
        client.send_offset("id", producer, group, "t", offset).await.expect("sent");
        producer = client.end(5, "id", producer, true).await.expect("committed");
    }
    // Partition 0, the only one with a position, is named in the middle.
    let asked: Vec<i32> = (1..MANY).chain([0]).chain(MANY..2 * MANY).collect();
    let place = usize::try_from(MANY - 1).expect("fits");
    let topics =
        OffsetFetchRequestTopic { name: "t".to_owned(), partition_indexes: asked.clone(), ..Default::default() };
    let request =
        OffsetFetchRequest { group_id: "second".to_owned(), topics: Some(vec![topics]), ..Default::default() };
    let found = &client.call(7, &request).await.topics[0].partitions;
    let indexes: Vec<i32> = found.iter().map(|it| it.partition_index).collect();
    assert_eq!(indexes, asked);
    assert_eq!(found[place].committed_offset, 7);
    assert_eq!(found.iter().filter(|it| it.committed_offset == -1).count(), asked.len() - 1);
    let groups = ["first", "nobody", "second"].map(|group| OffsetFetchRequestGroup {
        group_id: group.to_owned(),
        member_epoch: -1,
        topics: Some(vec![OffsetFetchRequestTopics {
            name: "t".to_owned(),
            partition_indexes: asked.clone(),
            ..Default::default()
        }]),
        ..Default::default()
    });
    let response = client.call(9, &OffsetFetchRequest { groups: groups.to_vec(), ..Default::default() }).await;
    let found: Vec<(String, usize, i64)> = response
        .groups
        .iter()
        .map(|it| {
            let partitions = &it.topics[0].partitions;
            (it.group_id.clone(), partitions.len(), partitions[place].committed_offset)
        })
        .collect();
    let expected = [("first", 5), ("nobody", -1), ("second", 7)].map(|(id, at)| (id.to_owned(), asked.len(), at));
    assert_eq!(found, expected);
}
