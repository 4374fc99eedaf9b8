//! `InitProducerId` (key 22): a producer presents itself, and all who wrote under its id before are fenced.
//!
//! A request is judged against the state in which it will be answered: the present one, or, if a transaction stands
//! in the way, the one after its completion ([`Settled`]). So a zombie is refused before it can abort anything, and
//! nobody is held only to be refused at last.

use atonce_kernel::{Outcome, ProducerEpoch, ProducerId, ProducerIdentity, TransactionalId};
use atonce_protocol::ErrorCode;

use super::command::put_to_client;
use super::prepare::End;
use super::state::{Protocol, State, Transaction};
use super::{Change, HeldInit, InitProducerId, Limits, Note, Record, Registration, Reply, TransactionCoordinator};
use crate::{Context, Decision, Waiter};

/// The longest transactional id: the key of its record has 15 bits for the length, the request has more.
const TRANSACTIONAL_ID_BYTES_MAX: usize = i16::MAX as usize;

impl TransactionCoordinator {
    /// Makes the caller the only producer of its transactional id.
    ///
    /// Shape: unknown, `Empty`, `Complete → Empty` under the next epoch, or under a new producer id when the epochs
    ///   are used up. Over `Ongoing`: aborts it under a raised epoch, which fences its owner, and holds the caller until
    ///   that is completed. Over `Prepared`: holds the caller. One who was held before gives way to the later one.
    /// Retry: a producer that names the identity it had gets once more what it was given for it.
    /// Refuses: `InvalidRequest` for an empty id or half an identity; `InvalidTransactionTimeout`; `ProducerFenced`
    ///   if the identity named is not the latest; `ConcurrentTransactions` to one who gives way; what belongs to
    ///   two-phase commit.
    /// Source: KIP-98, KIP-360 (the identity named), KIP-588 (codes), KIP-890 part 2 (one raise for an abort), KIP-939
    ///   (refused).
    pub(super) fn init_producer_id(&self, context: &Context, request: &InitProducerId) -> Decision<Self> {
        let transactional_id = match admit(&self.limits, request) {
            Ok(Some(transactional_id)) => transactional_id,
            Ok(None) => return idempotent(context),
            Err(error) => return refuse(context.waiter, request, error),
        };
        let Some(registration) = self.registrations.get(transactional_id) else {
            return first(context, transactional_id, request);
        };
        let initialized = match Settled::of(registration, context).initialize(context, request) {
            Ok(initialized) => initialized,
            Err(error) => return refuse(context.waiter, request, error),
        };
        let held = HeldInit { waiter: context.waiter, request: request.clone() };
        let transaction = &registration.transaction;
        match transaction.state {
            State::Empty | State::Complete { .. } => initialized.decide(transactional_id, transaction, context.waiter),
            State::Prepared { .. } => hold(transactional_id, held, registration.noted.held.as_ref()),
            State::Ongoing { .. } => End::of(transaction, Outcome::Abort, Protocol::V2, context)
                .decide(transactional_id)
                .then(hold(transactional_id, held, None)),
        }
    }
}

/// Answers one who was held, now that the transaction in its way is `completed`.
pub(super) fn answer_held(
    context: &Context,
    transactional_id: &TransactionalId,
    completed: &Transaction,
    HeldInit { waiter, request }: &HeldInit,
) -> Decision<TransactionCoordinator> {
    match Settled::by_end(completed.clone()).initialize(context, request) {
        Ok(initialized) => initialized.decide(transactional_id, completed, *waiter),
        Err(error) => refuse(*waiter, request, error),
    }
}

/// What can be said without any state, in Kafka's order; the transactional id, if there is one.
fn admit<'a>(limits: &Limits, request: &'a InitProducerId) -> Result<Option<&'a TransactionalId>, ErrorCode> {
    if (request.expected.id == ProducerId::NONE) != (request.expected.epoch == ProducerEpoch::NONE) {
        return Err(ErrorCode::InvalidRequest);
    }
    let Some(transactional_id) = &request.transactional_id else { return Ok(None) };
    if !(1..=TRANSACTIONAL_ID_BYTES_MAX).contains(&transactional_id.as_str().len()) {
        Err(ErrorCode::InvalidRequest)
    } else if request.enable_two_phase_commit {
        Err(ErrorCode::TransactionalIdAuthorizationFailed)
    } else if request.keep_prepared_transaction {
        Err(ErrorCode::UnsupportedVersion)
    } else if !(1..=limits.transaction_timeout_ms_max).contains(&request.transaction_timeout_ms) {
        Err(ErrorCode::InvalidTransactionTimeout)
    } else {
        Ok(Some(transactional_id))
    }
}

/// A producer without transactions: nothing to remember, nobody to fence.
fn idempotent(context: &Context) -> Decision<TransactionCoordinator> {
    let producer = ProducerIdentity { id: context.fresh_producer_id, epoch: ProducerEpoch::FIRST };
    let reply = Reply::InitProducerId(Ok(producer));
    Decision { took_producer_id: true, ..Decision::reply(context.waiter, reply) }
}

