//! Records: making those below an offset unreadable.

use atonce_kernel::{Offset, TopicName, TopicPartition};
use atonce_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};

use super::call::{Route, answer};
use super::{Admin, PerItem, grouped};
use crate::error::AdminError;

impl Admin {
    /// Makes records below these offsets unreadable; -1 stands for the high watermark. Answers the first offset that remains.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, ProducerRecord, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let producer = client.producer().start().await?;
    /// for value in ["a", "b", "c"] {
    ///     drop(producer.send(ProducerRecord::to("orders").value(value)).await?);
    /// }
    /// producer.close().await?;
    /// let orders = TopicPartition::new("orders", 0);
    /// let remains = admin.delete_records(&[(orders.clone(), 2)]).await?;
    /// assert_eq!(remains[&orders], Ok(2));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_records(
        &self,
        before: &[(TopicPartition, Offset)],
    ) -> Result<PerItem<TopicPartition, Offset>, AdminError> {
        let cluster = self.client.cluster();
        let partition = |(partition_index, offset): (i32, Offset)| DeleteRecordsPartition {
            partition_index,
            offset,
            ..Default::default()
        };
        let topic = |(name, partitions): (TopicName, Vec<(i32, Offset)>)| DeleteRecordsTopic {
            name: name.into(),
            partitions: partitions.into_iter().map(partition).collect(),
            ..Default::default()
        };
        self.call(&cluster, "DeleteRecords")
            .per_item(
                before.iter().map(|(it, _)| it.clone()),
                |it| Route::Leader(it.clone()),
                0..=2,
                |_, keys| DeleteRecordsRequest {
                    topics: grouped(before.iter().filter(|(it, _)| keys.contains(it)).cloned())
                        .into_iter()
                        .map(topic)
                        .collect(),
                    timeout_ms: self.timeout_ms(),
                    ..Default::default()
                },
                |response, _, _| {
                    let mut answers = Vec::new();
                    for topic in response.topics {
                        let name = TopicName::from(topic.name);
                        for it in topic.partitions {
                            let topic_partition = TopicPartition::new(name.clone(), it.partition_index);
                            answers.push((topic_partition, answer(it.error_code, None, it.low_watermark)));
                        }
                    }
                    answers
                },
            )
            .await
    }
}
