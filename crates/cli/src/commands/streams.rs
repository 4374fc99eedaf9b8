//! `atonce streams`: starting a streams application over, as `kafka-streams-application-reset.sh` does.
//!
//! First a plan, which is shown; with --execute it is done. Each step may be done twice, and none hides what another has still to do: a reset that
//! was cut short is finished by doing it again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use atonce::LocalState;
use atonce_client::admin::{GroupState, NewOffset};
use atonce_client::{Admin, AdminError, GroupId, Isolation, TopicName, TopicPartition};
use clap::{Args, Subcommand};
use serde_json::json;

use super::groups::SEE_LIST;
use super::groups::reset::{self, Move, Plan, Target};
use super::{Cluster, REACH, SEE_TOPICS, Selection, each, group_id, partitions, selection, topic_name};
use crate::failure::{Failure, OrFailure};
use crate::output::{or_dash, remark, say, table};

/// Starts streams applications over.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce streams reset word-count --topic lines --to-earliest            shows what would be done
  atonce streams reset word-count --topic lines --to-earliest --execute
  atonce streams reset word-count --topic lines --by-duration PT24H --state-dir ./state --execute")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Reset(Box<Reset>),
}

/// Starts a streams application over: moves the offsets of its input, and deletes its internal topics (change logs, repartition topics) with their
/// offsets, and its local stores. Only shows it, unless --execute is given. All of its processes must have stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Internal topics are known by their names, ID-…-changelog and ID-…-repartition: an application whose id begins with this one's and a hyphen has
such topics too. Look at the plan; --internal-topic chooses among them.")]
struct Reset {
    /// The application's id.
    #[arg(value_parser = group_id)]
    application_id: GroupId,
    /// An input topic, or some of its partitions, as in orders:0,2. May be given again. Else all topics that the application has committed for, but
    /// its internal ones.
    #[arg(long = "topic", visible_alias = "input-topic", value_name = "TOPIC[:PARTITIONS]", value_parser = selection)]
    topics: Vec<Selection>,
    #[command(flatten)]
    target: Target,
    /// Deletes only this internal topic. May be given again. Else all there are.
    #[arg(long = "internal-topic", value_name = "TOPIC", value_parser = topic_name)]
    internal_topics: Vec<TopicName>,
    /// The state folder of the application's processes on this machine, whose stores are deleted. Those of other machines are rebuilt when they see
    /// that their change logs are new.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Takes members out of the group first: those of processes that died, whose sessions have not ended. Those that live join again, and undo this.
    #[arg(long)]
    force: bool,
    /// Does it.
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Only shows it, which is so without --execute too.
    #[arg(long)]
    dry_run: bool,
    /// A line of JSON for each step instead of tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Cluster,
}

/// How long a topic may be seen after it was deleted.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Verb::Reset(arguments) => reset(*arguments).await,
    }
}

/// What is to be done.
struct Work {
    offsets: Plan,
    /// Of topics that are deleted, or were by a reset that was cut short: a topic that is made anew must be read from its beginning.
    forgotten: Vec<TopicPartition>,
    deleted: Vec<TopicName>,
    state: Option<LocalState>,
}

