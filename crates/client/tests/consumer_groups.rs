//! Groups that move partitions one by one: cooperative rebalances of classic groups, and groups of the consumer protocol
//! (KIP-848). On Apache Kafka if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is, else on our own broker.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use atonce_client::admin::NewOffset;
use atonce_client::{
    Client, Consumer, ConsumerBuilder, ConsumerError, ConsumerEvent, CooperativeStickyAssignor, ErrorClass, GroupId,
    GroupProtocol, NewTopic, OffsetReset, ProducerRecord, TopicName, TopicPartition,
};
use atonce_protocol::{AnyResponse, ApiKey, ErrorCode};
use atonce_testkit::proxy::Proxy;
use world::{World, read};

/// A member's events until `count` partitions are its own, with what was revoked on the way.
async fn until_it_has(consumer: &mut Consumer, count: usize) -> Vec<TopicPartition> {
    let mut revoked = Vec::new();
    loop {
        match consumer.next_event(Duration::from_millis(100)).await.expect("goes on") {
            Some(ConsumerEvent::Assigned(partitions, _)) if partitions.len() == count => return revoked,
            Some(ConsumerEvent::Revoking(partitions)) => revoked.extend(partitions),
            Some(ConsumerEvent::Batch(_) | ConsumerEvent::Assigned(..) | ConsumerEvent::Lost(_)) | None => {}
        }
    }
}

