//! AddPartitionsToTxn (key 24), versions 0 to 5: partitions join a transaction, all of a request or none.
//!
//! - 1: none. 2: PRODUCER_FENCED. 3: flexible. 4: several transactions at once, and the question whether partitions are in
//!   one already; brokers ask so, and some clients. 5: TRANSACTION_ABORTABLE.

use std::collections::{BTreeMap, BTreeSet};

use atonce_coordinator::transaction::{AddPartitions, Admission, Caller, Command, Reply as Decided, VerifyPartitions};
use atonce_kernel::{ProducerIdentity, TopicName, TopicPartition, TransactionalId};
use atonce_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use atonce_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::directory::Topics;
use crate::engine::Engine;
use crate::topic_name;

pub(super) const API: Api = Api {
    key: ApiKey::AddPartitionsToTxn,
    versions: 0..=5,
    run: |incoming| incoming.on_engine_prepared(prepare, handle),
};

/// The first version of brokers, which may add what is internal; a client may not.
const FIRST_OF_BROKERS: i16 = 4;

/// What a transaction is asked, and how far the writer has to be troubled with it.
enum Asked {
    /// One of the partitions is not there, or not for clients, so none joins.
    Refused(AddPartitionsToTxnResult),
    /// All are there. Each stands here once, so that there are no more than the broker has, however often the request, which may
    /// be as long as a request can be, names them.
    Of(AddPartitionsToTxnTransaction, BTreeSet<TopicPartition>),
}

fn prepare(call: &Call, request: AddPartitionsToTxnRequest) -> Vec<Asked> {
    let transactions = if call.version >= FIRST_OF_BROKERS {
        request.transactions
    } else {
        vec![AddPartitionsToTxnTransaction {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            topics: request.v3_and_below_topics,
            ..Default::default()
        }]
    };
    let directory = call.shared.directory.topics();
    transactions.into_iter().map(|transaction| ask(&directory, call.version, transaction)).collect()
}

fn ask(directory: &Topics, version: i16, transaction: AddPartitionsToTxnTransaction) -> Asked {
    let refusal = |topic: &str, partition: i32| {
        if version < FIRST_OF_BROKERS && topic_name::is_internal(topic) {
            Some(ErrorCode::TopicAuthorizationFailed)
        } else if directory.partition(topic, partition).is_none() {
            Some(ErrorCode::UnknownTopicOrPartition)
        } else {
            None
        }
    };
    let mut partitions = BTreeSet::new();
    for topic in &transaction.topics {
        let distinct: BTreeSet<i32> = topic.partitions.iter().copied().collect();
        if distinct.iter().any(|partition| refusal(&topic.name, *partition).is_some()) {
            let results = results(&transaction.topics, |topic, partition| {
                refusal(topic, partition).unwrap_or(ErrorCode::OperationNotAttempted)
            });
            return Asked::Refused(result(transaction, results));
        }
        let name = TopicName::from(topic.name.as_str());
        partitions.extend(distinct.into_iter().map(|partition| TopicPartition::new(name.clone(), partition)));
    }
    Asked::Of(transaction, partitions)
}

fn handle(engine: &mut Engine, call: &Call, asked: Vec<Asked>, reply: Reply<AddPartitionsToTxnResponse>) {
    let mut results = asked.into_iter().map(|asked| match asked {
        Asked::Refused(result) => result,
        Asked::Of(transaction, partitions) => {
            let results = run(engine, call.version, &transaction, partitions.into_iter().collect());
            result(transaction, results)
        }
    });
    let response = if call.version >= FIRST_OF_BROKERS {
        AddPartitionsToTxnResponse { results_by_transaction: results.collect(), ..Default::default() }
    } else {
        let results_by_topic_v3_and_below = results.next().map(|result| result.topic_results).unwrap_or_default();
        drop(results);
        AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() }
    };
    engine.answer(reply, response);
}

