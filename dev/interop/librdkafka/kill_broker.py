#!/usr/bin/env python3
"""Kills a broker with SIGKILL again and again while librdkafka writes to it, then reads everything back.

usage: kill_broker.py [--kills N] [--seconds-between S] [--seed N] [--port P] -- COMMAND…

COMMAND starts the broker in the foreground; `{port}` and `{data}` in it are replaced. Two workers write all the time:
one idempotent producer (its records are numbered per partition) and one transactional producer (each transaction writes
its number to every partition and then commits, or aborts on purpose). Asserted at the end:

* every record that was acknowledged is read back once, and each partition's numbers rise;
* of every transaction whose commit was acknowledged, all records are there, once; of every other one all or none;
* of a transaction that was aborted, nothing.
"""
import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    def __init__(self, command, port, data):
        self.command = [part.format(port=port, data=data) for part in command]
        self.port, self.process = port, None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        begin = time.time()
        while True:
            assert self.process.poll() is None, f"the broker ended by itself with {self.process.returncode}"
            assert time.time() - begin < 60, "the broker does not listen"
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Idempotent(threading.Thread):
    """Writes numbers, one row per partition, and remembers which were acknowledged."""

    def __init__(self, bootstrap, stop):
        super().__init__(daemon=True)
        self.bootstrap, self.stop = bootstrap, stop
        self.acknowledged, self.failed, self.fatal = set(), 0, None

    def run(self):
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 2,
                             "delivery.timeout.ms": 300000, "socket.timeout.ms": 5000, "reconnect.backoff.max.ms": 200,
                             "queue.buffering.max.messages": 2000})
        numbers = [0] * PARTITIONS

        def delivered(error, message):
            if error:
                self.failed += 1
                self.fatal = self.fatal or str(error)
            else:
                self.acknowledged.add((message.partition(), int(message.value())))

        while not self.stop.is_set():
            partition = random.randrange(PARTITIONS)
            try:
                producer.produce("plain", value=str(numbers[partition]), partition=partition, on_delivery=delivered)
                numbers[partition] += 1
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
            if numbers[partition] % 30 == 0:
                # Some ten thousand records a second: more only take longer to read back.
                time.sleep(0.005)
        assert producer.flush(120) == 0, "records were never delivered"


class Transactional(threading.Thread):
    """Writes transactions over all partitions, and remembers what became of each, as far as it was told."""

    def __init__(self, bootstrap, stop):
        super().__init__(daemon=True)
        self.bootstrap, self.stop = bootstrap, stop
        self.committed, self.aborted, self.unknown, self.crash = set(), set(), set(), None

    def producer(self):
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "writer", "transaction.timeout.ms": 60000,
                             "socket.timeout.ms": 5000, "reconnect.backoff.max.ms": 200, "message.timeout.ms": 60000})
        while True:
            try:
                producer.init_transactions(30)
                return producer
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def run(self):
        try:
            self.work()
        except BaseException as error:  # reported by the main thread
            self.crash = error

    def work(self):
        producer, number = self.producer(), 0
        while not self.stop.is_set():
            number += 1
            abort = random.random() < 0.2
            try:
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    for copy in range(3):
                        producer.produce("transactional", value=f"{number} {copy}", partition=partition)
                    producer.poll(0)
                if abort:
                    producer.flush(30)
                    self.end(producer.abort_transaction)
                    self.aborted.add(number)
                else:
                    self.end(producer.commit_transaction)
                    self.committed.add(number)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    try:
                        self.end(producer.abort_transaction)
                        self.aborted.add(number)
                        continue
                    except KafkaException:
                        pass
                self.unknown.add(number)
                producer = self.producer()

    def end(self, call):
        while True:
            try:
                return call(30)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise


