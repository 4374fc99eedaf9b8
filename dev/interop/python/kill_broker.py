#!/usr/bin/env python3
"""Kills a broker with SIGKILL again and again while a foreign client writes to it, then reads everything back.

usage: kill_broker.py [--kills N] [--seconds-between S] [--seed N] --writer COMMAND -- BROKER COMMAND…

BROKER COMMAND starts the broker in the foreground; `{port}` and `{data}` in it are replaced. The writer is a process of its own, in
any language: COMMAND with the broker's address after it. It writes to two topics of three partitions until its standard input ends:

* to `plain`, idempotently, the numbers 0, 1, 2 … of each partition in order;
* to `transactional`, transaction by transaction, `N 0`, `N 1` and `N 2` into every partition, N rising; it commits most and aborts some.

It tells what it was told, a line each: `acknowledged PARTITION NUMBER`, `failed REASON`, `committed N`, `aborted N`, `unknown N` (it
could not find out), and ends with status 0. Once no transaction is open any more it is asserted, reading with librdkafka:

* every record that was acknowledged is there once, and each partition's numbers rise; none was given up;
* of every transaction whose commit was acknowledged, all records are there, once; of every other one all or none;
* of a transaction that was aborted, nothing.
"""
import argparse
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import traceback
from collections import Counter

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

PARTITIONS = 3
# A client may wait out a request that died with the broker.
PROGRESS_LIMIT_SECONDS = 90


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    def __init__(self, command, port, data):
        self.command = [part.replace("{port}", str(port)).replace("{data}", data) for part in command]
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


class Writer:
    """The foreign process, and what it says it was told."""

    def __init__(self, command, address):
        self.acknowledged, self.failed = set(), []
        self.committed, self.aborted, self.unknown = set(), set(), set()
        self.process = subprocess.Popen([*command, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        for line in self.process.stdout:
            match line.split():
                case ["acknowledged", partition, number]:
                    self.acknowledged.add((int(partition), int(number)))
                case ["committed" | "aborted" | "unknown" as what, number]:
                    getattr(self, what).add(int(number))
                case ["failed", *reason]:
                    self.failed.append(" ".join(reason))
                case _:
                    self.failed.append(f"said {line!r}")

    def done(self):
        return len(self.acknowledged), len(self.committed)

    def wait_for_progress(self):
        """A kill counts only where both kinds of writing got something done since the last one."""
        before, deadline = self.done(), time.time() + PROGRESS_LIMIT_SECONDS
        while any(now <= then for now, then in zip(self.done(), before)):
            assert self.process.poll() is None, f"the writer ended by itself with {self.process.returncode}"
            assert time.time() < deadline, f"no progress for {PROGRESS_LIMIT_SECONDS} s after {self.done()} acknowledged and committed"
            time.sleep(0.01)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(180) == 0, f"the writer ended with {self.process.returncode}"
        self.listener.join()


def read_all(address, name):
    consumer = Consumer({"bootstrap.servers": address, "group.id": "check", "isolation.level": "read_committed",
                         "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(name, p, 0) for p in range(PARTITIONS)])
    rows, ended, deadline = [[] for _ in range(PARTITIONS)], set(), time.time() + 60
    while len(ended) < PARTITIONS:
        assert time.time() < deadline, f"{name}: the end was not reached, and nothing came for a minute"
        for message in consumer.consume(1000, 0.2):
            deadline = time.time() + 60
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
            else:
                rows[message.partition()].append(message.value().decode())
    consumer.close()
    return rows


def wait_until_all_is_settled(admin):
    """A transaction that a writer could not end itself is aborted when its time is up."""
    parts = [TopicPartition("transactional", p) for p in range(PARTITIONS)]

    def ends(isolation):
        answer = admin.list_offsets({part: OffsetSpec.latest() for part in parts}, isolation_level=isolation, request_timeout=30)
        return [answer[part].result(30).offset for part in parts]

    deadline = time.time() + 90
    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
        assert time.time() < deadline, "a transaction is still open"
        time.sleep(0.2)


def judge(address, writer):
    for partition, row in enumerate(read_all(address, "plain")):
        numbers = [int(value) for value in row]
        twice = [number for number, count in Counter(numbers).items() if count > 1]
        assert not twice, f"plain-{partition}: written twice: {twice[:5]}"
        assert numbers == sorted(numbers), f"plain-{partition}: out of order"
        lost = {n for p, n in writer.acknowledged if p == partition} - set(numbers)
        assert not lost, f"plain-{partition}: acknowledged and lost: {sorted(lost)[:5]} and {len(lost)} in all"
    assert not writer.failed, f"{len(writer.failed)} failures, the first: {writer.failed[0]}"

    counts = Counter()
    for partition, row in enumerate(read_all(address, "transactional")):
        order = [int(value.split()[0]) for value in row]
        assert order == sorted(order), f"transactional-{partition}: out of order"
        counts.update((int(value.split()[0]), partition, value.split()[1]) for value in row)
    twice = [what for what, count in counts.items() if count > 1]
    assert not twice, f"read twice: {twice[:5]}"
    found = Counter(number for number, _, _ in counts)
    torn = {number: count for number, count in found.items() if count != 3 * PARTITIONS}
    assert not torn, f"torn transactions: {torn}"
    lost = writer.committed - set(found)
    assert not lost, f"committed and lost: {sorted(lost)[:5]}"
    risen = writer.aborted & set(found)
    assert not risen, f"aborted, and read: {sorted(risen)[:5]}"
    return (f"{len(writer.acknowledged)} records acknowledged, all there once and in order; {len(writer.committed)} transactions "
            f"committed, all whole; {len(writer.aborted)} aborted, none seen; {len(writer.unknown)} unknown, of which "
            f"{len(writer.unknown & set(found))} committed")


def kill_again_and_again(arguments, data):
    port = free_port()
    address = f"127.0.0.1:{port}"
    broker, writer = Broker(arguments.command, port, data), None
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("plain", "transactional")]).values():
            future.result(30)
        writer = Writer(shlex.split(arguments.writer), address)
        for _ in range(arguments.kills):
            writer.wait_for_progress()
            time.sleep(random.uniform(0, 2) * arguments.seconds_between)
            broker.kill()
            time.sleep(random.uniform(0, 0.3))
            broker.start()
        writer.wait_for_progress()
        writer.end()
        wait_until_all_is_settled(admin)
        return judge(address, writer)
    finally:
        if writer and writer.process.poll() is None:
            writer.process.kill()
        broker.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds-between", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--writer", required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    data, begin = tempfile.mkdtemp(prefix="kill-broker-"), time.monotonic()
    result = "PASS"
    try:
        note = kill_again_and_again(arguments, data)
        shutil.rmtree(data)
    except Exception as error:
        traceback.print_exc()
        result, note = "FAIL", f"seed {arguments.seed}, data in {data}: {error}"
    print(f"result\tall_is_there_after_{arguments.kills}_kills\t{result}\t{time.monotonic() - begin:.1f}\t{note}", flush=True)
    os._exit(0 if result == "PASS" else 1)


main()
