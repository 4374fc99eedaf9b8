"""Runs librdkafka's own tests against a broker, each in a process of its own. usage: own_tests.py ADDRESS WORK [TEST…]

Tests that consist of many independent parts run part by part, so that one missing feature does not hide the rest: such a row is called
`test:function`. Tests that need no broker (unit tests, and those on librdkafka's mock cluster) are none of ours. What `left_out.tsv`
names is skipped, for the reason that stands there.

JOBS=2 tests at a time; PROTOCOL=consumer groups of the new protocol; SCENARIO=noautocreate the tests for a broker that makes no topics.
"""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ADDRESS, WORK, ASKED = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
TESTS = WORK / "librdkafka" / "tests"
SCENARIO = os.environ.get("SCENARIO", "default")
PROTOCOL = os.environ.get("PROTOCOL", "classic")
JOBS = int(os.environ.get("JOBS", "2"))
LIMIT_SECONDS = 120
# Long by design.
LONGER = {"0030": 180, "0038": 240, "0056": 180, "0089": 240, "0098": 300, "0102": 240, "0113": 180,
          "0113_cooperative_rebalance:u_multiple_subscription_changes": 480}
IN_PARTS = ("0081", "0103", "0113")
# It measures latencies: last, with nothing beside it.
UNDISTURBED = ("0055_producer_latency",)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
VERDICTS = {"PASSED": "PASS", "SKIPPED": "SKIP", "DNS": "SKIP", "FAILED": "FAIL", "RUNNING": "FAIL"}


def left_out():
    lines = (Path(__file__).parent / "left_out.tsv").read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines if line and not line.startswith("#"))


def tests_of_the_suite():
    """The names in the table of test.c that want a broker and belong to the scenario."""
    source = (TESTS / "test.c").read_text()
    table = source[source.index("struct test tests[]"):]
    table = table[:table.index("/* Manual tests */\n    _TEST")]
    for entry in table.split("\n    _TEST(")[1:]:
        name = re.match(r"\s*(\w+)", entry).group(1)
        scenario = re.search(r'\.scenario = "([^"]*)"', entry)
        if "TEST_F_LOCAL" not in entry and SCENARIO in (scenario.group(1) if scenario else "default"):
            yield name


def parts_of(name):
    """The functions of a test's file that begin with SUB_TEST, but for those that its variants without a broker call."""
    parts, elsewhere = [], ""
    for path in sorted(TESTS.glob(f"{name[:4]}-*.c")) + sorted(TESTS.glob(f"{name[:4]}-*.cpp")):
        text = path.read_text()
        elsewhere += "".join(re.findall(r"^int main_\w+_(?:local|mock)\(.*?^}", text, re.M | re.S))
        function = None
        for line in text.splitlines():
            head = re.match(r"^(?:(?:static\s+)?(?:void|int)\s+)?(\w+)\s*\(", line)
            if head:
                function = head.group(1)
            elif re.match(r"^\s+SUB_TEST(0|_QUICK)?\(", line) and function not in parts:
                parts.append(function)
    return [part for part in parts if not re.search(rf"\b{part}\(", elsewhere)]


def rows_to_run():
    for name in tests_of_the_suite():
        yield from ([f"{name}:{part}" for part in parts_of(name)] if name[:4] in IN_PARTS else [name])


def limit(row):
    return LONGER.get(row) or LONGER.get(row[:4]) or LIMIT_SECONDS


def environment(row):
    own = {key: value for key, value in os.environ.items() if key not in ("CI", "TESTS", "SUBTESTS", "TESTS_SKIP", "TEST_LEVEL")}
    own.update(RDKAFKA_TEST_CONF=str(WORK / f"{PROTOCOL}-{SCENARIO}.conf"), TEST_MODE="bare", TEST_SCENARIO=SCENARIO, BROKERS=ADDRESS,
               TEST_KAFKA_VERSION="4.0.0", TEST_CONSUMER_GROUP_PROTOCOL=PROTOCOL, TESTS=row[:4],
               LD_LIBRARY_PATH=f"{TESTS.parent / 'src'}:{TESTS.parent / 'src-cpp'}")
    if ":" in row:
        own["SUBTESTS"] = row.split(":")[1] + ":"
    if (WORK / "kafka").exists():
        own["KAFKA_PATH"] = str(WORK / "kafka")
    return own


