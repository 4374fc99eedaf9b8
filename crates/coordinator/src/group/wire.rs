//! Requests as commands, replies as responses: the only place of this module that knows a version's shape.
//!
//! A host decodes a request, makes a [`Command`](super::Command) of it here, and makes a response of the
//! [`Reply`](super::Reply) when it comes. Topics need a look at the broker's [`Topics`]: what is not there is refused before
//! the machine is asked.
//!
//! **What it does not know**: bytes (the protocol crate's), which shard serves a group, who may do what.

use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, ProducerIdentity, TopicId, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};
use atonce_protocol::messages::describe_groups_response::{self, DescribeGroupsResponse, DescribedGroupMember};
use atonce_protocol::messages::heartbeat_request::HeartbeatRequest;
use atonce_protocol::messages::heartbeat_response::HeartbeatResponse;
use atonce_protocol::messages::join_group_request::JoinGroupRequest;
use atonce_protocol::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use atonce_protocol::messages::leave_group_request::LeaveGroupRequest;
use atonce_protocol::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};
use atonce_protocol::messages::list_groups_response::{self, ListGroupsResponse};
use atonce_protocol::messages::offset_commit_request::OffsetCommitRequest;
use atonce_protocol::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use atonce_protocol::messages::offset_delete_request::OffsetDeleteRequest;
use atonce_protocol::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use atonce_protocol::messages::offset_fetch_request::OffsetFetchRequest;
use atonce_protocol::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use atonce_protocol::messages::sync_group_request::SyncGroupRequest;
use atonce_protocol::messages::sync_group_response::SyncGroupResponse;
use atonce_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequest;
use atonce_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};

use super::classic::JoinProtocol;
use super::command::{
    Heartbeat, JoinGroup, LeaveGroup, MemberIdentity, OffsetCommit, OffsetDelete, OffsetFetch, OffsetToCommit,
    OffsetToFetch, SyncGroup, TxnOffsetCommit,
};
use super::reply::{DescribedGroup, FetchedOffset, JoinRefused, Joined, ListedGroup, MemberLeft, Synced};

/// The first versions that name topics by id.
const OFFSET_COMMIT_BY_ID: i16 = 10;
const TXN_OFFSET_COMMIT_BY_ID: i16 = 6;
const OFFSET_FETCH_BY_ID: i16 = 10;
/// The first version that asks for many groups.
const OFFSET_FETCH_OF_GROUPS: i16 = 8;

/// What a broker knows of its topics.
pub trait Topics {
    /// The name of the topic with this id.
    fn name_of(&self, id: TopicId) -> Option<TopicName>;
    /// The id of the topic with this name.
    fn id_of(&self, name: &str) -> Option<TopicId>;
    /// Whether the topic has this partition.
    fn has_partition(&self, name: &str, partition: i32) -> bool;
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The header's client id; empty if it has none.
    pub client_id: &'a str,
    /// The peer's address, as Kafka prints it: `/127.0.0.1`.
    pub host: &'a str,
}

fn member_id(id: &str) -> Option<MemberId> {
    Some(id).filter(|id| !id.is_empty()).map(MemberId::from)
}

fn instance_id(id: Option<&String>) -> Option<GroupInstanceId> {
    id.map(GroupInstanceId::from)
}

fn text_of(id: Option<&MemberId>) -> String {
    id.map(ToString::to_string).unwrap_or_default()
}

/// JoinGroup, versions 0 to 9.
#[must_use]
pub fn join_group(request: &JoinGroupRequest, version: i16, caller: &Caller<'_>) -> JoinGroup {
    let rebalance_timeout_ms = if version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    JoinGroup {
        version,
        group: GroupId::from(&request.group_id),
        member: member_id(&request.member_id),
        instance: instance_id(request.group_instance_id.as_ref()),
        client_id: Arc::from(caller.client_id),
        client_host: Arc::from(caller.host),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type.clone(),
        protocols: request
            .protocols
            .iter()
            .map(|protocol| JoinProtocol { name: protocol.name.clone(), metadata: protocol.metadata.clone() })
            .collect(),
    }
}

