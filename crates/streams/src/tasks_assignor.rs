//! The group's assignor: members say what they hold and whose stores lie with them, the leader divides tasks, and each task stands for its
//! partitions. Members keep what they keep while the group divides (KIP-429). The division itself is `atonce-streams-core`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atonce_client::{Assignor, ClusterTopics, MemberAssignment, MemberSubscription, RebalanceProtocol};
use atonce_kernel::{MemberId, TopicPartition};
use atonce_streams_core::TaskId;
use atonce_streams_core::assignment::{ASSIGNOR_NAME, Instruction, Member, Subscription, instruct};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::internal_topics::Topics;

/// One worker's assignor. The worker keeps it current, the consumer's own task reads it.
pub(crate) struct TasksAssignor {
    known: Mutex<Known>,
    /// Told when a member reads topics that this process has not seen yet.
    look_again: Arc<Notify>,
}

struct Known {
    topics: Arc<Topics>,
    /// What this worker says when it joins.
    words: Subscription,
}

impl TasksAssignor {
    pub(crate) fn new(
        topics: Arc<Topics>,
        process_id: &str,
        stored: BTreeSet<TaskId>,
        look_again: Arc<Notify>,
    ) -> Self {
        let words = Subscription { process_id: process_id.to_owned(), stored, ..Subscription::default() };
        Self { known: Mutex::new(Known { topics, words }), look_again }
    }

    /// From now on the stores of these tasks lie with this worker's process.
    pub(crate) fn set_stored(&self, stored: BTreeSet<TaskId>) {
        self.known().words.stored = stored;
    }

    /// From now on these are the topics.
    pub(crate) fn set_topics(&self, topics: Arc<Topics>) {
        self.known().topics = topics;
    }

    /// From now on this worker asks that all of the application stop; again, if it asks already.
    pub(crate) fn ask_for_shutdown(&self) {
        let words = &mut self.known().words;
        words.shutdown_requests = words.shutdown_requests.saturating_add(1);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Assignor for TasksAssignor {
    fn name(&self) -> &str {
        ASSIGNOR_NAME
    }

    fn rebalance_protocol(&self) -> RebalanceProtocol {
        RebalanceProtocol::Cooperative
    }

    fn subscription_userdata(&self) -> Bytes {
        self.known().words.encode()
    }

    fn assign(&self, _topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment> {
        let topics = Arc::clone(&self.known().topics);
        let layout = &topics.layout;
        let subscribed = layout.subscription();
        if members.iter().any(|member| member.topics.iter().any(|topic| !subscribed.contains(topic))) {
            self.look_again.notify_one();
        }
        let mut ids: BTreeMap<String, MemberId> = BTreeMap::new();
        let mut seen: BTreeMap<String, Member> = BTreeMap::new();
        for member in members {
            // Sorted by the name that survives a restart; a dynamic member comes after all static ones.
            let name = match &member.instance_id {
                Some(instance_id) => format!("0{instance_id}"),
                None => format!("1{}", member.member_id),
            };
            let words = Subscription::decode(&member.userdata).unwrap_or_else(|error| {
                tracing::warn!("{}: {error}", member.member_id);
                Subscription::default()
            });
            ids.insert(name.clone(), member.member_id.clone());
            // A partition that this process does not know is given to nobody, so that whoever holds it gives it up.
            let holds = member.owned.iter().filter_map(|partition| layout.task_of(partition)).collect();
            seen.insert(name, Member { words, holds, generation_id: member.generation_id });
        }
        let choice = instruct(&layout.task_ids(), &seen);
        tracing::debug!(?choice, "divided the tasks");
        choice
            .into_iter()
            .filter_map(|(name, instruction)| {
                let partitions: Vec<TopicPartition> = match &instruction {
                    Instruction::Run { tasks, .. } => {
                        tasks.iter().flat_map(|task| layout.partitions_of(*task)).collect()
                    }
                    Instruction::ShutDown => Vec::new(),
                };
                let member_id = ids.get(&name)?.clone();
                Some(MemberAssignment { member_id, partitions, userdata: instruction.encode() })
            })
            .collect()
    }
}
