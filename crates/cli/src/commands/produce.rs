//! `atonce produce`: lines of standard input become records.

use std::time::Duration;

use atonce_client::{Client, Compression, ProducerRecord, TopicName};
use clap::{Args, ValueEnum};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

use super::{Cluster, topic_name};
use crate::failure::{Failure, OrFailure};

/// Writes the lines of standard input to a topic, a record each, idempotently: each once and in order, over retries.
///
/// With --transactional-id they are written in transactions: those who read committed see all lines of a transaction, or none. If it
/// fails or is killed, the transaction that was open never shows.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce produce orders < orders.txt
  printf 'alice=3\\nbob=5\\n' | atonce produce totals --key-separator =
  atonce produce orders --transactional-id loader-1 < orders.txt                    all of it, or nothing
  atonce produce orders --transactional-id loader-1 --lines-per-transaction 1000 < orders.txt")]
pub(crate) struct Arguments {
    /// The topic. It must be there.
    #[arg(value_parser = topic_name)]
    topic: TopicName,
    /// What stands between key and value in a line. Without it, or in a line that lacks it, records have no key.
    #[arg(long, value_name = "TEXT")]
    key_separator: Option<String>,
    /// The partition to write to; otherwise chosen by the key, as Kafka's own clients do.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Writes in transactions under this id; whoever else has the id is fenced.
    #[arg(long, value_name = "ID")]
    transactional_id: Option<String>,
    /// How many lines each transaction takes; all of them in one, if not given.
    #[arg(long, value_name = "N", requires = "transactional_id", value_parser = clap::value_parser!(u64).range(1..))]
    lines_per_transaction: Option<u64>,
    /// How batches are compressed.
    #[arg(long, value_enum, default_value_t = CompressionChoice::None)]
    compression: CompressionChoice,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompressionChoice {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl From<CompressionChoice> for Compression {
    fn from(choice: CompressionChoice) -> Self {
        match choice {
            CompressionChoice::None => Self::None,
            CompressionChoice::Gzip => Self::Gzip,
            CompressionChoice::Snappy => Self::Snappy,
            CompressionChoice::Lz4 => Self::Lz4,
            CompressionChoice::Zstd => Self::Zstd,
        }
    }
}

const NEXT: &str =
    "see the cause above; `atonce topics list` shows the topics there are, `atonce topics create` makes one";

/// Long enough to fill batches from a pipe, too short for a person at a keyboard to notice.
const LINGER: Duration = Duration::from_millis(5);

/// Writes until standard input ends.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.cluster.connect().await?;
    let topic = arguments.topic;
    known(&client, &topic, arguments.partition).await?;
    let lines = Lines { input: BufReader::new(tokio::io::stdin()) };
    let record = RecordMaker {
        topic,
        key_separator: arguments.key_separator.map(String::into_bytes).filter(|separator| !separator.is_empty()),
        partition: arguments.partition,
    };
    let compression = arguments.compression.into();
    match arguments.transactional_id {
        None => idempotent(&client, lines, &record, compression).await,
        Some(id) => {
            let limit = arguments.lines_per_transaction.unwrap_or(u64::MAX);
            transactional(&client, lines, &record, compression, &id, limit).await
        }
    }
}

/// A producer waits for its topic's metadata; a topic or partition that is not there should be named at once.
async fn known(client: &Client, topic: &TopicName, partition: Option<i32>) -> Result<(), Failure> {
    let answer = client
        .admin()
        .describe_topics(std::slice::from_ref(topic))
        .await
        .or_failure(|| format!("cannot look up {topic}"), NEXT)?;
    for description in answer.into_values() {
        let partitions = description.or_failure(|| format!("cannot write to {topic}"), NEXT)?.partitions;
        if let Some(wanted) = partition
            && partitions.iter().all(|there| there.partition != wanted)
        {
            return Err(super::no_partition(topic, wanted, partitions.len()));
        }
    }
    Ok(())
}

async fn idempotent(
    client: &Client,
    mut lines: Lines<impl AsyncBufRead + Unpin>,
    record: &RecordMaker,
    compression: Compression,
) -> Result<(), Failure> {
    let failed = || format!("cannot write to {}", record.topic);
    let producer = client.producer().linger(LINGER).compression(compression).start().await.or_failure(failed, NEXT)?;
    while let Some(line) = lines.next().await? {
        // Its fate is heard of in `flush`.
        drop(producer.send(record.of(line)).await.or_failure(failed, NEXT)?);
    }
    producer.flush().await.or_failure(failed, NEXT)?;
    producer.close().await.or_failure(failed, NEXT)
}

async fn transactional(
    client: &Client,
    mut lines: Lines<impl AsyncBufRead + Unpin>,
    record: &RecordMaker,
    compression: Compression,
    id: &str,
    limit: u64,
) -> Result<(), Failure> {
    let failed = || format!("cannot write to {} as {id}", record.topic);
    let mut producer = client
        .transactional_producer(id)
        .linger(LINGER)
        .compression(compression)
        .start()
        .await
        .or_failure(failed, NEXT)?;
    let mut committed: u64 = 0;
    let mut next = lines.next().await?;
    while next.is_some() {
        let transaction = producer.begin().await.or_failure(failed, NEXT)?;
        let mut taken = 0;
        while taken < limit
            && let Some(line) = next
        {
            drop(transaction.send(record.of(line)).await.or_failure(failed, NEXT)?);
            taken += 1;
            next = lines.next().await?;
        }
        transaction.commit().await.or_failure(
            || format!("the transaction after line {committed} of standard input failed, as {id}"),
            "the lines before are committed; of the cause above, see whether it may have been committed, then go on from that line",
        )?;
        committed += taken;
    }
    producer.close().await.or_failure(failed, NEXT)
}

struct RecordMaker {
    topic: TopicName,
    key_separator: Option<Vec<u8>>,
    partition: Option<i32>,
}

impl RecordMaker {
    fn of(&self, line: Vec<u8>) -> ProducerRecord {
        let record = ProducerRecord::to(self.topic.clone());
        let record = match self.partition {
            Some(partition) => record.partition(partition),
            None => record,
        };
        match split(&line, self.key_separator.as_deref()) {
            Some((key, value)) => record.key(key).value(value),
            None => record.value(line),
        }
    }
}

/// Key and value of a line; `None` if it has no separator.
fn split<'a>(line: &'a [u8], separator: Option<&[u8]>) -> Option<(&'a [u8], &'a [u8])> {
    let separator = separator?;
    let at = line.windows(separator.len()).position(|window| window == separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

struct Lines<R> {
    input: R,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// The next line without its end, `\n` or `\r\n`.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line).await;
        let read = read.or_failure(
            || "cannot read standard input".into(),
            "see the cause above; what was read before is written",
        )?;
        if read == 0 {
            return Ok(None);
        }
        if line.ends_with(b"\n") {
            line.pop();
            if line.ends_with(b"\r") {
                line.pop();
            }
        }
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        assert_eq!(split(b"a=b=c", Some(b"=")), Some((b"a".as_slice(), b"b=c".as_slice())));
        assert_eq!(split(b"a::b", Some(b"::")), Some((b"a".as_slice(), b"b".as_slice())));
        assert_eq!(split(b"=b", Some(b"=")), Some((b"".as_slice(), b"b".as_slice())));
        assert_eq!(split(b"ab", Some(b"=")), None);
        assert_eq!(split(b"a=b", None), None);
        assert_eq!(split(b"a", Some(b"long")), None);
    }

    #[tokio::test]
    async fn lines_lose_their_ends_and_nothing_else() {
        let mut lines = Lines { input: b"a \r\n\n\rb\nlast".as_slice() };
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.expect("memory can be read") {
            all.push(line);
        }
        assert_eq!(all, [b"a ".to_vec(), b"".to_vec(), b"\rb".to_vec(), b"last".to_vec()]);
    }
}
