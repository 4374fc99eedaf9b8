//! Runs the scenario files of `testdata/group`: a command per line, left of `→`; right of it what the shard decided.
//! `ATONCE_REGENERATE=1 cargo test -p atonce-coordinator --test scenario_group` writes the right side anew; review the
//! difference.
//!
//! Lines: `ACTOR: VERB ARGUMENTS KEY=VALUE…`. An actor is a client; it acts under the member id and in the generation that it
//! heard of last (`member=b1`, `member=none`, `gen=3` say otherwise) in group `g` (`g=other`).
//!
//! | line | does |
//! |---|---|
//! | `config delay=0 max=2 retention=…` | settings, before anything else |
//! | `a: join` | JoinGroup `v=9`, `instance=`, `session=10000`, `rebalance=30000`, `type=consumer`, `protocols=range,sticky`, `topics=x`, `owned=x-0,x-1` |
//! | `a: sync a1:left b1:@x-0,x-1` | SyncGroup `v=5` with what the leader assigns (with `@`: as consumers write it), `type=`, `protocol=` |
//! | `a: hang-up` | the connection on which a's request is held is gone |
//! | `a: beat`, `a: leave b1 instance:i` | Heartbeat; LeaveGroup of the members named, or of itself |
//! | `a: commit x-0@5` | OffsetCommit `v=9`, `metadata=`, `retention=` |
//! | `a: send x-0@5 p=1` | TxnOffsetCommit `v=3` in the transaction of producer 1 |
//! | `marker 1 commit`, `marker 1 abort` | the producer's transaction ends |
//! | `fetch x-0 stable`, `fetch all` | OffsetFetch |
//! | `delete-offsets x-0`, `delete-groups g`, `delete-partitions x-0` | what their names say |
//! | `describe g`, `list states=Stable types=classic` | the queries |
//! | `topics x:2 y:3` | the broker has these topics now, with so many partitions |
//! | `a: enter topics=x pattern=x.*` | ConsumerGroupHeartbeat `v=1` of a member that joins; its id is the actor's name. `instance=`, `rebalance=30000`, `assignor=`, `rack=` |
//! | `a: stay x-0 x-1` | the next one, in the epoch that the actor heard of last, with the partitions that it has (`all`: what it was given; none: it does not say; `nothing`). `epoch=`, and whatever `enter` can say |
//! | `a: exit`, `a: away` | it leaves, for good or for a while |
//! | `describe-consumers g` | ConsumerGroupDescribe |
//! | `wait 1000` | time passes, with a tick at each deadline |
//! | `crash` | all is lost but the log |
//!
//! Member ids are called `a1`, `a2` … in the order in which client a got them. The right side: replies (`b:` before another's), then after `|` the records, then how groups stand that changed. In those `*` is
//! the leader, `+` joins, `-` wanted to and hung up, `~` syncs, `!` has not synced yet, `?` has an id and has not come with it.
//!
//! Apache Kafka 4.4.0 was sent the same requests, and gave the same replies, but for these: a draw between protocols goes to the smaller
//! name here, and by a hash there; a rebalance goes on at once when the last member turns out to be one too many, and there when time
//! is up; who hangs up goes on as a member there, without a clock.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use atonce_coordinator::group::classic::{Classic, JoinProtocol, State, Waiting, Window};
use atonce_coordinator::group::command::{
    DeleteGroups, DescribeGroups, Heartbeat, JoinGroup, LeaveGroup, ListGroups, MemberIdentity, OffsetCommit,
    OffsetDelete, OffsetFetch, OffsetToCommit, OffsetToFetch, SyncGroup, TxnOffsetCommit, WaiterGone,
};
use atonce_coordinator::group::config::{ConsumerConfig, MigrationPolicy};
use atonce_coordinator::group::consumer::assignor::Assignor;
use atonce_coordinator::group::consumer::command::{ConsumerGroupDescribe, ConsumerGroupHeartbeat, GroupSettings};
use atonce_coordinator::group::consumer::record::Fact;
use atonce_coordinator::group::consumer::{AssignedPartitions, MemberState, Partitions};
use atonce_coordinator::group::record::GroupMetadata;
use atonce_coordinator::group::{Command, GroupConfig, GroupCoordinator, Note, Record, Reply};
use atonce_coordinator::{Decision, Waiter};
use atonce_kernel::{
    GroupId, GroupInstanceId, MemberId, Outcome, ProducerIdentity, Timestamp, TopicName, TopicPartition, Uuid,
};
use bytes::Bytes;

