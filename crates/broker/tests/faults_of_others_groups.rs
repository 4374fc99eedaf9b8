//! Faults that other brokers had with groups and the positions that they keep: sent in transactions, while members come and go,
//! when a group's kind changes. Each test is named for the right behaviour.

mod raw_client;

use atonce_broker::Broker;
use atonce_kernel::ProducerIdentity;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use atonce_protocol::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use atonce_protocol::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use atonce_protocol::messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use atonce_protocol::messages::heartbeat_request::HeartbeatRequest;
use atonce_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use atonce_protocol::messages::join_group_response::JoinGroupResponse;
use atonce_protocol::messages::leave_group_request::LeaveGroupRequest;
use atonce_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use atonce_protocol::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use atonce_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use atonce_protocol::records::batches;
use bytes::Bytes;
use raw_client::{RawClient, broker, plain_batch};

const GROUP: &str = "g";

/// Version 3 lets newcomers in at once.
fn join(member: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: GROUP.to_owned(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        member_id: member.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), ..Default::default() }],
        ..Default::default()
    }
}

/// The leader brings the assignment; what it is does not matter here.
async fn sync(client: &mut RawClient, joined: &JoinGroupResponse) {
    let assign = |member: &str| SyncGroupRequestAssignment {
        member_id: member.to_owned(),
        assignment: Bytes::from_static(b"all"),
        ..Default::default()
    };
    let request = SyncGroupRequest {
        group_id: GROUP.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: joined.members.iter().map(|member| assign(&member.member_id)).collect(),
        ..Default::default()
    };
    assert_eq!(client.call(2, &request).await.error_code, 0);
}

async fn beat(client: &mut RawClient, joined: &JoinGroupResponse) -> ErrorCode {
    let request = HeartbeatRequest {
        group_id: GROUP.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    ErrorCode::from_wire(client.call(2, &request).await.error_code)
}

/// Sends a position with a transaction, as a member in a generation.
async fn send(
    client: &mut RawClient,
    version: i16,
    producer: ProducerIdentity,
    joined: &JoinGroupResponse,
    offset: i64,
) -> ErrorCode {
    let partitions = vec![TxnOffsetCommitRequestPartition { committed_offset: offset, ..Default::default() }];
    let request = TxnOffsetCommitRequest {
        transactional_id: "id".to_owned(),
        group_id: GROUP.to_owned(),
        producer_id: producer.id.0,
        producer_epoch: producer.epoch.0,
        generation_id_or_member_epoch: joined.generation_id,
        member_id: joined.member_id.clone(),
        topics: vec![TxnOffsetCommitRequestTopic { name: "t".to_owned(), partitions, ..Default::default() }],
        ..Default::default()
    };
    ErrorCode::from_wire(client.call(version, &request).await.topics[0].partitions[0].error_code)
}

#[tokio::test]
async fn positions_sent_while_the_group_rebalances_are_taken_from_the_generation_that_holds_and_no_other() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let (mut a, mut b) = (RawClient::of(&broker), RawClient::of(&broker));
    let first = a.call(3, &join("")).await;
    assert_eq!((first.error_code, first.generation_id), (0, 1));
    sync(&mut a, &first).await;
    let mut producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("appended");
    // Another member comes; the rebalance waits for the first one, who is in the middle of its transaction.
    b.send(3, &join("")).await;
    while beat(&mut a, &first).await != ErrorCode::RebalanceInProgress {
        tokio::task::yield_now().await;
    }
    let add = AddOffsetsToTxnRequest {
        transactional_id: "id".to_owned(),
        producer_id: producer.id.0,
        producer_epoch: producer.epoch.0,
        group_id: GROUP.to_owned(),
        ..Default::default()
    };
    assert_eq!(client.call(4, &add).await.error_code, 0);
    for version in [3, 5] {
        assert_eq!(send(&mut client, version, producer, &first, 5).await, ErrorCode::None, "version {version}");
    }
    producer = client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.committed(GROUP, "t", true).await, Ok(5));
    // Now it comes back. Until the assignment is brought, the new generation may send, and the old one may not any more.
    a.send(3, &join(&first.member_id)).await;
    let (_, second) = a.receive::<JoinGroupRequest>(3).await;
    let (_, newcomer) = b.receive::<JoinGroupRequest>(3).await;
    assert_eq!((second.generation_id, newcomer.generation_id), (2, 2));
    assert_eq!(send(&mut client, 5, producer, &first, 6).await, ErrorCode::IllegalGeneration);
    producer = client.end(5, "id", producer, false).await.expect("what was refused can be aborted");
    assert_eq!(client.committed(GROUP, "t", true).await, Ok(5));
    assert_eq!(send(&mut client, 5, producer, &second, 7).await, ErrorCode::None);
    client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.committed(GROUP, "t", true).await, Ok(7));
}

