//! Transactions: listing and describing them, finding those that hang, ending those, fencing producers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atonce_kernel::{
    Offset, ProducerEpoch, ProducerId, ProducerIdentity, Timestamp, TopicName, TopicPartition, TransactionalId,
};
use atonce_protocol::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use atonce_protocol::messages::describe_transactions_request::DescribeTransactionsRequest;
use atonce_protocol::messages::describe_transactions_response as described;
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::list_transactions_request::ListTransactionsRequest;
use atonce_protocol::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};

use super::call::{Answer, Route, answer, of_node};
use super::names::names;
use super::{Admin, PerItem, indexes};
use crate::cluster::CoordinatorOf;
use crate::error::AdminError;

names! {
    /// Where a transactional id stands.
    TransactionState {
        /// It has a producer and no transaction yet.
        Empty = "Empty",
        /// A transaction is open.
        Ongoing = "Ongoing",
        /// It is decided: commit; markers are owed.
        PrepareCommit = "PrepareCommit",
        /// It is decided: abort; markers are owed.
        PrepareAbort = "PrepareAbort",
        /// The last transaction is committed.
        CompleteCommit = "CompleteCommit",
        /// The last transaction is aborted.
        CompleteAbort = "CompleteAbort",
        /// It is about to be forgotten.
        Dead = "Dead",
        /// Its transaction is about to be aborted, for its producer is fenced.
        PrepareEpochFence = "PrepareEpochFence",
    }
}

/// Which transactional ids to list.
///
/// ```
/// use atonce_client::admin::{TransactionFilter, TransactionState};
///
/// let filter = TransactionFilter::all().state(TransactionState::Ongoing);
/// assert_eq!(filter.states, [TransactionState::Ongoing]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// Only those in one of these states; any if empty.
    pub states: Vec<TransactionState>,
    /// Only those of one of these producers; any if empty.
    pub producer_ids: Vec<ProducerId>,
    /// Only those whose transaction has been open for longer.
    pub open_for: Option<Duration>,
    /// Only those whose whole transactional id fits this regular expression (RE2/J).
    pub transactional_id_pattern: Option<String>,
}

impl TransactionFilter {
    /// All transactional ids.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Those in this state; given again, those in one of them.
    #[must_use]
    pub fn state(mut self, state: TransactionState) -> Self {
        self.states.push(state);
        self
    }

    /// Those of this producer; given again, those of one of them.
    #[must_use]
    pub fn producer_id(mut self, producer_id: ProducerId) -> Self {
        self.producer_ids.push(producer_id);
        self
    }

    /// Those whose transaction has been open for longer.
    #[must_use]
    pub fn open_for(mut self, time: Duration) -> Self {
        self.open_for = Some(time);
        self
    }

    /// Those whose whole transactional id fits this regular expression.
    #[must_use]
    pub fn transactional_id_pattern(mut self, pattern: impl Into<String>) -> Self {
        self.transactional_id_pattern = Some(pattern.into());
        self
    }
}

/// A transactional id, in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionListing {
    /// The id.
    pub transactional_id: TransactionalId,
    /// Its producer.
    pub producer_id: ProducerId,
    /// Where it stands.
    pub state: TransactionState,
    /// The broker that coordinates it.
    pub coordinator: i32,
}

/// A transactional id, with its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionDescription {
    /// The id.
    pub transactional_id: TransactionalId,
    /// The broker that coordinates it; -1 if that has been lost sight of.
    pub coordinator: i32,
    /// Where it stands.
    pub state: TransactionState,
    /// Its producer.
    pub producer: ProducerIdentity,
    /// After which time an open transaction is aborted.
    pub timeout: Duration,
    /// Since when a transaction is open; `None` if none is.
    pub started: Option<Timestamp>,
    /// The partitions that are part of it.
    pub partitions: Vec<TopicPartition>,
}

/// What a partition's leader keeps of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer, with the epoch of its last batch.
    pub producer: ProducerIdentity,
    /// The last sequence; -1 if only a marker came.
    pub last_sequence: i32,
    /// When it wrote last; `None` if that is not known.
    pub last_timestamp: Option<Timestamp>,
    /// The epoch of the coordinator that wrote its last marker; -1 if none has.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins in this partition; `None` if none is open here.
    pub open_since: Option<Offset>,
}

