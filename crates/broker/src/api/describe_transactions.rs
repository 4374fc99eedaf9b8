//! DescribeTransactions (key 65), version 0: where transactional ids stand.

use std::collections::BTreeMap;

use atonce_kernel::TransactionalId;
use atonce_protocol::messages::describe_transactions_request::DescribeTransactionsRequest;
use atonce_protocol::messages::describe_transactions_response::{
    DescribeTransactionsResponse, TopicData, TransactionState,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::DescribeTransactions, versions: 0..=0, run: |incoming| incoming.on_engine_in_turn(handle) };

fn handle(
    engine: &mut Engine,
    _call: &Call,
    mut request: DescribeTransactionsRequest,
    reply: Reply<DescribeTransactionsResponse>,
) {
    super::with_few_repetitions(&mut request.transactional_ids, String::clone);
    let transaction_states = request.transactional_ids.into_iter().map(|id| describe(engine, id)).collect();
    engine.answer(reply, DescribeTransactionsResponse { transaction_states, ..Default::default() });
}

fn describe(engine: &Engine, id: String) -> TransactionState {
    let transactional_id = TransactionalId::from(&id);
    let described = match engine.transaction_shard(&transactional_id) {
        Some(shard) => shard.describe(&transactional_id),
        None => Err(ErrorCode::NotCoordinator),
    };
    match described {
        Err(code) => TransactionState { error_code: code.to_i16(), transactional_id: id, ..Default::default() },
        Ok(description) => {
            let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
            for partition in &description.partitions {
                topics.entry(partition.topic.as_str()).or_default().push(partition.partition);
            }
            TransactionState {
                error_code: ErrorCode::None.to_i16(),
                transactional_id: id,
                transaction_state: description.state.as_str().to_owned(),
                transaction_timeout_ms: description.timeout_ms,
                transaction_start_time_ms: description.since.0,
                producer_id: description.producer.id.0,
                producer_epoch: description.producer.epoch.0,
                topics: topics
                    .into_iter()
                    .map(|(topic, partitions)| TopicData { topic: topic.to_owned(), partitions, ..Default::default() })
                    .collect(),
                ..Default::default()
            }
        }
    }
}
