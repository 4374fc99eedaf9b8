import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A consumer on a thread of its own that commits what it has read before it polls again. */
final class GroupMember {
    private final KafkaConsumer<String, String> consumer;
    private final List<String> values;
    private final Thread thread;
    private volatile boolean ends;
    private volatile CloseOptions.GroupMembershipOperation leaving = GroupMembershipOperation.DEFAULT;
    private volatile Set<String> assigned = Set.of();
    private volatile int revocations;
    volatile Throwable died;
    volatile ConsumerGroupMetadata metadata;

    /** What is read is added to `values`, which the members of a group share. */
    GroupMember(Bench bench, Map<String, Object> settings, BiConsumer<KafkaConsumer<String, String>, ConsumerRebalanceListener> subscribe, List<String> values) {
        this.consumer = bench.consumer(settings);
        this.values = values;
        this.thread = new Thread(() -> run(subscribe));
        thread.start();
    }

    static GroupMember of(Bench bench, Map<String, Object> settings, List<String> values, String... topics) {
        return new GroupMember(bench, settings, (consumer, listener) -> consumer.subscribe(List.of(topics), listener), values);
    }

    private ConsumerRebalanceListener listener() {
        return new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                if (!partitions.isEmpty()) revocations++;
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
        };
    }

    private void run(BiConsumer<KafkaConsumer<String, String>, ConsumerRebalanceListener> subscribe) {
        try {
            subscribe.accept(consumer, listener());
            while (!ends) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(50));
                assigned = new TreeSet<>(consumer.assignment().stream().map(TopicPartition::toString).toList());
                metadata = consumer.groupMetadata();
                if (records.isEmpty()) continue;
                consumer.commitSync();
                synchronized (values) {
                    for (ConsumerRecord<String, String> record : records) values.add(record.value());
                }
            }
        } catch (Throwable error) {
            died = error;
        }
        assigned = Set.of();
        consumer.close(CloseOptions.timeout(Duration.ofSeconds(5)).withGroupMembershipOperation(leaving));
    }

    Set<String> assigned() {
        return assigned;
    }

    int revocations() {
        return revocations;
    }

    /** Leaves the group, as its kind of member does. */
    void close() throws InterruptedException {
        ends = true;
        thread.join();
    }

    /** Says nothing to the group: as if it were killed. */
    void vanish() throws InterruptedException {
        leaving = GroupMembershipOperation.REMAIN_IN_GROUP;
        close();
    }

    static Set<String> all(Collection<GroupMember> members) {
        List<String> all = new ArrayList<>();
        members.forEach(member -> all.addAll(member.assigned()));
        Set<String> once = new TreeSet<>(all);
        return once.size() == all.size() ? once : Set.of("assigned twice", all.toString());
    }
}
