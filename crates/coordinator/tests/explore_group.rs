//! Walks every interleaving of a small world: a few clients in one group, dynamic and static, whose requests are repeated and whose
//! answers are lost, who leave, restart and fall silent, while the coordinator crashes whenever it likes.
//!
//! States are compared without what does not matter (which waiter, which random id, what time it is, which generation the
//! counting began at), so that the walk ends. What must hold is in [`World::check`]; and from every state seen, once nothing goes wrong
//! any more, the clients must come to share the partitions: [`World::settles`].

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use atonce_coordinator::group::classic::{Classic, JoinProtocol, State, Waiting, Window};
use atonce_coordinator::group::command::{
    Heartbeat, JoinGroup, LeaveGroup, MemberIdentity, OffsetCommit, OffsetToCommit, SyncGroup, TxnOffsetCommit,
    WaiterGone,
};
use atonce_coordinator::group::record::GroupMetadata;
use atonce_coordinator::group::{Command, GroupConfig, GroupCoordinator, Note, Record, Reply};
use atonce_coordinator::{Context, Decision, Entry, Shard, Waiter};
use atonce_kernel::{
    GroupId, GroupInstanceId, MemberId, ProducerId, ProducerIdentity, Timestamp, TopicId, TopicPartition, Uuid,
};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

mod walk;
use walk::{World as _, explore};

/// How many states there are for each that is let settle.
const SETTLE_EACH: usize = 7;

/// Time goes in steps so small that a handful of them tells everything apart.
const SESSION_MS: i32 = 2;
const REBALANCE_MS: i32 = 3;
const CONFIG: fn() -> GroupConfig = || GroupConfig {
    session_timeout_ms_min: 1,
    initial_rebalance_delay_ms: 1,
    new_member_join_timeout_ms: 5,
    offsets_retention_check_interval_ms: 7,
    ..GroupConfig::default()
};

fn group_id() -> GroupId {
    GroupId::from("g")
}

/// What sort of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// It gets its id first (JoinGroup 9).
    Dynamic,
    /// It joins without one (JoinGroup 3).
    Old,
    /// It has a name of its own (JoinGroup 9).
    Static,
}

/// What a client believes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Belief {
    member: Option<MemberId>,
    generation: i32,
    /// It leads, these are the members.
    led: Option<Vec<MemberId>>,
    /// It may read these.
    assignment: Option<Bytes>,
    protocol: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Out,
    Joining(Waiter),
    Joined,
    Syncing(Waiter),
    In,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    kind: Kind,
    phase: Phase,
    belief: Belief,
    /// Its answer, on the way.
    answer: Option<Heard>,
    /// What an earlier self, killed or stopped, still believes.
    ghost: Option<Belief>,
}

/// The part of an answer that a client looks at; hashable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Heard {
    Joined { member: MemberId, generation: i32, led: Option<Vec<MemberId>>, skip: bool, protocol: Option<String> },
    JoinRefused { error: ErrorCode, member: Option<MemberId> },
    Synced(Bytes),
    SyncRefused(ErrorCode),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// The client's next step: join, sync, or a heartbeat.
    Step(usize),
    /// It gets the answer.
    Deliver(usize),
    /// The answer is lost; it will ask again.
    Lose(usize),
    /// It does not wait any longer, and asks again.
    Retry(usize),
    /// Its connection is gone, and the coordinator hears of that.
    HangUp(usize),
    Leave(usize),
    /// It is killed and started again, or another one takes its place: the old one may live on, unaware.
    Restart(usize),
    /// Nobody does anything until the next deadline.
    Time,
    /// The coordinator loses all but its log.
    Crash,
}

#[derive(Clone)]
struct World {
    shard: GroupCoordinator,
    /// The log, compacted.
    recorded: Option<GroupMetadata>,
    now: Timestamp,
    clients: Vec<Client>,
    /// Waiters that nobody listens to any more.
    deaf: BTreeSet<Waiter>,
}

