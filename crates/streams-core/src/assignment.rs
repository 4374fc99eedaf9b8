//! Which member gets which task: a pure function of what the members hold and say, the same on every machine.
//!
//! Balanced: two members never differ by more than one task. Sticky: within that, a task stays with the member that holds it, else
//! it goes to a member of the process on whose disk its store lies. Members speak through the user data of the group's protocol;
//! the bytes are ours (another name than Kafka Streams' assignor, so that the two are never mixed in one group).
//!
//! Cooperative (KIP-429): members go on with what they keep while the group divides, so a task that moves is given to nobody until whoever holds
//! it has given it up; his next joining begins the division in which the other gets it.
//!
//! Invariant: a task is run only by a member that holds it already, or that nobody else holds it beside. A claim from an older generation than
//! another's is a claim all the same: it may be wrong, and who makes it has still to give up what he takes for his own.
//!
//! **What it does not know**: topics and partitions (see [`crate::topology::Layout`]), the group's protocol.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::task::TaskId;

/// The assignor's name in the group's protocol.
pub const ASSIGNOR_NAME: &str = "atonce-cooperative-tasks";

/// What a member says when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Subscription {
    /// The process that the member is a worker of: its members share a disk.
    pub process_id: String,
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

/// The only version of the bytes that is spoken. (Version 1 had no word for shutting down; 2 said what a member ran, which the group's protocol says.)
const VERSION: u8 = 3;

impl Subscription {
    /// Layout: `version u8 = 3 | length u16, process id in UTF-8 | stored | shutdown requests u32`, a list being
    /// `count u32, then (subtopology i32 | partition i32)…` (big-endian).
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(VERSION);
        let process_id = self.process_id.as_bytes();
        let length = u16::try_from(process_id.len()).unwrap_or(u16::MAX);
        bytes.put_u16(length);
        bytes.put_slice(process_id.get(..usize::from(length)).unwrap_or_default());
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
        let stored = take_tasks(&mut bytes)?;
        let shutdown_requests = bytes.try_get_u32().map_err(|_| CUT)?;
        Ok(Self { process_id: process_id.to_owned(), stored, shutdown_requests })
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

/// A member, as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Member {
    /// What it says.
    pub words: Subscription,
    /// The tasks of which it holds a partition, as it says itself.
    pub holds: BTreeSet<TaskId>,
    /// In which generation it was given them; -1 if it does not say.
    pub generation_id: i32,
}

/// What the leader says to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// To run tasks.
    Run {
        /// These.
        tasks: BTreeSet<TaskId>,
        /// And these once their owners have given them up: another division says so.
        awaited: BTreeSet<TaskId>,
    },
    /// To stop: a member has asked that all of the application do (KIP-671).
    ShutDown,
}

impl Instruction {
    /// Layout: `version u8 = 3 | 0 u8 | tasks | awaited`, each list `count u32, then (subtopology i32 | partition i32)…`, or `version u8 = 3 | 1 u8`
    /// (big-endian).
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(VERSION);
        match self {
            Self::Run { tasks, awaited } => {
                bytes.put_u8(0);
                put_tasks(&mut bytes, tasks);
                put_tasks(&mut bytes, awaited);
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
            0 => {
                let tasks = take_tasks(&mut bytes)?;
                Ok(Self::Run { tasks, awaited: take_tasks(&mut bytes)? })
            }
            1 => Ok(Self::ShutDown),
            _ => Err(NotUserData("it says what this program does not know")),
        }
    }
}

/// What to say to each member: to stop, if one of them asks for it; else its tasks.
#[must_use]
pub fn instruct(tasks: &[TaskId], members: &BTreeMap<String, Member>) -> BTreeMap<String, Instruction> {
    if members.values().any(|member| member.words.shutdown_requests > 0) {
        return members.keys().map(|member| (member.clone(), Instruction::ShutDown)).collect();
    }
    let holders = Holders::of(members);
    let choice = assign(tasks, members, &holders);
    let instruction = |(member, tasks): (String, BTreeSet<TaskId>)| {
        let (tasks, awaited) = tasks.into_iter().partition(|task| holders.lets_run(*task, &member));
        (member, Instruction::Run { tasks, awaited })
    };
    choice.into_iter().map(instruction).collect()
}

