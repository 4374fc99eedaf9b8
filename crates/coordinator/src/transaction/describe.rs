//! `DescribeTransactions` (key 65): what an administrator sees of one transactional id.

use std::collections::BTreeSet;

use atonce_kernel::{ProducerIdentity, Timestamp, TopicPartition, TransactionalId};
use atonce_protocol::ErrorCode;

use super::state::{State, StateName};
use super::{Registration, TransactionCoordinator};

/// One transactional id, described.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionDescription {
    /// Where its transaction stands.
    pub state: StateName,
    /// Its producer.
    pub producer: ProducerIdentity,
    /// How long a transaction may stay open.
    pub timeout_ms: i32,
    /// When the present or last transaction began; `NONE` if none has since the last initialisation.
    pub since: Timestamp,
    /// The partitions in it; of a prepared one those that are still owed a marker.
    pub partitions: BTreeSet<TopicPartition>,
}

impl TransactionCoordinator {
    /// Describes `transactional_id`.
    ///
    /// Refuses: `InvalidRequest` for an empty id; `TransactionalIdNotFound`.
    /// Source: KIP-664.
    pub fn describe(&self, transactional_id: &TransactionalId) -> Result<TransactionDescription, ErrorCode> {
        if transactional_id.as_str().is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let Registration { transaction, noted, .. } =
            self.registrations.get(transactional_id).ok_or(ErrorCode::TransactionalIdNotFound)?;
        Ok(TransactionDescription {
            state: transaction.state.name(),
            producer: transaction.producer,
            timeout_ms: transaction.timeout_ms,
            since: transaction.state.since(),
            partitions: match &transaction.state {
                State::Ongoing { partitions, .. } => partitions.clone(),
                State::Prepared { partitions, .. } => partitions.difference(&noted.written).cloned().collect(),
                State::Empty | State::Complete { .. } => BTreeSet::new(),
            },
        })
    }
}
