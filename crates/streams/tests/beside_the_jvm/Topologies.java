import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueStore;

/** The topologies of the test, on the JVM: bootstrap servers, application id, kind, input, output. Runs until its standard input ends. */
public class Topologies {
    private static String lastOf(String text) {
        return text.substring(Math.max(0, text.length() - 40));
    }

    public static void main(String[] arguments) throws Exception {
        var builder = new StreamsBuilder();
        var text = Serdes.String();
        String input = arguments[3], output = arguments[4];
        switch (arguments[2]) {
            case "count" -> builder.stream(input, Consumed.with(text, text))
                .filter((key, line) -> !line.startsWith("#"))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(text, text))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withKeySerde(text).withValueSerde(Serdes.Long()))
                .filter((word, count) -> count % 3 != 1)
                .toStream()
                .to(output, Produced.with(text, Serdes.Long()));
            case "table" -> builder.table(input, Consumed.with(text, text), Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("lines").withKeySerde(text).withValueSerde(text))
                .filter((key, line) -> line.length() > 12)
                .mapValues(line -> line.toUpperCase())
                .toStream()
                .to(output, Produced.with(text, text));
            case "reduce" -> {
                KStream<String, String> lines = builder.stream(input, Consumed.with(text, text));
                lines.repartition(Repartitioned.<String, String>as("again").withKeySerde(text).withValueSerde(text))
                    .groupByKey(Grouped.with(text, text))
                    .reduce((before, line) -> lastOf(before + "/" + line),
                        Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("reduced").withKeySerde(text).withValueSerde(text))
                    .toStream()
                    .to(output, Produced.with(text, text));
            }
            default -> throw new IllegalArgumentException(arguments[2]);
        }
        var properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 3_600_000);
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
        try (var streams = new KafkaStreams(builder.build(), properties)) {
            streams.start();
            while (System.in.read() >= 0) { }
            streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        }
    }
}
