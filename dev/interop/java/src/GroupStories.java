import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Groups: the classic protocol (eager, cooperative, static), the one whose coordinator assigns, and offsets. */
final class GroupStories {
    private GroupStories() {}

    static final int PARTITIONS = 6;

    static void all(Map<String, Stories.Story> stories) {
        Map<String, Map<String, Object>> kinds = new LinkedHashMap<>();
        kinds.put("eager", Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor"));
        kinds.put("round robin", Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor"));
        kinds.put("cooperative", Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        kinds.replaceAll((kind, settings) -> with(settings, "session.timeout.ms", "2000", "heartbeat.interval.ms", "200"));
        kinds.put("consumer, uniform", Map.of("group.protocol", "consumer", "group.remote.assignor", "uniform"));
        kinds.put("consumer, range", Map.of("group.protocol", "consumer", "group.remote.assignor", "range"));
        kinds.forEach((kind, settings) -> {
            stories.put("members come, go, and vanish, and each record is read once (" + kind + ")", bench -> comeAndGo(bench, settings));
            stories.put("a static member comes back to its partitions (" + kind + ")", bench -> staticMember(bench, settings));
            stories.put("a pattern takes in topics made later (" + kind + ")", bench -> pattern(bench, settings));
        });
        stories.put("a cooperative member keeps what it need not give", bench -> cooperativeKeeps(bench, kinds.get("cooperative")));
        stories.put("a member that does not poll loses its partitions and its commit", bench -> slowMember(bench, kinds.get("eager")));
        stories.put("an operator removes a static member", bench -> removeStatic(bench, kinds.get("eager")));
        stories.put("a regular expression that is none is refused (consumer)", bench -> badPattern(bench, kinds.get("consumer, uniform")));
        stories.put("a group moves from the classic protocol to the other and back with its offsets", bench -> migrate(bench, kinds));
        stories.put("offsets are committed and read back", GroupStories::offsets);
        stories.put("positions by time, beginning and end", GroupStories::positions);
        stories.put("without an offset and without a rule there is an error", GroupStories::noReset);
    }

    static Map<String, Object> with(Map<String, Object> settings, String... more) {
        Map<String, Object> all = new HashMap<>(settings);
        for (int n = 0; n < more.length; n += 2) all.put(more[n], more[n + 1]);
        return all;
    }

    static boolean isConsumer(Map<String, Object> settings) {
        return settings.containsKey("group.protocol");
    }

    /** A session that ends soon. The time-outs of this protocol are the broker's: one that others use keeps its own. */
    static boolean canVanish(Bench bench, Map<String, Object> settings) {
        return !isConsumer(settings) || !bench.shared;
    }

    static List<String> partitions(String topic) {
        return Bench.numbered(topic + "-", PARTITIONS);
    }

    static void write(Bench bench, String topic, String name) throws Exception {
        try (KafkaProducer<String, String> producer = bench.producer(Map.of())) {
            for (int n = 0; n < PARTITIONS * 5; n++) producer.send(Bench.record(topic, n % PARTITIONS, name + n)).get();
        }
    }

    static void untilRead(List<String> values, String name) throws Exception {
        Bench.until("all of " + name + " is read", () -> {
            synchronized (values) {
                return new TreeSet<>(values).containsAll(Bench.numbered(name, PARTITIONS * 5));
            }
        });
    }

    static void untilShared(String what, List<GroupMember> members, String topic, int... sizes) throws Exception {
        List<Integer> wanted = new ArrayList<>();
        for (int size : sizes) wanted.add(size);
        try {
            Bench.until(what, () -> GroupMember.all(members).equals(new TreeSet<>(partitions(topic)))
                && members.stream().map(member -> member.assigned().size()).sorted().toList().equals(wanted));
        } catch (AssertionError late) {
            throw new AssertionError(late.getMessage() + ": " + members.stream().map(member -> member.assigned() + (member.died == null ? "" : " " + member.died)).toList());
        }
    }

    static void comeAndGo(Bench bench, Map<String, Object> settings) throws Exception {
        String topic = bench.topic("shared", PARTITIONS);
        Map<String, Object> of = with(settings, "group.id", bench.name("group"));
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        GroupMember first = GroupMember.of(bench, of, values, topic);
        untilShared("the first has all", List.of(first), topic, 6);
        write(bench, topic, "one-");
        untilRead(values, "one-");
        GroupMember second = GroupMember.of(bench, of, values, topic);
        untilShared("two share", List.of(first, second), topic, 3, 3);
        write(bench, topic, "two-");
        GroupMember third = GroupMember.of(bench, of, values, topic);
        untilShared("three share", List.of(first, second, third), topic, 2, 2, 2);
        write(bench, topic, "three-");
        untilRead(values, "two-");
        untilRead(values, "three-");
        second.close();
        untilShared("two share again", List.of(first, third), topic, 3, 3);
        write(bench, topic, "four-");
        untilRead(values, "four-");
        if (canVanish(bench, settings)) {
            first.vanish();
            untilShared("the last has all", List.of(third), topic, 6);
        }
        write(bench, topic, "five-");
        untilRead(values, "five-");
        first.close();
        third.close();
        for (String name : List.of("one-", "two-", "three-", "four-", "five-")) {
            Bench.expect("values of " + name, Bench.sorted(Bench.numbered(name, PARTITIONS * 5)),
                Bench.sorted(values.stream().filter(value -> value.startsWith(name)).toList()));
        }
        Bench.expect("number of values", PARTITIONS * 5 * 5, values.size());
    }

    static void staticMember(Bench bench, Map<String, Object> settings) throws Exception {
        String topic = bench.topic("static", PARTITIONS);
        Map<String, Object> of = with(settings, "group.id", bench.name("group"));
        if (!isConsumer(settings)) of.put("session.timeout.ms", "6000");
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        GroupMember stays = GroupMember.of(bench, with(of, "group.instance.id", "a"), values, topic);
        GroupMember goes = GroupMember.of(bench, with(of, "group.instance.id", "b"), values, topic);
        untilShared("two share", List.of(stays, goes), topic, 3, 3);
        Set<String> kept = stays.assigned(), left = goes.assigned();
        int revocations = stays.revocations(), generation = stays.metadata.generationId();
        goes.close();
        GroupMember back = GroupMember.of(bench, with(of, "group.instance.id", "b"), values, topic);
        Bench.until("it is back at its partitions", () -> back.assigned().equals(left));
        write(bench, topic, "one-");
        untilRead(values, "one-");
        Bench.expect("the other was not disturbed", List.of(revocations, generation, kept), List.of(stays.revocations(), stays.metadata.generationId(), stays.assigned()));
        // Of two with the same instance id the classic protocol keeps the later, the other one the earlier.
        GroupMember twin = GroupMember.of(bench, with(of, "group.instance.id", "b"), values, topic);
        GroupMember loser = isConsumer(settings) ? twin : back, winner = isConsumer(settings) ? back : twin;
        Bench.until("one of the two is refused", () -> loser.died != null);
        Bench.expect("the error", isConsumer(settings) ? "UnreleasedInstanceIdException" : "FencedInstanceIdException", loser.died.getClass().getSimpleName());
        Bench.until("the other has the partitions", () -> winner.assigned().equals(left));
        write(bench, topic, "two-");
        untilRead(values, "two-");
        for (GroupMember member : List.of(stays, back, twin)) member.close();
        Bench.expect("each record once", Bench.sorted(Bench.numbered("two-", PARTITIONS * 5)), Bench.sorted(values.stream().filter(value -> value.startsWith("two-")).toList()));
    }

    static void pattern(Bench bench, Map<String, Object> settings) throws Exception {
        Map<String, Object> of = with(settings, "group.id", bench.name("group"), "metadata.max.age.ms", "300");
        String early = bench.topic("pattern-early", 1), other = bench.topic("other", 1), regex = bench.name("pattern-.*");
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        GroupMember member = new GroupMember(bench, of, (consumer, listener) -> {
            if (isConsumer(settings)) consumer.subscribe(new SubscriptionPattern(regex), listener);
            else consumer.subscribe(Pattern.compile(regex), listener);
        }, values);
        Bench.until("the first topic is assigned", () -> member.assigned().equals(Set.of(early + "-0")));
        String late = bench.topic("pattern-late", 1);
        try (KafkaProducer<String, String> producer = bench.producer(Map.of())) {
            for (String topic : List.of(early, other, late)) producer.send(Bench.record(topic, 0, topic)).get();
        }
        Bench.until("the later one too", () -> member.assigned().equals(Set.of(early + "-0", late + "-0")));
        Bench.until("both are read", () -> values.size() >= 2);
        member.close();
        Bench.expect("values", List.of(early, late), Bench.sorted(values));
    }

    static void cooperativeKeeps(Bench bench, Map<String, Object> settings) throws Exception {
        String topic = bench.topic("kept", PARTITIONS);
        Map<String, Object> of = with(settings, "group.id", bench.name("group"));
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        GroupMember first = GroupMember.of(bench, of, values, topic);
        untilShared("the first has all", List.of(first), topic, 6);
        Set<String> before = first.assigned();
        GroupMember second = GroupMember.of(bench, of, values, topic);
        untilShared("two share", List.of(first, second), topic, 3, 3);
        Bench.expect("it keeps of its own", true, before.containsAll(first.assigned()));
        Bench.expect("one revocation", 1, first.revocations());
        second.close();
        untilShared("the first has all again", List.of(first), topic, 6);
        Bench.expect("no other revocation", 1, first.revocations());
        first.close();
    }

    static void slowMember(Bench bench, Map<String, Object> settings) throws Exception {
        String topic = bench.topic("slow", 1);
        Map<String, Object> of = with(settings, "group.id", bench.name("group"), "max.poll.interval.ms", "1000");
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        try (KafkaConsumer<String, String> slow = bench.consumer(of)) {
            slow.subscribe(List.of(topic));
            Bench.until("it is assigned", () -> {
                slow.poll(Duration.ofMillis(50));
                return !slow.assignment().isEmpty();
            });
            GroupMember other = GroupMember.of(bench, of, values, topic);
            Bench.until("another takes over", () -> other.assigned().equals(Set.of(topic + "-0")));
            Bench.expect("its commit", "CommitFailedException", Bench.error(() -> slow.commitSync(Map.of(partition, new OffsetAndMetadata(1)))));
            other.close();
        }
    }

    static void removeStatic(Bench bench, Map<String, Object> settings) throws Exception {
        String topic = bench.topic("removed", PARTITIONS), group = bench.name("group");
        Map<String, Object> of = with(settings, "group.id", group, "session.timeout.ms", "30000");
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        GroupMember stays = GroupMember.of(bench, with(of, "group.instance.id", "stays"), values, topic);
        GroupMember goes = GroupMember.of(bench, with(of, "group.instance.id", "goes"), values, topic);
        untilShared("two share", List.of(stays, goes), topic, 3, 3);
        goes.close();
        try (Admin admin = bench.admin()) {
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("goes")))).all().get();
            untilShared("the other has all", List.of(stays), topic, 6);
            Bench.expect("one that is not there", "UnknownMemberIdException", Bench.error(() -> admin.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")))).memberResult(new MemberToRemove("nobody"))));
        }
        stays.close();
    }

    static void badPattern(Bench bench, Map<String, Object> settings) throws Exception {
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        GroupMember member = new GroupMember(bench, with(settings, "group.id", bench.name("group")),
            (consumer, listener) -> consumer.subscribe(new SubscriptionPattern("a(b"), listener), values);
        Bench.until("it is refused", () -> member.died != null);
        Bench.expect("the error", "InvalidRegularExpression", member.died.getClass().getSimpleName());
        member.close();
    }

    static void migrate(Bench bench, Map<String, Map<String, Object>> kinds) throws Exception {
        String topic = bench.topic("moved", PARTITIONS), group = bench.name("group");
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        int round = 0;
        for (String kind : List.of("eager", "consumer, uniform", "cooperative")) {
            GroupMember member = GroupMember.of(bench, with(kinds.get(kind), "group.id", group), values, topic);
            untilShared("all is assigned to " + kind, List.of(member), topic, 6);
            write(bench, topic, "round" + round + "-");
            untilRead(values, "round" + round + "-");
            member.close();
            round++;
        }
        Bench.expect("each record once", PARTITIONS * 5 * 3, values.size());
    }

    static void offsets(Bench bench) throws Exception {
        String topic = bench.topic("offsets", 2);
        TopicPartition zero = new TopicPartition(topic, 0), one = new TopicPartition(topic, 1);
        try (KafkaConsumer<String, String> consumer = bench.consumer(Map.of("group.id", bench.name("group")))) {
            consumer.assign(List.of(zero, one));
            Bench.expect("before", null, consumer.committed(Set.of(zero, one)).get(zero));
            consumer.commitSync(Map.of(zero, new OffsetAndMetadata(7, "seven"), one, new OffsetAndMetadata(0)));
            Bench.expect("zero", new OffsetAndMetadata(7, "seven"), consumer.committed(Set.of(zero, one)).get(zero));
            Bench.expect("one", new OffsetAndMetadata(0, ""), consumer.committed(Set.of(zero, one)).get(one));
            consumer.commitSync(Map.of(zero, new OffsetAndMetadata(3)));
            Bench.expect("back", new OffsetAndMetadata(3, ""), consumer.committed(Set.of(zero)).get(zero));
            Bench.expect("metadata too long", "OffsetMetadataTooLarge", Bench.error(() -> consumer.commitSync(Map.of(zero, new OffsetAndMetadata(4, "x".repeat(4097))))));
            Bench.expect("as long as allowed", "none", Bench.error(() -> consumer.commitSync(Map.of(zero, new OffsetAndMetadata(4, "x".repeat(4096))))));
            Bench.expect("the position is what is committed", 4L, consumer.position(zero));
        }
    }

    static void positions(Bench bench) throws Exception {
        String topic = bench.topic("positions", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        long start = System.currentTimeMillis() - 100_000;
        try (KafkaProducer<String, String> producer = bench.producer(Map.of()); KafkaConsumer<String, String> consumer = bench.consumer(Map.of())) {
            for (int n = 0; n < 50; n++) producer.send(new ProducerRecord<>(topic, 0, start + n * 100, null, "v" + n)).get();
            consumer.assign(List.of(partition));
            Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(Map.of(partition, start + 1_050));
            Bench.expect("the first at or after that time", List.of(11L, start + 1_100), List.of(found.get(partition).offset(), found.get(partition).timestamp()));
            Bench.expect("after all", null, consumer.offsetsForTimes(Map.of(partition, start + 1_000_000)).get(partition));
            Bench.expect("beginning and end", List.of(0L, 50L), List.of(consumer.beginningOffsets(List.of(partition)).get(partition), consumer.endOffsets(List.of(partition)).get(partition)));
            consumer.seek(partition, 48);
            List<String> read = new ArrayList<>();
            Bench.until("two are read", () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> read.add(record.value()));
                return read.size() >= 2;
            });
            Bench.expect("after seeking", List.of("v48", "v49"), read);
            Bench.expect("lag", 0L, consumer.currentLag(partition).getAsLong());
            Bench.expect("an unknown topic", "UnknownTopicOrPartitionException|TimeoutException".contains(
                Bench.error(() -> consumer.endOffsets(List.of(new TopicPartition(bench.name("none"), 3)), Duration.ofMillis(700)))), true);
        }
    }

    static void noReset(Bench bench) throws Exception {
        String topic = bench.topic("no-reset", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = bench.consumer(Map.of("group.id", bench.name("group"), "auto.offset.reset", "none"))) {
            consumer.assign(List.of(partition));
            Bench.expect("no offset", "NoOffsetForPartitionException", Bench.error(() -> consumer.position(partition)));
            consumer.seek(partition, 100);
            Bench.expect("beyond the end", "OffsetOutOfRangeException", Bench.error(() -> {
                for (int n = 0; n < 100; n++) consumer.poll(Duration.ofMillis(50));
            }));
        }
    }
}
