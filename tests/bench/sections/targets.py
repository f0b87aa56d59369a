# SPDX-License-Identifier: Apache-2.0
"""Memory and CPU of memprofd per idle target, for 2 to 300 targets, sampled at the default rate."""

import time

import daemon_cost
import harness
from bench_context import say

COUNTS, SHORT_COUNTS = (2, 10, 50, 100, 300), (2, 20)
SECONDS, SHORT_SECONDS = 30, 3
MAX_END_SECONDS = 600  # before Linux 6.6, memprofd waits for the kernel at each probe that it removes
MOST_END_SECONDS = 10  # goal for any number of targets
GOALS_FROM = 50  # with fewer targets, memprofd's own needs distort the numbers


def run(context, section):
    for count in SHORT_COUNTS if context.short else COUNTS:
        cost = cost_of(context, count)
        column = f"{count} targets" 
        def goal(most, count=count):
            return most if count >= GOALS_FROM else None
        section.add("memory of a target", "MiB", [cost["bytes"] / 2**20], column=column,
                    at_most=goal(daemon_cost.MAX_IDLE_BYTES / 2**20))
        section.add("of that in the kernel", "MiB", [cost["kernel_bytes"] / 2**20], column=column)
        section.add("CPU of a target", "% of a core", [cost["cpu_percent"]], column=column,
                    at_most=goal(daemon_cost.MAX_IDLE_CPU_PERCENT))
        section.add("CPU of one that is waited for", "% of a core", [cost["waiting_percent"]], column=column)
        section.add("end of memprofd", "s", [cost["end_seconds"]], column=column, at_most=MOST_END_SECONDS)
        say(f"  {column}")


def cost_of(context, count):
    """Costs of one count of targets. Each count has its own memprofd, so that earlier targets do not add to it."""
    targets = []
    try:
        with context.daemon() as daemon:
            targets += [harness.Target("known_alloc") for _ in range(count)]
            cost = daemon_cost.of_idle_targets(daemon, targets, SHORT_SECONDS if context.short else SECONDS)
            began = time.monotonic()
            daemon.stop(timeout=MAX_END_SECONDS)
            return {**cost, "end_seconds": time.monotonic() - began}
    finally:
        for target in targets:
            target.kill()
