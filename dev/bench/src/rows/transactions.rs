//! Row 2: transactions of one record of 100 bytes to each of N partitions by the Java producer (`linger.ms=0`, protocol 2), one after the other.

use anyhow::Result;

use super::{Contender, Workbench};
use crate::brokers::{Durability, STUB};
use crate::figures::{Bar, Figure, Line, Sample, series};
use crate::rounds::{Round, interleave};
use crate::stub;

/// Partitions, and how many times as many commits as Apache Kafka are to be reached, synced.
const WIDTHS: [(u32, f64); 4] = [(1, 30.0), (10, 30.0), (100, 60.0), (1_000, 60.0)];

/// How many times as long a commit over the most partitions may take as one over one.
const P99_RATIO_MAX: f64 = 5.0;

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let durabilities = [Durability::Sync, Durability::Os];
    // The bars are about what is synced.
    for durability in durabilities.into_iter().take(if workbench.quick { 1 } else { 2 }) {
        lines.extend(with(workbench, durability)?);
    }
    Ok(lines)
}

fn with(workbench: &mut Workbench, durability: Durability) -> Result<Vec<Line>> {
    let mut contenders = Contender::both(workbench, durability)?;
    let names = [contenders[0].broker.name, contenders[1].broker.name];
    let mut lines = Vec::new();
    let mut p99s = Vec::new();
    for (partitions, least) in WIDTHS {
        let plural = if partitions == 1 { "" } else { "s" };
        let work = format!("commit over {partitions} partition{plural}, {}", durability.name());
        let topic = format!("wide-{partitions}");
        for contender in &mut contenders {
            workbench.progress.say(&format!("{work} · making a topic · {}", contender.broker.name));
            let address = &contender.broker.address;
            contender.client.call(&format!("topic bootstrap={address} name={topic} partitions={partitions}"))?;
        }
        let seconds = if workbench.quick { 0.5 } else { 5.0 };
        let [ours, peer, stub] = measure(workbench, &mut contenders, &work, &topic, partitions, seconds)?;
        p99s.push((partitions, series(&ours, Figure::P99Ms), series(&stub, Figure::P99Ms)));
        let mut line = Line::compare(2, &work, "commits/s", (names[0], &ours), (names[1], &peer));
        line.ceiling = series(&stub, Figure::Main);
        lines.push(match durability {
            Durability::Sync => line.bar(Bar::RatioAtLeast(least)),
            Durability::Os => line,
        });
    }
    if let [(least, narrow, _), .., (most, wide, stub)] = &p99s[..] {
        let work = format!("p99 of a commit over {most} partitions to one over {least}, {}", durability.name());
        let mut line = Line::plain(2, &work, "ms", ("wide", wide.clone()), ("narrow", narrow.clone()));
        line.ceiling = stub.clone();
        lines.push(line.bar(Bar::RatioAtMost(P99_RATIO_MAX)));
    }
    Ok(lines)
}

/// Both brokers and the stub in turn. The stub has our client's process: it says what that would do if we took no time.
fn measure(
    workbench: &Workbench,
    contenders: &mut [Contender; 2],
    work: &str,
    topic: &str,
    partitions: u32,
    seconds: f64,
) -> Result<[Vec<Sample>; 3]> {
    let stub = stub::start()?;
    let mut run = |side: &mut Side, round: Round| {
        let Contender { client, broker } = &mut contenders[side.client];
        let address = if side.is_stub { &stub } else { &broker.address };
        let command = format!("commits bootstrap={address} topic={topic} partitions={partitions} seconds={seconds}");
        let name = if side.is_stub { STUB } else { broker.name };
        workbench.progress.run(work, name, round, || client.measure(&command, "operations", broker.pid))
    };
    let mut sides = [(0, false), (1, false), (0, true)].map(|(client, is_stub)| Side { client, is_stub });
    interleave(&mut sides, workbench.counted_rounds, &mut run)
}

/// Whose client works, and whether on the stub.
struct Side {
    client: usize,
    is_stub: bool,
}
