//! One loop for all of the administrator's calls: items in, what became of each out.
//!
//! Each item has a [`Route`]. Those that one broker answers for go in one request, all brokers are asked side by side, and what
//! may be asked again is asked again, of whoever answers for it then, until the time is up. A broker that is down holds nobody
//! else's items up.
//!
//! **What it does not know**: any request. A call says how to make its request from items, and how to read the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use atonce_client_core::classify::{Operation, Verdict};
use atonce_client_core::error::Refusal;
use atonce_client_core::metadata::Broker;
use atonce_kernel::{TopicName, TopicPartition};
use atonce_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use atonce_protocol::{ErrorCode, Request};
use tokio::time::Instant;

use super::PerItem;
use crate::cluster::{Cluster, CoordinatorOf, Lane};
use crate::error::AdminError;
use crate::link::Lost;

/// How long to wait before a call is repeated.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// How long a topic that the metadata does not show may be one that was just made: the brokers hear of it one after the other.
const NEW_TOPIC_GRACE: Duration = Duration::from_secs(1);

/// Who answers for an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// Whichever broker can be reached.
    Any,
    /// The controller, or who passes the wish on to it.
    Controller,
    /// This broker.
    Node(i32),
    /// The leader of a partition.
    Leader(TopicPartition),
    /// The coordinator of a group or of a transactional id.
    Coordinator(CoordinatorOf),
}

/// What a broker says of an item.
pub(super) type Answer<V> = Result<V, (ErrorCode, Option<String>)>;

/// An item's answer, if its code says that it is well.
pub(super) fn answer<V>(code: i16, message: Option<String>, value: V) -> Answer<V> {
    match ErrorCode::from_wire(code) {
        ErrorCode::None => Ok(value),
        code => Err((code, message)),
    }
}

/// What the one broker that was asked says.
pub(super) fn of_node<V>(nodes: &[i32], answer: Answer<V>) -> Vec<(i32, Answer<V>)> {
    nodes.first().map(|node| (*node, answer)).into_iter().collect()
}

/// The whole cluster, where a call has no items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Whole(pub(super) &'static str);

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A call: of which cluster, what, and how long it may take.
#[derive(Clone, Copy)]
pub(super) struct Call<'call> {
    pub(super) cluster: &'call Cluster,
    pub(super) lane: Lane,
    /// Kafka's name of the request, for errors.
    pub(super) name: &'static str,
    /// By which row of the table of classes refusals are judged.
    pub(super) operation: Operation,
    pub(super) timeout: Duration,
}

/// Why an item has no answer yet.
enum Trouble {
    Refused { code: ErrorCode, message: Option<String>, operation: Operation },
    Lost(Lost),
    Unsupported,
    OutOfTime,
}

impl From<Lost> for Trouble {
    fn from(lost: Lost) -> Self {
        if lost.is_unsupported { Self::Unsupported } else { Self::Lost(lost) }
    }
}

/// What was learnt of items in one round: those that were asked together share their trouble.
type Heard<K, V> = Vec<(K, Result<Answer<V>, Trouble>)>;

