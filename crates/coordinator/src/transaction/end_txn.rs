//! `EndTxn` (key 26): a producer commits or aborts.

use atonce_kernel::Outcome;
use atonce_protocol::ErrorCode;

use super::command::put_to_client;
use super::fencing::check_producer;
use super::prepare::End;
use super::state::{Protocol, State, Transaction};
use super::{EndTxn, Reply, TransactionCoordinator};
use crate::{Context, Decision};

impl TransactionCoordinator {
    /// Ends the caller's transaction.
    ///
    /// Shape: `Ongoing → Prepared`; in v2 an abort also `Empty | Complete → Prepared`. Answers with that record,
    ///   whatever time the markers take: it decides the outcome.
    /// Retry: the same request again is answered from state.
    /// Refuses: `InvalidRequest` for an empty id; `InvalidProducerIdMapping`; `ProducerFenced` if the epoch is neither
    ///   current nor, in v2, the one just retired; `InvalidTxnState` if it ended the other way, or there is nothing to
    ///   end; `ConcurrentTransactions` while markers are owed. In v2 the last two are also said to the epoch before the
    ///   current one, whatever retired it, as Kafka does; success is not.
    /// Source: KIP-98 (states), KIP-588 (codes), KIP-890 part 2 (the epoch rises with every end).
    pub(super) fn end_txn(&self, context: &Context, request: &EndTxn) -> Decision<Self> {
        let answer = |answer| Decision::reply(context.waiter, Reply::EndTxn(answer));
        let refuse = |error| answer(Err(put_to_client(request.version, 2, error)));
        if request.transactional_id.as_str().is_empty() {
            return refuse(ErrorCode::InvalidRequest);
        }
        let Some(transaction) = self.transaction(&request.transactional_id) else {
            return refuse(ErrorCode::InvalidProducerIdMapping);
        };
        let protocol = request.protocol();
        let verdict = match protocol {
            Protocol::V1 => judge_v1(transaction, request),
            Protocol::V2 => judge_v2(transaction, request),
        };
        match verdict {
            Ok(Verdict::Ends) => {
                let end = End::of(transaction, request.outcome, protocol, context);
                let next_producer = end.next_producer();
                end.decide(&request.transactional_id).then(answer(Ok(next_producer)))
            }
            Ok(Verdict::HasEnded) => answer(Ok(transaction.producer)),
            Err(error) => refuse(error),
        }
    }
}

/// What a request to end a transaction comes to.
enum Verdict {
    /// Now it ends.
    Ends,
    /// It has ended so already; the reply was lost.
    HasEnded,
}

/// In v1 an epoch lasts over many transactions, so a repeated request cannot be told from a new one: the state alone
/// answers.
fn judge_v1(transaction: &Transaction, request: &EndTxn) -> Result<Verdict, ErrorCode> {
    check_producer(transaction, request.producer)?;
    match transaction.state {
        State::Ongoing { .. } => Ok(Verdict::Ends),
        State::Prepared { outcome, .. } if outcome == request.outcome => Err(ErrorCode::ConcurrentTransactions),
        State::Complete { outcome, .. } if outcome == request.outcome => Ok(Verdict::HasEnded),
        State::Empty | State::Prepared { .. } | State::Complete { .. } => Err(ErrorCode::InvalidTxnState),
    }
}

/// In v2 each end retires the epoch that it was sent under: a repeated request names the retired one, and only the
/// current one ends anything.
fn judge_v2(transaction: &Transaction, request: &EndTxn) -> Result<Verdict, ErrorCode> {
    let is_current = request.producer == transaction.producer;
    let is_retry = Some(request.producer) == transaction.retired_by_end();
    let is_one_before = request.producer.epoch.0.checked_add(1) == Some(transaction.producer.epoch.0);
    if request.producer.id != transaction.producer.id && !is_retry {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    match transaction.state {
        State::Ongoing { .. } if is_current => Ok(Verdict::Ends),
        State::Prepared { outcome, .. } if is_retry && outcome == request.outcome => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        State::Complete { outcome, .. } if is_retry && outcome == request.outcome => Ok(Verdict::HasEnded),
        State::Prepared { .. } | State::Complete { .. } if is_retry => Err(ErrorCode::InvalidTxnState),
        // A client whose write went unanswered cannot know whether it opened a transaction. So an abort of nothing is no
        // mistake, and it retires the epoch as any end does, lest that write arrives late. A commit of nothing is one.
        State::Empty | State::Complete { .. } if is_current => match request.outcome {
            Outcome::Abort => Ok(Verdict::Ends),
            Outcome::Commit => Err(ErrorCode::InvalidTxnState),
        },
        // Kafka takes every epoch that is one less for one that its end retired. So it tells a producer that was fenced by
        // its successor how *that* one's transaction ended: as a refusal here too, but never as success, nor with the
        // successor's epoch, under which both would write.
        State::Prepared { outcome, .. } | State::Complete { outcome, .. }
            if is_one_before && outcome != request.outcome =>
        {
            Err(ErrorCode::InvalidTxnState)
        }
        State::Prepared { .. } if is_one_before => Err(ErrorCode::ConcurrentTransactions),
        State::Empty | State::Ongoing { .. } | State::Prepared { .. } | State::Complete { .. } => {
            Err(ErrorCode::ProducerFenced)
        }
    }
}
