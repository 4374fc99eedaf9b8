//! Row 3: librdkafka's read-process-write loop on ours and on Apache Kafka: takes N records, sends them on, sends the positions, commits.
//! Where a broker sends the next transaction away until the last one's markers are written, the loop waits that out.

use anyhow::Result;

use super::{Contender, Workbench};
use crate::brokers::Durability;
use crate::clients::Client;
use crate::figures::{Bar, Line};
use crate::rounds::interleave;

/// Records of a transaction, and how many times as many transactions as on Apache Kafka are to be reached.
const SIZES: [(u32, Option<f64>); 3] = [(10, Some(50.0)), (100, Some(50.0)), (1_000, None)];

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let durability = Durability::Os;
    let librdkafka = workbench.librdkafka()?;
    let mut contenders = Contender::both(workbench, durability)?;
    let names = [contenders[0].broker.name, contenders[1].broker.name];
    // More than the fastest reads in its time.
    let records = if workbench.quick { 250_000 } else { 1_500_000 };
    for Contender { client, broker } in &mut contenders {
        workbench.progress.say(&format!("loading {records} records · {}", broker.name));
        for topic in ["input", "output"] {
            client.call(&format!("topic bootstrap={} name={topic} partitions=4", broker.address))?;
        }
        client
            .call(&format!("load bootstrap={} topic=input records={records} keys=100000 size=100", broker.address))?;
    }
    let mut lines = Vec::new();
    let mut runs = 0;
    for (size, least) in SIZES {
        let work = format!("librdkafka's loop, {size} records a transaction, {}", durability.name());
        let seconds = if workbench.quick { 0.8 } else { 5.0 };
        let progress = &workbench.progress;
        let [ours, peer] = interleave(&mut contenders, workbench.counted_rounds, |Contender { broker, .. }, round| {
            // A group and a transactional id of its own: it begins at the beginning of the input, and waits for nobody.
            runs += 1;
            let command = format!(
                "loop bootstrap={} input=input output=output group=loop-{runs} records={size} seconds={seconds}",
                broker.address
            );
            let mut client = Client::start(librdkafka.command())?;
            progress.run(&work, broker.name, round, || client.measure(&command, "operations", broker.pid))
        })?;
        let line = Line::compare(3, &work, "commits/s", (names[0], &ours), (names[1], &peer));
        lines.push(match least {
            Some(least) => line.bar(Bar::RatioAtLeast(least)),
            None => line,
        });
    }
    Ok(lines)
}
