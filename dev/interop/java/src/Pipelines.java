// Kafka Streams pipelines whose whole output is known, and what is needed to feed and to read them.
//
//   Pipelines create BOOTSTRAP TOPIC=PARTITIONS…             makes the topics
//   Pipelines load BOOTSTRAP TRANSACTIONAL_ID                stdin: topic, partition or "", timestamp, key, value, tab between; writes them
//                                                            in transactions: an empty line commits, a line "abort" aborts; "ok" is printed.
//                                                            The id "-" writes without transactions
//   Pipelines run BOOTSTRAP APPLICATION STATE_DIR [KEY=VALUE…]   runs the pipelines until SIGTERM; prints each state
//   Pipelines read BOOTSTRAP ISOLATION SECONDS TOPIC[=COUNT]…    prints topic, partition, offset, timestamp, key, value of all that is there once
//                                                            each topic has COUNT records, or SECONDS have passed
//
// The topics of an application begin with its name:
//   lines -> counts                 words counted over a repartition topic: each update is a record
//   events -> sums, finals          sums in windows of ten seconds: each update, and the last one of each closed window
//   orders, customers -> enriched   a stream joined to a table
//   left, right -> pairs            two streams joined within three seconds

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

public final class Pipelines {
    static final Duration SUM_WINDOW = Duration.ofSeconds(10);
    static final Duration JOIN_WINDOW = Duration.ofSeconds(3);

    public static void main(String[] arguments) throws Exception {
        List<String> rest = Arrays.asList(arguments).subList(2, arguments.length);
        switch (arguments[0]) {
            case "create" -> create(arguments[1], rest);
            case "load" -> load(arguments[1], rest.get(0));
            case "run" -> run(arguments[1], rest);
            case "read" -> read(arguments[1], rest);
            default -> throw new IllegalArgumentException("create, load, run or read, not " + arguments[0]);
        }
    }