/// The answer to JoinGroup. Until version 6 a protocol that there is not is empty text, from version 7 on one without a name is null.
#[must_use]
pub fn join_group_response(reply: &Result<Joined, JoinRefused>, version: i16) -> JoinGroupResponse {
    let name = |protocol: Option<String>| {
        if version < 7 { Some(protocol.unwrap_or_default()) } else { protocol.filter(|name| !name.is_empty()) }
    };
    match reply {
        Ok(joined) => JoinGroupResponse {
            generation_id: joined.generation,
            protocol_type: joined.protocol_type.clone(),
            protocol_name: name(joined.protocol.clone()),
            leader: text_of(joined.leader.as_ref()),
            skip_assignment: joined.skip_assignment,
            member_id: joined.member.to_string(),
            members: joined
                .members
                .iter()
                .map(|member| JoinGroupResponseMember {
                    member_id: member.member.to_string(),
                    group_instance_id: member.instance.clone().map(String::from),
                    metadata: member.metadata.clone(),
                    ..JoinGroupResponseMember::default()
                })
                .collect(),
            ..JoinGroupResponse::default()
        },
        Err(refused) => JoinGroupResponse {
            error_code: refused.error.to_i16(),
            generation_id: -1,
            protocol_type: None,
            protocol_name: name(None),
            member_id: text_of(refused.member.as_ref()),
            ..JoinGroupResponse::default()
        },
    }
}

/// SyncGroup, versions 0 to 5.
#[must_use]
pub fn sync_group(request: &SyncGroupRequest, version: i16) -> SyncGroup {
    SyncGroup {
        version,
        group: GroupId::from(&request.group_id),
        generation: request.generation_id,
        member: member_id(&request.member_id),
        instance: instance_id(request.group_instance_id.as_ref()),
        protocol_type: request.protocol_type.clone(),
        protocol: request.protocol_name.clone(),
        assignments: request
            .assignments
            .iter()
            .map(|assignment| (MemberId::from(&assignment.member_id), assignment.assignment.clone()))
            .collect(),
    }
}

/// The answer to SyncGroup.
#[must_use]
pub fn sync_group_response(reply: &Result<Synced, ErrorCode>) -> SyncGroupResponse {
    match reply {
        Ok(synced) => SyncGroupResponse {
            protocol_type: synced.protocol_type.clone(),
            protocol_name: synced.protocol.clone(),
            assignment: synced.assignment.clone(),
            ..SyncGroupResponse::default()
        },
        Err(error) => SyncGroupResponse { error_code: error.to_i16(), ..SyncGroupResponse::default() },
    }
}

/// Heartbeat, versions 0 to 4.
#[must_use]
pub fn heartbeat(request: &HeartbeatRequest) -> Heartbeat {
    Heartbeat {
        group: GroupId::from(&request.group_id),
        generation: request.generation_id,
        member: member_id(&request.member_id),
        instance: instance_id(request.group_instance_id.as_ref()),
    }
}

/// The answer to Heartbeat.
#[must_use]
pub fn heartbeat_response(error: ErrorCode) -> HeartbeatResponse {
    HeartbeatResponse { error_code: error.to_i16(), ..HeartbeatResponse::default() }
}

/// LeaveGroup, versions 0 to 5. Until version 2 it names one member.
#[must_use]
pub fn leave_group(request: &LeaveGroupRequest, version: i16) -> LeaveGroup {
    let members = if version < 3 {
        vec![MemberIdentity { member: member_id(&request.member_id), instance: None }]
    } else {
        request
            .members
            .iter()
            .map(|member| MemberIdentity {
                member: member_id(&member.member_id),
                instance: instance_id(member.group_instance_id.as_ref()),
            })
            .collect()
    };
    LeaveGroup { group: GroupId::from(&request.group_id), members }
}

/// The answer to LeaveGroup. Until version 2 the one member's error is the request's.
#[must_use]
pub fn leave_group_response(reply: &Result<Vec<MemberLeft>, ErrorCode>, version: i16) -> LeaveGroupResponse {
    match reply {
        Err(error) => LeaveGroupResponse { error_code: error.to_i16(), ..LeaveGroupResponse::default() },
        Ok(members) if version < 3 => {
            let error = members.first().map_or(ErrorCode::None, |member| member.error);
            LeaveGroupResponse { error_code: error.to_i16(), ..LeaveGroupResponse::default() }
        }
        Ok(members) => LeaveGroupResponse {
            members: members
                .iter()
                .map(|member| MemberResponse {
                    member_id: text_of(member.member.as_ref()),
                    group_instance_id: member.instance.clone().map(String::from),
                    error_code: member.error.to_i16(),
                    ..MemberResponse::default()
                })
                .collect(),
            ..LeaveGroupResponse::default()
        },
    }
}

