//! Row 5: a topology that keeps up with nothing, since its input is there already: how many records a second it takes from Kafka to Kafka, and
//! how many for a second of CPU, the broker's and the application's together.
//!
//! A record counts once the group's committed position is behind it: then its results are committed too. The positions are asked for now and
//! then, which costs both sides the same little; nobody reads the results meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Workbench;
use crate::brokers::{APACHE_KAFKA, Broker, Durability, two_free_ports};
use crate::clients::{Client, our_application};
use crate::figures::{Bar, Figure, Line, Sample};
use crate::processes;
use crate::raw_client::RawClient;
use crate::rounds::{Round, interleave_all};

pub(super) const PARTITIONS: i32 = 4;
const KEYS: u32 = 1_000_000;
const VALUE_BYTES: u32 = 100;
const INPUT: &str = "input";

const PER_CPU_RATIO_MIN: f64 = 5.0;

/// Commit intervals, and the share of the rate at least once that is to be reached exactly once.
const INTERVALS_MS: [(u32, f64); 3] = [(100, 0.95), (10, 0.9), (1, 0.6)];

/// How long one that has stopped may take for its first commit, or for the next.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);
const POLL_BETWEEN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Map,
    Count,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Count => "count",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarantee {
    ExactlyOnce,
    AtLeastOnce,
}

impl Guarantee {
    fn key(self) -> &'static str {
        match self {
            Self::ExactlyOnce => "exactly_once",
            Self::AtLeastOnce => "at_least_once",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ExactlyOnce => "exactly once",
            Self::AtLeastOnce => "at least once",
        }
    }
}

/// Who runs the topology, and whose broker has the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Ours, with the broker in its own process.
    Embedded,
    OursOnKafka,
    JvmOnKafka,
    JvmOnOurs,
}

impl Who {
    fn is_jvm(self) -> bool {
        match self {
            Self::JvmOnKafka | Self::JvmOnOurs => true,
            Self::Embedded | Self::OursOnKafka => false,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "atonce, embedded",
            Self::OursOnKafka => "atonce on Apache Kafka",
            Self::JvmOnKafka => "Kafka Streams on Apache Kafka",
            Self::JvmOnOurs => "Kafka Streams on atonce",
        }
    }
}

/// An application's process, and where its broker is.
#[derive(Debug)]
pub(super) struct Side {
    who: Who,
    pub(super) application: Client,
    pub(super) address: String,
    /// `None`: it is in the application's process.
    pub(super) broker: Option<u32>,
}

/// What is started for rows about streams. Dropped in this order: applications before brokers.
#[derive(Debug)]
pub(super) struct Stage {
    sides: Vec<Side>,
    durability: Durability,
    /// Kept until all is over.
    brokers: Vec<Broker>,
    scratch: PathBuf,
    runs: u32,
}

impl Stage {
    /// Starts the brokers that these sides need, and a process for each side.
    pub(super) fn set(workbench: &mut Workbench, who: &[Who], durability: Durability) -> Result<Self> {
        let scratch = workbench.folder("streams")?;
        let mut brokers = Vec::new();
        if who.iter().any(|who| matches!(who, Who::OursOnKafka | Who::JvmOnKafka)) {
            brokers.push(workbench.apache_kafka(durability)?);
        }
        if who.contains(&Who::JvmOnOurs) {
            brokers.push(workbench.ours(durability)?);
        }
        let place = |is_kafka: bool| -> Result<(String, Option<u32>)> {
            let mut brokers = brokers.iter();
            let broker = brokers.find(|broker| (broker.name == APACHE_KAFKA) == is_kafka).context("was started")?;
            Ok((broker.address.clone(), Some(broker.pid)))
        };
        let mut stage = Self { sides: Vec::new(), durability, brokers: Vec::new(), scratch, runs: 0 };
        for who in who {
            let mut application = stage.start_process(workbench, *who)?;
            let (address, broker) = match who {
                Who::Embedded => {
                    // A port of its own, so that it is found again after a restart.
                    let address = format!("127.0.0.1:{}", two_free_ports()?);
                    stage.start_embedded(&mut application, &address)?;
                    (address, None)
                }
                Who::OursOnKafka | Who::JvmOnKafka => place(true)?,
                Who::JvmOnOurs => place(false)?,
            };
            stage.sides.push(Side { who: *who, application, address, broker });
        }
        stage.brokers = brokers;
        Ok(stage)
    }

    fn start_process(&self, workbench: &mut Workbench, who: Who) -> Result<Client> {
        match who {
            Who::Embedded | Who::OursOnKafka => Client::start(our_application()?),
            Who::JvmOnKafka | Who::JvmOnOurs => workbench.java_client(),
        }
    }

