//! A client and a broker in one process, without a socket between them.

use std::sync::Arc;

use atonce_broker::Broker;
use atonce_client::connector::Connecting;
use atonce_client::{BrokerAddress, Client, Connector, NewTopic, Position, ProducerRecord, TopicPartition, Transport};

struct InProcess(Arc<Broker>);

impl Connector for InProcess {
    fn connect<'a>(&'a self, _: &'a BrokerAddress) -> Connecting<'a> {
        Box::pin(async move {
            let stream = self.0.connect_in_process().map_err(|error| std::io::Error::other(error.to_string()))?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

#[tokio::test]
async fn a_transaction_goes_through_without_a_socket() {
    let broker = Arc::new(Broker::temporary().await.expect("starts"));
    // The address is never resolved.
    let builder = Client::builder("nowhere.invalid:1").connector(Arc::new(InProcess(Arc::clone(&broker))));
    let client = builder.connect().await.expect("is there");
    let created = client.admin().create_topics(&[NewTopic::new("t", 1)]).await.expect("is answered");
    assert!(created.values().all(Result::is_ok));
    let mut producer = client.transactional_producer("id").start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to("t").value("x")).await.expect("is taken");
    transaction.commit().await.expect("commits");
    let consumer = client.consumer().read_committed();
    let mut consumer = consumer.assign([(TopicPartition::new("t", 0), Position::Earliest)]).await.expect("starts");
    let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
    assert_eq!(batch.records[0].value().as_deref(), Some(&b"x"[..]));
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_named() {
    let broker = Arc::new(Broker::temporary().await.expect("starts"));
    broker.shutdown().await.expect("stops");
    let address = broker.bootstrap_servers();
    let error = Client::builder(address.clone()).connect().await.map(drop).expect_err("nobody listens");
    assert!(error.to_string().contains(&address), "{error}");
    let error = Client::builder("no port").connect().await.map(drop).expect_err("is no address");
    assert!(error.to_string().contains("host:port"), "{error}");
}