/// What a request asked about partitions: what was refused here, and in which order the machine answers the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    topics: Vec<TopicAsked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TopicAsked {
    name: String,
    topic_id: TopicId,
    /// With an error, it was refused; without one, it is the machine's.
    partitions: Vec<(i32, Option<ErrorCode>)>,
}

/// A partition with its error: what a response says of each.
struct TopicAnswered {
    name: String,
    topic_id: TopicId,
    partitions: Vec<(i32, ErrorCode)>,
}

impl Asked {
    /// Looks a topic up by name, or by id; the partitions that are there are the machine's.
    fn look_up(
        &mut self,
        topics: &dyn Topics,
        by_id: bool,
        (name, topic_id): (&str, TopicId),
        partitions: impl Iterator<Item = i32>,
    ) -> Option<(TopicName, TopicId)> {
        let found = if by_id {
            topics.name_of(topic_id).map(|name| (name, topic_id)).ok_or(ErrorCode::UnknownTopicId)
        } else {
            let id = topics.id_of(name).map(|id| (TopicName::from(name), id));
            id.ok_or(ErrorCode::UnknownTopicOrPartition)
        };
        let judge = |partition: i32| match &found {
            Err(error) => Some(*error),
            Ok((name, _)) if topics.has_partition(name.as_str(), partition) => None,
            Ok(_) => Some(ErrorCode::UnknownTopicOrPartition),
        };
        self.topics.push(TopicAsked {
            name: name.to_owned(),
            topic_id,
            partitions: partitions.map(|partition| (partition, judge(partition))).collect(),
        });
        found.ok()
    }

    /// Whether the machine has nothing to do: all was refused.
    #[must_use]
    pub fn is_all_refused(&self) -> bool {
        let mut partitions = self.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.all(|(_, error)| error.is_some())
    }

    /// The machine's answers, put back in their places.
    fn answer(&self, answers: &[(TopicPartition, ErrorCode)]) -> Vec<TopicAnswered> {
        let mut answers = answers.iter();
        let mut next = || answers.next().map_or(ErrorCode::UnknownServerError, |(_, error)| *error);
        self.topics
            .iter()
            .map(|topic| TopicAnswered {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|(partition, refused)| (*partition, refused.unwrap_or_else(&mut next)))
                    .collect(),
            })
            .collect()
    }

    /// One error for all that the machine was to answer: the shard could not be asked.
    fn refuse(&self, error: ErrorCode) -> Vec<TopicAnswered> {
        let all = self.topics.iter().flat_map(|topic| &topic.partitions);
        let answers: Vec<_> = all.map(|(partition, _)| (TopicPartition::new("", *partition), error)).collect();
        self.answer(&answers)
    }

    /// The answer to OffsetCommit: the machine's, or one error if it could not be asked.
    #[must_use]
    pub fn offset_commit_response(
        &self,
        answers: Result<&[(TopicPartition, ErrorCode)], ErrorCode>,
    ) -> OffsetCommitResponse {
        let topics = answers.map_or_else(|error| self.refuse(error), |answers| self.answer(answers));
        let topics = topics.into_iter().map(|topic| OffsetCommitResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .into_iter()
                .map(|(partition_index, error)| OffsetCommitResponsePartition {
                    partition_index,
                    error_code: error.to_i16(),
                    ..OffsetCommitResponsePartition::default()
                })
                .collect(),
            ..OffsetCommitResponseTopic::default()
        });
        OffsetCommitResponse { topics: topics.collect(), ..OffsetCommitResponse::default() }
    }

    /// The answer to TxnOffsetCommit: the machine's, or one error if the transaction was refused or the shard could not be asked.
    #[must_use]
    pub fn txn_offset_commit_response(
        &self,
        answers: Result<&[(TopicPartition, ErrorCode)], ErrorCode>,
    ) -> TxnOffsetCommitResponse {
        let topics = answers.map_or_else(|error| self.refuse(error), |answers| self.answer(answers));
        let topics = topics.into_iter().map(|topic| TxnOffsetCommitResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .into_iter()
                .map(|(partition_index, error)| TxnOffsetCommitResponsePartition {
                    partition_index,
                    error_code: error.to_i16(),
                    ..TxnOffsetCommitResponsePartition::default()
                })
                .collect(),
            ..TxnOffsetCommitResponseTopic::default()
        });
        TxnOffsetCommitResponse { topics: topics.collect(), ..TxnOffsetCommitResponse::default() }
    }
}

