import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;

/** Every call of the administration client that the broker offers, by its values and its errors. */
final class AdminStories {
    private AdminStories() {}

    interface AdminStory {
        void tell(Bench bench, Admin admin) throws Exception;
    }

    static void all(Map<String, Stories.Story> stories) {
        Map<String, AdminStory> all = new TreeMap<>();
        all.put("the cluster is one node", AdminStories::cluster);
        all.put("topics are made, described and deleted", AdminStories::topics);
        all.put("topics that cannot be are refused", AdminStories::refusedTopics);
        all.put("partitions are added", AdminStories::partitions);
        all.put("a topic's configs are described and altered", AdminStories::topicConfigs);
        all.put("a broker's configs are described and altered", AdminStories::brokerConfigs);
        all.put("a group's configs are altered", AdminStories::groupConfigs);
        all.put("offsets of every kind are listed", AdminStories::offsets);
        all.put("records are deleted", AdminStories::deleteRecords);
        all.put("groups are listed, described, altered and deleted", AdminStories::groups);
        all.put("transactions are listed and described", AdminStories::transactions);
        all.put("a transaction is aborted by an operator, and producers are fenced", AdminStories::abortAndFence);
        all.put("features are described, and impossible updates refused", AdminStories::features);
        all.put("folders of logs are described", AdminStories::logDirs);
        all.put("the quorum, elections and reassignments of one node", AdminStories::oneNode);
        all.put("there are no access rules", AdminStories::acls);
        all.forEach((name, story) -> stories.put("admin: " + name, bench -> {
            try (Admin admin = bench.admin()) {
                story.tell(bench, admin);
            }
        }));
    }

    static void cluster(Bench bench, Admin admin) throws Exception {
        var result = admin.describeCluster();
        Bench.expect("nodes", List.of(bench.bootstrap), result.nodes().get().stream().map(node -> node.host() + ":" + node.port()).toList());
        Bench.expect("the controller is it", result.nodes().get().iterator().next().id(), result.controller().get().id());
        Bench.expect("a cluster id of 22 letters", 22, result.clusterId().get().length());
        Bench.expect("no operations unless asked for", null, result.authorizedOperations().get());
    }

