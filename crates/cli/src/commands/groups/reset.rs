//! `atonce groups reset`: moves what a group has committed, as `kafka-consumer-groups.sh --reset-offsets` does.
//!
//! First a plan, which is shown; with --execute it is done. Nothing is done where one partition of it cannot be.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use atonce_client::admin::{CommittedOffset, GroupState, ListedOffset, NewOffset, PerItem};
use atonce_client::{Admin, Client, GroupId, Isolation, OffsetSpec, TopicPartition};
use clap::Args;
use serde_json::json;

use crate::commands::{Cluster, IsolationChoice, REACH, Selection, each, group_id, partitions, selection, topic_name};
use crate::failure::{Failure, OrFailure};
use crate::output::{or_dash, remark, say, table};
use crate::time;

/// Moves what a group has committed. Only shows what would change, unless --execute is given; the group must have no members.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce groups reset payments --all-topics --to-earliest
  atonce groups reset payments --topic orders:0,1 --shift-by=-100 --execute
  atonce groups reset payments --topic orders --to-datetime 2026-01-31T10:00:00 --execute
  atonce groups reset payments --all-topics --to-current --export > offsets.csv
  atonce groups reset payments --from-file offsets.csv --execute")]
pub(crate) struct Arguments {
    /// The group.
    #[arg(value_parser = group_id)]
    group: GroupId,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    target: Target,
    /// Which end --to-latest means: that of committed readers leaves out what is in open transactions now.
    #[arg(long, value_enum, default_value_t = IsolationChoice::Committed)]
    isolation: IsolationChoice,
    /// Does it.
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Only shows it, which is so without --execute too.
    #[arg(long)]
    dry_run: bool,
    /// Prints lines of `topic,partition,offset` that --from-file takes, instead of a table.
    #[arg(long, conflicts_with = "json")]
    export: bool,
    /// A line of JSON for each partition instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Cluster,
}

/// Which partitions.
#[derive(Debug, Args)]
#[group(required = false, multiple = false)]
struct Scope {
    /// A topic, or some of its partitions, as in orders:0,2. May be given again.
    #[arg(long = "topic", value_name = "TOPIC[:PARTITIONS]", value_parser = selection)]
    topics: Vec<Selection>,
    /// All that the group has committed for.
    #[arg(long, conflicts_with = "from_file")]
    all_topics: bool,
}

/// Where to.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::commands) struct Target {
    /// To the first record there is.
    #[arg(long)]
    to_earliest: bool,
    /// To the end.
    #[arg(long)]
    to_latest: bool,
    /// To where it is; to the end where nothing is committed.
    #[arg(long)]
    to_current: bool,
    /// To an offset; to the nearest one there is, if it is outside the log.
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// To the first record at or after a time, as in 2026-01-31T10:00:00.000 (UTC, or with Z or +hh:mm).
    #[arg(long, value_name = "TIME", value_parser = time::datetime)]
    to_datetime: Option<i64>,
    /// To the first record that is not older than so long, as in PT1H30M or 90m.
    #[arg(long, value_name = "DURATION", value_parser = time::duration)]
    by_duration: Option<Duration>,
    /// By so many offsets from where it is, on or (--shift-by=-10) back; to the nearest one there is.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    shift_by: Option<i64>,
    /// To what a file says in lines of `topic,partition,offset`.
    #[arg(long, value_name = "FILE", conflicts_with = "topics")]
    from_file: Option<PathBuf>,
}

/// The same as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Move {
    Earliest,
    Latest,
    Current,
    Offset(i64),
    Time(i64),
    By(i64),
    Listed(BTreeMap<TopicPartition, i64>),
}

const SEE_GROUP: &str = "see the cause above; `atonce groups describe GROUP` shows what it has committed";

/// What would be committed, where something is known of it.
pub(in crate::commands) type Plan = BTreeMap<TopicPartition, Change>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) struct Change {
    pub(in crate::commands) from: Option<i64>,
    pub(in crate::commands) to: i64,
}

