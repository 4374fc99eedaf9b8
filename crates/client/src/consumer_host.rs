//! Runs the fetch machine and the membership machine of a consumer, and lets the user wait for what they have.
//!
//! **What it does not know**: what an answer means: the machines do. One driver task per consumer; fetches have
//! connections of their own, and so do heartbeats and calls, so that none waits for what a broker holds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atonce_client_core::classify::{Operation, Verdict};
use atonce_client_core::consumer_group::{ConsumerMembership, ConsumerMembershipConfig, Interest};
use atonce_client_core::error::Refusal;
use atonce_client_core::fetch::{
    EpochEnd, FETCHES_PER_NODE_MAX, FetchCall, FetchConfig, FetchError, FetchId, FetchReply, Fetched, Fetcher, Lookup,
    Outgoing, Position, ValidateCall,
};
use atonce_client_core::fetch_session::EPOCH_FINAL;
use atonce_client_core::membership::{Event, Membership, MembershipConfig};
use atonce_client_core::metadata::{Broker, Leader};
use atonce_client_core::transaction::GroupMetadata;
use atonce_kernel::chance::Chance;
use atonce_kernel::{GroupId, MemberId, Monotonic, Offset, ProducerId, TopicId, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use atonce_protocol::messages::fetch_response::FetchResponse;
use atonce_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use atonce_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::admin::{CommittedOffset, OffsetSpec, committed_offsets, list_offsets};
use crate::cluster::{Cluster, CoordinatorOf, FindError, Lane};
use crate::consumer::{ConsumerSettings, GroupProtocol, Positions};
use crate::error::{AdminError, ConsumerError};
use crate::link::Lost;
use crate::member::{Member, MemberReply};
use crate::metrics::Metrics;
use crate::producer_host::{seed, wall_clock};

/// How long to wait before what failed is asked again.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// How long the end of a consumer waits for brokers to have heard that its fetch sessions end.
const SESSION_END_WAIT: Duration = Duration::from_millis(500);

/// How often a leader looks whether its topics have got more partitions, and how often if one is missing.
const TOPICS_AGE_MAX: Duration = Duration::from_secs(300);
const MISSING_TOPICS_AGE_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct ConsumerHost {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) settings: ConsumerSettings,
    fetch_lanes: [Lane; FETCHES_PER_NODE_MAX],
    pub(crate) group_lane: Lane,
    pub(crate) call_lane: Lane,
    /// What is read as a member of the group; nothing for a consumer by assignment.
    pub(crate) interest: Option<Interest>,
    topics: Mutex<Vec<TopicName>>,
    inner: Mutex<Inner>,
    work: Notify,
    change: Notify,
}

pub(crate) struct Inner {
    pub(crate) fetcher: Fetcher,
    pub(crate) membership: Option<Member>,
    errors: VecDeque<ConsumerError>,
    pub(crate) is_stopped: bool,
    is_closed: bool,
    /// What the leader divided last, to see whether topics have changed since.
    divided: Option<BTreeMap<TopicName, i32>>,
    next_watch: Monotonic,
    is_watching: bool,
    /// Since when the group's partitions are this member's, counted in assignments.
    held_since: BTreeMap<TopicPartition, u64>,
    assignments: u64,
    /// Whether names of topic ids are being looked up, and from when on they may be again.
    is_naming: bool,
    next_naming: Monotonic,
}

impl std::fmt::Debug for ConsumerHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerHost").field("group", &self.settings.group).finish_non_exhaustive()
    }
}

