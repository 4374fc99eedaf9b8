//! The log may have lost its end: nobody who wrote under a transactional id goes on.

use atonce_kernel::{Outcome, ProducerEpoch, ProducerIdentity, TransactionalId};

use super::prepare::End;
use super::state::{Protocol, State};
use super::{Record, TransactionCoordinator};
use crate::{Context, Decision};

impl TransactionCoordinator {
    /// Gives the id a new producer id, so that no identity handed out before the loss means anything any more. Raising
    /// the epoch would not do: the lost records may have raised it as far, and a producer that survived would have it.
    ///
    /// Shape: `Empty | Complete → Empty`, to nobody's knowledge. `Ongoing → Prepared` to abort, and of a `Prepared` one
    ///   nothing: the host writes what is owed, and asks again.
    /// Retry: gives yet another producer id.
    /// Source: our own: with durability `os`, power loss takes back what was acknowledged.
    pub(super) fn renew(&self, context: &Context, transactional_id: &TransactionalId) -> Decision<Self> {
        let Some(transaction) = self.transaction(transactional_id) else { return Decision::nothing() };
        match transaction.state {
            State::Ongoing { .. } => {
                End::of(transaction, Outcome::Abort, Protocol::V2, context).decide(transactional_id)
            }
            State::Prepared { .. } => Decision::nothing(),
            State::Empty | State::Complete { .. } => {
                let nobody = ProducerIdentity { id: context.fresh_producer_id, epoch: ProducerEpoch::FIRST };
                let renewed = transaction.initialized(nobody, transaction.timeout_ms, context.now);
                Decision {
                    records: vec![Record::registered(transactional_id, renewed)],
                    took_producer_id: true,
                    ..Decision::nothing()
                }
            }
        }
    }
}
