//! Walks every interleaving of a small world with a consumer group: two or three members that send heartbeats, give partitions up late, leave, come
//! back or fall silent; answers that are lost; a coordinator that crashes; topics that grow. It knows no list of answers, only what must hold:
//!
//! - what [`Host::check`](group_host) says of each state: no partition is assigned to, or being given up by, two members, no target has two owners;
//! - of all clients that believe that a partition is theirs, one at most can commit for it;
//! - epochs of the group and of its target never fall;
//! - an honest client is never told to give up what it was not given, nor given what another one still has;
//! - wherever the world stands: if nothing more goes wrong, all members come to rest with all partitions divided between them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use atonce_coordinator::group::config::ConsumerConfig;
use atonce_coordinator::group::consumer::command::{ConsumerGroupHeartbeat, GroupSettings};
use atonce_coordinator::group::consumer::{ConsumerState, Partitions};
use atonce_coordinator::group::{Command, GroupConfig, Reply};
use atonce_coordinator::{Context, Shard, Waiter};
use atonce_kernel::{GroupId, GroupInstanceId, MemberId, ProducerId, TopicId, TopicName, TopicPartition, Uuid};
use atonce_protocol::ErrorCode;

mod group_host;
mod walk;
use group_host::{Host, topic_id};
use walk::explore;

/// What a client believes.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Client {
    id: MemberId,
    instance: Option<GroupInstanceId>,
    epoch: i32,
    /// What it was told last that it may read.
    given: Partitions,
    /// What it reads: it begins at once with what it gets, and takes its time to give up.
    owned: Partitions,
    /// By pattern, or by name.
    by_pattern: bool,
    /// It missed an answer: it says all that there is to say with the next heartbeat, to be told all.
    says_all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A heartbeat with all that the client has to say; the answer may be lost.
    Beat { client: usize, is_lost: bool },
    /// The client gives up what it was told to.
    Follow(usize),
    /// It leaves, for good or for a while if it can. The answer may be lost: it is gone either way.
    Leave(usize),
    /// Nobody says anything for longer than half a session.
    Silence,
    /// The coordinator loses all but its log.
    Crash,
    /// The topic gets another partition.
    Grow,
}

#[derive(Clone, Hash, PartialEq, Eq)]
struct World {
    host: Host,
    clients: Vec<Client>,
    partitions: i32,
    epochs: (i32, i32),
}

fn group() -> GroupId {
    GroupId::from("g")
}

fn all(partitions: &Partitions) -> BTreeSet<(TopicId, i32)> {
    partitions.iter().flat_map(|(topic, all)| all.iter().map(|it| (*topic, *it))).collect()
}

impl World {
    fn new(clients: &[(&str, Option<&str>, bool)], interval_ms: i32) -> Self {
        let consumer = ConsumerConfig { assignment_interval_ms: interval_ms, ..ConsumerConfig::default() };
        let mut host = Host::new(GroupConfig { consumer, ..GroupConfig::default() });
        host.set_topics(&["x:2"]);
        let client = |(name, instance, by_pattern): &(&str, Option<&str>, bool)| Client {
            id: MemberId::from(*name),
            instance: instance.map(GroupInstanceId::from),
            epoch: 0,
            given: Partitions::new(),
            owned: Partitions::new(),
            by_pattern: *by_pattern,
            says_all: false,
        };
        Self { host, clients: clients.iter().map(client).collect(), partitions: 2, epochs: (0, 0) }
    }

    fn request(&self, client: usize) -> ConsumerGroupHeartbeat {
        let it = &self.clients[client];
        let joins = it.epoch == 0 || it.says_all;
        ConsumerGroupHeartbeat {
            version: 1,
            group: group(),
            member: Some(it.id.clone()),
            epoch: it.epoch,
            instance: it.instance.clone(),
            rack: None,
            client_id: Arc::from("client"),
            client_host: Arc::from("/127.0.0.1"),
            rebalance_timeout_ms: joins.then_some(60_000),
            topics: (joins && !it.by_pattern).then(|| BTreeSet::from([TopicName::from("x")])),
            pattern: (joins && it.by_pattern).then(|| Arc::from("x.*")),
            assignor: None,
            owned: Some(it.owned.clone()),
            settings: GroupSettings::default(),
        }
    }

