//! ListTransactions (key 66), versions 0 and 1: transactional ids, by state, producer id and age.
//!
//! - 1: those that have been open for so long. (2, a pattern for ids, is not served.)

use std::collections::BTreeSet;

use atonce_coordinator::transaction::{ListFilter, StateName};
use atonce_kernel::ProducerId;
use atonce_protocol::ApiKey;
use atonce_protocol::messages::list_transactions_request::ListTransactionsRequest;
use atonce_protocol::messages::list_transactions_response::{ListTransactionsResponse, TransactionState};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::ListTransactions, versions: 0..=1, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, _call: &Call, request: ListTransactionsRequest, reply: Reply<ListTransactionsResponse>) {
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
        .map(|transaction| TransactionState {
            transactional_id: transaction.transactional_id.into(),
            producer_id: transaction.producer_id.0,
            transaction_state: transaction.state.as_str().to_owned(),
            ..Default::default()
        })
        .collect();
    engine.answer(reply, ListTransactionsResponse { unknown_state_filters, transaction_states, ..Default::default() });
}