/// Who holds what.
struct Holders<'a> {
    /// All who claim a task, with the generation that they claim it from.
    claims: BTreeMap<TaskId, Vec<(i32, &'a str)>>,
}

impl<'a> Holders<'a> {
    fn of(members: &'a BTreeMap<String, Member>) -> Self {
        let mut claims: BTreeMap<TaskId, Vec<(i32, &str)>> = BTreeMap::new();
        for (name, member) in members {
            for task in &member.holds {
                claims.entry(*task).or_default().push((member.generation_id, name));
            }
        }
        Self { claims }
    }

    /// Who was given it last; of two that say so of one generation, neither.
    fn owner(&self, task: TaskId) -> Option<&'a str> {
        let claims = self.claims.get(&task)?;
        let (latest, _) = claims.iter().max()?;
        let mut latest_claims = claims.iter().filter(|(generation_id, _)| generation_id == latest);
        let (_, owner) = latest_claims.next()?;
        latest_claims.next().is_none().then_some(*owner)
    }

    fn lets_run(&self, task: TaskId, member: &str) -> bool {
        let is_held_by_another =
            self.claims.get(&task).is_some_and(|claims| claims.iter().any(|(_, holder)| *holder != member));
        !is_held_by_another || self.owner(task) == Some(member)
    }
}