    fn beat(&mut self, client: usize, is_lost: bool) {
        let request = self.request(client);
        let decision = self.host.ask(&Command::ConsumerGroupHeartbeat(request));
        let reply = decision.replies.into_iter().next().expect("a heartbeat is answered at once").1;
        self.clients[client].says_all = is_lost;
        if is_lost {
            return;
        }
        let others: BTreeSet<_> = self.alive().filter(|other| *other != client).collect();
        let it = &mut self.clients[client];
        match reply {
            Reply::ConsumerGroupHeartbeat(Ok(beat)) => {
                it.epoch = beat.epoch;
                let known = all(&it.owned);
                if let Some(assignment) = beat.assignment {
                    for (topic, partitions) in &assignment {
                        it.owned.entry(*topic).or_default().extend(partitions);
                    }
                    it.given = assignment;
                }
                let given = all(&self.clients[client].given);
                for other in others {
                    let both: Vec<_> = all(&self.clients[other].owned).intersection(&given).copied().collect();
                    assert!(
                        both.iter().all(|partition| known.contains(partition)),
                        "{both:?} is given to {client}, and {other} still reads it"
                    );
                }
            }
            Reply::ConsumerGroupHeartbeat(Err(refused)) => match refused.error {
                ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId | ErrorCode::GroupIdNotFound => {
                    it.epoch = 0;
                    it.given.clear();
                    it.owned.clear();
                }
                // A static member that joined, and did not hear that it had: it has to wait for its own session's end.
                ErrorCode::UnreleasedInstanceId => assert!(it.instance.is_some() && it.epoch == 0),
                error => panic!("{client} is refused: {error} {}", refused.message),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Clients that the coordinator still counts as members.
    fn alive(&self) -> impl Iterator<Item = usize> + '_ {
        let members = self.host.shard.consumer_group(&group()).map(|group| &group.members);
        let is_member =
            move |client: &Client| client.epoch > 0 && members.is_some_and(|members| members.contains_key(&client.id));
        self.clients.iter().enumerate().filter(move |(_, client)| is_member(client)).map(|(at, _)| at)
    }

    fn check(&mut self) {
        if let Some(group) = self.host.shard.consumer_group(&group()) {
            assert!(group.epoch >= self.epochs.0 && group.target_epoch >= self.epochs.1, "an epoch has fallen");
            self.epochs = (group.epoch, group.target_epoch);
        }
        let mut committers: BTreeMap<(TopicId, i32), usize> = BTreeMap::new();
        for (at, client) in self.clients.iter().enumerate() {
            for partition in all(&client.owned) {
                if self.can_commit(client, partition)
                    && let Some(other) = committers.insert(partition, at)
                {
                    panic!("{partition:?} can be committed for by {other} and by {at}");
                }
            }
        }
    }

    fn can_commit(&self, client: &Client, (_, partition): (TopicId, i32)) -> bool {
        use atonce_coordinator::group::command::{OffsetCommit, OffsetToCommit};
        let at = TopicPartition::new("x", partition);
        let offset = OffsetToCommit {
            topic_partition: at,
            topic_id: topic_id("x"),
            offset: 1,
            leader_epoch: -1,
            metadata: None,
        };
        let commit = Command::OffsetCommit(OffsetCommit {
            version: 10,
            group: group(),
            generation: client.epoch,
            member: Some(client.id.clone()),
            instance: client.instance.clone(),
            retention_ms: None,
            offsets: vec![offset],
        });
        let (now, waiter) = (self.host.now, Waiter(u64::MAX));
        let context = Context { now, waiter, fresh_producer_id: ProducerId(0), fresh_uuid: Uuid::ZERO };
        match &self.host.shard.decide(&context, &commit).replies[0].1 {
            Reply::OffsetsCommitted(answers) => answers[0].1 == ErrorCode::None,
            other => panic!("{other:?}"),
        }
    }
}

impl walk::World for World {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (client, it) in self.clients.iter().enumerate() {
            actions.push(Action::Beat { client, is_lost: false });
            actions.push(Action::Beat { client, is_lost: true });
            if it.given != it.owned {
                actions.push(Action::Follow(client));
            }
            if it.epoch > 0 {
                actions.push(Action::Leave(client));
            }
        }
        actions.extend([Action::Silence, Action::Crash]);
        if self.partitions == 2 {
            actions.push(Action::Grow);
        }
        actions
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Beat { client, is_lost } => self.beat(client, is_lost),
            Action::Follow(client) => {
                let it = &mut self.clients[client];
                it.owned.clone_from(&it.given);
            }
            Action::Leave(client) => {
                let it = &mut self.clients[client];
                it.owned.clear();
                it.given.clear();
                let epoch = if it.instance.is_some() { -2 } else { -1 };
                let request = ConsumerGroupHeartbeat { epoch, ..self.request(client) };
                self.clients[client].epoch = 0;
                self.host.ask(&Command::ConsumerGroupHeartbeat(request));
            }
            Action::Silence => {
                self.host.pass_ms(30_000);
            }
            Action::Crash => self.host.crash(),
            Action::Grow => {
                self.partitions += 1;
                self.host.set_topics(&[&format!("x:{}", self.partitions)]);
            }
        }
        self.host.tick();
        self.check();
    }

    fn key(&self) -> u64 {
        // The log and the waiters only grow; what is to come depends on the shard and the clients.
        let shown = (&self.host.shard, &self.clients, self.host.now);
        BuildHasherDefault::<DefaultHasher>::default().hash_one(shown)
    }

    /// Nothing goes wrong any more: everybody follows and says so.
    fn settle(&self) {
        let mut world = self.clone();
        for _ in 0..12 {
            for client in 0..world.clients.len() {
                world.act(&Action::Follow(client));
                world.act(&Action::Beat { client, is_lost: false });
            }
            world.host.pass_ms(11_000);
        }
        let group = world.host.shard.consumer_group(&group()).expect("all have joined");
        assert_eq!(group.state(), ConsumerState::Stable, "{group:?}");
        assert_eq!(group.members.len(), world.clients.len());
        let owned: Vec<_> = world.clients.iter().flat_map(|client| all(&client.owned)).collect();
        assert_eq!(owned.len(), world.partitions as usize, "each partition once: {:?}", world.clients);
        assert_eq!(owned.iter().collect::<BTreeSet<_>>().len(), owned.len());
    }
}

#[test]
fn two_members_in_every_order() {
    let states = explore(World::new(&[("a", None, false), ("b", None, false)], 0), 6, 41);
    assert!(states > 10_000, "only {states} states");
}

#[test]
fn two_members_with_an_interval_between_assignments() {
    let states = explore(World::new(&[("a", None, false), ("b", None, false)], 1_000), 5, 23);
    assert!(states > 2_000, "only {states} states");
}

#[test]
fn a_static_member_and_one_with_a_pattern() {
    let states = explore(World::new(&[("a", Some("i"), false), ("b", None, true)], 0), 6, 41);
    assert!(states > 10_000, "only {states} states");
}

#[test]
fn three_members() {
    let states = explore(World::new(&[("a", None, false), ("b", None, false), ("c", None, true)], 0), 5, 41);
    assert!(states > 10_000, "only {states} states");
}
