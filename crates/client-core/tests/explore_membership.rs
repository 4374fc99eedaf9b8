//! Members of a classic group against a model of its coordinator, over a network that loses and delays, with users who
//! work, stay away and crash: no partition is ever two members' who may both commit, and in the end all are shared evenly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use atonce_client_core::membership::{
    Event, GroupReply, GroupRequest, Joined, JoinedMember, LastAssignment, Membership, MembershipConfig,
    RebalanceProtocol, State, Subscription, decode_subscription, encode_assignment, encode_subscription,
};
use atonce_client_core::sticky::{self, Claim};
use atonce_kernel::chance::Chance;
use atonce_kernel::{MemberId, Monotonic, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

const PARTITIONS: i32 = 6;
const CLIENTS: usize = 3;
const SESSION: Duration = Duration::from_secs(6);
const AWAY_MAX: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(100);

// --- the coordinator, as Kafka's is ---

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Empty,
    Preparing { until: Monotonic },
    Completing,
    Stable,
}

struct Member {
    metadata: Bytes,
    has_joined: bool,
    /// Whose JoinGroup or SyncGroup is held; none if he gave up waiting.
    waiting: Option<usize>,
    wants_sync: bool,
    session_end: Monotonic,
    assignment: Bytes,
}

struct Coordinator {
    phase: Phase,
    generation_id: i32,
    members: BTreeMap<MemberId, Member>,
    pending: BTreeSet<MemberId>,
    leader: MemberId,
    ids: u32,
}

impl Coordinator {
    fn new() -> Self {
        let leader = MemberId::from("");
        Self {
            phase: Phase::Empty,
            generation_id: 0,
            members: BTreeMap::new(),
            pending: BTreeSet::new(),
            leader,
            ids: 0,
        }
    }

    fn accepts(&self, member_id: &MemberId, generation_id: i32) -> bool {
        self.members.contains_key(member_id) && generation_id == self.generation_id
    }

    fn prepare(&mut self, now: Monotonic) -> Vec<(usize, GroupReply)> {
        let mut replies = Vec::new();
        for member in self.members.values_mut() {
            if std::mem::take(&mut member.wants_sync)
                && let Some(client) = member.waiting.take()
            {
                replies.push((client, GroupReply::Sync(Err(ErrorCode::RebalanceInProgress))));
            }
            member.has_joined = false;
        }
        self.phase = Phase::Preparing { until: now + AWAY_MAX };
        replies
    }

    fn handle(
        &mut self,
        now: Monotonic,
        client: usize,
        request: GroupRequest,
        metadata: &Bytes,
    ) -> Vec<(usize, GroupReply)> {
        let check = |it: &Self, member_id: &MemberId, generation_id: i32| {
            if !it.members.contains_key(member_id) {
                ErrorCode::UnknownMemberId
            } else if generation_id != it.generation_id {
                ErrorCode::IllegalGeneration
            } else {
                ErrorCode::None
            }
        };
        match request {
            GroupRequest::Join { member_id, .. } => self.join(now, client, member_id, metadata),
            GroupRequest::Sync { generation_id, member_id, assignments, .. } => {
                match check(self, &member_id, generation_id) {
                    ErrorCode::None => self.sync(now, client, &member_id, assignments),
                    code => vec![(client, GroupReply::Sync(Err(code)))],
                }
            }
            GroupRequest::Heartbeat { generation_id, member_id } => {
                let mut code = check(self, &member_id, generation_id);
                if let Some(member) = self.members.get_mut(&member_id) {
                    member.session_end = now + SESSION;
                }
                if code == ErrorCode::None && matches!(self.phase, Phase::Preparing { .. }) {
                    code = ErrorCode::RebalanceInProgress;
                }
                vec![(client, GroupReply::Heartbeat(code))]
            }
            GroupRequest::Leave { member_id, .. } => {
                let mut replies = self.remove(now, &member_id);
                replies.push((client, GroupReply::Leave(ErrorCode::None)));
                replies
            }
        }
    }

    fn join(
        &mut self,
        now: Monotonic,
        client: usize,
        member_id: MemberId,
        metadata: &Bytes,
    ) -> Vec<(usize, GroupReply)> {
        if member_id.as_str().is_empty() {
            self.ids += 1;
            let member_id = MemberId::from(format!("m{}", self.ids));
            self.pending.insert(member_id.clone());
            return vec![(client, GroupReply::Join(Err((ErrorCode::MemberIdRequired, member_id))))];
        }
        if !self.pending.remove(&member_id) && !self.members.contains_key(&member_id) {
            return vec![(client, GroupReply::Join(Err((ErrorCode::UnknownMemberId, MemberId::from("")))))];
        }
        let mut replies = match self.phase {
            Phase::Preparing { .. } => Vec::new(),
            Phase::Empty | Phase::Completing | Phase::Stable => self.prepare(now),
        };
        self.members.insert(
            member_id,
            Member {
                metadata: metadata.clone(),
                has_joined: true,
                waiting: Some(client),
                wants_sync: false,
                session_end: now + SESSION,
                assignment: Bytes::new(),
            },
        );
        replies.extend(self.complete(now));
        replies
    }

