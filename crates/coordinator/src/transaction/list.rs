//! `ListTransactions` (key 66): the transactional ids of this shard, filtered.

use std::collections::BTreeSet;

use atonce_kernel::{ProducerId, Timestamp, TransactionalId};

use super::TransactionCoordinator;
use super::state::{StateName, Transaction};

/// Which transactional ids are asked for. A pattern for their names (version 2) is the host's: this crate has no
/// regular expressions, and each entry of the list has its name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// States to keep; empty: all. The host answers names that [`StateName::from_name`] does not know as unknown, and
    /// then lists nothing if none is left.
    pub states: BTreeSet<StateName>,
    /// Producer ids to keep; empty: all.
    pub producer_ids: BTreeSet<ProducerId>,
    /// Keep only what began longer ago than this; negative: all.
    pub duration_ms: i64,
}

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedTransaction {
    /// The id.
    pub transactional_id: TransactionalId,
    /// Its producer.
    pub producer_id: ProducerId,
    /// Where its transaction stands.
    pub state: StateName,
}

impl TransactionCoordinator {
    /// Lists what `filter` keeps, by transactional id.
    ///
    /// Source: KIP-664; KIP-994 (duration). As Kafka does, the duration of an id without a transaction counts from 1970.
    pub fn list(&self, filter: &ListFilter, now: Timestamp) -> impl Iterator<Item = ListedTransaction> {
        let kept = self.registrations.iter().filter(move |(_, it)| filter.keeps(&it.transaction, now));
        kept.map(|(transactional_id, it)| ListedTransaction {
            transactional_id: transactional_id.clone(),
            producer_id: it.transaction.producer.id,
            state: it.transaction.state.name(),
        })
    }
}

impl ListFilter {
    fn keeps(&self, transaction: &Transaction, now: Timestamp) -> bool {
        (self.states.is_empty() || self.states.contains(&transaction.state.name()))
            && (self.producer_ids.is_empty() || self.producer_ids.contains(&transaction.producer.id))
            && (self.duration_ms < 0 || now.ms_since(transaction.state.since()) > self.duration_ms)
    }
}
