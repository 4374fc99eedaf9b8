//! The administrator's calls against a real broker: Apache Kafka, if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is; else our
//! own, in this process.
//!
//! Every test makes topics, groups and transactional ids of its own, so they may run side by side and again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atonce_broker::{Broker, Durability};
use atonce_client::admin::{
    AbortTransaction, AlterConfig, ConfigEntry, ConfigResource, ConfigSource, ConfigType, FeatureUpdate, GroupFilter,
    GroupState, GroupType, NewOffset, PerItem, TransactionFilter, TransactionState,
};
use atonce_client::{
    Admin, AdminError, Client, Consumer, ConsumerEvent, ErrorCode, GroupId, GroupInstanceId, GroupProtocol, Isolation,
    NewTopic, OffsetSpec, Position, ProducerRecord, TopicName, TopicPartition, TransactionalId,
};

struct World {
    client: Client,
    admin: Admin,
    suffix: String,
    _broker: Option<Broker>,
}

impl World {
    async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (servers, broker) = match std::env::var("ATONCE_TEST_BOOTSTRAP_SERVERS") {
            Ok(servers) => (servers, None),
            Err(_) => {
                let broker = Broker::builder().temporary().durability(Durability::Os);
                let broker = broker.start().await.expect("a broker starts in this process");
                (broker.bootstrap_servers(), Some(broker))
            }
        };
        let client = Client::builder(servers).client_id("atonce-test").connect().await.expect("the broker is there");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis();
        let suffix = format!("{now}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = client.admin();
        Self { client, admin, suffix, _broker: broker }
    }

    fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.suffix)
    }

    fn group(&self, what: &str) -> GroupId {
        GroupId::from(self.name(what))
    }

    async fn topic(&self, what: &str, partitions: i32) -> TopicName {
        let name = TopicName::from(self.name(what));
        self.create(NewTopic::new(name.clone(), partitions)).await.expect("it is new");
        name
    }

    async fn create(&self, topic: NewTopic) -> Result<(), AdminError> {
        only(self.admin.create_topics(&[topic]).await).map(drop)
    }

    /// Writes values with these timestamps to a partition.
    async fn write(&self, topic: &TopicName, partition: i32, timestamps: &[i64]) {
        let producer = self.client.producer().linger(Duration::ZERO).start().await.expect("starts");
        for timestamp in timestamps {
            let record = ProducerRecord::to(topic.clone()).partition(partition).value(timestamp.to_string());
            drop(producer.send(record.timestamp(*timestamp)).await.expect("is taken"));
        }
        producer.close().await.expect("all is written");
    }

    /// A member that has its partitions.
    async fn member(&self, group: &GroupId, topic: &TopicName, instance_id: Option<&str>) -> Consumer {
        let builder = self.client.consumer().group(group.clone());
        let builder = match instance_id {
            Some(id) => builder.instance_id(id),
            None => builder,
        };
        let mut consumer = builder.subscribe([topic.clone()]).await.expect("it joins");
        loop {
            let event =
                consumer.next_event(Duration::from_secs(60)).await.expect("goes on").expect("something happens");
            if matches!(event, ConsumerEvent::Assigned(..)) {
                return consumer;
            }
        }
    }
}

/// The only item's result.
fn only<K, V>(results: Result<PerItem<K, V>, AdminError>) -> Result<V, AdminError> {
    let mut results: Vec<_> = results?.into_values().collect();
    assert_eq!(results.len(), 1, "an answer for each");
    results.pop().expect("there is one")
}

