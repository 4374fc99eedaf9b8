//! Segments that Apache Kafka 4.4 left behind: we say of them what Kafka's own dump tool says, line by line,
//! and every record of its coordinators decodes, and encodes again to the same bytes.

mod support;

use atonce_kernel::Outcome;
use atonce_protocol::messages::group_metadata_key::GroupMetadataKey;
use atonce_protocol::messages::group_metadata_value::GroupMetadataValue;
use atonce_protocol::messages::offset_commit_key::OffsetCommitKey;
use atonce_protocol::messages::offset_commit_value::OffsetCommitValue;
use atonce_protocol::messages::transaction_log_key::TransactionLogKey;
use atonce_protocol::messages::transaction_log_value::TransactionLogValue;
use atonce_protocol::records::{BatchView, RecordView, batches, marker_batch, read_marker};
use atonce_protocol::{Message, records};
use bytes::Bytes;
use serde_json::{Value, json};
use support::{files, gunzip};

/// A segment, its name, and the lines of its dump that tell of batches and records.
fn segments() -> Vec<(String, Vec<u8>, Vec<String>)> {
    let mut segments = Vec::new();
    for path in files("segments", ".log.gz") {
        let name = path.file_name().expect("a file").to_string_lossy().replace(".log.gz", "");
        let dump = String::from_utf8(gunzip(&path.with_file_name(format!("{name}.dump.txt.gz")))).expect("text");
        let lines = dump.lines().skip_while(|it| !it.ends_with(".log")).skip(2);
        let lines = lines.take_while(|it| it.starts_with("baseOffset") || it.starts_with("| offset"));
        segments.push((name, gunzip(&path), lines.map(str::to_owned).collect()));
    }
    assert_eq!(segments.len(), 23);
    segments
}

#[test]
fn heads_and_records_are_what_kafkas_dump_says() {
    let mut lines_seen = 0;
    for (name, segment, dump) in segments() {
        let mut lines = dump.iter();
        let mut position = 0;
        let mut all = batches(&segment);
        for batch in &mut all {
            let batch = batch.expect("a batch");
            batch.validate().expect("valid");
            assert_eq!(Some(&head_line(&batch, position)), lines.next(), "{name}");
            position += batch.size_bytes();
            let payload = batch.decompress(1 << 20).expect("decompresses");
            for record in batch.records_in(&payload) {
                let record = record.expect("a record");
                let expected = lines.next().expect("a line for each record");
                let line = record_line(&batch, &record);
                assert!(expected.starts_with(&line), "{name}:\n{expected}\n{line}");
                lines_seen += 1;
            }
        }
        assert_eq!(all.torn_bytes(), 0, "{name}");
        assert_eq!(lines.next(), None, "{name}");
    }
    assert!(lines_seen > 200, "only {lines_seen} records");
}

fn head_line(batch: &BatchView<'_>, position: usize) -> String {
    let horizon = match batch.delete_horizon_ms() {
        None => "OptionalLong.empty".to_owned(),
        Some(ms) => format!("OptionalLong[{ms}]"),
    };
    let time = match batch.timestamp_type() {
        records::TimestampType::CreateTime => "CreateTime",
        records::TimestampType::LogAppendTime => "LogAppendTime",
    };
    format!(
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
         partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {horizon} position: {position} \
         {time}: {} size: {} magic: {} compresscodec: {} crc: {} isvalid: {}",
        batch.base_offset(),
        batch.last_offset(),
        batch.records_count(),
        batch.base_sequence(),
        batch.last_sequence(),
        batch.producer().id,
        batch.producer().epoch,
        batch.partition_leader_epoch(),
        batch.is_transactional(),
        batch.is_control(),
        batch.max_timestamp(),
        batch.size_bytes(),
        batch.header().magic,
        batch.compression().expect("known"),
        batch.crc(),
        batch.crc() == batch.computed_crc(),
    )
}

fn record_line(batch: &BatchView<'_>, record: &RecordView<'_>) -> String {
    let size = |field: Option<&[u8]>| field.map_or(-1, |it| i64::try_from(it.len()).expect("small"));
    let sequence = match batch.base_sequence().0 {
        -1 => -1,
        base => base + record.offset_delta,
    };
    let headers: Vec<_> = record.headers().map(|it| it.key_text().into_owned()).collect();
    let mut line = format!(
        "| offset: {} CreateTime: {} keySize: {} valueSize: {} sequence: {sequence} headerKeys: [{}]",
        record.offset,
        record.timestamp,
        size(record.key),
        size(record.value),
        headers.join(",")
    );
    if batch.is_control() {
        let marker = read_marker(record).expect("a marker");
        let outcome = marker.outcome.to_string().to_uppercase();
        line.push_str(&format!(" endTxnMarker: {outcome} coordinatorEpoch: {}", marker.coordinator_epoch));
    }
    line
}

