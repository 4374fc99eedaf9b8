"""librdkafka as the writer of `kill_broker.py`."""
import random
import sys
import threading
import time

from confluent_kafka import KafkaException, Producer

ADDRESS, PARTITIONS = sys.argv[1], 3
told, over = threading.Lock(), threading.Event()


def tell(*words):
    with told:
        print(*words, flush=True)


def write_plain():
    producer = Producer({"bootstrap.servers": ADDRESS, "enable.idempotence": True, "linger.ms": 2, "delivery.timeout.ms": 300000,
                         "socket.timeout.ms": 5000, "reconnect.backoff.max.ms": 200, "queue.buffering.max.messages": 2000})
    numbers = [0] * PARTITIONS

    def delivered(error, message):
        if error:
            tell("failed", error)
        else:
            tell("acknowledged", message.partition(), message.value().decode())

    while not over.is_set():
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
    left = producer.flush(120)
    if left:
        tell("failed", left, "records were never delivered")


def transactional_producer():
    producer = Producer({"bootstrap.servers": ADDRESS, "transactional.id": "writer", "transaction.timeout.ms": 60000,
                         "socket.timeout.ms": 5000, "reconnect.backoff.max.ms": 200, "message.timeout.ms": 60000})
    again(producer.init_transactions)
    return producer


def again(call):
    """What librdkafka calls retriable is to be called again, as it is."""
    while True:
        try:
            return call(30)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def write_transactions():
    producer, number = transactional_producer(), 0
    while not over.is_set():
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
                again(producer.abort_transaction)
                tell("aborted", number)
            else:
                again(producer.commit_transaction)
                tell("committed", number)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                try:
                    again(producer.abort_transaction)
                    tell("aborted", number)
                    continue
                except KafkaException:
                    pass
            tell("unknown", number)
            producer = transactional_producer()
    # Settles what was left open.
    transactional_producer()


plain, transactions = threading.Thread(target=write_plain), threading.Thread(target=write_transactions)
plain.start()
transactions.start()
sys.stdin.read()
over.set()
plain.join()
transactions.join()
