"""The stories that every client tells, over a small face that hides which client it is (`Face`)."""
from story import RUN, Victim, child, equal, ready_to_be_killed, story, until

TRANSACTION_TIMEOUT_MS = 2000
FACE = None


class Face:
    """What a client must do for the stories. Everything blocks; positions of records are (partition, value) and so on, as plain values.

    make_topic(name, partitions)
    producer(codec=None)                    with send(topic, partition, value, key=None, headers=[], timestamp=None), flush(), close()
    transactional(id, timeout_ms=60000)     the same, with begin(), send_offsets({partition: offset}, topic, member), commit(), abort()
    read(topic, partitions, isolation)      every record up to the end that this isolation can see, as `Record`
    end_offset(topic, partition, isolation)
    member(group, topic, instance=None)     with poll() -> [(partition, value)], commit(), assignment(), rebalances(), close()
    committed(group, topic, partitions)     [offset or None]
    """
    codecs = ()
    # What a fenced producer raises.
    fenced = ()


class Record:
    def __init__(self, partition, offset, key, value, headers, timestamp):
        self.partition, self.offset, self.key, self.value = partition, offset, key, value
        self.headers, self.timestamp = headers, timestamp


def topic(name, partitions=1):
    FACE.make_topic(f"{name}-{RUN}", partitions)
    return f"{name}-{RUN}"


def values(name, isolation="read_committed", partitions=1):
    return [record.value.decode() for record in FACE.read(name, partitions, isolation)]


def eventually(read, wanted):
    """Apache Kafka answers a commit before its markers are written; a reader may have to look again."""
    found = []

    def as_wanted():
        found[:] = [read()]
        return found == [wanted]

    until(lambda: f"found {found}, wanted {wanted}"[:600], as_wanted, 20)


def write(name, texts, partition=0):
    plain = FACE.producer()
    for text in texts:
        plain.send(name, partition, text)
    plain.flush()
    plain.close()


@story
def idempotent_records_come_back_once_in_order_and_whole_in_every_codec():
    for codec in (None, *FACE.codecs):
        name = topic(f"plain-{codec}", 3)
        plain = FACE.producer(codec)
        headers = [("h", b"1"), ("h", b"")]
        for i in range(900):
            plain.send(name, i % 3, str(i), key=f"k{i % 7}", headers=headers, timestamp=1_600_000_000_000 + i)
        plain.flush()
        plain.close()
        found = FACE.read(name, 3, "read_committed")
        for partition in range(3):
            own = [record for record in found if record.partition == partition]
            equal([int(record.value) for record in own], list(range(partition, 900, 3)), f"{codec}: partition {partition}")
            equal([record.offset for record in own], list(range(300)), codec)
        for record in found:
            i = int(record.value)
            equal((record.key, record.headers, record.timestamp), (f"k{i % 7}".encode(), headers, 1_600_000_000_000 + i), codec)


@story
def committed_transactions_are_seen_whole_and_aborted_ones_never():
    name = topic("transactions", 3)
    writer = FACE.transactional(f"commit-and-abort-{RUN}")
    for round, ending in enumerate(("commit", "abort", "commit", "abort", "commit")):
        writer.begin()
        for i in range(12):
            writer.send(name, i % 3, f"{ending} {round} {i}")
        writer.flush()
        getattr(writer, ending)()
    # An empty transaction is one too.
    writer.begin()
    writer.commit()
    writer.close()
    until("the last commit", lambda: len(FACE.read(name, 3, "read_committed")) == 36)
    committed, everything = FACE.read(name, 3, "read_committed"), FACE.read(name, 3, "read_uncommitted")
    for partition in range(3):
        equal([record.value.decode() for record in committed if record.partition == partition],
              [f"commit {round} {i}" for round in (0, 2, 4) for i in range(12) if i % 3 == partition])
        equal(len([record for record in everything if record.partition == partition]), 20)


@story
def both_isolations_read_side_by_side():
    name = topic("open")
    open_one = FACE.transactional(f"open-{RUN}")
    open_one.begin()
    open_one.send(name, 0, "open")
    open_one.flush()
    write(name, ["after"])
    equal(values(name), [], "read_committed, while a transaction is open")
    equal(values(name, "read_uncommitted"), ["open", "after"])
    equal([FACE.end_offset(name, 0, isolation) for isolation in ("read_committed", "read_uncommitted")], [0, 2])
    open_one.commit()
    open_one.close()
    eventually(lambda: values(name), ["open", "after"])


@story
def sent_offsets_commit_and_abort_with_their_transaction():
    source, sink, group = topic("source"), topic("sink"), f"loop-{RUN}"
    write(source, map(str, range(30)))
    reader = FACE.member(group, source)
    writer = FACE.transactional(group)
    taken = []
    until("all thirty", lambda: taken.extend(reader.poll()) or len(taken) == 30, pause=0)
    equal([int(value) for _, value in taken], list(range(30)))

    def step(first, ending):
        writer.begin()
        for i in range(first, first + 10):
            writer.send(sink, 0, f"{ending} {i}")
        writer.send_offsets({0: first + 10}, source, reader)
        getattr(writer, ending)()
        return lambda: FACE.committed(group, source, 1)

    eventually(step(0, "commit"), [10])
    eventually(step(10, "abort"), [10])
    eventually(step(10, "commit"), [20])
    eventually(lambda: values(sink), [f"commit {i}" for i in range(20)])
    writer.close()
    reader.close()