impl ConsumerHost {
    /// Starts the driver. With topics it becomes a member of its group, else it reads what it is told.
    pub(crate) fn start(cluster: Arc<Cluster>, settings: ConsumerSettings, interest: Option<Interest>) -> Arc<Self> {
        let now = cluster.clock.now();
        let fetcher = Fetcher::new(FetchConfig {
            isolation: settings.isolation,
            offset_reset: settings.offset_reset,
            prefetch_bytes_max: settings.prefetch_bytes_max,
            retry_backoff: cluster.retry_backoff(),
        });
        let membership = match (&interest, &settings.group) {
            (Some(_), Some(group)) => Some(member(group, &settings, now)),
            (Some(_) | None, _) => None,
        };
        let inner = Inner {
            fetcher,
            membership,
            errors: VecDeque::new(),
            is_stopped: false,
            is_closed: false,
            divided: None,
            next_watch: now,
            is_watching: false,
            held_since: BTreeMap::new(),
            assignments: 0,
            is_naming: false,
            next_naming: now,
        };
        let host = Arc::new(Self {
            fetch_lanes: std::array::from_fn(|_| cluster.new_lane()),
            group_lane: cluster.new_lane(),
            call_lane: cluster.new_lane(),
            cluster,
            settings,
            topics: Mutex::new(match &interest {
                Some(Interest::Topics(topics)) => topics.clone(),
                Some(Interest::Pattern(_)) | None => Vec::new(),
            }),
            interest,
            inner: Mutex::new(inner),
            work: Notify::new(),
            change: Notify::new(),
        });
        tokio::spawn(drive(Arc::clone(&host)));
        host
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topics that this member of a classic group wants, now.
    pub(crate) fn topics(&self) -> Vec<TopicName> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on it wants these, and says so when it joins again.
    pub(crate) fn set_topics(&self, topics: Vec<TopicName>) {
        *self.topics.lock().unwrap_or_else(PoisonError::into_inner) = topics;
    }

    /// Wakes the driver.
    pub(crate) fn wake(&self) {
        self.work.notify_one();
    }

    /// Ends the driver.
    pub(crate) fn shut_down(&self) {
        self.lock().is_closed = true;
        self.work.notify_one();
    }

    /// Whether the driver has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Ends waiting calls, and all to come.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.change.notify_waiters();
    }

    /// When a call that begins now has waited long enough.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.settings.call_timeout
    }

    /// Looks until `look` has something, each time that something has changed; `None` at the deadline.
    pub(crate) async fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Inner) -> Option<T>,
    ) -> Option<T> {
        loop {
            let change = self.change.notified();
            tokio::pin!(change);
            change.as_mut().enable();
            {
                let mut inner = self.lock();
                if let Some(found) = look(&mut inner) {
                    return Some(found);
                }
                if inner.is_closed {
                    return None;
                }
            }
            match deadline {
                None => change.await,
                Some(deadline) => {
                    if tokio::time::timeout_at(deadline, change).await.is_err() {
                        return look(&mut self.lock());
                    }
                }
            }
        }
    }

    /// What went wrong while nobody waited for it.
    pub(crate) fn next_error(inner: &mut Inner) -> Option<ConsumerError> {
        if let Some(error) = inner.errors.pop_front() {
            return Some(error);
        }
        if let Some(error) = inner.fetcher.poll_error() {
            return Some(error.into());
        }
        let refusal = inner.membership.as_ref().and_then(Member::failure)?;
        Some(match (refusal.code(), refusal.operation()) {
            (ErrorCode::FencedInstanceId, _) => ConsumerError::Fenced(refusal.clone()),
            (ErrorCode::UnsupportedVersion, Operation::ConsumerGroupHeartbeat) => {
                ConsumerError::GroupProtocolNotOffered(refusal.clone())
            }
            _ => ConsumerError::Refused(refusal.clone()),
        })
    }

    /// Commits positions, waiting for the answer; asks again while the answer is no clear one.
    pub(crate) async fn commit(&self, positions: Positions) -> Result<(), ConsumerError> {
        let mut group = positions.current_group().ok_or(ConsumerError::NoGroup)?;
        if positions.is_empty() {
            return Ok(());
        }
        let (_, offsets) = positions.clone().into_parts();
        let of = CoordinatorOf::Group(group.group_id.as_str().to_owned());
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        for (topic_partition, position) in offsets {
            let name = topic_partition.topic.as_str();
            if topics.last().is_none_or(|last| last.name != name) {
                topics.push(OffsetCommitRequestTopic { name: name.to_owned(), ..Default::default() });
            }
            if let Some(last) = topics.last_mut() {
                last.partitions.push(OffsetCommitRequestPartition {
                    partition_index: topic_partition.partition,
                    committed_offset: position.offset,
                    committed_leader_epoch: position.leader_epoch,
                    committed_metadata: Some(position.metadata),
                    ..Default::default()
                });
            }
        }
        let mut request = OffsetCommitRequest {
            group_id: group.group_id.as_str().to_owned(),
            generation_id_or_member_epoch: group.generation_id,
            member_id: group.member_id.as_str().to_owned(),
            group_instance_id: group.instance_id.as_ref().map(|it| it.as_str().to_owned()),
            topics,
            ..Default::default()
        };
        let deadline = self.deadline();
        let mut refresh = false;
        loop {
            let attempt = tokio::time::timeout_at(deadline, self.try_commit(&of, refresh, &request)).await;
            let cause = match attempt {
                Ok(Ok(ErrorCode::None)) => return Ok(()),
                Ok(Ok(code)) => {
                    let refusal = Refusal::new(Operation::OffsetCommit, code);
                    match refusal.verdict() {
                        Verdict::Done => return Ok(()),
                        Verdict::Retry => refresh = false,
                        Verdict::RefreshThenRetry => refresh = true,
                        Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => {
                            let by_now = positions.current_group().ok_or(ConsumerError::NoGroup)?;
                            if !self.is_worth_repeating(code, &group, &by_now) {
                                return Err(self.commit_refused(&group, refusal));
                            }
                            refresh = false;
                            request.generation_id_or_member_epoch = by_now.generation_id;
                            request.member_id = by_now.member_id.as_str().to_owned();
                            group = by_now;
                        }
                    }
                    code.to_string()
                }
                Ok(Err(lost)) => {
                    refresh = true;
                    lost.cause
                }
                Err(_) => "no answer".to_owned(),
            };
            if Instant::now() + RETRY_BACKOFF >= deadline {
                let waited = self.settings.call_timeout;
                return Err(ConsumerError::TimedOut { operation: "OffsetCommit", waited, cause });
            }
            tokio::time::sleep(RETRY_BACKOFF).await;
        }
    }

    /// Whether offsets that the group refused may be taken as of the member that this one is by now: it has kept the
    /// partitions, and only the group's count has gone on.
    fn is_worth_repeating(&self, code: ErrorCode, sent: &GroupMetadata, by_now: &GroupMetadata) -> bool {
        let is_joining = self.lock().membership.as_ref().is_some_and(Member::is_joining_with_partitions);
        match code {
            ErrorCode::IllegalGeneration | ErrorCode::StaleMemberEpoch => sent != by_now || is_joining,
            ErrorCode::RebalanceInProgress => is_joining,
            _ => false,
        }
    }

    fn commit_refused(&self, sent: &GroupMetadata, refusal: Refusal) -> ConsumerError {
        let code = refusal.code();
        // A refusal of what the member was says nothing of what it is.
        if let Some(membership) = &mut self.lock().membership
            && membership.group_metadata() == *sent
        {
            membership.handle_commit_refused(code);
        }
        self.wake();
        if code == ErrorCode::FencedInstanceId {
            ConsumerError::Fenced(refusal)
        } else if refusal.verdict() == Verdict::Reinitialize {
            ConsumerError::CommitFailed(refusal)
        } else {
            ConsumerError::Refused(refusal)
        }
    }

    async fn try_commit(
        &self,
        of: &CoordinatorOf,
        refresh: bool,
        request: &OffsetCommitRequest,
    ) -> Result<ErrorCode, Lost> {
        let node = match self.cluster.coordinator(of, refresh).await {
            Ok(node) => node,
            Err(FindError::Lost(lost)) => return Err(lost),
            Err(FindError::Refused { code, .. }) => return Ok(code),
        };
        // Version 7 names static members; 10 names topics by id.
        let (response, _) = match self.cluster.ask(node, self.call_lane, 7..=9, |_| request.clone()).await {
            Err(lost) if lost.is_unsupported => return Ok(ErrorCode::UnsupportedVersion),
            answered => answered?,
        };
        let codes = response.topics.into_iter().flat_map(|topic| topic.partitions).map(|it| it.error_code);
        Ok(codes.map(ErrorCode::from_wire).find(|code| code.is_error()).unwrap_or(ErrorCode::None))
    }
}

