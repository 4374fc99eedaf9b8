//! What a consumer asks its group's coordinator, as bytes: both protocols' requests, and the leader's division.
//!
//! **What it does not know**: when to ask, and what an answer means: the machines do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use atonce_client_core::classify::{Operation, Verdict, classify};
use atonce_client_core::consumer_group::{Beat, BeatReply, IdPartition, Interest};
use atonce_client_core::error::Refusal;
use atonce_client_core::membership::{
    GroupReply, GroupRequest, Joined, JoinedMember, LastAssignment, PROTOCOL_TYPE, RebalanceProtocol, Subscription,
    decode_subscription, encode_assignment, encode_subscription,
};
use atonce_kernel::{GroupInstanceId, MemberId, TopicName};
use atonce_protocol::messages::consumer_group_heartbeat_request::{ConsumerGroupHeartbeatRequest, TopicPartitions};
use atonce_protocol::messages::heartbeat_request::HeartbeatRequest;
use atonce_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use atonce_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use atonce_protocol::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use atonce_protocol::{ApiKey, EncodeError, ErrorCode};

use crate::assignor::{Assignor, MemberSubscription};
use crate::cluster::{CoordinatorOf, FindError};
use crate::consumer_host::{ConsumerHost, Divided};
use crate::link::Lost;
use crate::member::{MemberCall, MemberReply};

/// How much longer than the group waits for its members we wait for its coordinator.
const JOIN_GRACE: Duration = Duration::from_secs(5);

impl ConsumerHost {
    /// Asks the group's coordinator, looking it up if need be.
    pub(crate) async fn ask_coordinator(&self, call: MemberCall) -> Result<MemberReply, Lost> {
        let Some(group_id) = &self.settings.group else { return Err(Lost::unsent("there is no group")) };
        let of = CoordinatorOf::Group(group_id.as_str().to_owned());
        let node = match self.cluster.coordinator(&of, call.refresh()).await {
            Ok(node) => node,
            Err(FindError::Lost(lost)) => return Err(lost),
            Err(FindError::Refused { code, .. }) => {
                return match classify(Operation::FindCoordinator, code) {
                    Verdict::Fatal => Ok(refused(&call, code)),
                    Verdict::Done
                    | Verdict::Retry
                    | Verdict::RefreshThenRetry
                    | Verdict::Abort
                    | Verdict::Reinitialize => Err(Lost::unsent(format!("the coordinator is not known: {code}"))),
                };
            }
        };
        let group_id = group_id.as_str().to_owned();
        let result = match call.clone() {
            MemberCall::Classic(call) => self.ask_group(node, group_id, call.request).await.map(MemberReply::Classic),
            MemberCall::Consumer(call) => self.beat(node, group_id, call.beat).await.map(MemberReply::Consumer),
        };
        match result {
            Err(lost) if lost.is_unsupported => Ok(refused(&call, ErrorCode::UnsupportedVersion)),
            Err(lost) => {
                self.cluster.forget_coordinator(&of);
                Err(lost)
            }
            Ok(reply) => Ok(reply),
        }
    }

    /// A heartbeat of a KIP-848 group. What does not change is said only if the heartbeat is a full one.
    async fn beat(&self, node: i32, group_id: String, beat: Beat) -> Result<Result<BeatReply, Refusal>, Lost> {
        let settings = &self.settings;
        let member_id = match &self.lock().membership {
            Some(member) => member.group_metadata().member_id,
            None => return Err(Lost::unsent("there is no member")),
        };
        let mut request = ConsumerGroupHeartbeatRequest {
            group_id,
            member_id: member_id.into(),
            instance_id: settings.instance_id.as_ref().map(|it| it.as_str().to_owned()),
            rebalance_timeout_ms: -1,
            ..Default::default()
        };
        let is_leave = matches!(beat, Beat::Leave { .. });
        match beat {
            // -2: a static member that means to come back.
            Beat::Leave { is_temporary } => request.member_epoch = if is_temporary { -2 } else { -1 },
            Beat::Alive { member_epoch, is_full, owned } => {
                request.member_epoch = member_epoch;
                request.topic_partitions = owned.map(by_topic_id);
                if is_full {
                    request.rack_id = settings.rack.clone();
                    request.rebalance_timeout_ms = milliseconds(settings.max_poll_interval);
                    request.server_assignor = settings.remote_assignor.clone();
                    match &self.interest {
                        Some(Interest::Topics(topics)) => {
                            let topics = topics.iter().map(|topic| topic.as_str().to_owned()).collect();
                            request.subscribed_topic_names = Some(topics);
                        }
                        Some(Interest::Pattern(pattern)) => request.subscribed_topic_regex = Some(pattern.clone()),
                        None => {}
                    }
                }
            }
        }
        // Version 1 has patterns, and member ids made by the members.
        let least = if matches!(self.interest, Some(Interest::Pattern(_))) { 1 } else { 0 };
        let lane = if is_leave { self.call_lane } else { self.group_lane };
        let link = self.cluster.link(node, lane).await?;
        if link.versions().choose(ApiKey::ConsumerGroupHeartbeat, least..=1).is_none() {
            let message = Some(format!("the broker has no version {least} of it"));
            let code = ErrorCode::UnsupportedVersion;
            return Ok(Err(Refusal::with_message(Operation::ConsumerGroupHeartbeat, code, message)));
        }
        drop(link);
        let (response, _) = self.cluster.ask(node, lane, least..=1, |_| request).await?;
        let code = ErrorCode::from_wire(response.error_code);
        if code.is_error() {
            let message = response.error_message;
            return Ok(Err(Refusal::with_message(Operation::ConsumerGroupHeartbeat, code, message)));
        }
        Ok(Ok(BeatReply {
            member_epoch: response.member_epoch,
            heartbeat_interval: Duration::from_millis(
                u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(1),
            ),
            assignment: response.assignment.map(|assignment| {
                let topics = assignment.topic_partitions.into_iter();
                topics.flat_map(|it| it.partitions.into_iter().map(move |partition| (it.topic_id, partition))).collect()
            }),
        }))
    }

