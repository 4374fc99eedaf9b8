//! EndTxn (key 26), versions 0 to 5: commits or aborts. The answer leaves when markers and offsets are visible everywhere.
//!
//! - 1: none. 2: PRODUCER_FENCED. 3: flexible. 4: TRANSACTION_ABORTABLE.
//! - 5: the end raises the epoch, and the answer names it (KIP-890).

use atonce_coordinator::transaction::{Command, EndTxn, Reply as Decided};
use atonce_kernel::{Outcome, ProducerIdentity, TransactionalId};
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::end_txn_response::EndTxnResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api = Api { key: ApiKey::EndTxn, versions: 0..=5, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: EndTxnRequest, reply: Reply<EndTxnResponse>) {
    let transactional_id = TransactionalId::from(request.transactional_id);
    let command = Command::EndTxn(EndTxn {
        version: call.version,
        transactional_id: transactional_id.clone(),
        producer: ProducerIdentity::new(request.producer_id, request.producer_epoch),
        outcome: if request.committed { Outcome::Commit } else { Outcome::Abort },
    });
    engine.ask_transactions(Some(&transactional_id), &command, move |engine, decided| {
        let response = match decided {
            Ok(Decided::EndTxn(Ok(producer))) => {
                EndTxnResponse { producer_id: producer.id.0, producer_epoch: producer.epoch.0, ..Default::default() }
            }
            Ok(Decided::EndTxn(Err(code))) | Err(code) => refuse(code),
            Ok(Decided::Partitions(_) | Decided::InitProducerId(_)) => refuse(ErrorCode::UnknownServerError),
        };
        engine.answer(reply, response);
    });
}

fn refuse(code: ErrorCode) -> EndTxnResponse {
    EndTxnResponse { error_code: code.to_i16(), ..Default::default() }
}