impl Call<'_> {
    /// Does it for all items: an entry for each. It fails as a whole only where no broker said anything of any item.
    pub(super) async fn per_item<K, V, R>(
        self,
        items: impl IntoIterator<Item = K>,
        route: impl Fn(&K) -> Route + Send + Sync,
        versions: RangeInclusive<i16>,
        make: impl Fn(i16, &[K]) -> R + Send + Sync,
        read: impl Fn(R::Response, i16, &[K]) -> Vec<(K, Answer<V>)> + Send + Sync,
    ) -> Result<PerItem<K, V>, AdminError>
    where
        K: Ord + Clone + fmt::Display + Send + Sync,
        V: Send,
        R: Request + Send,
        R::Response: Send,
    {
        let started = Instant::now();
        let deadline = started + self.timeout;
        let mut left: BTreeSet<K> = items.into_iter().collect();
        let mut sent: BTreeSet<K> = BTreeSet::new();
        let mut results = PerItem::new();
        while !left.is_empty() {
            let (places, mut heard) = self.places(&left, &route, deadline).await;
            let asks = places.into_iter().map(|(node, keys)| {
                let (make, read, versions) = (&make, &read, versions.clone());
                boxed(async move {
                    let asked = self.ask(node, versions, |version| make(version, &keys));
                    match tokio::time::timeout_at(deadline, asked).await {
                        Ok(Ok((response, version))) => {
                            let answered = read(response, version, &keys);
                            answers(keys, answered)
                        }
                        Ok(Err(trouble)) => troubled(keys, &trouble),
                        Err(_) => troubled(keys, &Trouble::OutOfTime),
                    }
                })
            });
            heard.extend(join_all(asks.collect()).await.into_iter().flatten());

            let mut causes = BTreeMap::new();
            let mut stale: Vec<Route> = Vec::new();
            for (key, outcome) in heard {
                match outcome {
                    Ok(Ok(value)) => drop(results.insert(key, Ok(value))),
                    Ok(Err((code, message))) => {
                        let refused = Trouble::Refused { code, message, operation: self.operation };
                        self.settle(key, refused, started, &route, &mut results, &mut causes, &mut stale);
                    }
                    Err(trouble) => {
                        if matches!(&trouble, Trouble::Lost(Lost { was_sent: true, .. }) | Trouble::OutOfTime) {
                            sent.insert(key.clone());
                        }
                        self.settle(key, trouble, started, &route, &mut results, &mut causes, &mut stale);
                    }
                }
            }
            left.retain(|key| !results.contains_key(key));
            if left.is_empty() {
                break;
            }
            if Instant::now() + RETRY_BACKOFF >= deadline {
                for key in std::mem::take(&mut left) {
                    let may_have_taken_effect = sent.contains(&key);
                    let error = match causes.remove(&key) {
                        Some(AdminError::TimedOut { cause, .. }) => self.timed_out(cause, may_have_taken_effect),
                        Some(error) => error,
                        None => self.timed_out("no answer".to_owned(), may_have_taken_effect),
                    };
                    results.insert(key, Err(error));
                }
                break;
            }
            self.look_again(stale, deadline).await;
            tokio::time::sleep(RETRY_BACKOFF).await;
        }
        or_whole(results)
    }

    /// Does it for one item.
    pub(super) async fn one<K, V, R>(
        self,
        item: K,
        route: Route,
        versions: RangeInclusive<i16>,
        make: impl Fn(i16) -> R + Send + Sync,
        read: impl Fn(R::Response, i16) -> Answer<V> + Send + Sync,
    ) -> Result<V, AdminError>
    where
        K: Ord + Clone + fmt::Display + Send + Sync,
        V: Send,
        R: Request + Send,
        R::Response: Send,
    {
        let only = item.clone();
        let results = self
            .per_item(
                [item],
                |_| route.clone(),
                versions,
                |version, _| make(version),
                |response, version, _| vec![(only.clone(), read(response, version))],
            )
            .await?;
        results.into_values().next().unwrap_or_else(|| Err(self.timed_out("no answer".to_owned(), false)))
    }

    /// What a trouble means for an item: its result, or that it is asked for again.
    #[expect(clippy::too_many_arguments, reason = "the books of one call, which `per_item` keeps")]
    fn settle<K: Ord + Clone + fmt::Display, V>(
        self,
        key: K,
        trouble: Trouble,
        started: Instant,
        route: &impl Fn(&K) -> Route,
        results: &mut PerItem<K, V>,
        causes: &mut BTreeMap<K, AdminError>,
        stale: &mut Vec<Route>,
    ) {
        let (error, again) = match trouble {
            Trouble::Refused { code, message, operation } => {
                let refusal = Refusal::with_message(operation, code, message);
                let place = route(&key);
                let may_be_new = matches!(place, Route::Leader(_))
                    && matches!(code, ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)
                    && started.elapsed() < NEW_TOPIC_GRACE;
                let again = match refusal.verdict() {
                    Verdict::Retry => true,
                    Verdict::RefreshThenRetry => {
                        stale.push(place);
                        true
                    }
                    Verdict::Done | Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => {
                        if may_be_new {
                            stale.push(place);
                        }
                        may_be_new
                    }
                };
                (AdminError::Refused { subject: key.to_string(), refusal }, again)
            }
            Trouble::Lost(lost) => {
                stale.push(route(&key));
                (self.timed_out(lost.cause, lost.was_sent), true)
            }
            Trouble::Unsupported => (AdminError::Unsupported { operation: self.name }, false),
            Trouble::OutOfTime => (self.timed_out("no answer".to_owned(), true), true),
        };
        if again {
            causes.insert(key, error);
        } else {
            results.insert(key, Err(error));
        }
    }

    fn timed_out(self, cause: String, may_have_taken_effect: bool) -> AdminError {
        AdminError::TimedOut { operation: self.name, waited: self.timeout, cause, may_have_taken_effect }
    }

    /// Items by the node that answers for them (`None`: any); and those of which it is not known who does.
    async fn places<K: Ord + Clone, V>(
        self,
        items: &BTreeSet<K>,
        route: &(impl Fn(&K) -> Route + Sync),
        deadline: Instant,
    ) -> (BTreeMap<Option<i32>, Vec<K>>, Heard<K, V>) {
        let routes: Vec<(K, Route)> = items.iter().map(|key| (key.clone(), route(key))).collect();
        let mut topics: Vec<TopicName> = Vec::new();
        let mut wanted: Vec<CoordinatorOf> = Vec::new();
        for (_, route) in &routes {
            match route {
                Route::Leader(it) => topics.push(it.topic.clone()),
                Route::Coordinator(of) => wanted.push(of.clone()),
                Route::Any | Route::Controller | Route::Node(_) => {}
            }
        }
        topics.dedup();
        wanted.dedup();
        // What cannot be looked up now is seen below, as a leader or a coordinator that is not known.
        let lookup = async {
            let unknown = if topics.is_empty() { Ok(()) } else { self.cluster.ensure_topics(&topics).await };
            (unknown, self.find_coordinators(&wanted).await)
        };
        let (topics_known, coordinators) = match tokio::time::timeout_at(deadline, lookup).await {
            Ok(found) => found,
            Err(_) => (Err(Lost::unsent("no answer")), BTreeMap::new()),
        };
        let mut places: BTreeMap<Option<i32>, Vec<K>> = BTreeMap::new();
        let mut heard = Vec::new();
        for (key, route) in routes {
            let place = match route {
                Route::Any => Ok(None),
                Route::Controller => Ok(controller(self.cluster)),
                Route::Node(node) => Ok(Some(node)),
                Route::Leader(it) => match (self.leader(&it), &topics_known) {
                    (Ok(node), _) => Ok(Some(node)),
                    (Err(_), Err(lost)) => Err(Trouble::Lost(lost.clone())),
                    (Err(trouble), Ok(())) => Err(trouble),
                },
                Route::Coordinator(of) => match coordinators.get(&of) {
                    Some(Ok(node)) => Ok(Some(*node)),
                    Some(Err(trouble)) => Err(trouble.again()),
                    None => Err(Trouble::Lost(Lost::unsent("the broker names no coordinator"))),
                },
            };
            match place {
                Ok(place) => places.entry(place).or_default().push(key),
                Err(trouble) => heard.push((key, Err(trouble))),
            }
        }
        (places, heard)
    }

    fn leader(self, topic_partition: &TopicPartition) -> Result<i32, Trouble> {
        self.cluster.with_metadata(|metadata| {
            if let Some(leader) = metadata.leader(topic_partition) {
                return Ok(leader.node);
            }
            let code = match metadata.partition_count(&topic_partition.topic) {
                Some(count) if topic_partition.partition >= count || topic_partition.partition < 0 => {
                    ErrorCode::UnknownTopicOrPartition
                }
                Some(_) => ErrorCode::LeaderNotAvailable,
                None => metadata.refusal(&topic_partition.topic).unwrap_or(ErrorCode::LeaderNotAvailable),
            };
            Err(Trouble::Refused { code, message: None, operation: self.operation })
        })
    }

    /// The coordinators of all of these; those that are not known are asked for together, if the broker can.
    async fn find_coordinators(self, wanted: &[CoordinatorOf]) -> BTreeMap<CoordinatorOf, Result<i32, Trouble>> {
        let mut found = BTreeMap::new();
        let mut unknown: BTreeMap<i8, Vec<CoordinatorOf>> = BTreeMap::new();
        for of in wanted {
            match self.cluster.known_coordinator(of) {
                Some(node) => drop(found.insert(of.clone(), Ok(node))),
                None => unknown.entry(of.parts().0).or_default().push(of.clone()),
            }
        }
        for (key_type, all) in unknown {
            // Before version 4 a request names one.
            let one_by_one = self.ask_coordinators(key_type, &all, 4..=6, &mut found).await;
            if !one_by_one {
                continue;
            }
            for one in all.chunks(1) {
                if self.ask_coordinators(key_type, one, 1..=3, &mut found).await {
                    found.extend(one.iter().map(|of| (of.clone(), Err(Trouble::Unsupported))));
                }
            }
        }
        found
    }

    /// Whether no version would do.
    async fn ask_coordinators(
        self,
        key_type: i8,
        all: &[CoordinatorOf],
        versions: RangeInclusive<i16>,
        found: &mut BTreeMap<CoordinatorOf, Result<i32, Trouble>>,
    ) -> bool {
        let make = |version| {
            let mut keys: Vec<String> = all.iter().map(|of| of.parts().1.to_owned()).collect();
            if version >= 4 {
                FindCoordinatorRequest { key_type, coordinator_keys: keys, ..Default::default() }
            } else {
                FindCoordinatorRequest { key_type, key: keys.pop().unwrap_or_default(), ..Default::default() }
            }
        };
        let (response, version) = match self.ask(None, versions, make).await {
            Ok(answered) => answered,
            Err(Trouble::Unsupported) => return true,
            Err(trouble) => {
                found.extend(all.iter().map(|of| (of.clone(), Err(trouble.again()))));
                return false;
            }
        };
        let mut answered = response.coordinators;
        if version < 4 {
            let key = all.first().map(|of| of.parts().1.to_owned()).unwrap_or_default();
            answered.push(atonce_protocol::messages::find_coordinator_response::Coordinator {
                key,
                node_id: response.node_id,
                host: response.host,
                port: response.port,
                error_code: response.error_code,
                error_message: response.error_message,
                ..Default::default()
            });
        }
        for it in answered {
            let Some(of) = all.iter().find(|of| of.parts().1 == it.key) else { continue };
            let result = match ErrorCode::from_wire(it.error_code) {
                ErrorCode::None => {
                    let broker = Broker { host: it.host, port: it.port, rack: None };
                    self.cluster.learn_coordinator(of.clone(), it.node_id, broker);
                    Ok(it.node_id)
                }
                code => {
                    Err(Trouble::Refused { code, message: it.error_message, operation: Operation::FindCoordinator })
                }
            };
            found.insert(of.clone(), result);
        }
        false
    }

    async fn ask<R>(
        self,
        node: Option<i32>,
        versions: RangeInclusive<i16>,
        make: impl FnOnce(i16) -> R + Send,
    ) -> Result<(R::Response, i16), Trouble>
    where
        R: Request + Send,
    {
        let link = match node {
            Some(node) => self.cluster.link(node, self.lane).await?,
            None => self.cluster.any_link().await?,
        };
        if link.versions().choose(R::KEY, versions.clone()).is_none() {
            return Err(Trouble::Unsupported);
        }
        let reply = link.ask(versions, self.cluster.request_timeout(), make)?;
        // Not held while waiting: closing the lane ends the link, and the wait.
        drop(link);
        Ok(reply.wait().await?)
    }

    /// Looks up again what was believed and is wrong.
    async fn look_again(self, stale: Vec<Route>, deadline: Instant) {
        let mut topics: BTreeSet<TopicName> = BTreeSet::new();
        let mut is_stale = false;
        for route in stale {
            match route {
                Route::Leader(it) => drop(topics.insert(it.topic)),
                Route::Coordinator(of) => self.cluster.forget_coordinator(&of),
                Route::Any | Route::Controller | Route::Node(_) => {}
            }
            is_stale = true;
        }
        if is_stale {
            let topics: Vec<TopicName> = topics.into_iter().collect();
            // If it fails, the next round sees the same and comes back.
            let _ = tokio::time::timeout_at(deadline, self.cluster.refresh(Some(&topics))).await;
        }
    }
}