@story
def a_zombie_is_fenced_and_leaves_nothing():
    name, id = topic("fence"), f"fence-{RUN}"
    old = FACE.transactional(id)
    old.begin()
    old.send(name, 0, "of the zombie")
    old.flush()
    new = FACE.transactional(id)
    new.begin()
    new.send(name, 0, "of its successor")
    new.commit()
    try:
        old.send(name, 0, "late")
        old.flush()
        old.commit()
        raise AssertionError("the zombie committed")
    except FACE.fenced as refused:
        assert not isinstance(refused, AssertionError), refused
    new.begin()
    new.send(name, 0, "and goes on")
    new.commit()
    new.close()
    eventually(lambda: values(name), ["of its successor", "and goes on"])


@child
def writes_and_waits(id, name):
    writer = FACE.transactional(id, TRANSACTION_TIMEOUT_MS)
    writer.begin()
    for i in range(3):
        writer.send(name, 0, f"of the killed {i}")
    writer.flush()
    ready_to_be_killed()


@story
def a_killed_client_s_transaction_is_aborted_when_its_time_is_up():
    name, id = topic("killed"), f"killed-{RUN}"
    Victim(writes_and_waits, id, name).kill()
    write(name, ["after"])
    equal(values(name), [], "while it is open")
    until("the aborted transaction lets go", lambda: values(name) == ["after"])
    equal(len(values(name, "read_uncommitted")), 4)
    heir = FACE.transactional(id)
    heir.begin()
    heir.send(name, 0, "of its heir")
    heir.commit()
    heir.close()
    eventually(lambda: values(name), ["after", "of its heir"])


def shares(members):
    return [member.assignment() for member in members]


def poll_until(members, what, ready, found=None, seconds=60):
    """Polls all members in turn, which is what keeps them in their group, and commits what they read."""
    def turn():
        for place, member in enumerate(members):
            got = member.poll()
            if got and found is not None:
                found[place].extend(int(value) for _, value in got)
                member.commit()
        return ready()
    until(lambda: f"{what}; shares {shares(members)}", turn, seconds, pause=0)


@story
def members_share_and_whoever_stays_takes_over():
    name, group = topic("group", 4), f"members-{RUN}"
    for partition in range(4):
        write(name, [str(i) for i in range(100) if i % 4 == partition], partition)
    both, found = [FACE.member(group, name), FACE.member(group, name)], [[], []]
    poll_until(both, "two each", lambda: [len(share) for share in shares(both)] == [2, 2], found)
    one, other = shares(both)
    equal(sorted(one + other), [0, 1, 2, 3])
    poll_until(both, "all of it", lambda: set(found[0]) | set(found[1]) == set(range(100)), found)
    both[0].close()
    poll_until(both[1:], "the other has all four", lambda: both[1].assignment() == [0, 1, 2, 3], found[1:])
    for partition in range(4):
        write(name, [str(100 + partition)], partition)
    poll_until(both[1:], "what came later", lambda: set(range(100, 104)) <= set(found[1]), found[1:])
    both[1].close()
    equal(FACE.committed(group, name, 4), [26, 26, 26, 26])


@child
def joins_and_waits(group, name):
    member = FACE.member(group, name)
    until("a share", lambda: member.poll() is None or member.assignment(), pause=0)
    ready_to_be_killed(member.poll)


@story
def a_killed_member_s_partitions_move_when_its_session_ends():
    name, group = topic("killed-member", 2), f"killed-member-{RUN}"
    victim = Victim(joins_and_waits, group, name)
    heir = FACE.member(group, name)
    poll_until([heir], "one of two", lambda: shares([heir]) in ([[0]], [[1]]))
    victim.kill()
    poll_until([heir], "both", lambda: shares([heir]) == [[0, 1]])
    heir.close()


@story
def a_static_member_comes_back_to_its_partitions_without_a_rebalance():
    name, group = topic("static", 4), f"static-{RUN}"
    stays = FACE.member(group, name, instance="stays")
    leaves = FACE.member(group, name, instance="leaves")
    poll_until([stays, leaves], "two each", lambda: [len(share) for share in shares([stays, leaves])] == [2, 2])
    before, seen = shares([stays, leaves]), stays.rebalances()
    # A static member does not leave when it closes: it is expected back.
    leaves.close()
    back = FACE.member(group, name, instance="leaves")
    poll_until([stays, back], "its partitions", lambda: shares([stays, back]) == before)
    equal(stays.rebalances(), seen, "rebalances of who stays")
    stays.close()
    back.close()


def use(face):
    global FACE
    FACE = face
