//! Reads orders and writes receipts, exactly once: receipts and reading positions are committed in one transaction.
//!
//! ```text
//! atonce broker --data-dir ./data &
//! atonce topics create orders receipts --partitions 4
//! cargo run -p atonce-client --example consume_process_produce -- localhost:9092 &
//! atonce produce orders < README.md
//! atonce consume receipts --isolation committed --from beginning
//! ```
//!
//! Kill it in the middle and start it again, or run two of them (each with an id of its own): a receipt for each order, no more and no
//! less.

#![allow(clippy::print_stderr, reason = "it talks to its user")]

use atonce_client::{Batch, Client, Error, OffsetReset, ProducerRecord, Settled, TransactionalProducer};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "localhost:9092".to_owned());
    // Two that run side by side need an id each; one that is started again takes its own, and so fences its former life.
    let id = arguments.next().unwrap_or_else(|| "payments-1".to_owned());
    let client = Client::builder(servers).connect().await?;

    let consumer = client.consumer().group("payments").read_committed().auto_offset_reset(OffsetReset::Earliest);
    let mut consumer = consumer.subscribe(["orders"]).await?;
    let mut producer = client.transactional_producer(id).start().await?;

    let stop = consumer.stopper();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.stop();
    });
    while let Some(batch) = consumer.next_batch().await? {
        let Err(error) = process(&mut producer, &batch).await else { continue };
        eprintln!("{error}");
        // What became of it? It may be committed even so. Whoever is fenced learns it here, and ends.
        match producer.settle().await? {
            Some(Settled::Committed) => {}
            // It is not, or nobody can say: the records come again from where the group stands, and that is the truth.
            Some(Settled::Aborted | Settled::Unknown) | None => consumer.rewind().await?,
        }
    }
    producer.close().await?;
    consumer.close_and_leave().await?;
    Ok(())
}

async fn process(producer: &mut TransactionalProducer, batch: &Batch) -> Result<(), Error> {
    let transaction = producer.begin().await?;
    for order in batch {
        let receipt = [b"paid: ".as_slice(), &order.value().unwrap_or_default()].concat();
        transaction.send(ProducerRecord::to("receipts").key(order.key()).value(receipt)).await?;
    }
    // With member and generation as of this batch: had the group given the partitions to somebody else, this would be refused.
    transaction.send_offsets(batch.positions()).await?;
    transaction.commit().await?;
    Ok(())
}
