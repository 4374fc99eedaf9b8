//! Row 6: how long a record takes from end to end, through a topology that keeps what comes, at a rate that all can keep up with: from when it
//! is due to be sent until a reader of what is committed has it. One client, ours, sends and reads on every side.

use anyhow::{Context as _, Result};

use super::Workbench;
use super::streams::{Guarantee, Kind, PARTITIONS, Stage, Who, start_command};
use crate::brokers::Durability;
use crate::clients::{Client, our_application};
use crate::figures::{Bar, Figure, Line, Sample};
use crate::raw_client::RawClient;
use crate::rounds::{Round, interleave_all};

const RATE: u32 = 20_000;

/// Commit intervals, and the milliseconds that 99 of a hundred records may take with the broker embedded.
const INTERVALS_MS: [(u32, Option<f64>); 3] = [(100, None), (10, Some(15.0)), (1, Some(5.0))];

pub(super) fn run(workbench: &mut Workbench) -> Result<Vec<Line>> {
    let mut who = vec![Who::Embedded, Who::JvmOnKafka];
    if !workbench.quick {
        who.push(Who::OursOnKafka);
    }
    let mut stage = Stage::set(workbench, &who, Durability::Os)?;
    // So that the JVM has compiled what it will need.
    let seconds = if workbench.quick { 1.5 } else { 15.0 };
    let mut lines = Vec::new();
    for (interval_ms, most) in INTERVALS_MS {
        if workbench.quick && most.is_none() {
            continue;
        }
        let work = format!("end to end, map, exactly once, {interval_ms} ms, {RATE} records/s");
        let counted = workbench.counted_rounds;
        let samples = interleave_all(&mut who, counted, |who, round| {
            workbench.progress.run(&work, who.name(), round, || one(&mut stage, *who, interval_ms, seconds, round))
        })?;
        for (peer, theirs) in who.iter().zip(&samples).skip(1) {
            let line = Line::compare(6, &work, "ms, p99", (who[0].name(), &samples[0]), (peer.name(), theirs));
            lines.push(match most {
                Some(most) if *peer == Who::JvmOnKafka => line.bar(Bar::AtMost(most)),
                Some(_) | None => line,
            });
        }
    }
    Ok(lines)
}

fn one(stage: &mut Stage, who: Who, interval_ms: u32, seconds: f64, round: Round) -> Result<Sample> {
    let run = stage.next_run();
    let state = stage.state(run);
    let side = stage.side(who)?;
    let (app, input, output) = (format!("latency-{run}"), format!("sent-{run}"), format!("latency-output-{run}"));
    let mut asking = RawClient::connect(&side.address)?;
    for topic in [&input, &output] {
        asking.create_topic(topic, PARTITIONS)?;
    }
    let start =
        start_command(&side.address, &app, Kind::Map, Guarantee::ExactlyOnce, interval_ms, (&input, &output), &state);
    side.application.call(&start)?;
    let mut client = Client::start(our_application()?)?;
    let warm = if round.number == 0 { 2.0 } else { 1.0 };
    let answer = client.call(&format!(
        "latency bootstrap={} input={input} output={output} partitions={PARTITIONS} rate={RATE} warm={warm} seconds={seconds}",
        side.address
    ))?;
    side.application.call("stop")?;
    for topic in [&input, &output] {
        asking.delete_topic(topic)?;
    }
    let of = |name: &str| answer[name].as_f64().with_context(|| format!("{name} in {answer}"));
    let p99 = of("p99_ms")?;
    Ok(Sample::of(p99).with(Figure::P50Ms, of("p50_ms")?).with(Figure::P99Ms, p99))
}
