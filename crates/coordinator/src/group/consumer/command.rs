//! What a consumer group is asked: requests in Kafka's terms.

use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, TopicName};

use super::Partitions;

/// A ConsumerGroupHeartbeat request. What a member does not say has not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeat {
    /// Of the request: from 1 on, the member chooses its id.
    pub version: i16,
    /// Which group.
    pub group: GroupId,
    /// Who.
    pub member: Option<MemberId>,
    /// The epoch that the member is in; 0 to join, −1 to leave, −2 to leave for a while.
    pub epoch: i32,
    /// The static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// The rack that it runs in.
    pub rack: Option<Arc<str>>,
    /// What the client calls itself.
    pub client_id: Arc<str>,
    /// Where it calls from.
    pub client_host: Arc<str>,
    /// How long it may take to give partitions up.
    pub rebalance_timeout_ms: Option<i32>,
    /// Topics by name.
    pub topics: Option<BTreeSet<TopicName>>,
    /// Topics by pattern.
    pub pattern: Option<Arc<str>>,
    /// The assignor it votes for.
    pub assignor: Option<Arc<str>>,
    /// The partitions that it has.
    pub owned: Option<Partitions>,
    /// What the operator chose for this group.
    pub settings: GroupSettings,
}

/// What an operator may choose for one group, instead of what holds for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// `consumer.heartbeat.interval.ms`
    pub heartbeat_interval_ms: Option<i32>,
    /// `consumer.session.timeout.ms`
    pub session_timeout_ms: Option<i32>,
}

/// A ConsumerGroupDescribe request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupDescribe {
    /// Which groups.
    pub groups: Vec<GroupId>,
}