    fn complete(&mut self, now: Monotonic) -> Vec<(usize, GroupReply)> {
        let Phase::Preparing { until } = self.phase else { return Vec::new() };
        if now >= until {
            self.members.retain(|_, member| member.has_joined);
        }
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return Vec::new();
        }
        if !self.members.values().all(|member| member.has_joined) {
            return Vec::new();
        }
        self.generation_id += 1;
        self.phase = Phase::Completing;
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().expect("there are members").clone();
        }
        let joined: Vec<JoinedMember> = self
            .members
            .iter()
            .map(|(member_id, member)| JoinedMember {
                member_id: member_id.clone(),
                instance_id: None,
                metadata: member.metadata.clone(),
            })
            .collect();
        let mut replies = Vec::new();
        for (member_id, member) in &mut self.members {
            member.session_end = now + SESSION;
            member.assignment = Bytes::new();
            let Some(client) = member.waiting.take() else { continue };
            replies.push((
                client,
                GroupReply::Join(Ok(Joined {
                    generation_id: self.generation_id,
                    member_id: member_id.clone(),
                    leader: self.leader.clone(),
                    members: if *member_id == self.leader { joined.clone() } else { Vec::new() },
                    skip_assignment: false,
                    protocol_name: None,
                })),
            ));
        }
        replies
    }

    fn sync(
        &mut self,
        now: Monotonic,
        client: usize,
        member_id: &MemberId,
        assignments: Vec<(MemberId, Bytes)>,
    ) -> Vec<(usize, GroupReply)> {
        let member = self.members.get_mut(member_id).expect("was checked");
        member.session_end = now + SESSION;
        match self.phase {
            Phase::Empty | Phase::Preparing { .. } => {
                return vec![(client, GroupReply::Sync(Err(ErrorCode::RebalanceInProgress)))];
            }
            Phase::Stable => return vec![(client, GroupReply::Sync(Ok(member.assignment.clone())))],
            Phase::Completing => {}
        }
        member.wants_sync = true;
        member.waiting = Some(client);
        if *member_id != self.leader {
            return Vec::new();
        }
        for (member_id, assignment) in assignments {
            if let Some(member) = self.members.get_mut(&member_id) {
                member.assignment = assignment;
            }
        }
        self.phase = Phase::Stable;
        let members = self.members.values_mut();
        members
            .filter_map(|member| std::mem::take(&mut member.wants_sync).then_some(member))
            .filter_map(|member| Some((member.waiting.take()?, GroupReply::Sync(Ok(member.assignment.clone())))))
            .collect()
    }

    fn remove(&mut self, now: Monotonic, member_id: &MemberId) -> Vec<(usize, GroupReply)> {
        if self.members.remove(member_id).is_none() {
            return Vec::new();
        }
        let mut replies = match self.phase {
            Phase::Preparing { .. } | Phase::Empty => Vec::new(),
            Phase::Completing | Phase::Stable => self.prepare(now),
        };
        replies.extend(self.complete(now));
        replies
    }

    fn pass(&mut self, now: Monotonic) -> Vec<(usize, GroupReply)> {
        let holds_join = |it: &Member, phase: Phase| it.has_joined && matches!(phase, Phase::Preparing { .. });
        let expired: Vec<MemberId> = self
            .members
            .iter()
            .filter(|(_, member)| now >= member.session_end && !holds_join(member, self.phase))
            .map(|(member_id, _)| member_id.clone())
            .collect();
        let mut replies: Vec<_> = expired.iter().flat_map(|member_id| self.remove(now, member_id)).collect();
        replies.extend(self.complete(now));
        replies
    }
}

// --- the world ---

/// A request on its way, and what the member said of itself in it.
struct Call {
    request: GroupRequest,
    metadata: Bytes,
    arrives: Monotonic,
    has_arrived: bool,
    gives_up: Monotonic,
}

struct Client {
    membership: Membership,
    call: Option<Call>,
    reply: Option<(Monotonic, GroupReply)>,
    is_inside: bool,
    back_at: Monotonic,
}

struct World {
    protocol: RebalanceProtocol,
    now: Monotonic,
    coordinator: Coordinator,
    clients: Vec<Client>,
    chance: Chance,
    is_calm: bool,
    assignments: usize,
}

