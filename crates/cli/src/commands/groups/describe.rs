//! `atonce groups describe`: state, members, and how far each partition is behind.

use std::collections::{BTreeMap, BTreeSet};

use atonce_client::admin::{CommittedOffset, GroupDescription, ListedOffset, MemberDescription, PerItem};
use atonce_client::{Admin, GroupId, Isolation, OffsetSpec, TopicPartition};
use clap::Args;
use serde_json::{Value, json};

use crate::commands::{Cluster, IsolationChoice, REACH, each, group_id};
use crate::failure::{Failure, OrFailure};
use crate::output::{or_dash, say, table};

/// Shows groups: their offsets and how far they are behind, or their members.
///
/// A group is behind by the offsets between what it has committed and the end that its readers see: the last stable offset, for those
/// that read committed. Offsets are not only records: each transaction ends with a marker, which takes one too.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Their ids.
    #[arg(required = true, value_name = "GROUP", value_parser = group_id)]
    groups: Vec<GroupId>,
    /// Shows members with their partitions instead of offsets.
    #[arg(long)]
    members: bool,
    /// Shows the state only.
    #[arg(long, conflicts_with = "members")]
    state: bool,
    /// How the group's members read: it decides which end they are behind of.
    #[arg(long, value_enum, default_value_t = IsolationChoice::Committed)]
    isolation: IsolationChoice,
    /// A line of JSON for each group, with all of it, instead of tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Cluster,
}

/// A partition that the group reads, or has read.
struct Place {
    partition: TopicPartition,
    committed: Option<CommittedOffset>,
    log_start: Option<i64>,
    last_stable: Option<i64>,
    high_watermark: Option<i64>,
    /// Which member has it, by its place in the list.
    member: Option<usize>,
}

impl Place {
    /// Nothing is to be said of how far it is behind where nothing is committed: the members' reset policy decides.
    fn lag(&self, isolation: IsolationChoice) -> Option<i64> {
        let end = match isolation {
            IsolationChoice::Committed => self.last_stable,
            IsolationChoice::Uncommitted => self.high_watermark,
        };
        Some((end? - self.committed.as_ref()?.offset).max(0))
    }
}

/// Shows them.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let admin = arguments.cluster.connect().await?.admin();
    let failed = || "cannot describe groups".to_owned();
    let described = admin.describe_groups(&arguments.groups).await.or_failure(failed, REACH)?;
    let described = each(described, "describe", |_| false, super::SEE_LIST)?;
    let committed = admin.committed_offsets_of_groups(&arguments.groups, false).await.or_failure(failed, REACH)?;
    let mut committed = each(committed, "tell the offsets of", |_| false, super::SEE_LIST)?;
    for group in described.values() {
        let offsets = committed.remove(&group.group).unwrap_or_default();
        let places = places(&admin, group, offsets).await?;
        if arguments.json {
            say(as_json(group, &places, arguments.isolation))?;
            continue;
        }
        let assignor = if group.assignor.is_empty() { "-" } else { group.assignor.as_str() };
        say(format_args!(
            "{}: {} ({}), {} members, assignor {assignor}, coordinator {}",
            group.group,
            group.state,
            group.group_type,
            group.members.len(),
            group.coordinator
        ))?;
        if arguments.members {
            say_members(group)?;
        } else if !arguments.state {
            say_places(group, &places, arguments.isolation)?;
        }
    }
    Ok(())
}

