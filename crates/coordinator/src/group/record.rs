//! The durable facts of a group coordinator, and their bytes in `__consumer_offsets`.
//!
//! A key begins with its type, an i16: 0 and 1 are offsets, 2 a classic group; those of consumer groups stand in
//! [`consumer::record`](super::consumer::record). Others belong to other kinds of groups (share, streams) and are skipped, as KIP-915 asks of
//! types that one does not know.

use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Offset, Timestamp, TopicId, TopicPartition};
use atonce_protocol::messages::group_metadata_key::GroupMetadataKey;
use atonce_protocol::messages::group_metadata_value::{self, GroupMetadataValue};
use atonce_protocol::messages::offset_commit_key::OffsetCommitKey;
use atonce_protocol::messages::offset_commit_value::OffsetCommitValue;
use atonce_protocol::{DecodeError, EncodeError, Message, Reader};
use bytes::{BufMut, Bytes, BytesMut};

use super::consumer::record::Fact;

/// Key types of this machine's records. Both of an offset's mean the same.
const OFFSET_KEY_OLD: i16 = 0;
const OFFSET_KEY: i16 = 1;
const GROUP_KEY: i16 = 2;

/// What Apache Kafka 4.4 writes: it reads all that came before.
const GROUP_VALUE_VERSION: i16 = 3;
const OFFSET_VALUE_VERSION: i16 = 4;
/// The one version that says when the offset ends; written only then.
const OFFSET_VALUE_VERSION_WITH_EXPIRY: i16 = 1;

/// The longest name that a record can say, in bytes: its length is an i16, and a member's id is its client's or its own name
/// with 37 more.
pub(super) const NAME_BYTES_MAX: usize = i16::MAX as usize - 37;

/// A fact about groups or offsets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// A classic group at the begin of its life, at the end of a rebalance, or when a static member was replaced.
    Group {
        /// Which group.
        group: GroupId,
        /// How it stands; `None`: it is no more.
        metadata: Option<GroupMetadata>,
    },
    /// A fact about a consumer group.
    Consumer {
        /// Which group.
        group: GroupId,
        /// What.
        fact: Fact,
    },
    /// A committed offset. In a transaction it is pending until the marker.
    Offset {
        /// Whose.
        group: GroupId,
        /// Where.
        topic_partition: TopicPartition,
        /// What; `None`: it is forgotten, and so is what any open transaction holds for this partition.
        value: Option<CommittedOffset>,
    },
}

/// A classic group as it is recorded: without members `Empty`, with them `Stable`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupMetadata {
    /// The kind of group, if it was ever told.
    pub protocol_type: Option<String>,
    /// The generation.
    pub generation: i32,
    /// What the members agreed on; none without members.
    pub protocol: Option<String>,
    /// Who assigned.
    pub leader: Option<MemberId>,
    /// Since when it has stood so; −1 in records older than that field.
    pub since: Timestamp,
    /// The members. Ids and static names: unique.
    pub members: Vec<MemberMetadata>,
}

/// A member as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberMetadata {
    /// Its id.
    pub member: MemberId,
    /// A static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// What the client calls itself.
    pub client_id: Arc<str>,
    /// Where it calls from.
    pub client_host: Arc<str>,
    /// How long it may take to come back in a rebalance.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// What it said for the protocol chosen.
    pub subscription: Bytes,
    /// What the leader gave it.
    pub assignment: Bytes,
}

/// An offset as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommittedOffset {
    /// The next record to read.
    pub offset: Offset,
    /// The leader epoch of the last record read, −1 if not known.
    pub leader_epoch: i32,
    /// What the client wants to remember with it.
    pub metadata: Arc<str>,
    /// When it was committed.
    pub commit_timestamp: Timestamp,
    /// When it ends, if the client chose that (versions 2 to 4).
    pub expire_timestamp: Option<Timestamp>,
    /// The topic's id, zero if it was not known.
    pub topic_id: TopicId,
}

impl Record {
    /// Key and value as they stand in `__consumer_offsets`; no value is a tombstone.
    ///
    /// Layout: key `type i16 | names`, value `version i16 | fields`, as the schemas say.
    /// Errors: a name is too long for its length. What the machine decides upon is never that long.
    pub fn encode(&self) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        match self {
            Self::Group { group, metadata } => {
                let key = encode_key(GROUP_KEY, &GroupMetadataKey { group: group.to_string() })?;
                let value = metadata.as_ref().map(|metadata| metadata.to_value().encode_versioned(GROUP_VALUE_VERSION));
                Ok((key, value.transpose()?))
            }
            Self::Consumer { group, fact } => fact.encode(group),
            Self::Offset { group, topic_partition, value } => {
                let key = OffsetCommitKey {
                    group: group.to_string(),
                    topic: topic_partition.topic.to_string(),
                    partition: topic_partition.partition,
                };
                let value = value.as_ref().map(|value| value.to_value().encode_versioned(value.version()));
                Ok((encode_key(OFFSET_KEY, &key)?, value.transpose()?))
            }
        }
    }

    /// Reads a record of `__consumer_offsets`. `None`: it belongs to another kind of group, or to a future we do not know.
    ///
    /// Errors: the key says that it is ours, and the rest is not what it should be.
    pub fn decode(key: Bytes, value: Option<Bytes>) -> Result<Option<Self>, DecodeError> {
        let mut key = Reader::new(key);
        match key.i16()? {
            OFFSET_KEY_OLD | OFFSET_KEY => {
                let key: OffsetCommitKey = decode_key(key)?;
                Ok(Some(Self::Offset {
                    group: GroupId::from(key.group),
                    topic_partition: TopicPartition::new(key.topic, key.partition),
                    value: value.map(CommittedOffset::decode).transpose()?,
                }))
            }
            GROUP_KEY => {
                let key: GroupMetadataKey = decode_key(key)?;
                let metadata = value.map(GroupMetadata::decode).transpose()?;
                Ok(Some(Self::Group { group: GroupId::from(key.group), metadata }))
            }
            key_type => {
                let fact = Fact::decode(key_type, key, value)?;
                Ok(fact.map(|(group, fact)| Self::Consumer { group, fact }))
            }
        }
    }
}

