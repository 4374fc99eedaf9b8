"""What the suites share: the broker that is judged, JVMs, waiting, and the list of what was found wrong.

It knows nothing of any suite.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
KAFKA = HERE.parent / "kafka"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, condition, seconds=60, pause=0.05):
    """Waits for a condition and returns what it returned."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds} s still not: {what}")
        time.sleep(pause)
    return result


class OurBroker:
    """A broker started by a command in which {port} and {data} are replaced."""

    can_be_killed = True
    is_apache = False

    def __init__(self, command, scratch):
        self.port, self.data = free_port(), scratch / "broker"
        self.command = [part.format(port=self.port, data=self.data) for part in command]
        self.address = f"127.0.0.1:{self.port}"
        self.log = open(scratch / "broker.log", "ab")
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)

        def answers():
            assert self.process.poll() is None, f"the broker ended by itself with {self.process.returncode}: see {self.log.name}"
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return True
            except OSError:
                return False

        until("the broker listens", answers)

    def kill(self):
        assert self.process.poll() is None, f"the broker ended by itself with {self.process.returncode}: see {self.log.name}"
        self.process.kill()
        self.process.wait()

    def stop(self):
        assert self.process.poll() is None, f"the broker ended by itself with {self.process.returncode}: see {self.log.name}"
        self.process.terminate()
        status = self.process.wait(timeout=60)
        assert status == 0, f"the broker ended with {status} at SIGTERM: see {self.log.name}"

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class ApacheKafka:
    """The same for Apache Kafka: what fails on it as well is the suite's fault, not a broker's.

    One node of 4.4.0 does not bear SIGKILL amid transactions: when it starts again it takes transactions for complete whose markers it
    has not written everywhere, and readers of what is committed stand still there for ever (TransactionsCommand find-hanging lists them).
    """

    can_be_killed = False
    is_apache = True
    SETTINGS = [
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
        "group.min.session.timeout.ms=500",
        "group.initial.rebalance.delay.ms=0",
    ]

    def __init__(self, scratch):
        self.folder, self.port = scratch / "kafka", free_port()
        self.data = self.folder / "node-1"
        self.address = f"127.0.0.1:{self.port}"

    def call(self, verb, *arguments):
        subprocess.run([KAFKA, verb, "--data", self.folder, *arguments], check=True, stdout=subprocess.DEVNULL)

    def start(self):
        settings = [word for setting in self.SETTINGS for word in ("--set", setting)]
        self.call("start", "--heap", "512m", "--port", str(self.port), *settings)

    def stop(self):
        self.call("stop")

    def end(self):
        if self.folder.exists():
            self.call("stop")


class GivenBroker:
    """One that somebody else runs. Its data cannot be looked at, and it is not killed."""

    can_be_killed = False
    data = None

    def __init__(self, address, is_apache):
        self.address, self.is_apache = address, is_apache

    def start(self):
        pass

    stop = end = start


class World:
    """One run of a suite: its broker, its folder, its JVMs, its random numbers, and what was found wrong."""

    def __init__(self, options):
        self.seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
        self.random = random.Random(self.seed)
        self.scratch = Path(tempfile.mkdtemp(prefix="atonce-judge-"))
        # Names of topics, groups and ids begin with it: a broker may be judged twice.
        self.name = f"judge{self.seed}"
        self.jars = subprocess.run([KAFKA, "jars"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        self.classes = self.compiled()
        self.processes = []
        self.faults = []
        self.checks = 0
        if options.bootstrap_servers:
            self.broker = GivenBroker(options.bootstrap_servers, options.apache)
        elif options.apache:
            self.broker = ApacheKafka(self.scratch)
        else:
            self.broker = OurBroker(options.command, self.scratch)

    def compiled(self):
        """Our Java sources, compiled once for each state of them."""
        sources = sorted((HERE / "src").glob("*.java"))
        state = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + self.jars.encode()).hexdigest()[:16]
        classes = Path(tempfile.gettempdir()) / f"atonce-judge-classes-{os.getuid()}-{state}"
        if not classes.exists():
            own = Path(tempfile.mkdtemp(prefix="atonce-judge-javac-"))
            subprocess.run(["javac", "-nowarn", "-proc:none", "-cp", f"{self.jars}/*", "-d", own, *sources], check=True)
            try:
                own.rename(classes)
            except OSError:
                # Another run was first with the same.
                shutil.rmtree(own)
        return classes

    def say(self, text):
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    def expect(self, what, expected, found):
        """Notes a fault unless both are the same; all of a suite's faults are shown at its end."""
        self.checks += 1
        if expected != found:
            self.faults.append(f"{what}:\n    expected {expected!r}\n    found    {found!r}")
            self.say(f"WRONG {self.faults[-1]}")
        return expected == found

    def java(self, main_class, *arguments, name=None, heap="160m", stdin=None, stdout=None, text=True):
        """Starts a class. Its stderr, and its stdout unless that is asked for, go to a file of the scratch folder."""
        environment = dict(os.environ, KAFKA_HEAP=heap, KAFKA_CLASSES=str(self.classes))
        with open(self.scratch / f"{name or main_class}.log", "ab") as log:
            process = subprocess.Popen([KAFKA, "run", main_class, *map(str, arguments)], env=environment, stdin=stdin,
                                       stdout=stdout or log, stderr=log, text=text)
        self.processes.append(process)
        return process

    def call(self, main_class, *arguments, seconds=300, name=None, stdin=None):
        """Runs a class to its end and returns what it printed."""
        process = self.java(main_class, *arguments, name=name, stdin=subprocess.PIPE if stdin is not None else None, stdout=subprocess.PIPE)
        printed, _ = process.communicate(stdin, timeout=seconds)
        if process.returncode != 0:
            log = (self.scratch / f"{name or main_class}.log").read_text(errors="replace")
            raise RuntimeError(f"{main_class} {' '.join(map(str, arguments))} ended with {process.returncode}:\n{printed[-2000:]}\n{log[-3000:]}")
        return printed

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.broker.end()


def options_from(arguments, description, more=lambda parser: None):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", help="judge the broker that runs there")
    parser.add_argument("--apache", action="store_true", help="judge Apache Kafka: without --bootstrap-servers one is started")
    parser.add_argument("--seed", type=int, help="repeats a run as far as chance is ours")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folder, with all logs, of a run that went well")
    more(parser)
    parser.add_argument("command", nargs="*", help="after --: starts the broker; {port} and {data} are replaced")
    options = parser.parse_args(arguments)
    if not (options.command or options.bootstrap_servers or options.apache):
        parser.error("name a broker: -- COMMAND…, --bootstrap-servers or --apache")
    return options


def judge(suite, options):
    """Runs a suite, a function of the world; exits with 1 if something was wrong.

    The suite may return a function for when the broker has ended: what it has on disk is whole then.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    world = World(options)
    world.say(f"seed {world.seed}, logs in {world.scratch}")
    began = time.monotonic()
    whole = False
    try:
        world.broker.start()
        afterwards = suite(world, options)
        world.broker.stop()
        if afterwards:
            afterwards()
        whole = True
    finally:
        world.end()
        if not whole:
            world.say(f"did not come to its end; {len(world.faults)} faults before; logs in {world.scratch}")
    took = time.monotonic() - began
    if world.faults:
        world.say(f"{len(world.faults)} of {world.checks} checks failed in {took:.0f} s; seed {world.seed}; logs in {world.scratch}")
        sys.exit(1)
    if not options.keep:
        shutil.rmtree(world.scratch, ignore_errors=True)
    world.say(f"all {world.checks} checks hold, in {took:.0f} s")