/// A transaction that is open in a partition, and that no coordinator will end: nobody reads committed past it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangingTransaction {
    /// Where it is open.
    pub topic_partition: TopicPartition,
    /// Whose it is.
    pub producer: ProducerState,
    /// Under which transactional id, if its coordinator still knows the producer.
    pub transactional_id: Option<TransactionalId>,
}

impl HangingTransaction {
    /// What ends it.
    #[must_use]
    pub fn abort(&self) -> AbortTransaction {
        AbortTransaction {
            topic_partition: self.topic_partition.clone(),
            producer: self.producer.producer,
            // A leader that has seen no marker takes any epoch from 0.
            coordinator_epoch: self.producer.coordinator_epoch.max(0),
        }
    }
}

/// A transaction to be aborted in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortTransaction {
    /// Where.
    pub topic_partition: TopicPartition,
    /// Whose, with the epoch that the partition knows.
    pub producer: ProducerIdentity,
    /// Not below the epoch of the coordinator that wrote the producer's last marker.
    pub coordinator_epoch: i32,
}

impl Admin {
    /// The transactional ids of all brokers. It fails if one broker does not answer: the list would lack its ids and not show it.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::{TransactionFilter, TransactionState};
    ///
    /// let _producer = client.transactional_producer("payments-1").start().await?;
    /// let listed = admin.list_transactions(&TransactionFilter::all()).await?;
    /// assert_eq!((listed[0].transactional_id.as_str(), listed[0].state), ("payments-1", TransactionState::Empty));
    /// assert!(admin.list_transactions(&TransactionFilter::all().state(TransactionState::Ongoing)).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_transactions(&self, filter: &TransactionFilter) -> Result<Vec<TransactionListing>, AdminError> {
        let cluster = self.client.cluster();
        let nodes = self.nodes().await?;
        // An older broker cannot filter, and would answer with what was not asked for.
        let versions = match (filter.open_for, &filter.transactional_id_pattern) {
            (_, Some(_)) => 2..=2,
            (Some(_), None) => 1..=2,
            (None, None) => 0..=2,
        };
        let open_for_ms = filter.open_for.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let listed = self.call(&cluster, "ListTransactions").per_item(
            nodes,
            |node| Route::Node(*node),
            versions,
            |_, _| ListTransactionsRequest {
                state_filters: filter.states.iter().map(|it| it.name().to_owned()).collect(),
                producer_id_filters: filter.producer_ids.iter().map(|it| it.0).collect(),
                duration_filter: open_for_ms.unwrap_or(-1),
                transactional_id_pattern: filter.transactional_id_pattern.clone(),
                ..Default::default()
            },
            |response, _, nodes| of_node(nodes, answer(response.error_code, None, response.transaction_states)),
        );
        let mut transactions = Vec::new();
        for (coordinator, of_broker) in listed.await? {
            transactions.extend(of_broker?.into_iter().map(|it| TransactionListing {
                transactional_id: TransactionalId::from(it.transactional_id),
                producer_id: ProducerId(it.producer_id),
                state: TransactionState::from_broker(&it.transaction_state),
                coordinator,
            }));
        }
        transactions.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        Ok(transactions)
    }

    /// Transactional ids with their transactions, from their coordinators. One that no coordinator knows is refused by itself
    /// ([`AdminError::is_not_there`]).
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::TransactionState;
    /// use atonce_client::{NewTopic, ProducerRecord, TransactionalId};
    ///
    /// admin.create_topics(&[NewTopic::new("receipts", 1)]).await?;
    /// let mut producer = client.transactional_producer("payments-1").start().await?;
    /// let transaction = producer.begin().await?;
    /// transaction.send(ProducerRecord::to("receipts").value("paid")).await?.await?;
    /// let id = TransactionalId::from("payments-1");
    /// let described = admin.describe_transactions(std::slice::from_ref(&id)).await?.remove(&id).expect("an answer")?;
    /// assert_eq!(described.state, TransactionState::Ongoing);
    /// assert_eq!(described.partitions[0].to_string(), "receipts-0");
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_transactions(
        &self,
        transactional_ids: &[TransactionalId],
    ) -> Result<PerItem<TransactionalId, TransactionDescription>, AdminError> {
        let cluster = self.client.cluster();
        self.call(&cluster, "DescribeTransactions")
            .per_item(
                transactional_ids.iter().cloned(),
                coordinator,
                0..=0,
                |_, ids| DescribeTransactionsRequest {
                    transactional_ids: ids.iter().map(|it| it.as_str().to_owned()).collect(),
                    ..Default::default()
                },
                |response, _, _| {
                    let described = response.transaction_states.into_iter().map(|it| {
                        let (id, mut answer) = describe(it);
                        let node = cluster.known_coordinator(&CoordinatorOf::Transaction(id.as_str().to_owned()));
                        if let (Ok(description), Some(node)) = (&mut answer, node) {
                            description.coordinator = node;
                        }
                        (id, answer)
                    });
                    described.collect()
                },
            )
            .await
    }

    /// What the leaders of partitions keep of those who write to them.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, ProducerRecord, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("receipts", 1)]).await?;
    /// let mut producer = client.transactional_producer("payments-1").start().await?;
    /// let transaction = producer.begin().await?;
    /// transaction.send(ProducerRecord::to("receipts").value("paid")).await?.await?;
    /// let receipts = TopicPartition::new("receipts", 0);
    /// let producers = admin.describe_producers(std::slice::from_ref(&receipts)).await?;
    /// assert_eq!(producers[&receipts].as_ref().map(|all| all[0].open_since), Ok(Some(0)));
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_producers(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<PerItem<TopicPartition, Vec<ProducerState>>, AdminError> {
        let cluster = self.client.cluster();
        let topic = |(name, partition_indexes): (String, Vec<i32>)| TopicRequest {
            name,
            partition_indexes,
            ..Default::default()
        };
        self.call(&cluster, "DescribeProducers")
            .per_item(
                partitions.iter().cloned(),
                |it| Route::Leader(it.clone()),
                0..=0,
                |_, keys| DescribeProducersRequest { topics: indexes(keys).map(topic).collect(), ..Default::default() },
                |response, _, _| {
                    let mut answers = Vec::new();
                    for topic in response.topics {
                        let name = TopicName::from(topic.name);
                        for it in topic.partitions {
                            let producers = it.active_producers.into_iter().map(|it| ProducerState {
                                // The protocol has 32 bits here and 16 everywhere else.
                                producer: ProducerIdentity::new(
                                    it.producer_id,
                                    i16::try_from(it.producer_epoch).unwrap_or(-1),
                                ),
                                last_sequence: it.last_sequence,
                                last_timestamp: (it.last_timestamp >= 0).then_some(Timestamp(it.last_timestamp)),
                                coordinator_epoch: it.coordinator_epoch,
                                open_since: (it.current_txn_start_offset >= 0).then_some(it.current_txn_start_offset),
                            });
                            let producers = producers.collect();
                            let topic_partition = TopicPartition::new(name.clone(), it.partition_index);
                            answers.push((topic_partition, answer(it.error_code, it.error_message, producers)));
                        }
                    }
                    answers
                },
            )
            .await
    }

    /// Transactions that are open in partitions and have not written for longer than any transaction may be open, and which their
    /// coordinators do not know to be open there: nobody will ever end them. Give it the cluster's `transaction.max.timeout.ms`, and some
    /// more.
    ///
    /// As `kafka-transactions.sh find-hanging`: a partition whose leader cannot be asked fails the call.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("receipts", 1)]).await?;
    /// let receipts = [TopicPartition::new("receipts", 0)];
    /// assert!(admin.find_hanging_transactions(&receipts, std::time::Duration::from_secs(900)).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find_hanging_transactions(
        &self,
        partitions: &[TopicPartition],
        silent_for: Duration,
    ) -> Result<Vec<HangingTransaction>, AdminError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = Timestamp(i64::try_from(now.saturating_sub(silent_for).as_millis()).unwrap_or(i64::MAX));
        let mut candidates = Vec::new();
        for (topic_partition, producers) in self.describe_producers(partitions).await? {
            let is_silent = |it: &ProducerState| it.last_timestamp.is_none_or(|last| last <= since);
            let open = producers?.into_iter().filter(|it| it.open_since.is_some() && is_silent(it));
            candidates.extend(open.map(|producer| (topic_partition.clone(), producer)));
        }
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let mut filter = TransactionFilter::all();
        let ids: BTreeSet<ProducerId> = candidates.iter().map(|(_, it)| it.producer.id).collect();
        filter.producer_ids.extend(ids);
        let listed = self.list_transactions(&filter).await?;
        let known: BTreeMap<ProducerId, TransactionalId> =
            listed.into_iter().map(|it| (it.producer_id, it.transactional_id)).collect();
        let ids: Vec<TransactionalId> = known.values().cloned().collect();
        let mut described = BTreeMap::new();
        for (id, description) in self.describe_transactions(&ids).await? {
            match description {
                Ok(description) => drop(described.insert(id, description)),
                // It was forgotten since it was listed.
                Err(error) if error.is_not_there() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(not_known(candidates, &known, &described))
    }

    /// Writes the marker of an abort to a partition, past the coordinator: for transactions that hang
    /// ([`find_hanging_transactions`](Self::find_hanging_transactions)), and for nothing else. One that its coordinator still knows
    /// would be half aborted.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::AbortTransaction;
    /// use atonce_client::{NewTopic, ProducerRecord, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("receipts", 1)]).await?;
    /// let mut producer = client.transactional_producer("payments-1").start().await?;
    /// let transaction = producer.begin().await?;
    /// transaction.send(ProducerRecord::to("receipts").value("paid")).await?.await?;
    /// let receipts = TopicPartition::new("receipts", 0);
    /// let open = admin.describe_producers(std::slice::from_ref(&receipts)).await?.remove(&receipts).expect("an answer")?;
    /// let abort = AbortTransaction { topic_partition: receipts, producer: open[0].producer, coordinator_epoch: 0 };
    /// admin.abort_transaction(&abort).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn abort_transaction(&self, abort: &AbortTransaction) -> Result<(), AdminError> {
        let cluster = self.client.cluster();
        let topic_partition = &abort.topic_partition;
        let marker = || WritableTxnMarker {
            producer_id: abort.producer.id.0,
            producer_epoch: abort.producer.epoch.0,
            transaction_result: false,
            topics: vec![WritableTxnMarkerTopic {
                name: topic_partition.topic.as_str().to_owned(),
                partition_indexes: vec![topic_partition.partition],
                ..Default::default()
            }],
            coordinator_epoch: abort.coordinator_epoch,
            ..Default::default()
        };
        self.call(&cluster, "WriteTxnMarkers")
            .one(
                topic_partition.clone(),
                Route::Leader(topic_partition.clone()),
                // Version 2 is for coordinators: it says by which rules the epoch is judged.
                1..=1,
                |_| WriteTxnMarkersRequest { markers: vec![marker()], ..Default::default() },
                |response, _| {
                    let of_partitions = response.markers.into_iter().flat_map(|it| it.topics);
                    let code = of_partitions.flat_map(|it| it.partitions).map(|it| it.error_code).next();
                    answer(code.unwrap_or(-1), None, ())
                },
            )
            .await
    }

    /// Takes transactional ids over and writes nothing: whoever has them is fenced, and what they have open is aborted. Answers the
    /// identities that fence them.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, ProducerRecord, TransactionalId};
    ///
    /// admin.create_topics(&[NewTopic::new("receipts", 1)]).await?;
    /// let mut producer = client.transactional_producer("payments-1").start().await?;
    /// let id = TransactionalId::from("payments-1");
    /// admin.fence_producers(std::slice::from_ref(&id)).await?.remove(&id).expect("an answer")?;
    /// let transaction = producer.begin().await?;
    /// drop(transaction.send(ProducerRecord::to("receipts").value("paid")).await?);
    /// assert!(transaction.commit().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fence_producers(
        &self,
        transactional_ids: &[TransactionalId],
    ) -> Result<PerItem<TransactionalId, ProducerIdentity>, AdminError> {
        let cluster = self.client.cluster();
        let call = self.call(&cluster, "InitProducerId");
        let mut results = PerItem::new();
        // A request takes one id.
        for id in transactional_ids {
            let fenced = call.one(
                id.clone(),
                coordinator(id),
                0..=5,
                |_| InitProducerIdRequest {
                    transactional_id: Some(id.as_str().to_owned()),
                    // Nobody will open a transaction under it.
                    transaction_timeout_ms: 1,
                    producer_id: -1,
                    producer_epoch: -1,
                    ..Default::default()
                },
                |response, _| {
                    let (id, epoch) = (ProducerId(response.producer_id), ProducerEpoch(response.producer_epoch));
                    answer(response.error_code, None, ProducerIdentity { id, epoch })
                },
            );
            results.insert(id.clone(), fenced.await);
        }
        Ok(results)
    }
}

