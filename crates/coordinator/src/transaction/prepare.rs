//! The one step that decides a transaction, whoever takes it: its producer, another instance, or the clock.

use atonce_kernel::{Outcome, ProducerIdentity, TransactionalId};

use super::state::{Protocol, Transaction};
use super::{Record, TransactionCoordinator};
use crate::{Context, Decision};

/// A transaction about to be decided.
pub(super) struct End {
    prepared: Transaction,
    takes_producer_id: bool,
}

impl End {
    /// `transaction` ended by `outcome`. From its record on markers are owed.
    ///
    /// Shape: `Ongoing → Prepared`; in v2 also `Empty | Complete → Prepared`, with nothing owed but the completion.
    /// Source: KIP-890 part 2: an end in v2 raises the epoch, and when none is left to hand out it names the producer
    ///   id that follows, also when nobody asked for the end (KAFKA-20090).
    pub(super) fn of(transaction: &Transaction, outcome: Outcome, protocol: Protocol, context: &Context) -> Self {
        let takes_producer_id = match protocol {
            Protocol::V1 => false,
            Protocol::V2 => transaction.producer.epoch.is_exhausted(),
        };
        let successor = takes_producer_id.then_some(context.fresh_producer_id);
        Self { prepared: transaction.prepared(outcome, protocol, successor, context.now), takes_producer_id }
    }

    /// Who begins the next transaction.
    pub(super) fn next_producer(&self) -> ProducerIdentity {
        self.settled().producer
    }

    /// The transaction as it will be once its markers are written.
    pub(super) fn settled(&self) -> Transaction {
        self.prepared.settled(self.prepared.last_update)
    }

    pub(super) fn decide(self, transactional_id: &TransactionalId) -> Decision<TransactionCoordinator> {
        Decision {
            records: vec![Record::registered(transactional_id, self.prepared)],
            took_producer_id: self.takes_producer_id,
            ..Decision::nothing()
        }
    }
}
