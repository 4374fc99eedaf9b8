//! `atonce consume`: records become lines of standard output.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use atonce_client::{
    Client, Consumer, ConsumerEvent, ConsumerRecord, OffsetReset, Position, TopicName, TopicPartition,
};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::{Cluster, IsolationChoice, topic_name};
use crate::failure::{Failure, OrFailure};
use crate::output;

/// Reads a topic and prints the value of each record, a line each.
///
/// Without --group it reads all partitions, from where --from says, and remembers nothing. As a member of a group it shares the
/// partitions with the other members and goes on where the group left off; what is printed is committed afterwards. At Ctrl-C or SIGTERM it
/// leaves the group, and ends with status 130 or 143.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce consume orders --from beginning --until-end
  atonce consume totals --from beginning --print-keys --isolation uncommitted
  atonce consume orders --from 1000 --count 10 --partition 0
  atonce consume orders --group printers")]
pub(crate) struct Arguments {
    /// The topic. It must be there.
    #[arg(value_parser = topic_name)]
    topic: TopicName,
    /// Where to begin: `beginning`, `end`, or an offset. In a group: only where it has committed nothing.
    #[arg(long, value_name = "PLACE", default_value = "end", value_parser = place)]
    from: Place,
    /// Which records to see.
    #[arg(long, value_enum, default_value_t = IsolationChoice::Committed)]
    isolation: IsolationChoice,
    /// Prints the key before the value.
    #[arg(long)]
    print_keys: bool,
    /// What to print between key and value.
    #[arg(long, value_name = "TEXT", default_value = "\t", requires = "print_keys")]
    key_separator: String,
    /// Prints partition, offset and timestamp before the rest.
    #[arg(long)]
    print_places: bool,
    /// How to print values.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    value_format: Format,
    /// Ends after so many records.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Ends at the records that are the last ones when it begins.
    #[arg(long, conflicts_with = "group")]
    until_end: bool,
    /// Reads only this partition.
    #[arg(long, value_name = "N", conflicts_with = "group", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Reads as a member of this group.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Beginning,
    End,
    Offset(i64),
}

fn place(text: &str) -> Result<Place, String> {
    match text {
        "beginning" => Ok(Place::Beginning),
        "end" => Ok(Place::End),
        number => match number.parse() {
            Ok(offset) if offset >= 0 => Ok(Place::Offset(offset)),
            Ok(_) | Err(_) => Err("expected `beginning`, `end`, or an offset from 0".to_owned()),
        },
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// As they are.
    Text,
    /// An eight-byte big-endian integer, as Kafka's LongSerializer writes.
    Long,
    /// In hexadecimal.
    Hex,
}

const NEXT: &str = "see the cause above; `atonce topics list` shows the topics there are";

/// Prints until it is done, or for ever.
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let client = arguments.cluster.connect().await?;
    let failed = || format!("cannot read {}", arguments.topic);
    let partitions = partitions(&client, &arguments).await?;
    let builder = client.consumer().isolation(arguments.isolation.into());
    let mut consumer = match &arguments.group {
        Some(group) => {
            let reset = match arguments.from {
                Place::Beginning => OffsetReset::Earliest,
                Place::End => OffsetReset::Latest,
                Place::Offset(_) => {
                    return Err(Failure::new(
                        "a group goes on where it left off, not at an offset",
                        "leave out --group, or use --from beginning",
                    ));
                }
            };
            builder.group(group.as_str()).auto_offset_reset(reset).subscribe([arguments.topic.clone()]).await
        }
        None => {
            let position = match arguments.from {
                Place::Beginning => Position::Earliest,
                Place::End => Position::Latest,
                Place::Offset(offset) => Position::Offset(offset),
            };
            builder.assign(partitions.iter().map(|partition| (partition.clone(), position))).await
        }
    }
    .or_failure(failed, NEXT)?;
    let ends = if arguments.until_end {
        consumer.end_offsets(&partitions).await.or_failure(failed, NEXT)?
    } else {
        BTreeMap::new()
    };
    // Only a member of a group has something to finish.
    let told_to_end = match &arguments.group {
        Some(_) => Some(EndSignal::listen()?),
        None => None,
    };
    let signal_number = || told_to_end.as_ref().and_then(EndSignal::number);
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let at_end = |consumer: &Consumer| {
        arguments.until_end
            && ends.iter().all(|(partition, end)| consumer.position(partition).is_some_and(|at| at >= *end))
    };

    // Asked for with an offset at the end, or of an empty topic, there is nothing to wait for.
    while left > 0 && !at_end(&consumer) && signal_number().is_none() {
        let Some(event) = consumer.next_event(Duration::from_millis(200)).await.or_failure(failed, NEXT)? else {
            continue;
        };
        match event {
            ConsumerEvent::Batch(batch) => {
                let wanted = batch
                    .iter()
                    .filter(|record| ends.get(&record.topic_partition).is_none_or(|end| record.offset < *end));
                let printed: Vec<&ConsumerRecord> = wanted.take(usize::try_from(left).unwrap_or(usize::MAX)).collect();
                if !print(&printed, &arguments)? {
                    break;
                }
                left -= printed.len() as u64;
                if arguments.group.is_some() {
                    commit(&mut consumer, &batch, &printed).await?;
                }
            }
            // What was printed is committed already; the next call joins again.
            ConsumerEvent::Revoking(_) | ConsumerEvent::Assigned(..) | ConsumerEvent::Lost(_) => {}
        }
    }
    // All that was printed is committed. The other members get the partitions at once.
    consumer.close_and_leave().await.or_failure(failed, NEXT)?;
    Ok(signal_number().map_or(ExitCode::SUCCESS, |number| ExitCode::from(128 + number)))
}