mod group_host;
use atonce_protocol::Message;
use atonce_protocol::messages::consumer_protocol_assignment::ConsumerProtocolAssignment;
use group_host::{Host, assignment, partition, subscription_of_owner, topic_id};

const ARROW: &str = "→";

#[test]
fn every_scenario_of_the_group_coordinator_comes_out_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/group");
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
    assert!(files.len() >= 25, "only {} scenarios", files.len());
    assert!(differences.is_empty(), "scenarios that come out otherwise:\n{differences}");
}

#[test]
fn a_scenario_file_that_is_wrong_is_found_out() {
    let right = run("a: join\n");
    assert!(right.contains("MEMBER_ID_REQUIRED"), "{right}");
    assert_ne!(run("a: join → NONE\n"), "a: join → NONE\n");
    assert_eq!(run(&right), right, "running changes nothing that is right");
}

/// Without delays, which few scenarios are about.
fn config() -> GroupConfig {
    let default = GroupConfig::default();
    GroupConfig {
        initial_rebalance_delay_ms: 0,
        consumer: ConsumerConfig { assignment_interval_ms: 0, ..default.consumer.clone() },
        ..default
    }
}

/// The file with its right sides as they come out.
fn run(text: &str) -> String {
    let mut scenario = Scenario::new(config());
    let mut output = String::new();
    for line in text.lines() {
        // What a command leads to may take several lines; only the first one begins with the command.
        if line.starts_with(' ') {
            continue;
        }
        let command = line.split(ARROW).next().unwrap().trim_end();
        if command.is_empty() || command.starts_with('#') {
            writeln!(output, "{command}").unwrap();
            continue;
        }
        let width = command.chars().count().max(32);
        let padding = " ".repeat(width - command.chars().count());
        let outcome = scenario.step(command);
        let mut outcome = outcome.into_iter();
        let first = outcome.next().unwrap_or_default();
        writeln!(output, "{}", format!("{command}{padding} {ARROW} {first}").trim_end()).unwrap();
        for more in outcome {
            writeln!(output, "{}", format!("{} {ARROW} {more}", " ".repeat(width)).trim_end()).unwrap();
        }
    }
    output
}

#[derive(Clone, Default)]
struct Actor {
    member: Option<MemberId>,
    generation: Option<i32>,
    instance: Option<GroupInstanceId>,
    protocol: Option<String>,
    /// In a consumer group: its epoch, and what it was given.
    epoch: i32,
    given: Partitions,
}

struct Scenario {
    host: Host,
    actors: BTreeMap<String, Actor>,
    waiters: BTreeMap<Waiter, String>,
    /// Short names of the ids that were given out.
    names: BTreeMap<MemberId, String>,
    /// How groups were shown last.
    shown: BTreeMap<GroupId, String>,
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

    fn text(&self, name: &str, default: &str) -> String {
        (*self.options.get(name).unwrap_or(&default)).to_owned()
    }

    fn list(&self, name: &str) -> Vec<String> {
        self.options.get(name).map(|text| text.split(',').map(str::to_owned).collect()).unwrap_or_default()
    }

    fn group(&self) -> GroupId {
        GroupId::from(self.text("g", "g"))
    }

    /// `x-0@5`
    fn offsets(&self) -> Vec<OffsetToCommit> {
        let offset = |argument: &&str| {
            let (at, offset) = argument.split_once('@').expect("partition@offset");
            OffsetToCommit {
                topic_partition: partition(at),
                topic_id: Uuid([self.number("id", 0); 16]),
                offset: offset.parse().expect("an offset"),
                leader_epoch: self.number("epoch", -1),
                metadata: self.options.get("metadata").map(|text| match text.strip_prefix("long:") {
                    Some(length) => "m".repeat(length.parse().unwrap()),
                    None => (*text).to_owned(),
                }),
            }
        };
        self.arguments.iter().map(offset).collect()
    }

    fn partitions(&self) -> Vec<TopicPartition> {
        self.arguments.iter().map(|name| partition(name)).collect()
    }
}

impl Scenario {
    fn new(config: GroupConfig) -> Self {
        Self {
            host: Host::new(config),
            actors: BTreeMap::new(),
            waiters: BTreeMap::new(),
            names: BTreeMap::new(),
            shown: BTreeMap::new(),
        }
    }