async fn reset(arguments: Reset) -> Result<(), Failure> {
    let to = reset::target(&arguments.target)?;
    let client = arguments.cluster.connect().await?;
    let (group, admin) = (&arguments.application_id, client.admin());
    let has_members = has_members(&admin, group, arguments.force && arguments.execute).await?;
    let committed = reset::committed(&admin, group).await?;
    let input: Vec<TopicPartition> = match &to {
        Move::Listed(offsets) => offsets.keys().cloned().collect(),
        _ if !arguments.topics.is_empty() => partitions(&client, &arguments.topics).await?,
        _ => committed.keys().filter(|it| !is_internal(group, &it.topic)).cloned().collect(),
    };
    if let Some(internal) = input.iter().find(|it| is_internal(group, &it.topic)) {
        return Err(Failure::new(
            format!("{} is an internal topic of {group}: it is deleted, so nothing is read from it", internal.topic),
            "name the topics that the application reads and does not make itself",
        ));
    }
    // What records were not there yet when a reader of committed records looks is read all the same.
    let offsets = reset::plan(&admin, &to, &input, &committed, Isolation::ReadCommitted).await?;
    let deleted = internal_topics(&admin, group, &arguments.internal_topics).await?;
    let is_chosen =
        |it: &&TopicPartition| arguments.internal_topics.is_empty() || arguments.internal_topics.contains(&it.topic);
    let of_internal = committed.keys().filter(|it| is_internal(group, &it.topic));
    let forgotten = of_internal.filter(is_chosen).cloned().collect();
    let state = match &arguments.state_dir {
        None => None,
        Some(state_dir) => LocalState::open(state_dir, group.as_str()).or_failure(
            || format!("cannot throw away what {group} keeps in {}", state_dir.display()),
            "stop the process that runs there first",
        )?,
    };
    let work = Work { offsets, forgotten, deleted, state };
    show(group, &work, arguments.json)?;
    if !arguments.execute {
        if has_members {
            remark("its members would be taken out of the group first (--force)");
        }
        remark("nothing is changed yet: --execute does it");
        return Ok(());
    }
    execute(&admin, group, work).await
}

/// Members would go on from where they are, commit over it, and write into the topics that are deleted. Whether there are any, which are taken out if
/// they are to be.
async fn has_members(admin: &Admin, group: &GroupId, are_taken_out: bool) -> Result<bool, Failure> {
    let told = admin.describe_groups(std::slice::from_ref(group)).await;
    let told = told.or_failure(|| format!("cannot look at {group}"), REACH)?;
    let told = each(told, "look at", AdminError::is_not_there, SEE_LIST)?;
    let Some(described) = told.get(group).filter(|it| !matches!(it.state, GroupState::Empty | GroupState::Dead)) else {
        return Ok(false);
    };
    if are_taken_out {
        let failed = || format!("cannot take the members of {group} out");
        let removed = admin.remove_all_group_members(group).await.or_failure(failed, SEE_LIST)?;
        each(removed, "remove", AdminError::is_not_there, SEE_LIST)?;
        return Ok(true);
    }
    let names: Vec<String> = described
        .members
        .iter()
        .map(|it| {
            let name = it.instance_id.as_ref().map_or(it.member_id.as_str(), |id| id.as_str());
            format!("{name} ({}, {})", it.client_id, it.host)
        })
        .collect();
    Err(Failure::new(
        format!("{group} is {} and has {} members: {}", described.state, names.len(), names.join(", ")),
        "stop the processes of the application first; where one has died, wait until its session ends, or use --force",
    ))
}

/// As Kafka's tool knows them.
fn is_internal(application: &GroupId, topic: &TopicName) -> bool {
    let rest = topic.as_str().strip_prefix(application.as_str()).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| {
        ["-changelog", "-repartition", "-subscription-registration-topic", "-subscription-response-topic"]
            .iter()
            .any(|end| rest.ends_with(end))
    })
}

async fn internal_topics(admin: &Admin, group: &GroupId, chosen: &[TopicName]) -> Result<Vec<TopicName>, Failure> {
    let listed = admin.list_topics().await.or_failure(|| "cannot list topics".into(), REACH)?;
    let there: BTreeSet<TopicName> =
        listed.into_iter().map(|it| it.name).filter(|topic| is_internal(group, topic)).collect();
    if let Some(stranger) = chosen.iter().find(|topic| !is_internal(group, topic)) {
        return Err(Failure::new(
            format!("{stranger} is no internal topic of {group}"),
            "leave --internal-topic out to see those there are",
        )
        .with_status(2));
    }
    Ok(there.into_iter().filter(|topic| chosen.is_empty() || chosen.contains(topic)).collect())
}