/// The key's names behind its type. The names themselves have one version.
pub(super) fn encode_key<K: Message>(key_type: i16, names: &K) -> Result<Bytes, EncodeError> {
    let mut key = BytesMut::new();
    key.put_i16(key_type);
    names.encode(&mut key, 0)?;
    Ok(key.freeze())
}

pub(super) fn decode_key<K: Message>(mut behind_type: Reader) -> Result<K, DecodeError> {
    let names = K::decode(&mut behind_type, 0)?;
    behind_type.finish()?;
    Ok(names)
}

impl GroupMetadata {
    fn to_value(&self) -> GroupMetadataValue {
        GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone().map(String::from),
            current_state_timestamp: self.since.0,
            members: self.members.iter().map(MemberMetadata::to_value).collect(),
            ..GroupMetadataValue::default()
        }
    }

    fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let (_, value) = GroupMetadataValue::decode_versioned(bytes)?;
        Ok(Self {
            protocol_type: Some(value.protocol_type).filter(|protocol_type| !protocol_type.is_empty()),
            generation: value.generation,
            protocol: value.protocol,
            leader: value.leader.map(MemberId::from),
            since: Timestamp(value.current_state_timestamp),
            members: value.members.into_iter().map(MemberMetadata::from_value).collect(),
        })
    }

    /// Whether this can be how a group stands whose last record had `recorded`.
    pub(super) fn check_after(&self, group: &GroupId, recorded: Option<i32>) -> Result<(), String> {
        if let Some(recorded) = recorded.filter(|recorded| *recorded > self.generation) {
            return Err(format!("group {group}: generation {} after generation {recorded}", self.generation));
        }
        if self.protocol.is_none() && !self.members.is_empty() {
            return Err(format!("group {group}: {} members without a protocol", self.members.len()));
        }
        let ids: BTreeSet<_> = self.members.iter().map(|member| &member.member).collect();
        let instances: Vec<_> = self.members.iter().filter_map(|member| member.instance.as_ref()).collect();
        if ids.len() < self.members.len() || instances.iter().collect::<BTreeSet<_>>().len() < instances.len() {
            return Err(format!("group {group}: a member stands in generation {} twice", self.generation));
        }
        Ok(())
    }
}

impl MemberMetadata {
    fn to_value(&self) -> group_metadata_value::MemberMetadata {
        group_metadata_value::MemberMetadata {
            member_id: self.member.to_string(),
            group_instance_id: self.instance.clone().map(String::from),
            client_id: self.client_id.to_string(),
            client_host: self.client_host.to_string(),
            rebalance_timeout: self.rebalance_timeout_ms,
            session_timeout: self.session_timeout_ms,
            subscription: self.subscription.clone(),
            assignment: self.assignment.clone(),
            ..group_metadata_value::MemberMetadata::default()
        }
    }

    fn from_value(value: group_metadata_value::MemberMetadata) -> Self {
        // Version 0 had one time-out for both.
        let rebalance_timeout_ms =
            if value.rebalance_timeout < 0 { value.session_timeout } else { value.rebalance_timeout };
        Self {
            member: MemberId::from(value.member_id),
            instance: value.group_instance_id.map(GroupInstanceId::from),
            client_id: Arc::from(value.client_id),
            client_host: Arc::from(value.client_host),
            rebalance_timeout_ms,
            session_timeout_ms: value.session_timeout,
            subscription: value.subscription,
            assignment: value.assignment,
        }
    }
}

impl CommittedOffset {
    fn version(&self) -> i16 {
        match self.expire_timestamp {
            Some(_) => OFFSET_VALUE_VERSION_WITH_EXPIRY,
            None => OFFSET_VALUE_VERSION,
        }
    }

    fn to_value(&self) -> OffsetCommitValue {
        OffsetCommitValue {
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            metadata: self.metadata.to_string(),
            commit_timestamp: self.commit_timestamp.0,
            expire_timestamp: self.expire_timestamp.unwrap_or(Timestamp::NONE).0,
            topic_id: self.topic_id,
            ..OffsetCommitValue::default()
        }
    }

    fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let (_, value) = OffsetCommitValue::decode_versioned(bytes)?;
        Ok(Self {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: Arc::from(value.metadata),
            commit_timestamp: Timestamp(value.commit_timestamp),
            expire_timestamp: Some(Timestamp(value.expire_timestamp)).filter(|at| *at != Timestamp::NONE),
            topic_id: value.topic_id,
        })
    }
}
