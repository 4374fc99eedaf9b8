//! Tick: deadlines of rebalances and sessions, and the search for offsets that nobody needs any more.

use std::collections::BTreeSet;
use std::ops::Bound;

use atonce_kernel::{GroupId, MemberId, Timestamp};

use super::classic::{Classic, State, Window};
use super::config::GroupConfig;
use super::draft::Draft;
use super::forget::{remove_group, tombstones};
use super::record::{CommittedOffset, Record};
use super::subscription::Subscribed;
use super::{Group, GroupCoordinator, Kind, Note, consumer};
use crate::shard::{Context, Decision};

/// Tombstones that one tick decides upon, before it leaves the rest to the next: a decision is held in memory, and its
/// records delay others'. One group's are never split.
const TOMBSTONES_PER_TICK: usize = 1_000;

/// How far the search for expired offsets is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Search {
    /// Never begun since the shard was loaded; the first tick plans it.
    #[default]
    Unplanned,
    /// To begin then.
    At(Timestamp),
    /// Under way: groups up to this one have been looked at.
    After(GroupId),
}

/// Does what is due: for one group, or else for the offsets. The host sends ticks while
/// [`next_deadline`](crate::Shard::next_deadline) has passed.
///
/// Shape: `PreparingRebalance → CompletingRebalance` or `Empty` when its window closes; `Stable` and `CompletingRebalance` →
///   `PreparingRebalance` when a session ends or a member has not synced in time; `Empty → Dead` when its offsets have expired.
/// Source: KIP-62, KIP-134, KIP-211.
pub(super) fn decide(shard: &GroupCoordinator, context: &Context) -> Decision<GroupCoordinator> {
    let due = shard.wakeups.first().filter(|(at, _)| *at <= context.now);
    if let Some((id, group)) = due.and_then(|(_, id)| shard.groups.get_key_value(id)) {
        return match &group.kind {
            Kind::Classic { classic, .. } => wake(shard, context, id, classic),
            Kind::Consumer(group) => consumer::wake(shard, context, id, group),
        };
    }
    match &shard.search {
        Search::Unplanned => plan_search(shard, context),
        Search::At(at) if *at <= context.now => search(shard, context, None),
        Search::At(_) => Decision::nothing(),
        Search::After(id) => search(shard, context, Some(id)),
    }
}

fn wake(shard: &GroupCoordinator, context: &Context, id: &GroupId, group: &Classic) -> Decision<GroupCoordinator> {
    let mut draft = Draft::of(shard, context, id, group);
    draft.start_clocks();
    draft.close_window_if_due();
    draft.expire_unsynced_if_due();
    draft.expire_silent();
    let mut decision = draft.finish();
    if decision.notes.is_empty() {
        // Signs of life have moved the deadline that we woke up for. Said again, the group is put down for its next one.
        decision.notes.push(Note::Stands { group: id.clone(), classic: Box::new(group.clone()) });
    }
    decision
}

impl Draft<'_> {
    /// After a crash nobody knows when members were last seen: each gets a whole session.
    fn start_clocks(&mut self) {
        let stopped: Vec<MemberId> = self
            .group
            .members
            .iter()
            .filter(|(_, member)| member.session_deadline.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in &stopped {
            self.restart_clock(id);
        }
        if !stopped.is_empty() && self.group.members.len() > self.config.members_max {
            // The limit was lowered. In a rebalance the last ones to come back lose their place.
            self.rebalance();
        }
    }

    fn close_window_if_due(&mut self) {
        let now = self.now;
        let initial_delay_ms = self.config.initial_rebalance_delay_ms;
        let State::PreparingRebalance { window } = &mut self.group.state else { return };
        if now < window.deadline() {
            return;
        }
        match window {
            Window::Initial { deadline, delay_ms, remaining_ms, newcomer } if *newcomer && *remaining_ms > 0 => {
                let next_ms = initial_delay_ms.min(*remaining_ms);
                *remaining_ms = remaining_ms.saturating_sub(*delay_ms).max(0);
                *delay_ms = next_ms;
                *newcomer = false;
                *deadline = now.plus_ms(i64::from(next_ms));
            }
            Window::Initial { .. } | Window::UntilAllJoined { .. } => self.complete_join(),
        }
    }

    /// Members that have not fetched their assignment in time are out: they hold partitions that nobody reads.
    fn expire_unsynced_if_due(&mut self) {
        let late: Vec<MemberId> = match &self.group.state {
            State::CompletingRebalance { unsynced, deadline } | State::Stable { unsynced, deadline }
                if *deadline <= self.now =>
            {
                unsynced.iter().cloned().collect()
            }
            State::CompletingRebalance { .. }
            | State::Stable { .. }
            | State::Empty
            | State::PreparingRebalance { .. } => return,
        };
        if late.is_empty() {
            return;
        }
        for id in &late {
            self.group.remove(id);
        }
        self.prepare_rebalance();
    }

    fn expire_silent(&mut self) {
        let now = self.now;
        let is_due = |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| deadline <= now);
        // One after the other: when the first is out, a rebalance may have begun in which others are heard.
        loop {
            let pending = self.group.pending.iter().find(|(_, deadline)| **deadline <= now).map(|(id, _)| id.clone());
            let silent = || {
                let mut members = self.group.members.iter();
                members.find(|(_, member)| is_due(member.deadline())).map(|(id, _)| id.clone())
            };
            let Some(id) = pending.or_else(silent) else { return };
            self.expire(&id);
        }
    }
}

