//! The group's assignor: members say which tasks they have and whose stores lie with them, the leader divides tasks, and each task
//! stands for its partitions. The division itself is `atonce-streams-core`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use atonce_client::{Assignor, ClusterTopics, MemberAssignment, MemberSubscription};
use atonce_kernel::{MemberId, TopicPartition};
use atonce_streams_core::TaskId;
use atonce_streams_core::assignment::{ASSIGNOR_NAME, Subscription, assign, encode_assignment};
use bytes::Bytes;

use crate::internal_topics::Topics;

/// One worker's assignor.
pub(crate) struct TasksAssignor {
    topics: Arc<Topics>,
    /// What this worker says when it joins. The worker keeps it current, the consumer's own task reads it.
    words: Mutex<Subscription>,
}

impl TasksAssignor {
    pub(crate) fn new(topics: Arc<Topics>, process_id: &str, stored: BTreeSet<TaskId>) -> Self {
        let words = Subscription { process_id: process_id.to_owned(), owned: BTreeSet::new(), stored };
        Self { topics, words: Mutex::new(words) }
    }

    /// From now on this worker has these tasks.
    pub(crate) fn set_owned(&self, owned: BTreeSet<TaskId>, stored: BTreeSet<TaskId>) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.owned = owned;
        words.stored = stored;
    }
}

impl Assignor for TasksAssignor {
    fn name(&self) -> &str {
        ASSIGNOR_NAME
    }

    fn subscription_userdata(&self) -> Bytes {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).encode()
    }

    fn assign(&self, _topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment> {
        let mut ids: BTreeMap<String, MemberId> = BTreeMap::new();
        let mut subscriptions: BTreeMap<String, Subscription> = BTreeMap::new();
        for member in members {
            // Sorted by the name that survives a restart; a dynamic member comes after all static ones.
            let name = match &member.instance_id {
                Some(instance_id) => format!("0{instance_id}"),
                None => format!("1{}", member.member_id),
            };
            let subscription = Subscription::decode(&member.userdata).unwrap_or_else(|error| {
                tracing::warn!("{}: {error}", member.member_id);
                Subscription::default()
            });
            ids.insert(name.clone(), member.member_id.clone());
            subscriptions.insert(name, subscription);
        }
        let layout = &self.topics.layout;
        let choice = assign(&layout.task_ids(), &subscriptions);
        tracing::debug!(?choice, "divided the tasks");
        choice
            .into_iter()
            .filter_map(|(name, tasks)| {
                let partitions: Vec<TopicPartition> =
                    tasks.iter().flat_map(|task| layout.partitions_of(*task)).collect();
                Some(MemberAssignment {
                    member_id: ids.get(&name)?.clone(),
                    partitions,
                    userdata: encode_assignment(&tasks),
                })
            })
            .collect()
    }
}