fn instance(index: usize) -> GroupInstanceId {
    GroupInstanceId::from(format!("s{index}"))
}

impl World {
    fn new(kinds: &[Kind]) -> Self {
        let client = |kind: &Kind| Client {
            kind: *kind,
            phase: Phase::Out,
            belief: Belief::default(),
            answer: None,
            ghost: None,
        };
        Self {
            shard: GroupCoordinator::new(CONFIG()),
            recorded: None,
            now: Timestamp(1_000),
            clients: kinds.iter().map(client).collect(),
            deaf: BTreeSet::new(),
        }
    }

    fn group(&self) -> Option<&Classic> {
        self.shard.group(&group_id())
    }

    fn held(&self) -> BTreeSet<Waiter> {
        let members = self.group().into_iter().flat_map(|group| group.members.values());
        members
            .filter_map(|member| match member.waiting {
                Waiting::No | Waiting::JoinGone => None,
                Waiting::Join { waiter, .. } | Waiting::Sync { waiter } => Some(waiter),
            })
            .collect()
    }

    /// The smallest number that is no random part of any id there is.
    fn fresh_uuid(&self) -> Uuid {
        let mut ids: BTreeSet<String> = BTreeSet::new();
        let mut see = |id: &MemberId| {
            ids.insert(id.as_str().rsplit('-').next().unwrap().to_owned());
        };
        if let Some(group) = self.group() {
            group.members.keys().chain(group.pending.keys()).for_each(&mut see);
        }
        self.recorded.iter().flat_map(|it| &it.members).for_each(|it| see(&it.member));
        for client in &self.clients {
            client.belief.member.iter().for_each(&mut see);
            client.ghost.iter().filter_map(|it| it.member.as_ref()).for_each(&mut see);
            if let Some(Heard::Joined { member, .. } | Heard::JoinRefused { member: Some(member), .. }) = &client.answer
            {
                see(member);
            }
        }
        let mut number = 1_u8;
        while ids.contains(&format!("{number:012x}")) {
            number += 1;
        }
        let mut uuid = [0; 16];
        uuid[15] = number;
        Uuid(uuid)
    }

    /// Two numbers for each client, so that a request can be repeated while the first one is held.
    fn fresh_waiter(&self, index: usize) -> Waiter {
        let held = self.held();
        let first = Waiter(10 * index as u64);
        (0..).map(|more| Waiter(first.0 + more)).find(|it| !held.contains(it)).unwrap()
    }

    fn context(&self, waiter: Waiter) -> Context {
        Context { now: self.now, waiter, fresh_producer_id: ProducerId(0), fresh_uuid: self.fresh_uuid() }
    }

    /// Asks, and takes in what is decided, as a host does.
    fn ask(&mut self, waiter: Waiter, command: &Command) -> Decision<GroupCoordinator> {
        let before = self.held();
        let decision = self.shard.decide(&self.context(waiter), command);
        for record in &decision.records {
            self.append(record);
        }
        for note in &decision.notes {
            self.shard.note(note);
            if let Note::Stands { group, classic } = note {
                assert_eq!(self.shard.group(group), Some(&**classic), "records and notes lead where the draft went");
            }
        }
        let mut answered = BTreeSet::new();
        for (to, reply) in &decision.replies {
            assert!(before.contains(to) || *to == waiter, "{to:?} never asked, or was answered: {reply:?}");
            assert!(answered.insert(*to), "{to:?} is answered twice");
            if self.deaf.remove(to) {
                continue;
            }
            if let Some(client) =
                self.clients.iter_mut().find(|it| matches!(it.phase, Phase::Joining(w) | Phase::Syncing(w) if w == *to))
            {
                client.answer = Some(seen(reply));
            }
        }
        // Whoever asked and is not answered, is held; nobody is forgotten.
        let mut expected: BTreeSet<Waiter> = before.difference(&answered).copied().collect();
        match command {
            Command::Tick => {}
            Command::WaiterGone(gone) => assert!(expected.remove(&gone.waiter), "who hangs up was held"),
            _ if !answered.contains(&waiter) => {
                expected.insert(waiter);
            }
            _ => {}
        }
        assert_eq!(self.held(), expected, "after {command:?}");
        decision
    }