/// Shows the plan; does it, if asked to.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let to = target(&arguments.target)?;
    if !matches!(to, Move::Listed(_)) && arguments.scope.topics.is_empty() && !arguments.scope.all_topics {
        return Err(Failure::new(
            "which topics?",
            "name them by --topic, which may be given again, or say --all-topics for all that the group has committed for",
        )
        .with_status(2));
    }
    let client = arguments.cluster.connect().await?;
    let group = &arguments.group;
    let admin = client.admin();
    let committed = committed(&admin, group).await?;
    let wanted = wanted(&client, &arguments.scope, &to, &committed).await?;
    let plan = plan(&admin, &to, &wanted, &committed, arguments.isolation.into()).await?;
    if plan.is_empty() {
        return Err(Failure::new(
            format!("{group} has committed nothing there"),
            "name topics by --topic; `atonce groups describe GROUP` shows what it has committed",
        ));
    }
    must_be_empty(&admin, group).await?;
    if arguments.execute {
        let offsets: Vec<_> = plan.iter().map(|(it, change)| (it.clone(), NewOffset::at(change.to))).collect();
        let altered = admin.alter_committed_offsets(group, &offsets).await;
        let altered = altered.or_failure(|| format!("cannot reset {group}"), REACH)?;
        let next =
            "see the cause above; the other partitions are reset. A group with members cannot be: stop them first";
        each(altered, "reset", |_| false, next)?;
    }
    show(group, &plan, arguments.export, arguments.json)?;
    if !arguments.execute && !arguments.export {
        remark("nothing is changed yet: --execute does it");
    }
    Ok(())
}

pub(in crate::commands) fn target(given: &Target) -> Result<Move, Failure> {
    if let Some(path) = &given.from_file {
        let text = std::fs::read_to_string(path).or_failure(
            || format!("cannot read {}", path.display()),
            "name a file of lines `topic,partition,offset`, as --export prints them",
        )?;
        let wrong = |told| {
            Failure::new(
                format!("{}: {told}", path.display()),
                "each line is `topic,partition,offset`, as --export prints it",
            )
        };
        return listed(&text).map(Move::Listed).map_err(wrong);
    }
    let by_duration = given.by_duration.map(|it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX));
    Ok(match given {
        Target { to_earliest: true, .. } => Move::Earliest,
        Target { to_latest: true, .. } => Move::Latest,
        Target { to_offset: Some(offset), .. } => Move::Offset(*offset),
        Target { to_datetime: Some(ms), .. } => Move::Time(*ms),
        Target { shift_by: Some(by), .. } => Move::By(*by),
        _ => by_duration.map_or(Move::Current, |ms| Move::Time(time::now_ms().saturating_sub(ms).max(0))),
    })
}

/// Lines of `topic,partition,offset`. Empty ones are nothing.
fn listed(text: &str) -> Result<BTreeMap<TopicPartition, i64>, String> {
    let mut offsets = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = index + 1;
        let fields: Vec<&str> = line.split(',').map(|it| it.trim().trim_matches('"')).collect();
        let [topic, partition, offset] = fields.as_slice() else {
            return Err(format!("line {number} has {} fields and not three", fields.len()));
        };
        let topic = topic_name(topic).map_err(|told| format!("line {number}: {told}"))?;
        let whole = |text: &str, what| {
            let number_of = text.parse::<i64>().ok().filter(|it| *it >= 0);
            number_of.ok_or_else(|| format!("line {number}: {text:?} is no {what}"))
        };
        let partition = i32::try_from(whole(partition, "partition")?);
        let partition = partition.map_err(|_| format!("line {number}: there are not so many partitions"))?;
        let place = TopicPartition::new(topic, partition);
        if offsets.insert(place.clone(), whole(offset, "offset")?).is_some() {
            return Err(format!("line {number}: {place} stands there twice"));
        }
    }
    if offsets.is_empty() { Err("it has no line".to_owned()) } else { Ok(offsets) }
}