impl World {
    fn new(protocol: RebalanceProtocol, seed: u64) -> Self {
        let mut world = Self {
            protocol,
            now: Monotonic::START,
            coordinator: Coordinator::new(),
            clients: Vec::new(),
            chance: Chance::from_seed(seed),
            is_calm: false,
            assignments: 0,
        };
        world.clients = (0..CLIENTS).map(|_| world.client()).collect();
        world
    }

    fn client(&self) -> Client {
        let config = MembershipConfig {
            group_id: "g".into(),
            instance_id: None,
            session_timeout: SESSION,
            heartbeat_interval: Duration::from_secs(1),
            max_poll_interval: AWAY_MAX,
            retry_backoff: Duration::from_millis(100),
            rebalance_protocol: self.protocol,
        };
        let membership = Membership::new(config, self.now);
        Client { membership, call: None, reply: None, is_inside: false, back_at: self.now }
    }

    fn metadata(&self, last: &LastAssignment) -> Bytes {
        let is_cooperative = self.protocol == RebalanceProtocol::Cooperative;
        let subscription = Subscription {
            topics: vec!["t".into()],
            userdata: Bytes::new(),
            owned: if is_cooperative { last.partitions.clone() } else { Vec::new() },
            generation_id: if is_cooperative { last.generation_id } else { -1 },
            rack_id: None,
        };
        encode_subscription(&subscription).expect("is small")
    }

    fn divide(members: &[JoinedMember]) -> Vec<(MemberId, Bytes)> {
        let subscriptions: Vec<Subscription> =
            members.iter().map(|it| decode_subscription(&it.metadata).expect("is ours")).collect();
        let claims: Vec<Claim> = subscriptions
            .iter()
            .map(|it| Claim {
                topics: it.topics.iter().cloned().collect(),
                owned: it.owned.clone(),
                generation_id: it.generation_id,
            })
            .collect();
        let topics = BTreeMap::from([(TopicName::from("t"), PARTITIONS)]);
        let mut assigned = sticky::assign(&topics, &claims);
        let owned: Vec<&[TopicPartition]> = subscriptions.iter().map(|it| it.owned.as_slice()).collect();
        sticky::hold_back_transfers(&mut assigned, &owned);
        let encode = |(member, partitions): (&JoinedMember, Vec<TopicPartition>)| {
            (member.member_id.clone(), encode_assignment(&partitions, &Bytes::new()).expect("is small"))
        };
        members.iter().zip(assigned).map(encode).collect()
    }

    fn delay(&mut self) -> Duration {
        let most = if self.is_calm { 1 } else { 4 };
        STEP * u32::try_from(self.chance.below(most)).expect("is small")
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        for (client, reply) in self.coordinator.pass(self.now) {
            self.send_back(client, reply);
        }
        for place in 0..CLIENTS {
            if !self.is_calm && self.chance.one_in(1, 800) {
                // Killed, and started again: its session must end by itself.
                self.clients[place] = self.client();
            }
            self.user(place);
            self.network(place);
            self.machine(place);
            self.check();
        }
    }

    fn user(&mut self, place: usize) {
        let (now, is_calm) = (self.now, self.is_calm);
        let away = match self.chance.below(40) {
            _ if is_calm => STEP,
            0 => Duration::from_secs(25),
            1..10 => Duration::from_secs(2),
            _ => STEP,
        };
        let client = &mut self.clients[place];
        if !client.is_inside && now >= client.back_at {
            client.membership.handle_user_called();
            client.is_inside = true;
        }
        if !client.is_inside {
            return;
        }
        match client.membership.poll_event() {
            Some(Event::Assigned(..)) => {
                self.assignments += 1;
            }
            Some(Event::Revoking(partitions)) => {
                assert!(partitions.iter().all(|it| client.membership.holds(it)), "he may commit them still");
            }
            Some(Event::Lost(partitions)) => {
                assert!(!partitions.iter().any(|it| client.membership.holds(it)));
            }
            None if self.chance.one_in(1, 3) => {}
            None => return,
        }
        client.is_inside = false;
        client.back_at = now + away;
        client.membership.handle_user_left(now);
    }

