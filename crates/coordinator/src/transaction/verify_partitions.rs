//! The question behind each write of a v1 producer: is the partition in a transaction that is open?

use atonce_kernel::TopicPartition;
use atonce_protocol::ErrorCode;

use super::fencing::check_producer;
use super::state::State;
use super::{Reply, TransactionCoordinator, VerifyPartitions};
use crate::{Context, Decision};

impl TransactionCoordinator {
    /// Says of each partition whether it may be written to. Without this a batch that was delayed beyond the end of
    /// its transaction would open another, which nobody would ever end.
    ///
    /// Shape: changes nothing.
    /// Refuses: `InvalidRequest` for an empty id; `InvalidProducerIdMapping`; `ProducerFenced`;
    ///   `ConcurrentTransactions` while markers are owed; `TransactionAbortable` if the partition is not in the
    ///   transaction.
    /// Source: KIP-890 part 1.
    pub(super) fn verify_partitions(&self, context: &Context, request: &VerifyPartitions) -> Decision<Self> {
        let verdict = |partition| match self.verify(request, partition) {
            Ok(()) => ErrorCode::None,
            Err(error) => request.caller.put(error),
        };
        let partitions = request.partitions.iter().map(|partition| (partition.clone(), verdict(partition))).collect();
        Decision::reply(context.waiter, Reply::Partitions(partitions))
    }

    fn verify(&self, request: &VerifyPartitions, partition: &TopicPartition) -> Result<(), ErrorCode> {
        if request.transactional_id.as_str().is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let transaction = self.transaction(&request.transactional_id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        check_producer(transaction, request.producer)?;
        match &transaction.state {
            State::Ongoing { partitions, .. } if partitions.contains(partition) => Ok(()),
            State::Prepared { .. } => Err(ErrorCode::ConcurrentTransactions),
            State::Empty | State::Ongoing { .. } | State::Complete { .. } => Err(ErrorCode::TransactionAbortable),
        }
    }
}