#[test]
fn our_markers_are_kafkas() {
    let (mut commits, mut aborts) = (0, 0);
    for (name, segment, _) in segments() {
        for batch in batches(&segment).map(|it| it.expect("a batch")).filter(BatchView::is_control) {
            let record = batch.records().expect("plain").next().expect("one").expect("a record");
            let marker = read_marker(&record).expect("a marker");
            match marker.outcome {
                Outcome::Commit => commits += 1,
                Outcome::Abort => aborts += 1,
            }
            let ours = marker_batch(batch.producer(), marker.outcome, marker.coordinator_epoch, record.timestamp);
            let mut ours = ours.to_vec();
            records::set_base_offset(&mut ours, batch.base_offset());
            records::set_partition_leader_epoch(&mut ours, batch.partition_leader_epoch());
            assert_eq!(ours, batch.bytes(), "{name}");
        }
    }
    assert!(commits > 5 && aborts > 2, "{commits} commits, {aborts} aborts");
}

#[test]
fn records_of_the_coordinators_are_what_kafkas_dump_says() {
    let (mut transactions, mut groups, mut offsets, mut tombstones) = (0, 0, 0, 0);
    for (name, segment, dump) in segments().into_iter().filter(|it| it.0.starts_with("__")) {
        let mut lines = dump.iter().filter(|it| it.starts_with("| offset"));
        for batch in batches(&segment).map(|it| it.expect("a batch")) {
            for record in batch.records().expect("plain").map(|it| it.expect("a record")) {
                let line = lines.next().expect("a line for each record");
                if batch.is_control() {
                    continue;
                }
                let key = Bytes::copy_from_slice(record.key.expect("a key"));
                let kind = i16::from_be_bytes([key[0], key[1]]);
                let (dumped_key, dumped) = dumped(line);
                assert_eq!(dumped_key["type"], kind.to_string(), "{name}: {line}");
                let value = record.value.map(Bytes::copy_from_slice);
                tombstones += usize::from(value.is_none());
                let (ours_key, ours) = if name.starts_with("__transaction_state") {
                    transactions += 1;
                    (transaction_key(&key), value.map(|it| transaction_value(&it)))
                } else if kind == 2 {
                    groups += 1;
                    (group_key(&key), value.map(|it| group_value(&it)))
                } else if kind <= 1 {
                    offsets += 1;
                    (offset_key(&key), value.map(|it| offset_value(&it)))
                } else {
                    // Records of the new group protocol, which we do not read yet.
                    continue;
                };
                assert_eq!(ours_key, dumped_key["data"], "{name}: {line}");
                check_value(ours, &dumped, line);
            }
        }
    }
    assert!(transactions > 100 && groups > 20 && offsets > 40, "{transactions} {groups} {offsets}");
    assert!(tombstones > 10, "{tombstones}");
}

/// The dump leaves out tagged fields at their default, and says nothing of what it could not read.
fn check_value(ours: Option<Value>, dumped: &Value, line: &str) {
    let Some(ours) = ours else {
        assert!(dumped.is_null(), "{line}");
        return;
    };
    assert_eq!(ours["version"], dumped["version"], "{line}");
    let (ours, dumped) = (ours["data"].as_object().expect("fields"), dumped["data"].as_object().expect("fields"));
    assert!(dumped.len() > 4, "{line}");
    for (field, value) in dumped {
        assert_eq!(ours.get(field), Some(value), "{field}: {line}");
    }
}

fn dumped(line: &str) -> (Value, Value) {
    let (_, line) = line.split_once(" key: ").expect("a key");
    let (key, value) = line.split_once(" payload: ").expect("a payload");
    let value = if value == "<DELETE>" { "null" } else { value };
    (serde_json::from_str(key).expect("JSON"), serde_json::from_str(value).expect("JSON"))
}

/// Decodes, and makes sure that it encodes to the same bytes.
fn both_ways<M: Message>(bytes: &Bytes) -> (i16, M) {
    let (version, message) = M::decode_versioned(bytes.clone()).expect("decodes");
    assert_eq!(message.encode_versioned(version).expect("encodes"), bytes);
    (version, message)
}