    fn send_back(&mut self, place: usize, reply: GroupReply) {
        let due = self.now + self.delay();
        let is_lost = !self.is_calm && self.chance.one_in(1, 30);
        let client = &mut self.clients[place];
        // Whoever does not wait any more, or is another process by now, gets nothing.
        let asked = client.call.as_ref().filter(|call| call.has_arrived).map(|call| call.request.operation());
        let answered = match reply {
            GroupReply::Join(_) => atonce_client_core::classify::Operation::JoinGroup,
            GroupReply::Sync(_) => atonce_client_core::classify::Operation::SyncGroup,
            GroupReply::Heartbeat(_) => atonce_client_core::classify::Operation::Heartbeat,
            GroupReply::Leave(_) => atonce_client_core::classify::Operation::LeaveGroup,
        };
        if !is_lost && asked == Some(answered) && client.reply.is_none() {
            client.reply = Some((due, reply));
        }
    }

    fn network(&mut self, place: usize) {
        let now = self.now;
        let client = &mut self.clients[place];
        if client.reply.as_ref().is_some_and(|(due, _)| now >= *due) {
            let (_, reply) = client.reply.take().expect("is there");
            client.call = None;
            return client.membership.handle_reply(now, reply);
        }
        let Some(call) = &mut client.call else { return };
        if now >= call.gives_up {
            let asked = call.request.operation();
            client.call = None;
            client.reply = None;
            return client.membership.handle_lost(now, asked);
        }
        if !call.has_arrived && now >= call.arrives {
            call.has_arrived = true;
            let (request, metadata) = (call.request.clone(), call.metadata.clone());
            if self.is_calm || !self.chance.one_in(1, 30) {
                for (client, reply) in self.coordinator.handle(now, place, request, &metadata) {
                    self.send_back(client, reply);
                }
            }
        }
    }

    fn machine(&mut self, place: usize) {
        let now = self.now;
        if let Some(members) = self.clients[place].membership.poll_assigning(now) {
            self.clients[place].membership.handle_assignments(Self::divide(&members));
        }
        if let Some(call) = self.clients[place].membership.poll_request(now) {
            let metadata = match &call.request {
                GroupRequest::Join { last, .. } => self.metadata(last),
                GroupRequest::Sync { .. } | GroupRequest::Heartbeat { .. } | GroupRequest::Leave { .. } => Bytes::new(),
            };
            let is_held = matches!(call.request, GroupRequest::Join { .. } | GroupRequest::Sync { .. });
            let patience = if is_held { AWAY_MAX + Duration::from_secs(5) } else { Duration::from_secs(2) };
            let arrives = now + self.delay();
            let call = Call { request: call.request, metadata, arrives, has_arrived: false, gives_up: now + patience };
            self.clients[place].call = Some(call);
        }
    }

    /// Of those whose commits the group takes now, no two hold one partition.
    fn check(&self) {
        for partition in 0..PARTITIONS {
            let topic_partition = TopicPartition::new("t", partition);
            let holders: Vec<usize> = (0..CLIENTS)
                .filter(|place| {
                    let membership = &self.clients[*place].membership;
                    let metadata = membership.group_metadata();
                    membership.holds(&topic_partition)
                        && self.coordinator.accepts(&metadata.member_id, metadata.generation_id)
                })
                .collect();
            assert!(holders.len() <= 1, "{partition} is held by {holders:?}, who all may commit");
        }
    }

    fn is_settled(&self) -> bool {
        self.clients.iter().all(|it| *it.membership.state() == State::Stable && it.membership.has_no_event())
            && self.coordinator.phase == Phase::Stable
            && self.coordinator.members.len() == CLIENTS
    }

    fn run(&mut self) {
        for _ in 0..1500 {
            self.step();
        }
        self.is_calm = true;
        let calm = self.now;
        while !self.is_settled() {
            self.step();
            assert!(self.now.since(calm) < Duration::from_secs(300), "the group does not settle");
        }
        let held = |place: &usize| {
            let holds = |it: &i32| self.clients[*place].membership.holds(&TopicPartition::new("t", *it));
            (0..PARTITIONS).filter(holds).collect::<Vec<_>>()
        };
        let shares: Vec<Vec<i32>> = (0..CLIENTS).map(|place| held(&place)).collect();
        let all: BTreeSet<i32> = shares.iter().flatten().copied().collect();
        assert_eq!(all.len(), usize::try_from(PARTITIONS).expect("fits"), "{shares:?}");
        assert!(shares.iter().all(|share| share.len() == 2), "{shares:?}");
    }
}

fn check(protocol: RebalanceProtocol) {
    let mut assignments = 0;
    for seed in 0..60 {
        let mut world = World::new(protocol, seed);
        world.run();
        assignments += world.assignments;
    }
    assert!(assignments > 1000, "there was something to survive: {assignments}");
}

#[test]
fn an_eager_group_never_gives_a_partition_to_two_and_settles() {
    check(RebalanceProtocol::Eager);
}

#[test]
fn a_cooperative_group_never_gives_a_partition_to_two_and_settles() {
    check(RebalanceProtocol::Cooperative);
}