impl From<FetchError> for ConsumerError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::NoOffset { topic_partition } => Self::NoOffset { topic_partition },
            FetchError::OutOfRange { topic_partition, offset } => Self::OffsetOutOfRange { topic_partition, offset },
            FetchError::Corrupt { topic_partition, offset, cause } => {
                Self::Corrupt { topic_partition, offset, reason: cause.to_string() }
            }
            FetchError::Refused { refusal, .. } => Self::Refused(refusal),
            error => Self::Unexpected { reason: error.to_string() },
        }
    }
}

// --- the driver ---

enum Completion {
    Fetched { id: FetchId, result: Result<FetchReply, Lost> },
    Validated { id: FetchId, result: Result<EpochEnds, Lost> },
    Grouped { asked: Operation, result: Result<MemberReply, Lost> },
    Assigned { result: Result<Divided, Lost> },
    LookedUp { lookups: Vec<Lookup>, asked_as: Option<GroupMetadata>, result: Result<Found, AdminError> },
    Refreshed,
    Watched,
    Named,
}

/// Where a new leader says that epochs ended.
type EpochEnds = Vec<(TopicPartition, Result<EpochEnd, ErrorCode>)>;

/// Places that were looked up, with the epochs of the records before them, -1 if not known; those that are not there have none.
type Found = BTreeMap<TopicPartition, (Offset, i32)>;

