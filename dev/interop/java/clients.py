#!/usr/bin/env python3
"""The official Java clients 4.4: producers, readers, groups and the administration client, as stories whose values are asserted.

The stories are in src/{Producer,Group,Admin}Stories.java. A broker that others use as well (--bootstrap-servers) is left as it is: what would
change it for all, as a lower transaction.version, is not tried there.
"""

import subprocess
import sys

from world import GivenBroker, judge, options_from


def suite(world, options):
    shared = isinstance(world.broker, GivenBroker)
    stories = world.java("Stories", world.broker.address, world.name, "shared" if shared else "own", *options.only,
                         name="stories", heap="320m", stdout=subprocess.PIPE)
    for line in stories.stdout:
        outcome, _, rest = line.strip().partition(" ")
        if outcome not in ("pass", "FAIL"):
            world.say(f"unexpected: {line.strip()}")
            continue
        world.expect(rest, "pass", outcome)
        if outcome == "pass":
            world.say(f"pass {rest}")
    world.expect("the stories' end", 0, stories.wait())
    world.expect("that there were stories", True, world.checks > 1)


def more(parser):
    parser.add_argument("--only", action="append", default=[], metavar="STORY", help="only this story; may be given again")


if __name__ == "__main__":
    judge(suite, options_from(sys.argv[1:], __doc__, more))