    async fn ask_group(&self, node: i32, group_id: String, request: GroupRequest) -> Result<GroupReply, Lost> {
        let settings = &self.settings;
        let group_instance_id = settings.instance_id.as_ref().map(|it| it.as_str().to_owned());
        match request {
            GroupRequest::Join { member_id, reason, last } => {
                let protocols = self.protocols(&last).map_err(|error| Lost::unsent(error.to_string()))?;
                let request = JoinGroupRequest {
                    group_id,
                    session_timeout_ms: milliseconds(settings.session_timeout),
                    rebalance_timeout_ms: milliseconds(settings.max_poll_interval),
                    member_id: member_id.into(),
                    group_instance_id,
                    protocol_type: PROTOCOL_TYPE.to_owned(),
                    protocols,
                    reason: Some(reason),
                    ..Default::default()
                };
                let timeout = settings.max_poll_interval.max(self.cluster.request_timeout()) + JOIN_GRACE;
                // Version 5 names static members.
                let (response, _) = self.cluster.ask_for(node, self.group_lane, 5..=9, timeout, |_| request).await?;
                let member_id = MemberId::from(response.member_id);
                Ok(GroupReply::Join(match ErrorCode::from_wire(response.error_code) {
                    ErrorCode::None => Ok(Joined {
                        generation_id: response.generation_id,
                        member_id,
                        leader: MemberId::from(response.leader),
                        skip_assignment: response.skip_assignment,
                        protocol_name: response.protocol_name,
                        members: response
                            .members
                            .into_iter()
                            .map(|member| JoinedMember {
                                member_id: MemberId::from(member.member_id),
                                instance_id: member.group_instance_id.map(GroupInstanceId::from),
                                metadata: member.metadata,
                            })
                            .collect(),
                    }),
                    code => Err((code, member_id)),
                }))
            }
            GroupRequest::Sync { generation_id, member_id, protocol_name, assignments } => {
                let assignor = settings.assignor(protocol_name.as_deref());
                let request = SyncGroupRequest {
                    group_id,
                    generation_id,
                    member_id: member_id.into(),
                    group_instance_id,
                    protocol_type: Some(PROTOCOL_TYPE.to_owned()),
                    protocol_name: assignor.map(|assignor| assignor.name().to_owned()),
                    assignments: assignments
                        .into_iter()
                        .map(|(member_id, assignment)| SyncGroupRequestAssignment {
                            member_id: member_id.into(),
                            assignment,
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                };
                let timeout = settings.max_poll_interval.max(self.cluster.request_timeout()) + JOIN_GRACE;
                let (response, _) = self.cluster.ask_for(node, self.group_lane, 3..=5, timeout, |_| request).await?;
                let code = ErrorCode::from_wire(response.error_code);
                Ok(GroupReply::Sync(code.into_result().map(|()| response.assignment)))
            }
            GroupRequest::Heartbeat { generation_id, member_id } => {
                let request = HeartbeatRequest {
                    group_id,
                    generation_id,
                    member_id: member_id.into(),
                    group_instance_id,
                    ..Default::default()
                };
                let (response, _) = self.cluster.ask(node, self.group_lane, 3..=4, |_| request).await?;
                Ok(GroupReply::Heartbeat(ErrorCode::from_wire(response.error_code)))
            }
            GroupRequest::Leave { member_id, reason } => {
                let request = LeaveGroupRequest {
                    group_id,
                    members: vec![MemberIdentity {
                        member_id: member_id.into(),
                        group_instance_id,
                        reason: Some(reason),
                        ..Default::default()
                    }],
                    ..Default::default()
                };
                // Not on the group's connection, which may be held by a JoinGroup.
                let (response, _) = self.cluster.ask(node, self.call_lane, 3..=5, |_| request).await?;
                let member = response.members.first().map_or(0, |member| member.error_code);
                let code = if response.error_code == 0 { member } else { response.error_code };
                Ok(GroupReply::Leave(ErrorCode::from_wire(code)))
            }
        }
    }

    /// What this member says to each of its assignors' leaders.
    fn protocols(&self, last: &LastAssignment) -> Result<Vec<JoinGroupRequestProtocol>, EncodeError> {
        let settings = &self.settings;
        let (owned, generation_id) = match settings.rebalance_protocol() {
            RebalanceProtocol::Eager => (Vec::new(), -1),
            RebalanceProtocol::Cooperative => (last.partitions.clone(), last.generation_id),
        };
        let protocol = |assignor: &Arc<dyn Assignor>| {
            let subscription = Subscription {
                topics: self.topics(),
                userdata: assignor.userdata_after(last),
                owned: owned.clone(),
                generation_id,
                rack_id: settings.rack.clone(),
            };
            let metadata = encode_subscription(&subscription)?;
            Ok(JoinGroupRequestProtocol { name: assignor.name().to_owned(), metadata, ..Default::default() })
        };
        settings.assignors.iter().map(protocol).collect()
    }

    /// Asks the assignor to divide the partitions of all topics that members want.
    pub(crate) async fn divide(&self, members: Vec<JoinedMember>) -> Result<Divided, Lost> {
        let mut subscriptions = Vec::with_capacity(members.len());
        let mut topics = BTreeSet::new();
        for member in members {
            // A member that cannot be understood gets nothing, and does not stop the others.
            let Ok(subscription) = decode_subscription(&member.metadata) else { continue };
            topics.extend(subscription.topics.iter().cloned());
            subscriptions.push(MemberSubscription {
                member_id: member.member_id,
                instance_id: member.instance_id,
                topics: subscription.topics,
                userdata: subscription.userdata,
                owned: subscription.owned,
                generation_id: subscription.generation_id,
                rack_id: subscription.rack_id,
            });
        }
        let topics: Vec<TopicName> = topics.into_iter().collect();
        self.cluster.refresh(Some(&topics)).await?;
        let topics = self.counts(&topics);
        let chosen = self.lock().membership.as_ref().and_then(|it| it.protocol_name().map(str::to_owned));
        let assignor = self.settings.assignor(chosen.as_deref()).ok_or_else(|| Lost::unsent("there is no assignor"))?;
        let assignments = assignor.assign(&topics, &subscriptions);
        let encoded: Result<Vec<_>, _> = assignments
            .into_iter()
            .map(|it| encode_assignment(&it.partitions, &it.userdata).map(|bytes| (it.member_id, bytes)))
            .collect();
        let assignments = encoded.map_err(|error| Lost::unsent(error.to_string()))?;
        Ok(Divided { assignments, topics })
    }
}

fn by_topic_id(owned: BTreeSet<IdPartition>) -> Vec<TopicPartitions> {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    for (topic_id, partition) in owned {
        if topics.last().is_none_or(|last| last.topic_id != topic_id) {
            topics.push(TopicPartitions { topic_id, ..Default::default() });
        }
        if let Some(last) = topics.last_mut() {
            last.partitions.push(partition);
        }
    }
    topics
}

fn refused(call: &MemberCall, code: ErrorCode) -> MemberReply {
    let request = match call {
        MemberCall::Classic(call) => &call.request,
        MemberCall::Consumer(_) => return MemberReply::Consumer(Err(Refusal::new(Operation::FindCoordinator, code))),
    };
    MemberReply::Classic(match request {
        GroupRequest::Join { .. } => GroupReply::Join(Err((code, MemberId::from("")))),
        GroupRequest::Sync { .. } => GroupReply::Sync(Err(code)),
        GroupRequest::Heartbeat { .. } => GroupReply::Heartbeat(code),
        GroupRequest::Leave { .. } => GroupReply::Leave(code),
    })
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
