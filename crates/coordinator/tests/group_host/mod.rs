//! A host for one group coordinator, as small as one can be: a list of entries for a log, a clock that is set by hand.
//! All tests of the group coordinator run on it.
//!
//! It does to every record what a log would: encodes it, decodes it, and applies what was decoded. After each command it checks
//! what must hold whatever happens: [`Host::check`].

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atonce_coordinator::group::classic::{Classic, JoinProtocol, State, Waiting};
use atonce_coordinator::group::command::{
    Heartbeat, JoinGroup, LeaveGroup, MemberIdentity, OffsetCommit, OffsetFetch, OffsetToCommit, OffsetToFetch,
    SyncGroup, TxnOffsetCommit,
};
use atonce_coordinator::group::consumer::MemberState;
use atonce_coordinator::group::consumer::topics::{TopicShape, TopicsImage};
use atonce_coordinator::group::reply::{JoinRefused, Joined};
use atonce_coordinator::group::{Command, GroupConfig, GroupCoordinator, Note, Record, Reply};
use atonce_coordinator::{Context, Decision, Entry, Shard, Waiter};
use atonce_kernel::{
    GroupId, GroupInstanceId, MemberId, Outcome, ProducerId, ProducerIdentity, Timestamp, TopicName, TopicPartition,
    Uuid,
};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

/// What stands in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a log in a test is short")]
pub(crate) enum Logged {
    Record { record: Record, producer: Option<ProducerIdentity>, timestamp: Timestamp },
    Marker { producer: ProducerIdentity, outcome: Outcome },
}

/// A shard with its log.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    pub(crate) shard: GroupCoordinator,
    pub(crate) log: Vec<Logged>,
    pub(crate) now: Timestamp,
    pub(crate) last_waiter: Waiter,
    /// Requests without an answer.
    pub(crate) waiting: BTreeSet<Waiter>,
    config: GroupConfig,
}

impl Host {
    pub(crate) fn new(config: GroupConfig) -> Self {
        Self {
            shard: GroupCoordinator::new(config.clone()),
            log: Vec::new(),
            now: Timestamp(1_000_000),
            last_waiter: Waiter(0),
            waiting: BTreeSet::new(),
            config,
        }
    }

    /// Puts one command to the shard, and takes in what it decides.
    pub(crate) fn ask(&mut self, command: &Command) -> Decision<GroupCoordinator> {
        self.last_waiter = Waiter(self.last_waiter.0 + 1);
        let waiter = self.last_waiter;
        let mut uuid = [0; 16];
        uuid[8..].copy_from_slice(&waiter.0.to_be_bytes());
        let fresh_uuid = Uuid(uuid);
        let context = Context { now: self.now, waiter, fresh_producer_id: ProducerId(0), fresh_uuid };
        let decision = self.shard.decide(&context, command);
        assert!(!decision.took_producer_id);
        assert_eq!(decision, self.shard.decide(&context, command), "the same state and command decide the same");
        for record in &decision.records {
            self.append(record.clone(), command.producer());
        }
        for note in &decision.notes {
            self.shard.note(note);
            if let Note::Stands { group, classic } = note {
                assert_eq!(self.shard.group(group), Some(&**classic), "records and notes lead where the draft went");
            }
        }
        match command {
            Command::Tick | Command::PartitionsDeleted(_) | Command::TopicsChanged(_) => {}
            Command::WaiterGone(gone) => assert!(self.waiting.remove(&gone.waiter), "who hangs up was held"),
            _ => assert!(self.waiting.insert(waiter)),
        }
        for (waiter, reply) in &decision.replies {
            assert!(self.waiting.remove(waiter), "{waiter:?} was answered already, or never asked: {reply:?}");
        }
        self.check();
        decision
    }

    pub(crate) fn append(&mut self, record: Record, producer: Option<ProducerIdentity>) {
        let (key, value) = record.encode().expect("it has an encoding");
        let record_read = Record::decode(key, value).expect("what was encoded decodes").expect("it is ours");
        assert_eq!(record_read, record);
        let logged = Logged::Record { record, producer, timestamp: self.now };
        apply(&mut self.shard, self.log.len(), &logged);
        self.log.push(logged);
    }

