//! AddPartitionsToTxn (key 24), versions 0 to 5: partitions join a transaction, all of a request or none.
//!
//! - 1: none. 2: PRODUCER_FENCED. 3: flexible. 4: several transactions at once, and the question whether partitions are in
//!   one already; brokers ask so, and some clients. 5: TRANSACTION_ABORTABLE.

use atonce_coordinator::transaction::{AddPartitions, Admission, Caller, Command, Reply as Decided, VerifyPartitions};
use atonce_kernel::{ProducerIdentity, TopicPartition, TransactionalId};
use atonce_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use atonce_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::AddPartitionsToTxn, versions: 0..=5, run: |incoming| incoming.on_engine(handle) };

/// The first version of brokers, which may add what is internal; a client may not.
const FIRST_OF_BROKERS: i16 = 4;

fn handle(
    engine: &mut Engine,
    call: &Call,
    request: AddPartitionsToTxnRequest,
    reply: Reply<AddPartitionsToTxnResponse>,
) {
    let response = if call.version >= FIRST_OF_BROKERS {
        let results_by_transaction = request
            .transactions
            .into_iter()
            .map(|transaction| AddPartitionsToTxnResult {
                topic_results: run(engine, call.version, &transaction),
                transactional_id: transaction.transactional_id,
                ..Default::default()
            })
            .collect();
        AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() }
    } else {
        let transaction = AddPartitionsToTxnTransaction {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            topics: request.v3_and_below_topics,
            ..Default::default()
        };
        let results_by_topic_v3_and_below = run(engine, call.version, &transaction);
        AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() }
    };
    engine.answer(reply, response);
}

fn run(
    engine: &mut Engine,
    version: i16,
    request: &AddPartitionsToTxnTransaction,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let caller = Caller::AddPartitionsToTxn { version };
    let transactional_id = TransactionalId::from(request.transactional_id.as_str());
    let producer = ProducerIdentity::new(request.producer_id, request.producer_epoch);
    let partitions: Vec<TopicPartition> = partitions_of(&request.topics).collect();
    if request.verify_only
        && let Some(codes) = unknown_among(engine, &partitions)
    {
        return results(&request.topics, codes);
    }
    let command = if request.verify_only {
        Command::VerifyPartitions(VerifyPartitions {
            caller,
            transactional_id: transactional_id.clone(),
            producer,
            partitions: partitions.clone(),
        })
    } else {
        let partitions = partitions
            .iter()
            .map(|partition| {
                let admission = if version < FIRST_OF_BROKERS && topic_name::is_internal(partition.topic.as_str()) {
                    Admission::Unauthorized
                } else if engine.has_partition(partition.topic.as_str(), partition.partition) {
                    Admission::Exists
                } else {
                    Admission::Unknown
                };
                (partition.clone(), admission)
            })
            .collect();
        Command::AddPartitions(AddPartitions {
            caller,
            transactional_id: transactional_id.clone(),
            producer,
            partitions,
        })
    };
    let codes: Vec<ErrorCode> = match engine.transactions_now(&transactional_id, &command) {
        Ok(Decided::Partitions(verdicts)) => verdicts.into_iter().map(|(_, code)| code).collect(),
        Ok(Decided::InitProducerId(_) | Decided::EndTxn(_)) => vec![ErrorCode::UnknownServerError; partitions.len()],
        Err(code) => vec![code; partitions.len()],
    };
    results(&request.topics, codes)
}

/// One partition that is unknown leaves the others unasked. Nothing if all are there.
fn unknown_among(engine: &mut Engine, partitions: &[TopicPartition]) -> Option<Vec<ErrorCode>> {
    let is_there = |it: &TopicPartition| engine.has_partition(it.topic.as_str(), it.partition);
    let there: Vec<bool> = partitions.iter().map(is_there).collect();
    if there.iter().all(|is_there| *is_there) {
        return None;
    }
    let code = |is_there| if is_there { ErrorCode::OperationNotAttempted } else { ErrorCode::UnknownTopicOrPartition };
    Some(there.into_iter().map(code).collect())
}

/// A verdict for each partition, in the order of the question.
fn results(topics: &[AddPartitionsToTxnTopic], codes: Vec<ErrorCode>) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut codes = codes.into_iter();
    topics
        .iter()
        .map(|topic| AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic
                .partitions
                .iter()
                .map(|partition| AddPartitionsToTxnPartitionResult {
                    partition_index: *partition,
                    partition_error_code: codes.next().unwrap_or(ErrorCode::UnknownServerError).to_i16(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect()
}

fn partitions_of(topics: &[AddPartitionsToTxnTopic]) -> impl Iterator<Item = TopicPartition> {
    topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| TopicPartition::new(topic.name.as_str(), *partition)))
}
