# SPDX-License-Identifier: Apache-2.0
"""Cost of a recording at 1e-3, on the workload with the most samples per second: recorded over not recorded."""

import peers
from comparing import add_over_bare, add_seen, runs_of
from watching import LARGE_RING
from workloads import CHURN, Work

RATE = 1e-3
MAX_CORE_PERCENT = {peers.Recorded: 25}


def run(context, section):
    with context.daemon(*LARGE_RING) as daemon:
        cases = [peers.Memprofd(daemon, RATE), peers.Recorded(daemon, RATE, context.files)]
        runs = runs_of(context, section, CHURN, cases)
    add_over_bare(section, "target CPU, recorded over not recorded", CHURN, runs, Work.cpu_per_unit)
    add_seen(section, "daemon", "% of a core", CHURN, runs,
             lambda work, seen: 100 * seen["daemon_cpu"] / work.wall, MAX_CORE_PERCENT)
