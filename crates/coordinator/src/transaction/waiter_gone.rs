//! A caller that is held hung up.

use atonce_kernel::TransactionalId;

use super::{Change, Note, TransactionCoordinator};
use crate::{Decision, Waiter};

impl TransactionCoordinator {
    /// Forgets an initialisation that is held for `waiter`, so that it fences nobody after its caller has gone. The
    /// transaction that it aborted stays aborted.
    ///
    /// Shape: changes nothing durable.
    /// Retry: harmless.
    pub(super) fn waiter_gone(&self, waiter: Waiter) -> Decision<Self> {
        let Some(transactional_id) = self.prepared.iter().find(|id| self.holds(id, waiter)) else {
            return Decision::nothing();
        };
        let note = Note { transactional_id: transactional_id.clone(), change: Change::HoldsNone };
        Decision { notes: vec![note], ..Decision::nothing() }
    }

    fn holds(&self, transactional_id: &TransactionalId, waiter: Waiter) -> bool {
        let registration = self.registrations.get(transactional_id);
        registration.and_then(|it| it.noted.held.as_ref()).is_some_and(|held| held.waiter == waiter)
    }
}
