//! Writes the input to `lines`, idempotently, again and again until it is told that every kill has struck.
//!
//! It keeps ahead of the workers by about a second of their work: enough that a kill always finds work undone, little
//! enough that what is left after the last kill is soon counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atonce_client::{Client, GroupId, Isolation, OffsetSpec, ProducerRecord, TopicName, TopicPartition};
use tokio::sync::watch;

use super::Guarantee;
use crate::failure::{Failure, OrFailure};

/// What to load, and where.
pub(crate) struct Loader {
    pub client: Client,
    pub topic: TopicName,
    pub partitions: i32,
    pub group: GroupId,
    pub guarantee: Guarantee,
    pub lines: Arc<Vec<bytes::Bytes>>,
    /// Lines written so far, for the progress bar.
    pub written: watch::Sender<u64>,
}

/// Kept ahead of the workers at least, in lines.
const AHEAD_LINES_MIN: u64 = 500;
/// How often the loader looks how far the workers are.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);

impl Loader {
    /// Loads the input once, and on until `all_struck`; says how often it was loaded, which is a whole number of times.
    pub(crate) async fn run(self, mut all_struck: watch::Receiver<bool>) -> Result<u64, Failure> {
        let next =
            "see the cause above; is the cluster up, and does it take records of half a megabyte (max.message.bytes)?";
        let failed = || format!("cannot write to {}", self.topic);
        // Some linger, since the lines of a text are short: fewer and fuller batches.
        let producer =
            self.client.producer().linger(Duration::from_millis(5)).start().await.or_failure(failed, next)?;
        let partitions = u64::from(self.partitions.unsigned_abs());
        let (mut repeats, mut written) = (0_u64, 0_u64);
        loop {
            for line in self.lines.iter() {
                // Round robin, said explicitly: each partition gets its share of the shortest text.
                let partition = i32::try_from(written % partitions).unwrap_or_default();
                let record = ProducerRecord::to(self.topic.clone()).partition(partition).value(line);
                // Its fate is heard of in `flush`.
                drop(producer.send(record).await.or_failure(failed, next)?);
                written += 1;
                if written.is_multiple_of(256) {
                    self.written.send_replace(written);
                }
            }
            repeats += 1;
            self.written.send_replace(written);
            if *all_struck.borrow() || !self.wait_for_hunger(written, &producer, &mut all_struck).await? {
                producer.flush().await.or_failure(failed, next)?;
                producer.close().await.or_failure(failed, next)?;
                return Ok(repeats);
            }
        }
    }

    /// Waits until the workers have less than a second's work left; false once all kills have struck.
    async fn wait_for_hunger(
        &self,
        written: u64,
        producer: &atonce_client::Producer,
        all_struck: &mut watch::Receiver<bool>,
    ) -> Result<bool, Failure> {
        let next = "see the cause above; is the cluster up?";
        let mut pace = Pace::default();
        loop {
            let committed = committed_lines(&self.client, &self.group, &self.topic, self.partitions).await?;
            pace.see(Instant::now(), committed);
            if written.saturating_sub(committed) < pace.lines_per_second().max(AHEAD_LINES_MIN) {
                return Ok(true);
            }
            // Nothing may linger while the loader waits.
            producer
                .flush()
                .await
                .or_failure(|| format!("cannot write to {} ({})", self.topic, self.guarantee.name()), next)?;
            if tokio::time::timeout(LOOK_INTERVAL, all_struck.wait_for(|all| *all)).await.is_ok() {
                return Ok(false);
            }
        }
    }
}

/// How fast the workers were, at their best, lately.
#[derive(Debug, Default)]
struct Pace {
    last: Option<(Instant, u64)>,
    best_per_second: u64,
}

impl Pace {
    fn see(&mut self, now: Instant, committed: u64) {
        /// Long enough to hold several commits.
        const WINDOW: Duration = Duration::from_millis(200);
        match self.last {
            Some((then, before)) if now - then >= WINDOW => {
                let ms = u64::try_from((now - then).as_millis()).unwrap_or(u64::MAX).max(1);
                self.best_per_second =
                    self.best_per_second.max(committed.saturating_sub(before).saturating_mul(1000) / ms);
                self.last = Some((now, committed));
            }
            Some(_) => {}
            None => self.last = Some((now, committed)),
        }
    }

    fn lines_per_second(&self) -> u64 {
        self.best_per_second
    }
}

/// How many lines the group has committed.
async fn committed_lines(client: &Client, group: &GroupId, topic: &TopicName, partitions: i32) -> Result<u64, Failure> {
    let partitions: Vec<_> = (0..partitions).map(|index| TopicPartition::new(topic.clone(), index)).collect();
    let committed = client.admin().committed_offsets(group, &partitions, false).await;
    let committed = committed
        .or_failure(|| format!("cannot read what {group} has committed"), "see the cause above; is the cluster up?")?;
    Ok(committed.values().map(|committed| u64::try_from(committed.offset).unwrap_or_default()).sum())
}

/// Whether there is input that the group has not committed yet: read or not, it is undone if the worker dies now.
pub(crate) async fn is_input_left(
    client: &Client,
    group: &GroupId,
    topic: &TopicName,
    partitions: i32,
) -> Result<bool, Failure> {
    let ends: Vec<_> =
        (0..partitions).map(|index| (TopicPartition::new(topic.clone(), index), OffsetSpec::Latest)).collect();
    let ends = client.admin().list_offsets(&ends, Isolation::ReadUncommitted).await;
    let ends =
        ends.or_failure(|| format!("cannot look up the ends of {topic}"), "see the cause above; is the cluster up?")?;
    let written: u64 = ends.values().map(|end| u64::try_from(end.offset.unwrap_or_default()).unwrap_or_default()).sum();
    Ok(committed_lines(client, group, topic, partitions).await? < written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_the_best_of_the_windows() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let at = |ms| start + Duration::from_millis(ms);
        pace.see(at(0), 0);
        pace.see(at(100), 1000);
        assert_eq!(pace.lines_per_second(), 0, "too short to tell");
        pace.see(at(200), 1000);
        assert_eq!(pace.lines_per_second(), 5000);
        pace.see(at(1200), 1100);
        assert_eq!(pace.lines_per_second(), 5000, "a pause does not make it slower");
    }
}