def read_all(bootstrap, name):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "isolation.level": "read_committed",
                         "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(name, p, 0) for p in range(PARTITIONS)])
    rows, ended, deadline = [[] for _ in range(PARTITIONS)], set(), time.time() + 60
    while len(ended) < PARTITIONS:
        assert time.time() < deadline, f"{name}: the end was not reached, and nothing came for a minute"
        for message in consumer.consume(1000, 1.0):
            deadline = time.time() + 60
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
            else:
                rows[message.partition()].append(message.value().decode())
    consumer.close()
    return rows


def wait_for_progress(plain, transactional):
    """A kill counts only where both writers got something done since the last one."""
    def done():
        return len(plain.acknowledged), len(transactional.committed) + len(transactional.aborted) + len(transactional.unknown)
    before, deadline = done(), time.time() + 60
    while any(now <= then for now, then in zip(done(), before)):
        assert time.time() < deadline, "no progress for a minute"
        assert transactional.crash is None, transactional.crash
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds-between", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    data, port = tempfile.mkdtemp(prefix="kill-broker-"), free_port()
    bootstrap = f"127.0.0.1:{port}"
    print(f"seed {arguments.seed}, data in {data}", flush=True)
    broker = Broker(arguments.command, port, data)
    broker.start()
    topics = [NewTopic(name, PARTITIONS, 1) for name in ("plain", "transactional")]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(topics).values():
        future.result(30)
    stop = threading.Event()
    plain, transactional = Idempotent(bootstrap, stop), Transactional(bootstrap, stop)
    plain.start()
    transactional.start()
    for kill in range(arguments.kills):
        wait_for_progress(plain, transactional)
        time.sleep(random.uniform(0, 2) * arguments.seconds_between)
        broker.kill()
        time.sleep(random.uniform(0, 0.3))
        broker.start()
    time.sleep(2 * arguments.seconds_between)
    stop.set()
    plain.join(180)
    transactional.join(180)
    assert not plain.is_alive() and not transactional.is_alive(), "a writer hangs"
    if transactional.crash:
        raise transactional.crash
    # Settles what was left open.
    transactional.producer()

    rows = read_all(bootstrap, "plain")
    for partition, row in enumerate(rows):
        numbers = [int(value) for value in row]
        twice = [number for number, count in Counter(numbers).items() if count > 1]
        assert not twice, f"plain-{partition}: written twice: {twice[:5]}"
        assert numbers == sorted(numbers), f"plain-{partition}: out of order"
        lost = {n for p, n in plain.acknowledged if p == partition} - set(numbers)
        assert not lost, f"plain-{partition}: acknowledged and lost: {sorted(lost)[:5]} and {len(lost)} in all"
    assert plain.failed == 0, f"{plain.failed} records failed, the first: {plain.fatal}"

    counts = Counter()
    for partition, row in enumerate(read_all(bootstrap, "transactional")):
        order = [int(value.split()[0]) for value in row]
        assert order == sorted(order), f"transactional-{partition}: out of order"
        counts.update((int(value.split()[0]), partition, value.split()[1]) for value in row)
    twice = [what for what, count in counts.items() if count > 1]
    assert not twice, f"read twice: {twice[:5]}"
    found = Counter(number for number, _, _ in counts)
    torn = {number: count for number, count in found.items() if count != 3 * PARTITIONS}
    assert not torn, f"torn transactions: {torn}"
    lost = transactional.committed - set(found)
    assert not lost, f"committed and lost: {sorted(lost)[:5]}"
    risen = transactional.aborted & set(found)
    assert not risen, f"aborted, and read: {sorted(risen)[:5]}"

    broker.kill()
    if not arguments.keep:
        shutil.rmtree(data)
    print(f"{arguments.kills} kills: {len(plain.acknowledged)} records acknowledged, all there once and in order; "
          f"{len(transactional.committed)} transactions committed, all whole; {len(transactional.aborted)} aborted, none seen; "
          f"{len(transactional.unknown)} unknown, of which {len(transactional.unknown & set(found))} committed")


main()
