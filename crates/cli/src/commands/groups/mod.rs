//! `atonce groups`: listing, describing, resetting and deleting groups.

mod describe;
pub(super) mod reset;

use atonce_client::admin::{GroupFilter, GroupState, GroupType};
use atonce_client::{AdminError, Client, GroupId, GroupInstanceId};
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Cluster, REACH, Selection, each, group_id, selection};
use crate::failure::{Failure, OrFailure};
use crate::output::{remark, say, table};

/// Lists, describes, resets and deletes groups.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce groups list --state empty
  atonce groups describe payments                                 members, offsets, and how far they are behind
  atonce groups reset payments --topic orders --to-earliest       shows what would change
  atonce groups reset payments --topic orders --to-earliest --execute
  atonce groups delete payments")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists groups.
    List {
        /// Only those in this state, as in `empty`. May be given again.
        #[arg(long = "state", value_name = "STATE")]
        states: Vec<GroupState>,
        /// Only those of this kind, as in `classic`. May be given again.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<GroupType>,
        /// A line of JSON for each instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    Describe(describe::Arguments),
    Reset(reset::Arguments),
    /// Deletes groups that have no members, with their offsets.
    Delete {
        /// Their ids.
        #[arg(required = true, value_name = "GROUP", value_parser = group_id)]
        groups: Vec<GroupId>,
        /// It is no failure if a group is not there.
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Forgets what a group has committed for topics that none of its members reads.
    DeleteOffsets {
        /// The group.
        #[arg(value_parser = group_id)]
        group: GroupId,
        /// A topic, or some of its partitions, as in orders:0,2. May be given again.
        #[arg(long = "topic", required = true, value_name = "TOPIC[:PARTITIONS]", value_parser = selection)]
        topics: Vec<Selection>,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Takes members out of a group, as if their sessions had ended: those that still run join again.
    RemoveMembers {
        /// The group.
        #[arg(value_parser = group_id)]
        group: GroupId,
        /// A static member, by its group.instance.id. May be given again.
        #[arg(long = "instance-id", value_name = "ID", required_unless_present = "all")]
        instance_ids: Vec<String>,
        /// All members.
        #[arg(long, conflicts_with = "instance_ids")]
        all: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
}

pub(super) const SEE_LIST: &str = "see the cause above; `atonce groups list` shows the groups there are";

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Verb::List { states, types, json, cluster } => {
            list(&cluster.connect().await?, &GroupFilter { states, types }, json).await
        }
        Verb::Describe(arguments) => describe::run(arguments).await,
        Verb::Reset(arguments) => reset::run(arguments).await,
        Verb::Delete { groups, if_exists, cluster } => {
            let deleted = cluster.connect().await?.admin().delete_groups(&groups).await;
            let deleted = deleted.or_failure(|| "cannot delete groups".into(), REACH)?;
            let next = "see the cause above; `atonce groups list` shows the groups there are, and only empty ones can be deleted";
            each(deleted, "delete", |error| if_exists && error.is_not_there(), next).map(drop)
        }
        Verb::DeleteOffsets { group, topics, cluster } => {
            delete_offsets(&cluster.connect().await?, &group, &topics).await
        }
        Verb::RemoveMembers { group, instance_ids, all, cluster } => {
            let admin = cluster.connect().await?.admin();
            let failed = || format!("cannot remove members of {group}");
            let next = "see the cause above; `atonce groups describe GROUP --members` shows the members there are";
            if all {
                let removed = admin.remove_all_group_members(&group).await.or_failure(failed, SEE_LIST)?;
                return each(removed, "remove", AdminError::is_not_there, next).map(drop);
            }
            let ids: Vec<GroupInstanceId> = instance_ids.into_iter().map(GroupInstanceId::from).collect();
            let removed = admin.remove_group_members(&group, &ids).await.or_failure(failed, SEE_LIST)?;
            each(removed, "remove", |_| false, next).map(drop)
        }
    }
}

async fn list(client: &Client, filter: &GroupFilter, json: bool) -> Result<(), Failure> {
    let groups = client.admin().list_groups(filter).await.or_failure(|| "cannot list groups".into(), REACH)?;
    if json {
        return groups.into_iter().try_for_each(|it| {
            say(json!({"group": it.group.as_str(), "type": it.group_type.name(), "state": it.state.name(),
                       "protocol_type": it.protocol_type}))
        });
    }
    if groups.is_empty() {
        remark("there are no such groups; a consumer that commits makes one");
        return Ok(());
    }
    let mut table = table(&["group", "type", "state", "protocol"]);
    for it in groups {
        table.add_row([it.group.to_string(), it.group_type.to_string(), it.state.to_string(), it.protocol_type]);
    }
    say(&table)
}

async fn delete_offsets(client: &Client, group: &GroupId, topics: &[Selection]) -> Result<(), Failure> {
    let admin = client.admin();
    let failed = || format!("cannot delete offsets of {group}");
    let committed = admin.committed_offsets_of_groups(std::slice::from_ref(group), false).await;
    let committed = each(committed.or_failure(failed, REACH)?, "look at", |_| false, SEE_LIST)?;
    let committed = committed.into_values().next().unwrap_or_default();
    let is_wanted = |it: &&atonce_client::TopicPartition| topics.iter().any(|selected| selected.contains(it));
    let wanted: Vec<_> = committed.keys().filter(is_wanted).cloned().collect();
    if wanted.is_empty() {
        return Err(Failure::new(
            format!("{group} has committed nothing there"),
            "`atonce groups describe GROUP` shows what it has committed",
        ));
    }
    let deleted = admin.delete_committed_offsets(group, &wanted).await.or_failure(failed, REACH)?;
    let next = "see the cause above; a topic that a member reads keeps its offsets until that member is gone";
    each(deleted, "delete offsets of", |_| false, next).map(drop)
}
