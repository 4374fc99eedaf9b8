//! Time has passed: transactions left open are aborted, ids left unused are forgotten.

use atonce_kernel::Outcome;

use super::prepare::End;
use super::state::{Protocol, State};
use super::{Record, TransactionCoordinator};
use crate::{Context, Decision};

impl TransactionCoordinator {
    /// Serves the id whose deadline is the earliest, if that has come. One id at a time: each may need a fresh producer
    /// id, and one decision is never too large for the log. The host asks again while a deadline is due.
    ///
    /// Shape: `Ongoing → Prepared` to abort, under a raised epoch whatever protocol the producer speaks, so that it
    ///   is fenced; `Empty | Complete →` forgotten.
    /// Source: KIP-98 (timeout, expiry), KIP-588 and KAFKA-6119 (the epoch rises), KIP-890 part 2 (the broker's own
    ///   aborts are v2).
    pub(super) fn tick(&self, context: &Context) -> Decision<Self> {
        let Some((deadline, transactional_id)) = self.deadlines.first() else { return Decision::nothing() };
        let Some(transaction) = self.transaction(transactional_id).filter(|_| *deadline <= context.now) else {
            return Decision::nothing();
        };
        match transaction.state {
            State::Ongoing { .. } => {
                End::of(transaction, Outcome::Abort, Protocol::V2, context).decide(transactional_id)
            }
            State::Empty | State::Complete { .. } => {
                Decision { records: vec![Record::expired(transactional_id)], ..Decision::nothing() }
            }
            State::Prepared { .. } => Decision::nothing(),
        }
    }
}