pub(crate) struct Divided {
    pub(crate) assignments: Vec<(MemberId, Bytes)>,
    pub(crate) topics: BTreeMap<TopicName, i32>,
}

async fn drive(host: Arc<ConsumerHost>) {
    let (completions, mut completed) = mpsc::unbounded_channel();
    let _end = End(Arc::clone(&host));
    while let Some(timeout) = host.pump(&completions) {
        tokio::select! {
            completion = completed.recv() => {
                let mut next = completion;
                while let Some(completion) = next {
                    host.handle(completion);
                    next = completed.try_recv().ok();
                }
            }
            () = host.work.notified() => {}
            () = host.cluster.clock.sleep_until(timeout) => {}
        }
    }
}

/// The end of the driver, however it comes: whoever waits for something is told that it will not come.
struct End(Arc<ConsumerHost>);

impl Drop for End {
    fn drop(&mut self) {
        let Self(host) = self;
        for lane in host.fetch_lanes.into_iter().chain([host.group_lane, host.call_lane]) {
            host.cluster.close_lane(lane);
        }
        host.lock().is_closed = true;
        host.change.notify_waiters();
    }
}

impl ConsumerHost {
    /// Sends all that the machines want sent now. Returns when to look again; `None` if the consumer has ended.
    #[expect(clippy::option_option, reason = "the outer one is the end, the inner one a time that may never come")]
    fn pump(self: &Arc<Self>, completions: &mpsc::UnboundedSender<Completion>) -> Option<Option<Monotonic>> {
        let now = self.cluster.clock.now();
        let mut fetches = Vec::new();
        let (call, members, lookups, watch, unnamed, timeout) = {
            let mut inner = self.lock();
            if inner.is_closed {
                return None;
            }
            let inner = &mut *inner;
            let unnamed = self.name_topics(inner, now);
            let membership = inner.membership.as_mut();
            let (call, members) = membership
                .map_or((None, None), |membership| (membership.poll_request(now), membership.poll_assigning(now)));
            let lookups = inner.fetcher.poll_lookup(now);
            self.cluster.with_metadata(|metadata| {
                while let Some(next) = inner.fetcher.poll_request(now, metadata) {
                    fetches.push(next);
                }
            });
            let watch = inner.should_watch(now);
            let group_timeout = inner.membership.as_ref().and_then(|membership| membership.poll_timeout(now));
            let watch_timeout =
                inner.divided.as_ref().map(|_| inner.next_watch).filter(|time| *time > now && !inner.is_watching);
            let naming_timeout = Some(inner.next_naming).filter(|time| *time > now && !inner.is_naming);
            let timeouts = [inner.fetcher.poll_timeout(now), group_timeout, watch_timeout, naming_timeout];
            (call, members, lookups, watch, unnamed, timeouts.into_iter().flatten().min())
        };
        self.change.notify_waiters();
        if let Some(call) = call {
            let asked = call.operation();
            self.spawn(completions, async move |host| Completion::Grouped {
                asked,
                result: host.ask_coordinator(call).await,
            });
        }
        if let Some(members) = members {
            self.spawn(completions, async |host| Completion::Assigned { result: host.divide(members).await });
        }
        if !lookups.is_empty() {
            self.spawn(completions, async |host| {
                let asked_as = Mutex::default();
                let result = host.look_up(&lookups, &asked_as).await;
                let asked_as = asked_as.into_inner().unwrap_or_else(PoisonError::into_inner);
                Completion::LookedUp { lookups, asked_as, result }
            });
        }
        for next in fetches {
            match next {
                Outgoing::Fetch(call) => self.spawn(completions, async |host| Completion::Fetched {
                    id: call.id,
                    result: host.fetch(call).await,
                }),
                Outgoing::Validate(call) => self.spawn(completions, async |host| Completion::Validated {
                    id: call.id,
                    result: host.validate(call).await,
                }),
                Outgoing::RefreshMetadata(topics) => self.spawn(completions, async move |host| {
                    let _ = host.cluster.refresh(Some(&topics)).await;
                    Completion::Refreshed
                }),
            }
        }
        if !unnamed.is_empty() {
            self.spawn(completions, async move |host| {
                let _ = host.cluster.refresh_ids(&unnamed).await;
                Completion::Named
            });
        }
        if watch {
            self.spawn(completions, async |host| {
                let _ = host.cluster.refresh(Some(&host.topics())).await;
                Completion::Watched
            });
        }
        Some(timeout)
    }

