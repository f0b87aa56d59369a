# SPDX-License-Identifier: Apache-2.0
"""Bytes written per sample at 1e-3, and the cost of writing them, beside other tools' files."""

import peers
from comparing import add_over_bare, add_seen, runs_of
from watching import LARGE_RING
from workloads import C_HEAVY, CHURN, DEEP, LIVE_HEAP, Work

RATE = 1e-3
MAX_BYTES = {peers.Recorded: 20}
SAMPLES = "samples of perf are 1000 a second of CPU time; those of heaptrack are all of malloc"


def run(context, section):
    with context.daemon(*LARGE_RING) as daemon:
        for workload in context.chosen([CHURN, DEEP, LIVE_HEAP, C_HEAVY]):
            cases = [peers.Bare(), peers.Recorded(daemon, RATE, context.files), peers.Tracker(context.files, RATE),
                     peers.Perf(context.files)]
            if workload is C_HEAVY:
                cases.append(peers.Heaptrack(context.files))
            measure(section, workload, runs_of(context, section, workload, cases))
    section.notes.append(SAMPLES)


def measure(section, workload, runs):
    def written(_work, seen):
        return seen["trace_bytes"] / seen["samples"] if seen.get("samples") and "trace_bytes" in seen else None

    def a_second(work, seen):
        return seen["samples"] / work.wall if seen.get("samples") else None

    def daemon_cores(work, seen):
        return 100 * seen["daemon_cpu"] / work.wall if "daemon_cpu" in seen else None

    add_seen(section, "bytes per sample", "", workload, runs, written, MAX_BYTES)
    add_seen(section, "samples a second", "", workload, runs, a_second)
    add_over_bare(section, "target CPU over bare, with a file", workload, runs, Work.cpu_per_unit)
    add_seen(section, "daemon, recording", "% of a core", workload, runs, daemon_cores)
