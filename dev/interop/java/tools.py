#!/usr/bin/env python3
"""Kafka's own tools on a broker: what they print is compared with what must stand there.

Each function whose name begins with `try_` is one story; those that need the broker's files are left out where it is not ours to look into.
"""

import json
import re
import subprocess
import sys
import time

from world import judge, options_from, until

PACKAGE = "org.apache.kafka.tools."
GROUPS = "consumer.group.ConsumerGroupCommand"


class Tools:
    """Runs tools one after the other in one JVM (src/ToolHost.java)."""

    def __init__(self, world):
        self.world = world
        self.expect = world.expect
        self.address = world.broker.address
        self.host = None
        self.begin()

    def begin(self):
        self.host = self.world.java("ToolHost", name="tool-host", heap="320m", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False)

    def name(self, of):
        return f"{self.world.name}-{of}"

    def run(self, tool, *arguments, stdin=""):
        """The tool's status and all that it printed on stdout; its stderr is in `self.said`."""
        fields = [stdin.replace("\n", "\\n"), PACKAGE + tool, *map(str, arguments)]
        self.host.stdin.write(("\t".join(fields) + "\n").encode())
        self.host.stdin.flush()
        head = self.host.stdout.readline()
        assert head, f"the tools' JVM ended amid {tool} {arguments}"
        status, out, err = map(int, head.split())
        printed = self.host.stdout.read(out).decode()
        self.said = self.host.stdout.read(err).decode()
        if status != 0:
            with open(self.world.scratch / "tools-that-failed.log", "a") as log:
                log.write(f"{fields} ended with {status}\n{printed}\n{self.said}\n")
        return status, printed

    def on(self, tool, *arguments, stdin=""):
        """With the address, and it must go well; its output."""
        status, printed = self.run(tool, "--bootstrap-server", self.address, *arguments, stdin=stdin)
        if status != 0:
            self.expect(f"{tool} {' '.join(map(str, arguments))}: status", 0, status)
            raise Failed(f"{tool}: {printed} {self.said}")
        return printed

    def topic(self, name, partitions=1, *configs):
        full = self.name(name)
        words = [word for config in configs for word in ("--config", config)]
        self.on("TopicCommand", "--create", "--topic", full, "--partitions", partitions, *words)
        return full

    def write(self, topic, *values):
        self.on("ConsoleProducer", "--topic", topic, stdin="\n".join(values) + "\n")

    def committed(self, topic, count, *more):
        printed = self.on("consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", count, "--timeout-ms", 15000,
                          "--isolation-level", "read_committed", *more)
        return printed.splitlines()


class Failed(Exception):
    pass


def table(printed):
    """Rows of a table as dictionaries; a header is a line whose words are written in capitals, or the first."""
    rows, header = [], None
    for line in printed.splitlines():
        words = line.split()
        if not words:
            continue
        if header is None or all(re.fullmatch(r"[A-Z][A-Z-]*", word) for word in words) and len(words) > 2:
            header = words
        else:
            rows.append(dict(zip(header, words)))
    return rows


def try_cluster(tools):
    _, printed = tools.run("ClusterTool", "cluster-id", "--bootstrap-server", tools.address)
    tools.expect("cluster id", True, bool(re.fullmatch(r"Cluster ID: [A-Za-z0-9_-]{22}\n", printed)))
    _, printed = tools.run("ClusterTool", "list-endpoints", "--bootstrap-server", tools.address)
    host, port = tools.address.split(":")
    tools.expect("endpoints", [[host, port]], [line.split()[1:3] for line in printed.splitlines()[1:]])