fn result(
    transaction: AddPartitionsToTxnTransaction,
    topic_results: Vec<AddPartitionsToTxnTopicResult>,
) -> AddPartitionsToTxnResult {
    AddPartitionsToTxnResult { topic_results, transactional_id: transaction.transactional_id, ..Default::default() }
}

fn run(
    engine: &mut Engine,
    version: i16,
    request: &AddPartitionsToTxnTransaction,
    partitions: Vec<TopicPartition>,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let caller = Caller::AddPartitionsToTxn { version };
    let transactional_id = TransactionalId::from(request.transactional_id.as_str());
    let producer = ProducerIdentity::new(request.producer_id, request.producer_epoch);
    // A topic may have been deleted since they were looked for.
    let is_there = |engine: &Engine, it: &TopicPartition| engine.has_partition(it.topic.as_str(), it.partition);
    let verdicts = if request.verify_only && partitions.iter().any(|partition| !is_there(engine, partition)) {
        let code = |it: &TopicPartition| {
            if is_there(engine, it) { ErrorCode::OperationNotAttempted } else { ErrorCode::UnknownTopicOrPartition }
        };
        Ok(partitions.iter().map(|partition| (partition.clone(), code(partition))).collect())
    } else {
        let command = if request.verify_only {
            let transactional_id = transactional_id.clone();
            Command::VerifyPartitions(VerifyPartitions { caller, transactional_id, producer, partitions })
        } else {
            let admit = |partition: TopicPartition| {
                let is_there = is_there(engine, &partition);
                (partition, if is_there { Admission::Exists } else { Admission::Unknown })
            };
            let partitions = partitions.into_iter().map(admit).collect();
            let transactional_id = transactional_id.clone();
            Command::AddPartitions(AddPartitions { caller, transactional_id, producer, partitions })
        };
        match engine.transactions_now(&transactional_id, &command) {
            Ok(Decided::Partitions(verdicts)) => Ok(verdicts),
            Ok(Decided::InitProducerId(_) | Decided::EndTxn(_)) => Err(ErrorCode::UnknownServerError),
            Err(code) => Err(code),
        }
    };
    let mut by_topic: BTreeMap<TopicName, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    let refused = verdicts.as_ref().err().copied().unwrap_or(ErrorCode::UnknownServerError);
    for (partition, code) in verdicts.unwrap_or_default() {
        by_topic.entry(partition.topic).or_default().insert(partition.partition, code);
    }
    if request.verify_only {
        return each_once(&request.topics, |topic, partition| {
            by_topic.get(topic).and_then(|codes| codes.get(&partition)).copied().unwrap_or(refused)
        });
    }
    results(&request.topics, |topic, partition| {
        by_topic.get(topic).and_then(|codes| codes.get(&partition)).copied().unwrap_or(refused)
    })
}

/// A verdict for each partition, once, however often it was named: so is the answer to who wants to know, and not to add.
fn each_once(
    topics: &[AddPartitionsToTxnTopic],
    verdict: impl Fn(&str, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut asked: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
    for topic in topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        asked.entry(&topic.name).or_default().extend(&topic.partitions);
    }
    let once = |(name, partitions): (&str, BTreeSet<i32>)| AddPartitionsToTxnTopic {
        name: name.to_owned(),
        partitions: partitions.into_iter().collect(),
        ..Default::default()
    };
    results(&asked.into_iter().map(once).collect::<Vec<_>>(), verdict)
}

/// A verdict for each partition, in the order of the question.
fn results(
    topics: &[AddPartitionsToTxnTopic],
    verdict: impl Fn(&str, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let of_partition = |topic: &str, partition: i32| AddPartitionsToTxnPartitionResult {
        partition_index: partition,
        partition_error_code: verdict(topic, partition).to_i16(),
        ..Default::default()
    };
    topics
        .iter()
        .map(|topic| AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic.partitions.iter().map(|index| of_partition(&topic.name, *index)).collect(),
            ..Default::default()
        })
        .collect()
}
