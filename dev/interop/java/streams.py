#!/usr/bin/env python3
"""Kafka Streams of the JVM, exactly_once_v2, under SIGKILL of its instances and of the broker: each key's output is compared whole.

Two instances, of two threads each, run the four pipelines of src/Pipelines.java. Their input is written in transactions, every fourth of
which is aborted and would spoil everything if it were read. In each round input comes, and somewhere amid it an instance, both,
or the broker is killed and started again. In the end a Java consumer reads what is committed, and it must be what this file computes:
every update of every word's count and of every window's sum in order, each closed window once, each order joined once, and each pair once.
"""

import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict

from world import judge, options_from, until

PARTITIONS = 3
# The records' time begins so long before now: topics keep only what is younger than a week, and refuse what is an hour ahead.
BEFORE_MS = 1_200_000
WINDOW_MS = 10_000
JOIN_MS = 3_000
WORDS = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "lime", "maple", "oak", "pine", "rowan", "spruce", "willow", "yew"]
CUSTOMERS = 40
# Per round.
LINES, EVENTS, ORDERS, SIDE = 150, 400, 300, 150
RECORDS_IN_TRANSACTION = 50


class Input:
    """What is written, in order, and what must come of it."""

    def __init__(self, name, random):
        self.name, self.random = name, random
        self.start_ms = self.time_ms = int(time.time() * 1000) - BEFORE_MS
        self.number = 0
        self.counts = Counter()
        self.running = defaultdict(int)
        self.sums = defaultdict(list)
        self.enriched = defaultdict(list)
        self.left, self.right = defaultdict(list), defaultdict(list)

    def customers(self):
        return [(f"{self.name}-customers", "", self.start_ms - 1000, f"c{n}", f"customer-{n}") for n in range(CUSTOMERS)]

    def round(self):
        kinds = [self.line] * LINES + [self.event] * EVENTS + [self.order] * ORDERS + [self.one_left] * SIDE + [self.one_right] * SIDE
        self.random.shuffle(kinds)
        records = []
        for kind in kinds:
            # Time never goes back, so that no record is late.
            self.time_ms += self.random.randrange(0, 60)
            self.number += 1
            topic, key, value = kind()
            records.append((f"{self.name}-{topic}", "", self.time_ms, key, value))
        return records

    def line(self):
        words = self.random.choices(WORDS, k=self.random.randrange(1, 6))
        self.counts.update(words)
        return "lines", "", " ".join(words)

    def event(self):
        key, value = f"e{self.random.randrange(12)}", self.random.randrange(1, 1000)
        window = f"{key}@{self.time_ms // WINDOW_MS * WINDOW_MS}"
        self.running[window] += value
        self.sums[window].append(str(self.running[window]))
        return "events", key, str(value)

    def order(self):
        key = f"c{self.random.randrange(CUSTOMERS)}"
        self.enriched[key].append(f"order-{self.number}|customer-{key[1:]}")
        return "orders", key, f"order-{self.number}"

    def one_left(self):
        key = f"k{self.random.randrange(8)}"
        self.left[key].append((self.time_ms, f"l{self.number}"))
        return "left", key, f"l{self.number}"

    def one_right(self):
        key = f"k{self.random.randrange(8)}"
        self.right[key].append((self.time_ms, f"r{self.number}"))
        return "right", key, f"r{self.number}"

    def spoiler(self):
        """For transactions that are aborted: as late as nothing else, so that whatever comes after it would be late."""
        topic = self.random.choice(["lines", "events", "orders", "left", "right", "customers"])
        return f"{self.name}-{topic}", "", self.start_ms + 2 * BEFORE_MS, f"c{self.random.randrange(CUSTOMERS)}", "666"

    def close_windows(self):
        return [(f"{self.name}-events", str(partition), self.time_ms + 100 * WINDOW_MS, f"closes{partition}", "0")
                for partition in range(PARTITIONS)]

    def expected(self):
        """For each topic the values of each key, in order where the order is known."""
        closing = {f"closes{partition}@{(self.time_ms + 100 * WINDOW_MS) // WINDOW_MS * WINDOW_MS}": ["0"] for partition in range(PARTITIONS)}
        pairs = defaultdict(list)
        for key, lefts in self.left.items():
            for at, left in lefts:
                pairs[key] += [f"{left}|{right}" for when, right in self.right[key] if abs(at - when) <= JOIN_MS]
        return {
            "counts": {word: [str(n) for n in range(1, count + 1)] for word, count in self.counts.items()},
            "sums": {**self.sums, **closing},
            "finals": {window: [str(total)] for window, total in self.running.items()},
            "enriched": dict(self.enriched),
            "pairs": {key: sorted(of_key) for key, of_key in pairs.items() if of_key},
        }


