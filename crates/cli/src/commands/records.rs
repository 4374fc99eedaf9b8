//! `atonce records`: making old records unreadable.

use atonce_client::TopicPartition;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Cluster, REACH, Selection, each, partitions, selection};
use crate::failure::{Failure, OrFailure};
use crate::output::{say, table};

/// Deletes the oldest records of partitions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce records delete orders:0 --before 1000
  atonce records delete orders --before end                       all there is, in every partition")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Deletes the records below an offset, and shows the first offset that remains. There is no way back.
    Delete {
        /// Topics, or some of their partitions, as in orders:0,2.
        #[arg(required = true, value_name = "TOPIC[:PARTITIONS]", value_parser = selection)]
        topics: Vec<Selection>,
        /// The first offset to stay, or `end` for none.
        #[arg(long, value_name = "OFFSET", value_parser = before)]
        before: i64,
        /// A line of JSON for each partition instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
}

/// An offset, or -1 for the high watermark.
fn before(text: &str) -> Result<i64, String> {
    match text.parse() {
        _ if text == "end" => Ok(-1),
        Ok(offset) if offset >= 0 => Ok(offset),
        Ok(_) | Err(_) => Err("expected `end`, or an offset from 0".to_owned()),
    }
}

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Verb::Delete { topics, before, json, cluster } = arguments.verb;
    let client = cluster.connect().await?;
    let wanted: Vec<(TopicPartition, i64)> =
        partitions(&client, &topics).await?.into_iter().map(|it| (it, before)).collect();
    let deleted = client.admin().delete_records(&wanted).await.or_failure(|| "cannot delete records".into(), REACH)?;
    let done = each(
        deleted,
        "delete records of",
        |_| false,
        "see the cause above; `atonce topics describe` shows where logs begin and end. What could be deleted is",
    )?;
    if json {
        return done.into_iter().try_for_each(|(it, offset)| {
            say(json!({"topic": it.topic.as_str(), "partition": it.partition, "log_start_offset": offset}))
        });
    }
    let mut table = table(&["topic", "partition", "log start"]);
    for (it, offset) in done {
        table.add_row([it.topic.to_string(), it.partition.to_string(), offset.to_string()]);
    }
    say(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_an_offset_too() {
        assert_eq!((before("end"), before("0"), before("17")), (Ok(-1), Ok(0), Ok(17)));
        assert!(before("-1").is_err() && before("x").is_err());
    }
}
