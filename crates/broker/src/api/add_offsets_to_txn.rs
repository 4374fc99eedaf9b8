//! AddOffsetsToTxn (key 25), versions 0 to 4: a group's partition of `__consumer_offsets` joins a transaction.
//!
//! - 1: none. 2: PRODUCER_FENCED. 3: flexible. 4: TRANSACTION_ABORTABLE.

use atonce_coordinator::transaction::{AddPartitions, Admission, Caller, Command, Reply as Decided};
use atonce_kernel::{GroupId, ProducerIdentity, TopicPartition, TransactionalId};
use atonce_protocol::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use atonce_protocol::messages::add_offsets_to_txn_response::AddOffsetsToTxnResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;
use crate::topic_name::CONSUMER_OFFSETS;

pub(super) const API: Api =
    Api { key: ApiKey::AddOffsetsToTxn, versions: 0..=4, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: AddOffsetsToTxnRequest, reply: Reply<AddOffsetsToTxnResponse>) {
    let transactional_id = TransactionalId::from(request.transactional_id);
    let partition = engine.group_partition(&GroupId::from(request.group_id));
    let command = Command::AddPartitions(AddPartitions {
        caller: Caller::AddOffsetsToTxn { version: call.version },
        transactional_id: transactional_id.clone(),
        producer: ProducerIdentity::new(request.producer_id, request.producer_epoch),
        // The topic is made when the first offset is sent, if not before.
        partitions: vec![(TopicPartition::new(CONSUMER_OFFSETS, partition), Admission::Exists)],
    });
    let code = match engine.transactions_now(&transactional_id, &command) {
        Ok(Decided::Partitions(verdicts)) => verdicts.first().map_or(ErrorCode::UnknownServerError, |(_, code)| *code),
        Ok(Decided::InitProducerId(_) | Decided::EndTxn(_)) => ErrorCode::UnknownServerError,
        Err(code) => code,
    };
    engine.answer(reply, AddOffsetsToTxnResponse { error_code: code.to_i16(), ..Default::default() });
}