    fn append(&mut self, record: &Record) {
        let Record::Group { metadata, .. } = record else { panic!("only groups are recorded here: {record:?}") };
        let timestamp = self.now;
        self.shard.apply(&Entry::Record { record, producer: None, offset: 0, timestamp }).expect("it follows");
        let Some(metadata) = metadata else {
            let recorded = self.recorded.take().expect("a group that is gone was there");
            assert!(recorded.members.is_empty(), "only a group without members goes");
            return;
        };
        if let Some(before) = &self.recorded {
            assert!(before.generation <= metadata.generation, "recorded generations never fall");
            if before.generation == metadata.generation && !before.members.is_empty() {
                let places = |it: &GroupMetadata| -> BTreeMap<String, Bytes> {
                    let name = |it: &atonce_coordinator::group::record::MemberMetadata| {
                        it.instance.as_ref().map_or(it.member.to_string(), ToString::to_string)
                    };
                    it.members.iter().map(|member| (name(member), member.assignment.clone())).collect()
                };
                assert_eq!(places(before), places(metadata), "a generation has one assignment");
            }
        }
        self.recorded = Some(metadata.clone());
    }

    fn play(&mut self, action: &Action) {
        match action {
            Action::Step(index) => match self.clients[*index].phase {
                Phase::Out => self.join(*index),
                Phase::Joined => self.sync(*index),
                Phase::In => self.beat(*index),
                Phase::Joining(_) | Phase::Syncing(_) => unreachable!("it waits"),
            },
            Action::Deliver(index) => self.deliver(*index),
            Action::Lose(index) => {
                // It asks again with what it knew before.
                self.clients[*index].answer = None;
                self.clients[*index].phase = match self.clients[*index].phase {
                    Phase::Joining(_) => Phase::Out,
                    _ => Phase::Joined,
                };
            }
            Action::Retry(index) => {
                let (Phase::Joining(waiter) | Phase::Syncing(waiter)) = self.clients[*index].phase else {
                    unreachable!()
                };
                self.deaf.insert(waiter);
                match self.clients[*index].phase {
                    Phase::Joining(_) => self.join(*index),
                    _ => self.sync(*index),
                }
            }
            Action::HangUp(index) => {
                let (Phase::Joining(waiter) | Phase::Syncing(waiter)) = self.clients[*index].phase else {
                    unreachable!()
                };
                self.clients[*index].phase = match self.clients[*index].phase {
                    Phase::Joining(_) => Phase::Out,
                    _ => Phase::Joined,
                };
                self.ask(Waiter(997), &Command::WaiterGone(WaiterGone { group: group_id(), waiter }));
            }
            Action::Leave(index) => {
                let member = self.clients[*index].belief.member.clone();
                let waiter = self.fresh_waiter(*index);
                let members = vec![MemberIdentity { member, instance: None }];
                self.ask(waiter, &Command::LeaveGroup(LeaveGroup { group: group_id(), members }));
                self.clients[*index].phase = Phase::Out;
                self.clients[*index].belief = Belief::default();
            }
            Action::Restart(index) => {
                if let Phase::Joining(waiter) | Phase::Syncing(waiter) = self.clients[*index].phase
                    && self.held().contains(&waiter)
                {
                    self.deaf.insert(waiter);
                }
                let client = &mut self.clients[*index];
                client.answer = None;
                client.phase = Phase::Out;
                client.ghost = Some(std::mem::take(&mut client.belief));
            }
            Action::Time => {
                let deadline = self.shard.next_deadline().expect("there is one");
                self.now = deadline.max(self.now);
                self.tick();
            }
            Action::Crash => {
                self.deaf.clear();
                self.shard = GroupCoordinator::new(CONFIG());
                if let Some(metadata) = self.recorded.clone() {
                    let record = Record::Group { group: group_id(), metadata: Some(metadata) };
                    let entry = Entry::Record { record: &record, producer: None, offset: 0, timestamp: Timestamp(0) };
                    self.shard.apply(&entry).expect("what was written can be read");
                }
                for client in &mut self.clients {
                    if client.answer.is_none() {
                        match client.phase {
                            Phase::Joining(_) => client.phase = Phase::Out,
                            Phase::Syncing(_) => client.phase = Phase::Joined,
                            Phase::Out | Phase::Joined | Phase::In => {}
                        }
                    }
                }
                self.tick();
            }
        }
        // A host ticks while something is due.
        self.tick();
    }