/// OffsetCommit, versions 2 to 10. What [is all refused](Asked::is_all_refused) need not go to the machine.
#[must_use]
pub fn offset_commit(request: &OffsetCommitRequest, version: i16, topics: &dyn Topics) -> (OffsetCommit, Asked) {
    let by_id = version >= OFFSET_COMMIT_BY_ID;
    let mut asked = Asked::default();
    let mut offsets = Vec::new();
    // A topic of which nothing is asked has no place in the answer.
    for topic in request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index);
        let found = asked.look_up(topics, by_id, (&topic.name, topic.topic_id), partitions);
        let Some((name, topic_id)) = found else { continue };
        for partition in topic.partitions.iter().filter(|at| topics.has_partition(name.as_str(), at.partition_index)) {
            offsets.push(OffsetToCommit {
                topic_partition: TopicPartition::new(name.clone(), partition.partition_index),
                topic_id,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.clone(),
            });
        }
    }
    let commit = OffsetCommit {
        version,
        group: GroupId::from(&request.group_id),
        generation: request.generation_id_or_member_epoch,
        member: member_id(&request.member_id),
        instance: instance_id(request.group_instance_id.as_ref()),
        retention_ms: Some(request.retention_time_ms).filter(|retention_ms| *retention_ms != -1),
        offsets,
    };
    (commit, asked)
}

/// TxnOffsetCommit, versions 0 to 6. What [is all refused](Asked::is_all_refused) need not go to the machine.
#[must_use]
pub fn txn_offset_commit(
    request: &TxnOffsetCommitRequest,
    version: i16,
    topics: &dyn Topics,
) -> (TxnOffsetCommit, Asked) {
    let by_id = version >= TXN_OFFSET_COMMIT_BY_ID;
    let mut asked = Asked::default();
    let mut offsets = Vec::new();
    // A topic of which nothing is asked has no place in the answer.
    for topic in request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index);
        let found = asked.look_up(topics, by_id, (&topic.name, topic.topic_id), partitions);
        let Some((name, topic_id)) = found else { continue };
        for partition in topic.partitions.iter().filter(|at| topics.has_partition(name.as_str(), at.partition_index)) {
            offsets.push(OffsetToCommit {
                topic_partition: TopicPartition::new(name.clone(), partition.partition_index),
                topic_id,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.clone(),
            });
        }
    }
    let commit = TxnOffsetCommit {
        version,
        producer: ProducerIdentity::new(request.producer_id, request.producer_epoch),
        group: GroupId::from(&request.group_id),
        generation: request.generation_id_or_member_epoch,
        member: member_id(&request.member_id),
        instance: instance_id(request.group_instance_id.as_ref()),
        offsets,
    };
    (commit, asked)
}

/// What one group was asked in OffsetFetch, and what stands where in the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAsked {
    group: String,
    /// `None`: all topics.
    topics: Option<Vec<TopicAsked>>,
}

/// OffsetFetch, versions 1 to 10: a command for each group, which may be other shards'.
#[must_use]
pub fn offset_fetch(request: &OffsetFetchRequest, version: i16, topics: &dyn Topics) -> Vec<(OffsetFetch, FetchAsked)> {
    let require_stable = request.require_stable;
    if version < OFFSET_FETCH_OF_GROUPS {
        let asked = request.topics.as_ref().map(|asked| {
            let asked = asked.iter().map(|topic| (topic.name.as_str(), TopicId::ZERO, &topic.partition_indexes));
            asked.collect::<Vec<_>>()
        });
        return vec![fetch_of_group(&request.group_id, (None, -1), asked, require_stable, None)];
    }
    let by_id = (version >= OFFSET_FETCH_BY_ID).then_some(topics);
    let groups = request.groups.iter().map(|group| {
        let asked = group.topics.as_ref().map(|asked| {
            let asked = asked.iter().map(|topic| (topic.name.as_str(), topic.topic_id, &topic.partition_indexes));
            asked.collect::<Vec<_>>()
        });
        // Null and empty are not the same here.
        let who = (group.member_id.as_deref().map(MemberId::from), group.member_epoch);
        fetch_of_group(&group.group_id, who, asked, require_stable, by_id)
    });
    groups.collect()
}