/// Chooses for every task one of the members, whoever holds it now. No members: no tasks are assigned.
///
/// The keys are whatever names members uniquely and survives their restart best: the instance id, else the member id.
fn assign(
    tasks: &[TaskId],
    members: &BTreeMap<String, Member>,
    holders: &Holders<'_>,
) -> BTreeMap<String, BTreeSet<TaskId>> {
    let mut choice: BTreeMap<String, BTreeSet<TaskId>> =
        members.keys().map(|member| (member.clone(), BTreeSet::new())).collect();
    if members.is_empty() {
        return choice;
    }
    let all: BTreeSet<TaskId> = tasks.iter().copied().collect();
    let (base, mut larger) = (all.len() / members.len(), all.len() % members.len());
    let mut open = all.clone();
    let owned = |name: &str, member: &Member| -> Vec<TaskId> {
        member.holds.iter().copied().filter(|task| holders.owner(*task) == Some(name)).collect()
    };

    // What each may keep: up to the base for everyone first, so that the larger shares go to those who have more to keep.
    for (name, member) in members {
        let mine = choice.entry(name.clone()).or_default();
        for task in owned(name, member) {
            if mine.len() < base && open.remove(&task) {
                mine.insert(task);
            }
        }
    }
    for (name, member) in members {
        let mine = choice.entry(name.clone()).or_default();
        if larger == 0 {
            break;
        }
        if mine.len() == base
            && let Some(task) = owned(name, member).into_iter().find(|task| open.contains(task))
        {
            open.remove(&task);
            mine.insert(task);
            larger -= 1;
        }
    }

    // Then where the stores lie, then where there is room; spread by subtopology, since partitions of one cost alike.
    for prefers_disk in [true, false] {
        for task in open.clone() {
            let has_room = |mine: &BTreeSet<TaskId>| mine.len() < base || (mine.len() == base && larger > 0);
            let candidates = members.iter().filter_map(|(name, member)| {
                let mine = choice.get(name)?;
                let lies_here = member.words.stored.contains(&task) || member.holds.contains(&task);
                let siblings = mine.iter().filter(|other| other.subtopology == task.subtopology).count();
                (has_room(mine) && (lies_here || !prefers_disk)).then_some((
                    mine.len() >= base,
                    siblings,
                    mine.len(),
                    name,
                ))
            });
            let Some((is_larger, _, _, name)) = candidates.min() else { continue };
            if is_larger {
                larger -= 1;
            }
            choice.entry(name.clone()).or_default().insert(task);
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

    fn member(process: &str) -> Member {
        Member {
            words: Subscription { process_id: process.to_owned(), ..Subscription::default() },
            ..Member::default()
        }
    }

    fn holding(process: &str, holds: impl IntoIterator<Item = TaskId>) -> Member {
        Member { holds: holds.into_iter().collect(), generation_id: 1, ..member(process) }
    }

    type Tasks = BTreeSet<TaskId>;

    /// What each member runs, and what it awaits.
    fn divide(all: &[TaskId], members: &BTreeMap<String, Member>) -> BTreeMap<String, (Tasks, Tasks)> {
        let told = instruct(all, members).into_iter().map(|(member, instruction)| match instruction {
            Instruction::Run { tasks, awaited } => (member, (tasks, awaited)),
            Instruction::ShutDown => panic!("nobody asked {member} to stop"),
        });
        told.collect()
    }

    #[test]
    fn subtopologies_are_spread_over_members() {
        let members = BTreeMap::from([("a".to_owned(), member("p")), ("b".to_owned(), member("p"))]);
        for (tasks, awaited) in divide(&tasks(2, 2), &members).values() {
            assert_eq!(tasks.iter().map(|task| task.subtopology).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
            assert!(awaited.is_empty());
        }
    }

    #[test]
    fn a_new_member_takes_only_its_share_and_only_when_it_is_given_up() {
        let all = tasks(1, 6);
        let mut members = BTreeMap::from([
            ("a".to_owned(), holding("p", all[..3].iter().copied())),
            ("b".to_owned(), holding("p", all[3..].iter().copied())),
            ("c".to_owned(), member("q")),
        ]);
        let first = divide(&all, &members);
        assert!(
            first["a"].0.iter().all(|task| task.partition < 3) && first["b"].0.iter().all(|task| task.partition >= 3)
        );
        assert_eq!((first["a"].0.len(), first["b"].0.len()), (2, 2));
        assert_eq!((first["c"].0.len(), first["c"].1.len()), (0, 2), "its tasks are with their owners still");
        // One of the two has given up what moves; then the other.
        members.insert("a".to_owned(), holding("p", first["a"].0.iter().copied()));
        let second = divide(&all, &members);
        assert_eq!((second["c"].0.len(), second["c"].1.len()), (1, 1));
        assert_eq!((&second["a"], &second["b"]), (&first["a"], &first["b"]));
        members.insert("b".to_owned(), holding("p", first["b"].0.iter().copied()));
        members.insert("c".to_owned(), holding("q", second["c"].0.iter().copied()));
        let third = divide(&all, &members);
        assert_eq!(third["c"], (first["c"].1.clone(), Tasks::new()));
    }

    #[test]
    fn a_task_goes_where_its_store_lies() {
        let all = tasks(1, 4);
        let mut stored = member("p");
        stored.words.stored = all[2..].iter().copied().collect();
        let members = BTreeMap::from([("a".to_owned(), member("q")), ("b".to_owned(), stored)]);
        assert_eq!(divide(&all, &members)["b"].0, all[2..].iter().copied().collect());
    }

    #[test]
    fn of_two_that_claim_a_task_whoever_was_given_it_later_goes_on_and_nobody_else() {
        let all = tasks(1, 2);
        let owner = Member { generation_id: 8, ..holding("p", all.iter().copied()) };
        let zombie = Member { generation_id: 7, ..holding("q", all.iter().copied()) };
        let mut members = BTreeMap::from([("owner".to_owned(), owner), ("zombie".to_owned(), zombie)]);
        let told = divide(&all, &members);
        assert_eq!((told["owner"].0.len(), told["owner"].1.len()), (1, 0));
        assert_eq!((told["zombie"].0.len(), told["zombie"].1.len()), (0, 1), "the owner has still to give it up");
        // Who of them is wrong cannot be told: both give up first.
        members.get_mut("zombie").unwrap().generation_id = 8;
        for (member, (runs, awaits)) in divide(&all, &members) {
            assert_eq!((runs.len(), awaits.len()), (0, 1), "{member}");
        }
    }

    #[test]
    fn hostile_user_data_is_refused_without_an_allocation_of_its_size() {
        assert!(Subscription::decode(&[]).is_err());
        assert!(Subscription::decode(&[9]).is_err());
        assert!(Subscription::decode(&[3, 0, 0, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(Instruction::decode(&[3, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).is_err());
        assert!(Instruction::decode(&[3, 0, 0, 0, 0, 0]).is_err(), "half of it");
        assert!(Instruction::decode(&[3]).is_err() && Instruction::decode(&[3, 2]).is_err());
        assert!(Instruction::decode(&[2, 1]).is_err(), "another version");
    }

    #[test]
    fn who_asks_that_all_stop_stops_all() {
        let all = tasks(1, 2);
        let mut asking = holding("q", all[1..].iter().copied());
        asking.words.shutdown_requests = 1;
        let mut members =
            BTreeMap::from([("a".to_owned(), holding("p", all[..1].iter().copied())), ("b".to_owned(), asking)]);
        assert_eq!(Subscription::decode(&members["b"].words.encode()).as_ref(), Ok(&members["b"].words));
        let told = instruct(&all, &members);
        assert_eq!(told.values().collect::<Vec<_>>(), [&Instruction::ShutDown, &Instruction::ShutDown]);
        members.get_mut("b").unwrap().words.shutdown_requests = 0;
        let told = instruct(&all, &members);
        assert_eq!(told["a"], Instruction::Run { tasks: BTreeSet::from([all[0]]), awaited: BTreeSet::new() });
        let awaiting = Instruction::Run { tasks: BTreeSet::from([all[0]]), awaited: BTreeSet::from([all[1]]) };
        for instruction in [told["b"].clone(), awaiting, Instruction::ShutDown] {
            assert_eq!(Instruction::decode(&instruction.encode()), Ok(instruction));
        }
    }

    proptest! {
        /// Members with any claims at all, true or not, of any generation.
        #[test]
        fn nobody_runs_what_another_holds_and_two_rounds_divide_all_evenly(
            subtopologies in 1_i32..4, partitions in 1_i32..9,
            held in proptest::collection::vec(
                (proptest::collection::btree_set((0_i32..4, 0_i32..9), 0..12), 0_i32..3), 1..6
            ),
        ) {
            let all = tasks(subtopologies, partitions);
            let mut members: BTreeMap<String, Member> = held.into_iter().enumerate().map(|(index, (held, generation_id))| {
                let held = held.into_iter().map(|(subtopology, partition)| TaskId { subtopology, partition });
                (format!("m{index}"), Member { generation_id, ..holding(&format!("p{}", index / 2), held) })
            }).collect();
            for member in members.values() {
                prop_assert_eq!(&Subscription::decode(&member.words.encode()).unwrap(), &member.words);
            }
            let first = divide(&all, &members);
            for (name, (runs, awaits)) in &first {
                for task in runs {
                    let claims = members.iter().filter(|(_, member)| member.holds.contains(task));
                    let others = claims.filter(|(other, _)| *other != name);
                    let mine = members[name].holds.contains(task).then_some(members[name].generation_id);
                    for (other, member) in others {
                        prop_assert!(mine > Some(member.generation_id), "{} runs {}, which {} holds", name, task, other);
                    }
                }
                prop_assert!(runs.is_disjoint(awaits));
            }
            // Each has given up what it is not to run, and says so.
            for (name, member) in &mut members {
                (member.holds, member.generation_id) = (first[name].0.clone(), 3);
            }
            let second = divide(&all, &members);
            let run: Vec<TaskId> = second.values().flat_map(|(runs, _)| runs).copied().collect();
            prop_assert_eq!(run.len(), all.len());
            prop_assert_eq!(run.into_iter().collect::<BTreeSet<_>>(), all.iter().copied().collect::<BTreeSet<_>>());
            let sizes: Vec<usize> = second.values().map(|(runs, _)| runs.len()).collect();
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            for (name, (runs, awaits)) in &second {
                prop_assert!(awaits.is_empty());
                prop_assert!(runs.is_superset(&first[name].0), "{} keeps what it had", name);
            }
            // Who has what it was given keeps it, when nobody comes or goes.
            for (name, member) in &mut members {
                member.holds = second[name].0.clone();
            }
            prop_assert_eq!(divide(&all, &members), second);
        }
    }
}
