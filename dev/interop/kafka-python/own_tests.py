"""Runs kafka-python's own integration tests against a broker. usage: own_tests.py ADDRESS WORK [TEST…]

Left out are test_sasl_integration.py and test_ssl_integration.py, which start brokers of their own with SASL and TLS, and the unit tests,
which need no broker.
"""
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ADDRESS, WORK, ASKED = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
SOURCE = WORK / "source"
MODULES = ("test_admin_integration", "test_consumer_integration", "test_producer_integration")
# The newest that this kafka-python knows. Without it, everything is skipped.
KAFKA_VERSION = "4.3"
TEST_LIMIT_SECONDS, RUN_LIMIT_SECONDS = 60, 600


def verdict(case):
    for child in case:
        text = " ".join(f"{child.get('message') or ''}".split())
        if child.tag == "skipped":
            return "SKIP", text
        if child.tag in ("failure", "error"):
            told = re.findall(r"^E  +(.*)", child.text or "", re.M)
            return "FAIL", " ".join(told[:1]) or text
    return "PASS", ""


def main():
    asked = [f"test/integration/{name.replace('::', '.py::', 1)}" for name in ASKED]
    report = WORK / "report.xml"
    report.unlink(missing_ok=True)
    environment = dict(os.environ, KAFKA_URI=f"tcp://{ADDRESS}", KAFKA_VERSION=KAFKA_VERSION, KAFKA_ROOT=str(WORK / "no-kafka"))
    # Without this the fixtures would take its host and port for the broker's.
    environment.pop("ZOOKEEPER_URI", None)
    # Limits by signal: the other way, the suite's own, ends the whole run at the first test that hangs.
    command = [str(WORK / "venv/bin/python"), "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "junit_family=xunit2",
               "--tb=short", f"--timeout={TEST_LIMIT_SECONDS}", "--timeout-method=signal", f"--junitxml={report}",
               *(asked or [f"test/integration/{module}.py" for module in MODULES])]
    subprocess.run(command, cwd=SOURCE, env=environment, timeout=RUN_LIMIT_SECONDS, stdout=sys.stderr)
    results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname').split('.')[-1]}::{case.get('name')}"
        result, note = verdict(case)
        # A test and the fixtures that end after it are two cases.
        if name not in results or result == "FAIL":
            results[name] = (result, float(case.get("time")), note)
    for name, (result, seconds, note) in results.items():
        print("result", name, result, f"{seconds:.1f}", note.replace("\t", " ")[:500], sep="\t", flush=True)


main()