fn fetch_of_group(
    group: &str,
    (member, epoch): (Option<MemberId>, i32),
    asked: Option<Vec<(&str, TopicId, &Vec<i32>)>>,
    require_stable: bool,
    by_id: Option<&dyn Topics>,
) -> (OffsetFetch, FetchAsked) {
    let mut wanted = Vec::new();
    let asked = asked.map(|asked| {
        let topics = asked.into_iter().map(|(name, topic_id, partitions)| {
            let known = match by_id {
                // An offset may be asked for wherever it may have been stored once.
                None => Ok(TopicName::from(name)),
                Some(topics) => topics.name_of(topic_id).ok_or(ErrorCode::UnknownTopicId),
            };
            if let Ok(name) = &known {
                wanted.extend(partitions.iter().map(|partition| OffsetToFetch {
                    topic_partition: TopicPartition::new(name.clone(), *partition),
                    topic_id,
                }));
            }
            let error = known.err();
            let partitions = partitions.iter().map(|partition| (*partition, error)).collect();
            TopicAsked { name: name.to_owned(), topic_id, partitions }
        });
        topics.collect::<Vec<_>>()
    });
    let partitions = asked.is_some().then_some(wanted);
    let fetch = OffsetFetch { group: GroupId::from(group), partitions, member, epoch, require_stable };
    (fetch, FetchAsked { group: group.to_owned(), topics: asked })
}

/// The answer to OffsetFetch, from each group's answer, or one error if its shard could not be asked.
#[must_use]
pub fn offset_fetch_response(
    groups: &[(FetchAsked, Result<Vec<FetchedOffset>, ErrorCode>)],
    version: i16,
    topics: &dyn Topics,
) -> OffsetFetchResponse {
    if version < OFFSET_FETCH_OF_GROUPS {
        let Some((asked, answer)) = groups.first() else { return OffsetFetchResponse::default() };
        let topics = asked.answer(answer, None);
        let topics = topics.into_iter().map(|(name, _, partitions)| OffsetFetchResponseTopic {
            name,
            partitions: partitions.into_iter().map(old_partition).collect(),
            ..OffsetFetchResponseTopic::default()
        });
        let error = answer.as_ref().err().copied().unwrap_or(ErrorCode::None);
        return OffsetFetchResponse {
            topics: topics.collect(),
            error_code: error.to_i16(),
            ..OffsetFetchResponse::default()
        };
    }
    let by_id = (version >= OFFSET_FETCH_BY_ID).then_some(topics);
    let groups = groups.iter().map(|(asked, answer)| OffsetFetchResponseGroup {
        group_id: asked.group.clone(),
        topics: match answer {
            Err(_) => Vec::new(),
            Ok(_) => asked
                .answer(answer, by_id)
                .into_iter()
                .map(|(name, topic_id, partitions)| OffsetFetchResponseTopics {
                    name,
                    topic_id,
                    partitions,
                    ..OffsetFetchResponseTopics::default()
                })
                .collect(),
        },
        error_code: answer.as_ref().err().copied().unwrap_or(ErrorCode::None).to_i16(),
        ..OffsetFetchResponseGroup::default()
    });
    OffsetFetchResponse { groups: groups.collect(), ..OffsetFetchResponse::default() }
}

type TopicFetched = (String, TopicId, Vec<OffsetFetchResponsePartitions>);

impl FetchAsked {
    fn answer(&self, answer: &Result<Vec<FetchedOffset>, ErrorCode>, by_id: Option<&dyn Topics>) -> Vec<TopicFetched> {
        let fetched = answer.as_deref().unwrap_or_default();
        let Some(asked) = &self.topics else { return all_topics(fetched, by_id) };
        let mut fetched = fetched.iter();
        let lost = answer.as_ref().err().copied().unwrap_or(ErrorCode::UnknownServerError);
        let mut next = |partition, refused: Option<ErrorCode>| match refused {
            Some(error) => no_offset(partition, error),
            None => fetched.next().map_or_else(|| no_offset(partition, lost), partition_of),
        };
        let topics = asked.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|(partition, refused)| next(*partition, *refused)).collect();
            (topic.name.clone(), topic.topic_id, partitions)
        });
        topics.collect()
    }
}

/// All that a group has, topic by topic. By id, a topic that is no more cannot be named.
fn all_topics(fetched: &[FetchedOffset], by_id: Option<&dyn Topics>) -> Vec<TopicFetched> {
    let mut all: Vec<TopicFetched> = Vec::new();
    for offset in fetched {
        let name = &offset.topic_partition.topic;
        let topic_id = match by_id.map(|topics| topics.id_of(name.as_str())) {
            None => TopicId::ZERO,
            Some(Some(id)) if offset.topic_id.is_zero() || offset.topic_id == id => id,
            Some(_) => continue,
        };
        match all.last_mut().filter(|(last, _, _)| last == name.as_str()) {
            Some((_, _, partitions)) => partitions.push(partition_of(offset)),
            None => all.push((name.to_string(), topic_id, vec![partition_of(offset)])),
        }
    }
    all
}

