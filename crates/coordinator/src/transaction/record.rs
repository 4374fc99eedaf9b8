//! The coordinator's records, as they stand in `__transaction_state`.
//!
//! Layout: key `version i16 = 0 | transactional_id string`; value `version i16 | TransactionLogValue`, or none for an
//! expired id. We write value version 1, as Kafka does from `transaction.version` 1 on, and read 0 as well.
//! Source: `TransactionLogKey.json`, `TransactionLogValue.json`; KIP-98, KIP-890 (tagged fields).

use std::collections::BTreeSet;
use std::fmt;

use atonce_kernel::{Outcome, ProducerId, ProducerIdentity, Timestamp, TopicName, TopicPartition, TransactionalId};
use atonce_protocol::messages::transaction_log_key::TransactionLogKey;
use atonce_protocol::messages::transaction_log_value::{PartitionsSchema, TransactionLogValue};
use atonce_protocol::{DecodeError, EncodeError, Message, Reader};
use bytes::Bytes;

use super::state::{Protocol, State, StateName, Transaction};

/// A fact about one transactional id: all that is known of it now, or that it is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    transactional_id: TransactionalId,
    transaction: Option<Transaction>,
}

impl Record {
    /// The record that says this of `transactional_id`; `None`: that it is forgotten.
    #[must_use]
    pub fn new(transactional_id: &TransactionalId, transaction: Option<Transaction>) -> Self {
        Self { transactional_id: transactional_id.clone(), transaction }
    }

    pub(super) fn registered(transactional_id: &TransactionalId, transaction: Transaction) -> Self {
        Self::new(transactional_id, Some(transaction))
    }

    pub(super) fn expired(transactional_id: &TransactionalId) -> Self {
        Self::new(transactional_id, None)
    }

    /// Whose record it is.
    #[must_use]
    pub fn transactional_id(&self) -> &TransactionalId {
        &self.transactional_id
    }

    /// What is known from now on; `None` if the id is forgotten.
    #[must_use]
    pub fn transaction(&self) -> Option<&Transaction> {
        self.transaction.as_ref()
    }

    /// The record's key and value.
    ///
    /// Errors: a name too long for its field; no request can have brought one in.
    pub fn encode(&self) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        let key = TransactionLogKey { transactional_id: self.transactional_id.as_str().to_owned() };
        let value = self.transaction.as_ref().map(|transaction| encode_value(transaction).encode_versioned(1));
        Ok((key.encode_versioned(0)?, value.transpose()?))
    }

    /// Reads a record.
    ///
    /// Errors: bytes that are not a record; a state that no coordinator writes. [`DecodeRecordError::UnknownKey`]
    ///   alone is no damage: a later coordinator may keep other things in the same log.
    pub fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self, DecodeRecordError> {
        let mut reader = Reader::new(key);
        let version = reader.i16()?;
        if !TransactionLogKey::VERSIONS.contains(&version) {
            return Err(DecodeRecordError::UnknownKey { version });
        }
        let key = TransactionLogKey::decode(&mut reader, version)?;
        reader.finish()?;
        let transaction = match value {
            Some(value) => Some(decode_value(TransactionLogValue::decode_versioned(value)?.1)?),
            None => None,
        };
        Ok(Self { transactional_id: TransactionalId::from(key.transactional_id), transaction })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transaction {
            Some(transaction) => write!(f, "{}: {transaction}", self.transactional_id),
            None => write!(f, "{}: expired", self.transactional_id),
        }
    }
}

/// A record of `__transaction_state` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeRecordError {
    /// Not the bytes of a record.
    #[error(transparent)]
    Bytes(#[from] DecodeError),
    /// A kind of record that this coordinator does not know. To be passed over.
    #[error("a record with key version {version}, of which this coordinator knows nothing")]
    UnknownKey {
        /// The version found.
        version: i16,
    },
    /// A state that no coordinator writes.
    #[error("transaction status {status}, which no coordinator writes")]
    Status {
        /// The number found.
        status: i8,
    },
    /// No producer.
    #[error("producer {producer}, which no coordinator gives to anybody")]
    Producer {
        /// The producer found.
        producer: ProducerIdentity,
    },
    /// A protocol that does not exist yet.
    #[error("client transaction version {version}, newer than this coordinator")]
    Protocol {
        /// The version found.
        version: i16,
    },
    /// Partitions where there can be none, or none given where there must be a list.
    #[error("a partition list that does not go with state {state}")]
    Partitions {
        /// The state found.
        state: StateName,
    },
}