    pub(crate) fn marker(&mut self, producer: ProducerIdentity, outcome: Outcome) {
        let logged = Logged::Marker { producer, outcome };
        apply(&mut self.shard, self.log.len(), &logged);
        self.log.push(logged);
        self.check();
        assert_eq!(self.shard.pending_of(producer.id).count(), 0, "an ended transaction holds nothing");
    }

    /// Sends the ticks that are due.
    pub(crate) fn tick(&mut self) -> Vec<Decision<GroupCoordinator>> {
        let mut decisions = Vec::new();
        while self.shard.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            decisions.push(self.ask(&Command::Tick));
            assert!(decisions.len() < 1_000, "ticks without end");
        }
        decisions
    }

    /// Lets time pass, with a tick at each deadline on the way. When what was decided.
    pub(crate) fn pass_ms(&mut self, ms: i64) -> Vec<(Timestamp, Decision<GroupCoordinator>)> {
        let end = self.now.plus_ms(ms);
        let mut decisions = Vec::new();
        while let Some(deadline) = self.shard.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = deadline.max(self.now);
            let now = self.now;
            decisions.extend(self.tick().into_iter().map(|decision| (now, decision)));
        }
        self.now = end;
        decisions
    }

    /// Loses all but the log, and replays that.
    pub(crate) fn crash(&mut self) {
        let topics = Arc::clone(self.shard.topics());
        self.shard = replay(&self.log, &self.config);
        self.shard.note(&Note::Topics(topics));
        self.waiting.clear();
        self.check();
        for (id, group) in self.shard.groups() {
            assert!(
                matches!(group.state, State::Empty | State::Stable { .. }),
                "{id} is loaded as recorded: {group:?}"
            );
        }
    }

    /// Shows the shard other topics: `x:2` is topic x with two partitions.
    pub(crate) fn set_topics(&mut self, topics: &[&str]) {
        let version = self.shard.topics().version() + 1;
        let topics = topics.iter().map(|topic| {
            let (name, partitions) = topic.split_once(':').expect("topic:partitions");
            let partitions = partitions.parse().expect("a number");
            (TopicName::from(name), TopicShape { id: topic_id(name), partitions })
        });
        let image = TopicsImage::new(version, topics);
        let decision = self.ask(&Command::TopicsChanged(Arc::new(image)));
        assert!(decision.records.is_empty() && decision.replies.is_empty());
    }

    /// What holds of consumer groups in every state.
    fn check_consumer_groups(&self) {
        for (id, group) in self.shard.consumer_groups() {
            let mut in_use = BTreeSet::new();
            for (member_id, member) in &group.members {
                let current = &member.current;
                for (topic, partitions) in current.assigned.iter().chain(&current.revoking) {
                    assert!(!partitions.is_empty(), "{id}: {member_id} has no partition of {topic}");
                    for (partition, since) in partitions {
                        assert!(in_use.insert((*topic, *partition)), "{id}: {topic}-{partition} is {member_id}'s, too");
                        assert!(*since <= group.epoch, "{id}: {topic}-{partition} was given in an epoch to come");
                    }
                }
                assert!(current.epoch <= group.target_epoch, "{id}: {member_id} is further on than the target");
                assert_eq!(
                    current.state == MemberState::UnrevokedPartitions
                        || current.epoch == -2 && current.revoking.is_empty(),
                    !current.revoking.is_empty() || current.epoch == -2 && current.revoking.is_empty(),
                    "{id}: {member_id} gives up what it must, and then only: {current:?}"
                );
                if let Some(instance) = &member.subscription.instance {
                    assert_eq!(group.instances.get(instance), Some(member_id), "{id}: {member_id}'s own name");
                }
            }
            let named = group.members.values().filter(|member| member.subscription.instance.is_some()).count();
            assert_eq!(group.instances.len(), named, "{id}: names of members only");
            let mut targeted = BTreeSet::new();
            for (member_id, target) in &group.targets {
                assert!(group.members.contains_key(member_id), "{id}: a target for {member_id}, who is gone");
                for (topic, partitions) in target {
                    for partition in partitions {
                        assert!(targeted.insert((topic, partition)), "{id}: {topic}-{partition} is meant for two");
                    }
                }
            }
            assert!(group.target_epoch <= group.epoch, "{id}: the target is of the group's epoch, or an older one");
            assert!(group.soft.clocks.keys().all(|member| group.members.contains_key(member)));
            if !group.members.is_empty() {
                assert!(self.shard.next_deadline().is_some(), "{id}: who is silent is put out in the end");
            }
        }
    }

    /// What holds in every state.
    pub(crate) fn check(&self) {
        self.check_consumer_groups();
        let mut held = BTreeSet::new();
        for (id, group) in self.shard.groups() {
            let joining = group
                .members
                .values()
                .filter(|member| matches!(member.waiting, Waiting::Join { .. } | Waiting::JoinGone))
                .count();
            let syncing =
                group.members.values().filter(|member| matches!(member.waiting, Waiting::Sync { .. })).count();
            match &group.state {
                State::Empty => {
                    assert!(group.members.is_empty() && group.leader.is_none(), "{id}: an empty group has {group:?}");
                }
                State::PreparingRebalance { .. } => assert_eq!(syncing, 0, "{id}: nobody syncs while members join"),
                State::CompletingRebalance { unsynced, .. } => {
                    assert_eq!(joining, 0, "{id}: who joins waits for the next generation, not in this one");
                    assert!(!group.members.is_empty());
                    assert!(unsynced.iter().all(|member| group.members.contains_key(member)));
                    let leader = group.leader.as_ref().expect("a generation has a leader");
                    assert!(unsynced.contains(leader), "{id}: the leader has synced, so the group is stable");
                }
                State::Stable { unsynced, .. } => {
                    assert_eq!((joining, syncing), (0, 0), "{id}: nobody waits in a stable group");
                    assert!(unsynced.iter().all(|member| group.members.contains_key(member)));
                }
            }
            if !group.members.is_empty() {
                let leader = group.leader.as_ref().expect("a group with members has a leader");
                assert!(group.members.contains_key(leader), "{id}: the leader is a member");
                let common = |protocol: &str| {
                    group.members.values().all(|member| member.protocols.iter().any(|offered| offered.name == protocol))
                };
                assert!(
                    group.members.values().next().unwrap().protocols.iter().any(|offered| common(&offered.name)),
                    "{id}: members share a protocol"
                );
            }
            let statics: BTreeMap<_, _> = group
                .members
                .iter()
                .filter_map(|(member, it)| it.instance.clone().map(|instance| (instance, member.clone())))
                .collect();
            assert_eq!(statics, group.instances, "{id}: the static members' own names");
            assert!(group.pending.keys().all(|member| !group.members.contains_key(member)), "{id}: {group:?}");
            for member in group.members.values() {
                match member.waiting {
                    Waiting::No | Waiting::JoinGone => {}
                    Waiting::Join { waiter, .. } | Waiting::Sync { waiter } => assert!(held.insert(waiter)),
                }
            }
        }
        assert_eq!(held, self.waiting, "each request without an answer is held by a member, and no other");
        if !held.is_empty() {
            assert!(self.shard.next_deadline().is_some(), "who waits is answered in the end");
        }
    }
}