def try_topics(tools):
    topic = tools.name("topics")
    command = ("TopicCommand", "--topic", topic)
    tools.expect("created", f"Created topic {topic}.\n", tools.on(*command, "--create", "--partitions", 2, "--config", "retention.ms=1000000"))
    described = tools.on(*command, "--describe").splitlines()
    head = dict(part.split(": ", 1) for part in described[0].split("\t"))
    node = described[1].split("Leader: ")[1].split("\t")[0]
    tools.expect("head", {"Topic": topic, "PartitionCount": "2", "ReplicationFactor": "1"}, {key: head[key] for key in ("Topic", "PartitionCount", "ReplicationFactor")})
    tools.expect("its configs", True, "retention.ms=1000000" in head["Configs"].split(","))
    tools.expect("an id", 22, len(head["TopicId"]))
    rows = [line.strip().split("\t") for line in described[1:]]
    tools.expect("partitions", [[f"Topic: {topic}", f"Partition: {n}", f"Leader: {node}", f"Replicas: {node}", f"Isr: {node}"] for n in range(2)], [row[:5] for row in rows])
    tools.expect("more partitions", "", tools.on(*command, "--alter", "--partitions", 4))
    tools.expect("there are four", 4, tools.on(*command, "--describe").count("Partition: "))
    tools.expect("listed", True, topic in tools.on("TopicCommand", "--list").split())
    tools.expect("with other configs", True, topic in tools.on(*command, "--describe", "--topics-with-overrides"))
    for state in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions", "--at-min-isr-partitions"):
        tools.expect(state, state == "--at-min-isr-partitions", "Partition: " in tools.on(*command, "--describe", state))
    status, printed = tools.run(*command, "--bootstrap-server", tools.address, "--create")
    tools.expect("created again", (1, True), (status, f"Topic '{topic}' already exists." in printed))
    tools.expect("created if it is not there", "", tools.on(*command, "--create", "--if-not-exists"))
    status, printed = tools.run(*command, "--bootstrap-server", tools.address, "--alter", "--partitions", 1)
    tools.expect("fewer partitions", 1, status)
    tools.expect("deleted", "", tools.on(*command, "--delete"))
    until("it is gone", lambda: topic not in tools.on("TopicCommand", "--list").split(), 10)
    status, printed = tools.run(*command, "--bootstrap-server", tools.address, "--describe")
    tools.expect("described when it is gone", 1, status)