/// A key has its type where a value has its version. All of one kind have one layout: that of version 0.
fn key_of<M: Message>(bytes: &Bytes) -> M {
    let key = M::decode_all(bytes.slice(2..), 0).expect("decodes");
    let mut again = bytes::BytesMut::from(&bytes[..2]);
    key.encode(&mut again, 0).expect("encodes");
    assert_eq!(again, bytes);
    key
}

fn transaction_key(bytes: &Bytes) -> Value {
    json!({"transactionalId": key_of::<TransactionLogKey>(bytes).transactional_id})
}

fn transaction_value(bytes: &Bytes) -> Value {
    const STATES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ];
    let (version, value): (_, TransactionLogValue) = both_ways(bytes);
    let partitions = value.transaction_partitions.map(|topics| {
        topics.into_iter().map(|it| json!({"topic": it.topic, "partitionIds": it.partition_ids})).collect::<Vec<_>>()
    });
    json!({"version": version.to_string(), "data": {
        "producerId": value.producer_id,
        "previousProducerId": value.previous_producer_id,
        "nextProducerId": value.next_producer_id,
        "producerEpoch": value.producer_epoch,
        "nextProducerEpoch": value.next_producer_epoch,
        "transactionTimeoutMs": value.transaction_timeout_ms,
        "transactionStatus": STATES[usize::try_from(value.transaction_status).expect("a state")],
        "transactionPartitions": partitions,
        "transactionLastUpdateTimestampMs": value.transaction_last_update_timestamp_ms,
        "transactionStartTimestampMs": value.transaction_start_timestamp_ms,
        "clientTransactionVersion": value.client_transaction_version,
    }})
}

fn group_key(bytes: &Bytes) -> Value {
    json!({"group": key_of::<GroupMetadataKey>(bytes).group})
}

fn group_value(bytes: &Bytes) -> Value {
    use atonce_protocol::messages::consumer_protocol_assignment::ConsumerProtocolAssignment;
    use atonce_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
    let (version, value): (_, GroupMetadataValue) = both_ways(bytes);
    let user_data = |data: Option<Bytes>| data.map(|it| base64(&it));
    let members: Vec<Value> = value
        .members
        .into_iter()
        .map(|it| {
            let (_, subscription): (_, ConsumerProtocolSubscription) = both_ways(&it.subscription);
            let (assignment_version, assignment): (_, ConsumerProtocolAssignment) = both_ways(&it.assignment);
            assert!(assignment_version <= 3);
            let assigned = assignment.assigned_partitions.into_iter();
            let assigned: Vec<_> = assigned.map(|it| json!({"topic": it.topic, "partitions": it.partitions})).collect();
            let mut shown = json!({"topics": subscription.topics, "userData": user_data(subscription.user_data)});
            let (subscription_version, _): (i16, ConsumerProtocolSubscription) = both_ways(&it.subscription);
            if subscription_version >= 1 {
                let owned = subscription.owned_partitions.into_iter();
                shown["ownedPartitions"] =
                    owned.map(|it| json!({"topic": it.topic, "partitions": it.partitions})).collect();
            }
            if subscription_version >= 2 {
                shown["generationId"] = json!(subscription.generation_id);
            }
            if subscription_version >= 3 {
                shown["rackId"] = json!(subscription.rack_id);
            }
            json!({
                "memberId": it.member_id,
                "groupInstanceId": it.group_instance_id,
                "clientId": it.client_id,
                "clientHost": it.client_host,
                "rebalanceTimeout": it.rebalance_timeout,
                "sessionTimeout": it.session_timeout,
                "subscription": shown,
                "assignment": {"assignedPartitions": assigned, "userData": user_data(assignment.user_data)},
            })
        })
        .collect();
    json!({"version": version.to_string(), "data": {
        "protocolType": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "currentStateTimestamp": value.current_state_timestamp,
        "members": members,
    }})
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]);
            text.push(if place <= group.len() { digit } else { '=' });
        }
    }
    text
}

fn offset_key(bytes: &Bytes) -> Value {
    let key: OffsetCommitKey = key_of(bytes);
    json!({"group": key.group, "topic": key.topic, "partition": key.partition})
}

fn offset_value(bytes: &Bytes) -> Value {
    let (version, value): (_, OffsetCommitValue) = both_ways(bytes);
    json!({"version": version.to_string(), "data": {
        "offset": value.offset,
        "leaderEpoch": value.leader_epoch,
        "metadata": value.metadata,
        "commitTimestamp": value.commit_timestamp,
        "expireTimestamp": value.expire_timestamp,
        "topicId": value.topic_id.to_string(),
    }})
}
