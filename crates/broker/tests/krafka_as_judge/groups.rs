//! Groups of krafka's consumers, in both protocols: they join, share, leave, come back and are killed.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use atonce_broker::Broker;
use krafka::consumer::{AutoOffsetReset, Consumer, GroupProtocol};
use krafka::{CloseOptions, GroupMembershipOperation, Kafka};

use crate::killed::Client;
use crate::{PATIENCE, broker, connect, create};

/// A member with a connection of its own: on a shared one, heartbeats would wait behind the other's JoinGroup, as answers come in order.
async fn member(broker: &Broker, protocol: GroupProtocol, instance: Option<&str>) -> Consumer {
    let kafka = connect(broker).await;
    join(&kafka, protocol, instance, Duration::from_secs(30)).await
}

pub(crate) async fn join(
    kafka: &Kafka,
    protocol: GroupProtocol,
    instance: Option<&str>,
    session_timeout: Duration,
) -> Consumer {
    let mut builder = kafka
        .consumer("group")
        .group_protocol(protocol)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .enable_auto_commit(false)
        .session_timeout(session_timeout)
        .heartbeat_interval(Duration::from_millis(200));
    if let Some(instance) = instance {
        builder = builder.group_instance_id(instance);
    }
    let consumer = builder.build().await.expect("a consumer");
    consumer.subscribe(["t"]).await.expect("subscribed");
    consumer
}

async fn partitions(consumer: &Consumer) -> BTreeSet<i32> {
    let assignment: HashMap<String, Vec<i32>> = consumer.assignment().await;
    assignment.into_values().flatten().collect()
}

async fn poll(consumer: &Consumer) {
    consumer.poll(Duration::from_millis(200)).await.expect("polled");
}

/// Polls all of them until they have so many partitions, each another one, and all four together.
pub(crate) async fn share(consumers: &[&Consumer], counts: &[usize]) {
    let shared = tokio::time::timeout(PATIENCE, async {
        loop {
            for consumer in consumers {
                poll(consumer).await;
            }
            let mut all = BTreeSet::new();
            let mut found = Vec::new();
            for consumer in consumers {
                let its = partitions(consumer).await;
                found.push(its.len());
                all.extend(its);
            }
            if found == counts && all == BTreeSet::from([0, 1, 2, 3]) {
                return;
            }
        }
    });
    shared.await.unwrap_or_else(|_| panic!("the members never had {counts:?}"));
}

async fn comes_and_goes(protocol: GroupProtocol) {
    let broker = broker("2").await;
    create(&connect(&broker).await, "t", 4).await;
    let first = member(&broker, protocol, None).await;
    share(&[&first], &[4]).await;
    let second = member(&broker, protocol, None).await;
    share(&[&first, &second], &[2, 2]).await;
    first.close().await.expect("closed");
    share(&[&second], &[4]).await;
    second.close().await.expect("closed");
}

#[tokio::test]
async fn a_group_shares_partitions_and_hands_them_over() {
    comes_and_goes(GroupProtocol::Classic).await;
}

#[tokio::test]
async fn a_group_of_the_newer_protocol_shares_partitions_and_hands_them_over() {
    comes_and_goes(GroupProtocol::Consumer).await;
}

#[tokio::test]
async fn a_static_member_comes_back_to_its_partitions_without_a_rebalance() {
    let broker = broker("2").await;
    create(&connect(&broker).await, "t", 4).await;
    let stays = member(&broker, GroupProtocol::Classic, Some("stays")).await;
    let restarts = member(&broker, GroupProtocol::Classic, Some("restarts")).await;
    share(&[&stays, &restarts], &[2, 2]).await;
    let (before, its) = (stays.group_metadata().await.expect("a member"), partitions(&restarts).await);
    let remain = CloseOptions::new().group_membership_operation(GroupMembershipOperation::RemainInGroup);
    restarts.close_with(remain).await.expect("closed");
    let back = member(&broker, GroupProtocol::Classic, Some("restarts")).await;
    share(&[&stays, &back], &[2, 2]).await;
    assert_eq!(partitions(&back).await, its);
    let after = stays.group_metadata().await.expect("still a member");
    assert_eq!(after, before, "no new generation, and the same member");
    let back = back.group_metadata().await.expect("a member");
    assert_eq!(back.generation_id(), before.generation_id());
}

#[tokio::test]
async fn a_killed_members_partitions_go_to_who_is_left_when_its_session_is_over() {
    let broker = broker("2").await;
    create(&connect(&broker).await, "t", 4).await;
    let left = member(&broker, GroupProtocol::Classic, None).await;
    let killed = Client::start(&broker, "member");
    share_with_one_outside(&left).await;
    killed.kill_when_it_says("assigned 2").await;
    share(&[&left], &[4]).await;
}

async fn share_with_one_outside(left: &Consumer) {
    let shared = tokio::time::timeout(PATIENCE, async {
        while partitions(left).await.len() != 2 {
            poll(left).await;
        }
    });
    shared.await.expect("two members share");
}