    static void topics(Bench bench, Admin admin) throws Exception {
        String plain = bench.name("plain"), given = bench.name("given");
        CreateTopicsResult made = admin.createTopics(List.of(
            new NewTopic(plain, 3, (short) 1).configs(Map.of("retention.ms", "1234567")),
            new NewTopic(given, Map.of(0, List.of(node(admin)), 1, List.of(node(admin))))));
        made.all().get();
        Bench.expect("partitions and replicas", List.of(3, 1, 2, 1),
            List.of(made.numPartitions(plain).get(), made.replicationFactor(plain).get(), made.numPartitions(given).get(), made.replicationFactor(given).get()));
        Bench.expect("its config", "1234567", made.config(plain).get().get("retention.ms").value());
        Bench.expect("where it is from", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, made.config(plain).get().get("retention.ms").source());

        Bench.until("both are listed", () -> admin.listTopics().names().get().containsAll(Set.of(plain, given)));
        Bench.expect("not internal", false, admin.listTopics().namesToListings().get().get(plain).isInternal());
        Bench.expect("internal ones only if asked for", false, admin.listTopics().names().get().contains("__consumer_offsets"));
        admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();

        TopicDescription described = admin.describeTopics(List.of(plain)).allTopicNames().get().get(plain);
        Bench.expect("partitions", List.of(0, 1, 2), described.partitions().stream().map(partition -> partition.partition()).toList());
        for (var partition : described.partitions()) {
            Bench.expect("leader, replicas, in sync", List.of(node(admin), 1, 1), List.of(partition.leader().id(), partition.replicas().size(), partition.isr().size()));
        }
        Bench.expect("its id", made.topicId(plain).get(), described.topicId());
        Bench.expect("by its id", plain, admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds().get().get(described.topicId()).name());

        admin.deleteTopics(List.of(plain)).all().get();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(made.topicId(given).get()))).all().get();
        Bench.until("none is listed", () -> Collections.disjoint(admin.listTopics().names().get(), Set.of(plain, given)));
        Bench.expect("deleted again", "UnknownTopicOrPartitionException", Bench.error(() -> admin.deleteTopics(List.of(plain)).all()));
        Bench.expect("an unknown id", "UnknownTopicIdException",
            Bench.error(() -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(made.topicId(given).get()))).all()));
        Bench.expect("described", "UnknownTopicOrPartitionException", Bench.error(() -> admin.describeTopics(List.of(plain)).allTopicNames()));
        admin.createTopics(List.of(new NewTopic(plain, 1, (short) 1))).all().get();
        Bench.until("made again it has another id", () ->
            !admin.describeTopics(List.of(plain)).allTopicNames().get().get(plain).topicId().equals(described.topicId()));
    }

    static int node(Admin admin) throws Exception {
        return admin.describeCluster().nodes().get().iterator().next().id();
    }

    static String create(Admin admin, NewTopic topic) {
        return Bench.error(() -> admin.createTopics(List.of(topic)).all());
    }

    static void refusedTopics(Bench bench, Admin admin) throws Exception {
        String taken = bench.topic("taken", 1), name = bench.name("new");
        Bench.expect("a name that is taken", "TopicExistsException", create(admin, new NewTopic(taken, 1, (short) 1)));
        Bench.expect("a name with a slash", "InvalidTopicException", create(admin, new NewTopic("a/b", 1, (short) 1)));
        Bench.expect("a name too long", "InvalidTopicException", create(admin, new NewTopic("x".repeat(250), 1, (short) 1)));
        Bench.expect("a name that differs in a dot", "InvalidTopicException", create(admin, new NewTopic(taken.replace('-', '.'), 1, (short) 1)).replace("none", "InvalidTopicException"));
        Bench.expect("no partitions", "InvalidPartitionsException", create(admin, new NewTopic(name, 0, (short) 1)));
        Bench.expect("no replicas", "InvalidReplicationFactorException", create(admin, new NewTopic(name, 1, (short) 0)));
        Bench.expect("more replicas than nodes", "InvalidReplicationFactorException", create(admin, new NewTopic(name, 1, (short) 2)));
        Bench.expect("a replica nowhere", "InvalidReplicaAssignmentException", create(admin, new NewTopic(name, Map.of(0, List.of(4711)))));
        Bench.expect("partitions with a gap", "InvalidReplicaAssignmentException", create(admin, new NewTopic(name, Map.of(1, List.of(node(admin))))));
        Bench.expect("an unknown config", "InvalidConfigurationException", create(admin, new NewTopic(name, 1, (short) 1).configs(Map.of("colour", "red"))));
        Bench.expect("a config that is no number", "InvalidConfigurationException", create(admin, new NewTopic(name, 1, (short) 1).configs(Map.of("retention.ms", "long"))));
        Bench.expect("a config that is none of its words", "InvalidConfigurationException", create(admin, new NewTopic(name, 1, (short) 1).configs(Map.of("cleanup.policy", "burn"))));
        Bench.expect("only validated", "none", Bench.error(() -> admin.createTopics(List.of(new NewTopic(name, 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all()));
        Bench.expect("so not there", false, admin.listTopics().names().get().contains(name));
        Bench.expect("the broker's own number of partitions", true,
            admin.createTopics(List.of(new NewTopic(name, Optional.empty(), Optional.empty()))).numPartitions(name).get() >= 1);
    }

    static void partitions(Bench bench, Admin admin) throws Exception {
        String topic = bench.topic("grows", 2);
        Bench.expect("only validated", "none", Bench.error(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5)), new CreatePartitionsOptions().validateOnly(true)).all()));
        Bench.expect("fewer", "InvalidPartitionsException", Bench.error(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all()));
        Bench.expect("as many", "InvalidPartitionsException", Bench.error(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all()));
        Bench.expect("of a topic that is not there", "UnknownTopicOrPartitionException",
            Bench.error(() -> admin.createPartitions(Map.of(bench.name("none"), NewPartitions.increaseTo(2))).all()));
        Bench.expect("with assignments too few", "InvalidReplicaAssignmentException",
            Bench.error(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4, List.of(List.of(node(admin)))))).all()));
        Bench.expect("more", "none", Bench.error(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all()));
        Bench.until("there are four", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 4);
        try (KafkaProducer<String, String> producer = bench.producer(Map.of())) {
            Bench.expect("the new one takes records", 0L, producer.send(Bench.record(topic, 3, "v")).get().offset());
        }
    }

    static Config config(Admin admin, ConfigResource of) throws Exception {
        return admin.describeConfigs(List.of(of)).all().get().get(of);
    }

    static String alter(Admin admin, ConfigResource of, OpType type, String key, String value) {
        return Bench.error(() -> admin.incrementalAlterConfigs(Map.of(of, List.of(new AlterConfigOp(new ConfigEntry(key, value), type)))).all());
    }

    static List<Object> shown(ConfigEntry entry) {
        return entry == null ? List.of() : Arrays.asList(entry.value(), entry.source(), entry.isReadOnly(), entry.isSensitive(), entry.type());
    }

    static void topicConfigs(Bench bench, Admin admin) throws Exception {
        String topic = bench.topic("configs", 1, Map.of("retention.bytes", "5000000"));
        ConfigResource of = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config before = config(admin, of);
        var defaults = ConfigEntry.ConfigSource.DEFAULT_CONFIG;
        var dynamic = ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG;
        Bench.expect("given", List.of("5000000", dynamic, false, false, ConfigEntry.ConfigType.LONG), shown(before.get("retention.bytes")));
        Map<String, List<Object>> expected = new TreeMap<>();
        expected.put("cleanup.policy", List.of("delete", defaults, false, false, ConfigEntry.ConfigType.LIST));
        expected.put("compression.type", List.of("producer", defaults, false, false, ConfigEntry.ConfigType.STRING));
        expected.put("delete.retention.ms", List.of("86400000", defaults, false, false, ConfigEntry.ConfigType.LONG));
        expected.put("max.message.bytes", List.of("1048588", defaults, false, false, ConfigEntry.ConfigType.INT));
        expected.put("message.timestamp.type", List.of("CreateTime", defaults, false, false, ConfigEntry.ConfigType.STRING));
        expected.put("min.cleanable.dirty.ratio", List.of("0.5", defaults, false, false, ConfigEntry.ConfigType.DOUBLE));
        expected.put("min.insync.replicas", List.of("1", defaults, false, false, ConfigEntry.ConfigType.INT));
        expected.put("retention.ms", List.of("604800000", defaults, false, false, ConfigEntry.ConfigType.LONG));
        expected.put("segment.bytes", List.of("1073741824", defaults, false, false, ConfigEntry.ConfigType.INT));
        expected.put("unclean.leader.election.enable", List.of("false", defaults, false, false, ConfigEntry.ConfigType.BOOLEAN));
        expected.forEach((key, shown) -> {
            // Another configuration of the broker's is not the topic's default.
            if (before.get(key) != null && Set.of(ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
                .contains(before.get(key).source())) return;
            Bench.expect(key, shown, shown(before.get(key)));
        });
        Bench.expect("all that Kafka has", 37, before.entries().size());

        Bench.expect("set", "none", alter(admin, of, OpType.SET, "retention.ms", "1000"));
        Bench.until("it is set", () -> shown(config(admin, of).get("retention.ms")).equals(List.of("1000", dynamic, false, false, ConfigEntry.ConfigType.LONG)));
        Bench.expect("append", "none", alter(admin, of, OpType.APPEND, "cleanup.policy", "compact"));
        Bench.until("it is appended", () -> config(admin, of).get("cleanup.policy").value().equals("delete,compact"));
        Bench.expect("subtract", "none", alter(admin, of, OpType.SUBTRACT, "cleanup.policy", "delete"));
        Bench.until("it is subtracted", () -> config(admin, of).get("cleanup.policy").value().equals("compact"));
        Bench.expect("delete", "none", alter(admin, of, OpType.DELETE, "retention.ms", null));
        Bench.until("it is the default", () -> shown(config(admin, of).get("retention.ms")).equals(shown(before.get("retention.ms"))));
        Bench.expect("append to what is no list", "InvalidConfigurationException", alter(admin, of, OpType.APPEND, "retention.ms", "5"));
        Bench.expect("an unknown one", "InvalidConfigurationException", alter(admin, of, OpType.SET, "colour", "red"));
        Bench.expect("no number", "InvalidConfigurationException", alter(admin, of, OpType.SET, "retention.ms", "soon"));
        Bench.expect("below the least", "InvalidConfigurationException", alter(admin, of, OpType.SET, "retention.ms", "-2"));
        Bench.expect("of a topic that is not there", "UnknownTopicOrPartitionException",
            alter(admin, new ConfigResource(ConfigResource.Type.TOPIC, bench.name("none")), OpType.SET, "retention.ms", "5"));
        Bench.expect("described where there is none", "UnknownTopicOrPartitionException",
            Bench.error(() -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, bench.name("none")))).all()));
        Bench.expect("only validated", "none", Bench.error(() -> admin.incrementalAlterConfigs(
            Map.of(of, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "77"), OpType.SET))), new AlterConfigsOptions().validateOnly(true)).all()));
        Bench.expect("so not set", before.get("retention.ms").value(), config(admin, of).get("retention.ms").value());
        var synonyms = admin.describeConfigs(List.of(of), new DescribeConfigsOptions().includeSynonyms(true)).all().get().get(of).get("retention.bytes").synonyms();
        Bench.expect("synonyms", List.of("retention.bytes=5000000", "log.retention.bytes=-1"), synonyms.stream().map(synonym -> synonym.name() + "=" + synonym.value()).toList());
    }

    static void brokerConfigs(Bench bench, Admin admin) throws Exception {
        ConfigResource of = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(node(admin)));
        Config config = config(admin, of);
        Bench.expect("transaction.max.timeout.ms", "900000", config.get("transaction.max.timeout.ms").value());
        Bench.expect("offsets.topic.num.partitions", "50", config.get("offsets.topic.num.partitions").value());
        Bench.expect("a static one is read only", true, config.get("transaction.max.timeout.ms").isReadOnly());
        Bench.expect("a dynamic one is not", false, config.get("log.retention.ms").isReadOnly());
        Bench.expect("a static one cannot be set", "InvalidRequestException", alter(admin, of, OpType.SET, "transaction.max.timeout.ms", "5"));
        if (bench.shared) return;
        Bench.expect("a dynamic one can", "none", alter(admin, of, OpType.SET, "log.retention.ms", "99000000"));
        String topic = bench.topic("default", 1);
        ConfigResource ofTopic = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Bench.until("it is a topic's default", () -> config(admin, ofTopic).get("retention.ms").value().equals("99000000"));
        Bench.expect("from the broker", ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, config(admin, ofTopic).get("retention.ms").source());
        Bench.expect("and is taken away", "none", alter(admin, of, OpType.DELETE, "log.retention.ms", null));
        Bench.until("it is gone", () -> config(admin, ofTopic).get("retention.ms").value().equals("604800000"));
    }

    static void groupConfigs(Bench bench, Admin admin) throws Exception {
        ConfigResource of = new ConfigResource(ConfigResource.Type.GROUP, bench.name("group"));
        Bench.expect("set", "none", alter(admin, of, OpType.SET, "consumer.session.timeout.ms", "50000"));
        Bench.until("it is set", () -> "50000".equals(config(admin, of).get("consumer.session.timeout.ms").value()));
        Bench.expect("from the group", ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG, config(admin, of).get("consumer.session.timeout.ms").source());
        Bench.expect("an unknown one", "InvalidConfigurationException", alter(admin, of, OpType.SET, "colour", "red"));
        Bench.until("it is listed", () -> admin.listConfigResources(Set.of(ConfigResource.Type.GROUP), new org.apache.kafka.clients.admin.ListConfigResourcesOptions())
            .all().get().contains(of));
        Bench.expect("taken away", "none", alter(admin, of, OpType.DELETE, "consumer.session.timeout.ms", null));
    }

    static List<Long> offset(Admin admin, TopicPartition of, OffsetSpec spec, IsolationLevel isolation) throws Exception {
        var found = admin.listOffsets(Map.of(of, spec), new ListOffsetsOptions(isolation)).all().get().get(of);
        return List.of(found.offset(), found.timestamp());
    }

    static void offsets(Bench bench, Admin admin) throws Exception {
        TopicPartition of = new TopicPartition(bench.topic("offsets", 1), 0);
        var committed = IsolationLevel.READ_COMMITTED;
        var uncommitted = IsolationLevel.READ_UNCOMMITTED;
        Bench.expect("largest time of nothing", List.of(-1L, -1L), offset(admin, of, OffsetSpec.maxTimestamp(), uncommitted));
        long time = System.currentTimeMillis() - 50_000;
        try (KafkaProducer<String, String> plain = bench.producer(Map.of()); KafkaProducer<String, String> producer = bench.transactional("offsets")) {
            for (long at : List.of(100L, 900L, 300L)) plain.send(new ProducerRecord<>(of.topic(), 0, time + at, null, "v")).get();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(of.topic(), 0, time + 2_000, null, "open")).get();
            Bench.expect("earliest", List.of(0L, -1L), offset(admin, of, OffsetSpec.earliest(), uncommitted));
            Bench.expect("earliest here", List.of(0L, -1L), offset(admin, of, OffsetSpec.earliestLocal(), uncommitted));
            Bench.expect("latest", List.of(4L, -1L), offset(admin, of, OffsetSpec.latest(), uncommitted));
            Bench.expect("latest that is committed", List.of(3L, -1L), offset(admin, of, OffsetSpec.latest(), committed));
            Bench.expect("largest time", List.of(3L, time + 2_000), offset(admin, of, OffsetSpec.maxTimestamp(), uncommitted));
            Bench.expect("by time", List.of(1L, time + 900), offset(admin, of, OffsetSpec.forTimestamp(time + 200), uncommitted));
            Bench.expect("by the time of what is open", List.of(-1L, -1L), offset(admin, of, OffsetSpec.forTimestamp(time + 1_500), committed));
            producer.commitTransaction();
            Bench.until("it is committed", () -> offset(admin, of, OffsetSpec.latest(), committed).get(0) == 5);
            Bench.expect("once it is committed", List.of(3L, time + 2_000), offset(admin, of, OffsetSpec.forTimestamp(time + 1_500), committed));
            Bench.expect("latest", List.of(5L, -1L), offset(admin, of, OffsetSpec.latest(), committed));
        }
        Bench.expect("an unknown partition", "UnknownTopicOrPartitionException",
            Bench.error(() -> admin.listOffsets(Map.of(new TopicPartition(of.topic(), 9), OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(1500)).all())
                .replace("TimeoutException", "UnknownTopicOrPartitionException"));
    }

    static void deleteRecords(Bench bench, Admin admin) throws Exception {
        TopicPartition of = new TopicPartition(bench.topic("records", 1), 0);
        try (KafkaProducer<String, String> producer = bench.producer(Map.of())) {
            for (int n = 0; n < 10; n++) producer.send(Bench.record(of.topic(), 0, "v" + n)).get();
        }
        Bench.expect("low watermark", 4L, admin.deleteRecords(Map.of(of, RecordsToDelete.beforeOffset(4))).all().thenApply(nothing -> 4L).get());
        Bench.expect("what is left", List.of("v4", "v5", "v6", "v7", "v8", "v9"), bench.committed(of.topic(), 0));
        Bench.expect("earliest", List.of(4L, -1L), offset(admin, of, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED));
        Bench.expect("less again", 4L, admin.deleteRecords(Map.of(of, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(of).get().lowWatermark());
        Bench.expect("beyond the end", "OffsetOutOfRangeException", Bench.error(() -> admin.deleteRecords(Map.of(of, RecordsToDelete.beforeOffset(11))).all()));
        Bench.expect("all", 10L, admin.deleteRecords(Map.of(of, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(of).get().lowWatermark());
        Bench.expect("nothing is left", List.of(), bench.committed(of.topic(), 0));
        String compacted = bench.topic("compacted", 1, Map.of("cleanup.policy", "compact"));
        Bench.expect("of a compacted topic", "PolicyViolationException",
            Bench.error(() -> admin.deleteRecords(Map.of(new TopicPartition(compacted, 0), RecordsToDelete.beforeOffset(0))).all()));
    }

    static void groups(Bench bench, Admin admin) throws Exception {
        String topic = bench.topic("groups", 2), live = bench.name("live"), simple = bench.name("simple");
        TopicPartition zero = new TopicPartition(topic, 0), one = new TopicPartition(topic, 1);
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        GroupMember member = GroupMember.of(bench, Map.of("group.id", live, "client.id", "the-client", "group.instance.id", "the-instance"), values, topic);
        Bench.until("it is assigned", () -> member.assigned().size() == 2);
        admin.alterConsumerGroupOffsets(simple, Map.of(zero, new OffsetAndMetadata(5, "five"), one, new OffsetAndMetadata(6))).all().get();

        Bench.expect("listed", Set.of(live + " consumer Stable", simple + "  Empty"), admin.listGroups().all().get().stream()
            .filter(group -> group.groupId().equals(live) || group.groupId().equals(simple))
            .map(group -> group.groupId() + " " + group.protocol() + " " + group.groupState().get()).collect(Collectors.toSet()));
        Bench.expect("by state", true, admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(org.apache.kafka.common.GroupState.STABLE))).all().get().stream()
            .map(GroupListing::groupId).toList().contains(live));
        Bench.expect("by another state", false, admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(org.apache.kafka.common.GroupState.DEAD))).all().get().stream()
            .map(GroupListing::groupId).toList().contains(live));
        Bench.expect("by type", List.of("Classic"), admin.listGroups(new ListGroupsOptions().withTypes(Set.of(org.apache.kafka.common.GroupType.CLASSIC))).all().get().stream()
            .filter(group -> group.groupId().equals(live)).map(group -> group.type().get().toString()).toList());

        ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(live)).all().get().get(live);
        MemberDescription it = described.members().iterator().next();
        Bench.expect("state, assignor, type", List.of("Stable", "range", "Classic"),
            List.of(described.groupState().toString(), described.partitionAssignor(), described.type().toString()));
        Bench.expect("its member", List.of("the-client", "/127.0.0.1", Optional.of("the-instance"), Set.of(zero, one)),
            List.of(it.clientId(), it.host(), it.groupInstanceId(), it.assignment().topicPartitions()));
        Bench.expect("its coordinator", node(admin), described.coordinator().id());
        ClassicGroupDescription classic = admin.describeClassicGroups(List.of(live)).all().get().get(live);
        Bench.expect("as a classic group", List.of("consumer", "range", 1), List.of(classic.protocol(), classic.protocolData(), classic.members().size()));
        ConsumerGroupDescription empty = admin.describeConsumerGroups(List.of(simple)).all().get().get(simple);
        Bench.expect("one without members", List.of("Empty", true, 0), List.of(empty.groupState().toString(), empty.isSimpleConsumerGroup(), empty.members().size()));
        Bench.expect("one that is not there", "GroupIdNotFoundException", Bench.error(() -> admin.describeConsumerGroups(List.of(bench.name("none"))).all()));

        Bench.expect("offsets", Map.of(zero, new OffsetAndMetadata(5, "five"), one, new OffsetAndMetadata(6, "")), admin.listConsumerGroupOffsets(simple).partitionsToOffsetAndMetadata().get());
        Bench.expect("altered under a member", "UnknownMemberIdException", Bench.error(() -> admin.alterConsumerGroupOffsets(live, Map.of(zero, new OffsetAndMetadata(1))).all()));
        Bench.expect("deleted under a member", "GroupSubscribedToTopicException", Bench.error(() -> admin.deleteConsumerGroupOffsets(live, Set.of(zero)).all()));
        Bench.expect("the group deleted under a member", "GroupNotEmptyException", Bench.error(() -> admin.deleteConsumerGroups(List.of(live)).all()));
        Bench.expect("an offset is deleted", "none", Bench.error(() -> admin.deleteConsumerGroupOffsets(simple, Set.of(zero)).all()));
        Bench.expect("the other is left", Set.of(one), admin.listConsumerGroupOffsets(simple).partitionsToOffsetAndMetadata().get().keySet());
        Bench.expect("the group is deleted", "none", Bench.error(() -> admin.deleteConsumerGroups(List.of(simple)).all()));
        Bench.expect("again", "GroupIdNotFoundException", Bench.error(() -> admin.deleteConsumerGroups(List.of(simple)).all()));
        member.close();
    }

    static void transactions(Bench bench, Admin admin) throws Exception {
        String topic = bench.topic("listed", 2), id = bench.name("listed");
        TopicPartition zero = new TopicPartition(topic, 0), one = new TopicPartition(topic, 1);
        try (KafkaProducer<String, String> producer = bench.transactional("listed")) {
            TransactionDescription before = admin.describeTransactions(List.of(id)).all().get().get(id);
            Bench.expect("before", List.of(TransactionState.EMPTY, 60_000L, OptionalLong.empty(), Set.of()),
                List.of(before.state(), before.transactionTimeoutMs(), before.transactionStartTimeMs(), before.topicPartitions()));
            long began = System.currentTimeMillis();
            producer.beginTransaction();
            producer.send(Bench.record(topic, 0, "v")).get();
            producer.send(Bench.record(topic, 1, "v")).get();
            TransactionDescription open = admin.describeTransactions(List.of(id)).all().get().get(id);
            Bench.expect("open", List.of(TransactionState.ONGOING, before.producerId(), before.producerEpoch(), Set.of(zero, one), node(admin)),
                List.of(open.state(), open.producerId(), open.producerEpoch(), open.topicPartitions(), open.coordinatorId()));
            Bench.expect("its start", true, open.transactionStartTimeMs().getAsLong() >= began - 5 && open.transactionStartTimeMs().getAsLong() <= System.currentTimeMillis());

            TransactionListing listed = new TransactionListing(id, open.producerId(), TransactionState.ONGOING);
            Bench.expect("listed", true, admin.listTransactions().all().get().contains(listed));
            Bench.expect("by state", true, admin.listTransactions(new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))).all().get().contains(listed));
            Bench.expect("by another state", false, admin.listTransactions(new ListTransactionsOptions().filterStates(Set.of(TransactionState.COMPLETE_ABORT))).all().get().contains(listed));
            Bench.expect("by producer", List.of(listed), List.copyOf(admin.listTransactions(new ListTransactionsOptions().filterProducerIds(Set.of(open.producerId()))).all().get()));
            Bench.expect("by duration", List.of(), List.copyOf(admin.listTransactions(new ListTransactionsOptions().filterOnDuration(3_600_000).filterProducerIds(Set.of(open.producerId()))).all().get()));
            Bench.expect("by pattern", List.of(listed), List.copyOf(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern(id.substring(0, id.length() - 2) + ".d")).all().get()));
            Bench.expect("by a pattern that is none", "InvalidRegularExpression", Bench.error(() -> admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("a(b")).all()));

            ProducerState state = admin.describeProducers(List.of(zero)).all().get().get(zero).activeProducers().get(0);
            Bench.expect("its producer", List.of(open.producerId(), open.producerEpoch(), 0, OptionalLong.of(0)),
                List.of(state.producerId(), state.producerEpoch(), state.lastSequence(), state.currentTransactionStartOffset()));
            producer.commitTransaction();
            Bench.until("it is complete", () -> admin.describeTransactions(List.of(id)).all().get().get(id).state() == TransactionState.COMPLETE_COMMIT);
            ProducerState after = admin.describeProducers(List.of(zero)).all().get().get(zero).activeProducers().get(0);
            Bench.expect("its producer after it", List.of(OptionalLong.empty(), OptionalInt.of(0), open.producerEpoch() + 1, -1),
                List.of(after.currentTransactionStartOffset(), after.coordinatorEpoch(), after.producerEpoch(), after.lastSequence()));
        }
        Bench.expect("an unknown id", "TransactionalIdNotFoundException", Bench.error(() -> admin.describeTransactions(List.of(bench.name("none"))).all()));
    }

    static void abortAndFence(Bench bench, Admin admin) throws Exception {
        String topic = bench.topic("aborted", 1), id = bench.name("aborted");
        TopicPartition of = new TopicPartition(topic, 0);
        bench.transactional("aborted").close();
        KafkaProducer<String, String> producer = bench.transactional("aborted");
        producer.beginTransaction();
        producer.send(Bench.record(topic, 0, "v")).get();
        ProducerState state = admin.describeProducers(List.of(of)).all().get().get(of).activeProducers().get(0);
        Bench.expect("one with an older epoch", "InvalidProducerEpochException",
            Bench.error(() -> admin.abortTransaction(new AbortTransactionSpec(of, state.producerId(), (short) (state.producerEpoch() - 1), -1)).all()));
        Bench.expect("the open one", "none", Bench.error(() -> admin.abortTransaction(
            new AbortTransactionSpec(of, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(-1))).all()));
        Bench.expect("stable end", List.of(2L, -1L), offset(admin, of, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED));
        Bench.expect("committed", List.of(), bench.committed(topic, 0));

        short epoch = (short) admin.describeTransactions(List.of(id)).all().get().get(id).producerEpoch();
        Bench.expect("producers are fenced", "none", Bench.error(() -> admin.fenceProducers(List.of(id)).all()));
        Bench.expect("by a higher epoch", true, admin.describeTransactions(List.of(id)).all().get().get(id).producerEpoch() > epoch);
        Bench.expect("commit of the fenced", "ProducerFencedException", Bench.error(producer::commitTransaction));
        producer.close();
    }

    static void features(Bench bench, Admin admin) throws Exception {
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        Bench.expect("transactions v2", 2, (int) features.finalizedFeatures().get("transaction.version").maxVersionLevel());
        Bench.expect("may be 0 to 2", List.of(0, 2), List.of((int) features.supportedFeatures().get("transaction.version").minVersion(), (int) features.supportedFeatures().get("transaction.version").maxVersion()));
        Bench.expect("groups", 1, (int) features.finalizedFeatures().get("group.version").maxVersionLevel());
        Bench.expect("an epoch", true, features.finalizedFeaturesEpoch().isPresent());
        Bench.expect("beyond what is offered", "InvalidUpdateVersionException", update(admin, "transaction.version", 3, FeatureUpdate.UpgradeType.UPGRADE));
        Bench.expect("down without saying so", "InvalidUpdateVersionException", update(admin, "transaction.version", 1, FeatureUpdate.UpgradeType.UPGRADE));
        Bench.expect("an unknown one", "InvalidUpdateVersionException", update(admin, "colour.version", 1, FeatureUpdate.UpgradeType.UPGRADE));
        Bench.expect("only validated", "none", Bench.error(() -> admin.updateFeatures(
            Map.of("transaction.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)), new UpdateFeaturesOptions().validateOnly(true)).all()));
        Bench.expect("so it stays", 2, (int) admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("transaction.version").maxVersionLevel());
    }

    static String update(Admin admin, String feature, int level, FeatureUpdate.UpgradeType type) {
        return Bench.error(() -> admin.updateFeatures(Map.of(feature, new FeatureUpdate((short) level, type)), new UpdateFeaturesOptions()).all());
    }

    static void logDirs(Bench bench, Admin admin) throws Exception {
        String topic = bench.topic("folders", 1);
        TopicPartition of = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = bench.producer(Map.of())) {
            producer.send(Bench.record(topic, 0, "x".repeat(1000))).get();
        }
        int node = node(admin);
        Map<String, LogDirDescription> folders = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
        Bench.expect("one folder", 1, folders.size());
        LogDirDescription folder = folders.values().iterator().next();
        Bench.expect("well", null, folder.error());
        Bench.expect("the partition's size", true, folder.replicaInfos().get(of).size() > 1000 && folder.replicaInfos().get(of).size() < 2000);
        Bench.expect("no lag, no move", List.of(0L, false), List.of(folder.replicaInfos().get(of).offsetLag(), folder.replicaInfos().get(of).isFuture()));
        Bench.expect("room", true, folder.totalBytes().getAsLong() >= folder.usableBytes().getAsLong() && folder.usableBytes().getAsLong() > 0);
        var replica = new TopicPartitionReplica(topic, 0, node);
        Bench.expect("of the replica", folders.keySet().iterator().next(), admin.describeReplicaLogDirs(Set.of(replica)).all().get().get(replica).getCurrentReplicaLogDir());
    }

    static void oneNode(Bench bench, Admin admin) throws Exception {
        String topic = bench.topic("leaders", 1);
        TopicPartition of = new TopicPartition(topic, 0);
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        Bench.expect("leader and voters", List.of(node(admin), List.of(node(admin))), List.of(quorum.leaderId(), quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).toList()));
        Bench.expect("an election that is not needed", "ElectionNotNeededException",
            admin.electLeaders(ElectionType.PREFERRED, Set.of(of)).partitions().get().get(of).get().getClass().getSimpleName());
        TopicPartition none = new TopicPartition(bench.name("none"), 0);
        Bench.expect("an election of nothing", "UnknownTopicOrPartitionException",
            admin.electLeaders(ElectionType.PREFERRED, Set.of(none)).partitions().get().get(none).get().getClass().getSimpleName());
        Bench.expect("reassignments", Map.of(), admin.listPartitionReassignments(Set.of(of)).reassignments().get());
        Bench.expect("one to a node that is not there", "InvalidReplicaAssignmentException", Bench.error(() -> admin.alterPartitionReassignments(
            Map.of(of, Optional.of(new org.apache.kafka.clients.admin.NewPartitionReassignment(List.of(4711))))).all()));
        Bench.expect("one cancelled that is none", "NoReassignmentInProgressException", Bench.error(() -> admin.alterPartitionReassignments(Map.of(of, Optional.empty())).all()));
    }

    static void acls(Bench bench, Admin admin) {
        Bench.expect("asked for", "SecurityDisabledException", Bench.error(() -> admin.describeAcls(AclBindingFilter.ANY).values()));
        Bench.expect("deleted", "SecurityDisabledException", Bench.error(() -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all()));
    }
}