/// SIGINT or SIGTERM, once it came. The second one ends the process at once, for a person who does not want to wait for the cluster.
struct EndSignal(watch::Receiver<Option<u8>>);

impl EndSignal {
    fn listen() -> Result<Self, Failure> {
        let next = "this system refuses signal handlers; run it where they are allowed";
        let mut interrupt = signal(SignalKind::interrupt()).or_failure(|| "cannot listen for SIGINT".into(), next)?;
        let mut terminate = signal(SignalKind::terminate()).or_failure(|| "cannot listen for SIGTERM".into(), next)?;
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            loop {
                let number: u8 = tokio::select! {
                    _ = interrupt.recv() => 2,
                    _ = terminate.recv() => 15,
                };
                if sender.send_replace(Some(number)).is_some() {
                    std::process::exit(128 + i32::from(number));
                }
            }
        });
        Ok(Self(receiver))
    }

    fn number(&self) -> Option<u8> {
        *self.0.borrow()
    }
}

async fn partitions(client: &Client, arguments: &Arguments) -> Result<Vec<TopicPartition>, Failure> {
    let topic = arguments.topic.clone();
    let failed = || format!("cannot read {topic}");
    let descriptions = client.admin().describe_topics(std::slice::from_ref(&topic)).await.or_failure(failed, NEXT)?;
    let mut all = Vec::new();
    for description in descriptions.into_values() {
        let description = description.or_failure(failed, NEXT)?;
        all.extend(description.partitions.iter().map(|p| TopicPartition::new(topic.clone(), p.partition)));
    }
    if let Some(wanted) = arguments.partition {
        let count = all.len();
        all.retain(|partition| partition.partition == wanted);
        if all.is_empty() {
            return Err(super::no_partition(&topic, wanted, count));
        }
    }
    Ok(all)
}

/// Commits what was printed of a batch: all of it, or up to the last record that was.
async fn commit(
    consumer: &mut Consumer,
    batch: &atonce_client::Batch,
    printed: &[&ConsumerRecord],
) -> Result<(), Failure> {
    let positions = if printed.len() == batch.len() {
        batch.positions()
    } else {
        let Some(group) = batch.positions().group().cloned() else { return Ok(()) };
        let mut positions = atonce_client::Positions::new(group);
        for record in printed {
            positions.insert(record.topic_partition.clone(), record.offset + 1);
        }
        positions
    };
    if positions.is_empty() {
        return Ok(());
    }
    consumer.commit(positions).await.or_failure(
        || "cannot commit what was printed".into(),
        "see the cause above; the last lines may be printed again by another member of the group",
    )
}

/// Prints records; false if nobody reads any more.
fn print(records: &[&ConsumerRecord], arguments: &Arguments) -> Result<bool, Failure> {
    let mut text = Vec::new();
    for record in records {
        if arguments.print_places {
            text.extend_from_slice(
                format!("{}\t{}\t{}\t", record.partition(), record.offset, record.timestamp).as_bytes(),
            );
        }
        if arguments.print_keys {
            text.extend_from_slice(record.key.as_deref().unwrap_or(b"null"));
            text.extend_from_slice(arguments.key_separator.as_bytes());
        }
        match &record.value {
            Some(value) => text.extend_from_slice(&show(value, arguments.value_format)),
            None => text.extend_from_slice(b"null"),
        }
        text.push(b'\n');
    }
    match output::write(&text) {
        Ok(()) => Ok(true),
        Err(failure) if failure.status() == 0 => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn show(value: &[u8], format: Format) -> Vec<u8> {
    match format {
        Format::Text => value.to_vec(),
        Format::Long => match <[u8; 8]>::try_from(value) {
            Ok(bytes) => i64::from_be_bytes(bytes).to_string().into_bytes(),
            Err(_) => format!("<{} bytes, not 8>", value.len()).into_bytes(),
        },
        Format::Hex => value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_words_or_offsets() {
        assert_eq!(place("beginning"), Ok(Place::Beginning));
        assert_eq!(place("end"), Ok(Place::End));
        assert_eq!(place("17"), Ok(Place::Offset(17)));
        assert!(place("-1").is_err());
        assert!(place("start").is_err());
    }

    #[test]
    fn values_are_shown_as_asked() {
        assert_eq!(show(b"a b", Format::Text), b"a b");
        assert_eq!(show(&7_i64.to_be_bytes(), Format::Long), b"7");
        assert_eq!(show(b"abc", Format::Long), b"<3 bytes, not 8>");
        assert_eq!(show(&[0, 255], Format::Hex), b"00ff");
    }
}
