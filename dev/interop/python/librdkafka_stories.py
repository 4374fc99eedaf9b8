"""librdkafka, through `confluent-kafka`: transactions of protocol 1, groups of both kinds, administration."""
import functools
import uuid

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME, Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException,
    Producer, TopicCollection, TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType,
)

from story import ADDRESS, RUN, Skip, Victim, child, equal, ready_to_be_killed, story, tell, until

# Short, so that a member that was killed is missed soon; what a story does takes far less.
SESSION_TIMEOUT_MS = 6000
TRANSACTION_TIMEOUT_MS = 2000


@functools.cache
def admin():
    # One, kept: an admin client that is thrown away takes its unanswered calls along.
    return AdminClient({"bootstrap.servers": ADDRESS})


def topic(name, partitions=1, **config):
    full = f"{name}-{RUN}"
    config = {key.replace("_", "."): value for key, value in config.items()}
    for future in admin().create_topics([NewTopic(full, partitions, 1, config=config)]).values():
        future.result(30)
    return full


def producer(**more):
    return Producer({"bootstrap.servers": ADDRESS, "enable.idempotence": True, "linger.ms": 2, **more})


def transactional(id, **more):
    made = producer(**{"transactional.id": id, "transaction.timeout.ms": 60000, **more})
    made.init_transactions(30)
    return made