    fn tick(&mut self) {
        let mut ticks = 0;
        while self.shard.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.ask(Waiter(999), &Command::Tick);
            ticks += 1;
            assert!(ticks < 50, "ticks without end");
        }
    }

    fn join(&mut self, index: usize) {
        let client = &self.clients[index];
        let command = Command::JoinGroup(JoinGroup {
            version: if client.kind == Kind::Old { 3 } else { 9 },
            group: group_id(),
            member: client.belief.member.clone(),
            instance: (client.kind == Kind::Static).then(|| instance(index)),
            client_id: Arc::from(format!("c{index}")),
            client_host: Arc::from("h"),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            protocol_type: "consumer".to_owned(),
            protocols: Arc::from([JoinProtocol { name: "range".to_owned(), metadata: Bytes::new() }]),
        });
        let waiter = self.fresh_waiter(index);
        self.clients[index].phase = Phase::Joining(waiter);
        // An eager client reads nothing while it joins.
        self.clients[index].belief.assignment = None;
        self.ask(waiter, &command);
    }

    /// The leader halves the two partitions among the first two members.
    fn sync(&mut self, index: usize) {
        let client = &self.clients[index];
        let assignments = client.belief.led.iter().flatten().zip(["0", "1"]);
        let mut assignments: Vec<_> = assignments.map(|(id, part)| (id.clone(), Bytes::from(part))).collect();
        if let [(_, only)] = assignments.as_mut_slice() {
            *only = Bytes::from("01");
        }
        let command = Command::SyncGroup(SyncGroup {
            version: 5,
            group: group_id(),
            generation: client.belief.generation,
            member: client.belief.member.clone(),
            instance: (client.kind == Kind::Static).then(|| instance(index)),
            protocol_type: Some("consumer".to_owned()),
            protocol: client.belief.protocol.clone(),
            assignments,
        });
        let waiter = self.fresh_waiter(index);
        self.clients[index].phase = Phase::Syncing(waiter);
        self.ask(waiter, &command);
    }

    fn beat(&mut self, index: usize) {
        let client = &self.clients[index];
        let command = Command::Heartbeat(Heartbeat {
            group: group_id(),
            generation: client.belief.generation,
            member: client.belief.member.clone(),
            instance: (client.kind == Kind::Static).then(|| instance(index)),
        });
        let waiter = self.fresh_waiter(index);
        let decision = self.ask(waiter, &command);
        let Some((_, Reply::Heartbeat(error))) = decision.replies.first() else { panic!("{decision:?}") };
        match error {
            ErrorCode::None => {}
            ErrorCode::RebalanceInProgress => self.clients[index].phase = Phase::Out,
            ErrorCode::IllegalGeneration => self.fall_back(index, true),
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => self.fall_back(index, false),
            other => panic!("{other}"),
        }
    }

    fn fall_back(&mut self, index: usize, keeps_id: bool) {
        let client = &mut self.clients[index];
        client.phase = Phase::Out;
        let member = client.belief.member.take().filter(|_| keeps_id);
        client.belief = Belief { member, ..Belief::default() };
    }

    fn deliver(&mut self, index: usize) {
        let client = &mut self.clients[index];
        match client.answer.take().expect("there is one") {
            Heard::Joined { member, generation, led, skip, protocol } => {
                client.belief =
                    Belief { member: Some(member), generation, led: led.filter(|_| !skip), assignment: None, protocol };
                client.phase = Phase::Joined;
            }
            Heard::JoinRefused { error: ErrorCode::MemberIdRequired, member } => {
                client.belief = Belief { member, ..Belief::default() };
                client.phase = Phase::Out;
            }
            Heard::JoinRefused { error: ErrorCode::RebalanceInProgress, .. } => client.phase = Phase::Out,
            Heard::JoinRefused { error: ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId, .. } => {
                self.fall_back(index, false);
            }
            Heard::JoinRefused { error, .. } => panic!("join: {error}"),
            Heard::Synced(assignment) => {
                client.belief.assignment = Some(assignment);
                client.phase = Phase::In;
            }
            Heard::SyncRefused(ErrorCode::RebalanceInProgress) => client.phase = Phase::Out,
            Heard::SyncRefused(ErrorCode::IllegalGeneration) => self.fall_back(index, true),
            // The protocol's name is checked before the state is: a rebalance that made the group empty forgot it.
            Heard::SyncRefused(ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId) => {
                self.fall_back(index, false)
            }
            Heard::SyncRefused(error) => panic!("sync: {error}"),
        }
    }

    /// What holds in every state.
    fn check(&self) {
        let Some(group) = self.group() else { return };
        let recorded = self.recorded.as_ref().expect("a group is recorded when it is made");
        assert!(recorded.generation <= group.generation, "a generation begins after the recorded one");
        let is_settled = matches!(group.state, State::Empty | State::Stable { .. });
        assert!(!is_settled || recorded.generation == group.generation, "a settled group is recorded");
        if matches!(group.state, State::CompletingRebalance { .. }) {
            assert!(recorded.generation < group.generation);
        }
        if let State::Stable { .. } = group.state {
            let parts = recorded.members.iter().map(|member| (&member.member, &member.assignment));
            let live = group.members.iter().map(|(id, member)| (id, &member.assignment));
            assert_eq!(parts.collect::<Vec<_>>(), live.collect::<Vec<_>>(), "a stable group is as recorded");
        }
        if self.held().iter().any(|it| !self.deaf.contains(it)) {
            assert!(
                self.shard.next_deadline().is_some_and(|deadline| deadline > self.now),
                "who waits is answered in the end"
            );
        }
        self.nothing_is_read_twice();
    }

    /// All who believe that partitions are theirs, and whose offsets would be taken, are of one generation and share nothing.
    fn nothing_is_read_twice(&self) {
        let beliefs = self.clients.iter().enumerate().flat_map(|(index, client)| {
            let name = (client.kind == Kind::Static).then(|| instance(index));
            [Some(&client.belief), client.ghost.as_ref()]
                .into_iter()
                .flatten()
                .map(move |belief| (belief, name.clone()))
        });
        let mut readers: Vec<(&Belief, &Bytes)> = Vec::new();
        for (belief, instance) in beliefs {
            let Some(assignment) = &belief.assignment else { continue };
            let plain = self.takes(Command::OffsetCommit(OffsetCommit {
                version: 9,
                group: group_id(),
                generation: belief.generation,
                member: belief.member.clone(),
                instance: instance.clone(),
                retention_ms: None,
                offsets: vec![offset()],
            }));
            let transactional = self.takes(Command::TxnOffsetCommit(TxnOffsetCommit {
                version: 3,
                producer: ProducerIdentity::new(1, 0),
                group: group_id(),
                generation: belief.generation,
                member: belief.member.clone(),
                instance,
                offsets: vec![offset()],
            }));
            assert!(transactional || !plain, "what is taken at once is taken in a transaction");
            if transactional {
                readers.push((belief, assignment));
            }
        }
        for (place, (belief, assignment)) in readers.iter().enumerate() {
            for (other, others) in &readers[..place] {
                if belief == other {
                    // A killed client's ghost and its own restart that has heard the same.
                    continue;
                }
                assert_eq!(belief.generation, other.generation, "two generations at once: {readers:?}");
                let shared = assignment.iter().any(|part| others.contains(part));
                assert!(belief.member == other.member || !shared, "a partition read twice: {readers:?}");
            }
        }
    }

    fn takes(&self, commit: Command) -> bool {
        let decision = self.shard.decide(&self.context(Waiter(998)), &commit);
        let Some((_, Reply::OffsetsCommitted(answers))) = decision.replies.first() else { panic!("{decision:?}") };
        answers.iter().all(|(_, error)| *error == ErrorCode::None)
    }

    /// Nothing goes wrong any more: all clients come to be in, and share both partitions.
    fn settles(&self) -> Self {
        let mut world = self.clone();
        for _ in 0..60 {
            let mut moved = false;
            for index in 0..world.clients.len() {
                let action = match (&world.clients[index].phase, &world.clients[index].answer) {
                    (_, Some(_)) => Action::Deliver(index),
                    (Phase::Joining(_) | Phase::Syncing(_), None) => continue,
                    (Phase::In, None) => Action::Step(index),
                    (Phase::Out | Phase::Joined, None) => Action::Step(index),
                };
                moved |= world.clients[index].phase != Phase::In;
                world.act(&action);
            }
            if !moved {
                let is_in = |client: &Client| client.phase == Phase::In && client.answer.is_none();
                let all_in = world.clients.iter().all(is_in);
                let stable = matches!(world.group().map(|it| &it.state), Some(State::Stable { .. }));
                let alone =
                    world.group().is_some_and(|it| it.members.len() == world.clients.len() && it.pending.is_empty());
                if all_in && stable && alone {
                    let mut parts: Vec<u8> =
                        world.clients.iter().flat_map(|it| it.belief.assignment.clone().unwrap()).collect();
                    parts.sort_unstable();
                    assert_eq!(parts, b"01", "all is assigned, and once: {:?}", world.clients);
                    return world;
                }
                // Live members send heartbeats between deadlines, so one step of time, not a whole session.
                world.act_after_one_ms();
            }
        }
        panic!("does not settle:\n{:?}\nfrom {:?}\n{:#?}", world.clients, self.clients, world.group());
    }

    fn act_after_one_ms(&mut self) {
        self.now = self.now.plus_ms(1);
        self.tick();
    }
}

