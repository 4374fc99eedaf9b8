//! Moves money between accounts: each transfer is two records, and whoever reads committed sees both or none.
//!
//! ```text
//! atonce broker --data-dir ./data &
//! cargo run -p atonce-client --example produce_transactionally -- localhost:9092
//! atonce consume accounts --from beginning --until-end --print-keys
//! ```

#![allow(clippy::print_stdout, reason = "it talks to its user")]

use atonce_client::{Client, Error, NewTopic, ProducerRecord, TransactionalProducer};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "localhost:9092".to_owned());
    let client = Client::builder(servers).connect().await?;
    // One that is there already is refused by itself, and stays.
    client.admin().create_topics(&[NewTopic::new("accounts", 2)]).await?;

    // Fences whoever had the id before, and settles what that one left open.
    let mut producer = client.transactional_producer("transfers-1").start().await?;
    transfer(&mut producer, "alice", "bob", 30).await?;
    transfer(&mut producer, "bob", "carol", 10).await?;
    // Nobody who reads committed will ever see half of this one, nor all of it.
    let transaction = producer.begin().await?;
    transaction.send(ProducerRecord::to("accounts").key("carol").value("-1000000")).await?;
    transaction.abort().await?;

    println!("{:?}", producer.statistics());
    producer.close().await?;
    Ok(())
}

/// Should it fail, the next `begin` ends what is left of it; `error.may_have_taken_effect()` says whether it may be committed.
async fn transfer(producer: &mut TransactionalProducer, from: &str, to: &str, amount: i64) -> Result<(), Error> {
    let transaction = producer.begin().await?;
    // `send` waits for room, not for the broker: `commit` fails unless all of it is written.
    transaction.send(ProducerRecord::to("accounts").key(from).value((-amount).to_string())).await?;
    transaction.send(ProducerRecord::to("accounts").key(to).value(amount.to_string())).await?;
    transaction.commit().await?;
    Ok(())
}
