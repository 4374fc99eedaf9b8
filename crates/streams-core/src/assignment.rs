//! Which member gets which task: a pure function of the members' words, the same on every machine.
//!
//! Balanced: two members never differ by more than one task. Sticky: within that, a task stays with the member that had it, else
//! it goes to a member of the process on whose disk its store lies. Members speak through the user data of the group's protocol;
//! the bytes are ours (another name than Kafka Streams' assignor, so that the two are never mixed in one group).
//!
//! **What it does not know**: topics and partitions (see [`crate::topology::Layout`]), the group's protocol.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::task::TaskId;

/// The assignor's name in the group's protocol.
pub const ASSIGNOR_NAME: &str = "atonce-sticky-tasks";

/// What a member says when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Subscription {
    /// The process that the member is a worker of: its members share a disk.
    pub process_id: String,
    /// The tasks this member has run until now.
    pub owned: BTreeSet<TaskId>,
    /// The tasks whose stores lie on the process's disk.
    pub stored: BTreeSet<TaskId>,
    /// How often this member has asked that all of the application stop; 0 if it does not ask. (A count, since a group hears only what
    /// differs from what the member said before.)
    pub shutdown_requests: u32,
}

/// The bytes are not a member's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a member of the group speaks another language: {0}; all must run the same application")]
pub struct NotUserData(&'static str);

/// The only version of the bytes that is spoken. (Version 1 had no word for shutting down.)
const VERSION: u8 = 2;

impl Subscription {
    /// Layout: `version u8 = 2 | length u16, process id in UTF-8 | owned | stored | shutdown requests u32`, each list
    /// `count u32, then (subtopology i32 | partition i32)…` (big-endian).
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(VERSION);
        let process_id = self.process_id.as_bytes();
        let length = u16::try_from(process_id.len()).unwrap_or(u16::MAX);
        bytes.put_u16(length);
        bytes.put_slice(process_id.get(..usize::from(length)).unwrap_or_default());
        put_tasks(&mut bytes, &self.owned);
        put_tasks(&mut bytes, &self.stored);
        bytes.put_u32(self.shutdown_requests);
        bytes.freeze()
    }

    /// The other way.
    ///
    /// Errors: bytes of another assignor or version.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, NotUserData> {
        if bytes.try_get_u8() != Ok(VERSION) {
            return Err(NotUserData("its first byte is no version that this program knows"));
        }
        let length = usize::from(bytes.try_get_u16().map_err(|_| CUT)?);
        let (process_id, rest) = bytes.split_at_checked(length).ok_or(CUT)?;
        let process_id = std::str::from_utf8(process_id).map_err(|_| NotUserData("its process id is not UTF-8"))?;
        bytes = rest;
        let owned = take_tasks(&mut bytes)?;
        let stored = take_tasks(&mut bytes)?;
        let shutdown_requests = bytes.try_get_u32().map_err(|_| CUT)?;
        Ok(Self { process_id: process_id.to_owned(), owned, stored, shutdown_requests })
    }
}

const CUT: NotUserData = NotUserData("its bytes end too early");

fn put_tasks(bytes: &mut BytesMut, tasks: &BTreeSet<TaskId>) {
    bytes.put_u32(u32::try_from(tasks.len()).unwrap_or(u32::MAX));
    for task in tasks {
        bytes.put_i32(task.subtopology);
        bytes.put_i32(task.partition);
    }
}

fn take_tasks(bytes: &mut &[u8]) -> Result<BTreeSet<TaskId>, NotUserData> {
    let count = bytes.try_get_u32().map_err(|_| CUT)?;
    let mut tasks = BTreeSet::new();
    for _ in 0..count {
        let subtopology = bytes.try_get_i32().map_err(|_| CUT)?;
        let partition = bytes.try_get_i32().map_err(|_| CUT)?;
        tasks.insert(TaskId { subtopology, partition });
    }
    Ok(tasks)
}

/// What the leader says to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// To run these tasks.
    Run(BTreeSet<TaskId>),
    /// To stop: a member has asked that all of the application do (KIP-671).
    ShutDown,
}

