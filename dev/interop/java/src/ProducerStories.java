import static org.apache.kafka.common.IsolationLevel.READ_COMMITTED;
import static org.apache.kafka.common.IsolationLevel.READ_UNCOMMITTED;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Idempotent and transactional producers, and readers of both isolations. */
final class ProducerStories {
    private ProducerStories() {}

    static void all(Map<String, Stories.Story> stories) {
        stories.put("idempotent records of every codec come once, in order", ProducerStories::codecs);
        stories.put("the largest record passes and a larger one is refused", ProducerStories::sizes);
        stories.put("a timestamp too far ahead is refused", ProducerStories::timestamps);
        stories.put("a topic's time of append stands in its records", ProducerStories::logAppendTime);
        for (int version : List.of(2, 1)) {
            String of = " (transactions v" + version + ")";
            stories.put("committed and aborted over several partitions" + of, bench -> at(bench, version, () -> commitAndAbort(bench)));
            stories.put("an open transaction holds back readers of what is committed" + of, bench -> at(bench, version, () -> open(bench)));
            stories.put("a zombie is fenced and leaves nothing" + of, bench -> at(bench, version, () -> zombie(bench, version)));
            stories.put("a transaction that times out is aborted, and in v2 its producer goes on" + of, bench -> at(bench, version, () -> timeOut(bench, version)));
            stories.put("offsets go with the transaction" + of, bench -> at(bench, version, () -> offsets(bench)));
            stories.put("offsets of a group that went on are refused" + of, bench -> at(bench, version, () -> staleOffsets(bench)));
            stories.put("empty transactions end" + of, bench -> at(bench, version, () -> empty(bench)));
            stories.put("hundreds of transactions in a row" + of, bench -> at(bench, version, () -> many(bench)));
        }
        stories.put("a time-out longer than the broker allows is refused", ProducerStories::longTimeOut);
    }

    interface Steps {
        void take() throws Exception;
    }

