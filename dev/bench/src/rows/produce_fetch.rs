//! Row 1: records produced and fetched by the Java clients as fast as they can, of 100 bytes and of 1 KiB. With a sync before each
//! acknowledgement on both sides, and with none.
//!
//! On a small machine the client takes most of the CPU, and is the limit: then the broker's CPU for a record says more than the rate, and
//! the rate against a stub that answers at once says what the client can.

use anyhow::Result;

use super::{Contender, Workbench};
use crate::brokers::{Durability, STUB};
use crate::figures::{Bar, Figure, Line, Sample, series};
use crate::rounds::interleave;
use crate::stub;

const SIZES: [u32; 2] = [100, 1024];
const PARTITIONS: u32 = 4;

const RATE_RATIO_MIN: f64 = 1.2;
const CPU_RATIO_MAX: f64 = 0.4;

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for durability in [Durability::Os, Durability::Sync] {
        let mut contenders = Contender::both(workbench, durability)?;
        for size in SIZES {
            lines.extend(produce(workbench, &mut contenders, size, durability)?);
            // What is read was made durable long before.
            if durability == Durability::Os {
                lines.extend(fetch(workbench, &mut contenders, size)?);
            }
        }
    }
    Ok(lines)
}

/// A line for the rate, and one for the broker's CPU.
fn compared(work: &str, contenders: &[Contender; 2], ours: &[Sample], peer: &[Sample], ceiling: Vec<f64>) -> [Line; 2] {
    let [name, peer_name] = [contenders[0].broker.name, contenders[1].broker.name];
    let mut rate = Line::compare(1, work, "records/s", (name, ours), (peer_name, peer));
    rate.ceiling = ceiling;
    let cpu = |samples: &[Sample]| series(samples, Figure::BrokerCpu);
    let cpu = Line::plain(1, &format!("{work}: broker"), "CPU s/M", (name, cpu(ours)), (peer_name, cpu(peer)));
    [rate.bar(Bar::RatioAtLeast(RATE_RATIO_MIN)), cpu.bar(Bar::RatioAtMost(CPU_RATIO_MAX))]
}

fn seconds(workbench: &Workbench) -> f64 {
    if workbench.quick { 0.6 } else { 4.0 }
}

fn produce(
    workbench: &Workbench,
    contenders: &mut [Contender; 2],
    size: u32,
    durability: Durability,
) -> Result<[Line; 2]> {
    let work = format!("produce {size} B, {}", durability.name());
    let stub = stub::start()?;
    // The third side has our client's process: what that does if a broker takes no time.
    let mut sides = [(0, false), (1, false), (0, true)];
    let mut runs = 0;
    let [ours, peer, idle] = interleave(&mut sides, workbench.counted_rounds, |(client, is_stub), round| {
        let Contender { client, broker } = &mut contenders[*client];
        runs += 1;
        // A topic for each run, deleted after it, so that no disk is filled.
        let topic = format!("produced-{runs}-{PARTITIONS}");
        let (name, address) = if *is_stub { (STUB, &stub) } else { (broker.name, &broker.address) };
        if !*is_stub {
            client.call(&format!("topic bootstrap={address} name={topic} partitions={PARTITIONS}"))?;
        }
        let command = format!("produce bootstrap={address} topic={topic} size={size} seconds={}", seconds(workbench));
        let sample = workbench.progress.run(&work, name, round, || client.measure(&command, "records", broker.pid))?;
        if !*is_stub {
            client.call(&format!("drop bootstrap={address} name={topic}"))?;
        }
        Ok(sample)
    })?;
    Ok(compared(&work, contenders, &ours, &peer, series(&idle, Figure::Main)))
}

fn fetch(workbench: &Workbench, contenders: &mut [Contender; 2], size: u32) -> Result<[Line; 2]> {
    let work = format!("fetch {size} B");
    let records = 200_000_000 / u64::from(size.max(200));
    for Contender { client, broker } in &mut *contenders {
        workbench.progress.say(&format!("{work} · loading {records} records · {}", broker.name));
        let address = &broker.address;
        client.call(&format!("topic bootstrap={address} name=fetched-{size} partitions={PARTITIONS}"))?;
        client
            .call(&format!("load bootstrap={address} topic=fetched-{size} records={records} keys=1000 size={size}"))?;
    }
    let [ours, peer] = interleave(contenders, workbench.counted_rounds, |Contender { client, broker }, round| {
        let command = format!("fetch bootstrap={} topic=fetched-{size} seconds={}", broker.address, seconds(workbench));
        workbench.progress.run(&work, broker.name, round, || client.measure(&command, "records", broker.pid))
    })?;
    Ok(compared(&work, contenders, &ours, &peer, Vec::new()))
}