def try_configs(tools):
    topic = tools.topic("configs")
    of = ("ConfigCommand", "--entity-type", "topics", "--entity-name", topic)
    tools.expect("added", f"Completed updating config for topic {topic}.\n", tools.on(*of, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"))

    def described():
        return [line.strip() for line in tools.on(*of, "--describe").splitlines()[1:] if not line.strip().startswith("min.insync.replicas")]

    until("they are set", lambda: len(described()) == 2, 10)
    tools.expect("described", [
        "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}",
    ], sorted(described()))
    tools.expect("deleted", f"Completed updating config for topic {topic}.\n", tools.on(*of, "--alter", "--delete-config", "cleanup.policy"))
    until("it is gone", lambda: [line.split("=")[0] for line in described()] == ["retention.ms"], 10)
    whole = tools.on(*of, "--describe", "--all").splitlines()[1:]
    tools.expect("all that a topic has", 37, len(whole))
    tools.expect("an unknown one", 1, tools.run("ConfigCommand", "--bootstrap-server", tools.address, *of[1:], "--alter", "--add-config", "colour=red")[0])
    brokers = tools.on("ConfigCommand", "--entity-type", "brokers", "--describe", "--all")
    tools.expect("a broker's", True, "transaction.max.timeout.ms=900000" in brokers)
    group = tools.name("configured")
    tools.expect("a group's", f"Completed updating config for group {group}.\n",
                 tools.on("ConfigCommand", "--entity-type", "groups", "--entity-name", group, "--alter", "--add-config", "consumer.session.timeout.ms=50000"))
    until("a group's are described", lambda: "consumer.session.timeout.ms=50000" in
          tools.on("ConfigCommand", "--entity-type", "groups", "--entity-name", group, "--describe"), 10)


def try_consoles_and_groups(tools):
    topic, group = tools.topic("groups", 1), tools.name("group")
    values = [f"value {n}" for n in range(10)]
    tools.write(topic, *values)
    tools.expect("read", values, tools.committed(topic, 10, "--group", group))
    of = (GROUPS, "--group", group)

    def row():
        rows = table(tools.on(*of, "--describe"))
        return [rows[0][key] for key in ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")] if rows else None

    tools.expect("listed", True, group in tools.on(GROUPS, "--list").split())
    tools.expect("described", [group, topic, "0", "10", "10", "0", "-"], row())
    state = table(tools.on(*of, "--describe", "--state").replace("(ID)", "").replace("#", ""))
    tools.expect("its state", ["Empty", "0"], tools.on(*of, "--describe", "--state").split()[-2:])
    tools.expect("a row of it", 1, len(state))
    tools.expect("by state", True, [group, "Empty"] in [line.split() for line in tools.on(GROUPS, "--list", "--state", "Empty").splitlines()])
    tools.expect("by type", True, [group, "Classic"] in [line.split() for line in tools.on(GROUPS, "--list", "--type", "classic").splitlines()])
    tools.write(topic, "one more", "and one")

    def reset(*how):
        printed = tools.on(*of, "--reset-offsets", "--topic", topic, "--execute", *how)
        return table(printed)[0]["NEW-OFFSET"]

    tools.expect("to the earliest", "0", reset("--to-earliest"))
    tools.expect("so it lags", [group, topic, "0", "0", "12", "12", "-"], row())
    tools.expect("to an offset", "7", reset("--to-offset", 7))
    tools.expect("by a shift", "4", reset("--shift-by", -3))
    tools.expect("to a time that is past", "0", reset("--to-datetime", "2020-01-01T00:00:00.000"))
    tools.expect("by a duration", "0", reset("--by-duration", "PT1H"))
    tools.expect("to the latest", "12", reset("--to-latest"))
    tools.expect("only shown", "3", table(tools.on(*of, "--reset-offsets", "--topic", topic, "--to-offset", 3, "--dry-run"))[0]["NEW-OFFSET"])
    tools.expect("so it stays", [group, topic, "0", "12", "12", "0", "-"], row())
    tools.expect("an offset is deleted", True, "Successful" in tools.on(*of, "--delete-offsets", "--topic", topic))
    tools.expect("deleted", True, f"Deletion of requested consumer groups ('{group}') was successful." in tools.on(*of, "--delete"))
    tools.expect("gone", False, group in tools.on(GROUPS, "--list").split())
    tools.expect("deleted again", True, "GroupIdNotFoundException" in tools.on(*of, "--delete"))
    tools.expect("in the list of all groups", True, tools.on("GroupsCommand", "--list").startswith("GROUP"))


def try_offsets_and_deletion(tools):
    topic = tools.topic("offsets", 2)
    tools.write(topic, *[f"v{n}" for n in range(20)])
    ends = tools.on("GetOffsetShell", "--topic", topic).splitlines()
    tools.expect("all written", 20, sum(int(line.rsplit(":", 1)[1]) for line in ends))
    tools.expect("earliest", [f"{topic}:0:0", f"{topic}:1:0"], tools.on("GetOffsetShell", "--topic", topic, "--time", "earliest").splitlines())
    busy = max(ends, key=lambda line: int(line.rsplit(":", 1)[1]))
    partition, count = int(busy.split(":")[1]), int(busy.split(":")[2])
    of = ("GetOffsetShell", "--topic-partitions", f"{topic}:{partition}", "--time")
    tools.expect("the first after a time long ago", f"{topic}:{partition}:0\n", tools.on(*of, 1000))
    found = tools.on(*of, "max-timestamp").strip()
    tools.expect("of the largest time", True, 0 <= int(found.removeprefix(f"{topic}:{partition}:")) < count)
    wanted = tools.world.scratch / "delete.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": partition, "offset": 2}]}))
    tools.expect("deleted up to 2", True, f"partition: {topic}-{partition}\tlow_watermark: 2" in tools.on("DeleteRecordsCommand", "--offset-json-file", wanted))
    tools.expect("earliest now", f"{topic}:{partition}:2", tools.on("GetOffsetShell", "--topic-partitions", f"{topic}:{partition}", "--time", "earliest").strip())


def try_log_dirs(tools):
    topic = tools.topic("folders", 2)
    tools.write(topic, "x" * 2000)
    printed = tools.on("LogDirsCommand", "--describe", "--topic-list", topic)
    found = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    tools.expect("one broker, one folder", (1, 1), (len(found["brokers"]), len(found["brokers"][0]["logDirs"])))
    folder = found["brokers"][0]["logDirs"][0]
    tools.expect("no error", None, folder["error"])
    tools.expect("partitions", [f"{topic}-0", f"{topic}-1"], sorted(partition["partition"] for partition in folder["partitions"]))
    sizes = sorted(partition["size"] for partition in folder["partitions"])
    tools.expect("sizes", (0, True), (sizes[0], 2000 < sizes[1] < 3000))
    tools.expect("no lag, no move", {(0, False)}, {(partition["offsetLag"], partition["isFuture"]) for partition in folder["partitions"]})


