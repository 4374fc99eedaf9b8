//! A caller that is held hung up.

use super::{Change, HeldInit, Note, Registration, TransactionCoordinator};
use crate::{Decision, Waiter};

impl TransactionCoordinator {
    /// Forgets an initialisation that is held for `waiter`, so that it fences nobody after its caller has gone. The
    /// transaction that it aborted stays aborted.
    ///
    /// Shape: changes nothing durable.
    /// Retry: harmless.
    pub(super) fn waiter_gone(&self, waiter: Waiter) -> Decision<Self> {
        let is_held = |registration: &Registration| {
            registration.noted.held.as_ref().is_some_and(|held: &HeldInit| held.waiter == waiter)
        };
        let holder = |id: &&_| self.registrations.get(*id).is_some_and(is_held);
        let note =
            |id: &atonce_kernel::TransactionalId| Note { transactional_id: id.clone(), change: Change::HoldsNone };
        Decision { notes: self.prepared.iter().find(holder).map(note).into_iter().collect(), ..Decision::nothing() }
    }
}