fn enter(member: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: member.to_owned(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

async fn stay(client: &mut RawClient, member: &str, member_epoch: i32) -> ConsumerGroupHeartbeatResponse {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: member.to_owned(),
        member_epoch,
        ..Default::default()
    };
    client.call(1, &request).await
}

/// Partitions given; nothing if the answer does not say.
fn given(answer: &ConsumerGroupHeartbeatResponse) -> Option<Vec<i32>> {
    let topics = &answer.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().flat_map(|topic| topic.partitions.iter().copied()).collect())
}

async fn commit_plainly(client: &mut RawClient, member: &JoinGroupResponse, offset: i64) {
    let partitions = vec![OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() }];
    let request = OffsetCommitRequest {
        group_id: GROUP.to_owned(),
        generation_id_or_member_epoch: member.generation_id,
        member_id: member.member_id.clone(),
        topics: vec![OffsetCommitRequestTopic { name: "t".to_owned(), partitions, ..Default::default() }],
        ..Default::default()
    };
    assert_eq!(client.call(7, &request).await.topics[0].partitions[0].error_code, 0);
}

async fn crash(broker: &Broker) -> RawClient {
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    RawClient::of(broker)
}

#[tokio::test]
async fn a_group_that_changes_its_kind_keeps_its_positions_and_changes_only_when_it_is_empty_or_may() {
    let broker = Broker::builder()
        .temporary()
        .property("group.initial.rebalance.delay.ms", "0")
        .property("offsets.topic.num.partitions", "4")
        .property("group.consumer.migration.policy", "disabled")
        .start()
        .await
        .expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let joined = client.call(3, &join("")).await;
    sync(&mut client, &joined).await;
    commit_plainly(&mut client, &joined, 7).await;
    let refused = client.call(1, &enter("new")).await;
    assert_eq!(ErrorCode::from_wire(refused.error_code), ErrorCode::GroupIdNotFound, "{:?}", refused.error_message);
    assert_eq!(beat(&mut client, &joined).await, ErrorCode::None, "who was there noticed nothing");
    let leave =
        LeaveGroupRequest { group_id: GROUP.to_owned(), member_id: joined.member_id.clone(), ..Default::default() };
    assert_eq!(client.call(2, &leave).await.error_code, 0);
    // Empty, it becomes what the next one wants, over a crash on either side.
    let mut client = crash(&broker).await;
    let entered = client.call(1, &enter("new")).await;
    assert_eq!((entered.error_code, given(&entered)), (0, Some(vec![0])), "{:?}", entered.error_message);
    let mut client = crash(&broker).await;
    assert_eq!(stay(&mut client, "new", entered.member_epoch).await.error_code, 0);
    assert_eq!(client.committed(GROUP, "t", true).await, Ok(7));
    let refused = client.call(3, &join("")).await;
    assert_eq!(ErrorCode::from_wire(refused.error_code), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(stay(&mut client, "new", -1).await.error_code, 0);
    let joined = client.call(3, &join("")).await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
    sync(&mut client, &joined).await;
    let mut client = crash(&broker).await;
    assert_eq!(beat(&mut client, &joined).await, ErrorCode::None);
    assert_eq!(client.committed(GROUP, "t", true).await, Ok(7));
}

#[tokio::test]
async fn a_member_that_was_fenced_enters_anew_and_a_group_s_epochs_rise_also_while_it_is_empty() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let entered = client.call(1, &enter("m")).await;
    assert_eq!(given(&entered), Some(vec![0, 1]));
    let fenced = stay(&mut client, "m", entered.member_epoch + 7).await;
    assert_eq!(ErrorCode::from_wire(fenced.error_code), ErrorCode::FencedMemberEpoch);
    let again = client.call(1, &enter("m")).await;
    assert_eq!((again.error_code, given(&again)), (0, Some(vec![0, 1])), "{:?}", again.error_message);
    assert!(again.member_epoch >= entered.member_epoch);
    let describe = ConsumerGroupDescribeRequest { group_ids: vec![GROUP.to_owned()], ..Default::default() };
    let described = client.call(1, &describe).await;
    let group = &described.groups[0];
    assert_eq!(
        (group.group_state.as_str(), group.group_epoch),
        ("Stable", again.member_epoch),
        "all is as it should be"
    );
    assert_eq!(stay(&mut client, "m", -1).await.error_code, 0);
    let mut client = crash(&broker).await;
    let empty = client.call(1, &describe).await.groups[0].clone();
    assert_eq!(empty.group_state, "Empty");
    assert!(empty.group_epoch > again.member_epoch);
    let later = client.call(1, &enter("m")).await;
    assert!(later.member_epoch > empty.group_epoch, "{} after {}", later.member_epoch, empty.group_epoch);
}