def try_features_and_quorum(tools):
    features = {}
    _, printed = tools.run("FeatureCommand", "--bootstrap-server", tools.address, "describe")
    for line in printed.splitlines():
        words = dict(re.findall(r"(\w+): (\S+)", line))
        features[words["Feature"]] = (words["SupportedMinVersion"], words["SupportedMaxVersion"], words["FinalizedVersionLevel"])
    tools.expect("transaction.version", ("0", "2", "2"), features.get("transaction.version"))
    tools.expect("group.version", ("0", "1", "1"), features.get("group.version"))
    status, _ = tools.run("FeatureCommand", "--bootstrap-server", tools.address, "upgrade", "--feature", "transaction.version=3")
    tools.expect("a level that is not offered", 1, status)
    _, printed = tools.run("MetadataQuorumCommand", "--bootstrap-server", tools.address, "describe", "--status")
    status = dict(re.split(r":\s+", line, maxsplit=1) for line in printed.splitlines() if ":" in line)
    tools.expect("one voter leads", True, f'"id": {status.get("LeaderId")}' in status.get("CurrentVoters", "") or status.get("CurrentVoters") == f"[{status.get('LeaderId')}]")
    _, printed = tools.run("MetadataQuorumCommand", "--bootstrap-server", tools.address, "describe", "--replication")
    tools.expect("its replication", [status.get("LeaderId"), "Leader"], [printed.splitlines()[1].split()[0], printed.splitlines()[1].split()[-1]])
    tools.expect("elections", True, "Valid replica already elected" in tools.on("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
                 or tools.said == "")
    tools.expect("reassignments", "No partition reassignments found.\n", 
                 tools.world.call(PACKAGE + "reassign.ReassignPartitionsCommand", "--bootstrap-server", tools.address, "--list"))


# Each API that a broker must offer, with the highest version of Kafka 4.4 that the tool knows.
APIS = {
    "Produce": 13, "Fetch": 18, "ListOffsets": 11, "Metadata": 13, "OffsetCommit": 10, "OffsetFetch": 10, "FindCoordinator": 6, "JoinGroup": 9,
    "Heartbeat": 4, "LeaveGroup": 5, "SyncGroup": 5, "DescribeGroups": 6, "ListGroups": 5, "ApiVersions": 5, "CreateTopics": 7, "DeleteTopics": 6,
    "DeleteRecords": 2, "InitProducerId": 5, "OffsetForLeaderEpoch": 4, "AddPartitionsToTxn": 5, "AddOffsetsToTxn": 4, "EndTxn": 5,
    "WriteTxnMarkers": 2, "TxnOffsetCommit": 6, "DescribeConfigs": 4, "AlterConfigs": 2, "DescribeLogDirs": 5, "CreatePartitions": 3, "DeleteGroups": 3,
    "ElectLeaders": 2, "IncrementalAlterConfigs": 1, "ListPartitionReassignments": 0, "OffsetDelete": 0, "DescribeQuorum": 2, "UpdateFeatures": 2,
    "DescribeCluster": 2, "DescribeProducers": 0, "DescribeTransactions": 0, "ListTransactions": 2, "ConsumerGroupHeartbeat": 1,
    "ConsumerGroupDescribe": 1, "ListConfigResources": 1, "DescribeTopicPartitions": 0,
}


def try_api_versions(tools):
    printed = tools.on("BrokerApiVersionsCommand")
    found = {name: int(highest) for name, highest in re.findall(r"(\w+)\(\d+\): (?:\d+ to )?(\d+) \[usable", printed)}
    tools.expect("APIs", APIS, {name: found.get(name) for name in APIS})


def try_transactions(tools):
    topic, transactional_id = tools.topic("transactions"), tools.name("open")
    holder = tools.world.java("Pipelines", "load", tools.address, transactional_id, name="holder", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    now = int(time.time() * 1000)
    holder.stdin.write(f"{topic}\t0\t{now}\tk\tcommitted\n\n")
    holder.stdin.flush()
    tools.expect("a first transaction", "ok\n", holder.stdout.readline())
    holder.stdin.write(f"{topic}\t0\t{now}\tk\topen\n")
    holder.stdin.flush()

    def producers():
        return table(tools.on("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", 0))

    until("it is open", lambda: producers() and producers()[0]["CurrentTransactionStartOffset"] == "2", 20)
    it = producers()[0]
    tools.expect("its producer", ("1", "0", "0"), (it["ProducerEpoch"], it["LatestCoordinatorEpoch"], it["LastSequence"]))
    listed = table(tools.on("TransactionsCommand", "list"))
    tools.expect("listed", ["Ongoing"], [row["TransactionState"] for row in listed if row["TransactionalId"] == transactional_id])
    tools.expect("listed by pattern", [transactional_id],
                 [row["TransactionalId"] for row in table(tools.on("TransactionsCommand", "list", "--transactional-id-pattern", transactional_id[:-1] + "."))])
    described = table(tools.on("TransactionsCommand", "describe", "--transactional-id", transactional_id))[0]
    tools.expect("described", (it["ProducerId"], it["ProducerEpoch"], "Ongoing", "60000", f"{topic}-0"),
                 tuple(described[key] for key in ("ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs", "TopicPartitions")))
    # What its coordinator knows is not hanging.
    hanging = table(tools.on("TransactionsCommand", "find-hanging", "--topic", topic, "--max-transaction-timeout", 0))
    tools.expect("hanging", [], [row for row in hanging if row["Topic"] == topic])
    tools.expect("aborted at a wrong offset", 1, tools.run("TransactionsCommand", "--bootstrap-server", tools.address, "abort", "--topic", topic, "--partition", 0, "--start-offset", 1)[0])
    tools.expect("aborted", "", tools.on("TransactionsCommand", "abort", "--topic", topic, "--partition", 0, "--start-offset", 2))
    tools.expect("nothing is open", ["None"], [row["CurrentTransactionStartOffset"] for row in producers()])
    tools.expect("what is committed", ["committed"], tools.committed(topic, 1))
    tools.expect("forcefully ended", 0, tools.run("TransactionsCommand", "--bootstrap-server", tools.address, "forceTerminateTransaction", "--transactionalId", transactional_id)[0])
    until("its coordinator has ended it too", lambda: [row["TransactionState"] for row in table(tools.on("TransactionsCommand", "list"))
                                                      if row["TransactionalId"] == transactional_id] != ["Ongoing"], 10)
    holder.kill()
    holder.wait()


def try_a_hanging_transaction(tools):
    topic, transactional_id = tools.topic("hanging"), tools.name("hangs")
    verification = "transaction.partition.verification.enable"

    def writes():
        return tools.world.call("HangingTransaction", tools.address, transactional_id, topic).strip()

    def hanging():
        found = table(tools.on("TransactionsCommand", "find-hanging", "--topic", topic, "--max-transaction-timeout", 0))
        return [(row["Topic"], row["Partition"], row["StartOffset"]) for row in found]

    tools.expect("with verification", "TRANSACTION_ABORTABLE", writes())
    alter = ("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-default")
    tools.on(*alter, "--add-config", f"{verification}=false")
    try:
        until("it is taken", lambda: writes() == "0", 60)
    finally:
        tools.on(*alter, "--delete-config", verification)
    tools.write(topic, "behind it")
    # The tool does not count minutes that have only begun.
    until("it is found", lambda: hanging() == [(topic, "0", "0")], 150)
    tools.expect("aborted", "", tools.on("TransactionsCommand", "abort", "--topic", topic, "--partition", 0, "--start-offset", 0))
    tools.expect("nothing hangs", [], hanging())
    tools.expect("what is committed", ["behind it"], tools.committed(topic, 1))


def try_performance(tools):
    topic = tools.topic("performance", 2)
    printed = tools.on("ProducerPerformance", "--topic", topic, "--num-records", 3000, "--record-size", 100, "--throughput", -1,
                       "--transactional-id", tools.name("performance"), "--transaction-duration-ms", 50)
    tools.expect("sent", True, printed.splitlines()[-1].startswith("3000 records sent, "))
    tools.expect("and read", 3000, len(tools.committed(topic, 3000)))
    ends = sum(int(line.rsplit(":", 1)[1]) for line in tools.on("GetOffsetShell", "--topic", topic).splitlines())
    tools.expect("with markers", True, ends > 3000)
    printed = tools.on("ConsumerPerformance", "--topic", topic, "--num-records", 3000, "--timeout", 20000)
    tools.expect("consumed", "3000", printed.splitlines()[1].split(", ")[4])
    printed = tools.on("EndToEndLatency", "--topic", tools.topic("latency"), "--num-records", 100, "--producer-acks", "all", "--record-size", 50)
    tools.expect("latency", True, "Avg latency" in printed)


def events(printed):
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def try_verifiable_clients(tools):
    topic = tools.topic("verified", 3)
    world = tools.world
    sent = events(world.call(PACKAGE + "VerifiableProducer", "--bootstrap-server", tools.address, "--topic", topic, "--max-messages", 1000, "--acks", -1))
    tools.expect("acknowledged", sorted(str(n) for n in range(1000)), sorted(event["value"] for event in sent if event["name"] == "producer_send_success"))
    tools.expect("sum", [(1000, 1000)], [(event["sent"], event["acked"]) for event in sent if event["name"] == "tool_data"])
    for protocol in ("classic", "consumer"):
        group = tools.name(f"verified-{protocol}")
        read = events(world.call(PACKAGE + "VerifiableConsumer", "--bootstrap-server", tools.address, "--topic", topic, "--group-id", group,
                                 "--group-protocol", protocol, "--max-messages", 1000, "--verbose"))
        tools.expect(f"{protocol}: read", sorted(str(n) for n in range(1000)), sorted(event["value"] for event in read if event["name"] == "record_data"))
        commits = [event for event in read if event["name"] == "offsets_committed"]
        tools.expect(f"{protocol}: commits", (True, {True}), (len(commits) > 0, {event["success"] for event in commits}))
        offsets = {offset["partition"]: offset["offset"] for event in commits for offset in event["offsets"]}
        tools.expect(f"{protocol}: offsets", 1000, sum(offsets.values()))


def try_dump_of_segments(tools):
    """Needs the folders of partitions, and that the broker has ended: what it writes later until then is its own affair."""
    world = tools.world
    if world.broker.data is None:
        return None
    topic = tools.topic("dumped", 1)
    now = int(time.time() * 1000)
    lines = [f"{topic}\t0\t{now + n}\tkey{n}\tvalue{n}" for n in range(6)]
    world.call("Pipelines", "load", tools.address, tools.name("dumped"), stdin="\n".join(lines[:3] + [""] + lines[3:5] + ["abort"] + lines[5:] + ["", ""]))
    until("all is written", lambda: tools.on("GetOffsetShell", "--topic", topic).strip() == f"{topic}:0:9", 10)
    return lambda: dump(tools, topic)


def dump(tools, topic):
    def segments(of):
        logs = sorted(path for path in tools.world.broker.data.rglob("*.log") if path.parent.name.startswith(of) and path.stat().st_size > 0)
        tools.expect(f"segments of {of}", True, len(logs) > 0)
        return logs

    logs = segments(f"{topic}-0")
    printed = dumped(tools, logs, "--print-data-log")
    batches = [dict(re.findall(r"(\w+): (\S+)", line)) for line in printed.splitlines() if line.startswith("baseOffset")]
    tools.expect("batches", [("0", "2", "false"), ("3", "3", "true"), ("4", "5", "false"), ("6", "6", "true"), ("7", "7", "false"), ("8", "8", "true")],
                 [(batch["baseOffset"], batch["lastOffset"], batch["isControl"]) for batch in batches])
    tools.expect("sums", {"true"}, {batch["isvalid"] for batch in batches})
    tools.expect("values", [f"value{n}" for n in range(6)], re.findall(r"payload: (\w+)", printed))
    tools.expect("markers", ["COMMIT", "ABORT", "COMMIT"], re.findall(r"endTxnMarker: (\w+)", printed))
    for log in logs:
        for index in (log.with_suffix(".index"), log.with_suffix(".timeindex")):
            if index.exists():
                dumped(tools, [index])
    aborted = logs[0].with_suffix(".txnindex")
    tools.expect("an index of what was aborted", True, aborted.exists())
    if aborted.exists():
        tools.expect("an entry of 34 bytes", 34, aborted.stat().st_size)
        printed = dumped(tools, [aborted])
        tools.expect("the aborted transaction", [("0", "4", "6", "7")], [(found["version"], found["firstOffset"], found["lastOffset"], found["lastStableOffset"]) for found in
                     [dict(re.findall(r"(\w+): (\d+)", line)) for line in printed.splitlines() if "firstOffset" in line]])
    # The coordinators' own topics are in Kafka's format as well.
    printed = dumped(tools, segments("__transaction_state-"), "--transaction-log-decoder")
    states = [json.loads(found)["data"]["transactionStatus"] for key, found in re.findall(r"key: (\{.*?\}\}) payload: (\{.*\})", printed)
              if json.loads(key)["data"]["transactionalId"] == tools.name("dumped")]
    tools.expect("states of the transactional id, first and last", ("Empty", "CompleteCommit"), (states[0], states[-1]))
    tools.expect("decisions", ["PrepareCommit", "PrepareAbort", "PrepareCommit"], [state for state in states if state.startswith("Prepare")])
    printed = dumped(tools, segments("__consumer_offsets-"), "--offsets-decoder")
    tools.expect("groups and offsets", True, "offset_commit" in printed.lower() or "OffsetCommit" in printed or '"group"' in printed)


def dumped(tools, files, *how):
    status, printed = tools.run("DumpLogSegments", "--files", ",".join(map(str, files)), *how)
    tools.expect(f"{files[0].name} can be read", (0, ""), (status, tools.said))
    tools.expect(f"{files[0].name} is not found wrong", False, any(word in printed.lower() for word in ("mismatch", "non-consecutive", "non monotonic", "corrupt", "found timestamp")))
    return printed


def try_compatibility(tools):
    # This name is the tool's own; another run may have left it.
    tools.on("TopicCommand", "--delete", "--if-exists", "--topic", "newtopic")
    topic = tools.topic("compatibility")
    status, printed = tools.run("ClientCompatibilityTest", "--bootstrap-server", tools.address, "--topic", topic, "--offsets-for-times-supported", "true",
                                "--cluster-id-supported", "true", "--expect-record-too-large-exception", "false", "--num-cluster-nodes", 1,
                                "--create-topics-supported", "true", "--describe-acls-supported", "true", "--describe-configs-supported", "true",
                                "--idempotent-producer-supported", "true")
    tools.expect("it is compatible", (0, True), (status, "SUCCESS" in printed or "All tests passed" in printed))


def try_resetting_streams(tools):
    topic, application = tools.topic("application-input"), tools.name("application")
    tools.write(topic, "a", "b")
    tools.committed(topic, 2, "--group", application)
    printed = tools.on("StreamsResetter", "--application-id", application, "--input-topics", topic)
    tools.expect("reset", True, f"Topic: {topic} Partition: 0 Offset: 0" in printed)
    tools.expect("its offset", "0", table(tools.on(GROUPS, "--group", application, "--describe"))[0]["CURRENT-OFFSET"])


def suite(world, options):
    tools = Tools(world)
    afterwards = []
    for name, story in [(name, story) for name, story in globals().items() if name.startswith("try_")]:
        if options.only and name[4:] not in options.only:
            continue
        world.say(f"{name[4:].replace('_', ' ')}")
        try:
            afterwards.append(story(tools))
        except (Failed, TimeoutError, KeyError, IndexError, StopIteration, ValueError, TypeError) as error:
            world.expect(f"{name}: it went on to its end", "nothing", f"{type(error).__name__}: {error}")
    return lambda: [story() for story in afterwards if story]


def more(parser):
    parser.add_argument("--only", action="append", default=[], metavar="STORY", help="only this story, as its function is named; may be given again")


if __name__ == "__main__":
    judge(suite, options_from(sys.argv[1:], __doc__, more))