    fn step(&mut self, text: &str) -> Vec<String> {
        let line = Line::parse(text);
        match line.verb {
            "config" => {
                let default = GroupConfig::default();
                *self = Self::new(GroupConfig {
                    initial_rebalance_delay_ms: line.number("delay", 0),
                    members_max: line.number("max", default.members_max),
                    offsets_retention_ms: line.number("retention", default.offsets_retention_ms),
                    offsets_retention_check_interval_ms: line.number("check", 600_000),
                    consumer: ConsumerConfig {
                        members_max: line.number("consumer-max", default.consumer.members_max),
                        assignment_interval_ms: line.number("interval", 0),
                        migration: MigrationPolicy::named(&line.text("migration", "bidirectional")).unwrap(),
                        assignors: match line.options.get("assignors") {
                            Some(names) => names.split(',').map(|name| Assignor::named(name).unwrap()).collect(),
                            None => default.consumer.assignors.clone(),
                        },
                        ..default.consumer.clone()
                    },
                    ..default
                });
                Vec::new()
            }
            "topics" => {
                self.host.set_topics(&line.arguments);
                let (now, decisions) = (self.host.now, self.host.tick());
                decisions.iter().filter_map(|decision| self.show(Waiter(0), now, decision)).collect()
            }
            "wait" => {
                let decisions = self.host.pass_ms(line.arguments[0].parse().unwrap());
                decisions.iter().filter_map(|(now, decision)| self.show(Waiter(0), *now, decision)).collect()
            }
            "crash" => {
                self.host.crash();
                let groups = self.host.shard.groups();
                let mut shown: Vec<_> = groups.map(|(id, group)| self.show_group(id, group, self.host.now)).collect();
                let consumers = self.host.shard.consumer_groups();
                shown.extend(consumers.map(|(id, group)| {
                    format!(
                        "{id}: {:?} {}/{}, {} members",
                        group.state(),
                        group.epoch,
                        group.target_epoch,
                        group.members.len()
                    )
                }));
                vec![format!("| {}", shown.join("; "))]
            }
            "marker" => {
                let outcome = match line.arguments[1] {
                    "commit" => Outcome::Commit,
                    "abort" => Outcome::Abort,
                    other => panic!("no such outcome: {other}"),
                };
                self.host.marker(ProducerIdentity::new(line.arguments[0].parse().unwrap(), 0), outcome);
                Vec::new()
            }
            _ => self.ask(&line),
        }
    }

    fn ask(&mut self, line: &Line<'_>) -> Vec<String> {
        let command = self.command(line);
        let decision = self.host.ask(&command);
        let waiter = self.host.last_waiter;
        if !line.actor.is_empty() {
            self.waiters.insert(waiter, line.actor.to_owned());
        }
        let now = self.host.now;
        let mut shown: Vec<String> = self.show(waiter, now, &decision).into_iter().collect();
        // What is due at once, such as the end of a delay of nothing, a host would do next.
        for decision in self.host.tick() {
            shown.extend(self.show(waiter, now, &decision));
        }
        shown
    }

    fn member(&self, line: &Line<'_>) -> Option<MemberId> {
        match line.options.get("member") {
            Some(&"none") => None,
            Some(text) => Some(self.long(text)),
            None => self.actors.get(line.actor).and_then(|actor| actor.member.clone()),
        }
    }

    fn instance(&self, line: &Line<'_>) -> Option<GroupInstanceId> {
        match line.options.get("instance") {
            Some(&"none") => None,
            Some(text) => Some(GroupInstanceId::from(*text)),
            None => self.actors.get(line.actor).and_then(|actor| actor.instance.clone()),
        }
    }

    fn generation(&self, line: &Line<'_>) -> i32 {
        line.number("gen", self.actors.get(line.actor).and_then(|actor| actor.generation).unwrap_or(-1))
    }

