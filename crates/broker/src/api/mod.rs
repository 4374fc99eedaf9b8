//! One file per API key. Each opens with its key, the versions served, what it does and what each version added, and
//! holds one constant, `API`, which [`SERVED`] lists: what is advertised is what is served, from the same table.
//!
//! A handler is either *on the engine*, run by the writer thread in the order of arrival, its answer released once all it
//! depends on is durable; or *in place*, run by the connection when its turn comes, from what is durable already.
//!
//! **What it does not know**: how frames are cut and answers ordered ([`crate::connection`]), how commands reach the
//! writer ([`crate::engine`]).

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod api_versions;
mod create_acls;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod elect_leaders;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;
mod txn_offset_commit;
mod update_features;
mod write_txn_markers;

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use atonce_protocol::ApiKey;
use atonce_protocol::frame::{self, RequestHeader};
use atonce_protocol::wire::{EncodeError, Message, Reader, Request};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::connection::{Answer, Peer, PendingAnswer};
use crate::engine::{Engine, Held, Listening};
use crate::shared::{Room, Shared};

/// All that is served, in the order of keys.
pub(crate) const SERVED: &[Api] = &[
    produce::API,
    fetch::API,
    list_offsets::API,
    metadata::API,
    offset_commit::API,
    offset_fetch::API,
    find_coordinator::API,
    join_group::API,
    heartbeat::API,
    leave_group::API,
    sync_group::API,
    describe_groups::API,
    list_groups::API,
    api_versions::API,
    create_topics::API,
    delete_topics::API,
    delete_records::API,
    init_producer_id::API,
    offset_for_leader_epoch::API,
    add_partitions_to_txn::API,
    add_offsets_to_txn::API,
    end_txn::API,
    write_txn_markers::API,
    txn_offset_commit::API,
    describe_acls::API,
    create_acls::API,
    delete_acls::API,
    describe_configs::API,
    alter_configs::API,
    alter_replica_log_dirs::API,
    describe_log_dirs::API,
    create_partitions::API,
    delete_groups::API,
    elect_leaders::API,
    incremental_alter_configs::API,
    alter_partition_reassignments::API,
    list_partition_reassignments::API,
    offset_delete::API,
    describe_quorum::API,
    update_features::API,
    describe_cluster::API,
    describe_producers::API,
    describe_transactions::API,
    list_transactions::API,
    consumer_group_heartbeat::API,
    consumer_group_describe::API,
    list_config_resources::API,
    describe_topic_partitions::API,
];

/// An API that is served.
pub(crate) struct Api {
    /// Its key.
    pub(crate) key: ApiKey,
    /// The versions it answers. (Produce advertises more, see there.)
    pub(crate) versions: RangeInclusive<i16>,
    /// Takes a request in.
    pub(crate) run: fn(Incoming) -> Taken,
}

/// A request that was taken in.
pub(crate) enum Taken {
    /// It goes its way.
    Now(PendingAnswer),
    /// Much is to be done first, on another thread than the runtime's. The next request of its connection waits for that, since
    /// requests reach the writer in the order in which they came.
    Aside(Pin<Box<dyn Future<Output = PendingAnswer> + Send>>),
}

/// What a handler may know of the request besides its body.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: Option<String>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) shared: Arc<Shared>,
}

/// A request that is about to be decoded.
pub(crate) struct Incoming {
    pub(crate) call: Call,
    pub(crate) body: Reader,
    pub(crate) permit: Room,
}

/// Handles a request that a coordinator may hold.
pub(crate) type Holding<R> = fn(&mut Engine, &Call, R, Reply<<R as Request>::Response>, &Held);

/// Where an answer goes. Dropped without one, it closes the connection.
#[derive(Debug)]
pub(crate) struct Reply<R>(oneshot::Sender<Option<R>>);

impl<R> Reply<R> {
    /// Sends `response`; `None` says that none is expected. Whoever asked may be gone, which is all the same to us.
    pub(crate) fn send(self, response: Option<R>) {
        let _ = self.0.send(response);
    }
}

/// Whether there is an API of this key.
pub(crate) fn is_served(key: i16) -> bool {
    SERVED.iter().any(|api| api.key as i16 == key)
}

