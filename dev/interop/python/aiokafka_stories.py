"""aiokafka: the oldest versions that know transactions (TxnOffsetCommit 0), so no member or generation goes with sent offsets."""
import asyncio
import logging
import threading
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

import common_stories
from common_stories import Face, Record, topic, values, write
from story import ADDRESS, RUN, equal, story, tell, until

logging.basicConfig(level=logging.WARNING)
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def run(coroutine, seconds=60):
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(seconds)


async def started(make):
    made = make()
    await made.start()
    return made


ADMIN = run(started(lambda: AIOKafkaAdminClient(bootstrap_servers=ADDRESS)))


class Producer:
    def __init__(self, **more):
        self.inner = run(started(lambda: AIOKafkaProducer(bootstrap_servers=ADDRESS, enable_idempotence=True, linger_ms=2, **more)))
        self.sent = []

    def send(self, topic, partition, value, key=None, headers=(), timestamp=None):
        self.sent.append(run(self.inner.send(topic, value.encode(), key=key and key.encode(), headers=list(headers), partition=partition,
                                             timestamp_ms=timestamp)))

    def flush(self):
        sent, self.sent = self.sent, []

        async def all_of_them():
            for future in sent:
                await future

        run(all_of_them())

    def close(self):
        run(self.inner.stop())


class Transactional(Producer):
    def __init__(self, id, timeout_ms):
        super().__init__(transactional_id=id, transaction_timeout_ms=timeout_ms)

    def begin(self):
        run(self.inner.begin_transaction())

    def send_offsets(self, offsets, topic, member):
        run(self.inner.send_offsets_to_transaction({TopicPartition(topic, p): at for p, at in offsets.items()}, member.group))

    def commit(self):
        run(self.inner.commit_transaction())
        self.sent = []

    def abort(self):
        run(self.inner.abort_transaction())
        self.sent = []


class Member(ConsumerRebalanceListener):
    def __init__(self, group, topic, instance=None):
        self.group, self.assigned = group, 0

        async def make():
            made = AIOKafkaConsumer(bootstrap_servers=ADDRESS, group_id=group, group_instance_id=instance, auto_offset_reset="earliest",
                                    enable_auto_commit=False, isolation_level="read_committed", session_timeout_ms=6000,
                                    heartbeat_interval_ms=500)
            made.subscribe([topic], listener=self)
            # It waits for an assignment; the members of a story begin one after the other.
            return made, asyncio.ensure_future(made.start())

        self.inner, self.starting = run(make())

    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        self.assigned += 1

    def poll(self):
        async def some():
            if not self.starting.done():
                await asyncio.sleep(0.05)
                return []
            await self.starting
            batches = await self.inner.getmany(timeout_ms=50)
            return [(record.partition, record.value.decode()) for records in batches.values() for record in records]
        return run(some())

    def commit(self):
        try:
            run(self.inner.commit())
        except errors.CommitFailedError:
            pass  # a rebalance took them: they are read again

    def assignment(self):
        return sorted(part.partition for part in self.inner.assignment())

    def rebalances(self):
        return self.assigned

    def close(self):
        run(self.inner.stop())


class AioKafka(Face):
    codecs = ("gzip", "snappy", "lz4", "zstd")
    fenced = (errors.ProducerFenced, errors.InvalidProducerEpoch)

    def make_topic(self, name, partitions):
        answer = run(ADMIN.create_topics([NewTopic(name, partitions, 1)], timeout_ms=30000))
        equal([row[1] for row in answer.topic_errors], [0])
        until("the topic", lambda: run(ADMIN.describe_topics([name]))[0]["error_code"] == 0)

    def producer(self, codec=None):
        return Producer(compression_type=codec)

    def transactional(self, id, timeout_ms=60000):
        return Transactional(id, timeout_ms)

    def read(self, topic, partitions, isolation):
        parts, found = [TopicPartition(topic, p) for p in range(partitions)], []

        async def all_of_it():
            reader = AIOKafkaConsumer(bootstrap_servers=ADDRESS, group_id=f"reader-{uuid.uuid4().hex}", enable_auto_commit=False,
                                      isolation_level=isolation, auto_offset_reset="earliest")
            await reader.start()
            reader.assign(parts)
            ends = await reader.end_offsets(parts)
            while not all([await reader.position(part) >= ends[part] for part in parts]):
                for records in (await reader.getmany(timeout_ms=200)).values():
                    found.extend(Record(r.partition, r.offset, r.key, r.value, list(r.headers), r.timestamp) for r in records)
            await reader.stop()

        run(all_of_it())
        return found

    def end_offset(self, topic, partition, isolation):
        async def ask():
            reader = await started(lambda: AIOKafkaConsumer(bootstrap_servers=ADDRESS, isolation_level=isolation))
            try:
                return (await reader.end_offsets([TopicPartition(topic, partition)]))[TopicPartition(topic, partition)]
            finally:
                await reader.stop()
        return run(ask())

    def member(self, group, topic, instance=None):
        return Member(group, topic, instance)

    def committed(self, group, topic, partitions):
        found = run(ADMIN.list_consumer_group_offsets(group, partitions=[TopicPartition(topic, p) for p in range(partitions)]))
        return [found[TopicPartition(topic, p)].offset for p in range(partitions)]


common_stories.use(AioKafka())


@story
def topics_are_made_described_altered_grown_and_deleted():
    name = topic("admin", 2)
    again = run(ADMIN.create_topics([NewTopic(name, 2, 1)]))
    equal([row[1] for row in again.topic_errors], [errors.TopicAlreadyExistsError.errno])
    resource = ConfigResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "200000"})
    run(ADMIN.alter_configs([resource]))

    def retention():
        [answer] = run(ADMIN.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
        return {entry[0]: entry[1] for entry in answer.resources[0][4]}["retention.ms"]

    until("its retention", lambda: retention() == "200000")
    run(ADMIN.create_partitions({name: NewPartitions(4)}))
    until("four partitions", lambda: len(run(ADMIN.describe_topics([name]))[0]["partitions"]) == 4)
    equal(len(run(ADMIN.describe_cluster())["brokers"]), 1)
    run(ADMIN.delete_topics([name]))
    until("it is gone", lambda: name not in run(ADMIN.list_topics()))


@story
def deleted_records_are_gone_and_the_log_begins_after_them():
    name = topic("records")
    write(name, map(str, range(20)))
    at = TopicPartition(name, 0)
    equal(run(ADMIN.delete_records({at: RecordsToDelete(before_offset=12)})), {at: 12})
    equal(values(name), [str(i) for i in range(12, 20)])


@story
def a_group_can_be_listed_and_described():
    name, group = topic("described"), f"described-{RUN}"
    member = Member(group, name)
    until("its share", lambda: member.poll() == [] and member.assignment() == [0], pause=0)
    assert (group, "consumer") in [tuple(found[:2]) for found in run(ADMIN.list_consumer_groups())]
    [answer] = run(ADMIN.describe_consumer_groups([group]))
    [(code, id, state, kind, protocol, members, *_)] = answer.groups
    equal((code, id, state, kind, protocol, len(members)), (0, group, "Stable", "consumer", "roundrobin", 1))
    member.close()


if __name__ == "__main__":
    tell()
