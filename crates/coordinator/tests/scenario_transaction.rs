//! Runs the scenario files of `testdata/transaction`: a command per line, left of `→`; right of it what the shard decided.
//! `ATONCE_REGENERATE=1 cargo test -p atonce-coordinator --test scenario_transaction` writes the right side anew;
//! review the difference.
//!
//! Lines: `ACTOR: VERB ARGUMENTS KEY=VALUE…`. An actor is an instance of a producer; it acts under the transactional
//! id `t` (or `id=…`) as whom it was last told to be (or `as=P1/0`).
//!
//! | line | does |
//! |---|---|
//! | `a: init`, `as=P1/0` or `as=own` names an identity | InitProducerId, version `v=5`, `timeout=60000` |
//! | `a: add x-0 y-1` | AddPartitionsToTxn `v=3`; `x-9?` is not there, `x-0!` not allowed |
//! | `a: add-offsets` | AddOffsetsToTxn `v=3` |
//! | `a: write x-0`, `a: send-offsets` | Produce `v=12`, TxnOffsetCommit `v=5` where nothing is open yet: adds in v2, verifies in v1 |
//! | `a: commit`, `a: abort` | EndTxn `v=5` |
//! | `marker x-0`, `gone x-0` | reports on what is owed, `at=` an offset if not the present transaction |
//! | `delete-topic x`, `hang-up a`, `wait 1000`, `tick`, `renew` | what their names say; `wait` alone sends no tick |
//! | `crash` | all is lost but the log |
//! | `given Empty P1/7 …` | a record of the log: `v=1`, `previous=`, `next=`, `timeout=` |
//! | `describe`, `list`, `ids` | the queries; `states=`, `pids=`, `duration=` |
//! | `settled`, `slow` | from here on markers are written at once, or only by `marker` |
//!
//! The right side: the reply (`b:` before that of another), then after `|` the records, the notes in parentheses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use atonce_coordinator::transaction::{
    AddPartitions, Admission, Caller, Command, EndTxn, InitProducerId, ListFilter, MarkersReport, Protocol, Record,
    Reply, State, StateName, Transaction, TransactionCoordinator, VerifyPartitions,
};
use atonce_coordinator::{Corrupt, Decision, Waiter};
use atonce_kernel::{Outcome, ProducerId, ProducerIdentity, TopicPartition, TransactionalId};
use atonce_protocol::messages::transaction_log_key::TransactionLogKey;
use atonce_protocol::messages::transaction_log_value::{PartitionsSchema, TransactionLogValue};
use atonce_protocol::{ErrorCode, Message};

mod transaction_host;
use transaction_host::{Host, identity, partition};

const ARROW: &str = "→";

#[test]
fn every_scenario_of_the_transaction_coordinator_comes_out_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/transaction");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let regenerate = std::env::var_os("ATONCE_REGENERATE").is_some();
    let mut differences = String::new();
    for file in &files {
        let found = std::fs::read_to_string(file).unwrap();
        let expected = run(&found);
        if found == expected {
            continue;
        }
        if regenerate {
            std::fs::write(file, expected).unwrap();
        } else {
            writeln!(differences, "{}", file.display()).unwrap();
            for (found, now) in found.lines().zip(expected.lines()).filter(|(found, now)| found != now) {
                writeln!(differences, "  written: {found}\n  decided: {now}").unwrap();
            }
        }
    }
    assert!(files.len() >= 40, "only {} scenarios", files.len());
    assert!(differences.is_empty(), "scenarios that come out otherwise:\n{differences}");
}

/// The file with its right sides as they come out.
fn run(text: &str) -> String {
    let mut scenario = Scenario::new();
    let mut output = String::new();
    for line in text.lines() {
        let command = line.split(ARROW).next().unwrap().trim_end();
        if command.is_empty() || command.starts_with('#') {
            writeln!(output, "{command}").unwrap();
        } else {
            let width = command.chars().count().max(44);
            let padding = " ".repeat(width - command.chars().count());
            let outcome = scenario.step(command);
            let shown =
                if outcome.is_empty() { command.to_owned() } else { format!("{command}{padding} {ARROW} {outcome}") };
            writeln!(output, "{}", shown.trim_end()).unwrap();
        }
    }
    output
}

