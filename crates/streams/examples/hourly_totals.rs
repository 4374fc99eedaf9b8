//! A processor with state and a schedule: adds up amounts by customer, and writes every customer's total once for each hour of *event* time.
//!
//! The schedule follows the records' times, not the wall clock: after a crash, or over old input, the same totals come out.
//!
//! ```text
//! cargo run -p atonce --example hourly_totals
//! ```

#![allow(clippy::print_stdout, reason = "it talks to its user")]

use std::time::Duration;

use atonce::client::{Position, TopicPartition};
use atonce::prelude::*;
use atonce_broker::Broker; // outside this repository: atonce::broker::Broker, with the feature `embedded`

struct HourlyTotals {
    totals: StoreHandle<KeyValueStore<String, i64>>,
}

impl Processor for HourlyTotals {
    type Input = (String, i64);
    type Output = (String, i64);

    fn process(
        &mut self,
        record: Record<String, i64>,
        stores: &mut Stores<'_>,
        _: &mut Forward<'_, (String, i64)>,
    ) -> Result<(), ProcessorError> {
        let mut totals = stores.get(&self.totals);
        let total = totals.get(&record.key)?.unwrap_or(0) + record.value;
        totals.put(&record.key, &total)?;
        Ok(())
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![Schedule::stream_time(Duration::from_secs(3600))]
    }

    fn punctuate(
        &mut self,
        punctuation: Punctuation,
        stores: &mut Stores<'_>,
        output: &mut Forward<'_, (String, i64)>,
    ) -> Result<(), ProcessorError> {
        let mut totals = stores.get(&self.totals);
        let entries = totals.all().collect::<Result<Vec<_>, _>>()?;
        for (customer, total) in entries {
            totals.delete(&customer)?;
            output.forward(Record::new(customer, total, punctuation.time));
        }
        Ok(())
    }
}

fn topology() -> Result<Topology, TopologyError> {
    let builder = TopologyBuilder::new();
    let totals = builder.add_store::<String, i64>(store("totals"));
    let handle = totals.clone();
    builder
        .stream::<String, i64>("amounts")
        .process(move || HourlyTotals { totals: handle.clone() }, [totals])
        .named("hourly-totals")
        .to("totals-by-hour");
    builder.build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broker = Broker::temporary().await?;
    let client = Client::builder(broker.bootstrap_servers()).connect().await?;
    let topics = ["amounts", "totals-by-hour"].map(|topic| atonce::client::NewTopic::new(topic, 1));
    for (_, created) in client.admin().create_topics(&topics).await? {
        created?;
    }
    // Three hours, a record each quarter of an hour; the last one only moves the time on.
    let producer = client.producer().start().await?;
    for quarter in 0..13_i64 {
        let customer = if quarter % 2 == 0 { "ann" } else { "bob" };
        let record = ProducerRecord::to("amounts")
            .key(customer)
            .value(10_i64.to_be_bytes().to_vec())
            .timestamp(1_700_000_000_000 + quarter * 900_000);
        let _delivery = producer.send(record).await?;
    }
    producer.close().await?;

    let state = tempfile::tempdir()?;
    let application = Application::builder("hourly", topology()?)
        .bootstrap_servers(broker.bootstrap_servers())
        .state_dir(state.path())
        .start()
        .await?;
    let output = TopicPartition::new("totals-by-hour", 0);
    let mut consumer = client.consumer().read_committed().assign([(output, Position::Earliest)]).await?;
    let mut sum = 0;
    while sum < 130 {
        let Some(batch) = consumer.next_batch().await? else { break };
        for record in batch {
            let key = record.key.unwrap_or_default();
            let total = i64::from_be_bytes(record.value.unwrap_or_default().as_ref().try_into()?);
            println!("{} {} {total}", record.timestamp.0, String::from_utf8_lossy(&key));
            sum += total;
        }
    }
    application.close().await?;
    broker.shutdown().await?;
    Ok(())
}
