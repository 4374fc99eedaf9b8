//! Requests of the consumer protocol as commands, replies as responses.

use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, TopicName};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::consumer_group_describe_response::{
    Assignment, ConsumerGroupDescribeResponse, DescribedGroup, Member, TopicPartitions,
};
use atonce_protocol::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use atonce_protocol::messages::consumer_group_heartbeat_response::{self, ConsumerGroupHeartbeatResponse};

use super::super::wire::Caller;
use super::command::{ConsumerGroupHeartbeat, GroupSettings};
use super::draft::Refused;
use super::heartbeat::Beat;
use super::show::{DescribedConsumer, DescribedConsumerGroup, DescribedTopic};
use super::{AssignedPartitions, Partitions};

/// A member that speaks the classic protocol, in a description.
const CLASSIC_MEMBER: i8 = 0;
/// A member that speaks the consumer protocol.
const CONSUMER_MEMBER: i8 = 1;

/// ConsumerGroupHeartbeat, versions 0 and 1.
#[must_use]
pub fn heartbeat(
    request: &ConsumerGroupHeartbeatRequest,
    version: i16,
    caller: &Caller<'_>,
    settings: GroupSettings,
) -> ConsumerGroupHeartbeat {
    let text = |text: &Option<String>| text.as_deref().map(Arc::from);
    let owned = request.topic_partitions.as_ref().map(|topics| {
        let mut owned = Partitions::new();
        for topic in topics.iter().filter(|topic| !topic.partitions.is_empty()) {
            owned.entry(topic.topic_id).or_default().extend(&topic.partitions);
        }
        owned
    });
    ConsumerGroupHeartbeat {
        version,
        group: GroupId::from(&request.group_id),
        member: Some(&request.member_id).filter(|id| !id.is_empty()).map(MemberId::from),
        epoch: request.member_epoch,
        instance: request.instance_id.as_ref().map(GroupInstanceId::from),
        rack: text(&request.rack_id),
        client_id: Arc::from(caller.client_id),
        client_host: Arc::from(caller.host),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|ms| *ms != -1),
        topics: request.subscribed_topic_names.as_ref().map(|names| names.iter().map(TopicName::from).collect()),
        pattern: text(&request.subscribed_topic_regex),
        assignor: text(&request.server_assignor),
        owned,
        settings,
    }
}

/// The answer to ConsumerGroupHeartbeat.
#[must_use]
pub fn heartbeat_response(reply: &Result<Beat, Refused>) -> ConsumerGroupHeartbeatResponse {
    match reply {
        Ok(beat) => ConsumerGroupHeartbeatResponse {
            member_id: Some(beat.member.to_string()),
            member_epoch: beat.epoch,
            heartbeat_interval_ms: beat.interval_ms,
            assignment: beat.assignment.as_ref().map(|partitions| consumer_group_heartbeat_response::Assignment {
                topic_partitions: partitions
                    .iter()
                    .map(|(topic_id, partitions)| consumer_group_heartbeat_response::TopicPartitions {
                        topic_id: *topic_id,
                        partitions: partitions.iter().copied().collect(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }),
            ..ConsumerGroupHeartbeatResponse::default()
        },
        Err(refused) => heartbeat_refusal(refused.error, refused.message.clone()),
    }
}

/// The answer to ConsumerGroupHeartbeat where the machine could not be asked.
#[must_use]
pub fn heartbeat_refusal(error: ErrorCode, message: String) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse {
        error_code: error.to_i16(),
        error_message: Some(message),
        ..ConsumerGroupHeartbeatResponse::default()
    }
}

/// A group in the answer to ConsumerGroupDescribe.
pub type Described = Result<DescribedConsumerGroup, (GroupId, ErrorCode, String)>;

/// The answer to ConsumerGroupDescribe, from all shards' answers.
#[must_use]
pub fn describe_response(groups: &[Described]) -> ConsumerGroupDescribeResponse {
    let group = |group: &Described| match group {
        Ok(group) => DescribedGroup {
            group_id: group.group.to_string(),
            group_state: group.state.to_string(),
            group_epoch: group.epoch,
            assignment_epoch: group.target_epoch,
            assignor_name: group.assignor.name().to_owned(),
            members: group.members.iter().map(member).collect(),
            ..DescribedGroup::default()
        },
        Err((id, error, message)) => DescribedGroup {
            group_id: id.to_string(),
            error_code: error.to_i16(),
            error_message: Some(message.clone()),
            ..DescribedGroup::default()
        },
    };
    ConsumerGroupDescribeResponse {
        groups: groups.iter().map(group).collect(),
        ..ConsumerGroupDescribeResponse::default()
    }
}

fn member(member: &DescribedConsumer) -> Member {
    let subscription = &member.details.subscription;
    let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    Member {
        member_id: member.member.to_string(),
        instance_id: subscription.instance.clone().map(String::from),
        rack_id: text(&subscription.rack),
        member_epoch: member.details.current.epoch,
        client_id: subscription.client_id.as_ref().to_owned(),
        client_host: subscription.client_host.as_ref().to_owned(),
        subscribed_topic_names: subscription.topics.iter().map(ToString::to_string).collect(),
        subscribed_topic_regex: Some(subscription.pattern.as_ref().to_owned()),
        assignment: assignment(&member.assignment),
        target_assignment: assignment(&member.target),
        member_type: if subscription.classic.is_some() { CLASSIC_MEMBER } else { CONSUMER_MEMBER },
        ..Member::default()
    }
}

fn assignment(topics: &[DescribedTopic]) -> Assignment {
    let topic = |topic: &DescribedTopic| TopicPartitions {
        topic_id: topic.id,
        topic_name: topic.name.to_string(),
        partitions: topic.partitions.clone(),
        ..TopicPartitions::default()
    };
    Assignment { topic_partitions: topics.iter().map(topic).collect(), ..Assignment::default() }
}

/// Assigned partitions without their epochs.
#[must_use]
pub fn without_epochs(assigned: &AssignedPartitions) -> Partitions {
    assigned.iter().map(|(topic, all)| (*topic, all.keys().copied().collect())).collect()
}