    /// Tells the member the names of its topics that are known by now; returns the ids to look up.
    fn name_topics(&self, inner: &mut Inner, now: Monotonic) -> Vec<TopicId> {
        let Some(Member::Consumer(member)) = &mut inner.membership else { return Vec::new() };
        self.cluster.with_metadata(|metadata| member.handle_names(|id| metadata.name_of(id).cloned()));
        let unnamed: Vec<TopicId> = member.unnamed_topics().into_iter().collect();
        if unnamed.is_empty() || inner.is_naming || now < inner.next_naming {
            return Vec::new();
        }
        inner.is_naming = true;
        unnamed
    }

    fn spawn<F>(
        self: &Arc<Self>,
        completions: &mpsc::UnboundedSender<Completion>,
        work: impl FnOnce(Arc<Self>) -> F + Send + 'static,
    ) where
        F: Future<Output = Completion> + Send + 'static,
    {
        let (host, completions) = (Arc::clone(self), completions.clone());
        let working = tokio::spawn(work(Arc::clone(self)));
        tokio::spawn(async move {
            match working.await {
                Ok(completion) => drop(completions.send(completion)),
                // The user's assignor panicked, or we did: nobody will answer, so nobody may wait.
                Err(_) => host.shut_down(),
            }
        });
    }

    fn handle(&self, completion: Completion) {
        let now = self.cluster.clock.now();
        let mut inner = self.lock();
        match completion {
            Completion::Fetched { id, result: Ok(reply) } => inner.fetcher.handle_reply(now, id, reply),
            Completion::Fetched { id, result: Err(lost) } => {
                tracing::debug!(cause = %lost, "no answer to a fetch");
                inner.fetcher.handle_lost(now, id);
            }
            Completion::Validated { id, result: Ok(replies) } => inner.fetcher.handle_validated(now, id, replies),
            Completion::Validated { id, result: Err(lost) } => {
                tracing::debug!(cause = %lost, "no answer about the ends of epochs");
                inner.fetcher.handle_validation_lost(now, id);
            }
            Completion::Grouped { asked, result } => {
                if let Some(membership) = &mut inner.membership {
                    match result {
                        Ok(reply) => membership.handle_reply(now, reply),
                        Err(lost) => {
                            tracing::debug!(cause = %lost, "no answer from the group's coordinator");
                            membership.handle_lost(now, asked);
                        }
                    }
                }
            }
            Completion::Assigned { result } => inner.handle_divided(now, &self.topics(), result),
            Completion::LookedUp { lookups, asked_as: _, result: Ok(found) } => {
                for lookup in &lookups {
                    inner.fetcher.handle_lookup(lookup, found.get(&lookup.topic_partition).copied());
                }
            }
            Completion::LookedUp { lookups, asked_as, result: Err(error) } => {
                for lookup in &lookups {
                    inner.fetcher.handle_lookup_failed(now, lookup);
                }
                if let Some(asked_as) = asked_as
                    && let Some(code) = membership_refused(&error)
                {
                    // The group has moved on. If it is still this member that it refuses, that is out of it and joins again.
                    if let Some(member) = &mut inner.membership
                        && member.group_metadata() == asked_as
                    {
                        member.handle_commit_refused(code);
                    }
                } else {
                    inner.errors.push_back(ConsumerError::from_lookup(error));
                }
            }
            Completion::Refreshed => inner.fetcher.handle_metadata(now),
            Completion::Named => {
                inner.is_naming = false;
                inner.next_naming = now + RETRY_BACKOFF;
            }
            Completion::Watched => {
                inner.is_watching = false;
                let wanted = self.topics();
                let topics = self.counts(&wanted);
                inner.handle_watched(now, &wanted, &topics);
            }
        }
    }

    /// Topics that exist, with their numbers of partitions.
    pub(crate) fn counts(&self, topics: &[TopicName]) -> BTreeMap<TopicName, i32> {
        self.cluster.with_metadata(|metadata| {
            topics.iter().filter_map(|topic| Some((topic.clone(), metadata.partition_count(topic)?))).collect()
        })
    }

    // --- places ---

    /// The member of a group of the consumer protocol that this one is by now.
    fn as_member(&self) -> Option<GroupMetadata> {
        match &self.lock().membership {
            Some(member @ Member::Consumer(_)) => Some(member.group_metadata()),
            Some(Member::Classic(_)) | None => None,
        }
    }