pub(in crate::commands) async fn committed(
    admin: &Admin,
    group: &GroupId,
) -> Result<BTreeMap<TopicPartition, CommittedOffset>, Failure> {
    let failed = || format!("cannot look up what {group} has committed");
    let told = admin.committed_offsets_of_groups(std::slice::from_ref(group), false).await;
    let told = each(told.or_failure(failed, REACH)?, "look up", |_| false, SEE_GROUP)?;
    Ok(told.into_values().next().unwrap_or_default())
}

/// Members would go on from where they are, and commit over it.
async fn must_be_empty(admin: &Admin, group: &GroupId) -> Result<(), Failure> {
    let told = admin.describe_groups(std::slice::from_ref(group)).await;
    let told = told.or_failure(|| format!("cannot look at {group}"), REACH)?;
    // A group that nobody knows is made by the first offset.
    let told = each(told, "look at", atonce_client::AdminError::is_not_there, super::SEE_LIST)?;
    match told.get(group) {
        Some(it) if !matches!(it.state, GroupState::Empty | GroupState::Dead) => Err(Failure::new(
            format!("{group} is {} and has {} members: it would go on from where it is", it.state, it.members.len()),
            "stop its members first; `atonce groups describe GROUP --members` shows them",
        )),
        Some(_) | None => Ok(()),
    }
}

async fn wanted(
    client: &Client,
    scope: &Scope,
    to: &Move,
    committed: &BTreeMap<TopicPartition, CommittedOffset>,
) -> Result<Vec<TopicPartition>, Failure> {
    if let Move::Listed(offsets) = to {
        return Ok(offsets.keys().cloned().collect());
    }
    if scope.all_topics { Ok(committed.keys().cloned().collect()) } else { partitions(client, &scope.topics).await }
}

pub(in crate::commands) async fn plan(
    admin: &Admin,
    to: &Move,
    wanted: &[TopicPartition],
    committed: &BTreeMap<TopicPartition, CommittedOffset>,
    isolation: Isolation,
) -> Result<Plan, Failure> {
    let look_up = async |spec: OffsetSpec, isolation: Isolation| {
        let asked: Vec<_> = wanted.iter().map(|it| (it.clone(), spec)).collect();
        let listed = admin.list_offsets_each(&asked, isolation).await;
        let listed: PerItem<TopicPartition, ListedOffset> =
            listed.or_failure(|| "cannot look offsets up".into(), REACH)?;
        each(listed, "look up offsets of", |_| false, crate::commands::SEE_TOPICS)
    };
    if wanted.is_empty() {
        return Ok(Plan::new());
    }
    let starts = look_up(OffsetSpec::Earliest, Isolation::ReadUncommitted).await?;
    let ends = look_up(OffsetSpec::Latest, isolation).await?;
    let at_time = match to {
        Move::Time(ms) => look_up(OffsetSpec::Timestamp(*ms), isolation).await?,
        Move::Earliest | Move::Latest | Move::Current | Move::Offset(_) | Move::By(_) | Move::Listed(_) => {
            BTreeMap::new()
        }
    };
    let offset = |listed: &BTreeMap<TopicPartition, ListedOffset>, it| listed.get(it).and_then(|it| it.offset);
    let mut plan = Plan::new();
    for it in wanted {
        let log = Log {
            start: offset(&starts, it).unwrap_or(0),
            end: offset(&ends, it).unwrap_or(0),
            at_time: offset(&at_time, it),
        };
        let from = committed.get(it).map(|it| it.offset);
        let (aim, to) = destination(to, it, from, log).ok_or_else(|| {
            Failure::new(
                format!("{it} has no committed offset to shift from"),
                "leave it out, or choose another place for it, as by --to-earliest",
            )
        })?;
        if aim != to {
            remark(format_args!("{it}: offset {aim} is not in the log; {to} is the nearest one"));
        }
        plan.insert(it.clone(), Change { from, to });
    }
    Ok(plan)
}