struct Scenario {
    host: Host,
    settled: bool,
    actors: BTreeMap<String, ProducerIdentity>,
    waiters: BTreeMap<Waiter, String>,
}

/// A line taken apart.
struct Line<'a> {
    actor: &'a str,
    verb: &'a str,
    arguments: Vec<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let (actor, rest) = line.split_once(": ").unwrap_or(("", line));
        let mut words = rest.split_whitespace();
        let verb = words.next().expect("a verb");
        let (options, arguments): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
        let options = options.into_iter().map(|option| option.split_once('=').unwrap()).collect();
        Self { actor, verb, arguments, options }
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        self.options.get(name).map_or(default, |text| text.parse().ok().expect("a number"))
    }

    fn id(&self) -> TransactionalId {
        TransactionalId::from(*self.options.get("id").unwrap_or(&"t"))
    }

    fn partitions(&self) -> Vec<TopicPartition> {
        self.arguments.iter().map(|name| partition(name)).collect()
    }

    fn admissions(&self) -> Vec<(TopicPartition, Admission)> {
        let admit = |name: &&str| match name.chars().last() {
            Some('?') => (partition(name.trim_end_matches('?')), Admission::Unknown),
            Some('!') => (partition(name.trim_end_matches('!')), Admission::Unauthorized),
            _ => (partition(name), Admission::Exists),
        };
        self.arguments.iter().map(admit).collect()
    }
}

impl Scenario {
    fn new() -> Self {
        Self { host: Host::new(), settled: false, actors: BTreeMap::new(), waiters: BTreeMap::new() }
    }

    fn step(&mut self, text: &str) -> String {
        let line = Line::parse(text);
        match line.verb {
            "settled" => self.settled = true,
            "slow" => self.settled = false,
            "wait" => self.host.wait_ms(line.arguments[0].parse().unwrap()),
            "crash" => {
                self.host.crash();
                return show_owed(&self.host);
            }
            "given" => {
                let record = given(&line);
                for id in record.transaction().into_iter().flat_map(names) {
                    self.host.fresh_producer_id = self.host.fresh_producer_id.max(ProducerId(id.0 + 1));
                }
                return match self.host.append(record) {
                    Ok(()) => show_owed(&self.host),
                    Err(Corrupt { offset, reason }) => format!("corrupt at {offset}: {reason}"),
                };
            }
            "describe" => return self.describe(&line),
            "list" => return self.list(&line),
            "ids" => {
                return self.host.shard.transactional_ids().map(TransactionalId::as_str).collect::<Vec<_>>().join(", ");
            }
            _ => return self.ask(&line),
        }
        String::new()
    }

    fn identity(&self, line: &Line<'_>) -> ProducerIdentity {
        match line.options.get("as") {
            None | Some(&"own") => self.actors.get(line.actor).copied().unwrap_or(ProducerIdentity::NONE),
            Some(text) => identity(text),
        }
    }

    fn ask(&mut self, line: &Line<'_>) -> String {
        let command = self.command(line);
        let mut decisions = vec![self.host.ask(&command)];
        let waiter = self.host.last_waiter;
        if !line.actor.is_empty() {
            self.waiters.insert(waiter, line.actor.to_owned());
        }
        if self.settled {
            decisions.extend(self.host.settle());
        }
        for (waiter, reply) in decisions.iter().flat_map(|decision| &decision.replies) {
            if let Reply::InitProducerId(Ok(identity)) | Reply::EndTxn(Ok(identity)) = reply {
                self.actors.insert(self.waiters[waiter].clone(), *identity);
            }
        }
        self.show(waiter, &decisions)
    }

