//! Counts words, exactly once: lines in, a count for every word out, whatever is killed meanwhile.
//!
//! ```text
//! atonce broker --data-dir ./data &
//! atonce topics create lines --partitions 4
//! atonce topics create word-counts --partitions 4
//! cargo run -p atonce --example word_count_exactly_once -- localhost:9092 &
//! atonce produce lines < README.md
//! atonce consume word-counts --isolation committed --from beginning
//! ```
//!
//! Kill it in the middle, start it again, run two of them (each with a state folder of its own): the counts of a word are 1, 2, 3 …

use atonce::prelude::*;

fn word_count() -> Result<Topology, TopologyError> {
    let builder = TopologyBuilder::new();
    builder
        .stream::<Option<Bytes>, String>("lines")
        .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .to("word-counts");
    builder.build()
}

#[tokio::main]
async fn main() -> Result<(), atonce::Error> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "localhost:9092".to_owned());
    let state_dir = arguments.next().unwrap_or_else(|| "./word-count-state".to_owned());
    Application::builder("word-count", word_count()?)
        .bootstrap_servers(servers)
        .guarantee(Guarantee::ExactlyOnce)
        .state_dir(state_dir)
        .workers(2)
        .start()
        .await?
        .run_until(shutdown_signal())
        .await
}
