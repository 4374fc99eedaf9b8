// The JVM's side of the measurements: Apache Kafka's own clients and Kafka Streams.
//
// Without arguments it reads a command a line from stdin, `VERB key=value…`, and answers each with one line of JSON; before the part of a
// command that counts it prints {"measured":"begin"}, so that whoever watches the processes knows when to look. It ends with its stdin.
//
//   topic    bootstrap= name= partitions=                     makes a topic, and waits until it is known
//   drop     bootstrap= name=                                 deletes it
//   load     bootstrap= topic= records= size= keys=           fills a topic; zipf=1: keys are drawn by Zipf's law, from a seed
//   commits  bootstrap= topic= partitions= seconds=           transactions of one record to each partition, for so long
//   produce  bootstrap= topic= size= seconds=                 records as fast as they go
//   fetch    bootstrap= topic= seconds=                       reads a topic again and again
//   start    bootstrap= app= kind= guarantee= commit_ms= input= output= state=   Kafka Streams: map, or count with its store on disk and
//                                                             no cache; answered once it runs
//   stop                                                      it commits what is open, and ends
//
// A rate is what was done in `seconds`, by the wall clock.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

public final class Peer {
    /** What was started, until it is stopped. */
    private static KafkaStreams streams;

    private final Map<String, String> arguments = new HashMap<>();

    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String answer;
            try {
                answer = new Peer(line).answer(line.split(" ")[0]);
            } catch (Exception error) {
                answer = "{\"error\":\"" + error.toString().replaceAll("[^ -~]|[\"\\\\]", " ") + "\"}";
            }
            System.out.println(answer);
        }
        // Whatever thread a client may have left must not keep this process alive.
        Runtime.getRuntime().halt(0);
    }

    private Peer(String line) {
        String[] words = line.split(" ");
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            String[] pair = word.split("=", 2);
            arguments.put(pair[0], pair[1]);
        }
    }

    private String answer(String verb) throws Exception {
        return switch (verb) {
            case "topic" -> topic();
            case "drop" -> drop();
            case "load" -> load();
            case "commits" -> commits();
            case "produce" -> produce();
            case "fetch" -> fetch();
            case "start" -> start();
            case "stop" -> stop();
            default -> throw new IllegalArgumentException("there is no " + verb);
        };
    }

    private String text(String key) {
        String value = arguments.get(key);
        if (value == null) throw new IllegalArgumentException("without " + key + "=");
        return value;
    }

    private int number(String key) {
        return Integer.parseInt(text(key));
    }

    private long nanos(String key) {
        return (long) (Double.parseDouble(text(key)) * 1e9);
    }

    private Map<String, Object> config(Object... more) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", text("bootstrap"));
        for (int i = 0; i < more.length; i += 2) config.put((String) more[i], more[i + 1]);
        return config;
    }

    private KafkaProducer<byte[], byte[]> producer(Object... more) {
        return new KafkaProducer<>(config(more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void begin() {
        System.out.println("{\"measured\":\"begin\"}");
    }

    private String topic() throws Exception {
        try (Admin admin = Admin.create(config())) {
            String name = text("name");
            admin.createTopics(List.of(new NewTopic(name, number("partitions"), (short) 1))).all().get();
            // The controller answers before the broker has heard of it.
            while (!admin.listTopics().names().get().contains(name)) Thread.sleep(20);
        }
        return "{}";
    }

    private String drop() throws Exception {
        try (Admin admin = Admin.create(config())) {
            admin.deleteTopics(List.of(text("name"))).all().get();
        }
        return "{}";
    }

    private String commits() throws Exception {
        int partitions = number("partitions");
        String topic = text("topic");
        byte[] value = new byte[100];
        List<Long> took = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", "bench-" + UUID.randomUUID(), "linger.ms", "0")) {
            producer.initTransactions();
            long warm = System.nanoTime() + nanos("seconds") / 4;
            do transaction(producer, topic, partitions, value); while (System.nanoTime() < warm);
            begin();
            long start = System.nanoTime(), end = start + nanos("seconds"), now = start;
            // Three at least: over many partitions one may take a second.
            while (now < end || took.size() < 3) {
                transaction(producer, topic, partitions, value);
                long before = now;
                now = System.nanoTime();
                took.add(now - before);
            }
            return result(took.size(), (long) took.size() * partitions, now - start, took);
        }
    }

    private static void transaction(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, byte[] value) {
        producer.beginTransaction();
        for (int partition = 0; partition < partitions; partition++) producer.send(new ProducerRecord<>(topic, partition, null, value));
        producer.commitTransaction();
    }

    private String load() throws Exception {
        long records = number("records"), start = System.nanoTime();
        int keys = number("keys");
        byte[] value = letters(number("size"));
        Random random = new Random(42);
        double[] cumulative = zipf(arguments.containsKey("zipf") ? keys : 0, Double.parseDouble(arguments.getOrDefault("zipf", "1")));
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = producer("linger.ms", "20", "batch.size", "131072")) {
            for (long i = 0; i < records; i++) {
                long number = cumulative.length == 0 ? i : drawn(cumulative, random);
                // So that the frequent ones are not side by side.
                byte[] key = digits(number * 2_654_435_761L % keys);
                producer.send(new ProducerRecord<>(text("topic"), key, value), (done, error) -> failure.compareAndSet(null, error));
            }
            producer.flush();
        }
        if (failure.get() != null) throw failure.get();
        return result(records, records, System.nanoTime() - start, List.of());
    }

    /** The running sums of 1 / rank^exponent. */
    private static double[] zipf(int keys, double exponent) {
        double[] cumulative = new double[keys];
        double sum = 0;
        for (int i = 0; i < keys; i++) cumulative[i] = sum += 1 / Math.pow(i + 1, exponent);
        return cumulative;
    }

    private static int drawn(double[] cumulative, Random random) {
        int at = Arrays.binarySearch(cumulative, random.nextDouble() * cumulative[cumulative.length - 1]);
        return at < 0 ? -at - 1 : at;
    }

    /** Eight of them; `String.format` would take longer than all the rest of the loading. */
    private static byte[] digits(long number) {
        byte[] digits = new byte[8];
        for (int i = 7; i >= 0; i--, number /= 10) digits[i] = (byte) ('0' + number % 10);
        return digits;
    }

    private String start() throws Exception {
        java.util.Properties config = new java.util.Properties();
        config.put("bootstrap.servers", text("bootstrap"));
        config.put("application.id", text("app"));
        config.put("processing.guarantee", text("guarantee").equals("exactly_once") ? "exactly_once_v2" : text("guarantee"));
        config.put("commit.interval.ms", text("commit_ms"));
        config.put("state.dir", text("state"));
        config.put("num.stream.threads", "1");
        config.put("statestore.cache.max.bytes", "0");
        config.put("replication.factor", "1");
        config.put("auto.offset.reset", "earliest");
        for (String key : arguments.keySet()) if (key.contains(".")) config.put(key, text(key));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<Bytes, byte[]> records = builder.stream(text("input"), Consumed.with(Serdes.Bytes(), Serdes.ByteArray()));
        switch (text("kind")) {
            case "map" -> records.mapValues(value -> value).to(text("output"), Produced.with(Serdes.Bytes(), Serdes.ByteArray()));
            case "count" -> records.groupByKey(Grouped.with(Serdes.Bytes(), Serdes.ByteArray()))
                .count(Materialized.<Bytes, Long, KeyValueStore<Bytes, byte[]>>as("counts").withKeySerde(Serdes.Bytes()).withValueSerde(Serdes.Long()))
                .toStream().to(text("output"), Produced.with(Serdes.Bytes(), Serdes.Long()));
            default -> throw new IllegalArgumentException("there is no topology " + text("kind"));
        }
        streams = new KafkaStreams(builder.build(), config);
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> { if (now == KafkaStreams.State.RUNNING) running.countDown(); });
        streams.start();
        running.await();
        return "{}";
    }

    private static String stop() {
        streams.close(Duration.ofSeconds(60));
        return "{}";
    }

    private String produce() throws Exception {
        byte[] value = letters(number("size"));
        String topic = text("topic");
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = producer("linger.ms", "5", "batch.size", "131072", "buffer.memory", "67108864")) {
            send(producer, topic, value, System.nanoTime() + nanos("seconds") / 4, failure);
            begin();
            long start = System.nanoTime();
            long records = send(producer, topic, value, start + nanos("seconds"), failure);
            if (failure.get() != null) throw failure.get();
            return result(records, records, System.nanoTime() - start, List.of());
        }
    }

    private static long send(KafkaProducer<byte[], byte[]> producer, String topic, byte[] value, long end, AtomicReference<Exception> failure) {
        long records = 0;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 100; i++) producer.send(new ProducerRecord<>(topic, value), (done, error) -> failure.compareAndSet(null, error));
            records += 100;
        }
        producer.flush();
        return records;
    }

    private String fetch() {
        Map<String, Object> config = config("isolation.level", "read_committed", "max.poll.records", "20000",
            "max.partition.fetch.bytes", "4194304", "fetch.max.bytes", "16777216");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(text("topic")).forEach(of -> partitions.add(new TopicPartition(of.topic(), of.partition())));
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.seekToBeginning(partitions);
            read(consumer, ends, System.nanoTime() + nanos("seconds") / 4);
            begin();
            long start = System.nanoTime();
            long records = read(consumer, ends, start + nanos("seconds"));
            return result(records, records, System.nanoTime() - start, List.of());
        }
    }

    /** Each partition begins anew once it was read to its end. */
    private static long read(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends, long end) {
        long records = 0;
        while (System.nanoTime() < end) {
            records += consumer.poll(Duration.ofMillis(100)).count();
            List<TopicPartition> over = ends.keySet().stream().filter(of -> consumer.position(of) >= ends.get(of)).toList();
            if (!over.isEmpty()) consumer.seekToBeginning(over);
        }
        return records;
    }

    /** Letters drawn once: nothing compresses here, but a sparse file might. */
    private static byte[] letters(int size) {
        Random random = new Random(42);
        byte[] letters = new byte[size];
        for (int i = 0; i < size; i++) letters[i] = (byte) ('a' + random.nextInt(26));
        return letters;
    }

    private static String result(long operations, long records, long nanos, List<Long> took) {
        long[] sorted = took.stream().mapToLong(Long::longValue).sorted().toArray();
        String percentiles = sorted.length == 0 ? "" : String.format(",\"p50_ms\":%.3f,\"p99_ms\":%.3f", at(sorted, 0.5), at(sorted, 0.99));
        return String.format("{\"operations\":%d,\"records\":%d,\"seconds\":%.6f%s}", operations, records, nanos / 1e9, percentiles);
    }

    /** Milliseconds that this share of all took at most. */
    private static double at(long[] sorted, double share) {
        return sorted[Math.min(sorted.length - 1, (int) Math.ceil(share * sorted.length) - 1)] / 1e6;
    }
}
