# SPDX-License-Identifier: Apache-2.0
"""ocsigenserver under wrk, 8 connections: latency, throughput and CPU over bare."""

import shutil

import peers
from comparing import add_over_bare, add_seen, runs_of
from workloads import SERVER, Work

HIGHEST_RATE = 1e-3
P99_GOAL = {(peers.Memprofd, 1e-4): 1.03}


def run(context, section):
    if not (shutil.which("wrk") and shutil.which("ocsigenserver.opt")):
        section.notes.append("skipped: wrk or ocsigenserver is not installed")
        return
    with context.daemon() as daemon:
        cases = [peers.Bare(), peers.IdleAgent(daemon)]
        cases += [peers.Memprofd(daemon, rate) for rate in context.rates if rate <= HIGHEST_RATE]
        runs = runs_of(context, section, SERVER, cases)
    for percentile in ("50", "99"):
        def latency(work, *_, percentile=percentile):
            return work.latency_ms[percentile]
        add_over_bare(section, f"p{percentile} of latency over bare", SERVER, runs, latency,
                      P99_GOAL if percentile == "99" else None)
        add_seen(section, f"p{percentile} of latency", "ms", SERVER, runs, latency)
    add_over_bare(section, "target CPU per request over bare", SERVER, runs, Work.cpu_per_unit)
    add_over_bare(section, "wall time per request over bare", SERVER, runs, Work.wall_per_unit)
