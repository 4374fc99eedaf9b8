//! Record batches in questions and in answers.
//!
//! ```text
//! batch{producer_id: $t.pid, producer_epoch: $t.epoch, sequence: 0, transactional: true, records: [a, b], fault: checksum}
//! ```
//!
//! Records are texts (values without a key) or `{key: k, value: v, timestamp: 7, headers: [{key: h, value: w}]}`. A fault is
//! put into the finished batch, and the checksum made right again, unless that is the fault.

use anyhow::{Context, Result, bail};
use atonce_kernel::{Outcome, ProducerIdentity, Sequence};
use atonce_protocol::records::{
    BatchBuilder, BatchOptions, BatchView, Compression, RecordView, TimestampType, batches, read_marker,
};
use bytes::Bytes;

use crate::value::Value;

/// What can be wrong with a batch: [`Value::Batch`] is varied over all of them.
pub const FAULTS: &[&str] = &[
    "checksum",
    "length_zero",
    "length_negative",
    "length_lower",
    "length_higher",
    "magic_0",
    "magic_1",
    "magic_3",
    "count_zero",
    "count_negative",
    "count_lower",
    "count_higher",
    "last_offset_delta_negative",
    "last_offset_delta_higher",
    "sequence_without_producer",
    "producer_without_sequence",
    "epoch_negative",
    "transactional_without_producer",
    "control",
    "codec_unknown",
    "codec_wrong",
    "log_append_time",
    "delete_horizon",
    "attributes_unknown",
    "base_timestamp_negative",
    "max_timestamp_lower",
    "max_timestamp_higher",
    "timestamps_far_future",
    "base_offset_9",
    "leader_epoch_9",
    "record_length_wrong",
    "record_attributes",
    "record_offset_delta_wrong",
    "twice",
    "torn",
    "tail",
    "head_only",
];

/// Bytes of a batch decompressed, at most.
const DECOMPRESSED_MAX: usize = 16 << 20;

const LENGTH: usize = 8;
const LEADER_EPOCH: usize = 12;
const MAGIC: usize = 16;
const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const LAST_OFFSET_DELTA: usize = 23;
const BASE_TIMESTAMP: usize = 27;
const MAX_TIMESTAMP: usize = 35;
const PRODUCER_ID: usize = 43;
const PRODUCER_EPOCH: usize = 51;
const BASE_SEQUENCE: usize = 53;
const COUNT: usize = 57;
const HEAD: usize = 61;