/// What is committed, and what is assigned.
async fn places(
    admin: &Admin,
    group: &GroupDescription,
    mut committed: BTreeMap<TopicPartition, CommittedOffset>,
) -> Result<Vec<Place>, Failure> {
    let mut members: BTreeMap<TopicPartition, usize> = BTreeMap::new();
    for (index, member) in group.members.iter().enumerate() {
        members.extend(member.assignment.iter().map(|it| (it.clone(), index)));
    }
    let all: BTreeSet<TopicPartition> = committed.keys().chain(members.keys()).cloned().collect();
    let look_up = async |spec: OffsetSpec, isolation: Isolation| {
        let asked: Vec<_> = all.iter().map(|it| (it.clone(), spec)).collect();
        let listed = admin.list_offsets_each(&asked, isolation).await;
        listed.or_failure(|| format!("cannot look up where the partitions of {} end", group.group), REACH)
    };
    let starts = look_up(OffsetSpec::Earliest, Isolation::ReadUncommitted).await?;
    let stable = look_up(OffsetSpec::Latest, Isolation::ReadCommitted).await?;
    let high = look_up(OffsetSpec::Latest, Isolation::ReadUncommitted).await?;
    // A topic that was deleted since has no end any more, and its offsets are still shown.
    let at = |listed: &PerItem<TopicPartition, ListedOffset>, it: &TopicPartition| {
        listed.get(it).and_then(|listed| listed.as_ref().ok()?.offset)
    };
    let places = all.iter().map(|it| Place {
        partition: it.clone(),
        committed: committed.remove(it),
        log_start: at(&starts, it),
        last_stable: at(&stable, it),
        high_watermark: at(&high, it),
        member: members.get(it).copied(),
    });
    Ok(places.collect())
}

fn as_json(group: &GroupDescription, places: &[Place], isolation: IsolationChoice) -> Value {
    let partitions = |all: &[TopicPartition]| -> Vec<Value> {
        all.iter().map(|it| json!({"topic": it.topic.as_str(), "partition": it.partition})).collect()
    };
    let member = |it: &MemberDescription| {
        json!({"member_id": it.member_id.as_str(), "instance_id": it.instance_id.as_ref().map(|id| id.as_str()),
               "client_id": it.client_id, "host": it.host, "epoch": it.epoch,
               "assignment": partitions(&it.assignment), "target": it.target.as_deref().map(partitions)})
    };
    let offset = |it: &Place| {
        let committed = it.committed.as_ref();
        json!({"topic": it.partition.topic.as_str(), "partition": it.partition.partition,
               "committed_offset": committed.map(|it| it.offset), "metadata": committed.map(|it| it.metadata.as_str()),
               "log_start_offset": it.log_start, "last_stable_offset": it.last_stable,
               "high_watermark": it.high_watermark, "lag": it.lag(isolation),
               "member_id": member_of(group, it).map(|it| it.member_id.as_str())})
    };
    json!({"group": group.group.as_str(), "type": group.group_type.name(), "state": group.state.name(),
           "protocol_type": group.protocol_type, "assignor": group.assignor, "coordinator": group.coordinator,
           "group_epoch": group.epochs.map(|it| it.0), "assignment_epoch": group.epochs.map(|it| it.1),
           "members": group.members.iter().map(member).collect::<Vec<_>>(),
           "offsets": places.iter().map(offset).collect::<Vec<_>>()})
}

fn member_of<'group>(group: &'group GroupDescription, place: &Place) -> Option<&'group MemberDescription> {
    group.members.get(place.member?)
}

fn say_members(group: &GroupDescription) -> Result<(), Failure> {
    let mut table = table(&["member id", "instance id", "client id", "host", "partitions"]);
    for it in &group.members {
        let partitions: Vec<String> = it.assignment.iter().map(ToString::to_string).collect();
        table.add_row([
            it.member_id.to_string(),
            or_dash(it.instance_id.as_ref()),
            it.client_id.clone(),
            it.host.clone(),
            if partitions.is_empty() { "-".to_owned() } else { partitions.join(", ") },
        ]);
    }
    say(&table)
}

fn say_places(group: &GroupDescription, places: &[Place], isolation: IsolationChoice) -> Result<(), Failure> {
    let mut table =
        table(&["topic", "partition", "committed", "last stable", "high watermark", "lag", "member", "host"]);
    for it in places {
        let member = member_of(group, it);
        table.add_row([
            it.partition.topic.to_string(),
            it.partition.partition.to_string(),
            or_dash(it.committed.as_ref().map(|it| it.offset)),
            or_dash(it.last_stable),
            or_dash(it.high_watermark),
            or_dash(it.lag(isolation)),
            or_dash(member.map(|it| it.instance_id.as_ref().map_or(it.member_id.as_str(), |id| id.as_str()))),
            or_dash(member.map(|it| it.host.as_str())),
        ]);
    }
    say(&table)
}
