//! `AddPartitionsToTxn` (key 24), `AddOffsetsToTxn` (key 25), and writes that add their partition (v2): partitions join
//! a transaction before anything is written to them, so that the end of the transaction reaches them all.

use std::collections::BTreeSet;

use atonce_kernel::TopicPartition;
use atonce_protocol::ErrorCode;

use super::fencing::check_producer;
use super::state::{State, Transaction};
use super::{AddPartitions, Admission, Record, Reply, TransactionCoordinator};
use crate::{Context, Decision};

impl TransactionCoordinator {
    /// Adds all of the partitions, or none. The offsets partition of `AddOffsetsToTxn` is one like any other.
    ///
    /// Shape: `Empty | Ongoing | Complete → Ongoing`.
    /// Retry: partitions that are in the transaction already are accepted without a record.
    /// Refuses: `UnknownTopicOrPartition` or `TopicAuthorizationFailed` for the partitions concerned, and
    ///   `OperationNotAttempted` for the others; `InvalidRequest` for an empty id; `InvalidProducerIdMapping`;
    ///   `ProducerFenced`; `ConcurrentTransactions` while markers are owed.
    /// Source: KIP-98, KIP-447 (offsets), KIP-588 (codes), KIP-890 (implicit addition).
    pub(super) fn add_partitions(&self, context: &Context, request: &AddPartitions) -> Decision<Self> {
        if request.partitions.iter().any(|(partition, admission)| refusal(request, partition, *admission).is_some()) {
            return Decision::reply(context.waiter, Reply::Partitions(all_or_nothing(request)));
        }
        let opened = match self.open(context, request) {
            Ok(opened) => opened,
            Err(error) => return answer(context, request, request.caller.put(error)),
        };
        let records = opened.into_iter().map(|opened| Record::registered(&request.transactional_id, opened)).collect();
        Decision { records, ..answer(context, request, ErrorCode::None) }
    }

    /// The transaction with the partitions in it; `None` if they are in it already.
    fn open(&self, context: &Context, request: &AddPartitions) -> Result<Option<Transaction>, ErrorCode> {
        if request.transactional_id.as_str().is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let transaction = self.transaction(&request.transactional_id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        check_producer(transaction, request.producer)?;
        let added = request.partitions.iter().map(|(partition, _)| partition.clone());
        let (partitions, since) = match &transaction.state {
            State::Ongoing { partitions, since } => (partitions.iter().cloned().chain(added).collect(), *since),
            State::Empty | State::Complete { .. } => (added.collect::<BTreeSet<_>>(), context.now),
            State::Prepared { .. } => return Err(ErrorCode::ConcurrentTransactions),
        };
        match &transaction.state {
            State::Ongoing { partitions: before, .. } if *before == partitions => Ok(None),
            State::Empty | State::Ongoing { .. } | State::Prepared { .. } | State::Complete { .. } => {
                Ok(Some(transaction.opened(partitions, since, request.caller.protocol(), context.now)))
            }
        }
    }
}

/// Why this partition cannot join, as far as the partition itself goes.
fn refusal(request: &AddPartitions, partition: &TopicPartition, admission: Admission) -> Option<ErrorCode> {
    match admission {
        // Markers in the coordinators' own topics are read by the coordinators. A client that could put any there
        // would end transactions it does not own.
        Admission::Exists if request.caller.is_client_naming_partitions() && is_internal(partition) => {
            Some(ErrorCode::TopicAuthorizationFailed)
        }
        Admission::Exists => None,
        Admission::Unknown => Some(ErrorCode::UnknownTopicOrPartition),
        Admission::Unauthorized => Some(ErrorCode::TopicAuthorizationFailed),
    }
}

fn is_internal(partition: &TopicPartition) -> bool {
    matches!(partition.topic.as_str(), "__consumer_offsets" | "__transaction_state")
}

fn all_or_nothing(request: &AddPartitions) -> Vec<(TopicPartition, ErrorCode)> {
    let judge = |(partition, admission): &(TopicPartition, Admission)| {
        let error = refusal(request, partition, *admission).unwrap_or(ErrorCode::OperationNotAttempted);
        (partition.clone(), error)
    };
    request.partitions.iter().map(judge).collect()
}

fn answer(context: &Context, request: &AddPartitions, error: ErrorCode) -> Decision<TransactionCoordinator> {
    let partitions = request.partitions.iter().map(|(partition, _)| (partition.clone(), error)).collect();
    Decision::reply(context.waiter, Reply::Partitions(partitions))
}