/// Takes in one frame. Never fails: what makes no sense becomes an answer that closes the connection.
pub(crate) fn dispatch(shared: &Arc<Shared>, peer: &Arc<Peer>, frame: Bytes, permit: Room) -> Taken {
    let mut body = Reader::new(frame);
    // What follows these eight bytes depends on the version; a version from the future may have moved it.
    if let Some(correlation_id) = api_versions::asks_in_a_version_to_come(&body.rest()) {
        return Taken::Now(api_versions::of_a_version_to_come(correlation_id));
    }
    let header = match frame::decode_request_header(&mut body) {
        Ok(header) => header,
        Err(error) => return Taken::Now(close(format!("a request header that cannot be read: {error}"))),
    };
    let RequestHeader { api_key, api_version, correlation_id, client_id, .. } = header;
    let Some(api) = SERVED.iter().find(|api| api.key as i16 == api_key) else {
        return Taken::Now(close(format!("API key {api_key} is not served")));
    };
    let call = Call {
        key: api.key,
        version: api_version,
        correlation_id,
        client_id,
        peer: Arc::clone(peer),
        shared: Arc::clone(shared),
    };
    if !api.versions.contains(&api_version) {
        return Taken::Now(match api.key {
            ApiKey::Produce if (0..3).contains(&api_version) => produce::of_a_version_gone(&call, body),
            key => close(format!("version {api_version} of {key:?} is not served")),
        });
    }
    (api.run)(Incoming { call, body, permit })
}

impl Incoming {
    /// Has the writer thread handle the request, in its turn.
    pub(crate) fn on_engine<R>(self, handle: fn(&mut Engine, &Call, R, Reply<R::Response>)) -> Taken
    where
        R: Request + Send + 'static,
        R::Response: Send + 'static,
    {
        self.on_engine_prepared(|_, request| request, handle)
    }

    /// Has the writer thread handle the request, once all before it on this connection have been answered: for those whose
    /// answers may be large, so that a connection that reads none of them holds one, and not a hundred.
    pub(crate) fn on_engine_in_turn<R>(mut self, handle: fn(&mut Engine, &Call, R, Reply<R::Response>)) -> Taken
    where
        R: Request + Send + 'static,
        R::Response: Send + 'static,
    {
        match R::decode(&mut self.body, self.call.version) {
            Ok(request) => {
                // The writer may not hear of it for long.
                drop(std::mem::take(&mut self.permit));
                Taken::Now(Box::pin(async move { self.prepared_on_engine::<R, R>(request, handle).await }))
            }
            Err(error) => Taken::Now(undecodable(&self.call, &error)),
        }
    }

    /// Has the writer thread handle a request that a coordinator may hold: it hears of it if the connection ends meanwhile.
    pub(crate) fn on_engine_held<R>(mut self, handle: Holding<R>) -> Taken
    where
        R: Request + Send + 'static,
        R::Response: Send + 'static,
    {
        let request = match R::decode(&mut self.body, self.call.version) {
            Ok(request) => request,
            Err(error) => return Taken::Now(undecodable(&self.call, &error)),
        };
        let held = Held::default();
        let listening = Listening::new(self.call.shared.engine.clone(), held.clone());
        let pending =
            self.prepared_on_engine::<R, _>((request, held, handle), |engine, call, (request, held, handle), reply| {
                handle(engine, call, request, reply, &held);
            });
        Taken::Now(Box::pin(async move {
            let answer = pending.await;
            listening.answered();
            answer
        }))
    }

    /// Has the writer thread handle what `prepare`, on this task, has made of the request.
    pub(crate) fn on_engine_prepared<R, P>(
        mut self,
        prepare: fn(&Call, R) -> P,
        handle: fn(&mut Engine, &Call, P, Reply<R::Response>),
    ) -> Taken
    where
        R: Request + Send + 'static,
        R::Response: Send + 'static,
        P: Send + 'static,
    {
        let request = match R::decode(&mut self.body, self.call.version) {
            Ok(request) => request,
            Err(error) => return Taken::Now(undecodable(&self.call, &error)),
        };
        let prepared = prepare(&self.call, request);
        Taken::Now(self.prepared_on_engine::<R, P>(prepared, handle))
    }

    /// Has the writer thread handle what was made of the request.
    pub(crate) fn prepared_on_engine<R, P>(
        self,
        prepared: P,
        handle: fn(&mut Engine, &Call, P, Reply<R::Response>),
    ) -> PendingAnswer
    where
        R: Request + Send + 'static,
        R::Response: Send + 'static,
        P: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let Self { call, permit, .. } = self;
        let answering = call.clone();
        let engine = call.shared.engine.clone();
        engine.submit(Box::new(move |engine| {
            handle(engine, &call, prepared, Reply(sender));
            drop(permit);
        }));
        Box::pin(async move {
            match receiver.await {
                Ok(Some(response)) => answer(&answering, &response),
                Ok(None) => Answer::Nothing,
                Err(_) => {
                    Answer::Close("it was refused and wanted no answer, or the broker stopped before it".to_owned())
                }
            }
        })
    }

    /// Handles the request here, once all before it on this connection have been answered.
    pub(crate) fn in_place<R, H, F>(mut self, handle: H) -> Taken
    where
        R: Request + Send + 'static,
        H: FnOnce(Call, R) -> F + Send + 'static,
        F: Future<Output = R::Response> + Send + 'static,
    {
        let request = match R::decode(&mut self.body, self.call.version) {
            Ok(request) => request,
            Err(error) => return Taken::Now(undecodable(&self.call, &error)),
        };
        let Self { call, permit, .. } = self;
        // Nothing of this goes to the writer, and it may wait for long.
        drop(permit);
        Taken::Now(Box::pin(async move {
            let answering = call.clone();
            let response = handle(call, request).await;
            answer(&answering, &response)
        }))
    }
}