impl Trouble {
    /// The same, for another of those who were asked together.
    fn again(&self) -> Self {
        match self {
            Self::Refused { code, message, operation } => {
                Self::Refused { code: *code, message: message.clone(), operation: *operation }
            }
            Self::Lost(lost) => Self::Lost(lost.clone()),
            Self::Unsupported => Self::Unsupported,
            Self::OutOfTime => Self::OutOfTime,
        }
    }
}

/// The node of the controller, if it is a broker that can be asked.
fn controller(cluster: &Cluster) -> Option<i32> {
    cluster.with_metadata(|metadata| metadata.controller().filter(|node| metadata.brokers().contains_key(node)))
}

/// What was answered; an item that was asked for and is not answered has been refused.
fn answers<K: Ord, V>(keys: Vec<K>, answered: Vec<(K, Answer<V>)>) -> Heard<K, V> {
    let mut left: BTreeSet<K> = keys.into_iter().collect();
    let mut heard = Vec::new();
    for (key, answer) in answered {
        if left.remove(&key) {
            heard.push((key, Ok(answer)));
        }
    }
    let silent = || Some("the broker's answer does not speak of it".to_owned());
    heard.extend(left.into_iter().map(|key| (key, Ok(Err((ErrorCode::UnknownServerError, silent()))))));
    heard
}