fn no_offset(partition_index: i32, error: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(String::new()),
        error_code: error.to_i16(),
        ..OffsetFetchResponsePartitions::default()
    }
}

fn partition_of(offset: &FetchedOffset) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        metadata: Some(offset.metadata.to_string()),
        ..no_offset(offset.topic_partition.partition, offset.error)
    }
}

fn old_partition(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
        ..OffsetFetchResponsePartition::default()
    }
}

/// OffsetDelete, version 0. What [is all refused](Asked::is_all_refused) need not go to the machine.
#[must_use]
pub fn offset_delete(request: &OffsetDeleteRequest, topics: &dyn Topics) -> (OffsetDelete, Asked) {
    let mut asked = Asked::default();
    let mut partitions = Vec::new();
    // A topic of which nothing is asked has no place in the answer.
    for topic in request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        let indexes = || topic.partitions.iter().map(|partition| partition.partition_index);
        let Some((name, _)) = asked.look_up(topics, false, (&topic.name, TopicId::ZERO), indexes()) else { continue };
        let there = indexes().filter(|partition| topics.has_partition(name.as_str(), *partition));
        partitions.extend(there.map(|partition| TopicPartition::new(name.clone(), partition)));
    }
    (OffsetDelete { group: GroupId::from(&request.group_id), partitions }, asked)
}

impl Asked {
    /// The answer to OffsetDelete: the machine's, or one error.
    #[must_use]
    pub fn offset_delete_response(
        &self,
        reply: &Result<Vec<(TopicPartition, ErrorCode)>, ErrorCode>,
    ) -> OffsetDeleteResponse {
        let answers = match reply {
            Ok(answers) => answers,
            Err(error) => {
                return OffsetDeleteResponse { error_code: error.to_i16(), ..OffsetDeleteResponse::default() };
            }
        };
        let topics = self.answer(answers).into_iter().map(|topic| OffsetDeleteResponseTopic {
            name: topic.name,
            partitions: topic
                .partitions
                .into_iter()
                .map(|(partition_index, error)| OffsetDeleteResponsePartition {
                    partition_index,
                    error_code: error.to_i16(),
                })
                .collect(),
        });
        OffsetDeleteResponse { topics: topics.collect(), ..OffsetDeleteResponse::default() }
    }
}

/// The answer to DescribeGroups, from all shards' answers.
#[must_use]
pub fn describe_groups_response(groups: &[DescribedGroup]) -> DescribeGroupsResponse {
    let groups = groups.iter().map(|group| describe_groups_response::DescribedGroup {
        error_code: group.error.to_i16(),
        error_message: group.message.clone(),
        group_id: group.group.to_string(),
        group_state: group.state.to_string(),
        protocol_type: group.protocol_type.clone(),
        protocol_data: group.protocol.clone(),
        members: group
            .members
            .iter()
            .map(|member| DescribedGroupMember {
                member_id: member.member.to_string(),
                group_instance_id: member.instance.clone().map(String::from),
                client_id: member.client_id.to_string(),
                client_host: member.client_host.to_string(),
                member_metadata: member.metadata.clone(),
                member_assignment: member.assignment.clone(),
                ..DescribedGroupMember::default()
            })
            .collect(),
        ..describe_groups_response::DescribedGroup::default()
    });
    DescribeGroupsResponse { groups: groups.collect(), ..DescribeGroupsResponse::default() }
}

/// The answer to ListGroups, from all shards' answers.
#[must_use]
pub fn list_groups_response(groups: &[ListedGroup]) -> ListGroupsResponse {
    let groups = groups.iter().map(|group| list_groups_response::ListedGroup {
        group_id: group.group.to_string(),
        protocol_type: group.protocol_type.clone(),
        group_state: group.state.to_string(),
        group_type: group.group_type.to_string(),
        ..list_groups_response::ListedGroup::default()
    });
    ListGroupsResponse { groups: groups.collect(), ..ListGroupsResponse::default() }
}

/// The answer to DeleteGroups, from all shards' answers.
#[must_use]
pub fn delete_groups_response(groups: &[(GroupId, ErrorCode)]) -> DeleteGroupsResponse {
    let results = groups.iter().map(|(group, error)| DeletableGroupResult {
        group_id: group.to_string(),
        error_code: error.to_i16(),
        ..DeletableGroupResult::default()
    });
    DeleteGroupsResponse { results: results.collect(), ..DeleteGroupsResponse::default() }
}
