import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a story works with: clients of one broker, names of its own, and assertions that show both values. */
final class Bench {
    static final long LIMIT_MS = 30_000;

    final String bootstrap;
    /** Whether it is a broker that others use: what holds for all of it must be left as it is. */
    final boolean shared;
    private final String prefix;

    Bench(String bootstrap, String prefix, boolean shared) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.shared = shared;
    }

    /** A name that nobody else has. */
    String name(String of) {
        return prefix + "-" + of;
    }

    String topic(String name, int partitions) throws Exception {
        return topic(name, partitions, Map.of());
    }

    String topic(String name, int partitions, Map<String, String> configs) throws Exception {
        String full = name(name);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(full, partitions, (short) 1).configs(configs))).all().get();
            // Kafka's controller answers before its broker has heard of it.
            until(full + " is known", () -> admin.listTopics().names().get().contains(full));
        }
        return full;
    }

    Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("max.block.ms", "20000");
        config.putAll(settings);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    KafkaProducer<String, String> transactional(String id) {
        KafkaProducer<String, String> producer = producer(Map.of("transactional.id", name(id)));
        producer.initTransactions();
        return producer;
    }

    KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("default.api.timeout.ms", "20000");
        config.putAll(settings);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** What is in a topic up to its end at this isolation, a partition after the other: values. */
    Map<Integer, List<String>> read(String topic, IsolationLevel isolation) {
        Map<Integer, List<String>> values = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation.toString()))) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            partitions.forEach(partition -> values.put(partition.partition(), new ArrayList<>()));
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.currentTimeMillis() + LIMIT_MS;
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                if (System.currentTimeMillis() > deadline) throw new AssertionError(topic + " cannot be read to its end: " + ends);
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    if (record.offset() < ends.get(new TopicPartition(topic, record.partition()))) values.get(record.partition()).add(record.value());
                }
            }
        }
        return values;
    }

    /**
     * What is committed in a partition: these values. A broker may answer a commit before its markers are written, so it is given time to show
     * as many.
     */
    void expectCommitted(String topic, int partition, List<String> expected) throws Exception {
        long deadline = System.currentTimeMillis() + 5_000;
        List<String> found = committed(topic, partition);
        while (found.size() < expected.size() && System.currentTimeMillis() < deadline) {
            Thread.sleep(20);
            found = committed(topic, partition);
        }
        expect("committed in " + topic + "-" + partition, expected, found);
    }

    /** The end of a partition as a reader of what is committed sees it; given time as above. */
    void expectStableEnd(String what, String topic, int partition, long expected) throws Exception {
        until(what + ": stable end is " + expected, () -> end(topic, partition, IsolationLevel.READ_COMMITTED) >= expected);
        expect(what, expected, end(topic, partition, IsolationLevel.READ_COMMITTED));
    }

    List<String> committed(String topic, int partition) {
        return read(topic, IsolationLevel.READ_COMMITTED).get(partition);
    }

    List<String> uncommitted(String topic, int partition) {
        return read(topic, IsolationLevel.READ_UNCOMMITTED).get(partition);
    }

    /** The end of a partition as a reader of this isolation sees it. */
    long end(String topic, int partition, IsolationLevel isolation) {
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation.toString()))) {
            TopicPartition of = new TopicPartition(topic, partition);
            return consumer.endOffsets(List.of(of)).get(of);
        }
    }

    static ProducerRecord<String, String> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value);
    }

    static void expect(String what, Object expected, Object found) {
        if (!Objects.equals(expected, found)) throw new AssertionError(what + ": expected " + expected + ", found " + found);
    }

    static void expectOneOf(String what, List<?> expected, Object found) {
        if (!expected.contains(found)) throw new AssertionError(what + ": expected one of " + expected + ", found " + found);
    }

    /** The class of error that an operation ends with, in its cause where a client wraps it; "none" if it succeeds. */
    static String error(Callable<?> operation) {
        try {
            Object result = operation.call();
            if (result instanceof Future<?> future) future.get();
            return "none";
        } catch (ExecutionException wrapped) {
            return wrapped.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            boolean plain = error.getClass() == KafkaException.class && error.getCause() != null;
            return (plain ? error.getCause() : error).getClass().getSimpleName();
        }
    }

    static String error(Runnable operation) {
        return error(() -> {
            operation.run();
            return null;
        });
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void until(String what, Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + LIMIT_MS;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > deadline) throw new AssertionError("after " + LIMIT_MS + " ms still not: " + what);
            Thread.sleep(20);
        }
    }

    static <T> List<T> sorted(Iterable<T> of) {
        List<T> all = new ArrayList<>();
        of.forEach(all::add);
        all.sort((a, b) -> a.toString().compareTo(b.toString()));
        return all;
    }

    static List<String> numbered(String name, int count) {
        String[] all = new String[count];
        Arrays.setAll(all, n -> name + n);
        return List.of(all);
    }
}
