//! Row 2: transactions of one record of 100 bytes to each of N partitions by the Java producer (`linger.ms=0`, protocol 2), one after the other.

use anyhow::Result;

use super::{Contender, Workbench};
use crate::brokers::Durability;
use crate::figures::{Bar, Figure, Line, series};
use crate::rounds::interleave;

/// Partitions, and how many times as many commits as Apache Kafka are to be reached, synced.
const WIDTHS: [(u32, f64); 4] = [(1, 30.0), (10, 30.0), (100, 60.0), (1_000, 60.0)];

/// How many times as long a commit over the most partitions may take as one over one.
const P99_RATIO_MAX: f64 = 5.0;

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for durability in [Durability::Sync, Durability::Os] {
        lines.extend(with(workbench, durability)?);
    }
    Ok(lines)
}

fn with(workbench: &mut Workbench, durability: Durability) -> Result<Vec<Line>> {
    let mut contenders = Contender::both(workbench, durability)?;
    let names = [contenders[0].broker.name, contenders[1].broker.name];
    let mut lines = Vec::new();
    let mut our_p99s = Vec::new();
    for (partitions, least) in WIDTHS {
        let work = format!(
            "commit over {partitions} partition{}, {}",
            if partitions == 1 { "" } else { "s" },
            durability.name()
        );
        let topic = format!("wide-{partitions}");
        for contender in &mut contenders {
            workbench.progress.say(&format!("{work} · making a topic · {}", contender.broker.name));
            let address = &contender.broker.address;
            contender.client.call(&format!("topic bootstrap={address} name={topic} partitions={partitions}"))?;
        }
        let seconds = if workbench.quick { 1.0 } else { 5.0 };
        let progress = &workbench.progress;
        let [ours, peer] = interleave(&mut contenders, workbench.counted_rounds, |contender, round| {
            let Contender { client, broker } = contender;
            let command =
                format!("commits bootstrap={} topic={topic} partitions={partitions} seconds={seconds}", broker.address);
            progress.run(&work, broker.name, round, || client.measure(&command, "operations", broker.pid))
        })?;
        our_p99s.push((partitions, series(&ours, Figure::P99Ms)));
        let line = Line::compare(2, &work, "commits/s", (names[0], &ours), (names[1], &peer));
        lines.push(match durability {
            Durability::Sync => line.bar(Bar::RatioAtLeast(least)),
            Durability::Os => line,
        });
    }
    if let [(least, narrow), .., (most, wide)] = &our_p99s[..] {
        let work = format!("p99 of a commit over {most} partitions to one over {least}, {}", durability.name());
        let line = Line::plain(2, &work, "ms", ("wide", wide.clone()), ("narrow", narrow.clone()));
        lines.push(line.bar(Bar::RatioAtMost(P99_RATIO_MAX)));
    }
    Ok(lines)
}
