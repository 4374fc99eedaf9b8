//! Walks every interleaving of a small world around the transaction coordinator.
//!
//! **The world**: two producers, under one transactional id or two, in v1 or v2; two partitions; a network that delays,
//! repeats and loses requests and replies as it likes; markers written one by one; a clock that lets a transaction
//! time out; a broker that crashes between any two records and replays its log.
//!
//! A lost request is one that is never delivered; a lost reply is one whose client stopped waiting before. So three
//! moves make the network: deliver, deliver and keep a copy, stop waiting.
//!
//! **What is asserted**, at every step of every path:
//! - one outcome per transaction; data of a transaction gets the marker of that transaction, and no other;
//! - in v2, what a producer wrote in one transaction of *its* counting has one outcome, whatever was repeated;
//! - an epoch never falls, a producer id is given out once;
//! - completed means a marker in every partition; prepared means that it drains;
//! - no data is open outside an ongoing transaction, or one that still owes its partition a marker: nothing hangs;
//! - a reply of success is true, of the log as a crash would leave it, and of the transaction that it is about;
//! - an initialisation that is held is answered once at most, and at last;
//! - who was fenced changes nothing more; who names an old identity aborts nothing; who names its own is not refused;
//! - a request to go on from an identity, when it is repeated, is given what it was given before;
//! - a crash leaves all obligations as they were.
//!
//! An invariant that one forgets is invisible: the list grows whenever a planted mistake survives.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use atonce_coordinator::transaction::{
    AddPartitions, Admission, Caller, Command, EndTxn, InitProducerId, Limits, MarkersReport, Obligation, Protocol,
    Record, Reply, State, Transaction, TransactionCoordinator, VerifyPartitions,
};
use atonce_coordinator::{Context, Entry, Shard, Waiter};
use atonce_kernel::{
    Outcome, ProducerEpoch, ProducerId, ProducerIdentity, Timestamp, TopicPartition, TransactionalId, Uuid,
};
use atonce_protocol::ErrorCode;

const NOW: Timestamp = Timestamp(1_000_000);

#[test]
fn two_instances_of_one_producer_in_v2() {
    explore("one id, v2", World::new([0, 0], [Protocol::V2, Protocol::V2], NEAR), 20_000);
}

#[test]
fn two_instances_of_one_producer_in_v1() {
    explore("one id, v1", World::new([0, 0], [Protocol::V1, Protocol::V1], NEAR), 20_000);
}

#[test]
fn two_instances_of_one_producer_of_which_one_is_newer() {
    explore("one id, v1 and v2", World::new([0, 0], [Protocol::V1, Protocol::V2], WIDE), 20_000);
}

#[test]
fn two_producers_in_the_same_partitions() {
    explore("two ids, v2", World::new([0, 1], [Protocol::V2, Protocol::V2], NEAR), 20_000);
}

#[test]
fn a_producer_at_the_end_of_its_epochs() {
    let mut world = World::new([0, 0], [Protocol::V2, Protocol::V2], WIDE);
    world.begin_at_epoch(32_764);
    explore("one id, v2, the last epochs", world, 20_000);
}

/// Minutes, not seconds: `cargo test -p atonce-coordinator --test explore_transaction -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn further_than_every_build_can_go() {
    for protocols in [[Protocol::V2, Protocol::V2], [Protocol::V1, Protocol::V1], [Protocol::V1, Protocol::V2]] {
        explore(&format!("one id, far, {protocols:?}"), World::new([0, 0], protocols, FAR), 200_000);
    }
}

/// How far a world goes.
#[derive(Clone, Copy)]
struct Reach {
    /// Requests that each client may send.
    requests: [u8; 2],
    misfortunes: u8,
}

/// Two misfortunes on the way of one producer, with another that comes once.
const NEAR: Reach = Reach { requests: [4, 1], misfortunes: 2 };
/// One misfortune, with another producer that comes, writes and goes.
const WIDE: Reach = Reach { requests: [4, 2], misfortunes: 1 };
/// A request more than near.
const FAR: Reach = Reach { requests: [5, 1], misfortunes: 2 };