    fn command(&mut self, line: &Line<'_>) -> Command {
        let (group, member, instance, generation) =
            (line.group(), self.member(line), self.instance(line), self.generation(line));
        match line.verb {
            "join" => {
                self.actors.entry(line.actor.to_owned()).or_default().instance.clone_from(&instance);
                Command::JoinGroup(self.join(line, member, instance))
            }
            "sync" => Command::SyncGroup(SyncGroup {
                version: line.number("v", 5),
                group,
                generation,
                member,
                instance,
                protocol_type: Some(line.text("type", "consumer")).filter(|text| text != "none"),
                protocol: match line.options.get("protocol") {
                    Some(&"none") => None,
                    Some(text) => Some((*text).to_owned()),
                    None => self.actors.get(line.actor).and_then(|actor| actor.protocol.clone()),
                },
                assignments: line
                    .arguments
                    .iter()
                    .map(|argument| argument.split_once(':').expect("member:assignment"))
                    .map(|(member, bytes)| (self.long(member), assigned(bytes)))
                    .collect(),
            }),
            "enter" | "stay" | "exit" | "away" => Command::ConsumerGroupHeartbeat(self.consumer_heartbeat(line)),
            "describe-consumers" => Command::ConsumerGroupDescribe(ConsumerGroupDescribe { groups: groups(line) }),
            "hang-up" => {
                let is_theirs =
                    |(waiter, actor): &(&Waiter, &String)| *actor == line.actor && self.host.waiting.contains(waiter);
                let held = self.waiters.iter().rfind(is_theirs).expect("a request of the actor's is held");
                Command::WaiterGone(WaiterGone { group, waiter: *held.0 })
            }
            "beat" => Command::Heartbeat(Heartbeat { group, generation, member, instance }),
            "leave" => Command::LeaveGroup(LeaveGroup { group, members: self.leaving(line, member, instance) }),
            "commit" => Command::OffsetCommit(OffsetCommit {
                version: line.number("v", 9),
                group,
                generation,
                member,
                instance,
                retention_ms: line.options.get("retention").map(|text| text.parse().unwrap()),
                offsets: line.offsets(),
            }),
            "send" => Command::TxnOffsetCommit(TxnOffsetCommit {
                version: line.number("v", 3),
                producer: ProducerIdentity::new(line.number("p", 1), 0),
                group,
                generation,
                member,
                instance,
                offsets: line.offsets(),
            }),
            "fetch" => Command::OffsetFetch(OffsetFetch {
                group,
                member,
                epoch: line.number("epoch", -1),
                require_stable: line.arguments.contains(&"stable"),
                partitions: (!line.arguments.contains(&"all")).then(|| {
                    let named = line.arguments.iter().filter(|argument| **argument != "stable");
                    let fetch = |name: &&str| OffsetToFetch {
                        topic_partition: partition(name),
                        topic_id: Uuid([line.number("id", 0); 16]),
                    };
                    named.map(fetch).collect()
                }),
            }),
            "delete-offsets" => Command::OffsetDelete(OffsetDelete { group, partitions: line.partitions() }),
            "delete-partitions" => Command::PartitionsDeleted(line.partitions()),
            "delete-groups" => Command::DeleteGroups(DeleteGroups { groups: groups(line) }),
            "describe" => {
                Command::DescribeGroups(DescribeGroups { version: line.number("v", 6), groups: groups(line) })
            }
            "list" => Command::ListGroups(ListGroups { states: line.list("states"), types: line.list("types") }),
            verb => panic!("no such verb: {verb}"),
        }
    }

    fn consumer_heartbeat(&mut self, line: &Line<'_>) -> ConsumerGroupHeartbeat {
        let joins = line.verb == "enter";
        let actor = self.actors.entry(line.actor.to_owned()).or_default();
        let epoch = match line.verb {
            "enter" => 0,
            "exit" => -1,
            "away" => -2,
            _ => actor.epoch,
        };
        let owned = match line.arguments.as_slice() {
            [] if !joins => None,
            [] | ["nothing"] => Some(Partitions::new()),
            ["all"] => Some(actor.given.clone()),
            named => {
                let mut owned = Partitions::new();
                for at in named.iter().map(|name| partition(name)) {
                    owned.entry(topic_id(at.topic.as_str())).or_default().insert(at.partition);
                }
                Some(owned)
            }
        };
        if let Some(instance) = line.options.get("instance") {
            actor.instance = Some(GroupInstanceId::from(*instance));
        }
        actor.member = Some(MemberId::from(line.text("member", line.actor))).filter(|id| id.as_str() != "none");
        let text = |name: &str| line.options.get(name).map(|text| Arc::from(*text));
        ConsumerGroupHeartbeat {
            version: line.number("v", 1),
            group: line.group(),
            member: actor.member.clone(),
            epoch: line.number("epoch", epoch),
            instance: actor.instance.clone(),
            rack: text("rack"),
            client_id: Arc::from(line.actor),
            client_host: Arc::from("/127.0.0.1"),
            rebalance_timeout_ms: match line.options.get("rebalance") {
                Some(&"none") => None,
                Some(text) => Some(text.parse().unwrap()),
                None => joins.then_some(30_000),
            },
            topics: line
                .options
                .get("topics")
                .map(|names| names.split(',').filter(|name| !name.is_empty()).map(TopicName::from).collect()),
            pattern: text("pattern"),
            assignor: text("assignor"),
            owned,
            settings: GroupSettings::default(),
        }
    }

