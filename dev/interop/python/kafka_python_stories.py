"""kafka-python: transactions of protocol 1, classic groups, a wide administration."""
import logging
import uuid

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.admin import ConfigResource, OffsetSpec
from kafka.protocol.consumer.offsets import IsolationLevel
from kafka.structs import OffsetAndMetadata

import common_stories
from common_stories import Face, Record, topic, values, write
from story import ADDRESS, RUN, equal, story, tell, until

logging.basicConfig(level=logging.WARNING)
ADMIN = KafkaAdminClient(bootstrap_servers=ADDRESS)


class Producer:
    def __init__(self, **more):
        self.inner = KafkaProducer(bootstrap_servers=ADDRESS, enable_idempotence=True, linger_ms=2, **more)
        self.sent = []

    def send(self, topic, partition, value, key=None, headers=(), timestamp=None):
        self.sent.append(self.inner.send(topic, value.encode(), key=key and key.encode(), headers=list(headers), partition=partition,
                                         timestamp_ms=timestamp))

    def flush(self):
        self.inner.flush(30)
        sent, self.sent = self.sent, []
        for future in sent:
            future.get(30)

    def close(self):
        self.inner.close(10)


class Transactional(Producer):
    def __init__(self, id, timeout_ms):
        super().__init__(transactional_id=id, transaction_timeout_ms=timeout_ms)
        self.inner.init_transactions()

    def begin(self):
        self.inner.begin_transaction()

    def send_offsets(self, offsets, topic, member):
        self.inner.send_offsets_to_transaction(
            {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}, member.inner.group_metadata())

    def commit(self):
        self.inner.commit_transaction()
        self.sent = []

    def abort(self):
        self.inner.abort_transaction()
        self.sent = []


class Member(ConsumerRebalanceListener):
    def __init__(self, group, topic, instance=None):
        self.assigned = 0
        self.inner = KafkaConsumer(bootstrap_servers=ADDRESS, group_id=group, group_instance_id=instance, auto_offset_reset="earliest",
                                   enable_auto_commit=False, isolation_level="read_committed", session_timeout_ms=6000,
                                   heartbeat_interval_ms=500)
        self.inner.subscribe([topic], listener=self)
        # It asks for the topic's partitions a tenth of a second later, and may lead the group by then. It assigns nothing, and joins again when it
        # hears of them; and where a poll ends between that JoinGroup and its SyncGroup, it never takes what it was assigned. So it hears of them first.
        until(f"partitions of {topic}", lambda: self.inner._coordinator._metadata_snapshot.get(topic))

    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        self.assigned += 1

    def poll(self):
        return [(record.partition, record.value.decode()) for records in self.inner.poll(50).values() for record in records]

    def commit(self):
        try:
            self.inner.commit()
        except errors.CommitFailedError:
            pass  # a rebalance took them: they are read again

    def assignment(self):
        return sorted(part.partition for part in self.inner.assignment())

    def rebalances(self):
        return self.assigned

    def close(self):
        self.inner.close(autocommit=False)


class KafkaPython(Face):
    codecs = ("gzip", "snappy", "lz4", "zstd")
    fenced = (errors.ProducerFencedError, errors.InvalidProducerEpochError)

    def make_topic(self, name, partitions):
        ADMIN.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}}, timeout_ms=30000, wait_for_metadata=True)

    def producer(self, codec=None):
        return Producer(compression_type=codec)

    def transactional(self, id, timeout_ms=60000):
        return Transactional(id, timeout_ms)

    def read(self, topic, partitions, isolation):
        reader = KafkaConsumer(bootstrap_servers=ADDRESS, group_id=f"reader-{uuid.uuid4().hex}", enable_auto_commit=False,
                               isolation_level=isolation, auto_offset_reset="earliest")
        parts = [TopicPartition(topic, p) for p in range(partitions)]
        reader.assign(parts)
        ends, found = reader.end_offsets(parts), []

        def all_ended():
            for records in reader.poll(200).values():
                found.extend(Record(r.partition, r.offset, r.key, r.value, [tuple(h) for h in r.headers], r.timestamp) for r in records)
            return all(reader.position(part) >= ends[part] for part in parts)

        until(lambda: f"{topic}: the end; {len(found)} records came", all_ended, 60, pause=0)
        reader.close()
        return found

    def end_offset(self, topic, partition, isolation):
        at = TopicPartition(topic, partition)
        level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
        return ADMIN.list_partition_offsets({at: OffsetSpec.LATEST}, isolation_level=level)[at].offset

    def member(self, group, topic, instance=None):
        return Member(group, topic, instance)

    def committed(self, group, topic, partitions):
        found = ADMIN.list_group_offsets({group: [TopicPartition(topic, p) for p in range(partitions)]})[group]
        return [found[TopicPartition(topic, p)].offset for p in range(partitions)]