    fn command(&self, line: &Line<'_>) -> Command {
        let transactional_id = line.id();
        let producer = self.identity(line);
        let add = |caller, partitions| {
            Command::AddPartitions(AddPartitions {
                caller,
                transactional_id: transactional_id.clone(),
                producer,
                partitions,
            })
        };
        let write = |caller: Caller, partitions: Vec<TopicPartition>| match caller.protocol() {
            Protocol::V2 => add(caller, partitions.into_iter().map(|it| (it, Admission::Exists)).collect()),
            Protocol::V1 => Command::VerifyPartitions(VerifyPartitions {
                caller,
                transactional_id: transactional_id.clone(),
                producer,
                partitions,
            }),
        };
        let end = |outcome| {
            let version = line.number("v", 5);
            Command::EndTxn(EndTxn { version, transactional_id: transactional_id.clone(), producer, outcome })
        };
        let report = || MarkersReport {
            transactional_id: transactional_id.clone(),
            prepared_at: line.number("at", self.prepared_at(&transactional_id)),
            partitions: line.partitions(),
        };
        let offsets = || partition("__consumer_offsets-7");
        match line.verb {
            "init" => Command::InitProducerId(InitProducerId {
                version: line.number("v", 5),
                transactional_id: (line.options.get("id") != Some(&"none")).then_some(transactional_id),
                transaction_timeout_ms: line.number("timeout", 60_000),
                expected: if line.options.contains_key("as") { producer } else { ProducerIdentity::NONE },
                enable_two_phase_commit: line.arguments.contains(&"two-phase"),
                keep_prepared_transaction: line.arguments.contains(&"keep-prepared"),
            }),
            "add" => add(Caller::AddPartitionsToTxn { version: line.number("v", 3) }, line.admissions()),
            "add-offsets" => {
                add(Caller::AddOffsetsToTxn { version: line.number("v", 3) }, vec![(offsets(), Admission::Exists)])
            }
            "write" => write(Caller::Produce { version: line.number("v", 12) }, line.partitions()),
            "send-offsets" => write(Caller::TxnOffsetCommit { version: line.number("v", 5) }, vec![offsets()]),
            "commit" => end(Outcome::Commit),
            "abort" => end(Outcome::Abort),
            "marker" => Command::MarkersWritten(report()),
            "gone" => Command::PartitionsGone(report()),
            "delete-topic" => Command::TopicDeleted(line.arguments[0].into()),
            "hang-up" => {
                let is_theirs = |(_, actor): &(&Waiter, &String)| actor.as_str() == line.arguments[0];
                Command::WaiterGone(*self.waiters.iter().rfind(is_theirs).unwrap().0)
            }
            "tick" => Command::Tick,
            "renew" => Command::Renew(transactional_id),
            verb => panic!("no such verb: {verb}"),
        }
    }

    fn prepared_at(&self, transactional_id: &TransactionalId) -> i64 {
        let obligations = self.host.obligations();
        obligations.iter().find(|owed| owed.transactional_id == *transactional_id).map_or(-1, |owed| owed.prepared_at)
    }

    fn show(&self, asked: Waiter, decisions: &[Decision<TransactionCoordinator>]) -> String {
        let reply = |(waiter, reply): &(Waiter, Reply)| {
            let to = if *waiter == asked { String::new() } else { format!("{}: ", self.waiters[waiter]) };
            format!("{to}{}", show_reply(reply))
        };
        let replies: Vec<_> = decisions.iter().flat_map(|it| &it.replies).map(reply).collect();
        let mut changes = Vec::new();
        for decision in decisions {
            changes.extend(decision.records.iter().map(show_record));
            changes.extend(decision.notes.iter().map(|note| format!("({})", self.show_note(note))));
        }
        let changes = if changes.is_empty() { "unchanged".to_owned() } else { changes.join("; ") };
        format!("{:<28} | {changes}", replies.join(", "))
    }

    fn show_note(&self, note: &atonce_coordinator::transaction::Note) -> String {
        note.describe(|waiter| self.waiters.get(&waiter).cloned().unwrap_or_else(|| "this one".to_owned()))
    }

    fn describe(&self, line: &Line<'_>) -> String {
        match self.host.shard.describe(&line.id()) {
            Err(error) => error.to_string(),
            Ok(it) => format!(
                "{} P{} timeout {} {} {}",
                it.state,
                it.producer,
                it.timeout_ms,
                if it.since.0 < 0 { "not started".to_owned() } else { format!("started {}", it.since) },
                show_partitions(&it.partitions)
            ),
        }
    }

