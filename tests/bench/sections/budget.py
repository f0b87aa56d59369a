# SPDX-License-Identifier: Apache-2.0
"""Effect of a budget of target CPU (--max-overhead): CPU over bare, and correctness of the estimates."""

import subprocess

import harness
import peers
from comparing import add_over_bare, add_seen, runs_of
from watching import LARGE_RING
from workloads import Bundled, Work

OPTION = "--max-overhead"
PERCENTS = (1, 5)
RATE = 1e-2  # requested rate, far above what the budgets allow
# Longer than other runs, so that the rate has settled for most of the time. The allocated words are known.
PROGRAMS = [Bundled("churn", 1_500_000_000), Bundled("bursts", 1_000_000_000)]
WORD_BYTES = 8


class Budgeted(peers.Memprofd):
    """Also reports the rate at the end, and the estimated number of words."""

    def __init__(self, daemon, percent):
        super().__init__(daemon, RATE)
        self.percent = percent
        self.name = f"memprofd, {percent} %"

    def look(self, process):
        seen = super().look(process)
        rate = self.growth.daemon.metrics().value("memprofd_sampling_rate", pid=process.pid)
        estimated = self.growth.now().total("memprofd_allocated_bytes_total", pid=process.pid) / WORD_BYTES
        return {**seen, "rate": rate, "words": estimated}


def run(context, section):
    told = subprocess.run([harness.BUILD / "memprofd", "--help"], capture_output=True, text=True, check=True)
    if OPTION not in told.stdout:
        section.notes.append(f"skipped: this memprofd has no {OPTION}")
        return
    for percent in PERCENTS:
        with context.daemon(*LARGE_RING, OPTION, f"{percent}%") as daemon:
            for workload in PROGRAMS:
                runs = runs_of(context, section, workload, [peers.Bare(), Budgeted(daemon, percent)])
                measure(section, workload, runs, percent, workload.amount * context.scale)


def measure(section, workload, runs, percent, words):
    add_over_bare(section, "target CPU over bare", workload, runs, Work.cpu_per_unit, {(Budgeted, RATE): 1 + percent / 100})
    add_seen(section, "sampling rate at the end", "", workload, runs, lambda _, seen: seen.get("rate"))
    add_seen(section, "estimated over allocated words", "", workload, runs,
             lambda _, seen: seen["words"] / words if "words" in seen else None)