    fn start_embedded(&self, application: &mut Client, address: &str) -> Result<()> {
        let (data, durability) = (self.scratch.join("embedded"), self.durability.key());
        application.call(&format!("broker data={} durability={durability} listen={address}", data.display()))?;
        Ok(())
    }

    /// A new process in place of one that was killed; its topology is not started yet, its broker is.
    pub(super) fn start_again(&mut self, workbench: &mut Workbench, who: Who) -> Result<()> {
        let mut application = self.start_process(workbench, who)?;
        let address = self.side(who)?.address.clone();
        if who == Who::Embedded {
            self.start_embedded(&mut application, &address)?;
        }
        self.side(who)?.application = application;
        Ok(())
    }

    pub(super) fn side(&mut self, who: Who) -> Result<&mut Side> {
        self.sides.iter_mut().find(|side| side.who == who).with_context(|| format!("{} was not started", who.name()))
    }

    /// Every broker once.
    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<String> = self.sides.iter().map(|side| side.address.clone()).collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }

    /// A number that no run of this stage had before.
    pub(super) fn next_run(&mut self) -> u32 {
        self.runs += 1;
        self.runs
    }

    pub(super) fn state(&self, run: u32) -> PathBuf {
        self.scratch.join(format!("state-{run}"))
    }
}

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let all = [Who::Embedded, Who::JvmOnKafka, Who::OursOnKafka, Who::JvmOnOurs];
    let who = if workbench.quick { &all[..2] } else { &all[..] };
    let mut stage = Stage::set(workbench, who, Durability::Os)?;
    let records: u64 = if workbench.quick { 1_200_000 } else { 6_000_000 };
    let mut loader = workbench.java_client()?;
    for address in stage.addresses() {
        workbench.progress.say(&format!("loading {records} records · {address}"));
        loader.call(&format!("topic bootstrap={address} name={INPUT} partitions={PARTITIONS}"))?;
        loader.call(&format!(
            "load bootstrap={address} topic={INPUT} records={records} keys={KEYS} size={VALUE_BYTES} zipf=1"
        ))?;
    }
    drop(loader);
    let mut lines = Vec::new();
    for (kind, interval_ms, sides) in plan(workbench.quick) {
        let mut work = Work { workbench, stage: &mut stage, kind, interval_ms, records };
        let mut contenders = sides.clone();
        let counted = work.workbench.counted_rounds;
        let samples = interleave_all(&mut contenders, counted, |(who, guarantee), round| {
            let name = format!("{}, {}", who.name(), guarantee.name());
            let progress = &work.workbench.progress;
            let what = format!("{}, {interval_ms} ms", kind.name());
            progress.run(&what, &name, round, || work.run(*who, *guarantee, round))
        })?;
        lines.extend(compared(kind, interval_ms, &sides, &samples));
    }
    Ok(lines)
}

type Contenders = Vec<(Who, Guarantee)>;

/// Everything by everyone; in a quick run the count alone, and whom its bars are about.
fn plan(is_quick: bool) -> Vec<(Kind, u32, Contenders)> {
    use Guarantee::{AtLeastOnce, ExactlyOnce};
    let both = |who| [(who, ExactlyOnce), (who, AtLeastOnce)];
    let ours = both(Who::Embedded).to_vec();
    if !is_quick {
        let all: Contenders =
            [Who::Embedded, Who::JvmOnKafka, Who::OursOnKafka, Who::JvmOnOurs].into_iter().flat_map(both).collect();
        let kinds = [Kind::Count, Kind::Map];
        return kinds
            .into_iter()
            .flat_map(|kind| INTERVALS_MS.map(|(interval_ms, _)| (kind, interval_ms, all.clone())))
            .collect();
    }
    let beside = ours.iter().copied().chain([(Who::JvmOnKafka, ExactlyOnce)]).collect();
    vec![(Kind::Count, 10, beside), (Kind::Count, 100, ours.clone()), (Kind::Count, 1, ours)]
}