fn apply(shard: &mut GroupCoordinator, offset: usize, logged: &Logged) {
    let offset = i64::try_from(offset).expect("a short log");
    let entry = match logged {
        Logged::Record { record, producer, timestamp } => {
            Entry::Record { record, producer: *producer, offset, timestamp: *timestamp }
        }
        Logged::Marker { producer, outcome } => Entry::Marker { producer: *producer, outcome: *outcome, offset },
    };
    shard.apply(&entry).expect("an entry of the shard's own follows");
}

pub(crate) fn replay(log: &[Logged], config: &GroupConfig) -> GroupCoordinator {
    let mut shard = GroupCoordinator::new(config.clone());
    for (offset, logged) in log.iter().enumerate() {
        apply(&mut shard, offset, logged);
    }
    shard
}

/// The id of a topic of that name; its first letter tells.
pub(crate) fn topic_id(name: &str) -> Uuid {
    Uuid([name.as_bytes()[0]; 16])
}

/// `x-0` is partition 0 of topic x.
pub(crate) fn partition(name: &str) -> TopicPartition {
    let (topic, index) = name.rsplit_once('-').expect("topic-partition");
    TopicPartition::new(topic, index.parse().expect("a partition's index"))
}

/// A consumer's assignment.
pub(crate) fn assignment(partitions: &[TopicPartition]) -> Bytes {
    let mut bytes = vec![0, 1];
    bytes.extend(by_topic(partitions));
    bytes.extend([0xff; 4]);
    Bytes::from(bytes)
}

