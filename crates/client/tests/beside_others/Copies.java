import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What the Java client has to do beside ours: `librdkafka.py` says how it is told. */
public class Copies {
    static byte[] bytesOf(String text) {
        return text.equals("-") ? null : HexFormat.of().parseHex(text);
    }

    static String textOf(byte[] data) {
        return data == null ? "-" : HexFormat.of().formatHex(data);
    }

    public static void main(String[] words) throws Exception {
        if (words[1].equals("write")) {
            write(words[0]);
        } else {
            read(words[0], List.of(words).subList(2, words.length));
        }
    }

    static void write(String address) throws Exception {
        Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
        List<Future<?>> sent = new ArrayList<>();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            var producer = producers.computeIfAbsent(parts[1], codec -> {
                var settings = new Properties();
                settings.put("bootstrap.servers", address);
                settings.put("compression.type", codec);
                settings.put("linger.ms", "20");
                settings.put("max.request.size", "2000000");
                return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            });
            var record = new ProducerRecord<>(parts[0], 0, Long.parseLong(parts[4]), bytesOf(parts[2]), bytesOf(parts[3]));
            for (String pair : parts[5].equals(".") ? new String[0] : parts[5].split(",")) {
                String[] header = pair.split("=", 2);
                record.headers().add(header[0], bytesOf(header[1]));
            }
            sent.add(producer.send(record));
        }
        for (var it : sent) {
            it.get();
        }
        producers.values().forEach(KafkaProducer::close);
    }

    static void read(String address, List<String> wanted) {
        for (String pair : wanted) {
            int at = pair.lastIndexOf('=');
            String topic = pair.substring(0, at);
            int left = Integer.parseInt(pair.substring(at + 1));
            var settings = new Properties();
            settings.put("bootstrap.servers", address);
            settings.put("isolation.level", "read_committed");
            try (var reader = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                var partition = new TopicPartition(topic, 0);
                reader.assign(List.of(partition));
                reader.seekToBeginning(List.of(partition));
                while (left > 0) {
                    for (var record : reader.poll(Duration.ofSeconds(1))) {
                        var headers = new ArrayList<String>();
                        record.headers().forEach(it -> headers.add(it.key() + "=" + textOf(it.value())));
                        System.out.println(String.join(" ", topic, textOf(record.key()), textOf(record.value()),
                            String.valueOf(record.timestamp()), headers.isEmpty() ? "." : String.join(",", headers)));
                        left--;
                    }
                }
            }
        }
    }
}