impl walk::World for World {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            match (&client.phase, &client.answer) {
                (_, Some(_)) => actions.extend([Action::Deliver(index), Action::Lose(index)]),
                (Phase::Out | Phase::Joined, None) => actions.push(Action::Step(index)),
                (Phase::Joining(_) | Phase::Syncing(_), None) => {
                    actions.extend([Action::Retry(index), Action::HangUp(index)]);
                }
                (Phase::In, None) => {
                    actions.push(Action::Step(index));
                    if client.kind != Kind::Static {
                        actions.push(Action::Leave(index));
                    }
                }
            }
            if client.belief.member.is_some() {
                actions.push(Action::Restart(index));
            }
        }
        if self.group().is_some() {
            actions.push(Action::Crash);
        }
        if self.shard.next_deadline().is_some() {
            actions.push(Action::Time);
        }
        actions
    }

    fn act(&mut self, action: &Action) {
        self.play(action);
        self.check();
    }

    fn key(&self) -> u64 {
        let base = self.recorded.as_ref().map_or(0, |it| it.generation);
        let clients: Vec<_> = self
            .clients
            .iter()
            .map(|client| {
                let mut client = client.clone();
                let relate = |belief: &mut Belief| belief.generation = (belief.generation - base).max(-2);
                relate(&mut client.belief);
                client.ghost.as_mut().into_iter().for_each(relate);
                if let Some(Heard::Joined { generation, .. }) = &mut client.answer {
                    *generation = (*generation - base).max(-2);
                }
                client
            })
            .collect();
        let group = self.group().map(|group| {
            let mut group = group.clone();
            let now = self.now;
            let relate = |at: &mut Timestamp| *at = Timestamp(at.ms_since(now).max(0));
            group.since = Timestamp(0);
            group.generation -= base;
            group.pending.values_mut().for_each(relate);
            for member in group.members.values_mut() {
                member.session_deadline.iter_mut().for_each(relate);
            }
            match &mut group.state {
                State::Empty => {}
                State::PreparingRebalance {
                    window: Window::Initial { deadline, .. } | Window::UntilAllJoined { deadline },
                } => relate(deadline),
                State::CompletingRebalance { unsynced, deadline } | State::Stable { unsynced, deadline } => {
                    if unsynced.is_empty() {
                        *deadline = now;
                    }
                    relate(deadline);
                }
            }
            group
        });
        let recorded = self.recorded.clone().map(|it| GroupMetadata { since: Timestamp(0), generation: 0, ..it });
        let deadline = self.shard.next_deadline().map(|deadline| deadline.ms_since(self.now).max(0));
        BuildHasherDefault::<DefaultHasher>::default().hash_one((clients, group, recorded, &self.deaf, deadline))
    }

    fn settle(&self) {
        self.settles();
    }
}

