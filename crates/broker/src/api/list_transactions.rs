//! ListTransactions (key 66), versions 0 to 2: transactional ids, by state, producer id, age and name.
//!
//! - 1: those that have been open for so long. 2: a pattern that the whole name matches (KIP-1152).

use std::collections::BTreeSet;

use atonce_coordinator::transaction::{ListFilter, StateName};
use atonce_kernel::ProducerId;
use atonce_protocol::messages::list_transactions_request::ListTransactionsRequest;
use atonce_protocol::messages::list_transactions_response::{ListTransactionsResponse, TransactionState};
use atonce_protocol::{ApiKey, ErrorCode};
use regex::{Regex, RegexBuilder};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api = Api {
    key: ApiKey::ListTransactions,
    versions: 0..=2,
    run: |incoming| incoming.on_engine_prepared(prepare, handle),
};

/// Memory that a pattern may take once it is compiled: a few bytes like `((a{999}){999}){999}` ask for gigabytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// A question whose pattern was compiled, on the connection's task.
struct Prepared {
    request: ListTransactionsRequest,
    pattern: Result<Option<Regex>, regex::Error>,
}

fn prepare(_call: &Call, request: ListTransactionsRequest) -> Prepared {
    let pattern = request.transactional_id_pattern.as_deref().filter(|pattern| !pattern.is_empty());
    let build = |pattern: &str| RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
    // Alone first: `a)(b` is none, and would be one between our own brackets.
    let compile = |pattern: &str| build(pattern).and_then(|_| build(&format!("^(?:{pattern})$")));
    Prepared { pattern: pattern.map(compile).transpose(), request }
}

fn handle(engine: &mut Engine, _call: &Call, asked: Prepared, reply: Reply<ListTransactionsResponse>) {
    let Prepared { request, pattern } = asked;
    let Ok(pattern) = pattern else {
        let error_code = ErrorCode::InvalidRegularExpression.to_i16();
        return engine.answer(reply, ListTransactionsResponse { error_code, ..Default::default() });
    };
    let (mut states, mut unknown_state_filters) = (BTreeSet::new(), Vec::new());
    let asks_for_states = !request.state_filters.is_empty();
    for name in request.state_filters {
        match StateName::from_name(&name) {
            Some(state) => {
                states.insert(state);
            }
            None => unknown_state_filters.push(name),
        }
    }
    // Asked only for states that there are not: nothing, and not everything.
    let listed = if asks_for_states && states.is_empty() {
        Vec::new()
    } else {
        engine.list_transactions(&ListFilter {
            states,
            producer_ids: request.producer_id_filters.into_iter().map(ProducerId).collect(),
            duration_ms: request.duration_filter,
        })
    };
    let transaction_states = listed
        .into_iter()
        .filter(|transaction| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(transaction.transactional_id.as_str()))
        })
        .map(|transaction| TransactionState {
            transactional_id: transaction.transactional_id.into(),
            producer_id: transaction.producer_id.0,
            transaction_state: transaction.state.as_str().to_owned(),
            ..Default::default()
        })
        .collect();
    engine.answer(reply, ListTransactionsResponse { unknown_state_filters, transaction_states, ..Default::default() });
}
