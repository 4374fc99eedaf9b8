//! The read-process-write loop of `peer/loop.c`, by our client: takes so many records, begins a transaction, sends them on, sends the
//! positions, commits.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use atonce::client::{
    Batch, Client, Consumer, ConsumerEvent, ConsumerRecord, OffsetReset, Positions, ProducerRecord,
    TransactionalProducer,
};
use serde_json::Value;

use super::{Asked, begin, percentiles};

const WARMING_TRANSACTIONS: usize = 2;

/// So long without a record, and the input is over.
const INPUT_OVER: Duration = Duration::from_secs(3);
/// The first one may take longer: the group has to come together, on a broker that may just have started.
const INPUT_COMES: Duration = Duration::from_secs(60);

pub(super) async fn run(asked: &Asked<'_>, say: &impl Fn(&str)) -> Result<Value> {
    let (group, output) = (asked.text("group")?, asked.text("output")?);
    let wanted = asked.number("records")? as usize;
    let client = Client::builder(asked.text("bootstrap")?).connect().await?;
    let mut producer = client.transactional_producer(group).start().await?;
    let consumer = client.consumer().group(group).read_committed().auto_offset_reset(OffsetReset::Earliest);
    let consumer = consumer.batch_records_max(wanted).subscribe([asked.text("input")?]).await?;
    let mut input = Input { consumer, left: Vec::new().into_iter() };
    for _ in 0..WARMING_TRANSACTIONS {
        let (records, positions) = input.take(wanted, INPUT_COMES).await?.context("the input: nothing came")?;
        transaction(&mut producer, output, records, positions).await?;
    }
    say(&begin());
    let (start, seconds) = (Instant::now(), asked.number("seconds")?);
    let (mut last, mut took, mut done) = (start, Vec::new(), 0);
    while (last - start).as_secs_f64() < seconds {
        let Some((records, positions)) = input.take(wanted, INPUT_OVER).await? else { break };
        let (begun, count) = (Instant::now(), records.len());
        transaction(&mut producer, output, records, positions).await?;
        last = Instant::now();
        took.push(last - begun);
        done += count;
    }
    ensure!(!took.is_empty(), "the input was over before it began");
    Ok(percentiles(&mut took, done, last - start))
}

/// Records as they come, and what of the last batch was too much.
struct Input {
    consumer: Consumer,
    left: std::vec::IntoIter<ConsumerRecord>,
}

impl Input {
    /// So many records, with the positions behind them; fewer only where none comes for so long.
    async fn take(&mut self, wanted: usize, patience: Duration) -> Result<Option<(Vec<ConsumerRecord>, Positions)>> {
        let mut records = Vec::with_capacity(wanted);
        let mut since = Instant::now();
        loop {
            records.extend(self.left.by_ref().take(wanted - records.len()));
            if records.len() == wanted || since.elapsed() >= patience {
                break;
            }
            if let Some(ConsumerEvent::Batch(Batch { records, .. })) = self.consumer.next_event(patience).await? {
                since = Instant::now();
                self.left = records.into_iter();
            }
        }
        let Some(group) = self.consumer.group_metadata() else { return Ok(None) };
        let mut positions = Positions::new(group);
        for record in &records {
            positions.insert(record.topic_partition.clone(), record.offset + 1);
        }
        Ok((!records.is_empty()).then_some((records, positions)))
    }
}

async fn transaction(
    producer: &mut TransactionalProducer,
    output: &str,
    records: Vec<ConsumerRecord>,
    positions: Positions,
) -> Result<()> {
    let transaction = producer.begin().await?;
    for ConsumerRecord { key, value, .. } in records {
        let _delivery = transaction.send(ProducerRecord { key, value, ..ProducerRecord::to(output) }).await?;
    }
    transaction.send_offsets(positions).await?;
    transaction.commit().await?;
    Ok(())
}