fn offset() -> OffsetToCommit {
    OffsetToCommit {
        topic_partition: TopicPartition::new("x", 0),
        topic_id: TopicId::ZERO,
        offset: 1,
        leader_epoch: -1,
        metadata: None,
    }
}

fn seen(reply: &Reply) -> Heard {
    match reply {
        Reply::JoinGroup(Ok(joined)) => Heard::Joined {
            member: joined.member.clone(),
            generation: joined.generation,
            led: (joined.leader.as_ref() == Some(&joined.member))
                .then(|| joined.members.iter().map(|it| it.member.clone()).collect()),
            skip: joined.skip_assignment,
            protocol: joined.protocol.clone(),
        },
        Reply::JoinGroup(Err(refused)) => Heard::JoinRefused { error: refused.error, member: refused.member.clone() },
        Reply::SyncGroup(Ok(synced)) => Heard::Synced(synced.assignment.clone()),
        Reply::SyncGroup(Err(error)) => Heard::SyncRefused(*error),
        other => panic!("nobody waits for {other:?}"),
    }
}

/// From nothing, and from a group in which all is well, so many actions in a row: each one more makes two to three times as
/// many states. The counts are gates: a walk that finds little proves little.
fn check(kinds: &[Kind], (from_nothing, from_settled): (usize, usize), states_at_least: usize) {
    let nothing = World::new(kinds);
    let settled = nothing.settles();
    let states = explore(nothing, from_nothing, SETTLE_EACH) + explore(settled, from_settled, SETTLE_EACH);
    assert!(states >= states_at_least, "only {states} states");
}

#[test]
fn two_dynamic_members() {
    check(&[Kind::Dynamic, Kind::Old], (9, 8), 10_000);
}

#[test]
fn a_dynamic_and_a_static_member() {
    check(&[Kind::Dynamic, Kind::Static], (9, 8), 10_000);
}

#[test]
fn two_static_members() {
    check(&[Kind::Static, Kind::Static], (9, 8), 10_000);
}

#[test]
fn three_members_of_all_sorts() {
    check(&[Kind::Dynamic, Kind::Static, Kind::Old], (7, 6), 10_000);
}
