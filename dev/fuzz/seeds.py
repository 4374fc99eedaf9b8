#!/usr/bin/env python3
"""Writes the first inputs of each target into `corpus/`, from what was recorded of Apache Kafka: conversations and segments. What the
fuzzer finds beyond them is kept beside them, by hand, when it found a fault or a new corner."""
import gzip
import hashlib
import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTDATA = HERE.parent.parent / "crates" / "protocol" / "testdata"
# Longer ones teach the fuzzer little.
INPUT_BYTES_MAX = 1000
random.seed(1)


def keep(target, data, of=""):
    if len(data) <= INPUT_BYTES_MAX:
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{of}{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)


def messages():
    """One request and one answer of each API and version, with and without the tag byte that some headers end with."""
    seen = set()
    for path in sorted((TESTDATA / "conversations").glob("*.gz")):
        asked = {}
        for line in gzip.open(path, "rt"):
            row = json.loads(line)
            if "x" not in row:
                continue
            frame = bytes.fromhex(row["x"])
            if row["d"] == ">":
                api, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
                asked[row["c"], frame[4:8]] = api, version
                client_bytes = max(0, int.from_bytes(frame[8:10], "big", signed=True))
                kind, body = 0, frame[10 + client_bytes:]
            else:
                api, version = asked.get((row["c"], frame[:4]), (None, None))
                kind, body = 1, frame[4:]
            if api is None or (api, version, kind) in seen or len(body) > INPUT_BYTES_MAX:
                continue
            seen.add((api, version, kind))
            head = bytes([api, version, kind])
            if kind == 0 and version % 4 == 0:
                keep("messages", bytes([api, version, 2]) + frame)
            keep("messages", head + body, f"{api:02}-{version:02}-")
            if body[:1] == b"\0":
                keep("messages", head + body[1:], f"{api:02}-{version:02}-")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def batches_of(segment):
    at = 0
    while at + 61 <= len(segment):
        size = 12 + int.from_bytes(segment[at + 8:at + 12], "big")
        yield segment[at:at + size]
        at += size


def records_of(batch):
    """Key and value of each record of an uncompressed batch."""
    if int.from_bytes(batch[21:23], "big") & 7:
        return
    at = 61
    for _ in range(int.from_bytes(batch[57:61], "big")):
        length, at = varint(batch, at)
        end, at = at + length, at + 1
        _, at = varint(batch, at)
        _, at = varint(batch, at)
        fields = []
        for _ in range(2):
            length, at = varint(batch, at)
            fields.append(None if length < 0 else batch[at:at + length])
            at += max(length, 0)
        yield fields
        at = end


def segments():
    shapes, records = set(), {}
    for path in sorted((TESTDATA / "segments").glob("*.log.gz")):
        segment = gzip.open(path).read()
        keep("files", b"\0" + segment)
        for batch in batches_of(segment):
            shape = (batch[21:23], batch[57:61], len(batch) // 50)
            if shape not in shapes:
                shapes.add(shape)
                keep("batches", b"\1" + batch)
                keep("files", b"\0" + batch)
            for key, value in records_of(batch):
                if path.name.startswith("__") and key is not None:
                    group = path.name.startswith("__consumer")
                    shape = (group, key[:2], value and value[:2], len(value or b"") // 20)
                    if len(records.setdefault(shape, [])) < 3:
                        records[shape].append(key)
                        mode = int(group) | (2 if value is None else 0)
                        keep("coordinator_records", bytes([mode, len(key)]) + key + (value or b""))


def small_files():
    # Kafka's layouts: an index of aborted transactions, and a snapshot of producers (its checksum need not be right).
    entry = bytes(2) + b"".join(number.to_bytes(8, "big") for number in (7, 3, 9, 12))
    for count in range(4):
        keep("files", b"\1" + entry * count)
        keep("files", b"\2" + b"\0\1" + bytes(4) + count.to_bytes(4, "big") + bytes(60) * count)
    keep("files", b"\1" + entry[:-5])


def data_folders():
    """Changes of four bytes each: file, place, value."""
    keep("data_folder", b"")
    for file in range(12):
        for mend in (0, 0x80):
            for place in (0, 8, 20, 44, 60, 100, 4096 + 60, 0xFFFF):
                changes = bytes([mend | file]) + place.to_bytes(2, "big") + bytes([random.randrange(256)])
                if random.random() < 0.4:
                    keep("data_folder", changes)


def clients():
    """What members of a group tell each other, and what stands in stores."""
    def number(value, size=4):
        return value.to_bytes(size, "big", signed=True)

    def text(value):
        return number(len(value), 2) + value.encode()

    def array(items):
        return number(len(items)) + b"".join(items)

    def partitions(topic, *indexes):
        return text(topic) + array([number(index) for index in indexes])

    for version in range(4):
        for topics in ([], ["x"], ["in", "out"]):
            said = number(version, 2) + array([text(topic) for topic in topics]) + number(-1)
            said += array([partitions(topic, 0, 2) for topic in topics]) if version >= 1 else b""
            said += number(5) if version >= 2 else b""
            said += text("rack") if version >= 3 else b""
            keep("clients", b"\0" + said)
            given = number(version, 2) + array([partitions(topic, 0, 1) for topic in topics])
            keep("clients", b"\1" + given + number(2) + b"ab")
    for generation in (b"", number(3)):
        keep("clients", b"\2" + array([partitions("x", 0, 1), partitions("gone", 7)]) + generation)
        keep("clients", b"\2" + array([partitions("x", 0, 0, -1, 99)]) + generation)
    tasks = array([number(0) + number(1), number(1) + number(0)])
    keep("clients", b"\3\2" + text("process") + tasks + array([]) + number(0))
    keep("clients", b"\3\2" + text("") + array([]) + tasks + number(1))
    keep("clients", b"\4\2\0" + tasks)
    keep("clients", b"\4\2\1")
    keep("clients", b"\5\1" + bytes(range(16)) + number(9, 8) + number(-1) + number(1_000, 8) + b"\2")
    for value in (b"", b"word", b"\xff", number(7), number(-7, 8)):
        keep("clients", b"\6" + value)
        keep("clients", b"\7" + value)
    for frames in (number(3) + b"abc", number(0) + number(1) + b"a", number(101), number(-1), number(2) + b"a"):
        keep("messages", bytes([3, 9, 3]) + frames)


def configurations():
    for text in (
        "num.partitions=4", "num.partitions = four", "num.partitons=4", "# nothing", "key", "=1", "a\\", "a\\u00e=1",
        "group.min.session.timeout.ms : 500\nlog.retention.ms -1\n! more\n", "log.cleanup.policy=compact,\\\n  delete\n",
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\nadvertised.listeners=PLAINTEXT://[::1]:1\n",
        "listeners=PLAINTEXT://:99999", "auto.create.topics.enable=perhaps", "compression.type=zstd\ncompression.type=\n",
        "transaction.max.timeout.ms=-5", "broker.id=\\u0031\\u", "process.roles=broker,controller\nnode.id=1\n",
    ):
        keep("configuration", text.encode())


for part in (messages, segments, small_files, data_folders, clients, configurations):
    part()
for folder in sorted((HERE / "corpus").iterdir()):
    print(folder.name, len(list(folder.iterdir())))