    fn join(&self, line: &Line<'_>, member: Option<MemberId>, instance: Option<GroupInstanceId>) -> JoinGroup {
        let topics = line.text("topics", "x");
        let topics: Vec<_> = topics.split(',').collect();
        let protocols = line.text("protocols", "range");
        let owned: Vec<_> = line.list("owned").iter().map(|name| partition(name)).collect();
        let offered =
            |name: &str| JoinProtocol { name: name.to_owned(), metadata: subscription_of_owner(&topics, &owned) };
        JoinGroup {
            version: line.number("v", 9),
            group: line.group(),
            member,
            instance,
            client_id: Arc::from(line.actor),
            client_host: Arc::from("/127.0.0.1"),
            session_timeout_ms: line.number("session", 10_000),
            rebalance_timeout_ms: line.number("rebalance", 30_000),
            protocol_type: line.text("type", "consumer").replace("none", ""),
            protocols: protocols.split(',').filter(|name| *name != "none").map(offered).collect(),
        }
    }

    /// `None`: nothing to say.
    fn show(&mut self, asked: Waiter, now: Timestamp, decision: &Decision<GroupCoordinator>) -> Option<String> {
        for note in &decision.notes {
            if let Note::Stands { classic, .. } = note {
                classic.pending.keys().chain(classic.members.keys()).for_each(|id| self.name(id));
            }
        }
        let mut replies = Vec::new();
        for (waiter, reply) in &decision.replies {
            let actor = self.waiters.get(waiter).cloned().unwrap_or_default();
            self.learn(&actor, reply);
            let to = if *waiter == asked { String::new() } else { format!("{actor}: ") };
            replies.push(format!("{to}{}", self.show_reply(reply)));
        }
        let mut changes: Vec<String> = decision.records.iter().map(|record| self.show_record(record)).collect();
        for note in &decision.notes {
            match note {
                Note::Stands { group, classic } => {
                    let shown = self.show_group(group, classic, now);
                    if self.shown.insert(group.clone(), shown.clone()).as_ref() != Some(&shown) {
                        changes.push(shown);
                    }
                }
                Note::Seen { member, .. } => changes.push(format!("{} lives", self.short(member))),
                Note::Clocks { group, member, clocks } => {
                    let mut shown = format!("{} lives", self.short(member));
                    let due = |at: Timestamp| at.ms_since(now);
                    for (name, at) in [("gives up", clocks.rebalance), ("joins", clocks.join), ("syncs", clocks.sync)] {
                        if let Some(at) = at {
                            write!(shown, ", {name} within {} ms", due(at)).unwrap();
                        }
                    }
                    changes.push(shown);
                    if let Some(consumer) = self.host.shard.consumer_group(group) {
                        changes.push(format!("{:?}", consumer.state()));
                    }
                }
                Note::Search(_)
                | Note::Topics(_)
                | Note::Checked { .. }
                | Note::PatternsResolved { .. }
                | Note::Rescheduled { .. } => {}
            }
        }
        let replies = replies.join(", ");
        match changes.is_empty() {
            true if replies.is_empty() => None,
            true => Some(replies),
            false => Some(format!("{replies} | {}", changes.join("; ")).trim_start().to_owned()),
        }
    }

    fn name(&mut self, id: &MemberId) {
        let Some(client) = client_of(id) else { return };
        if !self.names.contains_key(id) {
            let count = self.names.keys().filter(|other| client_of(other) == Some(client)).count();
            self.names.insert(id.clone(), format!("{client}{}", count + 1));
        }
    }

    fn long(&self, name: &str) -> MemberId {
        let known = self.names.iter().find(|(_, short)| *short == name);
        known.map_or_else(|| MemberId::from(name), |(id, _)| id.clone())
    }

    fn short(&self, id: &MemberId) -> String {
        self.names.get(id).cloned().unwrap_or_else(|| id.to_string())
    }

    fn learn(&mut self, actor: &str, reply: &Reply) {
        let actor = self.actors.entry(actor.to_owned()).or_default();
        match reply {
            Reply::JoinGroup(Ok(joined)) => {
                actor.member = Some(joined.member.clone());
                actor.generation = Some(joined.generation);
                actor.protocol.clone_from(&joined.protocol);
            }
            Reply::JoinGroup(Err(refused)) if refused.member.is_some() => actor.member.clone_from(&refused.member),
            Reply::ConsumerGroupHeartbeat(Ok(beat)) => {
                actor.member = Some(beat.member.clone());
                actor.epoch = beat.epoch;
                actor.generation = Some(beat.epoch);
                if let Some(assignment) = &beat.assignment {
                    actor.given.clone_from(assignment);
                }
            }
            _ => {}
        }
    }
}

