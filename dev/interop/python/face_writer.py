"""Any client that has a face for the common stories, as the writer of `kill_broker.py`. usage: CLIENT=MODULE face_writer.py ADDRESS"""
import importlib
import os
import random
import sys
import threading
import time
import traceback

import common_stories

importlib.import_module(os.environ["CLIENT"])
PARTITIONS = 3
CALL_LIMIT_SECONDS = 20
told, over = threading.Lock(), threading.Event()


def tell(*words):
    with told:
        print(*words, flush=True)


def write_plain():
    producer, numbers = common_stories.FACE.producer(), [0] * PARTITIONS
    while not over.is_set():
        partition = random.randrange(PARTITIONS)
        batch = range(numbers[partition], numbers[partition] + 30)
        numbers[partition] = batch.stop
        try:
            for number in batch:
                producer.send("plain", partition, str(number))
            producer.flush()
        except Exception as error:
            traceback.print_exc()
            tell("failed", repr(error))
            return
        for number in batch:
            tell("acknowledged", partition, number)
        time.sleep(0.003)
    producer.close()


def transactional():
    """Settles what the one before left open."""
    while True:
        try:
            return common_stories.FACE.transactional("writer")
        except Exception:
            # The broker may be killed while it is asked.
            traceback.print_exc()
            time.sleep(0.2)


def within_limit(call):
    """A client may wait for ever for what its lost connection owed it (kafka-python's `commit_transaction` now and then does): that is
    an outcome that it could not find out. Its thread is left behind, and its producer fenced by the next."""
    outcome = []

    def work():
        try:
            call()
            outcome.append(None)
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(CALL_LIMIT_SECONDS)
    if not outcome:
        raise TimeoutError(f"no answer for {CALL_LIMIT_SECONDS} s")
    if outcome[0] is not None:
        raise outcome[0]


def write_transactions():
    writer, number = transactional(), 0
    while not over.is_set():
        number += 1
        abort = random.random() < 0.2
        try:
            writer.begin()
            for partition in range(PARTITIONS):
                for copy in range(3):
                    writer.send("transactional", partition, f"{number} {copy}")
            if abort:
                within_limit(writer.flush)
                within_limit(writer.abort)
                tell("aborted", number)
            else:
                within_limit(writer.commit)
                tell("committed", number)
        except Exception:
            traceback.print_exc()
            tell("unknown", number)
            # Closing the old one may wait for what never comes; it is fenced by the new one, and does no harm.
            threading.Thread(target=closed_quietly, args=[writer], daemon=True).start()
            writer = transactional()
    writer.close()
    transactional().close()


def closed_quietly(writer):
    try:
        writer.close()
    except Exception:
        traceback.print_exc()


threads = [threading.Thread(target=work) for work in (write_plain, write_transactions)]
for thread in threads:
    thread.start()
sys.stdin.read()
over.set()
for thread in threads:
    thread.join()
os._exit(0)