def consumer(group, isolation="read_committed", **more):
    return Consumer({
        "bootstrap.servers": ADDRESS, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "isolation.level": isolation, "enable.partition.eof": True, "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 500, **more})


def read_all(name, isolation="read_committed", partitions=1):
    """Every message from the beginning to the end of each partition."""
    reader = consumer(f"reader-{uuid.uuid4().hex[:8]}", isolation)
    reader.assign([TopicPartition(name, p, 0) for p in range(partitions)])
    found, ended = [], set()

    def all_ended():
        for message in reader.consume(1000, 0.2):
            if not message.error():
                found.append(message)
            else:
                equal(message.error().code(), KafkaError._PARTITION_EOF)
                ended.add(message.partition())
        return len(ended) == partitions

    until(lambda: f"{name}: the end; {len(found)} records came", all_ended, 60, pause=0)
    reader.close()
    return found


def values(name, isolation="read_committed", partitions=1):
    return [message.value().decode() for message in read_all(name, isolation, partitions)]


def write(name, texts, **more):
    plain = producer()
    for text in texts:
        plain.produce(name, value=text, **more)
    equal(plain.flush(30), 0, "records left after flush")


@story
def idempotent_records_come_back_once_in_order_and_whole_in_every_codec():
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        name, failures = topic(f"plain-{codec}", 3), []
        plain = producer(**{"compression.type": codec})
        for i in range(2000):
            plain.produce(name, key=str(i % 7), value=f"{i}", headers=[("h", b"1"), ("h", None)], timestamp=1_600_000_000_000 + i,
                          on_delivery=lambda error, _: failures.append(error) if error else None)
            plain.poll(0)
        equal(plain.flush(60), 0, codec)
        equal(failures, [], codec)
        found = read_all(name, partitions=3)
        equal(sorted(int(message.value()) for message in found), list(range(2000)), codec)
        for key in range(7):
            own = [int(message.value()) for message in found if message.key() == str(key).encode()]
            equal(own, sorted(own), f"{codec}: the order of key {key}")
        for message in found:
            equal(message.headers(), [("h", b"1"), ("h", None)], codec)
            equal(message.timestamp(), (TIMESTAMP_CREATE_TIME, 1_600_000_000_000 + int(message.value())), codec)


@story
def committed_transactions_are_seen_whole_and_aborted_ones_never():
    name = topic("transactions", 3)
    writer = transactional(f"commit-and-abort-{RUN}")
    for round, ending in enumerate(("commit", "abort", "commit", "abort", "commit")):
        writer.begin_transaction()
        for i in range(12):
            writer.produce(name, value=f"{ending} {round} {i}", partition=i % 3)
        if ending == "commit":
            writer.commit_transaction(30)
        else:
            equal(writer.flush(30), 0)
            writer.abort_transaction(30)
    # An empty transaction is one too.
    writer.begin_transaction()
    writer.commit_transaction(30)
    committed, everything = read_all(name, partitions=3), read_all(name, "read_uncommitted", 3)
    for partition in range(3):
        own = [i for i in range(12) if i % 3 == partition]
        equal([m.value().decode() for m in committed if m.partition() == partition],
              [f"commit {round} {i}" for round in (0, 2, 4) for i in own])
        equal(len([m for m in everything if m.partition() == partition]), 20)


@story
def both_isolations_read_side_by_side():
    name = topic("open")
    open_one = transactional(f"open-{RUN}")
    open_one.begin_transaction()
    open_one.produce(name, value="open")
    equal(open_one.flush(30), 0)
    write(name, ["after"])
    equal(values(name), [], "read_committed, while a transaction is open")
    equal(values(name, "read_uncommitted"), ["open", "after"])
    at = TopicPartition(name, 0)
    offsets = {}
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        answer = admin().list_offsets({at: OffsetSpec.latest()}, isolation_level=isolation, request_timeout=30)
        offsets[isolation.name] = answer[at].result(30).offset
    equal(offsets, {"READ_COMMITTED": 0, "READ_UNCOMMITTED": 2})
    open_one.commit_transaction(30)
    equal(values(name), ["open", "after"])


@story
def sent_offsets_commit_and_abort_with_their_transaction():
    source, sink, group = topic("source"), topic("sink"), f"loop-{RUN}"
    write(source, map(str, range(30)))
    reader = consumer(group)
    reader.subscribe([source])
    writer = transactional(group)

    def step(ending):
        writer.begin_transaction()
        taken = []

        def ten():
            message = reader.poll(0.5)
            if message is not None and not message.error():
                taken.append(int(message.value()))
                writer.produce(sink, value=f"{ending} {taken[-1]}")
            return len(taken) == 10

        until("ten records", ten, pause=0)
        writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata(), 30)
        if ending == "commit":
            writer.commit_transaction(30)
        else:
            writer.abort_transaction(30)
            reader.seek(TopicPartition(source, 0, taken[0]))
        return taken, reader.committed(reader.assignment(), timeout=30)[0].offset

    equal(step("commit"), (list(range(10)), 10))
    equal(step("abort"), (list(range(10, 20)), 10))
    equal(step("commit"), (list(range(10, 20)), 20))
    equal(values(sink), [f"commit {i}" for i in range(20)])
    reader.close()


@story
def offsets_of_a_member_that_lost_its_partitions_are_refused():
    source, sink, group = topic("stale-source"), topic("stale-sink"), f"stale-{RUN}"
    write(source, ["0"])
    first = consumer(group)
    first.subscribe([source])
    until("the first member's record", lambda: (m := first.poll(0.5)) and not m.error() and m.value() == b"0", pause=0)
    stale = first.consumer_group_metadata()
    first.close()
    second = consumer(group)
    second.subscribe([source])
    until("the second member's record", lambda: (m := second.poll(0.5)) and not m.error() and m.value() == b"0", pause=0)
    writer = transactional(group)
    writer.begin_transaction()
    writer.produce(sink, value="of the stale member")
    try:
        writer.send_offsets_to_transaction([TopicPartition(source, 0, 1)], stale, 30)
        raise AssertionError("a member that has left could commit")
    except KafkaException as refused:
        error = refused.args[0]
        assert error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION) and error.txn_requires_abort(), error
    writer.abort_transaction(30)
    equal(second.committed([TopicPartition(source, 0)], timeout=30)[0].offset, -1001)
    equal(values(sink), [])
    second.close()


@story
def a_zombie_is_fenced_and_leaves_nothing():
    name, id = topic("fence"), f"fence-{RUN}"
    old = transactional(id)
    old.begin_transaction()
    old.produce(name, value="of the zombie")
    equal(old.flush(30), 0)
    new = transactional(id)
    new.begin_transaction()
    new.produce(name, value="of its successor")
    new.commit_transaction(30)
    try:
        old.produce(name, value="late")
        old.commit_transaction(30)
        raise AssertionError("the zombie committed")
    except KafkaException as refused:
        error = refused.args[0]
        assert error.fatal(), error
        assert error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED), error
    new.begin_transaction()
    new.produce(name, value="and goes on")
    new.commit_transaction(30)
    equal(values(name), ["of its successor", "and goes on"])