def run(rows):
    """Rows that are one process: the suite's program runs all the tests of a number, and they know each other's topics."""
    row = rows[0]
    log, begin, late = WORK / "logs" / f"{PROTOCOL}-{row.replace(':', '.')}.log", time.monotonic(), False
    with open(log, "wb") as out:
        # -L leaves out what needs no broker.
        process = subprocess.Popen(["stdbuf", "-oL", "./test-runner", "-p1", "-L"], cwd=TESTS, env=environment(row), stdout=out, stderr=out,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(limit(row))
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    text = COLOUR.sub("", log.read_text(errors="replace"))
    return [(row, *verdict(row, text, code, late), time.monotonic() - begin) for row in rows]


def verdict(row, text, code, late):
    name = row.split(":")[0]
    line = re.search(rf"^\|\s*{name}\s*\|\s*(\w+)\s*\|\s*[\d.]+s\s*\|(.*(?:\n(?![|#%]).*)*)", text, re.M)
    passed = re.search(r"^.*\[ .*: PASS \([\d.]+s\) \]", text, re.M)
    if line is None:
        if late:
            part = re.findall(r"\[ (.*?) \]$", text, re.M)
            return "FAIL", f"not done after {limit(row)} s{', in ' + part[-1] if part else ''}"
        broken = re.findall(r"^### Test .*\n(.*)", text, re.M) or re.findall(r"^.*[Aa]ssert.*$", text, re.M)
        return "FAIL", f"ended with {code} and no summary: {broken[0] if broken else ''}"
    result, note = VERDICTS.get(line.group(1), "FAIL"), " ".join(line.group(2).split())
    if result == "PASS" and code:
        return "FAIL", f"passed, then the process ended with {code}"
    if result == "PASS" and ":" in row and not passed:
        reasons = re.findall(r"\[ .*: SKIP: (.*?)\s+\]", text)
        return "SKIP", reasons[-1] if reasons else "it does not run with this version, protocol or mode"
    return result, "" if result == "PASS" else note


def tell(row, result, note, seconds):
    print("result", row, result, f"{seconds:.1f}", note.replace("\t", " ")[:500], sep="\t", flush=True)


def main():
    (WORK / "logs").mkdir(exist_ok=True)
    (WORK / f"{PROTOCOL}-{SCENARIO}.conf").write_text(f"bootstrap.servers={ADDRESS}\ntest.topic.random=true\n")
    skipped, rows = left_out(), list(rows_to_run())
    if ASKED:
        rows = [row for row in rows if row in ASKED or row.split(":")[0] in ASKED or row[:4] in ASKED]
    for row in [row for row in rows if row in skipped and row not in ASKED]:
        tell(row, "SKIP", f"left out: {skipped[row]}", 0)
        rows.remove(row)
    together = {}
    for row in sorted(rows, key=limit, reverse=True):
        together.setdefault(row if ":" in row else row[:4], []).append(row)
    beside = [rows for rows in together.values() if rows[0] not in UNDISTURBED]
    failed = []

    def done(results):
        good = [told for told in results if told[1] != "FAIL"]
        for told in good:
            tell(*told)
        if good != results:
            failed.append([told for told in results if told[1] == "FAIL"])

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, rows) for rows in beside]):
            done(future.result())
    for row in UNDISTURBED:
        if row in rows:
            done(run([row]))
    # Once more, alone: most of these tests wait for some time to pass, and what else runs on the machine may take it from them.
    for results in list(failed):
        first = {row: note for row, _, note, _ in results}
        for row, result, note, seconds in run(list(first)):
            tell(row, result, note if result == "FAIL" else f"{note} (at the second try; first: {first[row]})", seconds)


main()
