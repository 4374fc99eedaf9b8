//! The `read_committed` reader: takes everything in `word-counts` into the checker, while it is written, and notices how long after a
//! kill the first new result came.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use atonce_client::{Client, ConsumerEvent, ConsumerRecord, Isolation, Offset, Position, TopicPartition};
use tokio::sync::{mpsc, watch};

use super::checker::Checker;
use crate::failure::{Failure, OrFailure};

/// What the reader is told.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A worker was killed at this time, when the partitions ended here. A record from there on is a result of its successor.
    Killed { at: Instant, ends: BTreeMap<TopicPartition, Offset> },
    /// Read to here, then end.
    ReadTo(BTreeMap<TopicPartition, Offset>),
}

/// What it found.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    pub checker: Checker,
    pub recoveries: Vec<Duration>,
}

const NEXT: &str = "see the cause above; is the cluster up?";

/// Reads until it has been asked to read to an end, and is there. `records` counts what came.
pub(crate) async fn read(
    client: Client,
    partitions: Vec<TopicPartition>,
    mut asks: mpsc::UnboundedReceiver<Ask>,
    records: watch::Sender<u64>,
) -> Result<Readings, Failure> {
    let failed = || "cannot read the results".to_owned();
    let places = partitions.iter().map(|partition| (partition.clone(), Position::Earliest));
    let mut consumer =
        client.consumer().isolation(Isolation::ReadCommitted).assign(places).await.or_failure(failed, NEXT)?;
    let mut readings = Readings::default();
    let mut waiting: Vec<(Instant, BTreeMap<TopicPartition, Offset>)> = Vec::new();
    let mut read_to: Option<BTreeMap<TopicPartition, Offset>> = None;
    loop {
        while let Ok(ask) = asks.try_recv() {
            match ask {
                Ask::Killed { at, ends } => waiting.push((at, ends)),
                Ask::ReadTo(ends) => read_to = Some(ends),
            }
        }
        if let Some(ends) = &read_to
            && ends.iter().all(|(partition, end)| consumer.position(partition).is_some_and(|at| at >= *end))
        {
            return Ok(readings);
        }
        let event = consumer.next_event(Duration::from_millis(20)).await.or_failure(failed, NEXT)?;
        let Some(ConsumerEvent::Batch(batch)) = event else { continue };
        for record in &batch {
            take(record, &mut readings.checker)?;
        }
        let now = Instant::now();
        waiting.retain(|(killed_at, ends)| {
            let recovered = batch.iter().any(|record| is_after(record, ends));
            if recovered {
                readings.recoveries.push(now - *killed_at);
            }
            !recovered
        });
        records.send_modify(|count| *count += batch.len() as u64);
    }
}

fn is_after(record: &ConsumerRecord, ends: &BTreeMap<TopicPartition, Offset>) -> bool {
    ends.get(&record.topic_partition).is_some_and(|end| record.offset >= *end)
}

/// A record of `word-counts`: the key is the word, the value its count as an eight-byte big-endian integer.
fn take(record: &ConsumerRecord, checker: &mut Checker) -> Result<(), Failure> {
    let count = record.value.as_deref().and_then(|value| <[u8; 8]>::try_from(value).ok()).map(i64::from_be_bytes);
    match (&record.key, count.map(u64::try_from)) {
        (Some(word), Some(Ok(count))) => {
            checker.record(word, count);
            Ok(())
        }
        (word, _) => Err(Failure::new(
            format!(
                "{} offset {}: key {word:?} and value {:?} are no word and no count",
                record.topic_partition, record.offset, record.value
            ),
            "does anyone else write to this topic? If not, please report it",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atonce_client::Timestamp;
    use bytes::Bytes;

    fn record(key: Option<&'static str>, value: Option<&[u8]>) -> ConsumerRecord {
        ConsumerRecord {
            topic_partition: TopicPartition::new("word-counts", 0),
            offset: 7,
            timestamp: Timestamp(0),
            key: key.map(|key| Bytes::from_static(key.as_bytes())),
            value: value.map(Bytes::copy_from_slice),
            headers: Vec::new(),
        }
    }

    #[test]
    fn only_words_with_counts_are_taken() {
        let mut checker = Checker::default();
        assert!(take(&record(Some("a"), Some(&1_i64.to_be_bytes())), &mut checker).is_ok());
        for wrong in [
            record(Some("a"), Some(&(-1_i64).to_be_bytes())),
            record(Some("a"), Some(b"1")),
            record(Some("a"), None),
            record(None, Some(&1_i64.to_be_bytes())),
        ] {
            assert!(take(&wrong, &mut checker).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_result_is_new_if_it_lies_beyond_where_the_partition_ended_at_the_kill() {
        let ends = |end| BTreeMap::from([(TopicPartition::new("word-counts", 0), end)]);
        assert!(is_after(&record(None, None), &ends(7)));
        assert!(!is_after(&record(None, None), &ends(8)));
    }
}
