//! Sends records at an even rate, each with the time at which it was due, and reads what a topology makes of them, as far as it is committed:
//! how long each took from end to end. The same on every side.
//!
//! A record that is sent late counts from when it was due: else a pause of the whole machine would hide the records that waited for it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use atonce::client::{Client, ConsumerEvent, Position, Producer, ProducerRecord, TopicPartition};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Asked, begin, percentiles};

/// How often is sent what is due.
const STEP: Duration = Duration::from_micros(500);
const VALUE_BYTES: usize = 100;
const KEYS: u64 = 100_000;
/// How long the last record may be on its way.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(asked: &Asked<'_>, say: &impl Fn(&str)) -> Result<Value> {
    let rate = asked.number("rate")?;
    let warm = (rate * asked.number("warm")?) as u64;
    let count = warm + (rate * asked.number("seconds")?) as u64;
    let (input, output) = (asked.text("input")?.to_owned(), asked.text("output")?);
    let client = Client::builder(asked.text("bootstrap")?).connect().await?;
    let partitions = 0..asked.number("partitions")? as i32;
    let from_the_start = partitions.map(|partition| (TopicPartition::new(output, partition), Position::Earliest));
    let consumer = client.consumer().read_committed().fetch_wait_max(Duration::from_millis(100));
    let mut consumer = consumer.assign(from_the_start).await?;
    let producer = client.producer().linger(Duration::ZERO).start().await?;

    let clock = Instant::now();
    let sending = tokio::spawn(async move { send(&producer, &input, clock, (rate, count, KEYS)).await });
    let mut took = Vec::new();
    let (mut seen, mut began) = (0, None);
    let mut last = Instant::now();
    while seen < count {
        let Some(event) = consumer.next_event(Duration::from_secs(1)).await? else {
            ensure!(last.elapsed() < PATIENCE, "{seen} of {count} records came");
            continue;
        };
        let ConsumerEvent::Batch(batch) = event else { bail!("an event of a group, and there is none") };
        last = Instant::now();
        for record in &batch {
            seen += 1;
            if seen <= warm {
                continue;
            }
            if began.is_none() {
                began = Some(last);
                say(&begin());
            }
            let value = record.value.as_deref().unwrap_or_default();
            let due = u64::from_be_bytes(*value.first_chunk().context("a time")?);
            took.push(clock.elapsed().saturating_sub(Duration::from_nanos(due)));
        }
    }
    sending.await??;
    let done = took.len();
    Ok(percentiles(&mut took, done, last - began.context("it began")?))
}

/// Sends at that rate for ever, beside whatever else is asked.
pub(super) async fn feed(asked: &Asked<'_>) -> Result<Value> {
    let (topic, rate, keys) = (asked.text("topic")?.to_owned(), asked.number("rate")?, asked.number("keys")? as u64);
    let client = Client::builder(asked.text("bootstrap")?).connect().await?;
    // The broker may be away for a while.
    let producer = client.producer().linger(Duration::ZERO).delivery_timeout(Duration::from_secs(3600)).start().await?;
    tokio::spawn(async move {
        // Where it ends, whoever waits for new output says so.
        let _ = send(&producer, &topic, Instant::now(), (rate, u64::MAX, keys)).await;
    });
    Ok(json!({}))
}

async fn send(producer: &Producer, input: &str, clock: Instant, (rate, count, keys): (f64, u64, u64)) -> Result<()> {
    let begun = clock.elapsed();
    let mut sent = 0;
    while sent < count {
        let due = ((clock.elapsed() - begun).as_secs_f64() * rate) as u64;
        while sent < due.min(count) {
            let due_at = begun + Duration::from_secs_f64(sent as f64 / rate);
            let mut value = vec![b'x'; VALUE_BYTES];
            let nanos = u64::try_from(due_at.as_nanos()).context("centuries")?;
            value.splice(..8, nanos.to_be_bytes());
            let key = format!("{:08}", sent % keys);
            let record = ProducerRecord::to(input).key(Bytes::from(key)).value(Bytes::from(value));
            let _delivery = producer.send(record).await?;
            sent += 1;
        }
        tokio::time::sleep(STEP).await;
    }
    producer.flush().await?;
    Ok(())
}