fn troubled<K, V>(keys: Vec<K>, trouble: &Trouble) -> Heard<K, V> {
    keys.into_iter().map(|key| (key, Err(trouble.again()))).collect()
}

/// The call failed as a whole if no broker said anything of any item.
fn or_whole<K: Ord, V>(mut results: PerItem<K, V>) -> Result<PerItem<K, V>, AdminError> {
    let silent = |result: &Result<V, AdminError>| {
        matches!(result, Err(AdminError::TimedOut { .. } | AdminError::Unsupported { .. } | AdminError::Closed))
    };
    let may_have_taken_effect = results.values().any(|it| matches!(it, Err(error) if error.may_have_taken_effect()));
    if results.values().all(silent)
        && let Some((_, Err(error))) = results.pop_first()
    {
        return Err(match error {
            AdminError::TimedOut { operation, waited, cause, .. } => {
                AdminError::TimedOut { operation, waited, cause, may_have_taken_effect }
            }
            AdminError::Refused { .. } | AdminError::Unsupported { .. } | AdminError::Closed => error,
        });
    }
    Ok(results)
}

type Boxed<'ask, T> = Pin<Box<dyn Future<Output = T> + Send + 'ask>>;

fn boxed<'ask, T>(ask: impl Future<Output = T> + Send + 'ask) -> Boxed<'ask, T> {
    Box::pin(ask)
}