@child
def writes_and_waits(id, name):
    writer = transactional(id, **{"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS})
    writer.begin_transaction()
    for i in range(3):
        writer.produce(name, value=f"of the killed {i}")
    writer.flush(30)
    ready_to_be_killed()


@story
def a_killed_client_s_transaction_is_aborted_when_its_time_is_up():
    name, id = topic("killed"), f"killed-{RUN}"
    Victim(writes_and_waits, id, name).kill()
    write(name, ["after"])
    equal(values(name), [], "while it is open")
    until("the aborted transaction lets go", lambda: values(name) == ["after"])
    equal(len(values(name, "read_uncommitted")), 4)
    heir = transactional(id)
    heir.begin_transaction()
    heir.produce(name, value="of its heir")
    heir.commit_transaction(30)
    equal(values(name), ["after", "of its heir"])


def members(group, name, count, **more):
    made = [consumer(group, **more) for _ in range(count)]
    for member in made:
        member.subscribe([name])
    return made


def shares(group):
    return [sorted(part.partition for part in member.assignment()) for member in group]


def poll_until(group, what, ready, found=None, seconds=60):
    """Polls all members in turn, which is what keeps them in their group, and commits what they read."""
    def turn():
        for place, member in enumerate(group):
            message = member.poll(0.02)
            if message is not None and not message.error() and found is not None:
                found[place].append(int(message.value()))
                member.commit(message, asynchronous=False)
        return ready()
    until(lambda: f"{what}; shares {shares(group)}", turn, seconds, pause=0)


@story
def members_share_and_whoever_stays_takes_over():
    name, group = topic("group", 4), f"members-{RUN}"
    for partition in range(4):
        write(name, [str(i) for i in range(400) if i % 4 == partition], partition=partition)
    both = members(group, name, 2)
    found = [[], []]
    poll_until(both, "both read, and all", lambda: all(shares(both)) and len(set(found[0]) | set(found[1])) == 400, found)
    one, other = shares(both)
    equal((sorted(one + other), len(one)), ([0, 1, 2, 3], 2))
    both[0].close()
    poll_until(both[1:], "the other has all four", lambda: len(both[1].assignment()) == 4, [found[1]])
    write(name, ["400"], partition=one[0])
    poll_until(both[1:], "what came later", lambda: 400 in found[1], [found[1]])
    both[1].close()
    again = consumer(group)
    committed = again.committed([TopicPartition(name, p) for p in range(4)], timeout=30)
    equal([part.offset for part in committed], [101 if p == one[0] else 100 for p in range(4)])
    again.close()


@story
def a_cooperative_rebalance_takes_only_what_moves():
    name, group = topic("cooperative", 4), f"cooperative-{RUN}"
    revoked = []
    first = consumer(group, **{"partition.assignment.strategy": "cooperative-sticky"})
    first.subscribe([name], on_revoke=lambda _, parts: revoked.append(len(parts)))
    poll_until([first], "four partitions", lambda: len(first.assignment()) == 4)
    second = consumer(group, **{"partition.assignment.strategy": "cooperative-sticky"})
    second.subscribe([name])
    poll_until([first, second], "two each", lambda: [len(share) for share in shares([first, second])] == [2, 2])
    equal(revoked, [2])
    second.close()
    poll_until([first], "four again", lambda: len(first.assignment()) == 4)
    equal(revoked, [2])
    first.close()


@child
def joins_and_waits(group, name):
    member = consumer(group)
    member.subscribe([name])
    until("a share", lambda: member.poll(0.1) is None and member.assignment(), pause=0)
    ready_to_be_killed(lambda: member.poll(0.1))


@story
def a_killed_member_s_partitions_move_when_its_session_ends():
    name, group = topic("killed-member", 2), f"killed-member-{RUN}"
    victim = Victim(joins_and_waits, group, name)
    [heir] = members(group, name, 1)
    poll_until([heir], "one of two", lambda: shares([heir]) in ([[0]], [[1]]))
    victim.kill()
    poll_until([heir], "both", lambda: shares([heir]) == [[0, 1]])
    heir.close()


@story
def a_static_member_comes_back_to_its_partitions_without_a_rebalance():
    name, group = topic("static", 4), f"static-{RUN}"
    rebalances = []
    stays = consumer(group, **{"group.instance.id": "stays", "session.timeout.ms": 20000})
    stays.subscribe([name], on_assign=lambda _, parts: rebalances.append(sorted(part.partition for part in parts)))
    leaves = consumer(group, **{"group.instance.id": "leaves", "session.timeout.ms": 20000})
    leaves.subscribe([name])
    poll_until([stays, leaves], "two each", lambda: [len(share) for share in shares([stays, leaves])] == [2, 2])
    before, seen = shares([stays, leaves]), list(rebalances)
    # A static member does not leave when it closes: it is expected back.
    leaves.close()
    back = consumer(group, **{"group.instance.id": "leaves", "session.timeout.ms": 20000})
    back.subscribe([name])
    poll_until([stays, back], "its partitions", lambda: shares([stays, back]) == before)
    equal(rebalances, seen, "rebalances of who stays")
    described = admin().describe_consumer_groups([group], request_timeout=30)[group].result(30)
    equal((described.state, sorted(member.group_instance_id for member in described.members)), (ConsumerGroupState.STABLE, ["leaves", "stays"]))
    stays.close()
    back.close()


@story
def a_static_member_s_double_fences_it():
    name, group = topic("double", 1), f"double-{RUN}"
    told = []
    first = consumer(group, **{"group.instance.id": "same", "error_cb": lambda error: told.append(error.code())})
    first.subscribe([name])
    poll_until([first], "the partition", lambda: shares([first]) == [[0]])
    double = consumer(group, **{"group.instance.id": "same"})
    double.subscribe([name])

    def fenced():
        try:
            message = first.poll(0.1)
            if message is not None and message.error():
                told.append(message.error().code())
        except KafkaException as error:
            told.append(error.args[0].code())
        double.poll(0.05)
        return shares([double]) == [[0]] and {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID} & set(told)

    until(lambda: f"the first is told {told}, the double has {shares([double])}", fenced, pause=0)
    double.close()


@story
def members_of_the_new_protocol_share_and_take_over():
    name, group = topic("consumer-protocol", 4), f"consumer-protocol-{RUN}"
    more = {"group.protocol": "consumer"}

    def member():
        made = Consumer({"bootstrap.servers": ADDRESS, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **more})
        made.subscribe([name])
        return made

    for partition in range(4):
        write(name, [str(i) for i in range(400) if i % 4 == partition], partition=partition)
    both, found = [member()], [[], []]
    errors = []

    def all_of_it():
        message = both[0].poll(0.1)
        if message is not None and message.error():
            errors.append(message.error())
        if errors and errors[0].code() == KafkaError.UNSUPPORTED_VERSION or errors and errors[0].code() == KafkaError._UNSUPPORTED_FEATURE:
            raise Skip(f"the broker has no groups of the new protocol: {errors[0]}")
        return shares(both) == [[0, 1, 2, 3]]

    until(lambda: f"all four; errors {errors}", all_of_it, pause=0)
    both.append(member())
    poll_until(both, "two each", lambda: [len(share) for share in shares(both)] == [2, 2], found)
    described = admin().describe_consumer_groups([group], request_timeout=30)[group].result(30)
    equal((described.state, len(described.members), described.type.name), (ConsumerGroupState.STABLE, 2, "CONSUMER"))
    both.pop(0).close()
    poll_until(both, "all four", lambda: shares(both) == [[0, 1, 2, 3]], found)
    both[0].close()


@story
def committed_offsets_can_be_listed_altered_and_deleted_with_their_group():
    name, group = topic("offsets", 2), f"offsets-{RUN}"
    at = [TopicPartition(name, 0, 7), TopicPartition(name, 1, 9, metadata="with a note")]
    alone = consumer(group)
    alone.commit(offsets=at, asynchronous=False)
    alone.close()
    control = admin()

    def listed():
        answer = control.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=30)[group].result(30)
        return sorted((part.partition, part.offset, part.metadata or "") for part in answer.topic_partitions)

    equal(listed(), [(0, 7, ""), (1, 9, "with a note")])
    control.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 3)])], request_timeout=30)[group].result(30)
    equal(listed(), [(0, 3, ""), (1, 9, "with a note")])
    described = control.describe_consumer_groups([group], request_timeout=30)[group].result(30)
    equal(described.state, ConsumerGroupState.EMPTY)
    assert group in [found.group_id for found in control.list_consumer_groups(request_timeout=30).result(30).valid]
    control.delete_consumer_groups([group], request_timeout=30)[group].result(30)
    assert group not in [found.group_id for found in control.list_consumer_groups(request_timeout=30).result(30).valid]
    try:
        control.delete_consumer_groups([group], request_timeout=30)[group].result(30)
        raise AssertionError("a group that is not there was deleted")
    except KafkaException as refused:
        equal(refused.args[0].code(), KafkaError.GROUP_ID_NOT_FOUND)


