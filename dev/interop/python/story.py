"""Tells stories: runs each, prints a line per story for `dev/interop/run`, and goes on after one that failed.

A story file calls `tell(globals())`: every function whose name does not begin with `_` and that is marked with `@story` is one. Called
with `--child NAME ARGUMENTS…` the file runs one of its functions instead: the process that a story is going to kill.
"""
import os
import select
import signal
import subprocess
import sys
import time
import traceback
import uuid

ADDRESS = sys.argv[1]
# Names of topics, groups and transactional ids end with it: suites can run again on the same broker.
RUN = uuid.uuid4().hex[:8]
STORIES, CHILDREN = [], {}


class Skip(Exception):
    """This client cannot do it: the reason goes into the expected results."""


def story(function):
    STORIES.append(function)
    return function


def child(function):
    CHILDREN[function.__name__] = function
    return function


def until(what, ready, seconds=30, pause=0.05):
    """What `ready` returns, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        result = ready()
        if result:
            return result
        assert time.monotonic() < deadline, f"not within {seconds} s: {what() if callable(what) else what}"
        if pause:
            time.sleep(pause)


def equal(found, wanted, what=""):
    assert found == wanted, f"{what + ': ' if what else ''}found {found!r:.600}, wanted {wanted!r:.600}"


class Victim:
    """A process of this file that says `ready` once it has done its part, and is killed by SIGKILL then."""

    def __init__(self, function, *arguments):
        command = [sys.executable, sys.argv[0], ADDRESS, "--child", function.__name__, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        readable, _, _ = select.select([self.process.stdout], [], [], 60)
        line = self.process.stdout.readline() if readable else ""
        if line.strip() != "ready":
            self.process.kill()
            raise AssertionError(f"{function.__name__}: said {line!r} where `ready` was wanted")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def ready_to_be_killed(meanwhile=lambda: time.sleep(3600)):
    print("ready", flush=True)
    while True:
        meanwhile()


def tell():
    if len(sys.argv) > 2 and sys.argv[2] == "--child":
        CHILDREN[sys.argv[3]](*sys.argv[4:])
        return
    for function in STORIES:
        if sys.argv[2:] and function.__name__ not in sys.argv[2:]:
            continue
        begin, result, note = time.monotonic(), "PASS", ""
        try:
            function()
        except Skip as skip:
            result, note = "SKIP", str(skip)
        except BaseException as error:  # whatever it was, the next story is told
            traceback.print_exc()
            result, note = "FAIL", f"{type(error).__name__}: {error}"
        note = " ".join(note.split())[:600]
        print(f"result\t{function.__name__}\t{result}\t{time.monotonic() - begin:.1f}\t{note}", flush=True)
    # A client's threads that hang must not hold the suite up; what they did not do is in the results.
    sys.stdout.flush()
    os._exit(0)