/// Breadth first, so that a path to a mistake is a shortest one.
fn explore(name: &str, first: World, states_min: usize) {
    let mut seen = BTreeSet::from([first.fingerprint()]);
    let mut frontier = VecDeque::from([(first, None)]);
    let mut paths: Vec<(Option<usize>, Move)> = Vec::new();
    let mut transitions = 0_usize;
    while let Some((world, path)) = frontier.pop_front() {
        for next in world.moves() {
            transitions += 1;
            let mut after = world.clone();
            if let Err(violation) = after.play(&next).and_then(|()| after.check()) {
                let mut steps = vec![format!("{next:?}")];
                let mut at = path;
                while let Some(index) = at {
                    let (before, step): &(Option<usize>, Move) = &paths[index];
                    steps.push(format!("{step:?}"));
                    at = *before;
                }
                steps.reverse();
                panic!("{name}: {violation}\n  {}\n{:#?}", steps.join("\n  "), after.shard);
            }
            if seen.insert(after.fingerprint()) {
                paths.push((path, next));
                frontier.push_back((after, Some(paths.len() - 1)));
            }
        }
    }
    #[expect(clippy::print_stderr, reason = "how far it went is what one wants to know of a walk that found nothing")]
    {
        eprintln!("{name}: {} states, {transitions} transitions", seen.len());
    }
    assert!(seen.len() >= states_min, "{name}: only {} states: the world has shrunk", seen.len());
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    shard: TransactionCoordinator,
    next_offset: i64,
    next_producer_id: i64,
    partitions: BTreeMap<TopicPartition, Partition>,
    clients: [Client; 2],
    /// Sorted: the order in which requests were sent means nothing.
    network: Vec<Sent>,
    /// A report on markers that is delayed.
    late_report: Option<MarkersReport>,
    misfortunes: Misfortunes,
    truth: Truth,
}

/// How many misfortunes a path may still hold. It is the bound of the world: most mistakes need one, some need two.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Misfortunes(u8);

impl Misfortunes {
    fn may_happen(self) -> bool {
        self.0 > 0
    }
}

/// A partition, as far as a transaction goes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Partition {
    epochs: BTreeMap<ProducerId, ProducerEpoch>,
    /// Data without a marker yet: in which transaction it was accepted, and in which its client meant it to be.
    open: BTreeMap<ProducerId, BTreeSet<(usize, Meant)>>,
}

