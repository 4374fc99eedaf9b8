//! Row 3: librdkafka's read-process-write loop on ours and on Apache Kafka: takes N records, sends them on, sends the positions, commits.
//! Where a broker sends the next transaction away until the last one's markers are written, the loop waits that out.

use anyhow::Result;

use super::{Contender, Workbench};
use crate::brokers::{Broker, Durability, STUB};
use crate::clients::Client;
use crate::figures::{Bar, Figure, Line, series};
use crate::rounds::interleave;
use crate::stub;

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
        load(workbench, client, broker, records)?;
    }
    let mut lines = Vec::new();
    let mut runs = 0;
    for (size, least) in SIZES {
        let work = format!("librdkafka's loop, {size} records a transaction, {}", durability.name());
        let seconds = if workbench.quick { 0.8 } else { 5.0 };
        // The third side has nobody who takes any time: what the library does by itself.
        let stub = stub::start()?;
        let mut sides = [Some(0), Some(1), None];
        let [ours, peer, alone] = interleave(&mut sides, workbench.counted_rounds, |side, round| {
            // A group and a transactional id of its own: it begins at the beginning of the input, and waits for nobody.
            runs += 1;
            // The stub is in this process, and its CPU counts for nobody.
            let (name, address, pid, suffix) = match side {
                Some(index) => {
                    let broker = &contenders[*index].broker;
                    (broker.name, &broker.address, broker.pid, "")
                }
                None => (STUB, &stub, std::process::id(), "-4"),
            };
            let command = format!(
                "loop bootstrap={address} input=input{suffix} output=output{suffix} group=loop-{runs} records={size} seconds={seconds}"
            );
            let mut client = Client::start(librdkafka.command())?;
            workbench.progress.run(&work, name, round, || client.measure(&command, "operations", pid))
        })?;
        let mut line = Line::compare(3, &work, "commits/s", (names[0], &ours), (names[1], &peer));
        line.ceiling = series(&alone, Figure::Main);
        lines.push(match least {
            Some(least) => line.bar(Bar::RatioAtLeast(least)),
            None => line,
        });
    }
    Ok(lines)
}

/// Makes the loop's topics, and fills the one that it reads.
pub(super) fn load(workbench: &Workbench, client: &mut Client, broker: &Broker, records: u32) -> Result<()> {
    workbench.progress.say(&format!("loading {records} records · {}", broker.name));
    for topic in ["input", "output"] {
        client.call(&format!("topic bootstrap={} name={topic} partitions=4", broker.address))?;
    }
    client.call(&format!("load bootstrap={} topic=input records={records} keys=100000 size=100", broker.address))?;
    Ok(())
}
