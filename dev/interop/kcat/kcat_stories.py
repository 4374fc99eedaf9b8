"""kcat, the command line over an older librdkafka: one transaction per input, balanced consumers, metadata and offsets by time."""
import json
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))
from story import ADDRESS, RUN, equal, story, tell, until  # noqa: E402


def kcat(*arguments, typed=None, seconds=60):
    done = subprocess.run(["kcat", "-b", ADDRESS, *arguments], input=typed, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"kcat {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-300:]}"
    return done.stdout


def topic(name):
    """kcat cannot make a topic; the broker does when it is asked for it."""
    full = f"{name}-{RUN}"
    until("the topic", lambda: [found for found in json.loads(kcat("-L", "-J", "-t", full))["topics"] if found["partitions"]])
    return full


def read(name, isolation="read_committed", *more):
    """(partition, offset, key, value) of everything, to the end."""
    printed = kcat("-C", "-t", name, "-e", "-q", "-o", "beginning", "-X", f"isolation.level={isolation}", "-f", "%p %o %k %s\n", *more)
    return sorted((int(p), int(o), k, v) for p, o, k, v in (line.split(" ", 3) for line in printed.splitlines()))


def values(name, isolation="read_committed"):
    return [value for _, _, _, value in read(name, isolation)]


@story
def idempotent_records_come_back_once_in_order_in_every_codec():
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        name = topic(f"plain-{codec}")
        lines = "".join(f"k{i % 7}:{i}\n" for i in range(1000))
        kcat("-P", "-t", name, "-p", "1", "-K", ":", "-z", codec, "-X", "enable.idempotence=true", typed=lines)
        equal(read(name), [(1, i, f"k{i % 7}", str(i)) for i in range(1000)], codec)


@story
def a_transaction_is_seen_when_its_input_ends_and_not_before():
    name = topic("transactions")
    producer = subprocess.Popen(["kcat", "-b", ADDRESS, "-P", "-t", name, "-p", "0", "-X", f"transactional.id=kcat-{RUN}", "-X", "linger.ms=1"],
                                stdin=subprocess.PIPE, text=True)
    # It reads its input in large pieces: not all of what it was given is sent before the input ends.
    producer.stdin.write("".join(f"{i}\n" for i in range(5000)))
    producer.stdin.flush()
    until("some records", lambda: len(values(name, "read_uncommitted")) > 100)
    equal(values(name), [])
    producer.stdin.close()
    equal(producer.wait(60), 0)
    until("the commit", lambda: values(name) == [str(i) for i in range(5000)], 10)


@story
def a_killed_kcat_s_transaction_is_aborted_by_its_heir():
    name, id = topic("killed"), f"killed-{RUN}"
    victim = subprocess.Popen(["kcat", "-b", ADDRESS, "-P", "-t", name, "-p", "0", "-X", f"transactional.id={id}", "-X", "linger.ms=1"],
                              stdin=subprocess.PIPE, text=True)
    victim.stdin.write("of the killed\n" * 2000)
    victim.stdin.flush()
    until("its record", lambda: "of the killed" in values(name, "read_uncommitted"))
    victim.kill()
    victim.wait()
    kcat("-P", "-t", name, "-p", "0", "-X", f"transactional.id={id}", typed="of its heir\n")
    until("the commit", lambda: values(name) == ["of its heir"], 10)
    equal(set(values(name, "read_uncommitted")), {"of the killed", "of its heir"})


@story
def balanced_consumers_share_and_whoever_stays_takes_over():
    name, group = topic("group"), f"group-{RUN}"
    for partition in range(4):
        kcat("-P", "-t", name, "-p", str(partition), typed="".join(f"{i}\n" for i in range(partition, 100, 4)))
    printed = [Path(f"{group}-{i}.out") for i in range(2)]
    members = []
    for out in printed:
        members.append(subprocess.Popen(
            ["kcat", "-b", ADDRESS, "-G", group, "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-X",
             "heartbeat.interval.ms=500", "-X", "auto.commit.interval.ms=200", "-u", "-f", "%p %s\n", name],
            stdout=open(out, "w"), stderr=open(f"{out}.log", "w"), text=True))

    def found(which):
        return [tuple(line.split()) for line in printed[which].read_text().splitlines()]

    until("all of it", lambda: {int(value) for which in (0, 1) for _, value in found(which)} == set(range(100)), 60)

    def assigned(which):
        """The partitions of the last assignment that it told of."""
        told = [line for line in Path(f"{printed[which]}.log").read_text().splitlines() if "assigned:" in line]
        return told[-1].count(f"{name} [") if told else 0

    until("two each", lambda: (assigned(0), assigned(1)) == (2, 2), 60)
    members[0].terminate()
    members[0].wait(30)
    until("all four", lambda: assigned(1) == 4, 60)
    for partition in range(4):
        kcat("-P", "-t", name, "-p", str(partition), typed=f"late-{partition}\n")
    until("what came later", lambda: {value for _, value in found(1) if "late" in value} == {f"late-{i}" for i in range(4)}, 60)
    members[1].terminate()
    members[1].wait(30)


@story
def metadata_and_offsets_by_time_are_right():
    name = topic("times")
    told = json.loads(kcat("-L", "-J", "-t", name))
    equal([(found["topic"], [(part["partition"], part["leader"], len(part["replicas"])) for part in found["partitions"]]) for found in told["topics"]],
          [(name, [(p, told["brokers"][0]["id"], 1) for p in range(4)])])
    kcat("-P", "-t", name, "-p", "2", typed="first\n")
    [line] = kcat("-C", "-t", name, "-p", "2", "-o", "beginning", "-e", "-q", "-f", "%T\n").splitlines()
    timestamp = int(line)
    for at, offset in ((timestamp, 0), (timestamp + 1, -1), (0, 0)):
        equal(kcat("-Q", "-t", f"{name}:2:{at}").strip(), f"{name} [2] offset {offset}", at)


if __name__ == "__main__":
    tell()