/// Lines about what the samples of one kind and interval say.
fn compared(kind: Kind, interval_ms: u32, sides: &Contenders, samples: &[Vec<Sample>]) -> Vec<Line> {
    use Guarantee::{AtLeastOnce, ExactlyOnce};
    let of = |who, guarantee| {
        let index = sides.iter().position(|side| *side == (who, guarantee))?;
        samples.get(index).map(Vec::as_slice)
    };
    let kind = kind.name();
    let mut lines = Vec::new();
    for guarantee in [ExactlyOnce, AtLeastOnce] {
        let pairs =
            [(Who::Embedded, Who::JvmOnKafka), (Who::OursOnKafka, Who::JvmOnKafka), (Who::Embedded, Who::JvmOnOurs)];
        for (who, peer) in pairs {
            let (Some(ours), Some(theirs)) = (of(who, guarantee), of(peer, guarantee)) else { continue };
            let work = format!("{kind}, {}, {interval_ms} ms", guarantee.name());
            let (name, peer_name) = (who.name(), peer.name());
            lines.push(Line::compare(5, &work, "records/s", (name, ours), (peer_name, theirs)));
            let work = format!("{work}: a second of CPU");
            let line = Line::plain(
                5,
                &work,
                "records/CPU s",
                (name, per_cpu_second(ours)),
                (peer_name, per_cpu_second(theirs)),
            );
            let is_judged =
                who == Who::Embedded && peer == Who::JvmOnKafka && guarantee == ExactlyOnce && interval_ms == 10;
            lines.push(if is_judged { line.bar(Bar::RatioAtLeast(PER_CPU_RATIO_MIN)) } else { line });
        }
    }
    for who in [Who::Embedded, Who::JvmOnKafka] {
        let (Some(exactly), Some(at_least)) = (of(who, ExactlyOnce), of(who, AtLeastOnce)) else { continue };
        let work = format!("{kind}, {interval_ms} ms, {}: exactly once to at least once", who.name());
        let line = Line::compare(5, &work, "records/s", (ExactlyOnce.name(), exactly), (AtLeastOnce.name(), at_least));
        let least = INTERVALS_MS.iter().find(|(of, _)| *of == interval_ms).filter(|_| who == Who::Embedded);
        lines.push(match least {
            Some((_, least)) => line.bar(Bar::RatioAtLeast(*least)),
            None => line,
        });
    }
    lines
}

/// Records for a second of the CPU of broker and application together.
fn per_cpu_second(samples: &[Sample]) -> Vec<f64> {
    let spent =
        |sample: &Sample| sample.get(Figure::BrokerCpu).unwrap_or(0.0) + sample.get(Figure::ClientCpu).unwrap_or(0.0);
    samples.iter().map(|sample| 1e6 / spent(sample)).collect()
}

/// One topology with one commit interval.
struct Work<'a> {
    workbench: &'a Workbench,
    stage: &'a mut Stage,
    kind: Kind,
    interval_ms: u32,
    records: u64,
}

impl Work<'_> {
    /// A run from the beginning of the input, with a new group and an empty store.
    fn run(&mut self, who: Who, guarantee: Guarantee, round: Round) -> Result<Sample> {
        let run = self.stage.next_run();
        let state = self.stage.state(run);
        let side = self.stage.side(who)?;
        let (app, output) = (format!("application-{run}"), format!("output-{run}"));
        let mut asking = RawClient::connect(&side.address)?;
        asking.create_topic(&output, PARTITIONS)?;
        let topics = (INPUT, output.as_str());
        let start = start_command(&side.address, &app, self.kind, guarantee, self.interval_ms, topics, &state);
        side.application.call(&start)?;
        let (warm, seconds) = match (who.is_jvm(), self.workbench.quick) {
            // Until it has compiled what it runs all the time it is ten times slower; the process lives on from round to round.
            (true, true) => (if round.number == 0 { 5.0 } else { 0.5 }, 0.8),
            (false, true) => (0.3, 0.8),
            (true, false) => (if round.number == 0 { 20.0 } else { 2.0 }, 4.0),
            (false, false) => (1.0, 3.0),
        };
        let mut watch = Watch { asking: &mut asking, app: &app, all: self.records };
        let begun = watch.next_commit(0)?;
        watch.warm_up(warm)?;
        let (first, last) = watch.measure(begun.done, seconds, || spent(side))?;
        ensure!(last.done > first.done, "nothing was committed in {seconds} s");
        let millions = (last.done - first.done) as f64 / 1e6;
        let mut sample = Sample::of(millions * 1e6 / (last.at - first.at).as_secs_f64())
            .with(Figure::ClientCpu, (last.spent.application - first.spent.application) / millions)
            .with(Figure::ClientPeakMib, processes::peak_mib(side.application.pid())?);
        if let Some(broker) = side.broker {
            sample = sample
                .with(Figure::BrokerCpu, (last.spent.broker - first.spent.broker) / millions)
                .with(Figure::BrokerPeakMib, processes::peak_mib(broker)?);
        }
        side.application.call("stop")?;
        asking.delete_topic(&output)?;
        if self.kind == Kind::Count {
            asking.delete_topic(&format!("{app}-counts-changelog"))?;
        }
        let _ = fs::remove_dir_all(state);
        Ok(sample)
    }
}

