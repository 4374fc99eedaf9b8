#!/usr/bin/env python3
"""How long a broker takes to start with many transactional ids and groups.

  starts.py ATONCE [IDS [GROUPS]]      a release binary; 10,000 of both unless told otherwise

A folder is filled through the protocol: each transactional id is initialised, each group commits offsets of ten partitions. The broker is then
killed and started, killed and started, five times; printed is the time from its start to the line that it listens, of each.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

PARTITIONS = 10
IN_FLIGHT = 100


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def frame(key, version, correlation_id, body):
    head = struct.pack(">hhi", key, version, correlation_id) + text("starts")
    return struct.pack(">i", len(head) + len(body)) + head + body


def init_producer_id(number):
    return frame(22, 1, number, text(f"transactional-id-{number}") + struct.pack(">i", 60000))


def commit_offsets(number):
    offsets = b"".join(struct.pack(">iqi", partition, number, -1) + text("") for partition in range(PARTITIONS))
    topic = text("t") + struct.pack(">i", PARTITIONS) + offsets
    return frame(8, 7, number, text(f"group-{number}") + struct.pack(">i", -1) + text("") + struct.pack(">h", -1) + struct.pack(">i", 1) + topic)


def create_topic():
    topic = text("t") + struct.pack(">ih", PARTITIONS, 1) + struct.pack(">ii", 0, 0)
    return frame(19, 4, 0, struct.pack(">i", 1) + topic + struct.pack(">i", 10000) + b"\0")


def received(stream):
    length = struct.unpack(">i", stream.read(4))[0]
    return stream.read(length)


def ask_all(address, requests):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as answers:
        waiting = 0
        for request in requests:
            connection.sendall(request)
            waiting += 1
            if waiting == IN_FLIGHT:
                received(answers)
                waiting -= 1
        return [received(answers) for _ in range(waiting)]


def start(atonce, folder):
    began = time.monotonic()
    broker = subprocess.Popen([atonce, "broker", "--data-dir", folder, "--listen", "127.0.0.1:0", "--durability", "os"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    address = broker.stdout.readline().split()[-1]
    return broker, address, time.monotonic() - began


def kill(broker):
    broker.send_signal(signal.SIGKILL)
    broker.wait()


def main():
    atonce = sys.argv[1]
    ids, groups = (int(word) for word in (sys.argv[2:] + ["10000", "10000"][len(sys.argv) - 2:])[:2])
    with tempfile.TemporaryDirectory(prefix="atonce-starts-") as folder:
        data = os.path.join(folder, "data")
        broker, address, empty = start(atonce, data)
        ask_all(address, [create_topic()])
        began = time.monotonic()
        last = ask_all(address, (init_producer_id(number) for number in range(ids)))
        assert all(answer[8:10] == b"\0\0" for answer in last), "refused"
        ask_all(address, (commit_offsets(number) for number in range(groups)))
        print(f"{ids} transactional ids and {groups} groups with {PARTITIONS} offsets each, written in {time.monotonic() - began:.1f} s")
        print(f"an empty folder: {empty * 1000:.0f} ms")
        for _ in range(5):
            kill(broker)
            broker, _, taken = start(atonce, data)
            print(f"started in {taken * 1000:.0f} ms")
        kill(broker)


if __name__ == "__main__":
    main()
