"""What librdkafka has to do beside our client: write records, read them, be a mock cluster.

  ADDRESS write                    lines of standard input: TOPIC CODEC KEY VALUE TIMESTAMP HEADERS
  ADDRESS read TOPIC=COUNT…        prints lines: TOPIC KEY VALUE TIMESTAMP HEADERS, in the order of the offsets
  mock BROKERS                     prints the mock's addresses, then does what lines of standard input say, `ok` for each

Keys and values are in hexadecimal, `-` if null; headers are NAME=VALUE with commas between, `.` if there are none.
"""
import ctypes
import glob
import os
import sys


def bytes_of(text):
    return None if text == "-" else bytes.fromhex(text)


def text_of(data):
    return "-" if data is None else data.hex()


def write(address):
    from confluent_kafka import Producer
    producers, failures = {}, []
    for line in sys.stdin:
        topic, codec, key, value, timestamp, headers = line.rstrip("\n").split(" ")
        if codec not in producers:
            producers[codec] = Producer({
                "bootstrap.servers": address, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20,
                "message.max.bytes": 2_000_000})
        pairs = [] if headers == "." else [pair.split("=") for pair in headers.split(",")]
        producers[codec].produce(
            topic, key=bytes_of(key), value=bytes_of(value), partition=0, timestamp=int(timestamp),
            headers=[(name, bytes_of(value)) for name, value in pairs],
            on_delivery=lambda error, _: error and failures.append(error))
    for producer in producers.values():
        assert producer.flush(60) == 0
    assert not failures, failures


def read(address, wanted):
    from confluent_kafka import Consumer, TopicPartition
    for topic, count in (pair.rsplit("=", 1) for pair in wanted):
        reader = Consumer({"bootstrap.servers": address, "group.id": "beside", "isolation.level": "read_committed"})
        reader.assign([TopicPartition(topic, 0, 0)])
        left = int(count)
        while left:
            message = reader.poll(60)
            assert message is not None and not message.error(), message and message.error()
            pairs = [f"{name}={text_of(value)}" for name, value in message.headers() or []]
            print(topic, text_of(message.key()), text_of(message.value()), message.timestamp()[1], ",".join(pairs) or ".")
            left -= 1
        reader.close()


def mock(brokers):
    import confluent_kafka
    folder = os.path.dirname(confluent_kafka.__file__)
    library = ctypes.CDLL(glob.glob(folder + ".libs/librdkafka*")[0])
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
    error = ctypes.create_string_buffer(512)
    handle = library.rd_kafka_new(0, library.rd_kafka_conf_new(), error, len(error))
    assert handle, error.value
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(handle, brokers))
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        what, *rest = line.split()
        numbers = [int(word) if word.lstrip("-").isdigit() else word.encode() for word in rest]
        if what == "errors":
            api, *codes = numbers
            array = (ctypes.c_int * len(codes))(*codes)
            library.rd_kafka_mock_push_request_errors_array(cluster, ctypes.c_int16(api), ctypes.c_size_t(len(codes)), array)
        else:
            # topic NAME PARTITIONS REPLICAS, leader TOPIC PARTITION BROKER, coordinator TYPE KEY BROKER, down BROKER, …
            function = {
                "topic": "topic_create", "leader": "partition_set_leader", "follower": "partition_set_follower",
                "hint": "partition_push_leader_response", "coordinator": "coordinator_set",
                "down": "broker_set_down", "up": "broker_set_up"}[what]
            found = getattr(library, "rd_kafka_mock_" + function)(cluster, *numbers)
            assert what in ("hint", "coordinator") or found == 0, (line, found)
        print("ok", flush=True)


if sys.argv[1] == "mock":
    mock(int(sys.argv[2]))
elif sys.argv[2] == "write":
    write(sys.argv[1])
else:
    read(sys.argv[1], sys.argv[3:])