/// The first producer of an id. Whatever identity it names is from a life that the coordinator has forgotten.
fn first(
    context: &Context,
    transactional_id: &TransactionalId,
    request: &InitProducerId,
) -> Decision<TransactionCoordinator> {
    let producer = ProducerIdentity { id: context.fresh_producer_id, epoch: ProducerEpoch::FIRST };
    let transaction = Transaction {
        producer,
        previous_producer_id: producer.id,
        timeout_ms: request.transaction_timeout_ms,
        protocol: Protocol::V1,
        state: State::Empty,
        last_update: context.now,
    };
    Decision {
        records: vec![Record::registered(transactional_id, transaction)],
        took_producer_id: true,
        ..Decision::reply(context.waiter, Reply::InitProducerId(Ok(producer)))
    }
}

/// Holds `held`; whoever was held before comes back by itself, if it still lives.
///
/// One place only: of many who present themselves under one id the latest is to win, and what is soft has a bound.
fn hold(
    transactional_id: &TransactionalId,
    held: HeldInit,
    before: Option<&HeldInit>,
) -> Decision<TransactionCoordinator> {
    let gives_way = before.map_or_else(Decision::nothing, |before| {
        refuse(before.waiter, &before.request, ErrorCode::ConcurrentTransactions)
    });
    let note = Note { transactional_id: transactional_id.clone(), change: Change::Holds(Box::new(held)) };
    Decision { notes: vec![note], ..gives_way }
}

fn refuse(waiter: Waiter, request: &InitProducerId, error: ErrorCode) -> Decision<TransactionCoordinator> {
    Decision::reply(waiter, Reply::InitProducerId(Err(put_to_client(request.version, 4, error))))
}

/// An id with no transaction in the way: now, or once that is completed.
struct Settled {
    transaction: Transaction,
    /// The present identity, if anybody was told of it. The one under which a transaction is about to be aborted nobody
    /// knows, so who names it guesses.
    told: Option<ProducerIdentity>,
    /// Who gave way to the present identity, and may ask for that again.
    retired: Option<ProducerIdentity>,
}

impl Settled {
    /// The state in which an initialisation that comes now will be answered.
    fn of(registration: &Registration, context: &Context) -> Self {
        let Registration { transaction, noted, .. } = registration;
        let told = Some(transaction.producer);
        match transaction.state {
            State::Empty => Self { transaction: transaction.clone(), told, retired: noted.retired },
            State::Complete { .. } => Self::by_end(transaction.clone()),
            State::Ongoing { .. } => {
                let aborted = End::of(transaction, Outcome::Abort, Protocol::V2, context).settled();
                Self { transaction: aborted, told: None, retired: told }
            }
            State::Prepared { .. } => {
                let completed = Self::by_end(transaction.settled(context.now));
                // A new instance that is held has fenced those before it, though it has no answer yet.
                match noted.held.as_ref().map(|held| completed.initialize(context, &held.request)) {
                    Some(Ok(Initialized { transaction, retired, .. })) => Self { transaction, told: None, retired },
                    Some(Err(_)) | None => completed,
                }
            }
        }
    }

    /// After an end: its reply told who comes next.
    fn by_end(completed: Transaction) -> Self {
        Self { told: Some(completed.producer), retired: completed.retired_by_end(), transaction: completed }
    }

    /// Whom `request` makes the producer.
    ///
    /// Source: KIP-360. A producer that names its identity goes on from it, so that one which was fenced meanwhile
    /// cannot; a repeated request is known by the identity that it retired.
    fn initialize(&self, context: &Context, request: &InitProducerId) -> Result<Initialized, ErrorCode> {
        let present = self.transaction.producer;
        let named = (request.expected != ProducerIdentity::NONE).then_some(request.expected);
        let (producer, retired) = match named {
            None => (after(present, context), None),
            Some(_) if named == self.told => (after(present, context), named),
            Some(_) if named == self.retired => (present, named),
            Some(_) => return Err(ErrorCode::ProducerFenced),
        };
        Ok(Initialized {
            transaction: self.transaction.initialized(producer, request.transaction_timeout_ms, context.now),
            retired,
            took_producer_id: producer.id != present.id,
        })
    }
}

/// The identity after `present`: a new producer id once its epochs are used up. The last epoch is never handed out; it
/// is kept for fencing.
fn after(present: ProducerIdentity, context: &Context) -> ProducerIdentity {
    if present.epoch.is_exhausted() {
        ProducerIdentity { id: context.fresh_producer_id, epoch: ProducerEpoch::FIRST }
    } else {
        ProducerIdentity { id: present.id, epoch: present.epoch.next() }
    }
}

/// An id with its new producer.
struct Initialized {
    transaction: Transaction,
    retired: Option<ProducerIdentity>,
    took_producer_id: bool,
}

impl Initialized {
    fn decide(
        self,
        transactional_id: &TransactionalId,
        before: &Transaction,
        waiter: Waiter,
    ) -> Decision<TransactionCoordinator> {
        let reply = Decision::reply(waiter, Reply::InitProducerId(Ok(self.transaction.producer)));
        // A repeated request finds all as it was left; the note on who retired stands as well.
        if before.state == State::Empty
            && before.producer == self.transaction.producer
            && before.timeout_ms == self.transaction.timeout_ms
        {
            return reply;
        }
        let note = |retired| Note { transactional_id: transactional_id.clone(), change: Change::Retired(retired) };
        Decision {
            notes: self.retired.map(note).into_iter().collect(),
            records: vec![Record::registered(transactional_id, self.transaction)],
            took_producer_id: self.took_producer_id,
            ..reply
        }
    }
}