fn encode_value(transaction: &Transaction) -> TransactionLogValue {
    let (partitions, successor) = match &transaction.state {
        State::Empty => (None, None),
        State::Ongoing { partitions, .. } => (Some(by_topic(partitions)), None),
        State::Prepared { partitions, successor, .. } => (Some(by_topic(partitions)), *successor),
        State::Complete { .. } => (Some(Vec::new()), None),
    };
    TransactionLogValue {
        producer_id: transaction.producer.id.0,
        previous_producer_id: transaction.previous_producer_id.0,
        next_producer_id: successor.unwrap_or(ProducerId::NONE).0,
        producer_epoch: transaction.producer.epoch.0,
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_status: transaction.state.name().number(),
        transaction_partitions: partitions,
        transaction_last_update_timestamp_ms: transaction.last_update.0,
        transaction_start_timestamp_ms: transaction.state.since().0,
        client_transaction_version: match transaction.protocol {
            // Kafka has a 1 as well, for the same protocol with records of version 1; it writes 0 for both.
            Protocol::V1 => 0,
            Protocol::V2 => 2,
        },
        // The epoch that goes with `next_producer_id` is always the first. KIP-939 will make others of it.
        ..TransactionLogValue::default()
    }
}

fn by_topic(partitions: &BTreeSet<TopicPartition>) -> Vec<PartitionsSchema> {
    let mut topics: Vec<PartitionsSchema> = Vec::new();
    for TopicPartition { topic, partition } in partitions {
        match topics.last_mut() {
            Some(last) if last.topic == topic.as_str() => last.partition_ids.push(*partition),
            Some(_) | None => topics.push(PartitionsSchema {
                topic: topic.as_str().to_owned(),
                partition_ids: vec![*partition],
                ..PartitionsSchema::default()
            }),
        }
    }
    topics
}

fn decode_value(value: TransactionLogValue) -> Result<Transaction, DecodeRecordError> {
    let producer = ProducerIdentity::new(value.producer_id, value.producer_epoch);
    if value.producer_id < 0 || value.producer_epoch < 0 {
        return Err(DecodeRecordError::Producer { producer });
    }
    let protocol = match value.client_transaction_version {
        0 | 1 => Protocol::V1,
        2 => Protocol::V2,
        version => return Err(DecodeRecordError::Protocol { version }),
    };
    let status = value.transaction_status;
    let name = StateName::from_number(status).ok_or(DecodeRecordError::Status { status })?;
    let unfit = DecodeRecordError::Partitions { state: name };
    let since = Timestamp(value.transaction_start_timestamp_ms);
    let partitions = value.transaction_partitions.map(partitions_of);
    let state = match (name, partitions) {
        (StateName::Empty, partitions) if partitions.as_ref().is_none_or(BTreeSet::is_empty) => State::Empty,
        (StateName::Ongoing, Some(partitions)) => State::Ongoing { partitions, since },
        (StateName::PrepareCommit | StateName::PrepareAbort, Some(partitions)) => State::Prepared {
            outcome: if name == StateName::PrepareCommit { Outcome::Commit } else { Outcome::Abort },
            partitions,
            since,
            successor: (value.next_producer_id >= 0).then_some(ProducerId(value.next_producer_id)),
        },
        (StateName::CompleteCommit, _) => State::Complete { outcome: Outcome::Commit, since },
        (StateName::CompleteAbort, _) => State::Complete { outcome: Outcome::Abort, since },
        (StateName::Dead | StateName::PrepareEpochFence, _) => return Err(DecodeRecordError::Status { status }),
        (StateName::Empty | StateName::Ongoing | StateName::PrepareCommit | StateName::PrepareAbort, _) => {
            return Err(unfit);
        }
    };
    Ok(Transaction {
        producer,
        previous_producer_id: match value.previous_producer_id {
            // Version 0 has no such field, and nothing then rotates an id in a way that this would tell.
            ..0 => producer.id,
            previous => ProducerId(previous),
        },
        timeout_ms: value.transaction_timeout_ms,
        protocol,
        state,
        last_update: Timestamp(value.transaction_last_update_timestamp_ms),
    })
}

fn partitions_of(topics: Vec<PartitionsSchema>) -> BTreeSet<TopicPartition> {
    let mut partitions = BTreeSet::new();
    for PartitionsSchema { topic, partition_ids, .. } in topics {
        let topic = TopicName::from(topic);
        partitions
            .extend(partition_ids.into_iter().map(|partition| TopicPartition { topic: topic.clone(), partition }));
    }
    partitions
}