/// As applications are told, ours and the JVM's.
pub(super) fn start_command(
    address: &str,
    app: &str,
    kind: Kind,
    guarantee: Guarantee,
    interval_ms: u32,
    (input, output): (&str, &str),
    state: &Path,
) -> String {
    let (kind, guarantee, state) = (kind.name(), guarantee.key(), state.display());
    format!(
        "start bootstrap={address} app={app} kind={kind} guarantee={guarantee} commit_ms={interval_ms} input={input} output={output} state={state}"
    )
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    application: f64,
    broker: f64,
}

fn spent(side: &Side) -> Result<Spent> {
    let broker = side.broker.map(processes::cpu_seconds).transpose()?;
    Ok(Spent { application: processes::cpu_seconds(side.application.pid())?, broker: broker.unwrap_or(0.0) })
}

/// What was committed when, and what had been spent by then.
#[derive(Clone, Copy, Debug)]
struct Seen {
    done: u64,
    at: Instant,
    spent: Spent,
}

/// Sees how far an application has committed.
struct Watch<'a> {
    asking: &'a mut RawClient,
    app: &'a str,
    /// Records of the input.
    all: u64,
}

impl Watch<'_> {
    /// Waits until more than `before` is committed: at that moment a commit has ended, so that a measurement begins and ends at one.
    fn next_commit(&mut self, before: u64) -> Result<Seen> {
        let since = Instant::now();
        loop {
            let done = self.asking.committed(self.app, INPUT, PARTITIONS)?;
            if done > before {
                return Ok(Seen { done, at: Instant::now(), spent: Spent::default() });
            }
            ensure!(since.elapsed() < PATIENCE, "no commit in {} s, {done} records are done", PATIENCE.as_secs());
            std::thread::sleep(POLL);
        }
    }

    /// So long, or through half of the input.
    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let since = Instant::now();
        while since.elapsed().as_secs_f64() < seconds
            && self.asking.committed(self.app, INPUT, PARTITIONS)? < self.all / 2
        {
            std::thread::sleep(POLL_BETWEEN);
        }
        Ok(())
    }

    /// From a commit to one about so many seconds later, or to the end of the input.
    fn measure(&mut self, before: u64, seconds: f64, spent: impl Fn() -> Result<Spent>) -> Result<(Seen, Seen)> {
        let now = self.asking.committed(self.app, INPUT, PARTITIONS)?.max(before);
        ensure!(now < self.all, "the input of {} records was over before it was measured", self.all);
        let first = Seen { spent: spent()?, ..self.next_commit(now)? };
        loop {
            let done = self.asking.committed(self.app, INPUT, PARTITIONS)?;
            if done >= self.all {
                return Ok((first, Seen { done, at: Instant::now(), spent: spent()? }));
            }
            if first.at.elapsed().as_secs_f64() >= seconds {
                let last = self.next_commit(done)?;
                return Ok((first, Seen { spent: spent()?, ..last }));
            }
            std::thread::sleep(POLL_BETWEEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_run_has_every_side_and_a_quick_one_every_bar() {
        let whole = plan(false);
        assert_eq!(whole.len(), 6);
        assert!(whole.iter().all(|(_, _, sides)| sides.len() == 8));
        let lines = |is_quick| -> Vec<Line> {
            let of = |(kind, interval_ms, sides): (Kind, u32, Contenders)| {
                let samples = vec![vec![Sample::of(1.0).with(Figure::ClientCpu, 1.0)]; sides.len()];
                compared(kind, interval_ms, &sides, &samples)
            };
            plan(is_quick).into_iter().flat_map(of).collect()
        };
        let judged = |is_quick| lines(is_quick).iter().filter(|line| line.bar.is_some()).count();
        assert_eq!(judged(true), 3 + 1, "the three shares of exactly once, and the CPU");
        assert_eq!(judged(false), 2 * (3 + 1));
    }

    #[test]
    fn cpu_is_that_of_broker_and_application_together() {
        let apart = Sample::of(1.0).with(Figure::ClientCpu, 3.0).with(Figure::BrokerCpu, 1.0);
        let embedded = Sample::of(1.0).with(Figure::ClientCpu, 2.0);
        assert_eq!(per_cpu_second(&[apart, embedded]), [250_000.0, 500_000.0]);
    }
}
