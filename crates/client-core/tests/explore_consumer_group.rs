//! Members of a KIP-848 group against a model of its coordinator, over a network that loses and delays, with users who work,
//! stay away and crash: no partition is ever two members' who may both commit, and in the end all are shared evenly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use atonce_client_core::classify::Operation;
use atonce_client_core::consumer_group::{
    Beat, BeatReply, ConsumerMembership, ConsumerMembershipConfig, IdPartition, State,
};
use atonce_client_core::error::Refusal;
use atonce_client_core::membership::Event;
use atonce_kernel::chance::Chance;
use atonce_kernel::{MemberId, Monotonic, TopicId, TopicName, TopicPartition, Uuid};
use atonce_protocol::ErrorCode;

const PARTITIONS: i32 = 6;
const CLIENTS: usize = 3;
const SESSION: Duration = Duration::from_secs(6);
const REBALANCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(100);
const TOPIC: TopicId = Uuid([7; 16]);

// --- the coordinator, as Kafka's is ---

struct Member {
    epoch: i32,
    previous_epoch: i32,
    assigned: BTreeSet<IdPartition>,
    revoking: BTreeSet<IdPartition>,
    target: BTreeSet<IdPartition>,
    told: Option<BTreeSet<IdPartition>>,
    session_end: Monotonic,
    revoke_until: Option<Monotonic>,
}

#[derive(Default)]
struct Coordinator {
    epoch: i32,
    members: BTreeMap<MemberId, Member>,
}

impl Coordinator {
    fn accepts(&self, member_id: &MemberId, epoch: i32) -> bool {
        self.members.get(member_id).is_some_and(|member| member.epoch == epoch)
    }

    /// Members keep what they have up to their share; the rest goes round.
    fn divide(&mut self) {
        self.epoch += 1;
        let count = self.members.len();
        let mut free: BTreeSet<IdPartition> = (0..PARTITIONS).map(|it| (TOPIC, it)).collect();
        let share = |place: usize| (PARTITIONS as usize) / count + usize::from(place < (PARTITIONS as usize) % count);
        for (place, member) in self.members.values_mut().enumerate() {
            member.target = member.target.iter().filter(|it| free.contains(it)).take(share(place)).copied().collect();
            free.retain(|it| !member.target.contains(it));
        }
        for (place, member) in self.members.values_mut().enumerate() {
            while member.target.len() < share(place) {
                let Some(next) = free.pop_first() else { break };
                member.target.insert(next);
            }
        }
    }