    async fn look_up(&self, lookups: &[Lookup], asked_as: &Mutex<Option<GroupMetadata>>) -> Result<Found, AdminError> {
        let mut found = Found::new();
        let committed: Vec<TopicPartition> = lookups
            .iter()
            .filter(|lookup| lookup.position == Position::Committed)
            .map(|lookup| lookup.topic_partition.clone())
            .collect();
        let timeout = self.settings.call_timeout;
        if let Some(group) = self.settings.group.as_ref().filter(|_| !committed.is_empty()) {
            // Stable, at either isolation: an offset that is about to be committed counts (KIP-447).
            let member = || {
                let member = self.as_member();
                asked_as.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&member);
                member
            };
            let offsets =
                committed_offsets(&self.cluster, self.call_lane, group, member, &committed, true, timeout).await?;
            let place = |(it, committed): (_, CommittedOffset)| (it, (committed.offset, committed.leader_epoch));
            found.extend(offsets.into_iter().map(place));
        }
        let specs: Vec<(TopicPartition, OffsetSpec)> = lookups
            .iter()
            .filter_map(|lookup| {
                let spec = match lookup.position {
                    Position::Earliest => OffsetSpec::Earliest,
                    Position::Latest => OffsetSpec::Latest,
                    Position::Timestamp(timestamp) => OffsetSpec::Timestamp(timestamp.0),
                    Position::Ago(duration) => OffsetSpec::Timestamp(
                        wall_clock().0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)),
                    ),
                    Position::Committed | Position::Offset(_) => return None,
                };
                Some((lookup.topic_partition.clone(), spec))
            })
            .collect();
        if !specs.is_empty() {
            let listed = list_offsets(&self.cluster, &specs, self.settings.isolation, timeout).await?;
            found.extend(
                listed
                    .into_iter()
                    .filter_map(|(topic_partition, listed)| Some((topic_partition, (listed.offset?, -1)))),
            );
        }
        Ok(found)
    }

    // --- records ---

    /// Asks a leader whether its log is the one that was read (KIP-320).
    async fn validate(&self, call: ValidateCall) -> Result<EpochEnds, Lost> {
        let partitions: Vec<TopicPartition> = call.partitions.iter().map(|it| it.topic_partition.clone()).collect();
        let mut topics: Vec<OffsetForLeaderTopic> = Vec::new();
        for it in call.partitions {
            let name = it.topic_partition.topic.as_str();
            if topics.last().is_none_or(|last| last.topic != name) {
                topics.push(OffsetForLeaderTopic { topic: name.to_owned(), ..Default::default() });
            }
            if let Some(last) = topics.last_mut() {
                last.partitions.push(OffsetForLeaderPartition {
                    partition: it.topic_partition.partition,
                    current_leader_epoch: it.current_leader_epoch,
                    leader_epoch: it.leader_epoch,
                    ..Default::default()
                });
            }
        }
        let request = OffsetForLeaderEpochRequest { replica_id: -1, topics, ..Default::default() };
        // Version 2 holds the leader's epoch against ours.
        let response = match self.cluster.ask(call.node, self.call_lane, 2..=4, |_| request).await {
            Ok((response, _)) => response,
            Err(lost) if lost.is_unsupported => {
                return Ok(partitions.into_iter().map(|it| (it, Err(ErrorCode::UnsupportedVersion))).collect());
            }
            Err(lost) => return Err(lost),
        };
        let ends = response.topics.into_iter().flat_map(|topic| {
            let name = TopicName::from(topic.topic);
            topic.partitions.into_iter().map(move |it| {
                let end = EpochEnd { leader_epoch: it.leader_epoch, end_offset: it.end_offset };
                let code = ErrorCode::from_wire(it.error_code);
                (TopicPartition::new(name.clone(), it.partition), code.into_result().map(|()| end))
            })
        });
        Ok(ends.collect())
    }

    async fn fetch(&self, call: FetchCall) -> Result<FetchReply, Lost> {
        let lane = self.fetch_lanes.get(call.slot).copied().unwrap_or(self.call_lane);
        let settings = &self.settings;
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (topic_partition, wanted) in call.request.partitions {
            let name = topic_partition.topic.as_str();
            if topics.last().is_none_or(|last| last.topic != name) {
                topics.push(FetchTopic { topic: name.to_owned(), topic_id: wanted.topic_id, ..Default::default() });
            }
            if let Some(last) = topics.last_mut() {
                last.partitions.push(FetchPartition {
                    partition: topic_partition.partition,
                    fetch_offset: wanted.offset,
                    // So that a leader that has been replaced, or is not the one yet that we take it for, says so (KIP-320).
                    current_leader_epoch: wanted.current_leader_epoch,
                    partition_max_bytes: settings.partition_bytes_max,
                    ..Default::default()
                });
            }
        }
        let mut forgotten: Vec<ForgottenTopic> = Vec::new();
        for (topic_partition, topic_id) in call.request.forgotten {
            let name = topic_partition.topic.as_str();
            if forgotten.last().is_none_or(|last| last.topic != name) {
                forgotten.push(ForgottenTopic { topic: name.to_owned(), topic_id, ..Default::default() });
            }
            if let Some(last) = forgotten.last_mut() {
                last.partitions.push(topic_partition.partition);
            }
        }
        let request = FetchRequest {
            max_wait_ms: i32::try_from(settings.fetch_wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: settings.fetch_bytes_max,
            isolation_level: settings.isolation.level(),
            session_id: call.request.session_id,
            session_epoch: call.request.session_epoch,
            rack_id: settings.rack.clone().unwrap_or_default(),
            topics,
            forgotten_topics_data: forgotten,
            ..Default::default()
        };
        // From version 13 on topics go by id.
        let highest = if call.request.is_by_id { i16::MAX } else { 12 };
        let timeout = self.cluster.request_timeout() + settings.fetch_wait_max;
        match self.cluster.ask_for(call.node, lane, 4..=highest, timeout, |_| request).await {
            Ok((response, version)) => self.read_fetched(response, version, &call.names),
            Err(lost) if lost.is_unsupported => {
                Ok(FetchReply { session_id: 0, result: Err(ErrorCode::UnsupportedVersion) })
            }
            Err(lost) => Err(lost),
        }
    }

    fn read_fetched(
        &self,
        response: FetchResponse,
        version: i16,
        names: &BTreeMap<TopicId, TopicName>,
    ) -> Result<FetchReply, Lost> {
        let session_id = response.session_id;
        if let Err(code) = ErrorCode::from_wire(response.error_code).into_result() {
            return Ok(FetchReply { session_id, result: Err(code) });
        }
        let mut replies = Vec::new();
        let endpoints: Vec<(i32, Broker)> = response
            .node_endpoints
            .into_iter()
            .map(|it| (it.node_id, Broker { host: it.host, port: it.port, rack: it.rack }))
            .collect();
        for topic in response.responses {
            let name = if version >= 13 { names.get(&topic.topic_id).cloned() } else { Some(topic.topic.into()) };
            let Some(name) = name else {
                return Err(Lost::sent(format!("an answer about topic {}, which was not asked for", topic.topic_id)));
            };
            for partition in topic.partitions {
                let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
                let hint =
                    Leader { node: partition.current_leader.leader_id, epoch: partition.current_leader.leader_epoch };
                self.cluster.learn_leader(&topic_partition, hint, endpoints.iter().cloned());
                let code = ErrorCode::from_wire(partition.error_code);
                let reply = code.into_result().map(|()| Fetched {
                    high_watermark: partition.high_watermark,
                    last_stable_offset: partition.last_stable_offset,
                    aborted: partition
                        .aborted_transactions
                        .unwrap_or_default()
                        .into_iter()
                        .map(|aborted| (ProducerId(aborted.producer_id), aborted.first_offset))
                        .collect(),
                    records: partition.records.unwrap_or_default(),
                    preferred_read_replica: Some(partition.preferred_read_replica).filter(|node| *node >= 0),
                });
                replies.push((topic_partition, reply));
            }
        }
        Ok(FetchReply { session_id, result: Ok(replies) })
    }

    /// Tells brokers that its fetch sessions are needed no more. One that does not hear it keeps them until it needs the room,
    /// so nobody waits for long.
    pub(crate) async fn end_sessions(&self) {
        let sessions = self.lock().fetcher.close_sessions();
        let mut ends = tokio::task::JoinSet::new();
        for (node, session_id) in sessions {
            let (cluster, lane) = (Arc::clone(&self.cluster), self.call_lane);
            let request = FetchRequest { session_id, session_epoch: EPOCH_FINAL, ..FetchRequest::default() };
            ends.spawn(async move { cluster.ask(node, lane, 7..=i16::MAX, |_| request).await.map(drop) });
        }
        let ended = async { while ends.join_next().await.is_some() {} };
        if tokio::time::timeout(SESSION_END_WAIT, ended).await.is_err() {
            tracing::debug!("no answer to the end of a fetch session");
        }
    }
}

