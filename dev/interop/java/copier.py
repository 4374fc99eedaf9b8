#!/usr/bin/env python3
"""Kafka's TransactionalMessageCopier with random aborts, under SIGKILL of the copiers and of the broker.

Each of two copiers reads a partition of numbered records and writes them, with its offsets in the same transactions, to the same partition of
the output. Again and again one of them or the broker is killed and started again, until both have come to the end. What is committed in the output must be the
input: each record once, those of a partition in their order.
"""

import json
import subprocess
import sys
import threading
import time

from world import judge, options_from, until

PARTITIONS = 2
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"


class Copier:
    def __init__(self, world, partition, options):
        self.world, self.partition = world, partition
        group = ["--group-mode", "--use-group-metadata"] if options.group_mode else ["--use-group-metadata"]
        self.arguments = ["--broker-list", world.broker.address, "--input-topic", f"{world.name}-input", "--input-partition", partition,
                          "--output-topic", f"{world.name}-output", "--consumer-group", f"{world.name}-copiers", "--transaction-size", 20,
                          "--transactional-id", f"{world.name}-copier-{partition}", "--transaction-timeout", 10000, "--enable-random-aborts", *group]
        self.process, self.begun = None, False

    def start(self):
        self.begun = False
        self.process = self.world.java(COPIER, *self.arguments, name=f"copier-{self.partition}", stdout=subprocess.PIPE)
        threading.Thread(target=self.read, args=(self.process,), daemon=True).start()

    def read(self, process):
        """It prints its state after each transaction."""
        for line in process.stdout:
            self.begun = self.begun or process is self.process and line.startswith("{") and json.loads(line)["consumed"] > 0

    def is_done(self):
        status = self.process.poll()
        if status is None:
            return False
        # One that was cut off by a broker killed under it may end with an error: it is started again, as its operator would.
        if status != 0:
            self.world.say(f"copier {self.partition} ended by itself with {status}: it is started again")
            self.start()
            return False
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()


def suite(world, options):
    world.call("Pipelines", "create", world.broker.address, f"{world.name}-input={PARTITIONS}", f"{world.name}-output={PARTITIONS}")
    now = int(time.time() * 1000)
    lines = [f"{world.name}-input\t{partition}\t{now}\t\t{partition}:{n}" for n in range(options.records) for partition in range(PARTITIONS)]
    # Without transactions: with a marker as the last of its input a copier started anew waits for a record that never comes.
    world.call("Pipelines", "load", world.broker.address, "-", stdin="\n".join([*lines, "", ""]), name="loader")
    copiers = [Copier(world, partition, options) for partition in range(PARTITIONS)]
    for copier in copiers:
        copier.start()
    kills = 0
    deadline = time.monotonic() + options.seconds
    while not all([copier.is_done() for copier in copiers]):
        assert time.monotonic() < deadline, f"the copiers are not done after {options.seconds} s"
        if kills == options.kills:
            time.sleep(0.2)
            continue
        # Amid its work: one that only begins has nothing to lose.
        until("a copier works", lambda: all([copier.is_done() for copier in copiers]) or any(copier.begun for copier in copiers), 60)
        time.sleep(world.random.uniform(0.0, 0.3))
        running = [copier for copier in copiers if copier.begun and copier.process.poll() is None]
        if not running:
            continue
        kills += 1
        if kills % 3 == 0 and world.broker.can_be_killed:
            world.say("kill the broker")
            world.broker.kill()
            time.sleep(world.random.uniform(0.0, 0.3))
            world.broker.start()
        else:
            victim = world.random.choice(running)
            world.say(f"kill copier {victim.partition}")
            victim.kill()
            victim.start()
    # A fast machine may be done before.
    world.expect("kills amid the work", True, kills >= options.kills // 2)
    printed = world.call("Pipelines", "read", world.broker.address, "read_committed", 20, f"{world.name}-output={options.records * PARTITIONS}", name="reader")
    values = [line.split("\t")[5] for line in printed.splitlines()]
    for partition in range(PARTITIONS):
        world.expect(f"what was copied of partition {partition}", [f"{partition}:{n}" for n in range(options.records)],
                     [value for value in values if value.startswith(f"{partition}:")])
    written = world.call("Pipelines", "read", world.broker.address, "read_uncommitted", 0, f"{world.name}-output", name="reader").count("\n")
    world.say(f"{len(values)} records copied once, {written - len(values)} of aborted transactions not seen, {kills} kills")
    world.expect("some transaction was aborted", True, written > len(values))


def more(parser):
    parser.add_argument("--records", type=int, default=12000, help="of each partition")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=240, help="time-out of the whole")
    parser.add_argument("--group-mode", action="store_true", help="the copiers share the partitions as a group; a killed one is missed after 45 s")


if __name__ == "__main__":
    judge(suite, options_from(sys.argv[1:], __doc__, more))