    static void create(String bootstrap, List<String> topics) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            List<NewTopic> wanted = new ArrayList<>();
            for (String topic : topics) {
                String[] nameAndPartitions = topic.split("=");
                wanted.add(new NewTopic(nameAndPartitions[0], Integer.parseInt(nameAndPartitions[1]), (short) -1));
            }
            admin.createTopics(wanted).all().get();
        }
    }

    static void load(String bootstrap, String transactionalId) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        boolean transactional = !transactionalId.equals("-");
        if (transactional) config.put("transactional.id", transactionalId);
        config.put("delivery.timeout.ms", "120000");
        config.put("max.block.ms", "10000");
        // What belongs to a transaction goes together: its end sends it at once.
        config.put("linger.ms", "500");
        config.put("reconnect.backoff.max.ms", "200");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            if (transactional) untilInTime(producer::initTransactions);
            boolean open = false;
            for (String line; (line = lines.readLine()) != null; ) {
                if (line.isEmpty() || line.equals("abort")) {
                    // What was not sent yet when a transaction is aborted is never sent: it would spoil nothing.
                    if (open || !transactional) producer.flush();
                    if (transactional) untilInTime(line.isEmpty() ? producer::commitTransaction : producer::abortTransaction);
                    open = false;
                    System.out.println("ok");
                    continue;
                }
                if (!open && transactional) {
                    producer.beginTransaction();
                    open = true;
                }
                String[] field = line.split("\t", -1);
                Integer partition = field[1].isEmpty() ? null : Integer.valueOf(field[1]);
                producer.send(new ProducerRecord<>(field[0], partition, Long.valueOf(field[2]), field[3], field[4]));
            }
        }
    }

    /** What timed out may be called again: it goes on with the same operation. */
    static void untilInTime(Runnable operation) {
        for (int attempt = 0; ; attempt++) {
            try {
                operation.run();
                return;
            } catch (TimeoutException late) {
                if (attempt == 10) throw late;
            }
        }
    }

    static void run(String bootstrap, List<String> rest) throws Exception {
        String application = rest.get(0);
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.STATE_DIR_CONFIG, rest.get(1));
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "300");
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        // Without a cache every update is a record, and the sequence of them can be compared.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        config.put("auto.offset.reset", "earliest");
        config.put("session.timeout.ms", "3000");
        config.put("heartbeat.interval.ms", "500");
        config.put("transaction.timeout.ms", "8000");
        config.put("reconnect.backoff.max.ms", "200");
        for (String setting : rest.subList(2, rest.size())) {
            String[] keyAndValue = setting.split("=", 2);
            config.put(keyAndValue[0], keyAndValue[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, application);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("died " + error);
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean inTime = streams.close(Duration.ofSeconds(30));
            System.out.println(inTime ? "closed" : "not closed in time");
            closed.countDown();
        }));
        streams.start();
        closed.await();
    }

    static void build(StreamsBuilder builder, String application) {
        builder.<String, String>stream(application + "-lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .to(application + "-counts", Produced.with(Serdes.String(), decimal()));

        KTable<Windowed<String>, Long> sums = builder.<String, String>stream(application + "-events")
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(SUM_WINDOW, Duration.ofSeconds(1)))
            .aggregate(() -> 0L, (key, value, sum) -> sum + Long.parseLong(value), Materialized.with(Serdes.String(), Serdes.Long()));
        named(sums.toStream()).to(application + "-sums", Produced.with(Serdes.String(), decimal()));
        named(sums.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream())
            .to(application + "-finals", Produced.with(Serdes.String(), decimal()));

        KTable<String, String> customers = builder.table(application + "-customers");
        builder.<String, String>stream(application + "-orders")
            .join(customers, (order, customer) -> order + "|" + customer)
            .to(application + "-enriched");

        KStream<String, String> left = builder.stream(application + "-left");
        left.join(builder.stream(application + "-right"), (l, r) -> l + "|" + r,
                JoinWindows.ofTimeDifferenceAndGrace(JOIN_WINDOW, Duration.ofMinutes(10)),
                StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()))
            .to(application + "-pairs");
    }

    static KStream<String, Long> named(KStream<Windowed<String>, Long> windows) {
        return windows.selectKey((window, sum) -> window.key() + "@" + window.window().start());
    }

    /** Numbers as decimal text: the reader needs no type. */
    static Serde<Long> decimal() {
        return Serdes.serdeFrom((topic, number) -> number == null ? null : Long.toString(number).getBytes(),
            (topic, bytes) -> bytes == null ? null : Long.valueOf(new String(bytes)));
    }

    static void print(ConsumerRecord<String, String> record, StringBuilder printed) {
        printed.append(record.topic()).append('\t').append(record.partition()).append('\t').append(record.offset()).append('\t')
            .append(record.timestamp()).append('\t').append(record.key()).append('\t').append(record.value()).append('\n');
    }

    static void read(String bootstrap, List<String> rest) {
        Map<String, Long> missing = new HashMap<>();
        for (String topic : rest.subList(2, rest.size())) {
            String[] nameAndCount = topic.split("=");
            missing.put(nameAndCount[0], nameAndCount.length > 1 ? Long.parseLong(nameAndCount[1]) : 0L);
        }
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("isolation.level", rest.get(0));
        config.put("auto.offset.reset", "earliest");
        config.put("reconnect.backoff.max.ms", "200");
        StringBuilder printed = new StringBuilder();
        long deadline = System.nanoTime() + Long.parseLong(rest.get(1)) * 1_000_000_000L;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (String topic : missing.keySet()) {
                consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            boolean all = false;
            while (!all) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    missing.merge(record.topic(), -1L, Long::sum);
                    print(record, printed);
                }
                all = System.nanoTime() > deadline || missing.values().stream().allMatch(count -> count <= 0);
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    print(record, printed);
                }
            }
        }
        System.out.print(printed);
    }
}