/// Waits for all, side by side: there are as many as brokers.
async fn join_all<T>(mut asks: Vec<Boxed<'_, T>>) -> Vec<T> {
    let mut done = Vec::with_capacity(asks.len());
    poll_fn(move |context| {
        asks.retain_mut(|ask| match ask.as_mut().poll(context) {
            Poll::Ready(value) => {
                done.push(value);
                false
            }
            Poll::Pending => true,
        });
        if asks.is_empty() { Poll::Ready(std::mem::take(&mut done)) } else { Poll::Pending }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> AdminError {
        AdminError::Refused {
            subject: "t".to_owned(),
            refusal: Refusal::new(Operation::Admin, ErrorCode::UnknownTopicOrPartition),
        }
    }

    fn silent(may_have_taken_effect: bool) -> AdminError {
        AdminError::TimedOut {
            operation: "CreateTopics",
            waited: Duration::from_secs(1),
            cause: "no answer".to_owned(),
            may_have_taken_effect,
        }
    }

    #[test]
    fn a_call_fails_as_a_whole_only_where_no_item_was_answered() {
        let silence = PerItem::<_, ()>::from([("a", Err(silent(false))), ("b", Err(silent(true)))]);
        assert_eq!(or_whole(silence), Err(silent(true)), "what may have happened to one may have happened");
        let heard = PerItem::<_, ()>::from([("a", Err(silent(false))), ("b", Err(refused()))]);
        assert_eq!(or_whole(heard.clone()), Ok(heard));
        assert_eq!(or_whole(PerItem::<&str, ()>::new()), Ok(PerItem::new()));
    }

    #[test]
    fn an_item_that_the_answer_leaves_out_is_refused_and_one_nobody_asked_for_is_dropped() {
        let heard = answers(vec!["a", "b"], vec![("a", Ok(1)), ("c", Ok(3))]);
        let shown: Vec<_> = heard
            .into_iter()
            .map(|(key, outcome)| (key, outcome.map_err(|_| "trouble").map(|it| it.map_err(|(code, _)| code))))
            .collect();
        assert_eq!(shown, [("a", Ok(Ok(1))), ("b", Ok(Err(ErrorCode::UnknownServerError)))]);
    }

    #[tokio::test]
    async fn those_who_are_asked_side_by_side_do_not_wait_for_each_other() {
        let (first, wait) = tokio::sync::oneshot::channel::<()>();
        let asks: Vec<Boxed<'_, i32>> = vec![
            boxed(async move {
                wait.await.expect("the second one runs too");
                1
            }),
            boxed(async move {
                first.send(()).expect("the first one waits");
                2
            }),
        ];
        let mut done = join_all(asks).await;
        done.sort_unstable();
        assert_eq!(done, [1, 2]);
    }
}