impl Instruction {
    /// Layout: `version u8 = 2 | 0 u8 | count u32, then (subtopology i32 | partition i32)…` or `version u8 = 2 | 1 u8` (big-endian).
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(VERSION);
        match self {
            Self::Run(tasks) => {
                bytes.put_u8(0);
                put_tasks(&mut bytes, tasks);
            }
            Self::ShutDown => bytes.put_u8(1),
        }
        bytes.freeze()
    }

    /// The other way.
    ///
    /// Errors: bytes of another assignor or version.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, NotUserData> {
        if bytes.try_get_u8() != Ok(VERSION) {
            return Err(NotUserData("its first byte is no version that this program knows"));
        }
        match bytes.try_get_u8().map_err(|_| CUT)? {
            0 => take_tasks(&mut bytes).map(Self::Run),
            1 => Ok(Self::ShutDown),
            _ => Err(NotUserData("it says what this program does not know")),
        }
    }
}

/// What to say to each member: to stop, if one of them asks for it; else its tasks.
#[must_use]
pub fn instruct(tasks: &[TaskId], members: &BTreeMap<String, Subscription>) -> BTreeMap<String, Instruction> {
    if members.values().any(|member| member.shutdown_requests > 0) {
        return members.keys().map(|member| (member.clone(), Instruction::ShutDown)).collect();
    }
    assign(tasks, members).into_iter().map(|(member, tasks)| (member, Instruction::Run(tasks))).collect()
}