@story
def topics_are_made_described_altered_grown_and_deleted():
    name, control = topic("admin", 2, retention_ms="100000", cleanup_policy="delete"), admin()
    described = control.describe_topics(TopicCollection([name]), request_timeout=30)[name].result(30)
    equal((described.name, [part.id for part in described.partitions], described.is_internal), (name, [0, 1], False))
    resource = ConfigResource(ResourceType.TOPIC, name)

    def config(key):
        return control.describe_configs([resource], request_timeout=30)[resource].result(30)[key].value

    equal((config("retention.ms"), config("cleanup.policy")), ("100000", "delete"))
    change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[
        ConfigEntry("retention.ms", "200000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)])
    control.incremental_alter_configs([change], request_timeout=30)[change].result(30)
    until("the new settings", lambda: (config("retention.ms"), config("cleanup.policy")) == ("200000", "delete,compact"))
    control.create_partitions([NewPartitions(name, 4)], request_timeout=30)[name].result(30)
    # Apache Kafka's broker hears of it from its controller, a moment later.
    until("four partitions", lambda: len(control.describe_topics(TopicCollection([name]), request_timeout=30)[name].result(30).partitions) == 4)
    for wrong, code in ((NewTopic(name, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS), (NewTopic("no/slash", 1, 1), KafkaError.TOPIC_EXCEPTION),
                        (NewTopic(f"many-{RUN}", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
                        (NewTopic(f"none-{RUN}", 0, 1), KafkaError.INVALID_PARTITIONS),
                        (NewTopic(f"odd-{RUN}", 1, 1, config={"no.such.key": "1"}), KafkaError.INVALID_CONFIG)):
        try:
            control.create_topics([wrong], request_timeout=30)[wrong.topic].result(30)
            raise AssertionError(f"{wrong.topic} was made")
        except KafkaException as refused:
            equal(refused.args[0].code(), code, wrong.topic)
    control.delete_topics([name], request_timeout=30)[name].result(30)
    until("the topic is gone", lambda: name not in control.list_topics(timeout=30).topics)
    cluster = control.describe_cluster(request_timeout=30).result(30)
    assert cluster.cluster_id and cluster.controller and len(cluster.nodes) == 1, cluster


@story
def deleted_records_are_gone_and_the_log_begins_after_them():
    name, control = topic("records"), admin()
    write(name, map(str, range(20)))
    at = TopicPartition(name, 0, 12)
    equal(control.delete_records([at], request_timeout=30)[at].result(30).low_watermark, 12)
    reader = consumer(f"low-{RUN}")
    equal(reader.get_watermark_offsets(TopicPartition(name, 0), timeout=30), (12, 20))
    reader.close()
    late = consumer(f"late-{RUN}")
    late.assign([TopicPartition(name, 0, 0)])
    found = []
    until("the rest", lambda: (m := late.poll(0.5)) is not None and not m.error() and (found.append(int(m.value())) or len(found) == 8), pause=0)
    equal(found, list(range(12, 20)))
    late.close()
    try:
        beyond = TopicPartition(name, 0, 21)
        control.delete_records([beyond], request_timeout=30)[beyond].result(30)
        raise AssertionError("records beyond the end were deleted")
    except KafkaException as refused:
        equal(refused.args[0].code(), KafkaError.OFFSET_OUT_OF_RANGE)


@story
def offsets_are_found_by_time():
    name = topic("times")
    for i in range(10):
        write(name, [str(i)], timestamp=1_600_000_000_000 + 1000 * i)
    reader = consumer(f"times-{RUN}")
    asked = {1_600_000_000_000: 0, 1_600_000_003_500: 4, 1_600_000_009_000: 9, 1_600_000_009_001: -1, 1: 0}
    for timestamp, offset in asked.items():
        equal(reader.offsets_for_times([TopicPartition(name, 0, timestamp)], timeout=30)[0].offset, offset, timestamp)
    reader.close()
    latest = TopicPartition(name, 0)
    equal(admin().list_offsets({latest: OffsetSpec.max_timestamp()}, request_timeout=30)[latest].result(30).offset, 9)


if __name__ == "__main__":
    tell()