    fn beat(&mut self, now: Monotonic, member_id: &MemberId, beat: Beat) -> Result<BeatReply, ErrorCode> {
        let (member_epoch, is_full, owned) = match beat {
            Beat::Leave { .. } => {
                if self.members.remove(member_id).is_some() {
                    self.divide();
                }
                let heartbeat_interval = Duration::from_secs(1);
                return Ok(BeatReply { member_epoch: -1, heartbeat_interval, assignment: None });
            }
            Beat::Alive { member_epoch, is_full, owned } => (member_epoch, is_full, owned),
        };
        if member_epoch == 0 {
            let is_new = !self.members.contains_key(member_id);
            let member = self.members.entry(member_id.clone()).or_insert_with(|| Member {
                epoch: 0,
                previous_epoch: 0,
                assigned: BTreeSet::new(),
                revoking: BTreeSet::new(),
                target: BTreeSet::new(),
                told: None,
                session_end: now,
                revoke_until: None,
            });
            member.told = None;
            if is_new {
                self.divide();
            }
        }
        let member = self.members.get_mut(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if member_epoch > member.epoch {
            return Err(ErrorCode::FencedMemberEpoch);
        }
        if member_epoch != 0 && member_epoch < member.epoch {
            // The answer that raised the epoch may have been lost; whoever owns no more than he may is let on.
            let is_harmless = owned.as_ref().is_some_and(|owned| owned.is_subset(&member.assigned));
            if member_epoch != member.previous_epoch || !is_harmless {
                return Err(ErrorCode::FencedMemberEpoch);
            }
        }
        member.session_end = now + SESSION;
        if let Some(owned) = &owned
            && owned.is_disjoint(&member.revoking)
        {
            member.revoking.clear();
            member.revoke_until = None;
        }
        if is_full {
            member.told = None;
        }
        self.reconcile(now, member_id);
        let member = self.members.get_mut(member_id).expect("is there");
        let has_changed = member.told.as_ref() != Some(&member.assigned);
        member.told = Some(member.assigned.clone());
        let assignment = has_changed.then(|| member.assigned.clone());
        Ok(BeatReply { member_epoch: member.epoch, heartbeat_interval: Duration::from_secs(1), assignment })
    }

    fn reconcile(&mut self, now: Monotonic, member_id: &MemberId) {
        let epoch = self.epoch;
        let member = self.members.get_mut(member_id).expect("is there");
        if !member.revoking.is_empty() {
            return;
        }
        let gone: BTreeSet<IdPartition> = member.assigned.difference(&member.target).copied().collect();
        if !gone.is_empty() {
            member.assigned.retain(|it| member.target.contains(it));
            member.revoking = gone;
            member.revoke_until = Some(now + REBALANCE);
            return;
        }
        if member.epoch != epoch {
            member.previous_epoch = member.epoch;
            member.epoch = epoch;
        }
        let target = member.target.clone();
        let others = self.members.iter().filter(|(other, _)| *other != member_id);
        let taken: BTreeSet<IdPartition> =
            others.flat_map(|(_, other)| other.assigned.union(&other.revoking).copied().collect::<Vec<_>>()).collect();
        let member = self.members.get_mut(member_id).expect("is there");
        member.assigned.extend(target.difference(&taken));
    }

    fn pass(&mut self, now: Monotonic) {
        let before = self.members.len();
        self.members.retain(|_, it| now < it.session_end && it.revoke_until.is_none_or(|until| now < until));
        if self.members.len() != before {
            if self.members.is_empty() {
                self.epoch += 1;
            } else {
                self.divide();
            }
        }
    }
}

// --- the world ---

struct Call {
    beat: Beat,
    arrives: Monotonic,
    has_arrived: bool,
    gives_up: Monotonic,
}

struct Client {
    member_id: MemberId,
    membership: ConsumerMembership,
    call: Option<Call>,
    reply: Option<(Monotonic, Result<BeatReply, ErrorCode>)>,
    is_inside: bool,
    back_at: Monotonic,
}

struct World {
    now: Monotonic,
    coordinator: Coordinator,
    clients: Vec<Client>,
    chance: Chance,
    is_calm: bool,
    ids: u32,
    revocations: usize,
    losses: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            now: Monotonic::START,
            coordinator: Coordinator::default(),
            clients: Vec::new(),
            chance: Chance::from_seed(seed),
            is_calm: false,
            ids: 0,
            revocations: 0,
            losses: 0,
        };
        world.clients = (0..CLIENTS).map(|_| world.client()).collect();
        world
    }

    fn client(&mut self) -> Client {
        self.ids += 1;
        let member_id = MemberId::from(format!("m{}", self.ids));
        let config = ConsumerMembershipConfig {
            group_id: "g".into(),
            member_id: member_id.clone(),
            instance_id: None,
            max_poll_interval: REBALANCE,
            retry_backoff: STEP,
        };
        let membership = ConsumerMembership::new(config, self.now);
        Client { member_id, membership, call: None, reply: None, is_inside: false, back_at: self.now }
    }

    fn delay(&mut self) -> Duration {
        let most = if self.is_calm { 1 } else { 4 };
        STEP * u32::try_from(self.chance.below(most)).expect("is small")
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        self.coordinator.pass(self.now);
        for place in 0..CLIENTS {
            if !self.is_calm && self.chance.one_in(1, 800) {
                self.clients[place] = self.client();
            }
            self.user(place);
            self.network(place);
            self.machine(place);
            self.check();
        }
    }

    fn user(&mut self, place: usize) {
        let now = self.now;
        let away = match self.chance.below(40) {
            _ if self.is_calm => STEP,
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
            Some(Event::Assigned(partitions, _)) => {
                assert!(partitions.iter().all(|it| client.membership.holds(it)));
            }
            Some(Event::Revoking(partitions)) => {
                self.revocations += 1;
                assert!(partitions.iter().all(|it| client.membership.holds(it)), "he may commit them still");
            }
            Some(Event::Lost(partitions)) => {
                self.losses += 1;
                assert!(!partitions.iter().any(|it| client.membership.holds(it)));
            }
            None if self.chance.one_in(1, 3) => {}
            None => return,
        }
        client.is_inside = false;
        client.back_at = now + away;
        client.membership.handle_user_left(now);
    }

    fn network(&mut self, place: usize) {
        let now = self.now;
        let client = &mut self.clients[place];
        if client.reply.as_ref().is_some_and(|(due, _)| now >= *due) {
            let (_, reply) = client.reply.take().expect("is there");
            client.call = None;
            let reply = reply.map_err(|code| Refusal::new(Operation::ConsumerGroupHeartbeat, code));
            return client.membership.handle_reply(now, reply);
        }
        let Some(call) = &mut client.call else { return };
        if now >= call.gives_up {
            client.call = None;
            client.reply = None;
            return client.membership.handle_lost(now);
        }
        if !call.has_arrived && now >= call.arrives {
            call.has_arrived = true;
            let (beat, member_id) = (call.beat.clone(), client.member_id.clone());
            let is_lost = |chance: &mut Chance, is_calm: bool| !is_calm && chance.one_in(1, 30);
            if is_lost(&mut self.chance, self.is_calm) {
                return;
            }
            let reply = self.coordinator.beat(now, &member_id, beat);
            if !is_lost(&mut self.chance, self.is_calm) {
                let due = now + self.delay();
                self.clients[place].reply = Some((due, reply));
            }
        }
    }

    fn machine(&mut self, place: usize) {
        let now = self.now;
        let membership = &mut self.clients[place].membership;
        membership.handle_names(|topic| (topic == TOPIC).then(|| TopicName::from("t")));
        if let Some(call) = membership.poll_request(now) {
            let (arrives, gives_up) = (now + self.delay(), now + Duration::from_secs(2));
            self.clients[place].call = Some(Call { beat: call.beat, arrives, has_arrived: false, gives_up });
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

    fn shares(&self) -> Vec<Vec<i32>> {
        let holds = |client: &Client, it: &i32| client.membership.holds(&TopicPartition::new("t", *it));
        self.clients.iter().map(|client| (0..PARTITIONS).filter(|it| holds(client, it)).collect()).collect()
    }

    fn run(&mut self) {
        for _ in 0..1500 {
            self.step();
        }
        self.is_calm = true;
        let calm = self.now;
        loop {
            self.step();
            let shares = self.shares();
            let all: BTreeSet<i32> = shares.iter().flatten().copied().collect();
            let is_settled = self.clients.iter().all(|it| *it.membership.state() == State::Stable)
                && self.coordinator.members.len() == CLIENTS
                && all.len() == PARTITIONS as usize
                && shares.iter().all(|share| share.len() == 2);
            if is_settled {
                return;
            }
            assert!(self.now.since(calm) < Duration::from_secs(120), "the group does not settle: {shares:?}");
        }
    }
}

#[test]
fn a_group_never_gives_a_partition_to_two_and_settles() {
    let (mut revocations, mut losses) = (0, 0);
    for seed in 0..100 {
        let mut world = World::new(seed);
        world.run();
        revocations += world.revocations;
        losses += world.losses;
    }
    assert!(revocations > 300 && losses > 300, "there was something to survive: {revocations}, {losses}");
}