impl Inner {
    fn handle_divided(&mut self, now: Monotonic, topics: &[TopicName], result: Result<Divided, Lost>) {
        let Some(membership) = &mut self.membership else { return };
        match result {
            Ok(divided) => {
                membership.handle_assignments(divided.assignments);
                self.next_watch = now + watch_interval(topics, &divided.topics);
                self.divided = Some(divided.topics);
            }
            Err(lost) => {
                tracing::debug!(cause = %lost, "topics cannot be looked up for an assignment");
                membership.handle_assigning_failed(now);
            }
        }
    }

    /// Whether to look at the topics again. Only leaders need to: they divided what they knew.
    fn should_watch(&mut self, now: Monotonic) -> bool {
        let is_leader = self.membership.as_ref().is_some_and(Member::is_leader);
        let is_due = is_leader && self.divided.is_some() && !self.is_watching && now >= self.next_watch;
        self.is_watching |= is_due;
        is_due
    }

    fn handle_watched(&mut self, now: Monotonic, topics: &[TopicName], counts: &BTreeMap<TopicName, i32>) {
        self.next_watch = now + watch_interval(topics, counts);
        let has_changed = self
            .divided
            .as_ref()
            .is_some_and(|divided| topics.iter().any(|topic| divided.get(topic) != counts.get(topic)));
        if has_changed && let Some(membership) = &mut self.membership {
            membership.enforce_rebalance();
            self.divided = None;
        }
    }