/// The bytes of a batch as a question describes it; times that it does not name are `now_ms`.
pub fn build(description: &Value, now_ms: i64) -> Result<Bytes> {
    let number = |name: &str, default: i64| match description.field(name) {
        Some(Value::Int(number)) => Ok(*number),
        None => Ok(default),
        Some(other) => bail!("{name}: {other} is no number"),
    };
    let word = |name: &str| match description.field(name) {
        Some(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_set = |name: &str| description.field(name) == Some(&Value::Bool(true));
    let mut builder = BatchBuilder::default();
    let single = [Value::Text("v".to_owned())];
    let records = match description.field("records") {
        Some(Value::List(records)) => records.as_slice(),
        _ => &single[..],
    };
    let timestamp = number("timestamp", now_ms)?;
    for record in records {
        append(&mut builder, record, timestamp)?;
    }
    let options = BatchOptions {
        producer: ProducerIdentity::new(number("producer_id", -1)?, i16::try_from(number("producer_epoch", -1)?)?),
        base_sequence: Sequence(i32::try_from(number("sequence", -1)?)?),
        is_transactional: is_set("transactional"),
        is_control: is_set("control"),
        compression: Compression::from_name(word("compression").unwrap_or("none")).context("no such compression")?,
        ..Default::default()
    };
    let mut bytes = builder.finish(&options)?.to_vec();
    if let Some(fault) = word("fault") {
        spoil(&mut bytes, fault, now_ms)?;
    }
    Ok(bytes.into())
}

fn append(builder: &mut BatchBuilder, record: &Value, timestamp: i64) -> Result<()> {
    let text = |name: &str| match record.field(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        Some(Value::Int(number)) => Some(number.to_string()),
        _ => None,
    };
    let (key, value, timestamp) = match record {
        Value::Text(value) => (None, Some(value.clone()), timestamp),
        Value::Null => (None, None, timestamp),
        record => match record.field("timestamp") {
            Some(Value::Int(own)) => (text("key"), text("value"), *own),
            _ => (text("key"), text("value"), timestamp),
        },
    };
    let mut headers: Vec<(String, Option<String>)> = Vec::new();
    if let Some(Value::List(given)) = record.field("headers") {
        for header in given {
            let part = |name: &str| match header.field(name) {
                Some(Value::Text(text)) => Some(text.clone()),
                _ => None,
            };
            headers.push((part("key").unwrap_or_default(), part("value")));
        }
    }
    let headers = headers.iter().map(|(key, value)| (key.as_bytes(), value.as_deref().map(str::as_bytes)));
    builder.append(timestamp, key.as_deref().map(str::as_bytes), value.as_deref().map(str::as_bytes), headers)?;
    Ok(())
}

fn spoil(batch: &mut Vec<u8>, fault: &str, now_ms: i64) -> Result<()> {
    let i32_at = |batch: &[u8], at: usize| i32::from_be_bytes([batch[at], batch[at + 1], batch[at + 2], batch[at + 3]]);
    let put = |batch: &mut [u8], at: usize, bytes: &[u8]| batch[at..at + bytes.len()].copy_from_slice(bytes);
    let length = i32_at(batch, LENGTH);
    let count = i32_at(batch, COUNT);
    let last_delta = i32_at(batch, LAST_OFFSET_DELTA);
    match fault {
        "checksum" | "twice" | "torn" | "tail" | "head_only" => {}
        "length_zero" => put(batch, LENGTH, &0_i32.to_be_bytes()),
        "length_negative" => put(batch, LENGTH, &(-1_i32).to_be_bytes()),
        "length_lower" => put(batch, LENGTH, &(length - 1).to_be_bytes()),
        "length_higher" => put(batch, LENGTH, &(length + 1).to_be_bytes()),
        "magic_0" => batch[MAGIC] = 0,
        "magic_1" => batch[MAGIC] = 1,
        "magic_3" => batch[MAGIC] = 3,
        "count_zero" => put(batch, COUNT, &0_i32.to_be_bytes()),
        "count_negative" => put(batch, COUNT, &(-1_i32).to_be_bytes()),
        "count_lower" => put(batch, COUNT, &(count - 1).to_be_bytes()),
        "count_higher" => put(batch, COUNT, &(count + 1).to_be_bytes()),
        "last_offset_delta_negative" => put(batch, LAST_OFFSET_DELTA, &(-1_i32).to_be_bytes()),
        "last_offset_delta_higher" => put(batch, LAST_OFFSET_DELTA, &(last_delta + 1).to_be_bytes()),
        "sequence_without_producer" => {
            put(batch, PRODUCER_ID, &(-1_i64).to_be_bytes());
            put(batch, PRODUCER_EPOCH, &(-1_i16).to_be_bytes());
            put(batch, BASE_SEQUENCE, &7_i32.to_be_bytes());
        }
        "producer_without_sequence" => put(batch, BASE_SEQUENCE, &(-1_i32).to_be_bytes()),
        "epoch_negative" => put(batch, PRODUCER_EPOCH, &(-1_i16).to_be_bytes()),
        "transactional_without_producer" => {
            batch[ATTRIBUTES + 1] |= 0x10;
            put(batch, PRODUCER_ID, &(-1_i64).to_be_bytes());
            put(batch, PRODUCER_EPOCH, &(-1_i16).to_be_bytes());
            put(batch, BASE_SEQUENCE, &(-1_i32).to_be_bytes());
        }
        "control" => batch[ATTRIBUTES + 1] |= 0x20,
        "codec_unknown" => batch[ATTRIBUTES + 1] |= 0x07,
        "codec_wrong" => batch[ATTRIBUTES + 1] ^= 0x01,
        "log_append_time" => batch[ATTRIBUTES + 1] |= 0x08,
        "delete_horizon" => batch[ATTRIBUTES + 1] |= 0x40,
        "attributes_unknown" => batch[ATTRIBUTES] |= 0x01,
        "base_timestamp_negative" => put(batch, BASE_TIMESTAMP, &(-5_i64).to_be_bytes()),
        "max_timestamp_lower" => put(batch, MAX_TIMESTAMP, &(now_ms - 1000).to_be_bytes()),
        "max_timestamp_higher" => put(batch, MAX_TIMESTAMP, &(now_ms + 1000).to_be_bytes()),
        "timestamps_far_future" => {
            const TWO_DAYS_MS: i64 = 2 * 24 * 3600 * 1000;
            put(batch, BASE_TIMESTAMP, &(now_ms + TWO_DAYS_MS).to_be_bytes());
            put(batch, MAX_TIMESTAMP, &(now_ms + TWO_DAYS_MS).to_be_bytes());
        }
        "base_offset_9" => put(batch, 0, &9_i64.to_be_bytes()),
        "leader_epoch_9" => put(batch, LEADER_EPOCH, &9_i32.to_be_bytes()),
        // A record is its length, attributes, timestamp and offset deltas: a byte each in a small batch.
        "record_length_wrong" => batch[HEAD] ^= 0x02,
        "record_attributes" => batch[HEAD + 1] = 1,
        "record_offset_delta_wrong" => batch[HEAD + 3] = 6,
        unknown => bail!("no fault is called {unknown}"),
    }
    let crc = crc32c::crc32c(&batch[ATTRIBUTES..]) ^ u32::from(fault == "checksum");
    put(batch, CRC, &crc.to_be_bytes());
    match fault {
        "twice" => batch.extend_from_within(..),
        "torn" => batch.truncate(batch.len() - 2),
        "tail" => batch.extend_from_slice(b"xyz"),
        "head_only" => batch.truncate(HEAD),
        _ => {}
    }
    Ok(())
}

/// What an answer's record batches say.
#[must_use]
pub fn show(bytes: &[u8]) -> Value {
    let mut shown = Vec::new();
    let mut rest = batches(bytes);
    for batch in rest.by_ref() {
        shown.push(match batch {
            Ok(batch) => show_batch(&batch),
            Err(error) => Value::Text(format!("no batch: {error}")),
        });
    }
    if rest.torn_bytes() > 0 {
        shown.push(Value::Text("torn".to_owned()));
    }
    Value::List(shown)
}

fn show_batch(batch: &BatchView<'_>) -> Value {
    let mut fields = vec![("base_offset".to_owned(), Value::Int(batch.base_offset()))];
    let mut add = |name: &str, value: Value| fields.push((name.to_owned(), value));
    let header = batch.header();
    if header.last_offset_delta != header.records_count - 1 {
        add("last_offset_delta", Value::Int(header.last_offset_delta.into()));
    }
    if header.partition_leader_epoch != 0 {
        add("leader_epoch", Value::Int(header.partition_leader_epoch.into()));
    }
    if header.producer.id.is_some() {
        add("producer_id", Value::Int(header.producer.id.0));
        add("producer_epoch", Value::Int(header.producer.epoch.0.into()));
        add("sequence", Value::Int(header.base_sequence.0.into()));
    }
    if batch.is_transactional() {
        add("transactional", Value::Bool(true));
    }
    if batch.timestamp_type() == TimestampType::LogAppendTime {
        add("log_append_time", Value::Bool(true));
    }
    match batch.compression() {
        Ok(Compression::None) => {}
        Ok(compression) => add("compression", Value::Text(compression.name().to_owned())),
        Err(error) => add("compression", Value::Text(error.to_string())),
    }
    if header.attributes & !0x3f != 0 {
        add("attributes", Value::Int(header.attributes.into()));
    }
    if batch.computed_crc() != header.crc {
        add("checksum", Value::Text("wrong".to_owned()));
    }
    add("max_timestamp", Value::Int(header.max_timestamp));
    let records = match batch.decompress(DECOMPRESSED_MAX) {
        Ok(payload) => {
            let records = batch.records_in(&payload).map(|record| match record {
                Ok(record) if batch.is_control() => show_marker(&record),
                Ok(record) => show_record(&record, batch.base_offset()),
                Err(error) => Value::Text(format!("no record: {error}")),
            });
            Value::List(records.collect())
        }
        Err(error) => Value::Text(error.to_string()),
    };
    add("records", records);
    Value::Fields(fields)
}

fn show_marker(record: &RecordView<'_>) -> Value {
    let outcome = match read_marker(record) {
        Ok(marker) => match marker.outcome {
            Outcome::Commit => "commit".to_owned(),
            Outcome::Abort => "abort".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    Value::Fields(vec![("marker".to_owned(), Value::Text(outcome))])
}

fn show_record(record: &RecordView<'_>, base_offset: i64) -> Value {
    let text =
        |bytes: Option<&[u8]>| bytes.map_or(Value::Null, |it| Value::Text(String::from_utf8_lossy(it).into_owned()));
    let mut fields = vec![
        ("offset".to_owned(), Value::Int(record.offset - base_offset)),
        ("timestamp".to_owned(), Value::Int(record.timestamp)),
        ("value".to_owned(), text(record.value)),
    ];
    if record.key.is_some() {
        fields.push(("key".to_owned(), text(record.key)));
    }
    for header in record.headers() {
        let shown = vec![("key".to_owned(), text(Some(header.key))), ("value".to_owned(), text(header.value))];
        fields.push(("header".to_owned(), Value::Fields(shown)));
    }
    Value::Fields(fields)
}