/// The first committed record from a position on, and the position behind it; or only how far there is nothing to be had.
async fn next_record(client: &mut RawClient, topic: &str, position: i64) -> (Option<String>, i64) {
    let response = client.fetch(topic, 0, position, true).await;
    let data = &response.responses[0].partitions[0];
    let mut aborted: Vec<(i64, i64)> =
        data.aborted_transactions.iter().flatten().map(|it| (it.producer_id, it.first_offset)).collect();
    let mut next = position;
    for view in batches(&data.records.clone().unwrap_or_default()) {
        let view = view.expect("a whole batch");
        next = view.next_offset();
        let producer = view.producer().id.0;
        if view.is_control() {
            aborted.retain(|(id, first)| !(*id == producer && *first < view.base_offset()));
            continue;
        }
        if view.is_transactional() && aborted.iter().any(|(id, first)| *id == producer && *first <= view.base_offset())
        {
            continue;
        }
        for record in view.records().expect("not compressed") {
            let record = record.expect("a record");
            if record.offset >= position {
                let value = record.value.unwrap_or_default().to_vec();
                return (Some(String::from_utf8(value).expect("text")), record.offset + 1);
            }
        }
    }
    (None, next)
}

#[tokio::test]
async fn what_is_read_processed_and_written_in_transactions_comes_once_wherever_the_broker_crashes() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("in", 1).await;
    client.create_topic("out", 1).await;
    // Plain records, committed and aborted transactions: positions step over markers, and over what is aborted.
    let mut producer = client.init(Some("source")).await;
    let mut expected = Vec::new();
    for round in 0..3 {
        for (value, is_committed) in [("kept", true), ("dropped", false)] {
            let value = format!("{round} {value}");
            client.append(Some("source"), producer, 0, "in", 0, &[&value]).await.expect("appended");
            producer = client.end(5, "source", producer, is_committed).await.expect("ended");
            expected.extend(is_committed.then_some(value));
        }
        let plain = format!("{round} plain");
        assert_eq!(client.produce(9, None, "in", 0, plain_batch(&[&plain])).await.error_code, 0);
        expected.push(plain);
    }
    producer = client.init(Some("source")).await;
    client.append(Some("source"), producer, 0, "in", 0, &["last"]).await.expect("appended");
    client.end(5, "source", producer, true).await.expect("committed");
    expected.push("last".to_owned());
    // The broker goes down before the first write, after it, after the position, after an end whose answer is lost; or not at all.
    let mut is_done = false;
    for crash_after in (0..5).cycle().take(200) {
        let mut client = RawClient::of(&broker);
        let producer = client.init(Some("app")).await;
        let position = client.committed(GROUP, "in", true).await.expect("stable").max(0);
        let (value, next) = next_record(&mut client, "in", position).await;
        for step in 0..5 {
            match (step, &value) {
                (1, Some(value)) => {
                    client.append(Some("app"), producer, 0, "out", 0, &[value]).await.expect("appended");
                }
                (2, _) => client.send_offset("app", producer, GROUP, "in", next).await.expect("sent"),
                (3, _) => {
                    client.end(5, "app", producer, true).await.expect("committed");
                    is_done = value.is_none();
                }
                _ => {}
            }
            if step == crash_after && crash_after < 4 {
                broker.crash().await.expect("crashed");
                broker.restart().await.expect("restarted");
                break;
            }
        }
        if is_done {
            break;
        }
    }
    assert!(is_done, "it gets nowhere");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.read("out", 0, true).await, expected);
    let position = client.committed(GROUP, "in", true).await;
    assert_eq!(position, Ok(client.end_offset("in", 0, true).await), "nothing is left to be read");
}
