//! A topic is gone. Records name partitions by topic name, so a new topic of that name must not inherit anything (but, in
//! protocol 1, a marker).

use atonce_kernel::{TopicName, TopicPartition, TransactionalId};

use super::state::{Protocol, State};
use super::{Change, Note, Record, Registration, TransactionCoordinator};
use crate::{Context, Decision};

impl TransactionCoordinator {
    /// Takes the topic out of every transaction that is not completed.
    ///
    /// Shape: `Ongoing → Ongoing`, perhaps with no partition left (in protocol 2). Of a `Prepared` one it is noted that the topic is
    ///   owed nothing; that record still names it, and after a crash the host finds it gone anew. Completion is left to
    ///   the report on what else is owed.
    /// Retry: harmless.
    pub(super) fn topic_deleted(&self, context: &Context, topic: &TopicName) -> Decision<Self> {
        let mut decision = Decision::nothing();
        for (transactional_id, registration) in &self.registrations {
            decision = decision.then(without_topic(context, transactional_id, registration, topic));
        }
        decision
    }
}

fn without_topic(
    context: &Context,
    transactional_id: &TransactionalId,
    Registration { transaction, .. }: &Registration,
    topic: &TopicName,
) -> Decision<TransactionCoordinator> {
    let is_gone = |partition: &TopicPartition| partition.topic == *topic;
    match &transaction.state {
        // A client of protocol 1 has added the partition, and will not do so again: made anew, the topic takes part, as in
        // Kafka. If it is not, the host finds it gone when markers are owed.
        State::Ongoing { .. } if transaction.protocol == Protocol::V1 => Decision::nothing(),
        State::Ongoing { partitions, since } if partitions.iter().any(is_gone) => {
            let kept = partitions.iter().filter(|partition| !is_gone(partition)).cloned().collect();
            let opened = transaction.opened(kept, *since, transaction.protocol, context.now);
            Decision { records: vec![Record::registered(transactional_id, opened)], ..Decision::nothing() }
        }
        State::Prepared { partitions, .. } if partitions.iter().any(is_gone) => {
            let gone = partitions.iter().filter(|partition| is_gone(partition)).cloned().collect();
            let note = Note { transactional_id: transactional_id.clone(), change: Change::Written(gone) };
            Decision { notes: vec![note], ..Decision::nothing() }
        }
        State::Empty | State::Ongoing { .. } | State::Prepared { .. } | State::Complete { .. } => Decision::nothing(),
    }
}