    /** Takes the steps while the broker's transaction.version is this one. */
    static void at(Bench bench, int version, Steps steps) throws Exception {
        if (version == 2) {
            steps.take();
            return;
        }
        if (bench.shared) return;
        try (Admin admin = bench.admin()) {
            set(admin, (short) version, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
            try {
                steps.take();
            } finally {
                set(admin, (short) 2, FeatureUpdate.UpgradeType.UPGRADE);
            }
        }
    }

    static void set(Admin admin, short version, FeatureUpdate.UpgradeType type) throws Exception {
        admin.updateFeatures(Map.of("transaction.version", new FeatureUpdate(version, type)), new UpdateFeaturesOptions()).all().get();
        Bench.until("transaction.version is " + version, () ->
            admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("transaction.version").maxVersionLevel() == version);
    }

    static void codecs(Bench bench) throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = bench.topic(codec, 2);
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            try (KafkaProducer<String, String> producer = bench.producer(Map.of("compression.type", codec, "linger.ms", "5"))) {
                for (int n = 0; n < 500; n++) {
                    RecordHeaders headers = new RecordHeaders();
                    headers.add("n", Integer.toString(n).getBytes());
                    sent.add(producer.send(new ProducerRecord<>(topic, n % 2, null, "key" + n, codec + n, headers)));
                }
            }
            for (int n = 0; n < 500; n++) Bench.expect(codec + ": offset of record " + n, (long) (n / 2), sent.get(n).get().offset());
            for (int partition = 0; partition < 2; partition++) {
                int of = partition;
                List<String> expected = Bench.numbered(codec, 500).stream().filter(value -> Integer.parseInt(value.substring(codec.length())) % 2 == of).toList();
                bench.expectCommitted(topic, of, expected);
            }
        }
    }

    static void sizes(Bench bench) throws Exception {
        String topic = bench.topic("sizes", 1, Map.of("max.message.bytes", "20000"));
        try (KafkaProducer<String, String> producer = bench.producer(Map.of("max.request.size", "5000000"))) {
            Bench.expect("a record below the limit", "none", Bench.error(() -> producer.send(Bench.record(topic, 0, "x".repeat(19_000)))));
            Bench.expect("a record above it", "RecordTooLargeException", Bench.error(() -> producer.send(Bench.record(topic, 0, "x".repeat(21_000)))));
            Bench.expect("one after it", "none", Bench.error(() -> producer.send(Bench.record(topic, 0, "after"))));
        }
        Bench.expect("lengths", List.of(19_000, 5), bench.committed(topic, 0).stream().map(String::length).toList());
    }

    static void timestamps(Bench bench) throws Exception {
        String topic = bench.topic("timestamps", 1);
        long now = System.currentTimeMillis();
        try (KafkaProducer<String, String> producer = bench.producer(Map.of())) {
            Bench.expect("half an hour ahead", "none", Bench.error(() -> producer.send(new ProducerRecord<>(topic, 0, now + 1_800_000, null, "near"))));
            Bench.expect("two hours ahead", "InvalidTimestampException",
                Bench.error(() -> producer.send(new ProducerRecord<>(topic, 0, now + 7_200_000, null, "far"))));
            Bench.expect("long ago", "none", Bench.error(() -> producer.send(new ProducerRecord<>(topic, 0, 1L, null, "old"))));
        }
        bench.expectCommitted(topic, 0, List.of("near", "old"));
    }

    static void logAppendTime(Bench bench) throws Exception {
        String topic = bench.topic("append-time", 1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        try (KafkaProducer<String, String> producer = bench.producer(Map.of());
             KafkaConsumer<String, String> consumer = bench.consumer(Map.of())) {
            RecordMetadata metadata = producer.send(new ProducerRecord<>(topic, 0, 5L, null, "v")).get();
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = new ArrayList<org.apache.kafka.clients.consumer.ConsumerRecord<String, String>>();
            Bench.until("it is read", () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
                return !records.isEmpty();
            });
            Bench.expect("the type", "LogAppendTime", records.get(0).timestampType().toString());
            Bench.expect("acknowledged and read time", metadata.timestamp(), records.get(0).timestamp());
            Bench.expect("it is now", true, metadata.timestamp() >= before && metadata.timestamp() <= System.currentTimeMillis());
        }
    }

    static void commitAndAbort(Bench bench) throws Exception {
        String topic = bench.topic("both", 3);
        try (KafkaProducer<String, String> producer = bench.transactional("both")) {
            for (int n = 0; n < 10; n++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 3; partition++) producer.send(Bench.record(topic, partition, (n % 3 == 1 ? "aborted" : "kept") + n));
                if (n % 3 == 1) producer.abortTransaction(); else producer.commitTransaction();
            }
        }
        for (int partition = 0; partition < 3; partition++) {
            bench.expectCommitted(topic, partition, List.of("kept0", "kept2", "kept3", "kept5", "kept6", "kept8", "kept9"));
            // What is aborted on purpose may not even have left the producer.
            List<String> all = bench.uncommitted(topic, partition);
            all.removeIf(value -> value.startsWith("aborted"));
            Bench.expect("all but the aborted", bench.committed(topic, partition), all);
        }
    }

    static void open(Bench bench) throws Exception {
        String topic = bench.topic("open", 1);
        try (KafkaProducer<String, String> first = bench.transactional("open-1"); KafkaProducer<String, String> second = bench.transactional("open-2")) {
            first.beginTransaction();
            Bench.expect("offset", 0L, first.send(Bench.record(topic, 0, "first")).get().offset());
            second.beginTransaction();
            Bench.expect("offset", 1L, second.send(Bench.record(topic, 0, "second")).get().offset());
            second.commitTransaction();
            Bench.expect("stable end while the first is open", 0L, bench.end(topic, 0, READ_COMMITTED));
            Bench.expect("end", 3L, bench.end(topic, 0, READ_UNCOMMITTED));
            bench.expectCommitted(topic, 0, List.of());
            Bench.expect("uncommitted", List.of("first", "second"), bench.uncommitted(topic, 0));
            first.send(Bench.record(topic, 0, "third")).get();
            first.abortTransaction();
            bench.expectStableEnd("after the abort", topic, 0, 5);
            bench.expectCommitted(topic, 0, List.of("second"));
            Bench.expect("uncommitted", List.of("first", "second", "third"), bench.uncommitted(topic, 0));
        }
    }

    static void zombie(Bench bench, int version) throws Exception {
        String topic = bench.topic("zombie", 2);
        for (String late : List.of("writes", "commits", "aborts")) {
            KafkaProducer<String, String> zombie = bench.transactional("zombie");
            // It has waited until the transaction before it was complete.
            long before = bench.end(topic, 0, READ_COMMITTED);
            zombie.beginTransaction();
            zombie.send(Bench.record(topic, 0, "zombie")).get();
            try (KafkaProducer<String, String> successor = bench.transactional("zombie")) {
                bench.expectStableEnd("the zombie's transaction is aborted", topic, 0, before + 2);
                successor.beginTransaction();
                successor.send(Bench.record(topic, 0, "successor")).get();
                switch (late) {
                    case "writes" -> {
                        // In v1 the partition is new to the transaction: AddPartitionsToTxn says it, and it is fatal at once.
                        String told = version == 2 ? "InvalidProducerEpochException" : "ProducerFencedException";
                        Bench.expect("a write of the zombie", told, Bench.error(() -> zombie.send(Bench.record(topic, 1, "late"))));
                        Bench.expect("a commit after that", told, Bench.error(zombie::commitTransaction));
                        Bench.expect("an abort after that", "ProducerFencedException", Bench.error(zombie::abortTransaction));
                    }
                    case "commits" -> Bench.expect("its commit", "ProducerFencedException", Bench.error(zombie::commitTransaction));
                    case "aborts" -> Bench.expect("its abort", "ProducerFencedException", Bench.error(zombie::abortTransaction));
                    default -> throw new IllegalStateException(late);
                }
                successor.commitTransaction();
            }
            Bench.expect("whatever it does next", "ProducerFencedException", Bench.error(zombie::beginTransaction));
            zombie.close(Duration.ZERO);
        }
        bench.expectCommitted(topic, 0, List.of("successor", "successor", "successor"));
        Bench.expect("the other partition", List.of(), bench.uncommitted(topic, 1));
    }

    static void timeOut(Bench bench, int version) throws Exception {
        String topic = bench.topic("late", 1);
        for (String late : List.of("writes", "commits", "aborts")) {
            try (KafkaProducer<String, String> producer = bench.producer(Map.of("transactional.id", bench.name("late"), "transaction.timeout.ms", "1000"))) {
                producer.initTransactions();
                long before = bench.end(topic, 0, READ_COMMITTED);
                producer.beginTransaction();
                producer.send(Bench.record(topic, 0, "late")).get();
                Bench.until("the broker aborts it", () -> bench.end(topic, 0, READ_COMMITTED) == before + 2);
                switch (late) {
                    case "writes" -> {
                        Bench.expect("a write", "InvalidProducerEpochException", Bench.error(() -> producer.send(Bench.record(topic, 0, "later"))));
                        Bench.expect("an abort after that", version == 2 ? "none" : "ProducerFencedException", Bench.error(producer::abortTransaction));
                        if (version == 2) goesOn(producer, topic, late);
                    }
                    case "commits" -> Bench.expect("its commit", version == 2 ? "InvalidTxnStateException" : "ProducerFencedException", Bench.error(producer::commitTransaction));
                    case "aborts" -> {
                        Bench.expect("its abort", version == 2 ? "none" : "ProducerFencedException", Bench.error(producer::abortTransaction));
                        if (version == 2) goesOn(producer, topic, late);
                    }
                    default -> throw new IllegalStateException(late);
                }
            }
        }
        bench.expectCommitted(topic, 0, version == 2 ? List.of("writes", "aborts") : List.of());
    }

    static void goesOn(KafkaProducer<String, String> producer, String topic, String value) throws Exception {
        producer.beginTransaction();
        producer.send(Bench.record(topic, 0, value)).get();
        producer.commitTransaction();
    }

    static void offsets(Bench bench) throws Exception {
        String input = bench.topic("input", 1), output = bench.topic("output", 1), group = bench.name("offsets");
        TopicPartition partition = new TopicPartition(input, 0);
        try (KafkaProducer<String, String> plain = bench.producer(Map.of())) {
            for (int n = 0; n < 10; n++) plain.send(Bench.record(input, 0, "v" + n)).get();
        }
        try (KafkaConsumer<String, String> consumer = bench.consumer(Map.of("group.id", group, "isolation.level", "read_committed"));
             KafkaProducer<String, String> producer = bench.transactional("offsets");
             Admin admin = bench.admin()) {
            consumer.subscribe(List.of(input));
            List<String> read = new ArrayList<>();
            Bench.until("all is read", () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> read.add(record.value()));
                return read.size() == 10;
            });
            Bench.expect("values", Bench.numbered("v", 10), read);
            producer.beginTransaction();
            producer.send(Bench.record(output, 0, "aborted"));
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(4)), consumer.groupMetadata());
            producer.abortTransaction();
            Bench.expect("nothing after the abort", null, consumer.committed(java.util.Set.of(partition)).get(partition));

            producer.beginTransaction();
            for (String value : read) producer.send(Bench.record(output, 0, value.toUpperCase()));
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(10, "all")), consumer.groupMetadata());
            Bench.expect("an admin who does not ask for stable offsets sees none", null,
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition));
            Bench.expect("one who asks waits", "TimeoutException", Bench.error(() -> consumer.committed(java.util.Set.of(partition), Duration.ofMillis(600))));
            producer.commitTransaction();
            Bench.expect("after the commit", new OffsetAndMetadata(10, consumer.committed(java.util.Set.of(partition)).get(partition).leaderEpoch(), "all"),
                consumer.committed(java.util.Set.of(partition)).get(partition));
        }
        bench.expectCommitted(output, 0, Bench.numbered("V", 10));
    }

    /** The constructor will go; no consumer gives out what is needed here, a state that is not its own. */
    @SuppressWarnings("removal")
    static void staleOffsets(Bench bench) throws Exception {
        String input = bench.topic("input", 1), group = bench.name("stale");
        TopicPartition partition = new TopicPartition(input, 0);
        try (KafkaConsumer<String, String> consumer = bench.consumer(Map.of("group.id", group));
             KafkaProducer<String, String> producer = bench.transactional("stale")) {
            consumer.subscribe(List.of(input));
            Bench.until("it is assigned", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().equals(java.util.Set.of(partition));
            });
            ConsumerGroupMetadata now = consumer.groupMetadata();
            for (ConsumerGroupMetadata stale : List.of(
                    new ConsumerGroupMetadata(group, now.generationId() - 1, now.memberId(), now.groupInstanceId()),
                    new ConsumerGroupMetadata(group, now.generationId(), "somebody else", now.groupInstanceId()))) {
                producer.beginTransaction();
                Bench.expect("offsets of " + stale, "CommitFailedException",
                    Bench.error(() -> producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(1)), stale)));
                producer.abortTransaction();
            }
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(3)), now);
            producer.commitTransaction();
            Bench.expect("of the member as it is", 3L, consumer.committed(java.util.Set.of(partition)).get(partition).offset());
        }
    }

    static void empty(Bench bench) throws Exception {
        String topic = bench.topic("empty", 1);
        try (KafkaProducer<String, String> producer = bench.transactional("empty")) {
            for (int n = 0; n < 3; n++) {
                producer.beginTransaction();
                producer.commitTransaction();
                producer.beginTransaction();
                producer.abortTransaction();
            }
            producer.beginTransaction();
            producer.send(Bench.record(topic, 0, "something"));
            producer.commitTransaction();
        }
        bench.expectCommitted(topic, 0, List.of("something"));
        bench.expectStableEnd("the record and one marker", topic, 0, 2);
    }

    static void many(Bench bench) throws Exception {
        String topic = bench.topic("many", 2);
        try (KafkaProducer<String, String> producer = bench.transactional("many")) {
            for (int n = 0; n < 300; n++) {
                producer.beginTransaction();
                producer.send(Bench.record(topic, 0, "v" + n));
                producer.send(Bench.record(topic, 1, "w" + n));
                producer.commitTransaction();
            }
        }
        bench.expectCommitted(topic, 0, Bench.numbered("v", 300));
        bench.expectCommitted(topic, 1, Bench.numbered("w", 300));
        bench.expectStableEnd("a marker for each", topic, 0, 600);
    }

    static void longTimeOut(Bench bench) {
        try (KafkaProducer<String, String> producer = bench.producer(Map.of("transactional.id", bench.name("long"), "transaction.timeout.ms", "900001"))) {
            Bench.expect("a quarter of an hour and a bit", "KafkaException", Bench.error(producer::initTransactions));
        }
    }
}
