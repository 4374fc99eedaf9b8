//! InitProducerId (key 22), versions 0 to 5: gives a producer its id and epoch; with a transactional id, fences whoever had it.
//!
//! A transaction that is still open is aborted first, and the answer waits for that.
//!
//! - 1: none. 2: flexible. 3: the id and epoch that the producer has (KIP-360). 4: PRODUCER_FENCED.
//! - 5: TRANSACTION_ABORTABLE. (6, two-phase commit, is not served.)

use atonce_coordinator::transaction::{Command, InitProducerId, Reply as Decided};
use atonce_kernel::{ProducerIdentity, TransactionalId};
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::init_producer_id_response::InitProducerIdResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::{Engine, Held};

pub(super) const API: Api =
    Api { key: ApiKey::InitProducerId, versions: 0..=5, run: |incoming| incoming.on_engine_held(handle) };

fn handle(
    engine: &mut Engine,
    call: &Call,
    request: InitProducerIdRequest,
    reply: Reply<InitProducerIdResponse>,
    held: &Held,
) {
    let transactional_id = request.transactional_id.map(TransactionalId::from);
    let command = Command::InitProducerId(InitProducerId {
        version: call.version,
        transactional_id: transactional_id.clone(),
        transaction_timeout_ms: request.transaction_timeout_ms,
        expected: ProducerIdentity::new(request.producer_id, request.producer_epoch),
        enable_two_phase_commit: false,
        keep_prepared_transaction: false,
    });
    engine.ask_transactions_held(transactional_id.as_ref(), &command, held, move |engine, decided| {
        let response = match decided {
            Ok(Decided::InitProducerId(Ok(producer))) => InitProducerIdResponse {
                producer_id: producer.id.0,
                producer_epoch: producer.epoch.0,
                ..Default::default()
            },
            Ok(Decided::InitProducerId(Err(code))) | Err(code) => refuse(code),
            Ok(Decided::Partitions(_) | Decided::EndTxn(_)) => refuse(ErrorCode::UnknownServerError),
        };
        engine.answer(reply, response);
    });
}

fn refuse(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse { error_code: code.to_i16(), producer_id: -1, producer_epoch: -1, ..Default::default() }
}