/// `x-0 x-1`
fn show_partitions(partitions: &Partitions) -> String {
    let all = partitions.iter().flat_map(|(topic, all)| all.iter().map(|it| format!("{}-{it}", topic.0[0] as char)));
    let shown = all.collect::<Vec<_>>().join(" ");
    if shown.is_empty() { "nothing".to_owned() } else { shown }
}

/// `x-0@2`, given in epoch 2
fn show_assigned(partitions: &AssignedPartitions) -> String {
    let all = partitions
        .iter()
        .flat_map(|(topic, all)| all.iter().map(|(it, since)| format!("{}-{it}@{since}", topic.0[0] as char)));
    let shown = all.collect::<Vec<_>>().join(" ");
    if shown.is_empty() { "nothing".to_owned() } else { shown }
}

fn show_topics(topics: &[atonce_coordinator::group::consumer::DescribedTopic]) -> String {
    let all = topics.iter().flat_map(|topic| topic.partitions.iter().map(|it| format!("{}-{it}", topic.name)));
    let shown = all.collect::<Vec<_>>().join(" ");
    if shown.is_empty() { "nothing".to_owned() } else { shown }
}

fn groups(line: &Line<'_>) -> Vec<GroupId> {
    line.arguments.iter().map(|name| GroupId::from(*name)).collect()
}

/// A member's id is the client's name or its own, a hyphen, and something random of 36 characters.
fn client_of(id: &MemberId) -> Option<&str> {
    id.as_str().len().checked_sub(37).and_then(|end| id.as_str().get(..end))
}

/// `@x-0,x-1` is a consumer's assignment, anything else itself.
fn assigned(text: &str) -> Bytes {
    match text.strip_prefix('@') {
        Some(partitions) => {
            let names = partitions.split(',').filter(|name| !name.is_empty());
            assignment(&names.map(partition).collect::<Vec<_>>())
        }
        None => Bytes::from(text.to_owned()),
    }
}

fn text(bytes: &Bytes) -> String {
    if let Ok((_, assignment)) = ConsumerProtocolAssignment::decode_versioned(bytes.clone()) {
        let topics = assignment.assigned_partitions.iter();
        let all = topics.flat_map(|it| it.partitions.iter().map(|index| format!("{}-{index}", it.topic)));
        return format!("@{}", all.collect::<Vec<_>>().join(","));
    }
    if bytes.is_empty() { "nothing".to_owned() } else { String::from_utf8_lossy(bytes).into_owned() }
}

impl Scenario {
    fn leaving(
        &self,
        line: &Line<'_>,
        member: Option<MemberId>,
        instance: Option<GroupInstanceId>,
    ) -> Vec<MemberIdentity> {
        if line.arguments.is_empty() {
            return vec![MemberIdentity { member, instance }];
        }
        let identity = |name: &&str| match name.strip_prefix("instance:") {
            Some(instance) => MemberIdentity { member: None, instance: Some(GroupInstanceId::from(instance)) },
            None => MemberIdentity { member: Some(self.long(name)), instance: None },
        };
        line.arguments.iter().map(identity).collect()
    }