/// A partition's log.
#[derive(Clone, Copy)]
struct Log {
    start: i64,
    end: i64,
    /// The first record at or after the time asked for.
    at_time: Option<i64>,
}

/// Where a partition is to go, and the nearest offset to that in its log; `None` if it should be shifted from nowhere.
fn destination(to: &Move, partition: &TopicPartition, from: Option<i64>, log: Log) -> Option<(i64, i64)> {
    let aim = match to {
        Move::Earliest => log.start,
        Move::Latest => log.end,
        // It stays where it is, whatever the log has become.
        Move::Current => return Some((from.unwrap_or(log.end), from.unwrap_or(log.end))),
        Move::Offset(offset) => *offset,
        Move::Time(_) => log.at_time.unwrap_or(log.end),
        Move::By(by) => from?.saturating_add(*by),
        Move::Listed(offsets) => *offsets.get(partition)?,
    };
    Some((aim, aim.clamp(log.start, log.end.max(log.start))))
}

fn show(group: &GroupId, plan: &Plan, export: bool, json: bool) -> Result<(), Failure> {
    if export {
        return plan
            .iter()
            .try_for_each(|(it, change)| say(format_args!("{},{},{}", it.topic, it.partition, change.to)));
    }
    if json {
        return plan.iter().try_for_each(|(it, change)| {
            say(json!({"group": group.as_str(), "topic": it.topic.as_str(), "partition": it.partition,
                       "committed_offset": change.from, "new_offset": change.to}))
        });
    }
    let mut table = table(&["group", "topic", "partition", "committed", "new offset"]);
    for (it, change) in plan {
        table.add_row([
            group.to_string(),
            it.topic.to_string(),
            it.partition.to_string(),
            or_dash(change.from),
            change.to.to_string(),
        ]);
    }
    say(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(to: Move, from: Option<i64>, expected: Option<(i64, i64)>) {
        let log = Log { start: 10, end: 20, at_time: None };
        assert_eq!(destination(&to, &TopicPartition::new("t", 0), from, log), expected, "{to:?} from {from:?}");
    }

    #[test]
    fn every_way_ends_within_the_log() {
        check(Move::Earliest, Some(12), Some((10, 10)));
        check(Move::Latest, None, Some((20, 20)));
        check(Move::Current, Some(5), Some((5, 5)));
        check(Move::Current, None, Some((20, 20)));
        check(Move::Offset(15), None, Some((15, 15)));
        check(Move::Offset(25), None, Some((25, 20)));
        check(Move::Offset(3), Some(12), Some((3, 10)));
        check(Move::By(-1), Some(12), Some((11, 11)));
        check(Move::By(i64::MAX), Some(12), Some((i64::MAX, 20)));
        check(Move::By(1), None, None);
        check(Move::Time(0), Some(12), Some((20, 20)));
        check(Move::Listed([(TopicPartition::new("t", 0), 11)].into()), None, Some((11, 11)));
    }

    #[test]
    fn a_time_is_where_its_record_is() {
        let log = Log { start: 10, end: 20, at_time: Some(13) };
        assert_eq!(destination(&Move::Time(0), &TopicPartition::new("t", 0), None, log), Some((13, 13)));
    }

    #[test]
    fn a_file_is_lines_of_three_fields() {
        let read = listed("orders,0,7\n\n\"orders\", 1, 8\r\n").expect("is well formed");
        let at = |partition| TopicPartition::new("orders", partition);
        assert_eq!(read, [(at(0), 7), (at(1), 8)].into());
        for (wrong, told) in [
            ("", "no line"),
            ("orders,0", "line 1 has 2 fields"),
            ("orders,0,1\norders,x,1", "line 2: \"x\" is no partition"),
            ("orders,0,-1", "\"-1\" is no offset"),
            ("a b,0,1", "line 1:"),
            ("orders,0,1\norders,0,2", "twice"),
            ("orders,4294967296,1", "not so many"),
        ] {
            let error = listed(wrong).expect_err(wrong);
            assert!(error.contains(told), "{wrong:?}: {error}");
        }
    }
}
