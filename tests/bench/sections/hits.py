# SPDX-License-Identifier: Apache-2.0
"""Probe hits per sample, counted by the kernel."""

import peers
import probe_hits
from bench_context import say
from comparing import place
from watching import LARGE_RING
from workloads import WORKLOADS

ROUNDS = 3  # counts rarely vary
LOWEST_RATE = 1e-4  # at lower rates a run has too few samples for a ratio


def run(context, section):
    with probe_hits.counted(), context.daemon(*LARGE_RING) as daemon:
        for workload in context.chosen(WORKLOADS):
            for rate in (rate for rate in context.rates if rate >= LOWEST_RATE):
                case = peers.Probed(daemon, rate)
                seen = [peers.run(workload, case, context.files, context.scale)[1]
                        for _ in range(min(ROUNDS, context.pairs))]
                add(section, place(workload, case), seen)
            say(f"  {workload.name}")


def add(section, at, seen):
    runs = [{name: runs for name, (runs, _) in one["programs"].items()} for one in seen]
    values = [sum(of_run.values()) / one["samples"] for of_run, one in zip(runs, seen) if one["samples"]]
    section.add("probe hits per sample", "", values, *at, at_most=1)
    section.details[", ".join(at)] = [{"samples": one["samples"], **of_run} for of_run, one in zip(runs, seen)]