fn code<T: std::fmt::Debug>(result: Result<T, AdminError>) -> ErrorCode {
    match result {
        Err(AdminError::Refused { refusal, .. }) => refusal.code(),
        other => panic!("is refused, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_made_shown_widened_and_deleted() {
    let world = World::new().await;
    let admin = &world.admin;
    let name = TopicName::from(world.name("made"));
    let topic = || NewTopic::new(name.clone(), 3).config("cleanup.policy", "compact");
    only(admin.validate_topics(&[topic()]).await).expect("it could be made");
    assert!(admin.list_topics().await.expect("is answered").iter().all(|it| it.name != name), "nothing is made yet");

    let twice = NewTopic::new(world.name("bad"), 0);
    let created = admin.create_topics(&[topic(), twice]).await.expect("is answered");
    let id = created[&name].clone().expect("it is new");
    assert_eq!(code(created[world.name("bad").as_str()].clone()), ErrorCode::InvalidPartitions);
    let again = world.create(topic()).await.expect_err("it is there");
    assert!(again.is_already_there(), "{again}");
    assert_eq!(code(only(admin.validate_topics(&[topic()]).await)), ErrorCode::TopicAlreadyExists);

    let listed = admin.list_topics().await.expect("is answered");
    let listed = listed.iter().find(|it| it.name == name).expect("it is listed");
    assert_eq!((listed.id, listed.partitions, listed.is_internal), (id, 3, false));
    let nothing = TopicName::from(world.name("nothing"));
    let mut described = admin.describe_topics(&[name.clone(), nothing.clone()]).await.expect("is answered");
    assert!(described.remove(&nothing).expect("an answer").expect_err("is not there").is_not_there());
    let described = described.remove(&name).expect("an answer").expect("is there");
    assert_eq!(described.id, id);
    assert_eq!(described.partitions.iter().map(|it| it.partition).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(described.partitions.iter().all(|it| it.replicas == [it.leader] && it.in_sync_replicas == [it.leader]));

    assert_eq!(code(admin.create_partitions(&name, 3).await), ErrorCode::InvalidPartitions);
    admin.validate_partitions(&name, 5).await.expect("it could have five");
    assert_eq!(partitions(admin, &name).await, 3, "nothing is changed yet");
    admin.create_partitions(&name, 5).await.expect("it gets five");
    assert_eq!(partitions(admin, &name).await, 5);
    assert_eq!(code(admin.create_partitions(&nothing, 5).await), ErrorCode::UnknownTopicOrPartition);

    only(admin.delete_topics(std::slice::from_ref(&name)).await).expect("it is deleted");
    gone(admin, &name).await;
    assert_eq!(code(only(admin.delete_topics(&[nothing]).await)), ErrorCode::UnknownTopicOrPartition);

    // Made again it is another one: who deletes the old one by its id does not hit it.
    world.create(topic()).await.expect("it is new");
    assert_eq!(code(only(admin.delete_topics_by_id(&[id]).await)), ErrorCode::UnknownTopicId);
    let new = only(admin.describe_topics(std::slice::from_ref(&name)).await).expect("is there").id;
    only(admin.delete_topics_by_id(&[new]).await).expect("it is deleted");
    gone(admin, &name).await;
}

async fn partitions(admin: &Admin, topic: &TopicName) -> usize {
    only(admin.describe_topics(std::slice::from_ref(topic)).await).expect("is there").partitions.len()
}

async fn gone(admin: &Admin, topic: &TopicName) {
    while admin.list_topics().await.expect("is answered").iter().any(|it| it.name == *topic) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_put_where_one_says() {
    let world = World::new().await;
    let node = world.admin.describe_cluster().await.expect("is answered").brokers[0].id;
    let topic = NewTopic::assigned(world.name("put"), [(0, vec![node]), (1, vec![node])]);
    let name = topic.name.clone();
    world.create(topic).await.expect("it is new");
    assert_eq!(partitions(&world.admin, &name).await, 2);
    let nowhere = NewTopic::assigned(world.name("nowhere"), [(0, vec![4711])]);
    assert_eq!(code(world.create(nowhere).await), ErrorCode::InvalidReplicaAssignment);
}

async fn configs(world: &World, resource: &ConfigResource) -> BTreeMap<String, ConfigEntry> {
    only(world.admin.describe_configs(std::slice::from_ref(resource)).await).expect("is described")
}

#[tokio::test(flavor = "multi_thread")]
async fn configs_say_where_they_come_from_and_are_changed_one_by_one() {
    let world = World::new().await;
    let admin = &world.admin;
    let name = TopicName::from(world.name("configured"));
    world.create(NewTopic::new(name.clone(), 1).config("retention.ms", "1000")).await.expect("it is new");
    let topic = ConfigResource::Topic(name.clone());
    let alter = async |changes: Vec<AlterConfig>| only(admin.alter_configs(&[(topic.clone(), changes)]).await);

    let described = configs(&world, &topic).await;
    let retention = &described["retention.ms"];
    assert_eq!((retention.value.as_deref(), retention.source), (Some("1000"), ConfigSource::DynamicTopic));
    assert_eq!(retention.synonyms[0].value.as_deref(), Some("1000"), "the nearest one counts");
    assert_eq!(retention.config_type, ConfigType::Long);
    assert!(!retention.is_read_only && !retention.is_sensitive);
    let policy = &described["cleanup.policy"];
    assert_eq!((policy.value.as_deref(), policy.source), (Some("delete"), ConfigSource::Default));

    alter(vec![AlterConfig::append("cleanup.policy", "compact"), AlterConfig::set("retention.ms", "2000")])
        .await
        .expect("is changed");
    let described = configs(&world, &topic).await;
    assert_eq!(described["cleanup.policy"].value.as_deref(), Some("delete,compact"));
    assert_eq!(described["retention.ms"].value.as_deref(), Some("2000"));
    alter(vec![AlterConfig::subtract("cleanup.policy", "delete"), AlterConfig::delete("retention.ms")])
        .await
        .expect("is changed");
    let described = configs(&world, &topic).await;
    assert_eq!(described["cleanup.policy"].value.as_deref(), Some("compact"));
    assert_eq!(described["retention.ms"].source, ConfigSource::Default);
    assert_eq!(admin.topic_configs(&name).await.expect("is described")["cleanup.policy"], "compact");

    // All changes of a resource, or none.
    let bad = vec![AlterConfig::set("segment.bytes", "2000000"), AlterConfig::set("retention.ms", "a while")];
    assert_eq!(code(alter(bad).await), ErrorCode::InvalidConfig);
    assert_eq!(configs(&world, &topic).await["segment.bytes"].source, ConfigSource::Default);
    let fine = vec![AlterConfig::set("segment.bytes", "2000000")];
    only(admin.validate_configs(&[(topic.clone(), fine)]).await).expect("it could be changed");
    assert_eq!(configs(&world, &topic).await["segment.bytes"].source, ConfigSource::Default, "it is not yet");

    let nothing = ConfigResource::Topic(world.name("nothing").into());
    let described = admin.describe_configs(&[topic.clone(), nothing.clone()]).await.expect("is answered");
    assert!(described[&topic].is_ok());
    assert_eq!(code(described[&nothing].clone()), ErrorCode::UnknownTopicOrPartition);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_tells_its_own_configs() {
    let world = World::new().await;
    let node = world.admin.describe_cluster().await.expect("is answered").brokers[0].id;
    let described = configs(&world, &ConfigResource::Broker(node)).await;
    assert_eq!(described["num.partitions"].value.as_deref(), Some("1"));
    assert_eq!(described["num.partitions"].config_type, ConfigType::Int);
    let documented = only(world.admin.document_configs(&[ConfigResource::Broker(node)]).await).expect("is described");
    assert!(documented["num.partitions"].documentation.as_ref().is_some_and(|text| !text.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_looked_up_each_by_itself() {
    let world = World::new().await;
    let topic = world.topic("looked-up", 1).await;
    world.write(&topic, 0, &[1_000, 5_000, 3_000]).await;
    let here = TopicPartition::new(topic.clone(), 0);
    let look = async |spec| {
        let listed = world.admin.list_offsets(&[(here.clone(), spec)], Isolation::ReadCommitted).await;
        let listed = listed.expect("is answered")[&here];
        (listed.offset, listed.timestamp.map(|it| it.0))
    };
    assert_eq!(look(OffsetSpec::Earliest).await, (Some(0), None));
    assert_eq!(look(OffsetSpec::Latest).await, (Some(3), None));
    assert_eq!(look(OffsetSpec::Timestamp(2_000)).await, (Some(1), Some(5_000)));
    assert_eq!(look(OffsetSpec::Timestamp(5_001)).await, (None, None));
    assert_eq!(look(OffsetSpec::MaxTimestamp).await, (Some(1), Some(5_000)));

    let no_partition = TopicPartition::new(topic, 7);
    let no_topic = TopicPartition::new(world.name("nothing"), 0);
    let asked = [&here, &no_partition, &no_topic].map(|it| (it.clone(), OffsetSpec::Latest));
    let listed = world.admin.list_offsets_each(&asked, Isolation::ReadUncommitted).await.expect("is answered");
    assert_eq!(listed[&here].as_ref().map(|it| it.offset), Ok(Some(3)));
    assert!(listed[&no_partition].as_ref().is_err_and(AdminError::is_not_there), "{listed:?}");
    assert!(listed[&no_topic].as_ref().is_err_and(AdminError::is_not_there), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_groups_offsets_are_set_shown_and_forgotten() {
    let world = World::new().await;
    let admin = &world.admin;
    let topic = world.topic("committed", 3).await;
    let [group, other] = [world.group("offsets"), world.group("other")];
    let at = |partition| TopicPartition::new(topic.clone(), partition);
    let with_text = NewOffset { offset: 7, leader_epoch: 0, metadata: "by hand".to_owned() };
    let altered = admin.alter_committed_offsets(&group, &[(at(0), NewOffset::at(5)), (at(1), with_text)]).await;
    assert!(altered.expect("is answered").values().all(Result::is_ok));
    let nothing = TopicPartition::new(world.name("nothing"), 0);
    let altered = admin.alter_committed_offsets(&group, &[(nothing, NewOffset::at(5))]).await;
    assert_eq!(code(only(altered)), ErrorCode::UnknownTopicOrPartition);

    let of_groups =
        admin.committed_offsets_of_groups(&[group.clone(), other.clone()], true).await.expect("is answered");
    assert_eq!(of_groups[&other], Ok(BTreeMap::new()));
    let offsets = of_groups[&group].as_ref().expect("are told");
    let shown: Vec<_> = offsets.iter().map(|(it, at)| (it.partition, at.offset, at.metadata.as_str())).collect();
    assert_eq!(shown, [(0, 5, ""), (1, 7, "by hand")]);
    let of_two = admin.committed_offsets(&group, &[at(1), at(2)], true).await.expect("are told");
    assert_eq!(of_two.keys().map(|it| it.partition).collect::<Vec<_>>(), [1], "what was never committed is absent");

    let deleted = admin.delete_committed_offsets(&group, &[at(0), at(1)]).await.expect("is answered");
    assert!(deleted.values().all(Result::is_ok), "{deleted:?}");
    let left = admin.committed_offsets(&group, &[at(0), at(1)], true).await.expect("are told");
    assert!(left.is_empty(), "{left:?}");
    let of_nobody = admin.delete_committed_offsets(&world.group("nobody"), &[at(0)]).await;
    assert_eq!(code(only(of_nobody)), ErrorCode::GroupIdNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_listed_and_described_with_their_members() {
    let world = World::new().await;
    let admin = &world.admin;
    let topic = world.topic("grouped", 2).await;
    let [stable, empty] = [world.group("stable"), world.group("empty")];
    let member = world.member(&stable, &topic, None).await;
    let offsets = [(TopicPartition::new(topic.clone(), 0), NewOffset::at(1))];
    only(admin.alter_committed_offsets(&empty, &offsets).await).expect("is set");

    let ours = async |filter: GroupFilter| {
        let mut listed = admin.list_groups(&filter).await.expect("is answered");
        listed.retain(|it| it.group.as_str().ends_with(&world.suffix));
        listed.into_iter().map(|it| (it.group, it.state, it.group_type)).collect::<Vec<_>>()
    };
    let of_empty = (empty.clone(), GroupState::Empty, GroupType::Classic);
    let of_stable = (stable.clone(), GroupState::Stable, GroupType::Classic);
    assert_eq!(ours(GroupFilter::all()).await, [of_empty.clone(), of_stable.clone()]);
    assert_eq!(ours(GroupFilter::all().state(GroupState::Stable)).await, [of_stable]);
    let both = GroupFilter::all().state(GroupState::Empty).group_type(GroupType::Classic);
    assert_eq!(ours(both).await, [of_empty]);
    assert_eq!(ours(GroupFilter::all().group_type(GroupType::Streams)).await, []);

    let nobody = world.group("nobody");
    let described = admin.describe_groups(&[stable.clone(), empty.clone(), nobody.clone()]).await.expect("is answered");
    assert_eq!(code(described[&nobody].clone()), ErrorCode::GroupIdNotFound);
    let of_empty = described[&empty].as_ref().expect("is there");
    assert_eq!((of_empty.state, of_empty.members.len()), (GroupState::Empty, 0));
    let of_stable = described[&stable].as_ref().expect("is there");
    assert_eq!((of_stable.state, of_stable.group_type), (GroupState::Stable, GroupType::Classic));
    assert_eq!((of_stable.protocol_type.as_str(), of_stable.assignor.as_str()), ("consumer", "range"));
    let [only_member] = of_stable.members.as_slice() else { panic!("one member, not {of_stable:?}") };
    assert_eq!((only_member.client_id.as_str(), &only_member.instance_id), ("atonce-test", &None));
    assert_eq!(only_member.assignment, [0, 1].map(|partition| TopicPartition::new(topic.clone(), partition)));
    assert!(only_member.host.contains("127.0.0.1"), "{}", only_member.host);
    let nodes: Vec<i32> = admin.describe_cluster().await.expect("is answered").brokers.iter().map(|it| it.id).collect();
    assert!(nodes.contains(&of_stable.coordinator), "{} of {nodes:?}", of_stable.coordinator);

    // While it has members, it is not deleted, nor do its offsets change under it.
    let deleted = admin.delete_groups(&[stable.clone(), empty.clone(), nobody.clone()]).await.expect("is answered");
    assert_eq!(code(deleted[&stable].clone()), ErrorCode::NonEmptyGroup);
    assert_eq!(code(deleted[&nobody].clone()), ErrorCode::GroupIdNotFound);
    assert_eq!(deleted[&empty], Ok(()));
    assert_eq!(code(only(admin.alter_committed_offsets(&stable, &offsets).await)), ErrorCode::UnknownMemberId);
    let subscribed = admin.delete_committed_offsets(&stable, &[TopicPartition::new(topic.clone(), 0)]).await;
    assert_eq!(code(only(subscribed)), ErrorCode::GroupSubscribedToTopic);
    member.close().await.expect("it leaves");
    only(admin.delete_groups(std::slice::from_ref(&stable)).await).expect("it is deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_coordinator_assigns_is_described_with_its_epochs() {
    let world = World::new().await;
    let topic = world.topic("assigned", 2).await;
    let group = world.group("assigned");
    let consumer = world.client.consumer().group(group.clone()).group_protocol(GroupProtocol::Consumer);
    let mut consumer = consumer.subscribe([topic.clone()]).await.expect("it joins");
    let both = [0, 1].map(|partition| TopicPartition::new(topic.clone(), partition));
    while consumer.assignment() != both {
        consumer.next_event(Duration::from_millis(100)).await.expect("goes on");
    }
    let described = only(world.admin.describe_groups(std::slice::from_ref(&group)).await).expect("is there");
    assert_eq!((described.group_type, described.assignor.as_str()), (GroupType::Consumer, "uniform"));
    let (group_epoch, assignment_epoch) = described.epochs.expect("it has them");
    assert!(group_epoch >= 1 && assignment_epoch >= 1, "{group_epoch}, {assignment_epoch}");
    let [member] = described.members.as_slice() else { panic!("one member, not {described:?}") };
    assert_eq!(member.target.as_deref(), Some(&both[..]));
    assert_eq!(member.client_id, "atonce-test");
    let listed =
        world.admin.list_groups(&GroupFilter::all().group_type(GroupType::Consumer)).await.expect("is answered");
    assert!(listed.iter().any(|it| it.group == group), "{listed:?}");
    consumer.close_and_leave().await.expect("it leaves");
    only(world.admin.delete_groups(&[group]).await).expect("it is deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_taken_out_of_a_group() {
    let world = World::new().await;
    let admin = &world.admin;
    let topic = world.topic("left", 1).await;
    let group = world.group("left");
    let _member = world.member(&group, &topic, Some("till-1")).await;
    let [there, nobody] = ["till-1", "till-2"].map(GroupInstanceId::from);
    let removed = admin.remove_group_members(&group, &[there.clone(), nobody.clone()]).await.expect("is answered");
    assert_eq!(removed[&there], Ok(()));
    assert!(removed[&nobody].as_ref().is_err_and(AdminError::is_not_there), "{removed:?}");
    let members = async || only(admin.describe_groups(std::slice::from_ref(&group)).await).expect("is there").members;
    assert_eq!(members().await, []);

    let member = world.member(&group, &topic, None).await;
    let id = members().await[0].member_id.clone();
    let removed = admin.remove_all_group_members(&group).await.expect("is answered");
    assert_eq!(removed, PerItem::from([(id, Ok(()))]));
    assert_eq!(admin.remove_all_group_members(&world.group("empty")).await.map_err(|it| it.is_not_there()), Err(true));
    drop(member);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_below_an_offset_are_deleted() {
    let world = World::new().await;
    let topic = world.topic("shortened", 2).await;
    world.write(&topic, 0, &[1, 2, 3]).await;
    world.write(&topic, 1, &[1, 2, 3]).await;
    let at = |partition| TopicPartition::new(topic.clone(), partition);
    let nothing = TopicPartition::new(world.name("nothing"), 0);
    let before = [(at(0), 2), (at(1), -1), (nothing.clone(), 1)];
    let deleted = world.admin.delete_records(&before).await.expect("is answered");
    assert_eq!((&deleted[&at(0)], &deleted[&at(1)]), (&Ok(2), &Ok(3)), "-1 is all there is");
    assert_eq!(code(deleted[&nothing].clone()), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(code(only(world.admin.delete_records(&[(at(0), 4)]).await)), ErrorCode::OffsetOutOfRange);
    let asked = [0, 1].map(|partition| (at(partition), OffsetSpec::Earliest));
    let listed = world.admin.list_offsets(&asked, Isolation::ReadUncommitted).await.expect("is answered");
    assert_eq!((listed[&at(0)].offset, listed[&at(1)].offset), (Some(2), Some(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_listed_described_and_ended() {
    let world = World::new().await;
    let admin = &world.admin;
    let topic = world.topic("open", 2).await;
    let here = TopicPartition::new(topic.clone(), 1);
    let id = TransactionalId::from(world.name("writer"));
    let mut producer = world.client.transactional_producer(id.clone()).start().await.expect("starts");
    let describe = async || only(admin.describe_transactions(std::slice::from_ref(&id)).await).expect("is known");
    let described = describe().await;
    assert_eq!((described.state, described.started, described.partitions), (TransactionState::Empty, None, vec![]));

    let transaction = producer.begin().await.expect("begins");
    let sent = transaction.send(ProducerRecord::to(topic.clone()).partition(1).value("x")).await.expect("is taken");
    sent.await.expect("is written");
    let described = describe().await;
    assert_eq!((described.state, described.partitions), (TransactionState::Ongoing, vec![here.clone()]));
    assert!(described.started.is_some() && described.coordinator >= 0 && described.timeout > Duration::ZERO);
    let listed = async |filter: TransactionFilter| {
        let listed = admin.list_transactions(&filter).await.expect("is answered");
        listed
            .into_iter()
            .filter(|it| it.transactional_id == id)
            .map(|it| (it.producer_id, it.state))
            .collect::<Vec<_>>()
    };
    let ours = [(described.producer.id, TransactionState::Ongoing)];
    assert_eq!(listed(TransactionFilter::all()).await, ours);
    let by_both = TransactionFilter::all().state(TransactionState::Ongoing).producer_id(described.producer.id);
    assert_eq!(listed(by_both).await, ours);
    assert_eq!(listed(TransactionFilter::all().state(TransactionState::CompleteAbort)).await, []);
    let patient = TransactionFilter::all().open_for(Duration::from_secs(600));
    assert_eq!(listed(patient).await, []);
    let fitting = TransactionFilter::all().transactional_id_pattern(format!("writer-{}", world.suffix));
    assert_eq!(admin.list_transactions(&fitting).await.map(|found| found.len()), Ok(1));

    let producers = async || only(admin.describe_producers(std::slice::from_ref(&here)).await).expect("is told");
    let [of_partition] = producers().await.try_into().expect("one writes there");
    assert_eq!((of_partition.producer, of_partition.last_sequence), (described.producer, 0));
    assert_eq!(of_partition.open_since, Some(0));
    // Its coordinator knows it: it does not hang, however long it has been silent.
    let hanging = admin.find_hanging_transactions(std::slice::from_ref(&here), Duration::ZERO).await;
    assert_eq!(hanging, Ok(vec![]));

    let abort = AbortTransaction {
        topic_partition: here.clone(),
        producer: of_partition.producer,
        coordinator_epoch: of_partition.coordinator_epoch.max(0),
    };
    admin.abort_transaction(&abort).await.expect("the marker is written");
    assert_eq!(producers().await[0].open_since, None);
    let nothing = AbortTransaction { topic_partition: TopicPartition::new(world.name("nothing"), 0), ..abort };
    assert_eq!(code(admin.abort_transaction(&nothing).await), ErrorCode::UnknownTopicOrPartition);

    let nobody = TransactionalId::from(world.name("nobody"));
    let unknown = only(admin.describe_transactions(&[nobody]).await).expect_err("nobody has it");
    assert!(unknown.is_not_there(), "{unknown}");
    // What was marked as aborted stays so, whatever the coordinator says afterwards.
    let _ = transaction.commit().await;
    let mut reader =
        world.client.consumer().read_committed().assign([(here, Position::Earliest)]).await.expect("reads");
    let batch = reader.next_batch().await.expect("reads").expect("is not stopped");
    assert!(batch.is_empty(), "{batch:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_producer_cannot_commit() {
    let world = World::new().await;
    let topic = world.topic("fenced", 1).await;
    let [id, new] = [world.name("zombie"), world.name("new")].map(TransactionalId::from);
    let mut producer = world.client.transactional_producer(id.clone()).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    let sent = transaction.send(ProducerRecord::to(topic).value("x")).await.expect("is taken");
    sent.await.expect("is written");
    let before = only(world.admin.describe_transactions(std::slice::from_ref(&id)).await).expect("is known").producer;
    let fenced = world.admin.fence_producers(&[id.clone(), new.clone()]).await.expect("is answered");
    let after = fenced[&id].clone().expect("is fenced");
    assert!(after.id == before.id && after.epoch > before.epoch, "{before:?} and then {after:?}");
    assert!(fenced[&new].is_ok(), "an id that nobody has is taken too");
    assert!(transaction.commit().await.is_err());
    let state = only(world.admin.describe_transactions(&[id]).await).expect("is known").state;
    assert!(matches!(state, TransactionState::CompleteAbort | TransactionState::Empty), "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_shows_its_brokers_folders_quorum_and_features() {
    let world = World::new().await;
    let admin = &world.admin;
    let topic = world.topic("kept", 1).await;
    world.write(&topic, 0, &[1]).await;
    let cluster = admin.describe_cluster().await.expect("is answered");
    assert!(!cluster.cluster_id.is_empty() && cluster.brokers.iter().any(|it| it.id == cluster.controller));
    let features = admin.describe_features().await.expect("is answered");
    assert_eq!(features.finalized, cluster.features);
    let level = features.finalized["transaction.version"];
    assert!((1..=features.supported["transaction.version"].max).contains(&level));

    let partition = TopicPartition::new(topic, 0);
    let folders = admin.describe_log_dirs_of(std::slice::from_ref(&partition)).await.expect("is answered");
    let folders = folders.into_values().next().expect("a broker").expect("is told");
    let replica = folders.iter().find_map(|it| it.replicas.get(&partition)).expect("it is in one of them");
    assert!(replica.bytes > 0 && replica.offset_lag == 0 && !replica.is_future, "{replica:?}");
    let all = admin.describe_log_dirs(&[cluster.brokers[0].id]).await.expect("is answered");
    let all = all[&cluster.brokers[0].id].as_ref().expect("is told");
    assert!(all.iter().any(|it| it.replicas.contains_key(&partition) && it.refusal.is_none()));
    let quorum = admin.describe_quorum().await.expect("is answered");
    assert!(quorum.voters.iter().any(|it| it.node == quorum.leader), "{quorum:?}");
    let update = [FeatureUpdate::upgrade("no.such.feature", 1)];
    for refused in [admin.validate_features(&update).await, admin.update_features(&update).await] {
        assert!(refused.is_err(), "there is no such feature");
    }
    let resources = admin.list_config_resources().await.expect("is answered");
    assert!(resources.contains(&ConfigResource::Broker(cluster.brokers[0].id)), "{resources:?}");
}

#[tokio::test]
async fn what_a_broker_cannot_do_is_said_at_once() {
    let world = World::new().await;
    let asked = world.admin.list_transactions(&TransactionFilter::all().transactional_id_pattern("x")).await;
    // Whichever it is: a broker without the call does not keep the caller waiting for the call's whole time.
    assert!(matches!(asked, Ok(_) | Err(AdminError::Unsupported { operation: "ListTransactions" })), "{asked:?}");
}

/// A broker that nobody can reach holds back only its own items.
#[tokio::test]
async fn a_node_that_is_not_there_is_named_and_the_others_answer() {
    let world = World::new().await;
    let admin = world.admin.clone().call_timeout(Duration::from_millis(500));
    let node = admin.describe_cluster().await.expect("is answered").brokers[0].id;
    let [there, nobody] = [ConfigResource::Broker(node), ConfigResource::Broker(4711)];
    let described = admin.describe_configs(&[there.clone(), nobody.clone()]).await.expect("one answers");
    assert!(described[&there].is_ok());
    let error = described[&nobody].as_ref().expect_err("nobody is there");
    assert!(matches!(error, AdminError::TimedOut { may_have_taken_effect: false, .. }), "{error:?}");
    assert!(error.to_string().contains("4711"), "{error}");
    let error = admin.describe_configs(&[nobody]).await.expect_err("nothing was answered");
    assert!(error.to_string().contains("4711"), "{error}");
}