impl Call {
    /// Runs `work` on the writer thread and waits until what it did is durable. `None`: the broker is stopping.
    pub(crate) async fn on_engine<T, W>(&self, work: W) -> Option<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut Engine) -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.shared.engine.submit(Box::new(move |engine| {
            let result = work(engine);
            engine.release(move || {
                let _ = sender.send(result);
            });
        }));
        receiver.await.ok()
    }
}

/// Leaves each thing that is asked for once. A few bytes that name a thing again and again must not be answered with its
/// whole description each time.
fn without_repetition<T, K: Ord>(asked: &mut Vec<T>, name: impl Fn(&T) -> K) {
    let mut seen = std::collections::BTreeSet::new();
    asked.retain(|thing| seen.insert(name(thing)));
}

/// How often one request may name what it has named before, and be told of it again, as Kafka tells. (The bound is ours.)
const REPEATED_MAX: usize = 100;

/// Of what one request asks for again and again, the first hundred repetitions.
struct FewRepetitions<K> {
    seen: std::collections::BTreeSet<K>,
    repeated: usize,
}

impl<K> Default for FewRepetitions<K> {
    fn default() -> Self {
        Self { seen: std::collections::BTreeSet::new(), repeated: 0 }
    }
}

impl<K: Ord> FewRepetitions<K> {
    /// Whether what is asked for next is answered.
    fn lets_in(&mut self, name: K) -> bool {
        let is_new = self.seen.insert(name);
        self.repeated += usize::from(!is_new);
        is_new || self.repeated <= REPEATED_MAX
    }
}

/// Leaves [few repetitions](FewRepetitions).
fn with_few_repetitions<T, K: Ord>(asked: &mut Vec<T>, name: impl Fn(&T) -> K) {
    let mut few = FewRepetitions::default();
    asked.retain(|thing| few.lets_in(name(thing)));
}

/// What is named more than once: each of it is refused once, whatever stands in either.
fn named_twice<K: Ord + Clone>(names: impl Iterator<Item = K>) -> std::collections::BTreeSet<K> {
    let mut seen = std::collections::BTreeSet::new();
    names.filter(|name| !seen.insert(name.clone())).collect()
}

/// An answer, encoded, its errors counted.
pub(crate) fn answer<M: Message>(call: &Call, response: &M) -> Answer {
    response.error_codes(&mut |code| call.shared.metrics.refused(call.key, code));
    encode(call.key, call.version, call.correlation_id, response)
}

fn encode<M: Message>(key: ApiKey, version: i16, correlation_id: i32, response: &M) -> Answer {
    match frame::encode_response(key, version, correlation_id, response) {
        Ok(bytes) => Answer::Frame(bytes),
        Err(error) => not_encoded(key, version, &error),
    }
}

/// Ours to mend: a field was set that this version does not carry.
fn not_encoded(key: ApiKey, version: i16, error: &EncodeError) -> Answer {
    tracing::error!(?key, version, %error, "an answer could not be encoded");
    Answer::Close(format!("an answer could not be encoded: {error}"))
}

fn undecodable(call: &Call, error: &impl std::fmt::Display) -> PendingAnswer {
    close(format!("{:?} version {} cannot be decoded: {error}", call.key, call.version))
}

fn close(reason: String) -> PendingAnswer {
    Box::pin(std::future::ready(Answer::Close(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_repetitions_a_hundred_are_left_and_of_others_all() {
        let mut asked: Vec<u32> = (0..500).chain(std::iter::repeat_n(7, 500)).chain(500..501).collect();
        with_few_repetitions(&mut asked, u32::clone);
        assert_eq!((asked.len(), asked.last()), (601, Some(&500)));
        assert_eq!(asked.iter().filter(|it| **it == 7).count(), 101);
    }

    #[test]
    fn apis_stand_in_the_order_of_their_keys_once_each() {
        assert!(SERVED.is_sorted_by(|a, b| (a.key as i16) < (b.key as i16)));
    }
}