common_stories.use(KafkaPython())


@story
def offsets_of_a_member_that_lost_its_partitions_are_refused():
    source, sink, group = topic("stale-source"), topic("stale-sink"), f"stale-{RUN}"
    write(source, ["0"])
    first = Member(group, source)
    until("its record", lambda: first.poll() == [(0, "0")], pause=0)
    stale = first.inner.group_metadata()
    first.close()
    second = Member(group, source)
    until("its record", lambda: second.poll() == [(0, "0")], pause=0)
    writer = Transactional(group, 60000)
    writer.begin()
    writer.send(sink, 0, "of the stale member")
    try:
        writer.inner.send_offsets_to_transaction({TopicPartition(source, 0): OffsetAndMetadata(1, "", -1)}, stale)
        writer.commit()
        raise AssertionError("a member that has left could commit")
    except (errors.CommitFailedError, errors.UnknownMemberIdError, errors.IllegalGenerationError):
        pass
    writer.abort()
    equal(values(sink), [])
    second.close()


@story
def committed_offsets_can_be_listed_altered_reset_and_deleted_with_their_group():
    name, group = topic("offsets", 2), f"offsets-{RUN}"
    write(name, map(str, range(12)))
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)

    def listed():
        return {part.partition: (at.offset, at.metadata) for part, at in ADMIN.list_group_offsets({group: None})[group].items()}

    ADMIN.alter_group_offsets(group, {first: OffsetAndMetadata(7, "", -1), second: OffsetAndMetadata(9, "with a note", -1)})
    equal(listed(), {0: (7, ""), 1: (9, "with a note")})
    ADMIN.reset_group_offsets(group, {first: OffsetSpec.LATEST})
    equal(listed()[0][0], 12)
    described = ADMIN.describe_groups([group])[group]
    equal((described["group_state"], described["members"]), ("Empty", []))
    assert group in [found["group_id"] for found in ADMIN.list_groups()]
    ADMIN.delete_group_offsets(group, [second])
    equal(list(listed()), [0])
    ADMIN.delete_groups([group])
    assert group not in [found["group_id"] for found in ADMIN.list_groups()]


@story
def topics_are_made_described_altered_grown_and_deleted():
    name = f"admin-{RUN}"
    ADMIN.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "100000"}}})
    try:
        ADMIN.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
        raise AssertionError("it was made twice")
    except errors.TopicAlreadyExistsError:
        pass

    def config(key):
        return ADMIN.describe_configs([ConfigResource("TOPIC", name)], config_filter="all")["topic"][name][key]["value"]

    until("its config", lambda: config("retention.ms") == "100000")
    ADMIN.alter_configs([ConfigResource("TOPIC", name, configs={"retention.ms": "200000", "cleanup.policy": ("APPEND", "compact")})])
    until("the new settings", lambda: (config("retention.ms"), config("cleanup.policy")) == ("200000", "delete,compact"))
    ADMIN.create_partitions({name: 4})
    until("four partitions", lambda: len(ADMIN.describe_topics([name])[0]["partitions"]) == 4)
    assert name in ADMIN.list_topics()
    ADMIN.delete_topics([name])
    until("it is gone", lambda: name not in ADMIN.list_topics())
    assert len(ADMIN.describe_cluster()["brokers"]) == 1


@story
def deleted_records_are_gone_and_the_log_begins_after_them():
    name = topic("records")
    write(name, map(str, range(20)))
    at = TopicPartition(name, 0)
    equal(ADMIN.delete_records({at: 12})[at]["low_watermark"], 12)
    equal(ADMIN.list_partition_offsets({at: OffsetSpec.EARLIEST})[at].offset, 12)
    equal(values(name), [str(i) for i in range(12, 20)])


@story
def an_open_transaction_can_be_listed_described_and_aborted():
    name, id = topic("inspected"), f"inspected-{RUN}"
    writer = Transactional(id, 60000)
    writer.begin()
    writer.send(name, 0, "open")
    writer.flush()
    [state] = [found.state for rows in ADMIN.list_transactions().values() for found in rows if found.transactional_id == id]
    described = ADMIN.describe_transactions([id])[id]
    equal((getattr(state, "value", state), sorted(described.topic_partitions)), ("Ongoing", [TopicPartition(name, 0)]))
    [producer] = ADMIN.describe_producers([TopicPartition(name, 0)])[TopicPartition(name, 0)].active_producers
    equal((producer.producer_id, producer.current_transaction_start_offset), (described.producer_id, 0))
    writer.abort()
    until("its end", lambda: getattr(ADMIN.describe_transactions([id])[id].state, "value", None) == "CompleteAbort")


if __name__ == "__main__":
    tell()
