//! Row 4: the read-process-write loop by our client and by librdkafka, both on Apache Kafka.
//!
//! Where that broker sends the next transaction away until the last one's markers are written, both wait; how they wait is part of it.

use anyhow::Result;

use super::Workbench;
use super::read_process_write::load;
use crate::brokers::{Durability, OURS};
use crate::clients::{Client, our_application};
use crate::figures::{Bar, Figure, Line, series};
use crate::rounds::interleave;

/// Records of a transaction.
const SIZES: [u32; 3] = [100, 1_000, 10_000];
const SIZES_QUICK: [u32; 1] = [1_000];

const CPU_RATIO_MAX: f64 = 0.5;
const RATE_RATIO_MIN: f64 = 1.0;

const LIBRDKAFKA: &str = "librdkafka";

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let librdkafka = workbench.librdkafka()?;
    let broker = workbench.apache_kafka(Durability::Os)?;
    let mut loader = workbench.java_client()?;
    load(workbench, &mut loader, &broker, if workbench.quick { 400_000 } else { 4_000_000 })?;
    drop(loader);
    let sizes = if workbench.quick { &SIZES_QUICK[..] } else { &SIZES[..] };
    let mut lines = Vec::new();
    let mut runs = 0;
    for size in sizes {
        let work = format!("the client's loop, {size} records a transaction, on Apache Kafka");
        let seconds = if workbench.quick { 1.5 } else { 6.0 };
        let mut sides = [OURS, LIBRDKAFKA];
        let [ours, peer] = interleave(&mut sides, workbench.counted_rounds, |side, round| {
            // A group and a transactional id of its own: it begins at the beginning of the input, and waits for nobody.
            runs += 1;
            let command = format!(
                "loop bootstrap={} input=input output=output group=client-{runs} records={size} seconds={seconds}",
                broker.address
            );
            let mut client = Client::start(if *side == OURS { our_application()? } else { librdkafka.command() })?;
            workbench.progress.run(&work, side, round, || client.measure(&command, "records", broker.pid))
        })?;
        let rate = Line::compare(4, &work, "records/s", (OURS, &ours), (LIBRDKAFKA, &peer));
        let cpu = |samples| series(samples, Figure::ClientCpu);
        let work = format!("{work}: client");
        let cpu = Line::plain(4, &work, "CPU s/M", (OURS, cpu(&ours)), (LIBRDKAFKA, cpu(&peer)));
        lines.extend([rate.bar(Bar::RatioAtLeast(RATE_RATIO_MIN)), cpu.bar(Bar::RatioAtMost(CPU_RATIO_MAX))]);
    }
    Ok(lines)
}
