#!/usr/bin/env python3
"""librdkafka's producer, consumer and transactions against a broker, with asserted values. usage: interop.py HOST:PORT"""
import sys
import time
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = sys.argv[1]
RUN = uuid.uuid4().hex[:8]


def topic(name, partitions=1):
    full = f"{name}-{RUN}"
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic(full, partitions, 1)]).values():
        future.result(30)
    return full


def consumer(group, isolation="read_committed", **more):
    return Consumer({
        "bootstrap.servers": BOOTSTRAP, "group.id": f"{group}-{RUN}", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "isolation.level": isolation, "enable.partition.eof": True,
        "session.timeout.ms": 6000, **more})


def read_all(name, isolation="read_committed", partitions=1):
    """Every record from the beginning to the end of each partition, as (partition, key, value)."""
    reader = consumer(f"reader-{uuid.uuid4().hex[:6]}", isolation)
    reader.assign([TopicPartition(name, p, 0) for p in range(partitions)])
    found, ended = [], set()
    deadline = time.time() + 60
    while len(ended) < partitions:
        assert time.time() < deadline, f"{name}: the end was not reached; {len(found)} records"
        message = reader.poll(1.0)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
            continue
        found.append((message.partition(), message.key(), message.value()))
    reader.close()
    return found


def values(name, isolation="read_committed"):
    return [value.decode() for _, _, value in read_all(name, isolation)]


def produce_idempotently():
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        name = topic(f"plain-{codec}", 3)
        failures = []
        producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "compression.type": codec, "linger.ms": 5})
        for i in range(3000):
            producer.produce(name, key=str(i % 7), value=f"{i}", headers=[("h", b"1"), ("h", None)],
                             on_delivery=lambda error, _: failures.append(error) if error else None)
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failures, failures[:3]
        found = read_all(name, partitions=3)
        assert sorted(int(value) for _, _, value in found) == list(range(3000)), codec
        for key in range(7):
            own = [int(value) for _, k, value in found if k == str(key).encode()]
            assert own == sorted(own), f"{codec}: key {key} out of order"


def consume_in_a_group():
    name = topic("group", 4)
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    for i in range(400):
        producer.produce(name, value=str(i), partition=i % 4)
    producer.flush(60)
    members = [consumer("members"), consumer("members")]
    for member in members:
        member.subscribe([name])
    found, deadline = [set(), set()], time.time() + 60
    # Until both have a share, and all is read.
    while not (all(member.assignment() for member in members) and len(found[0] | found[1]) == 400):
        assert time.time() < deadline, [len(f) for f in found]
        for place, member in enumerate(members):
            message = member.poll(0.05)
            if message is not None and not message.error():
                found[place].add(int(message.value()))
                member.commit(message, asynchronous=False)
    shares = [sorted(p.partition for p in member.assignment()) for member in members]
    assert sorted(shares[0] + shares[1]) == [0, 1, 2, 3] and shares[0] and shares[1], shares
    for member in members:
        member.close()
    again = consumer("members")
    committed = again.committed([TopicPartition(name, p) for p in range(4)], timeout=30)
    assert [p.offset for p in committed] == [100] * 4, committed
    again.close()


def transactional(id, **more):
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": f"{id}-{RUN}", "transaction.timeout.ms": 60000, **more})
    producer.init_transactions(30)
    return producer


def commit_and_abort():
    name = topic("transactions")
    producer = transactional("commit-and-abort")
    for round, ending in enumerate(("commit", "abort", "commit", "abort", "commit")):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(name, value=f"{ending} {round} {i}")
        if ending == "commit":
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    assert values(name) == [f"commit {r} {i}" for r in (0, 2, 4) for i in range(10)]
    everything = values(name, "read_uncommitted")
    assert len(everything) == 50, len(everything)
    # An empty transaction is one too.
    producer.begin_transaction()
    producer.commit_transaction(30)


def an_open_transaction_hides_what_follows():
    name = topic("open")
    producer = transactional("open")
    producer.begin_transaction()
    producer.produce(name, value="open")
    producer.flush(30)
    plain = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    plain.produce(name, value="after")
    plain.flush(30)
    assert values(name) == [], "what follows an open transaction is not committed yet"
    assert values(name, "read_uncommitted") == ["open", "after"]
    low, high = consumer("watermarks", "read_committed").get_watermark_offsets(TopicPartition(name, 0), timeout=30)
    assert low == 0 and high in (0, 2), (low, high)
    producer.commit_transaction(30)
    assert values(name) == ["open", "after"]


def send_offsets():
    source, sink = topic("source"), topic("sink")
    plain = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    for i in range(30):
        plain.produce(source, value=str(i))
    plain.flush(30)
    reader = consumer("loop")
    reader.subscribe([source])
    producer = transactional("loop")

    def step(ending):
        producer.begin_transaction()
        taken = []
        while len(taken) < 10:
            message = reader.poll(1.0)
            if message is None or message.error():
                continue
            taken.append(int(message.value()))
            producer.produce(sink, value=f"{ending} {message.value().decode()}")
        producer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata(), 30)
        if ending == "commit":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
            reader.seek(TopicPartition(source, 0, taken[0]))
        return taken, reader.committed(reader.assignment(), timeout=30)[0].offset

    assert step("commit") == (list(range(10)), 10)
    assert step("abort") == (list(range(10, 20)), 10)
    assert step("commit") == (list(range(10, 20)), 20)
    assert values(sink) == [f"commit {i}" for i in range(20)]
    reader.close()


def fence():
    name = topic("fence")
    old = transactional("fence")
    old.begin_transaction()
    old.produce(name, value="of the zombie")
    old.flush(30)
    new = transactional("fence")
    new.begin_transaction()
    new.produce(name, value="of its successor")
    new.commit_transaction(30)
    try:
        old.produce(name, value="late")
        old.commit_transaction(30)
        raise AssertionError("the zombie committed")
    except KafkaException as refused:
        error = refused.args[0]
        assert error.fatal() and error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED), error
    assert values(name) == ["of its successor"]


for part in (produce_idempotently, consume_in_a_group, commit_and_abort, an_open_transaction_hides_what_follows, send_offsets, fence):
    begin = time.time()
    part()
    print(f"{part.__name__}: passed in {time.time() - begin:.1f} s", flush=True)