    fn list(&self, line: &Line<'_>) -> String {
        let some = |name| line.options.get(name).into_iter().flat_map(|text: &&str| text.split(','));
        let filter = ListFilter {
            states: some("states").map(|name| StateName::from_name(name).expect("a state")).collect(),
            producer_ids: some("pids").map(|id| ProducerId(id.trim_start_matches('P').parse().unwrap())).collect(),
            duration_ms: line.number("duration", -1),
        };
        let entries = self.host.shard.list(&filter, self.host.now);
        entries
            .map(|it| format!("{} P{} {}", it.transactional_id, it.producer_id, it.state))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::InitProducerId(Ok(producer)) | Reply::EndTxn(Ok(producer)) => format!("NONE P{producer}"),
        Reply::InitProducerId(Err(error)) | Reply::EndTxn(Err(error)) => error.to_string(),
        Reply::Partitions(partitions) => {
            let shown = partitions.iter().map(|(partition, error)| format!("{partition}:{error}"));
            shown.collect::<Vec<_>>().join(" ")
        }
    }
}

fn show_record(record: &Record) -> String {
    let id = match record.transactional_id().as_str() {
        "t" => String::new(),
        other => format!("{other}: "),
    };
    format!("{id}{}", record.transaction().map_or_else(|| "expired".to_owned(), show_transaction))
}

fn show_transaction(transaction: &Transaction) -> String {
    let mut shown = format!("{} P{}", transaction.state.name(), transaction.producer);
    match &transaction.state {
        State::Empty | State::Complete { .. } => {}
        State::Ongoing { partitions, .. } => write!(shown, " {}", show_partitions(partitions)).unwrap(),
        State::Prepared { partitions, successor, .. } => {
            write!(shown, " owes {}", show_partitions(partitions)).unwrap();
            if let Some(successor) = successor {
                write!(shown, " then P{successor}").unwrap();
            }
        }
    }
    match transaction.protocol {
        Protocol::V1 => {}
        Protocol::V2 => shown.push_str(" v2"),
    }
    shown
}

fn show_owed(host: &Host) -> String {
    let owed = host.obligations();
    let shown = owed.iter().map(|it| format!("{} P{} to {}", it.outcome, it.producer, show_partitions(&it.partitions)));
    if owed.is_empty() { "nothing owed".to_owned() } else { format!("owed: {}", shown.collect::<Vec<_>>().join(", ")) }
}