fn by_topic(partitions: &[TopicPartition]) -> Vec<u8> {
    let mut topics: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
    for at in partitions {
        topics.entry(&at.topic).or_default().push(at.partition);
    }
    let mut bytes = u32::try_from(topics.len()).unwrap().to_be_bytes().to_vec();
    for (topic, partitions) in topics {
        bytes.extend(u16::try_from(topic.as_str().len()).unwrap().to_be_bytes());
        bytes.extend(topic.as_str().as_bytes());
        bytes.extend(u32::try_from(partitions.len()).unwrap().to_be_bytes());
        bytes.extend(partitions.iter().flat_map(|partition| partition.to_be_bytes()));
    }
    bytes
}

/// A consumer's subscription, as far as the coordinator reads it.
pub(crate) fn subscription(topics: &[&str]) -> Bytes {
    subscription_of_owner(topics, &[])
}

/// The same of one that has partitions.
pub(crate) fn subscription_of_owner(topics: &[&str], owned: &[TopicPartition]) -> Bytes {
    let mut bytes = vec![0, 1];
    bytes.extend(u32::try_from(topics.len()).unwrap().to_be_bytes());
    for topic in topics {
        bytes.extend(u16::try_from(topic.len()).unwrap().to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    // No user data.
    bytes.extend([0xff; 4]);
    bytes.extend(by_topic(owned));
    Bytes::from(bytes)
}

/// A JoinGroup of a consumer that can do `range`.
pub(crate) fn join(client: &str, member: Option<&MemberId>) -> JoinGroup {
    JoinGroup {
        version: 9,
        group: GroupId::from("g"),
        member: member.cloned(),
        instance: None,
        client_id: Arc::from(client),
        client_host: Arc::from("/127.0.0.1"),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".to_owned(),
        protocols: Arc::from([JoinProtocol { name: "range".to_owned(), metadata: subscription(&["x"]) }]),
    }
}

pub(crate) fn sync(generation: i32, member: &MemberId, assignments: &[(&MemberId, &'static str)]) -> SyncGroup {
    SyncGroup {
        version: 5,
        group: GroupId::from("g"),
        generation,
        member: Some(member.clone()),
        instance: None,
        protocol_type: Some("consumer".to_owned()),
        protocol: Some("range".to_owned()),
        assignments: assignments
            .iter()
            .map(|(id, bytes)| ((*id).clone(), Bytes::from_static(bytes.as_bytes())))
            .collect(),
    }
}

pub(crate) fn beat(generation: i32, member: &MemberId) -> Heartbeat {
    Heartbeat { group: GroupId::from("g"), generation, member: Some(member.clone()), instance: None }
}

pub(crate) fn leave(member: &MemberId) -> LeaveGroup {
    let members = vec![MemberIdentity { member: Some(member.clone()), instance: None }];
    LeaveGroup { group: GroupId::from("g"), members }
}

/// The one reply of a decision.
pub(crate) fn only(decision: &Decision<GroupCoordinator>) -> &Reply {
    assert_eq!(decision.replies.len(), 1, "{decision:?}");
    &decision.replies[0].1
}

/// A group with members that have their assignments, for tests that begin there.
pub(crate) struct Group {
    pub(crate) host: Host,
    pub(crate) generation: i32,
    /// Sorted: the first one leads.
    pub(crate) members: Vec<MemberId>,
}

impl Group {
    /// Old clients (JoinGroup 3) without a name of their own.
    pub(crate) fn of(clients: &[&str]) -> Self {
        Self::with(clients, |client| JoinGroup { version: 3, ..join(client, None) })
    }

    /// Clients with a name of their own, the same as the client's.
    pub(crate) fn of_static(clients: &[&str]) -> Self {
        Self::with(clients, |client| JoinGroup { instance: Some(GroupInstanceId::from(client)), ..join(client, None) })
    }

    fn with(clients: &[&str], request: impl Fn(&str) -> JoinGroup) -> Self {
        let config = GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() };
        let mut host = Host::new(config);
        // All are there before the first window closes, so there is one generation only.
        for client in clients {
            host.ask(&Command::JoinGroup(request(client)));
        }
        host.tick();
        let group = host.group();
        let (generation, members) = (group.generation, group.members.keys().cloned().collect::<Vec<_>>());
        let parts = ["p0", "p1", "p2", "p3"];
        for member in members.iter().skip(1) {
            host.ask(&Command::SyncGroup(sync(generation, member, &[])));
        }
        let assignments: Vec<_> = members.iter().zip(parts).collect();
        host.ask(&Command::SyncGroup(sync(generation, &members[0], &assignments)));
        assert!(matches!(host.group().state, State::Stable { .. }));
        Self { host, generation, members }
    }

    pub(crate) fn beat(&mut self, member: usize) -> ErrorCode {
        let command = Command::Heartbeat(beat(self.generation, &self.members[member]));
        match only(&self.host.ask(&command)) {
            Reply::Heartbeat(error) => *error,
            other => panic!("{other:?}"),
        }
    }

    /// The member joins again, saying the same as before.
    pub(crate) fn rejoin(&mut self, member: usize) -> Decision<GroupCoordinator> {
        let id = self.members[member].clone();
        let known = self.host.group().members.get(&id).cloned();
        let instance = known.as_ref().and_then(|known| known.instance.clone());
        self.host.ask(&Command::JoinGroup(JoinGroup { instance, ..join("again", Some(&id)) }))
    }
}

impl Host {
    pub(crate) fn group(&self) -> &Classic {
        self.shard.group(&GroupId::from("g")).expect("the group is there")
    }

    /// What a JoinGroup is answered at once.
    pub(crate) fn ask_join(&mut self, request: JoinGroup) -> Result<Joined, JoinRefused> {
        match only(&self.ask(&Command::JoinGroup(request))) {
            Reply::JoinGroup(reply) => reply.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// What a JoinGroup is refused with at once.
    pub(crate) fn refused_join(&mut self, request: JoinGroup) -> ErrorCode {
        self.ask_join(request).expect_err("it is not let in").error
    }

    /// What becomes of an offset committed outside transactions.
    pub(crate) fn commit(&mut self, generation: i32, member: Option<&MemberId>, instance: Option<&str>) -> ErrorCode {
        self.first_error(&Command::OffsetCommit(OffsetCommit {
            version: 9,
            group: GroupId::from("g"),
            generation,
            member: member.cloned(),
            instance: instance.map(GroupInstanceId::from),
            retention_ms: None,
            offsets: vec![offset("x-0", 5)],
        }))
    }

    /// What becomes of an offset sent in a transaction of producer 1.
    pub(crate) fn send(&mut self, generation: i32, member: Option<&MemberId>, instance: Option<&str>) -> ErrorCode {
        self.send_offset(generation, member, instance, 5)
    }

    pub(crate) fn send_offset(
        &mut self,
        generation: i32,
        member: Option<&MemberId>,
        instance: Option<&str>,
        value: i64,
    ) -> ErrorCode {
        self.first_error(&Command::TxnOffsetCommit(TxnOffsetCommit {
            version: 3,
            producer: ProducerIdentity::new(1, 0),
            group: GroupId::from("g"),
            generation,
            member: member.cloned(),
            instance: instance.map(GroupInstanceId::from),
            offsets: vec![offset("x-0", value)],
        }))
    }

    fn first_error(&mut self, command: &Command) -> ErrorCode {
        match only(&self.ask(command)) {
            Reply::OffsetsCommitted(answers) => answers[0].1,
            other => panic!("{other:?}"),
        }
    }

    /// The offset of `x-0`, and its error.
    pub(crate) fn fetch(&mut self, require_stable: bool) -> (i64, ErrorCode) {
        let wanted = OffsetToFetch { topic_partition: partition("x-0"), topic_id: Uuid::ZERO };
        let fetch = OffsetFetch {
            group: GroupId::from("g"),
            partitions: Some(vec![wanted]),
            member: None,
            epoch: -1,
            require_stable,
        };
        match only(&self.ask(&Command::OffsetFetch(fetch))) {
            Reply::OffsetsFetched(Ok(offsets)) => (offsets[0].offset, offsets[0].error),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn offset(at: &str, offset: i64) -> OffsetToCommit {
    OffsetToCommit { topic_partition: partition(at), topic_id: Uuid::ZERO, offset, leader_epoch: -1, metadata: None }
}