    /// What the group says next, and what that makes of the partitions that are read.
    pub(crate) fn next_group_event(&mut self, metrics: &Metrics) -> Option<Event> {
        let event = self.membership.as_mut()?.poll_event()?;
        match &event {
            // What was held all the time is read on where it is; in eager rebalances nothing was.
            Event::Assigned(partitions, _) => {
                self.fetcher.retain(|it| partitions.contains(it));
                self.held_since.retain(|it, _| partitions.contains(it));
                self.assignments += 1;
                metrics.handle_assigned();
                for topic_partition in partitions {
                    if !self.fetcher.is_assigned(topic_partition) {
                        self.fetcher.assign(topic_partition.clone(), Position::Committed);
                        self.held_since.insert(topic_partition.clone(), self.assignments);
                    }
                }
            }
            // Positions stay to be looked at until the user calls again.
            Event::Revoking(_) => {}
            Event::Lost(_) => {
                self.fetcher.unassign_all();
                self.held_since.clear();
            }
        }
        Some(event)
    }

    /// Counts what the member was given; a batch that is handed out now bears it.
    pub(crate) fn stamp(&self) -> u64 {
        self.assignments
    }

    /// Whether a partition has been the member's all the time since a stamp was taken.
    pub(crate) fn is_held_since(&self, topic_partition: &TopicPartition, stamp: u64) -> bool {
        self.held_since.get(topic_partition).is_some_and(|since| *since <= stamp)
    }
}

/// The code, if offsets were refused for who asked, and not for what.
fn membership_refused(error: &AdminError) -> Option<ErrorCode> {
    match error {
        AdminError::Refused { refusal, .. } if refusal.operation() == Operation::OffsetFetch => {
            let is_of_the_member = matches!(
                refusal.code(),
                ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::StaleMemberEpoch
            );
            is_of_the_member.then(|| refusal.code())
        }
        AdminError::Refused { .. }
        | AdminError::TimedOut { .. }
        | AdminError::Unsupported { .. }
        | AdminError::Closed => None,
    }
}

/// A topic that is not there is looked for more often.
fn watch_interval(topics: &[TopicName], counts: &BTreeMap<TopicName, i32>) -> Duration {
    let is_missing = topics.iter().any(|topic| !counts.contains_key(topic));
    if is_missing { MISSING_TOPICS_AGE_MAX } else { TOPICS_AGE_MAX }
}

fn member(group_id: &GroupId, settings: &ConsumerSettings, now: Monotonic) -> Member {
    match settings.group_protocol {
        GroupProtocol::Classic => {
            let config = MembershipConfig {
                group_id: group_id.clone(),
                instance_id: settings.instance_id.clone(),
                session_timeout: settings.session_timeout,
                heartbeat_interval: settings.heartbeat_interval,
                max_poll_interval: settings.max_poll_interval,
                retry_backoff: RETRY_BACKOFF,
                rebalance_protocol: settings.rebalance_protocol(),
            };
            Member::Classic(Membership::new(config, now))
        }
        GroupProtocol::Consumer => {
            let config = ConsumerMembershipConfig {
                group_id: group_id.clone(),
                member_id: MemberId::from(Chance::from_seed(seed()).uuid().to_string()),
                instance_id: settings.instance_id.clone(),
                max_poll_interval: settings.max_poll_interval,
                retry_backoff: RETRY_BACKOFF,
            };
            Member::Consumer(ConsumerMembership::new(config, now))
        }
    }
}