/// Assigns every task to one of the members. No members: no tasks are assigned.
///
/// The keys are whatever names members uniquely and survives their restart best: the instance id, else the member id.
#[must_use]
pub fn assign(tasks: &[TaskId], members: &BTreeMap<String, Subscription>) -> BTreeMap<String, BTreeSet<TaskId>> {
    let mut choice: BTreeMap<String, BTreeSet<TaskId>> =
        members.keys().map(|member| (member.clone(), BTreeSet::new())).collect();
    if members.is_empty() {
        return choice;
    }
    let all: BTreeSet<TaskId> = tasks.iter().copied().collect();
    let (base, mut larger) = (all.len() / members.len(), all.len() % members.len());
    let mut open = all.clone();

    // What each may keep: up to the base for everyone first, so that the larger shares go to those who have more to keep.
    let mut keep = |limit: &dyn Fn(usize) -> usize, choice: &mut BTreeMap<String, BTreeSet<TaskId>>| {
        for (member, subscription) in members {
            let mine = choice.entry(member.clone()).or_default();
            for task in &subscription.owned {
                if mine.len() >= limit(mine.len()) {
                    break;
                }
                if open.remove(task) {
                    mine.insert(*task);
                }
            }
        }
    };
    keep(&|_| base, &mut choice);
    for (member, subscription) in members {
        let mine = choice.entry(member.clone()).or_default();
        if larger == 0 {
            break;
        }
        if mine.len() == base
            && let Some(task) = subscription.owned.iter().find(|task| open.contains(task))
        {
            open.remove(task);
            mine.insert(*task);
            larger -= 1;
        }
    }

    // Then where the stores lie, then where there is room; spread by subtopology, since partitions of one cost alike.
    for prefers_disk in [true, false] {
        for task in open.clone() {
            let has_room = |mine: &BTreeSet<TaskId>| mine.len() < base || (mine.len() == base && larger > 0);
            let candidates = members.iter().filter_map(|(member, subscription)| {
                let mine = choice.get(member)?;
                let lies_here = subscription.stored.contains(&task) || subscription.owned.contains(&task);
                let siblings = mine.iter().filter(|other| other.subtopology == task.subtopology).count();
                (has_room(mine) && (lies_here || !prefers_disk)).then_some((
                    mine.len() >= base,
                    siblings,
                    mine.len(),
                    member,
                ))
            });
            let Some((is_larger, _, _, member)) = candidates.min() else { continue };
            if is_larger {
                larger -= 1;
            }
            choice.entry(member.clone()).or_default().insert(task);
            open.remove(&task);
        }
    }
    assert!(open.is_empty(), "the shares add up to all tasks");
    choice
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tasks(subtopologies: i32, partitions: i32) -> Vec<TaskId> {
        (0..subtopologies)
            .flat_map(|subtopology| (0..partitions).map(move |partition| TaskId { subtopology, partition }))
            .collect()
    }

    fn member(process: &str) -> Subscription {
        Subscription { process_id: process.to_owned(), ..Subscription::default() }
    }

    fn owning(process: &str, owned: impl IntoIterator<Item = TaskId>) -> Subscription {
        Subscription { owned: owned.into_iter().collect(), ..member(process) }
    }

    #[test]
    fn subtopologies_are_spread_over_members() {
        let members = BTreeMap::from([("a".to_owned(), member("p")), ("b".to_owned(), member("p"))]);
        let choice = assign(&tasks(2, 2), &members);
        for tasks in choice.values() {
            assert_eq!(tasks.iter().map(|task| task.subtopology).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
        }
    }

    #[test]
    fn a_new_member_takes_only_its_share() {
        let all = tasks(1, 6);
        let members = BTreeMap::from([
            ("a".to_owned(), owning("p", all[..3].iter().copied())),
            ("b".to_owned(), owning("p", all[3..].iter().copied())),
            ("c".to_owned(), member("q")),
        ]);
        let choice = assign(&all, &members);
        assert!(
            choice["a"].iter().all(|task| task.partition < 3) && choice["b"].iter().all(|task| task.partition >= 3)
        );
        assert_eq!(choice["c"].len(), 2);
    }

    #[test]
    fn a_task_goes_where_its_store_lies() {
        let all = tasks(1, 4);
        let stored = Subscription { stored: all[2..].iter().copied().collect(), ..member("p") };
        let members = BTreeMap::from([("a".to_owned(), member("q")), ("b".to_owned(), stored)]);
        let choice = assign(&all, &members);
        assert_eq!(choice["b"], all[2..].iter().copied().collect());
    }

    #[test]
    fn two_that_claim_one_task_do_not_both_get_it() {
        let all = tasks(1, 2);
        let members = BTreeMap::from([
            ("a".to_owned(), owning("p", all.iter().copied())),
            ("zombie".to_owned(), owning("q", all.iter().copied())),
        ]);
        let choice = assign(&all, &members);
        assert_eq!(choice.values().map(BTreeSet::len).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn hostile_user_data_is_refused_without_an_allocation_of_its_size() {
        assert!(Subscription::decode(&[]).is_err());
        assert!(Subscription::decode(&[9]).is_err());
        assert!(Subscription::decode(&[2, 0, 0, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(Instruction::decode(&[2, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).is_err());
        assert!(Instruction::decode(&[2]).is_err() && Instruction::decode(&[2, 2]).is_err());
        assert!(Instruction::decode(&[1, 1]).is_err(), "another version");
    }

    #[test]
    fn who_asks_that_all_stop_stops_all() {
        let all = tasks(1, 2);
        let asking = Subscription { shutdown_requests: 1, ..owning("q", all[1..].iter().copied()) };
        let mut members =
            BTreeMap::from([("a".to_owned(), owning("p", all[..1].iter().copied())), ("b".to_owned(), asking)]);
        assert_eq!(Subscription::decode(&members["b"].encode()).as_ref(), Ok(&members["b"]));
        let told = instruct(&all, &members);
        assert_eq!(told.values().collect::<Vec<_>>(), [&Instruction::ShutDown, &Instruction::ShutDown]);
        members.get_mut("b").unwrap().shutdown_requests = 0;
        let told = instruct(&all, &members);
        assert_eq!(told["a"], Instruction::Run(BTreeSet::from([all[0]])));
        for instruction in [told["b"].clone(), Instruction::ShutDown] {
            assert_eq!(Instruction::decode(&instruction.encode()), Ok(instruction));
        }
    }

    proptest! {
        #[test]
        fn every_task_has_one_owner_and_no_one_has_two_more_than_another(
            subtopologies in 1_i32..4, partitions in 1_i32..9,
            owned in proptest::collection::vec(proptest::collection::btree_set((0_i32..4, 0_i32..9), 0..12), 1..6),
        ) {
            let all = tasks(subtopologies, partitions);
            let members: BTreeMap<String, Subscription> = owned.into_iter().enumerate().map(|(index, owned)| {
                let owned = owned.into_iter().map(|(subtopology, partition)| TaskId { subtopology, partition });
                (format!("m{index}"), owning(&format!("p{}", index / 2), owned))
            }).collect();
            for subscription in members.values() {
                prop_assert_eq!(&Subscription::decode(&subscription.encode()).unwrap(), subscription);
            }
            let choice = assign(&all, &members);
            let assigned: Vec<TaskId> = choice.values().flatten().copied().collect();
            prop_assert_eq!(assigned.len(), all.len());
            prop_assert_eq!(assigned.into_iter().collect::<BTreeSet<_>>(), all.iter().copied().collect::<BTreeSet<_>>());
            let sizes: Vec<usize> = choice.values().map(BTreeSet::len).collect();
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            // Who has what it was given keeps it, when nobody comes or goes.
            let again: BTreeMap<String, Subscription> = choice.iter().map(|(member, tasks)| {
                (member.clone(), owning(&members[member].process_id, tasks.iter().copied()))
            }).collect();
            prop_assert_eq!(assign(&all, &again), choice);
        }
    }
}