fn show_partitions(partitions: &BTreeSet<TopicPartition>) -> String {
    format!("[{}]", partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

/// A record made by hand, through its bytes: `given Ongoing P1/7 x-0`; `given expired`.
fn given(line: &Line<'_>) -> Record {
    let key = TransactionLogKey { transactional_id: line.id().as_str().to_owned() }.encode_versioned(0).unwrap();
    let (state, rest) = line.arguments.split_first().unwrap();
    if *state == "expired" {
        return Record::decode(key, None).unwrap();
    }
    let state = StateName::from_name(state).expect("a state");
    let (producer, partitions) = rest.split_first().unwrap();
    let producer = identity(producer);
    let partitions = partitions.iter().map(|name| {
        let TopicPartition { topic, partition } = partition(name);
        PartitionsSchema { topic: topic.as_str().to_owned(), partition_ids: vec![partition], ..Default::default() }
    });
    let value = TransactionLogValue {
        producer_id: producer.id.0,
        previous_producer_id: line.number("previous", producer.id.0),
        next_producer_id: line.number("next", -1),
        producer_epoch: producer.epoch.0,
        transaction_timeout_ms: line.number("timeout", 60_000),
        transaction_status: state.number(),
        transaction_partitions: (state != StateName::Empty).then(|| partitions.collect()),
        transaction_last_update_timestamp_ms: 1_000_000,
        transaction_start_timestamp_ms: if state == StateName::Empty { -1 } else { 1_000_000 },
        client_transaction_version: line.number("v", 1).min(2) / 2 * 2,
        ..Default::default()
    };
    Record::decode(key, Some(value.encode_versioned(1).unwrap())).unwrap()
}

/// The producer ids that a record names.
fn names(transaction: &Transaction) -> Vec<ProducerId> {
    let successor = match transaction.state {
        State::Prepared { successor, .. } => successor,
        State::Empty | State::Ongoing { .. } | State::Complete { .. } => None,
    };
    [Some(transaction.producer.id), Some(transaction.previous_producer_id), successor].into_iter().flatten().collect()
}

#[test]
fn a_scenario_file_that_is_wrong_is_found_out() {
    let right = run("a: init\n");
    assert!(right.contains("NONE P1/0"), "{right}");
    assert_ne!(run("a: init → PRODUCER_FENCED\n"), "a: init → PRODUCER_FENCED\n");
    assert_eq!(run(&right), right, "running changes nothing that is right");
}

#[test]
fn error_codes_print_as_kafka_names_them() {
    assert_eq!(ErrorCode::ProducerFenced.to_string(), "PRODUCER_FENCED");
}

/// Kafka's words, from the lines of `kafka_answers_*.txt`, held against what is recorded of Kafka: so no scenario can
/// drift away from the truth when the right sides are written anew.
#[test]
fn every_recorded_answer_of_kafka_is_the_coordinators_own() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let recorded = std::fs::read_to_string(testdata.join("oracle-transactions.txt")).unwrap();
    let mut compared = 0;
    let mut titles = BTreeSet::new();
    for file in std::fs::read_dir(testdata.join("transaction")).unwrap().map(|file| file.unwrap().path()) {
        if !file.file_name().unwrap().to_string_lossy().starts_with("kafka_answers_") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let title = text.lines().next().unwrap().trim_start_matches("# ");
        let case = recorded.split("\n# ").find(|case| case.lines().next() == Some(title)).expect("a recorded case");
        titles.insert(title.to_owned());
        let quoted: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# ")).skip(3).collect();
        assert_eq!(
            quoted,
            case.trim_end().lines().skip(1).map(str::trim_end).collect::<Vec<_>>(),
            "{}",
            file.display()
        );
        let mut names = BTreeMap::new();
        for pair in text.lines().collect::<Vec<_>>().windows(2) {
            let (Some((_, kafkas)), Some((command, ours))) = (pair[0].split_once("  ->  "), pair[1].split_once(ARROW))
            else {
                continue;
            };
            let ours = ours.split('|').next().unwrap().trim();
            assert!(
                same_answer(kafkas, ours, &mut names),
                "{}: {command}: Kafka: {kafkas}, ours: {ours}",
                file.display()
            );
            compared += 1;
        }
    }
    assert_eq!(titles.len(), recorded.matches("\n# ").count(), "every recorded case has its scenario");
    assert!(compared >= 150, "only {compared} answers compared");
}

/// Producer ids are compared by the order in which they were named.
fn same_answer(kafkas: &str, ours: &str, names: &mut BTreeMap<String, String>) -> bool {
    let words = |text: &str| {
        let shown = text.replace(['[', ']'], "");
        let mut words: Vec<String> = shown.split_whitespace().map(str::to_owned).collect();
        words.retain(|word| word.parse::<i64>().is_err() || word.len() < 7);
        words.sort();
        words
    };
    let (kafkas, mut ours) = (words(kafkas), words(ours));
    // Kafka's producer names no partition, and its description begins with a code.
    if kafkas.len() == 1 && ours.len() == 1 && !kafkas[0].contains(':') {
        ours[0] = ours[0].rsplit(':').next().unwrap().to_owned();
    }
    // Before version 5 the answer to an end names nobody.
    if kafkas == ["NONE"] {
        return ours.contains(&"NONE".to_owned());
    }
    let kafkas = kafkas.iter().filter(|word| *word != "NONE");
    let ours: Vec<_> = ours.iter().filter(|word| *word != "NONE").collect();
    let kafkas: Vec<_> = kafkas.collect();
    kafkas.len() == ours.len()
        && kafkas.iter().zip(ours).all(|(kafkas, ours)| match (kafkas.split_once('/'), ours.split_once('/')) {
            (Some((kafkas_id, kafkas_epoch)), Some((our_id, our_epoch))) if kafkas_id.starts_with('P') => {
                names.entry(kafkas_id.to_owned()).or_insert_with(|| our_id.to_owned()) == our_id
                    && kafkas_epoch == our_epoch
            }
            _ => *kafkas == ours,
        })
}
