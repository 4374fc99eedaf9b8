//! Row 8: what a broker takes when there is nothing to do. How long from its start, on data that are there, to the first acknowledged
//! transaction; memory and CPU while idle; memory for each further partition and connection.
//!
//! The client is the plainest one, so that none of its own time is measured.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Workbench;
use crate::brokers::{Broker, Durability};
use crate::figures::{Bar, Line, Sample};
use crate::processes;
use crate::raw_client::RawClient;
use crate::rounds::{Round, interleave};

const START_MS_MAX: f64 = 50.0;
const IDLE_MIB_MAX: f64 = 15.0;
/// In hundredths of a core.
const IDLE_CPU_MAX: f64 = 0.1;
const PARTITION_KIB_MAX: f64 = 10.0;
const CONNECTION_KIB_MAX: f64 = 20.0;

/// What a broker does in the seconds after its start is not what it does when idle.
const SETTLING: Duration = Duration::from_secs(2);

const TOPIC: &str = "first-1";

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let mut brokers = workbench.both_brokers(Durability::Sync)?;
    Ok(vec![
        start(workbench, &mut brokers)?,
        idle_memory(workbench, &mut brokers)?,
        idle_cpu(workbench, &mut brokers)?,
        partitions(workbench, &mut brokers)?,
        connections(workbench, &mut brokers)?,
    ])
}

fn start(workbench: &Workbench, brokers: &mut [Broker; 2]) -> Result<Line> {
    for broker in &mut *brokers {
        let mut client = RawClient::connect(&broker.address)?;
        client.create_topic(TOPIC, 1)?;
        client.transaction(TOPIC)?;
    }
    let work = "a start, to the first acknowledged transaction";
    compare(workbench, brokers, work, "ms", START_MS_MAX, |broker, _| {
        broker.stop()?;
        let start = Instant::now();
        broker.start()?;
        let mut client = RawClient::connect(&broker.address)?;
        client.greet()?;
        client.transaction(TOPIC)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    })
}

fn idle_cpu(workbench: &Workbench, brokers: &mut [Broker; 2]) -> Result<Line> {
    std::thread::sleep(SETTLING);
    let seconds = if workbench.quick { 1 } else { 10 };
    compare(workbench, brokers, "idle, CPU", "% of a core", IDLE_CPU_MAX, |broker, _| {
        let before = processes::cpu_seconds_of_threads(broker.pid)?;
        std::thread::sleep(Duration::from_secs(seconds));
        let spent = processes::cpu_seconds_of_threads(broker.pid)? - before;
        Ok(spent / seconds as f64 * 100.0)
    })
}

fn idle_memory(workbench: &Workbench, brokers: &mut [Broker; 2]) -> Result<Line> {
    compare(workbench, brokers, "idle, memory", "MiB", IDLE_MIB_MAX, |broker, _| processes::resident_mib(broker.pid))
}

/// Each round adds some, so that the last one adds to ten thousand (or two).
fn partitions(workbench: &Workbench, brokers: &mut [Broker; 2]) -> Result<Line> {
    let each = if workbench.quick { 600 } else { 1_700 };
    let work = format!("a further idle partition, {each} at once");
    compare(workbench, brokers, &work, "KiB", PARTITION_KIB_MAX, |broker, round| {
        let mut client = RawClient::connect(&broker.address)?;
        growth_kib(broker, each, || client.create_topic(&format!("idle-{}", round.number), each))
    })
}

/// The same, all of which stay open until the end.
fn connections(workbench: &Workbench, brokers: &mut [Broker; 2]) -> Result<Line> {
    let each = if workbench.quick { 600 } else { 1_700 };
    let all = u64::try_from(each).unwrap_or(0) * (workbench.counted_rounds as u64 + 1) * 2;
    let may_have = processes::raise_open_files();
    ensure!(all < may_have, "{all} connections are more than the {may_have} files that may be open here");
    let work = format!("a further idle connection, {each} at once");
    let mut open = Vec::new();
    compare(workbench, brokers, &work, "KiB", CONNECTION_KIB_MAX, |broker, _| {
        growth_kib(broker, each, || {
            for _ in 0..each {
                let mut client = RawClient::connect(&broker.address)?;
                client.greet()?;
                open.push(client);
            }
            Ok(())
        })
    })
}

/// By how much the broker's memory grows when `count` of something are added, for each.
fn growth_kib(broker: &Broker, count: i32, add: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = processes::resident_mib(broker.pid)?;
    add()?;
    Ok((processes::resident_mib(broker.pid)? - before) * 1024.0 / f64::from(count))
}

/// A line about one figure of each broker, with a bar for ours.
fn compare(
    workbench: &Workbench,
    brokers: &mut [Broker; 2],
    work: &str,
    unit: &str,
    most: f64,
    mut measure: impl FnMut(&mut Broker, Round) -> Result<f64>,
) -> Result<Line> {
    let names = [brokers[0].name, brokers[1].name];
    let [ours, peer] = interleave(brokers, workbench.counted_rounds, |broker, round| {
        let name = broker.name;
        workbench.progress.run(work, name, round, || Ok(Sample::of(measure(broker, round)?)))
    })?;
    Ok(Line::compare(8, work, unit, (names[0], &ours), (names[1], &peer)).bar(Bar::AtMost(most)))
}
