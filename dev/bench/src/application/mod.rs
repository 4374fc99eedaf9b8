//! Our side of the rows about streams, in a process of its own: `bench --application` takes the same commands as `peer/Peer.java` does.
//!
//! ```text
//! broker  data= durability=os|sync listen=                            a broker inside this process; says where it is reached
//! start   bootstrap= app= kind= guarantee= commit_ms= input= output= state=   a topology that runs; answered once it processes
//!                                                                     (session.timeout.ms= for another than the default)
//! stop                                                                it commits what is open, and ends
//! feed    bootstrap= topic= rate= keys=                               sends records from then on, until this process ends
//! loop    bootstrap= input= output= group= records= seconds=          see `client_loop`
//! latency bootstrap= input= output= partitions= rate= warm= seconds=  see `latency`
//! ```
//!
//! Before the part that is measured it says `{"measured":"begin"}`.
//!
//! Topologies are `map`, which keeps what comes, and `count` by key with a store on disk, without a cache that would keep updates back.
//! It does not know what is measured.

mod client_loop;
mod latency;

use std::collections::HashMap;
use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use atonce::broker::{Broker, Durability};
use atonce::prelude::*;
use serde_json::{Value, json};

/// Answers commands until there are no more.
pub(crate) fn serve(say: impl Fn(&str)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut here = Here::default();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answered = runtime.block_on(here.answer(&Asked::parse(&line), &say));
        let answer = answered.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
        say(&answer.to_string());
    }
    // Whoever closed stdin waits: nothing is to be kept, so nothing is to be ended in good order.
    std::process::exit(0);
}

/// What runs in this process.
#[derive(Default)]
struct Here {
    broker: Option<Arc<Broker>>,
    application: Option<Application>,
}

/// A command: `VERB key=value…`.
pub(crate) struct Asked<'a> {
    verb: &'a str,
    arguments: HashMap<&'a str, &'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) fn parse(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        Self { verb, arguments: words.filter_map(|word| word.split_once('=')).collect() }
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str> {
        self.arguments.get(key).copied().with_context(|| format!("without {key}="))
    }

    pub(crate) fn number(&self, key: &str) -> Result<f64> {
        self.text(key)?.parse().with_context(|| format!("{key}= is no number"))
    }
}

impl Here {
    async fn answer(&mut self, asked: &Asked<'_>, say: &impl Fn(&str)) -> Result<Value> {
        match asked.verb {
            "broker" => self.start_broker(asked).await,
            "start" => self.start(asked).await,
            "stop" => {
                if let Some(application) = self.application.take() {
                    application.close().await?;
                }
                Ok(json!({}))
            }
            "feed" => latency::feed(asked).await,
            "loop" => client_loop::run(asked, say).await,
            "latency" => latency::run(asked, say).await,
            other => bail!("there is no {other}"),
        }
    }

    async fn start_broker(&mut self, asked: &Asked<'_>) -> Result<Value> {
        let durability = match asked.text("durability")? {
            "os" => Durability::Os,
            "sync" => Durability::Sync,
            other => bail!("there is no durability {other}"),
        };
        let broker = Broker::builder()
            .data_path(PathBuf::from(asked.text("data")?))
            .durability(durability)
            .listen(asked.text("listen")?)
            // As `dev/interop/kafka` sets it for Apache Kafka.
            .property("group.initial.rebalance.delay.ms", "0")
            .start()
            .await?;
        let address = broker.bootstrap_servers();
        self.broker = Some(Arc::new(broker));
        Ok(json!({ "bootstrap": address }))
    }

    async fn start(&mut self, asked: &Asked<'_>) -> Result<Value> {
        let guarantee = match asked.text("guarantee")? {
            "exactly_once" => Guarantee::ExactlyOnce,
            "at_least_once" => Guarantee::AtLeastOnce,
            other => bail!("there is no guarantee {other}"),
        };
        let topology = topology(asked.text("kind")?, asked.text("input")?, asked.text("output")?)?;
        let mut builder = Application::builder(asked.text("app")?, topology);
        if let Ok(session_ms) = asked.number("session.timeout.ms") {
            builder = builder.session_timeout(Duration::from_secs_f64(session_ms / 1e3));
        }
        // Its own broker it reaches without a socket, as an embedded one is.
        builder = match &self.broker {
            Some(broker) => builder.broker(Arc::clone(broker)),
            None => builder.bootstrap_servers(asked.text("bootstrap")?),
        };
        let mut application = builder
            .guarantee(guarantee)
            .commit_interval(Duration::from_secs_f64(asked.number("commit_ms")? / 1e3))
            .state_dir(asked.text("state")?)
            .start()
            .await?;
        application.wait_until_running().await;
        self.application = Some(application);
        Ok(json!({}))
    }
}

/// What counts begins.
fn begin() -> String {
    json!({ "measured": "begin" }).to_string()
}

/// An answer as all clients give it: how many operations and records in what time, and how long an operation took.
fn percentiles(took: &mut [Duration], records: usize, all: Duration) -> Value {
    took.sort_unstable();
    let at = |share: f64| {
        let place = (share * took.len() as f64).ceil() as usize;
        took.get(place.saturating_sub(1)).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let (half, most) = (at(0.5), at(0.99));
    json!({ "operations": took.len(), "records": records, "seconds": all.as_secs_f64(), "p50_ms": half, "p99_ms": most })
}

fn topology(kind: &str, input: &str, output: &str) -> Result<Topology> {
    let builder = TopologyBuilder::new();
    let records = builder.stream::<Bytes, Bytes>(input);
    match kind {
        "map" => records.map_values(|value| value).to(output),
        "count" => records.group_by_key().count(store("counts")).to_stream().to(output),
        other => bail!("there is no topology {other}"),
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_verb_and_what_it_needs() {
        let asked = Asked::parse("start kind=map commit_ms=2.5");
        assert_eq!(
            (asked.verb, asked.text("kind").unwrap(), asked.number("commit_ms").unwrap()),
            ("start", "map", 2.5)
        );
        assert_eq!(asked.text("app").unwrap_err().to_string(), "without app=");
        assert_eq!(asked.number("kind").unwrap_err().to_string(), "kind= is no number");
    }

    #[test]
    fn percentiles_are_what_so_many_took_at_most() {
        let mut took: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        let answer = percentiles(&mut took, 1000, Duration::from_secs(2));
        let expected = json!({ "operations": 200, "records": 1000, "seconds": 2.0, "p50_ms": 100.0, "p99_ms": 198.0 });
        assert_eq!(answer, expected);
    }

    #[test]
    fn both_topologies_can_be_built() {
        for kind in ["map", "count"] {
            topology(kind, "input", "output").unwrap();
        }
        assert!(topology("join", "input", "output").is_err());
    }
}