/// Those of the open transactions that no coordinator will end: it does not know the producer, or not that it writes there.
fn not_known(
    candidates: Vec<(TopicPartition, ProducerState)>,
    known: &BTreeMap<ProducerId, TransactionalId>,
    described: &BTreeMap<TransactionalId, TransactionDescription>,
) -> Vec<HangingTransaction> {
    let hanging = candidates.into_iter().filter_map(|(topic_partition, producer)| {
        let transactional_id = known.get(&producer.producer.id).cloned();
        let description = transactional_id.as_ref().and_then(|id| described.get(id));
        let is_known = description
            .is_some_and(|it| it.producer.id == producer.producer.id && it.partitions.contains(&topic_partition));
        (!is_known).then_some(HangingTransaction { topic_partition, producer, transactional_id })
    });
    hanging.collect()
}

fn coordinator(id: &TransactionalId) -> Route {
    Route::Coordinator(CoordinatorOf::Transaction(id.as_str().to_owned()))
}

fn describe(it: described::TransactionState) -> (TransactionalId, Answer<TransactionDescription>) {
    let id = TransactionalId::from(it.transactional_id);
    let mut partitions = Vec::new();
    for topic in it.topics {
        let name = TopicName::from(topic.topic);
        partitions.extend(topic.partitions.into_iter().map(|index| TopicPartition::new(name.clone(), index)));
    }
    partitions.sort();
    let description = TransactionDescription {
        transactional_id: id.clone(),
        coordinator: -1,
        state: TransactionState::from_broker(&it.transaction_state),
        producer: ProducerIdentity::new(it.producer_id, it.producer_epoch),
        timeout: Duration::from_millis(u64::try_from(it.transaction_timeout_ms).unwrap_or(0)),
        started: (it.transaction_start_time_ms >= 0).then_some(Timestamp(it.transaction_start_time_ms)),
        partitions,
    };
    (id, answer(it.error_code, None, description))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(producer_id: i64) -> (TopicPartition, ProducerState) {
        let producer = ProducerState {
            producer: ProducerIdentity::new(producer_id, 3),
            last_sequence: 0,
            last_timestamp: None,
            coordinator_epoch: -1,
            open_since: Some(7),
        };
        (TopicPartition::new("receipts", 0), producer)
    }

    fn of_coordinator(id: &str, producer_id: i64, partitions: Vec<TopicPartition>) -> TransactionDescription {
        TransactionDescription {
            transactional_id: TransactionalId::from(id),
            coordinator: 1,
            state: TransactionState::Ongoing,
            producer: ProducerIdentity::new(producer_id, 3),
            timeout: Duration::from_secs(60),
            started: None,
            partitions,
        }
    }

    #[test]
    fn a_transaction_hangs_where_its_coordinator_does_not_know_the_partition() {
        let candidates = vec![open(1), open(2), open(3), open(4)];
        let ids = [(2, "forgotten"), (3, "elsewhere"), (4, "here")];
        let known = ids.map(|(producer, id)| (ProducerId(producer), TransactionalId::from(id))).into();
        let here = vec![TopicPartition::new("receipts", 0)];
        let elsewhere = vec![TopicPartition::new("receipts", 1)];
        let described = [of_coordinator("elsewhere", 3, elsewhere), of_coordinator("here", 4, here)]
            .map(|it| (it.transactional_id.clone(), it))
            .into();
        let hanging = not_known(candidates, &known, &described);
        let found: Vec<_> =
            hanging.iter().map(|it| (it.producer.producer.id.0, it.transactional_id.as_ref())).collect();
        let [forgotten, elsewhere] = ["forgotten", "elsewhere"].map(TransactionalId::from);
        assert_eq!(found, [(1, None), (2, Some(&forgotten)), (3, Some(&elsewhere))]);
        assert_eq!(hanging[0].abort().coordinator_epoch, 0, "a leader that saw no marker takes any epoch");
    }
}