/// A transaction as its client counts.
type Meant = (usize, u8);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Client {
    transactional_id: TransactionalId,
    protocol: Protocol,
    identity: Option<ProducerIdentity>,
    /// Its own count of transactions.
    transaction: u8,
    added: BTreeSet<TopicPartition>,
    written: BTreeSet<TopicPartition>,
    stage: Stage,
    waiting_for: Option<u8>,
    sent: u8,
    moves_left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    /// May do what comes next.
    Ready,
    /// A write went unanswered, or was refused: it has to abort.
    MustAbort,
    /// Its end went unanswered.
    InDoubt(Outcome),
    /// It has to present itself again.
    MustInit,
    /// It was told that another has its place.
    Fenced,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Sent {
    client: usize,
    number: u8,
    /// A copy has a connection, and so a waiter, of its own; its client hears nothing of it.
    is_copy: bool,
    identity: Option<ProducerIdentity>,
    transaction: u8,
    request: Request,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Request {
    /// Names its identity, or begins anew.
    Init {
        named: bool,
    },
    Add(TopicPartition),
    Write(TopicPartition),
    End(Outcome),
}

/// What a witness of everything knows.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Truth {
    transactions: Vec<Ended>,
    /// The latest of each id.
    latest: BTreeMap<TransactionalId, usize>,
    /// By transaction of a client: what became of its data.
    outcomes: BTreeMap<Meant, BTreeSet<Outcome>>,
    /// By transaction of a client: what it was told.
    told: BTreeMap<Meant, Outcome>,
    /// Initialisations that were delivered, and neither answered nor lost, with the identity that each named.
    unanswered: BTreeMap<Waiter, ProducerIdentity>,
    /// What was given to those who named an identity.
    given: BTreeMap<ProducerIdentity, ProducerIdentity>,
    /// A request was served that its client had given up, or repeated. In v1 nothing tells the transaction that it was
    /// meant for from the next one: that is what v2 is for.
    served_a_ghost: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Ended {
    outcome: Option<Outcome>,
    marked: BTreeSet<TopicPartition>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Move {
    Send(usize, Request),
    Deliver(Sent),
    DeliverAndKeep(Sent),
    /// Only the first records of what is decided reach the log; then the broker starts again.
    DeliverAndCrash(Sent, usize),
    StopWaiting(usize),
    HangUp(usize),
    Mark(Obligation, TopicPartition),
    MarkAndDelayReport(Obligation, TopicPartition),
    MarkAndCrash(Obligation, TopicPartition, usize),
    Report(Obligation),
    LateReport,
    TimeOut,
    Crash,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl World {
    fn new(ids: [usize; 2], protocols: [Protocol; 2], reach: Reach) -> Self {
        let client = |index: usize| Client {
            transactional_id: TransactionalId::from(format!("id-{}", ids[index])),
            protocol: protocols[index],
            identity: None,
            transaction: 0,
            added: BTreeSet::new(),
            written: BTreeSet::new(),
            stage: Stage::MustInit,
            waiting_for: None,
            sent: 0,
            moves_left: reach.requests[index],
        };
        Self {
            shard: TransactionCoordinator::new(Limits::default()),
            next_offset: 0,
            next_producer_id: 1,
            partitions: (0..2).map(|index| (TopicPartition::new("x", index), Partition::default())).collect(),
            clients: [client(0), client(1)],
            network: Vec::new(),
            late_report: None,
            misfortunes: Misfortunes(reach.misfortunes),
            truth: Truth::default(),
        }
    }

    fn begin_at_epoch(&mut self, epoch: i16) {
        let producer = ProducerIdentity::new(self.next_producer_id, epoch);
        self.next_producer_id += 1;
        let transactional_id = self.clients[0].transactional_id.clone();
        let transaction = Transaction {
            producer,
            previous_producer_id: producer.id,
            timeout_ms: 60_000,
            protocol: Protocol::V2,
            state: State::Empty,
            last_update: NOW,
        };
        let record = Record::new(&transactional_id, Some(transaction));
        self.append(&record).expect("the first record may be any");
    }

    /// Two states in a billion billion have the same; one of them would be left out.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    // What may happen next.

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            moves.extend(client.requests(&self.partitions).into_iter().map(|request| Move::Send(index, request)));
            if client.waiting_for.is_some() && self.misfortunes.may_happen() {
                moves.push(Move::StopWaiting(index));
                if self.is_held(index) {
                    moves.push(Move::HangUp(index));
                }
            }
        }
        for (index, sent) in self.network.iter().enumerate() {
            if index > 0 && self.network.get(index - 1) == Some(sent) {
                continue;
            }
            moves.push(Move::Deliver(sent.clone()));
            if self.misfortunes.may_happen() && !sent.is_copy {
                moves.push(Move::DeliverAndKeep(sent.clone()));
            }
            if self.misfortunes.may_happen() {
                moves.extend((0..2).map(|kept| Move::DeliverAndCrash(sent.clone(), kept)));
            }
        }
        for owed in self.shard.obligations() {
            for partition in &owed.partitions {
                moves.push(Move::Mark(owed.clone(), partition.clone()));
                if self.misfortunes.may_happen() {
                    moves.push(Move::MarkAndDelayReport(owed.clone(), partition.clone()));
                }
                if self.misfortunes.may_happen() {
                    moves.extend((0..2).map(|kept| Move::MarkAndCrash(owed.clone(), partition.clone(), kept)));
                }
            }
            if owed.partitions.is_empty() {
                moves.push(Move::Report(owed));
            }
        }
        if self.late_report.is_some() {
            moves.push(Move::LateReport);
        }
        if self.misfortunes.may_happen() && self.ids().any(|id| matches!(self.state(&id), Some(State::Ongoing { .. })))
        {
            moves.push(Move::TimeOut);
        }
        if self.misfortunes.may_happen() {
            moves.push(Move::Crash);
        }
        moves
    }

    fn play(&mut self, next: &Move) -> Checked {
        match next {
            Move::Send(client, request) => {
                let sent = self.clients[*client].send(*client, request.clone());
                self.network.push(sent);
                self.network.sort();
                Ok(())
            }
            Move::Deliver(sent) => {
                self.take(sent);
                self.deliver(sent, usize::MAX)
            }
            Move::DeliverAndKeep(sent) => {
                self.misfortunes.0 -= 1;
                self.take(sent);
                self.network.push(Sent { is_copy: true, ..sent.clone() });
                self.network.sort();
                self.deliver(sent, usize::MAX)
            }
            Move::DeliverAndCrash(sent, kept) => {
                self.take(sent);
                self.deliver(sent, *kept)?;
                self.crash()
            }
            Move::StopWaiting(client) => {
                self.misfortunes.0 -= 1;
                self.stop_waiting(*client);
                Ok(())
            }
            Move::HangUp(client) => {
                self.misfortunes.0 -= 1;
                let waiter = self.clients[*client].waiter(*client);
                self.stop_waiting(*client);
                self.truth.unanswered.remove(&waiter);
                self.ask(Waiter(0), &Command::WaiterGone(waiter), usize::MAX)
            }
            Move::Mark(owed, partition) => {
                self.mark(owed, partition)?;
                self.report(owed, Some(partition), usize::MAX)
            }
            Move::MarkAndDelayReport(owed, partition) => {
                self.misfortunes.0 -= 1;
                self.late_report = Some(report(owed, Some(partition)));
                self.mark(owed, partition)
            }
            Move::MarkAndCrash(owed, partition, kept) => {
                self.mark(owed, partition)?;
                self.report(owed, Some(partition), *kept)?;
                self.crash()
            }
            Move::Report(owed) => self.report(owed, None, usize::MAX),
            Move::LateReport => {
                let report = self.late_report.take().expect("it was there");
                self.ask(Waiter(0), &Command::MarkersWritten(report), usize::MAX)
            }
            Move::TimeOut => {
                self.misfortunes.0 -= 1;
                self.ask_at(NOW.plus_ms(60_001), Waiter(0), &Command::Tick, usize::MAX)
            }
            Move::Crash => self.crash(),
        }
    }

    fn take(&mut self, sent: &Sent) {
        let index = self.network.iter().position(|other| other == sent).expect("it is under way");
        self.network.remove(index);
    }

    fn stop_waiting(&mut self, client: usize) {
        let client = &mut self.clients[client];
        client.waiting_for = None;
        client.stage = match client.stage {
            Stage::Ready if !client.added.is_empty() => Stage::MustAbort,
            stage => stage,
        };
    }

    fn is_held(&self, client: usize) -> bool {
        self.truth.unanswered.contains_key(&self.clients[client].waiter(client))
    }

    fn ids(&self) -> impl Iterator<Item = TransactionalId> {
        self.clients.iter().map(|client| client.transactional_id.clone()).collect::<BTreeSet<_>>().into_iter()
    }

    fn state(&self, id: &TransactionalId) -> Option<&State> {
        self.shard.transaction(id).map(|transaction| &transaction.state)
    }

    // The broker.

    fn deliver(&mut self, sent: &Sent, kept: usize) -> Checked {
        let client = &self.clients[sent.client];
        let transactional_id = client.transactional_id.clone();
        let waiter = Waiter(1 + sent.client as u64 * 100 + u64::from(sent.number) + u64::from(sent.is_copy) * 50);
        let producer = sent.identity.unwrap_or(ProducerIdentity::NONE);
        let protocol = client.protocol;
        if client.waiting_for != Some(sent.number) || sent.is_copy {
            self.truth.served_a_ghost = true;
        }
        match &sent.request {
            Request::Init { named } => {
                let expected = if *named { producer } else { ProducerIdentity::NONE };
                let owner = self.shard.transaction(&transactional_id).map(|it| (it.producer, it.state.clone()));
                let is_newer_held = self.truth.unanswered.keys().any(|other| *other != waiter);
                self.truth.unanswered.insert(waiter, expected);
                let command = Command::InitProducerId(InitProducerId {
                    version: 5,
                    transactional_id: Some(transactional_id.clone()),
                    transaction_timeout_ms: 60_000,
                    expected,
                    enable_two_phase_commit: false,
                    keep_prepared_transaction: false,
                });
                for (to, reply) in self.decide(NOW, waiter, &command, kept)? {
                    let is_refused = to == waiter && reply == Reply::InitProducerId(Err(ErrorCode::ProducerFenced));
                    let is_owner = owner.as_ref().is_some_and(|(owner, _)| *named && expected == *owner);
                    ensure(!is_refused || !is_owner || is_newer_held, || format!("{expected} was refused its own id"))?;
                    self.hear(to, &reply)?;
                }
                if let Some((owner, State::Ongoing { .. })) = owner {
                    let aborted = matches!(self.state(&transactional_id), Some(State::Prepared { .. }));
                    ensure(!aborted || !*named || expected == owner, || {
                        format!("{expected} is not {owner}, and aborted its transaction")
                    })?;
                }
                Ok(())
            }
            Request::Add(partition) => {
                let command = Command::AddPartitions(AddPartitions {
                    caller: Caller::AddPartitionsToTxn { version: 3 },
                    transactional_id,
                    producer,
                    partitions: vec![(partition.clone(), Admission::Exists)],
                });
                self.ask(waiter, &command, kept)
            }
            Request::Write(partition) => self.write(waiter, sent, partition, producer, protocol, kept),
            Request::End(outcome) => {
                let version = match protocol {
                    Protocol::V1 => 4,
                    Protocol::V2 => 5,
                };
                let command = Command::EndTxn(EndTxn { version, transactional_id, producer, outcome: *outcome });
                self.ask(waiter, &command, kept)
            }
        }
    }

    /// A write arrives at its partition: in an open transaction it is appended; otherwise the coordinator is asked.
    fn write(
        &mut self,
        waiter: Waiter,
        sent: &Sent,
        partition: &TopicPartition,
        producer: ProducerIdentity,
        protocol: Protocol,
        kept: usize,
    ) -> Checked {
        let transactional_id = self.clients[sent.client].transactional_id.clone();
        let known = self.partitions[partition].epochs.get(&producer.id).copied().unwrap_or(ProducerEpoch::NONE);
        let is_open = self.partitions[partition].open.contains_key(&producer.id);
        if producer.epoch < known {
            let refusal = vec![(partition.clone(), ErrorCode::InvalidProducerEpoch)];
            return self.hear(waiter, &Reply::Partitions(refusal));
        }
        let verdict = if is_open && producer.epoch == known {
            vec![(waiter, Reply::Partitions(vec![(partition.clone(), ErrorCode::None)]))]
        } else {
            let command = match protocol {
                Protocol::V1 => Command::VerifyPartitions(VerifyPartitions {
                    caller: Caller::Produce { version: 11 },
                    transactional_id: transactional_id.clone(),
                    producer,
                    partitions: vec![partition.clone()],
                }),
                Protocol::V2 => Command::AddPartitions(AddPartitions {
                    caller: Caller::Produce { version: 12 },
                    transactional_id: transactional_id.clone(),
                    producer,
                    partitions: vec![(partition.clone(), Admission::Exists)],
                }),
            };
            self.decide(NOW, waiter, &command, kept)?
        };
        for (waiter, reply) in verdict {
            if reply == Reply::Partitions(vec![(partition.clone(), ErrorCode::None)]) {
                let transaction = *self.truth.latest.get(&transactional_id).ok_or("a write into no transaction")?;
                let target = self.partitions.get_mut(partition).expect("one of two");
                target.epochs.insert(producer.id, producer.epoch);
                let meant = (sent.client, sent.transaction);
                target.open.entry(producer.id).or_default().insert((transaction, meant));
            }
            self.hear(waiter, &reply)?;
        }
        Ok(())
    }

    fn mark(&mut self, owed: &Obligation, partition: &TopicPartition) -> Checked {
        let transaction = self.truth.latest[&owed.transactional_id];
        let target = self.partitions.get_mut(partition).expect("one of two");
        let known = target.epochs.get(&owed.producer.id).copied().unwrap_or(ProducerEpoch::NONE);
        let open = target.open.remove(&owed.producer.id).unwrap_or_default();
        let is_accepted = match owed.protocol {
            Protocol::V1 => owed.producer.epoch >= known,
            Protocol::V2 => owed.producer.epoch > known || owed.producer.epoch == known && open.is_empty(),
        };
        ensure(is_accepted, || format!("{partition} refuses the marker {owed:?}, because it knows epoch {known}"))?;
        target.epochs.insert(owed.producer.id, owed.producer.epoch);
        self.truth.transactions[transaction].marked.insert(partition.clone());
        for (accepted_in, meant) in open {
            ensure(accepted_in == transaction, || {
                format!("data accepted in transaction {accepted_in} got the marker of {transaction}")
            })?;
            self.truth.outcomes.entry(meant).or_default().insert(owed.outcome);
        }
        Ok(())
    }

    fn report(&mut self, owed: &Obligation, partition: Option<&TopicPartition>, kept: usize) -> Checked {
        self.ask(Waiter(0), &Command::MarkersWritten(report(owed, partition)), kept)
    }

    fn ask(&mut self, waiter: Waiter, command: &Command, kept: usize) -> Checked {
        self.ask_at(NOW, waiter, command, kept)
    }

    fn ask_at(&mut self, now: Timestamp, waiter: Waiter, command: &Command, kept: usize) -> Checked {
        for (waiter, reply) in self.decide(now, waiter, command, kept)? {
            self.hear(waiter, &reply)?;
        }
        Ok(())
    }

    /// Decides, appends and applies; the replies that may leave. If fewer records are kept than were decided, none may.
    fn decide(
        &mut self,
        now: Timestamp,
        waiter: Waiter,
        command: &Command,
        kept: usize,
    ) -> Result<Vec<(Waiter, Reply)>, String> {
        let fresh_producer_id = ProducerId(self.next_producer_id);
        let context = Context { now, waiter, fresh_producer_id, fresh_uuid: Uuid::ZERO };
        let decision = self.shard.decide(&context, command);
        if decision.took_producer_id {
            self.next_producer_id += 1;
        }
        for record in decision.records.iter().take(kept) {
            self.check_fencing(command, record)?;
            self.append(record)?;
        }
        if kept < decision.records.len() {
            return Ok(Vec::new());
        }
        decision.notes.iter().for_each(|note| self.shard.note(note));
        Ok(decision.replies)
    }

    /// Only the present producer changes its transaction.
    fn check_fencing(&self, command: &Command, record: &Record) -> Checked {
        let Some(before) = self.shard.transaction(record.transactional_id()) else { return Ok(()) };
        let actor = match command {
            Command::AddPartitions(request) => request.producer,
            Command::EndTxn(request) => request.producer,
            _ => return Ok(()),
        };
        ensure(actor == before.producer, || format!("{actor} changed the transaction of {}", before.producer))
    }

    fn append(&mut self, record: &Record) -> Checked {
        let id = record.transactional_id();
        let before = self.shard.transaction(id).cloned();
        let after = record.transaction().ok_or("nothing expires here")?.clone();
        if let Some(before) = &before {
            let falls = after.producer.id == before.producer.id && after.producer.epoch < before.producer.epoch;
            ensure(!falls, || format!("the epoch falls from {} to {}", before.producer, after.producer))?;
            let is_new = after.producer.id != before.producer.id;
            ensure(!is_new || after.producer.id > before.producer.id, || format!("{} again", after.producer))?;
        }
        let (key, value) = record.encode().map_err(|error| error.to_string())?;
        let read = Record::decode(key, value).map_err(|error| error.to_string())?;
        ensure(read == *record, || format!("{record:?} is read as {read:?}"))?;
        let entry = Entry::Record { record, producer: None, offset: self.next_offset, timestamp: NOW };
        self.shard.apply(&entry).map_err(|corrupt| corrupt.to_string())?;
        self.next_offset += 1;
        self.witness(id, before.as_ref(), &after)
    }

    /// Keeps the truth, and holds the record against it.
    fn witness(&mut self, id: &TransactionalId, before: Option<&Transaction>, after: &Transaction) -> Checked {
        let was_open = matches!(before.map(|it| &it.state), Some(State::Ongoing { .. }));
        match &after.state {
            State::Ongoing { .. } if was_open => Ok(()),
            State::Ongoing { .. } => {
                self.begin(id);
                Ok(())
            }
            State::Prepared { outcome, .. } => {
                if !was_open {
                    self.begin(id);
                }
                let ended = &mut self.truth.transactions[self.truth.latest[id]];
                ensure(ended.outcome.is_none(), || format!("a second outcome for a transaction of {id}"))?;
                ended.outcome = Some(*outcome);
                Ok(())
            }
            State::Complete { outcome, .. } => {
                let Some(State::Prepared { partitions, .. }) = before.map(|it| &it.state) else {
                    return Err("completed what was not prepared".to_owned());
                };
                let ended = &self.truth.transactions[self.truth.latest[id]];
                ensure(ended.outcome == Some(*outcome), || "completed with the other outcome".to_owned())?;
                ensure(partitions.is_subset(&ended.marked), || {
                    format!("completed with markers in {:?} only, of {partitions:?}", ended.marked)
                })
            }
            State::Empty => ensure(!was_open, || format!("{id} was initialised over an open transaction")),
        }
    }

    fn begin(&mut self, id: &TransactionalId) {
        self.truth.transactions.push(Ended { outcome: None, marked: BTreeSet::new() });
        self.truth.latest.insert(id.clone(), self.truth.transactions.len() - 1);
    }

    /// All but the log is lost. Clients see their connections break.
    fn crash(&mut self) -> Checked {
        self.misfortunes.0 -= 1;
        let before: Vec<_> = self.shard.obligations().collect();
        self.shard = replayed(&self.shard);
        let after: Vec<_> = self.shard.obligations().collect();
        ensure(before.len() == after.len(), || format!("{before:?} became {after:?} in a crash"))?;
        for (before, after) in before.iter().zip(&after) {
            let same = Obligation { partitions: after.partitions.clone(), ..before.clone() };
            ensure(same == *after && before.partitions.is_subset(&after.partitions), || {
                format!("{before:?} became {after:?} in a crash")
            })?;
        }
        self.truth.unanswered.clear();
        for client in 0..2 {
            if self.clients[client].waiting_for.is_some() {
                self.stop_waiting(client);
            }
        }
        Ok(())
    }

    // The clients.

    /// A reply leaves. It has to be true, of the log alone, whether anybody still waits for it or not.
    fn hear(&mut self, waiter: Waiter, reply: &Reply) -> Checked {
        let (index, number) = ((waiter.0 - 1) / 100, (waiter.0 - 1) % 100);
        let index = usize::try_from(index).expect("one of two");
        let id = self.clients[index].transactional_id.clone();
        let logged = replayed(&self.shard);
        let logged = logged.transaction(&id);
        match reply {
            Reply::InitProducerId(answer) => {
                let Some(named) = self.truth.unanswered.remove(&waiter) else {
                    return Err(format!("{waiter:?} was answered twice, or is gone"));
                };
                if let Ok(producer) = answer {
                    let given = *self.truth.given.entry(named).or_insert(*producer);
                    ensure(named == ProducerIdentity::NONE || given == *producer, || {
                        format!("who named {named} was given {given}, and then {producer}")
                    })?;
                    let is_so = logged.is_some_and(|it| it.producer == *producer && it.state == State::Empty);
                    ensure(is_so, || format!("{producer} was told, the log says {logged:?}"))?;
                }
            }
            Reply::EndTxn(Ok(next)) => {
                let is_so = logged.is_some_and(|it| match &it.state {
                    State::Prepared { successor, .. } => {
                        *next
                            == successor.map_or(it.producer, |id| ProducerIdentity { id, epoch: ProducerEpoch::FIRST })
                    }
                    State::Complete { .. } => *next == it.producer,
                    State::Empty | State::Ongoing { .. } => false,
                });
                ensure(is_so, || format!("an end was told and {next} after it, the log says {logged:?}"))?;
            }
            Reply::EndTxn(Err(_)) | Reply::Partitions(_) => {}
        }
        let client = &mut self.clients[index];
        if client.waiting_for.map(u64::from) != Some(number) {
            return Ok(());
        }
        client.waiting_for = None;
        let ended = client.hear(reply);
        if let Some((transaction, outcome)) = ended {
            self.truth.told.insert((index, transaction), outcome);
            let latest = self.truth.latest.get(&id).map(|latest| self.truth.transactions[*latest].outcome);
            ensure(latest == Some(Some(outcome)), || format!("told {outcome}, and the transaction's is {latest:?}"))?;
        }
        Ok(())
    }

    // What has to hold in every state.

    fn check(&self) -> Checked {
        for (name, partition) in &self.partitions {
            for producer in partition.open.keys() {
                let is_awaited = self.ids().any(|id| {
                    let mut owed = self.shard.obligations();
                    match self.state(&id) {
                        Some(State::Ongoing { partitions, .. }) => partitions.contains(name),
                        Some(State::Prepared { .. }) => {
                            owed.any(|owed| owed.producer.id == *producer && owed.partitions.contains(name))
                        }
                        Some(State::Empty | State::Complete { .. }) | None => false,
                    }
                });
                ensure(is_awaited, || format!("data of {producer} hangs in {name}"))?;
            }
        }
        for (meant, outcomes) in &self.truth.outcomes {
            if self.clients[meant.0].protocol == Protocol::V1 && self.truth.served_a_ghost {
                continue;
            }
            ensure(outcomes.len() == 1, || format!("{meant:?} was committed and aborted"))?;
            if let Some(told) = self.truth.told.get(meant) {
                ensure(outcomes.contains(told), || format!("{meant:?} was told {told}, and is {outcomes:?}"))?;
            }
        }
        self.check_drains()
    }

    /// With markers written, nothing is owed and nobody waits.
    fn check_drains(&self) -> Checked {
        if self.truth.unanswered.is_empty() && self.shard.obligations().next().is_none() {
            return Ok(());
        }
        let mut drained = self.clone();
        for _ in 0..6 {
            let Some(owed) = drained.shard.obligations().next() else { break };
            match owed.partitions.first() {
                Some(partition) => drained.play(&Move::Mark(owed.clone(), partition.clone()))?,
                None => drained.play(&Move::Report(owed))?,
            }
        }
        ensure(drained.shard.obligations().next().is_none(), || "what is owed does not drain".to_owned())?;
        ensure(drained.truth.unanswered.is_empty(), || format!("{:?} waits for ever", drained.truth.unanswered))
    }
}

/// The shard as its log alone makes it.
fn replayed(shard: &TransactionCoordinator) -> TransactionCoordinator {
    let mut replayed = TransactionCoordinator::new(Limits::default());
    for (offset, record) in shard.snapshot() {
        let entry = Entry::Record { record: &record, producer: None, offset, timestamp: NOW };
        replayed.apply(&entry).expect("the latest record of each id can be applied first");
    }
    replayed
}

fn report(owed: &Obligation, partition: Option<&TopicPartition>) -> MarkersReport {
    MarkersReport {
        transactional_id: owed.transactional_id.clone(),
        prepared_at: owed.prepared_at,
        partitions: partition.into_iter().cloned().collect(),
    }
}

impl Client {
    fn waiter(&self, index: usize) -> Waiter {
        Waiter(1 + index as u64 * 100 + u64::from(self.sent))
    }

    /// What it may ask next.
    fn requests(&self, partitions: &BTreeMap<TopicPartition, Partition>) -> Vec<Request> {
        if self.waiting_for.is_some() || self.moves_left == 0 {
            return Vec::new();
        }
        let mut requests = Vec::new();
        match self.stage {
            Stage::Ready => {
                for partition in partitions.keys() {
                    // In v1 it should add a partition first; a careless one writes all the same.
                    if self.protocol == Protocol::V1 && !self.added.contains(partition) {
                        requests.push(Request::Add(partition.clone()));
                    }
                    if !self.written.contains(partition) {
                        requests.push(Request::Write(partition.clone()));
                    }
                }
                if !self.added.is_empty() {
                    requests.extend([Request::End(Outcome::Commit), Request::End(Outcome::Abort)]);
                }
            }
            Stage::MustAbort => requests.extend([Request::End(Outcome::Abort), Request::Init { named: true }]),
            // It should repeat itself; a careless one asks for the contrary.
            Stage::InDoubt(_) => requests.extend([
                Request::End(Outcome::Commit),
                Request::End(Outcome::Abort),
                Request::Init { named: true },
            ]),
            Stage::MustInit if self.identity.is_some() => requests.push(Request::Init { named: true }),
            Stage::MustInit => requests.push(Request::Init { named: false }),
            Stage::Fenced => {}
        }
        requests
    }

    fn send(&mut self, index: usize, request: Request) -> Sent {
        self.sent += 1;
        self.moves_left -= 1;
        self.waiting_for = Some(self.sent);
        match &request {
            // Sent, and perhaps added: so it has something to end, whatever is answered.
            Request::Add(partition) => {
                self.added.insert(partition.clone());
            }
            Request::Write(partition) => {
                self.added.insert(partition.clone());
                self.written.insert(partition.clone());
            }
            Request::End(outcome) => self.stage = Stage::InDoubt(*outcome),
            Request::Init { .. } => self.stage = Stage::MustInit,
        }
        Sent {
            client: index,
            number: self.sent,
            is_copy: false,
            identity: self.identity,
            transaction: self.transaction,
            request,
        }
    }

    /// Takes an answer in; what it was told of its transaction's end, if that.
    fn hear(&mut self, reply: &Reply) -> Option<(u8, Outcome)> {
        match reply {
            Reply::InitProducerId(Ok(identity)) => {
                self.begin_anew(*identity);
                None
            }
            Reply::InitProducerId(Err(ErrorCode::ConcurrentTransactions)) => None,
            Reply::InitProducerId(Err(_)) => {
                self.stage = Stage::Fenced;
                None
            }
            Reply::EndTxn(Ok(identity)) => {
                let Stage::InDoubt(outcome) = self.stage else { return None };
                let ended = self.transaction;
                self.begin_anew(*identity);
                Some((ended, outcome))
            }
            Reply::EndTxn(Err(ErrorCode::ConcurrentTransactions)) => None,
            Reply::EndTxn(Err(_)) => {
                self.stage = Stage::MustInit;
                None
            }
            Reply::Partitions(answers) => {
                if answers.iter().any(|(_, error)| *error != ErrorCode::None) {
                    self.stage = Stage::MustAbort;
                }
                None
            }
        }
    }

    fn begin_anew(&mut self, identity: ProducerIdentity) {
        self.identity = Some(identity);
        self.transaction += 1;
        self.added.clear();
        self.written.clear();
        self.stage = Stage::Ready;
    }
}
