//! Row 7: SIGKILL to an application that has state, which is started again at once on the same disk: how long until it commits the first new
//! output. Records come all the while.
//!
//! What counts is the time from the kill to the first move of the group's committed position. The session's time-out is part of it where a
//! restarted member has to wait for its former life to end.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Workbench;
use super::streams::{Guarantee, Kind, PARTITIONS, Stage, Who, start_command};
use crate::brokers::Durability;
use crate::clients::{Client, our_application};
use crate::figures::{Bar, Line, Sample};
use crate::raw_client::RawClient;
use crate::rounds::{Round, in_turn};

/// Keys of a count, and what that is on disk in Kafka Streams, about.
const SIZES: [(u64, &str); 2] = [(4_000_000, "200 MiB"), (20_000_000, "1 GiB")];
const SIZES_QUICK: [(u64, &str); 1] = [(200_000, "10 MiB")];

/// On both sides, and the least that Apache Kafka takes unless told.
const SESSION_MS: u32 = 6_000;

/// A second after the session's time-out, whatever the size. (A static member that is back sooner need not wait for that time-out at all.)
const RESTART_MS_MAX: f64 = SESSION_MS as f64 + 1_000.0;

const INTERVAL_MS: u32 = 100;
/// Records a second that come meanwhile.
const RATE: u32 = 1_000;
const POLL: Duration = Duration::from_millis(2);
/// How long a restart may take, and the building of so many keys.
const PATIENCE: Duration = Duration::from_secs(600);

const INPUT: &str = "recovered-input";

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let who = [Who::Embedded, Who::OursOnKafka, Who::JvmOnKafka];
    let sizes = if workbench.quick { &SIZES_QUICK[..] } else { &SIZES[..] };
    let rounds = if workbench.quick { 1 } else { workbench.counted_rounds.min(3) };
    let mut lines = Vec::new();
    for (keys, name) in sizes {
        let mut stage = Stage::set(workbench, &who, Durability::Os)?;
        fill(workbench, &stage, *keys)?;
        let mut victims: Vec<Victim> = Vec::new();
        for (index, who) in who.into_iter().enumerate() {
            workbench.progress.say(&format!("building {keys} keys · {}", who.name()));
            victims.push(Victim::build(&mut stage, who, index, *keys)?);
        }
        let work = format!("SIGKILL to the first new commit, {keys} keys ({name})");
        let samples = in_turn(&mut victims, rounds, |victim, round: Round| {
            let place = format!("{work} · round {} of {} · {}", round.number, round.of, victim.who.name());
            workbench.progress.say(&place);
            victim.kill_and_restart(workbench, &mut stage).context(place)
        })?;
        for (place, who) in who.iter().enumerate().take(2) {
            let (ours, theirs) = ((who.name(), &samples[place][..]), (Who::JvmOnKafka.name(), &samples[2][..]));
            lines.push(Line::compare(7, &work, "ms", ours, theirs).bar(Bar::AtMost(RESTART_MS_MAX)));
        }
    }
    Ok(lines)
}

/// Each key once, on every broker.
fn fill(workbench: &mut Workbench, stage: &Stage, keys: u64) -> Result<()> {
    let mut loader = workbench.java_client()?;
    for address in stage.addresses() {
        workbench.progress.say(&format!("loading {keys} records · {address}"));
        loader.call(&format!("topic bootstrap={address} name={INPUT} partitions={PARTITIONS}"))?;
        loader.call(&format!("load bootstrap={address} topic={INPUT} records={keys} keys={keys} size=10"))?;
    }
    Ok(())
}

/// An application that is killed again and again.
struct Victim {
    who: Who,
    app: String,
    start: String,
    /// Sends records as long as it lives.
    _feeder: Client,
}

impl Victim {
    /// Starts it, and waits until it has all keys.
    fn build(stage: &mut Stage, who: Who, index: usize, keys: u64) -> Result<Self> {
        let state: PathBuf = stage.state(u32::try_from(index)?);
        let side = stage.side(who)?;
        let (app, output) = (format!("recovered-{index}"), format!("recovered-output-{index}"));
        let mut asking = RawClient::connect(&side.address)?;
        asking.create_topic(&output, PARTITIONS)?;
        let topics = (INPUT, output.as_str());
        let start =
            start_command(&side.address, &app, Kind::Count, Guarantee::ExactlyOnce, INTERVAL_MS, topics, &state);
        let start = format!("{start} session.timeout.ms={SESSION_MS}");
        side.application.call(&start)?;
        let since = Instant::now();
        while asking.committed(&app, INPUT, PARTITIONS)? < keys {
            ensure!(since.elapsed() < PATIENCE, "{keys} keys are not there after {} s", PATIENCE.as_secs());
            thread::sleep(POLL * 10);
        }
        let mut feeder = Client::start(our_application()?)?;
        feeder.call(&format!("feed bootstrap={} topic={INPUT} rate={RATE} keys={keys}", side.address))?;
        Ok(Self { who, app, start, _feeder: feeder })
    }

    fn kill_and_restart(&self, workbench: &mut Workbench, stage: &mut Stage) -> Result<Sample> {
        // It shall be in the middle of its work.
        let side = stage.side(self.who)?;
        thread::sleep(Duration::from_secs(1));
        let killed_at = Instant::now();
        side.application.kill()?;
        stage.start_again(workbench, self.who)?;
        let side = stage.side(self.who)?;
        let mut asking = RawClient::connect(&side.address)?;
        let before = asking.committed(&self.app, INPUT, PARTITIONS)?;
        ensure!(before > 0, "nothing was committed before the kill");
        // The answer to `start` may come later than the first commit.
        let took = thread::scope(|scope| -> Result<Duration> {
            let watching = scope.spawn(|| -> Result<Duration> {
                while asking.committed(&self.app, INPUT, PARTITIONS)? <= before {
                    ensure!(killed_at.elapsed() < PATIENCE, "no commit after the kill");
                    thread::sleep(POLL);
                }
                Ok(killed_at.elapsed())
            });
            side.application.call(&self.start).context("starting again")?;
            match watching.join() {
                Ok(took) => took,
                Err(_) => bail!("the watcher has panicked"),
            }
        })?;
        Ok(Sample::of(took.as_secs_f64() * 1e3))
    }
}