/// The group has counted on, and the answer that says so is on its way, when the member commits what it has kept: refused, the positions go into the
/// same transaction once more.
#[tokio::test(flavor = "multi_thread")]
async fn positions_that_cross_with_the_next_generation_are_sent_again_in_the_same_transaction() {
    let world = World::new().await;
    let topic = world.topic("crossing", 2).await;
    world.write(&topic, 0..10).await;
    let group = GroupId::from(world.name("group"));
    let proxy = Proxy::start(&world.servers, 1).await.expect("starts");
    let client = Client::builder(proxy.bootstrap_servers()).connect().await.expect("the broker is there");
    let member = |client: &Client| {
        let builder = client.consumer().group(group.clone()).auto_offset_reset(OffsetReset::Earliest);
        let builder = builder.heartbeat_interval(Duration::from_millis(50));
        builder.assignor(Arc::new(CooperativeStickyAssignor)).subscribe([topic.clone()])
    };
    let mut first = member(&client).await.expect("starts");
    let mut producer = client.transactional_producer(world.name("id")).start().await.expect("starts");
    assert_eq!(until_it_has(&mut first, 2).await, []);
    assert_eq!(read(&mut first, 10).await.len(), 10);
    let (positions, generation) = (first.positions(), first.group_metadata().expect("has a group").generation_id);

    let held = proxy.next(ApiKey::JoinGroup).hold_answer();
    let mut second = member(&world.client).await.expect("starts");
    let mut comes = Box::pin(until_it_has(&mut second, 1));
    tokio::select! {
        _ = &mut comes => panic!("nothing was given up yet"),
        () = async { while let Ok(_) | Err(ConsumerError::TimedOut { .. }) = first.next_event(Duration::from_millis(20)).await {} } => {}
        () = held.happened() => {}
    }
    assert_eq!(first.group_metadata().expect("has a group").generation_id, generation, "it has not heard of the next");
    let transaction = producer.begin().await.expect("begins");
    let release = async {
        while proxy.requests(ApiKey::TxnOffsetCommit) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        held.release();
    };
    let (sent, ()) = tokio::join!(transaction.send_offsets(positions), release);
    sent.expect("are taken");
    assert!(proxy.requests(ApiKey::TxnOffsetCommit) >= 2, "they were refused at first");
    transaction.commit().await.expect("commits");
    assert_eq!(producer.statistics().fenced, 0);
    assert_eq!(world.committed(&group, &topic).await, Some(world.settled_end(&topic).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cooperative_member_keeps_its_place_in_what_it_keeps_and_may_commit_it() {
    let world = World::new().await;
    let topic = world.topic("cooperative", 4).await;
    for partition in 0..4 {
        let producer = world.client.producer().start().await.expect("starts");
        for value in 0..10 {
            let record = ProducerRecord::to(topic.clone()).partition(partition).value(value.to_string());
            drop(producer.send(record).await.expect("is taken"));
        }
        producer.close().await.expect("all is written");
    }
    let group = GroupId::from(world.name("group"));
    let member = || {
        let builder = world.consumer().group(group.clone()).heartbeat_interval(Duration::from_millis(50));
        builder.assignor(Arc::new(CooperativeStickyAssignor)).subscribe([topic.clone()])
    };
    let mut first = member().await.expect("starts");
    assert_eq!(until_it_has(&mut first, 4).await, []);
    let mut seen = 0;
    let mut positions = first.positions();
    while seen < 40 {
        let batch = first.next_batch().await.expect("reads").expect("is not stopped");
        seen += batch.len();
        positions.merge(batch.positions());
    }
    let generation = first.group_metadata().expect("has a group").generation_id;

    let mut second = member().await.expect("starts");
    let (mut revoked, mut settled) = (Vec::new(), Box::pin(until_it_has(&mut second, 2)));
    // The first must call again when it has given something away, or the second never gets it.
    loop {
        tokio::select! {
            taken_from_second = &mut settled => {
                assert_eq!(taken_from_second, []);
                break;
            }
            event = first.next_event(Duration::from_millis(100)) => {
                if let Some(ConsumerEvent::Revoking(partitions)) = event.expect("goes on") {
                    revoked.extend(partitions);
                }
            }
        }
    }
    drop(settled);
    let generation_of = |consumer: &Consumer| consumer.group_metadata().expect("has a group").generation_id;
    while generation_of(&first) < generation_of(&second) {
        drop(first.next_event(Duration::from_millis(10)).await.expect("goes on"));
    }
    assert_eq!(revoked.len(), 2, "only what moves is revoked");
    let kept = first.assignment();
    assert!(kept.iter().all(|it| first.position(it) == Some(10)), "it reads on where it is");
    assert_eq!(kept.len(), 2);

    // Handed out in an old generation, and what was kept is still its own to commit.
    assert!(generation_of(&first) > generation);
    let stale = first.commit(positions.clone()).await.expect_err("half of it is another's by now");
    assert!(matches!(stale, ConsumerError::CommitFailed(_)), "{stale}");
    positions.retain(|it| kept.contains(it));
    first.commit(positions).await.expect("is its own");
    let committed = world.client.admin().committed_offsets(&group, &kept, true).await.expect("are told");
    assert!(kept.iter().all(|it| committed[it].offset == 10), "{committed:?}");
    assert_eq!(first.assignment(), kept, "the refusal cost it nothing");
}

/// Whether there is something to test: the broker offers groups of KIP-848.
async fn has_consumer_groups(world: &World) -> bool {
    let cluster = world.client.admin().describe_cluster().await.expect("is answered");
    cluster.features.get("group.version").copied().unwrap_or(0) >= 1
}

fn consumer_member(world: &World, group: &GroupId) -> ConsumerBuilder {
    world.consumer().group(group.clone()).group_protocol(GroupProtocol::Consumer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_groups_of_the_consumer_protocol_says_so() {
    let world = World::new().await;
    if has_consumer_groups(&world).await {
        return;
    }
    let group = GroupId::from(world.name("group"));
    let mut consumer = consumer_member(&world, &group).subscribe(["t"]).await.expect("starts");
    let error = consumer.next_batch().await.expect_err("cannot be");
    assert!(matches!(error, ConsumerError::GroupProtocolNotOffered(_)), "{error}");
    assert_eq!(error.class(), ErrorClass::InvalidConfiguration);
    assert!(error.to_string().contains("GroupProtocol::Classic"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_consumer_group_share_and_give_away_only_what_moves() {
    let world = World::new().await;
    if !has_consumer_groups(&world).await {
        return;
    }
    let topic = world.topic("consumer", 4).await;
    let group = GroupId::from(world.name("group"));
    world.write(&topic, 0..40).await;
    let mut first = consumer_member(&world, &group).subscribe([topic.clone()]).await.expect("starts");
    assert_eq!(until_it_has(&mut first, 4).await, []);
    let mut positions = first.positions();
    let mut seen = 0;
    while seen < 40 {
        let batch = first.next_batch().await.expect("reads").expect("is not stopped");
        seen += batch.len();
        positions.merge(batch.positions());
    }
    let epoch = |consumer: &Consumer| consumer.group_metadata().expect("has a group").generation_id;
    let before = epoch(&first);

    let mut second = consumer_member(&world, &group).subscribe([topic.clone()]).await.expect("starts");
    let mut revoked = Vec::new();
    let mut settled = Box::pin(until_it_has(&mut second, 2));
    loop {
        tokio::select! {
            _ = &mut settled => break,
            event = first.next_event(Duration::from_millis(100)) => {
                if let Some(ConsumerEvent::Revoking(partitions)) = event.expect("goes on") {
                    revoked.extend(partitions);
                }
            }
        }
    }
    drop(settled);
    while epoch(&first) < epoch(&second) {
        drop(first.next_event(Duration::from_millis(10)).await.expect("goes on"));
    }
    assert_eq!(revoked.len(), 2, "only what moves is revoked");
    let kept = first.assignment();
    assert_eq!(kept.len(), 2);
    assert!(epoch(&first) > before);

    // Handed out at an old epoch, and what was kept is still its own to commit: alone, and in a transaction.
    positions.retain(|it| kept.contains(it));
    first.commit(positions.clone()).await.expect("is its own");
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    transaction.send_offsets(positions.clone()).await.expect("are taken");
    transaction.commit().await.expect("commits");
    let committed = world.client.admin().committed_offsets(&group, &kept, true).await.expect("are told");
    assert!(kept.iter().all(|it| Some(committed[it].offset) == positions.offset(it)), "{committed:?}");

    // Who leaves is succeeded at once.
    first.close().await.expect("leaves");
    until_it_has(&mut second, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_is_matched_by_the_coordinator() {
    let world = World::new().await;
    if !has_consumer_groups(&world).await {
        return;
    }
    let (one, two) = (world.topic("pattern-a", 1).await, world.topic("pattern-b", 2).await);
    let other = world.topic("other", 1).await;
    world.write(&one, 0..1).await;
    world.write(&other, 5..6).await;
    let group = GroupId::from(world.name("group"));
    let pattern = format!("pattern-[ab]-{}", world.suffix);
    let mut consumer = consumer_member(&world, &group).subscribe_pattern(pattern).await.expect("starts");
    until_it_has(&mut consumer, 3).await;
    let expected = [(&one, 0), (&two, 0), (&two, 1)].map(|(topic, it)| TopicPartition::new(topic.clone(), it));
    assert_eq!(consumer.assignment(), expected);
    assert_eq!(read(&mut consumer, 1).await, ["0"]);
    consumer.close().await.expect("leaves");

    let group = GroupId::from(world.name("bad"));
    let mut consumer = consumer_member(&world, &group).subscribe_pattern("pattern-[").await.expect("starts");
    let error = consumer.next_batch().await.expect_err("is no pattern");
    assert!(error.to_string().contains("INVALID_REGULAR_EXPRESSION"), "{error}");
    let error = world.consumer().group(group).subscribe_pattern("p").await.expect_err("classic groups have none");
    assert!(matches!(error, ConsumerError::WrongKind { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_that_comes_back_finds_its_partitions_and_nobody_else_is_disturbed() {
    let world = World::new().await;
    if !has_consumer_groups(&world).await {
        return;
    }
    let topic = world.topic("static", 4).await;
    let group = GroupId::from(world.name("group"));
    let member = |name: &str| consumer_member(&world, &group).instance_id(name).subscribe([topic.clone()]);
    let mut one = member("one").await.expect("starts");
    until_it_has(&mut one, 4).await;
    let mut two = member("two").await.expect("starts");
    let mut settled = Box::pin(until_it_has(&mut two, 2));
    loop {
        tokio::select! {
            _ = &mut settled => break,
            event = one.next_event(Duration::from_millis(100)) => drop(event.expect("goes on")),
        }
    }
    drop(settled);
    let (mine, others) = (one.assignment(), two.assignment());
    let metadata = two.group_metadata();
    one.close().await.expect("leaves for a while");
    let mut one = member("one").await.expect("starts");
    assert_eq!(until_it_has(&mut one, 2).await, []);
    assert_eq!(one.assignment(), mine);
    assert!(two.next_event(Duration::from_millis(300)).await.expect("goes on").is_none(), "nothing happened to it");
    assert_eq!((two.assignment(), two.group_metadata()), (others, metadata));
    one.close_and_leave().await.expect("leaves");
    until_it_has(&mut two, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_again_is_taken_for_another_one() {
    let world = World::new().await;
    if !has_consumer_groups(&world).await {
        return;
    }
    let topic = world.topic("again", 1).await;
    world.write(&topic, 0..5).await;
    let group = GroupId::from(world.name("group"));
    let mut consumer = consumer_member(&world, &group).subscribe([topic.clone()]).await.expect("starts");
    assert_eq!(read(&mut consumer, 5).await, ["0", "1", "2", "3", "4"]);
    let admin = world.client.admin();
    drop(admin.delete_topics(std::slice::from_ref(&topic)).await.expect("is answered"));
    make_again(&world.client, &topic).await;
    world.write(&topic, 7..9).await;
    assert_eq!(read(&mut consumer, 2).await, ["7", "8"]);
}

/// The old one may still be going away.
async fn make_again(client: &Client, topic: &TopicName) {
    loop {
        let made = client.admin().create_topics(&[NewTopic::new(topic.clone(), 1)]).await.expect("is answered");
        if made[topic].is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A topic of two partitions with five records in each, and a group that has committed 3 in both.
async fn half_read(world: &World) -> (TopicName, GroupId) {
    let topic = world.topic("half-read", 2).await;
    let producer = world.client.producer().start().await.expect("starts");
    for value in 0..10 {
        let record = ProducerRecord::to(topic.clone()).partition(value % 2).value(value.to_string());
        drop(producer.send(record).await.expect("is taken"));
    }
    producer.close().await.expect("all is written");
    let group = GroupId::from(world.name("group"));
    let place = |partition| (TopicPartition::new(topic.clone(), partition), NewOffset::at(3));
    let altered = world.client.admin().alter_committed_offsets(&group, &[place(0), place(1)]).await;
    assert!(altered.expect("is answered").values().all(Result::is_ok));
    (topic, group)
}

/// A member that would begin at the end, if it took a refused offset for none.
async fn member_of(client: &Client, topic: &TopicName, group: &GroupId) -> Consumer {
    let builder = client.consumer().read_committed().auto_offset_reset(OffsetReset::Latest);
    let builder = builder.group(group.clone()).group_protocol(GroupProtocol::Consumer);
    builder.subscribe([topic.clone()]).await.expect("starts")
}

/// Counts the answers to OffsetFetch that carry this code.
fn count_answers(proxy: &Proxy, code: ErrorCode) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    proxy.change_answers(ApiKey::OffsetFetch, move |answer, _| {
        if let AnyResponse::OffsetFetch(answer) = answer
            && answer.groups.iter().any(|group| group.error_code == code.to_i16())
        {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_epoch_rose_while_it_asked_for_its_offsets_asks_again_with_the_new_one() {
    let world = World::new().await;
    let (topic, group) = half_read(&world).await;
    let proxy = Proxy::start(&world.servers, 1).await.expect("starts");
    let stale = count_answers(&proxy, ErrorCode::StaleMemberEpoch);
    let held = proxy.next(ApiKey::OffsetFetch).hold_request();
    let client = Client::builder(proxy.bootstrap_servers()).connect().await.expect("the broker is there");
    let mut first = member_of(&client, &topic, &group).await;
    until_it_has(&mut first, 2).await;
    held.happened().await;
    // Another member: the first gives a partition away, and is of another epoch after that.
    let generation_of = |consumer: &Consumer| consumer.group_metadata().expect("has a group").generation_id;
    let before = generation_of(&first);
    let mut second = member_of(&world.client, &topic, &group).await;
    let joined = async {
        let mut settled = Box::pin(until_it_has(&mut second, 1));
        loop {
            tokio::select! {
                _ = &mut settled => break,
                event = first.next_event(Duration::from_millis(50)) => drop(event.expect("goes on")),
            }
        }
        drop(settled);
        while generation_of(&first) == before || first.assignment().len() != 1 {
            drop(first.next_event(Duration::from_millis(50)).await.expect("goes on"));
        }
    };
    tokio::time::timeout(Duration::from_secs(60), joined).await.expect("the second gets its share");
    held.release();
    let batch = async {
        loop {
            let batch = first.next_batch().await.expect("goes on").expect("is not stopped");
            if let Some(record) = batch.iter().next() {
                return record.offset;
            }
        }
    };
    let offset = tokio::time::timeout(Duration::from_secs(60), batch).await.expect("reads from what is committed");
    assert_eq!(offset, 3);
    assert!(stale.load(Ordering::Relaxed) > 0, "the epoch went along, and was held against the member's");
    first.close().await.expect("leaves");
    second.close().await.expect("leaves");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_the_group_does_not_know_when_it_asks_for_its_offsets_joins_again() {
    let world = World::new().await;
    let (topic, group) = half_read(&world).await;
    let proxy = Proxy::start(&world.servers, 1).await.expect("starts");
    let is_told = AtomicBool::new(false);
    proxy.change_answers(ApiKey::OffsetFetch, move |answer, _| {
        if let AnyResponse::OffsetFetch(answer) = answer
            && !is_told.swap(true, Ordering::Relaxed)
        {
            for group in &mut answer.groups {
                group.error_code = ErrorCode::UnknownMemberId.to_i16();
                group.topics.clear();
            }
        }
    });
    let client = Client::builder(proxy.bootstrap_servers()).connect().await.expect("the broker is there");
    let mut member = member_of(&client, &topic, &group).await;
    let (mut lost, mut offsets) = (0, Vec::new());
    let reading = async {
        while offsets.len() < 4 {
            match member.next_event(Duration::from_millis(100)).await.expect("nothing of this is the user's") {
                Some(ConsumerEvent::Lost(partitions)) => lost += partitions.len(),
                Some(ConsumerEvent::Batch(batch)) => offsets.extend(batch.iter().map(|record| record.offset)),
                Some(ConsumerEvent::Assigned(..) | ConsumerEvent::Revoking(_)) | None => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.expect("reads from what is committed");
    offsets.sort_unstable();
    assert_eq!((lost, offsets), (2, vec![3, 3, 4, 4]));
    member.close().await.expect("leaves");
}