async fn execute(admin: &Admin, group: &GroupId, work: Work) -> Result<(), Failure> {
    const AGAIN: &str = "see the cause above, and reset again: what is done already is done again without harm";
    if let Some(state) = work.state {
        let path = state.path().display().to_string();
        state.delete().or_failure(|| format!("cannot throw away {path}"), AGAIN)?;
    }
    if !work.deleted.is_empty() {
        let failed = || format!("cannot delete the internal topics of {group}");
        let deleted = admin.delete_topics(&work.deleted).await.or_failure(failed, AGAIN)?;
        each(deleted, "delete", AdminError::is_not_there, AGAIN)?;
        until_gone(admin, &work.deleted).await?;
    }
    if !work.forgotten.is_empty() {
        let failed = || format!("cannot delete the offsets of internal topics of {group}");
        let forgotten = admin.delete_committed_offsets(group, &work.forgotten).await.or_failure(failed, AGAIN)?;
        // A broker forgets the offsets of a topic that it deletes.
        each(forgotten, "delete the offsets of", AdminError::is_not_there, AGAIN)?;
    }
    if !work.offsets.is_empty() {
        let offsets: Vec<_> = work.offsets.iter().map(|(it, change)| (it.clone(), NewOffset::at(change.to))).collect();
        let altered = admin.alter_committed_offsets(group, &offsets).await;
        each(altered.or_failure(|| format!("cannot reset {group}"), REACH)?, "reset", |_| false, AGAIN)?;
    }
    Ok(())
}

/// An application that starts at once must not take what is on its way out for what it needs.
async fn until_gone(admin: &Admin, topics: &[TopicName]) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + GONE_WITHIN;
    loop {
        let listed = admin.list_topics().await.or_failure(|| "cannot list topics".into(), REACH)?;
        let Some(left) = listed.into_iter().map(|it| it.name).find(|topic| topics.contains(topic)) else {
            return Ok(());
        };
        if tokio::time::Instant::now() >= deadline {
            return Err(Failure::new(
                format!("{left} is still there {GONE_WITHIN:?} after it was deleted"),
                SEE_TOPICS,
            ));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn show(group: &GroupId, work: &Work, is_json: bool) -> Result<(), Failure> {
    if is_json {
        for (it, change) in &work.offsets {
            say(json!({"action": "reset_offset", "group": group.as_str(), "topic": it.topic.as_str(),
                       "partition": it.partition, "committed_offset": change.from, "new_offset": change.to}))?;
        }
        for topic in &work.deleted {
            say(json!({"action": "delete_topic", "topic": topic.as_str()}))?;
        }
        for it in &work.forgotten {
            say(json!({"action": "delete_offset", "group": group.as_str(), "topic": it.topic.as_str(),
                       "partition": it.partition}))?;
        }
        if let Some(state) = &work.state {
            say(json!({"action": "delete_state", "path": state.path().display().to_string()}))?;
        }
        return Ok(());
    }
    if !work.offsets.is_empty() {
        let mut table = table(&["input topic", "partition", "committed", "new offset"]);
        for (it, change) in &work.offsets {
            let partition = it.partition.to_string();
            table.add_row([it.topic.to_string(), partition, or_dash(change.from), change.to.to_string()]);
        }
        say(&table)?;
    }
    let mut table = table(&["deleted", "what it is"]);
    for topic in &work.deleted {
        let is_changelog = topic.as_str().ends_with("-changelog");
        table.add_row([topic.to_string(), if is_changelog { "change log" } else { "internal topic" }.to_owned()]);
    }
    if let Some(state) = &work.state {
        table.add_row([state.path().display().to_string(), "stores on this machine".to_owned()]);
    }
    if work.deleted.is_empty() && work.state.is_none() {
        return Ok(());
    }
    say(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_topics_are_known_by_their_names() {
        let application = GroupId::from("word-count");
        for (topic, expected) in [
            ("word-count-counts-changelog", true),
            ("word-count-counts-repartition", true),
            ("word-count-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", true),
            ("word-count", false),
            ("word-counts-changelog", false),
            ("other-word-count-counts-changelog", false),
            ("word-count-lines", false),
        ] {
            assert_eq!(is_internal(&application, &topic.into()), expected, "{topic}");
        }
    }
}