fn plan_search(shard: &GroupCoordinator, context: &Context) -> Decision<GroupCoordinator> {
    let at = context.now.plus_ms(shard.config.offsets_retention_check_interval_ms);
    Decision { notes: vec![Note::Search(Search::At(at))], ..Decision::nothing() }
}

fn search(shard: &GroupCoordinator, context: &Context, after: Option<&GroupId>) -> Decision<GroupCoordinator> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut records: Vec<Record> = Vec::new();
    for (id, group) in shard.groups.range::<GroupId, _>((start, Bound::Unbounded)) {
        records.extend(expire(shard, context, id, group));
        if records.len() >= TOMBSTONES_PER_TICK {
            let notes = vec![Note::Search(Search::After(id.clone()))];
            return Decision { records, notes, ..Decision::nothing() };
        }
    }
    Decision { records, ..plan_search(shard, context) }
}

/// Tombstones for the offsets of a group that have expired, and for the group if it is left with nothing. A partition for
/// which a transaction is open keeps its offset, and its group.
fn expire(shard: &GroupCoordinator, context: &Context, id: &GroupId, group: &Group) -> Vec<Record> {
    let subscribed = group.subscribed();
    let since = match &group.kind {
        Kind::Classic { classic, .. } => retention_begins(classic, &subscribed),
        // Nobody records when such a group became empty.
        Kind::Consumer(_) => Some(RetentionBegins::WithCommit),
    };
    let Some(since) = since else { return Vec::new() };
    let expired: BTreeSet<_> = shard
        .offsets
        .of_group(id)
        .filter(|(at, stored)| {
            !subscribed.contains(&at.topic)
                && !shard.offsets.is_pending(id, at)
                && is_expired(&shard.config, context.now, since, &stored.value)
        })
        .map(|(at, _)| at.clone())
        .collect();
    let all = shard.offsets.of_group(id).count() == expired.len();
    let is_unused = group.is_empty() && group.classic().is_none_or(|classic| classic.pending.is_empty());
    if all && is_unused && !shard.offsets.has_open_transaction(id) {
        return remove_group(shard, context, id);
    }
    tombstones(expired.into_iter().map(|at| (id.clone(), at)))
}

/// From when on an offset ages.
#[derive(Clone, Copy)]
enum RetentionBegins {
    /// When its group became empty.
    At(Timestamp),
    /// When it was committed.
    WithCommit,
}

/// `None`: nothing of this group ages now.
fn retention_begins(group: &Classic, subscribed: &Subscribed) -> Option<RetentionBegins> {
    if group.protocol_type.is_none() {
        // Somebody who assigns partitions to itself. We cannot see it live but by its commits.
        return Some(RetentionBegins::WithCommit);
    }
    match (&group.state, subscribed) {
        (State::Empty, _) if group.since == Timestamp::NONE => Some(RetentionBegins::WithCommit),
        (State::Empty, _) => Some(RetentionBegins::At(group.since)),
        // Consumers that no longer read a topic let its offsets age.
        (State::Stable { .. }, Subscribed::To(_)) => Some(RetentionBegins::WithCommit),
        (State::Stable { .. }, Subscribed::Unknown | Subscribed::Nothing)
        | (State::PreparingRebalance { .. } | State::CompletingRebalance { .. }, _) => None,
    }
}

fn is_expired(config: &GroupConfig, now: Timestamp, since: RetentionBegins, offset: &CommittedOffset) -> bool {
    if let Some(expire_timestamp) = offset.expire_timestamp {
        return now >= expire_timestamp;
    }
    let since = match since {
        RetentionBegins::At(since) => since,
        RetentionBegins::WithCommit => offset.commit_timestamp,
    };
    now.ms_since(since) >= config.offsets_retention_ms
}
