# SPDX-License-Identifier: Apache-2.0
"""Target CPU and wall time over bare, and CPU per sample, of all workloads and peers."""

import statistics

import peers
from bench_context import rate_text
from comparing import add_over_bare, place, runs_of
from spread import ratios
from watching import LARGE_RING
from workloads import WORKLOADS, Work

COSTS_FROM = 1e-4  # at lower rates the noise of a run exceeds the cost of the samples
# Goals for target CPU over bare, for churn.
CHURN_GOALS = {(peers.Memprofd, rate): goal for rate, goal in ((1e-6, 1.005), (1e-5, 1.005), (1e-4, 1.02), (1e-3, 1.1))}
# Goals for CPU per sample over the plain tracker's; elsewhere the goal is 1.
OVER_TRACKER = {("churn", 1e-3): 0.65, ("churn", 1e-2): 0.65, ("deep", 1e-3): 0.85, ("deep", 1e-2): 0.85}


def run(context, section):
    with context.daemon(*LARGE_RING) as daemon:
        cases = [peers.Bare(), peers.IdleAgent(daemon)]
        for rate in context.rates:
            cases += [peers.Memprofd(daemon, rate), peers.Tracker(context.files, rate)]
        for workload in context.chosen(WORKLOADS):
            measure(section, workload, runs_of(context, section, workload, cases))


def measure(section, workload, runs):
    add_over_bare(section, "target CPU over bare", workload, runs, Work.cpu_per_unit,
                  CHURN_GOALS if workload.name == "churn" else None)
    add_over_bare(section, "wall time over bare", workload, runs, Work.wall_per_unit)
    bare = next(iter(runs.values()))
    costs = {(type(case), case.rate): extra_per_sample(of_case, bare) for case, of_case in runs.items()
             if case.rate and case.rate >= COSTS_FROM}
    for case in runs:
        section.add("target CPU per sample", "ns", costs.get((type(case), case.rate), ()), *place(workload, case))
    for (kind, rate), values in costs.items():
        tracker = costs.get((peers.Tracker, rate))
        if kind is peers.Memprofd and values and tracker:
            # Uses the median, because the tracker's cost in a single round may be close to zero.
            over = ratios(values, [statistics.median(tracker)] * len(values))
            section.add("CPU per sample over the plain tracker's median", "", over, workload.name, rate_text(rate),
                        OVER_TRACKER.get((workload.name, rate), 1.0))


def extra_per_sample(runs, bare):
    """Nanoseconds of target CPU per sample, for each round with samples."""
    return [(work.cpu_per_unit() - without.cpu_per_unit()) * work.units / seen["samples"] * 1e9
            for (work, seen), (without, _) in zip(runs, bare, strict=True) if seen["samples"]]