class Loader:
    """Writes records in transactions; every fourth is aborted and holds spoilers."""

    def __init__(self, world, source):
        self.source, self.transactions = source, 0
        self.process = world.java("Pipelines", "load", world.broker.address, f"{world.name}-loader", name="loader",
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def transaction(self, records, end=""):
        for record in records:
            self.process.stdin.write("\t".join(map(str, record)) + "\n")
        self.process.stdin.write(end + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == "ok\n", f"the loader said {answer!r}"

    def write(self, records, pause=0.0):
        for begin in range(0, len(records), RECORDS_IN_TRANSACTION):
            self.transactions += 1
            if self.transactions % 4 == 0:
                self.transaction([self.source.spoiler() for _ in range(10)], "abort")
            self.transaction(records[begin:begin + RECORDS_IN_TRANSACTION])
            time.sleep(pause)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


class Instance:
    def __init__(self, world, number, settings):
        self.world, self.name, self.settings = world, f"instance-{number}", settings
        self.lines, self.process = [], None

    def start(self):
        self.lines = lines = []
        self.process = self.world.java("Pipelines", "run", self.world.broker.address, self.world.name, self.world.scratch / self.name, *self.settings,
                                       name=self.name, heap="224m", stdout=subprocess.PIPE)
        threading.Thread(target=lambda out: lines.extend(line.strip() for line in out), args=(self.process.stdout,), daemon=True).start()

    def is_running(self):
        died = [line for line in self.lines if line.startswith("died")]
        assert not died and self.process.poll() is None, f"{self.name} ended by itself: {died or self.lines}"
        states = [line for line in self.lines if line.startswith("state")]
        return bool(states) and states[-1] == "state RUNNING"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) in (0, 143), f"{self.name} ended with {self.process.returncode}"
        # The thread that reads may be a little behind.
        until(f"{self.name} says that it is closed", lambda: "closed" in self.lines, 5)


def suite(world, options):
    topics = [f"{world.name}-{topic}={PARTITIONS}" for topic in
              ("lines", "counts", "events", "sums", "finals", "orders", "customers", "enriched", "left", "right", "pairs")]
    world.call("Pipelines", "create", world.broker.address, *topics)
    source = Input(world.name, world.random)
    loader = Loader(world, source)
    loader.write(source.customers())
    instances = [Instance(world, number, options.set) for number in range(2)]
    for instance in instances:
        instance.start()
    victims = ["one", "one", "broker", "both", "broker and one"] if world.broker.can_be_killed else ["one", "both"]
    for number in range(options.rounds):
        until("all instances run", lambda: all([instance.is_running() for instance in instances]), 120)
        feeding = threading.Thread(target=loader.write, args=(source.round(), 0.05), daemon=True)
        feeding.start()
        if number < options.rounds - 1:
            time.sleep(world.random.uniform(0.3, 2.0))
            kill(world, victims[number % len(victims)], instances)
        feeding.join(timeout=150)
        assert not feeding.is_alive(), "the loader hangs"
        world.say(f"round {number + 1} of {options.rounds}: written")
    loader.write(source.close_windows())
    loader.end()
    compare(world, source.expected(), instances)


def kill(world, victim, instances):
    world.say(f"kill {victim}")
    chosen = instances if victim == "both" else [world.random.choice(instances)] if "one" in victim else []
    if "broker" in victim:
        world.broker.kill()
    for instance in chosen:
        instance.kill()
    time.sleep(world.random.uniform(0.0, 0.5))
    if "broker" in victim:
        world.broker.start()
    for instance in chosen:
        instance.start()


def compare(world, expected, instances):
    counts = {topic: sum(map(len, keys.values())) for topic, keys in expected.items()}
    wanted = [f"{world.name}-{topic}={count}" for topic, count in counts.items()]
    # Until it is all there, then once more when nothing can be added.
    world.call("Pipelines", "read", world.broker.address, "read_committed", 90, *wanted, name="reader")
    for instance in instances:
        instance.close()
    found = {topic: defaultdict(list) for topic in expected}
    for line in world.call("Pipelines", "read", world.broker.address, "read_committed", 0, *wanted, name="reader").splitlines():
        topic, _partition, _offset, _timestamp, key, value = line.split("\t")
        found[topic.rsplit("-", 1)[1]][key].append(value)
    found["pairs"] = {key: sorted(values) for key, values in found["pairs"].items()}
    for topic in expected:
        world.expect(f"{topic}: keys", sorted(expected[topic]), sorted(found[topic]))
        for key in expected[topic].keys() & found[topic].keys():
            world.expect(f"{topic}: what came of {key}", expected[topic][key], found[topic][key])
    written = world.call("Pipelines", "read", world.broker.address, "read_uncommitted", 0, *wanted, name="reader").count("\n")
    aborted = written - sum(counts.values())
    world.say(f"{sum(counts.values())} records of output are right, and {aborted} of aborted transactions are not seen")
    world.expect("some transaction was killed in its midst", True, aborted > 0)


def more(parser):
    parser.add_argument("--rounds", type=int, default=6, help="one kill between two of them")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting of Kafka Streams")


if __name__ == "__main__":
    judge(suite, options_from(sys.argv[1:], __doc__, more))
