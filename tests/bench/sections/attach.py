# SPDX-License-Identifier: Apache-2.0
"""Attach to a busy program with 8 threads: how long it takes, and how long the program is stopped."""

import harness
from watching import add_attached, attached

ROUNDS = 20


def run(context, section):
    with context.daemon() as daemon:
        measured = []
        for _ in range(context.at_least(ROUNDS)):
            target = harness.Target("busy_threads")
            measured.append(attached(daemon, target.pid))
            target.exit()
    add_attached(section, measured)
