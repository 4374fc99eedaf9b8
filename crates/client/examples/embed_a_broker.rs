//! A broker inside this program: durable, with transactions, reachable by every Kafka client, and without a process of its own.
//!
//! ```text
//! cargo run -p atonce-client --example embed_a_broker -- ./data
//! ```
//!
//! Run it again with the same folder: what was written is there. In a test, `Broker::temporary()` takes a folder that goes with it.

#![allow(clippy::print_stdout, reason = "it talks to its user")]

use std::error::Error;

use atonce_broker::Broker;
use atonce_client::{Client, Isolation, NewTopic, OffsetSpec, ProducerRecord, TopicPartition};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "./data".to_owned());
    // Port 0 takes a free one.
    let broker = Broker::builder().data_path(folder).listen("127.0.0.1:0").start().await?;
    println!("serves on {}", broker.bootstrap_servers());

    let client = Client::builder(broker.bootstrap_servers()).connect().await?;
    client.admin().create_topics(&[NewTopic::new("starts", 1)]).await?;
    let producer = client.producer().start().await?;
    let start = format!("of process {}", std::process::id());
    let written = producer.send(ProducerRecord::to("starts").value(start)).await?.await?;
    println!("wrote at {}: {:?}", written.topic_partition, written.offset);
    producer.close().await?;

    // As after SIGKILL: what was acknowledged is there.
    broker.crash().await?;
    broker.restart().await?;
    let client = Client::builder(broker.bootstrap_servers()).connect().await?;
    let starts = TopicPartition::new("starts", 0);
    let end = client.admin().list_offsets(&[(starts.clone(), OffsetSpec::Latest)], Isolation::ReadCommitted).await?;
    println!("started {} times", end[&starts].offset.unwrap_or(0));
    broker.shutdown().await?;
    Ok(())
}