    fn show_reply(&self, reply: &Reply) -> String {
        let each = |answers: &[(TopicPartition, atonce_protocol::ErrorCode)]| {
            answers.iter().map(|(at, error)| format!("{at}:{error}")).collect::<Vec<_>>().join(" ")
        };
        match reply {
            Reply::JoinGroup(Ok(it)) => {
                let leader = it.leader.as_ref().map(|id| self.short(id)).unwrap_or_default();
                let protocol = it.protocol.clone().unwrap_or_default();
                let mut shown =
                    format!("NONE {} in {} {protocol} leader {leader}", self.short(&it.member), it.generation);
                if it.skip_assignment {
                    shown.push_str(", keeps the assignment");
                }
                if !it.members.is_empty() {
                    write!(
                        shown,
                        " of {}",
                        it.members.iter().map(|it| self.short(&it.member)).collect::<Vec<_>>().join(" ")
                    )
                    .unwrap();
                }
                shown
            }
            Reply::JoinGroup(Err(refused)) => {
                format!("{} {}", refused.error, refused.member.as_ref().map(|id| self.short(id)).unwrap_or_default())
                    .trim_end()
                    .to_owned()
            }
            Reply::SyncGroup(Ok(synced)) => format!("NONE {}", text(&synced.assignment)),
            Reply::SyncGroup(Err(error)) => error.to_string(),
            Reply::Heartbeat(error) => error.to_string(),
            Reply::LeaveGroup(Ok(members)) => {
                let who = |it: &atonce_coordinator::group::reply::MemberLeft| {
                    let name =
                        it.member.as_ref().map(|id| self.short(id)).or(it.instance.as_ref().map(ToString::to_string));
                    format!("{}:{}", name.unwrap_or_default(), it.error)
                };
                members.iter().map(who).collect::<Vec<_>>().join(" ")
            }
            Reply::LeaveGroup(Err(error)) | Reply::OffsetsDeleted(Err(error)) => error.to_string(),
            Reply::OffsetsCommitted(answers) | Reply::OffsetsDeleted(Ok(answers)) => each(answers),
            Reply::ConsumerGroupHeartbeat(Ok(beat)) => {
                let given = beat.assignment.as_ref().map(|given| format!(" {}", show_partitions(given)));
                format!("NONE {} in {}{}", self.short(&beat.member), beat.epoch, given.unwrap_or_default())
            }
            Reply::ConsumerGroupHeartbeat(Err(refused)) => {
                format!("{}: {}", refused.error, refused.message.lines().next().unwrap_or_default())
            }
            Reply::ConsumerGroupsDescribed(groups) => {
                let one = |it: &atonce_coordinator::group::consumer::wire::Described| match it {
                    Ok(it) => {
                        let member = |it: &atonce_coordinator::group::consumer::DescribedConsumer| {
                            let protocol = if it.details.subscription.classic.is_some() { " (classic)" } else { "" };
                            format!(
                                "{}{protocol} in {}: {} of {}",
                                self.short(&it.member),
                                it.details.current.epoch,
                                show_topics(&it.assignment),
                                show_topics(&it.target)
                            )
                        };
                        let members: Vec<_> = it.members.iter().map(member).collect();
                        let (epoch, target) = (it.epoch, it.target_epoch);
                        format!("{} {} {epoch}/{target} {} [{}]", it.group, it.state, it.assignor, members.join(", "))
                    }
                    Err((id, error, message)) => format!("{id} {error}: {message}"),
                };
                groups.iter().map(one).collect::<Vec<_>>().join("; ")
            }
            Reply::OffsetsFetched(Err(error)) => error.to_string(),
            Reply::OffsetsFetched(Ok(offsets)) => {
                let one = |it: &atonce_coordinator::group::reply::FetchedOffset| match it.error {
                    atonce_protocol::ErrorCode::None if it.metadata.is_empty() => {
                        format!("{}@{}", it.topic_partition, it.offset)
                    }
                    atonce_protocol::ErrorCode::None => {
                        let shown: String = it.metadata.chars().take(10).collect();
                        format!("{}@{} '{shown}'", it.topic_partition, it.offset)
                    }
                    error => format!("{}@{} {error}", it.topic_partition, it.offset),
                };
                if offsets.is_empty() {
                    "none".to_owned()
                } else {
                    offsets.iter().map(one).collect::<Vec<_>>().join(" ")
                }
            }
            Reply::GroupsDescribed(groups) => {
                let one = |it: &atonce_coordinator::group::reply::DescribedGroup| {
                    let member = |it: &atonce_coordinator::group::reply::DescribedMember| {
                        let said = if it.metadata.is_empty() { "" } else { " subscribed" };
                        format!("{}: {}{said}", self.short(&it.member), text(&it.assignment))
                    };
                    let members: Vec<_> = it.members.iter().map(member).collect();
                    format!(
                        "{} {} {} '{}' '{}' [{}]",
                        it.group,
                        it.error,
                        it.state,
                        it.protocol_type,
                        it.protocol,
                        members.join(", ")
                    )
                };
                groups.iter().map(one).collect::<Vec<_>>().join(", ")
            }
            Reply::GroupsListed(groups) => {
                let one = |it: &atonce_coordinator::group::reply::ListedGroup| {
                    format!("{} {} {} '{}'", it.group, it.state, it.group_type, it.protocol_type)
                };
                if groups.is_empty() {
                    "none".to_owned()
                } else {
                    groups.iter().map(one).collect::<Vec<_>>().join(", ")
                }
            }
            Reply::GroupsDeleted(groups) => {
                groups.iter().map(|(id, error)| format!("{id}:{error}")).collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn show_record(&self, record: &Record) -> String {
        match record {
            Record::Group { group, metadata: None } => format!("[{group} gone]"),
            Record::Group { metadata: Some(metadata), .. } => format!("[{}]", self.show_metadata(metadata)),
            Record::Consumer { fact, .. } => format!("[{}]", self.show_fact(fact)),
            Record::Offset { topic_partition, value: Some(value), .. } => {
                format!("[{topic_partition}@{}]", value.offset)
            }
            Record::Offset { topic_partition, value: None, .. } => format!("[{topic_partition} gone]"),
        }
    }

    fn show_fact(&self, fact: &Fact) -> String {
        match fact {
            Fact::Epoch(Some(it)) => format!("epoch {}", it.epoch),
            Fact::Epoch(None) => "group gone".to_owned(),
            Fact::Member(id, Some(it)) => {
                let topics: Vec<_> = it.topics.iter().map(ToString::to_string).collect();
                let mut shown = format!("{} wants {}", self.short(id), topics.join(" "));
                if !it.pattern.is_empty() {
                    write!(shown, " /{}/", it.pattern).unwrap();
                }
                if let Some(instance) = &it.instance {
                    write!(shown, " as {instance}").unwrap();
                }
                if it.classic.is_some() {
                    shown.push_str(" (classic)");
                }
                shown
            }
            Fact::Member(id, None) => format!("{} gone", self.short(id)),
            Fact::Target(Some(it)) => format!("target {}", it.epoch),
            Fact::Target(None) => "target gone".to_owned(),
            Fact::TargetMember(id, Some(it)) => format!("{} shall have {}", self.short(id), show_partitions(it)),
            Fact::TargetMember(id, None) => format!("{} shall have no more", self.short(id)),
            Fact::Current(id, Some(it)) => {
                let state = match it.state {
                    MemberState::Stable => "has",
                    MemberState::UnrevokedPartitions => "keeps",
                    MemberState::UnreleasedPartitions => "waits with",
                    MemberState::Unknown => "is lost with",
                };
                let mut shown = format!("{} in {} {state} {}", self.short(id), it.epoch, show_assigned(&it.assigned));
                if !it.revoking.is_empty() {
                    write!(shown, ", gives up {}", show_assigned(&it.revoking)).unwrap();
                }
                shown
            }
            Fact::Current(id, None) => format!("{} has no more", self.short(id)),
            Fact::Pattern(pattern, Some(it)) => {
                let topics: Vec<_> = it.topics.iter().map(ToString::to_string).collect();
                format!("/{pattern}/ is {}", topics.join(" ")).trim_end().to_owned()
            }
            Fact::Pattern(pattern, None) => format!("/{pattern}/ gone"),
        }
    }

    fn show_metadata(&self, metadata: &GroupMetadata) -> String {
        let member = |it: &atonce_coordinator::group::record::MemberMetadata| {
            format!(" {}:{}", self.short(&it.member), text(&it.assignment))
        };
        let members: String = metadata.members.iter().map(member).collect();
        if members.is_empty() {
            format!("{} empty", metadata.generation)
        } else {
            format!("{}{members}", metadata.generation)
        }
    }

    fn show_group(&self, id: &GroupId, group: &Classic, now: Timestamp) -> String {
        let unsynced = match &group.state {
            State::CompletingRebalance { unsynced, .. } | State::Stable { unsynced, .. } => unsynced.clone(),
            State::Empty | State::PreparingRebalance { .. } => Default::default(),
        };
        let mut members: Vec<String> = Vec::new();
        for (id, member) in &group.members {
            let leads = if group.leader.as_ref() == Some(id) { "*" } else { "" };
            let waits = match member.waiting {
                Waiting::No if unsynced.contains(id) => "!",
                Waiting::No => "",
                Waiting::Join { .. } => "+",
                Waiting::JoinGone => "-",
                Waiting::Sync { .. } => "~",
            };
            members.push(format!("{}{leads}{waits}", self.short(id)));
        }
        members.extend(group.pending.keys().map(|id| format!("{}?", self.short(id))));
        let state = match &group.state {
            State::Empty => format!("Empty {}", group.generation),
            State::PreparingRebalance { window: Window::Initial { deadline, .. } } => {
                format!("Preparing {} initially {} ms", group.generation, deadline.ms_since(now))
            }
            State::PreparingRebalance { window: Window::UntilAllJoined { deadline } } => {
                format!("Preparing {} {} ms", group.generation, deadline.ms_since(now))
            }
            State::CompletingRebalance { .. } => {
                format!("Completing {} {}", group.generation, group.protocol.clone().unwrap_or_default())
            }
            State::Stable { .. } => {
                format!("Stable {} {}", group.generation, group.protocol.clone().unwrap_or_default())
            }
        };
        let id = if id.as_str() == "g" { String::new() } else { format!("{id}: ") };
        format!("{id}{state} {}", members.join(" ")).trim_end().to_owned()
    }
}
