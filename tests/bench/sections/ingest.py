# SPDX-License-Identifier: Apache-2.0
"""Daemon CPU per event, for a busy target at 1e-2 and for synthetic events alone."""

import json
import subprocess

import harness
import peers
from comparing import add_seen, runs_of
from watching import LARGE_RING
from workloads import CHURN

RATE = 1e-2
MAX_NS = 1000  # a million events per second on one core
MAX_LIVE_BYTES = 64
PROGRAM = harness.BUILD / "tests" / "ingest_bench"
REPETITIONS = 3
# Output of ingest_bench: {key: (quantity, unit, factor, goal)}.
TOLD = {"cpu_per_event": ("made-up events", "ns of CPU an event", 1e9, MAX_NS),
        "bytes_per_live_sample": ("live table", "bytes a sample", 1, MAX_LIVE_BYTES)}


def run(context, section):
    with context.daemon(*LARGE_RING) as daemon:
        runs = runs_of(context, section, CHURN, [peers.Memprofd(daemon, RATE)])
    add_seen(section, "daemon CPU per event", "ns", CHURN, runs,
             lambda _, seen: seen["daemon_cpu"] / seen["events"] * 1e9, {peers.Memprofd: MAX_NS})
    add_seen(section, "events a second of target CPU", "", CHURN, runs, lambda work, seen: seen["events"] / work.cpu)
    add_seen(section, "events lost", "", CHURN, runs, lambda _, seen: sum(seen["lost"].values()), {peers.Memprofd: 0})
    if PROGRAM.exists():
        made_up_events(section, 1 if context.short else REPETITIONS)
    else:
        section.notes.append(f"skipped: {PROGRAM.name} is not built")


def made_up_events(section, repetitions):
    command = [PROGRAM, "--benchmark_format=json", f"--benchmark_repetitions={repetitions}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [row for row in json.loads(done.stdout)["benchmarks"] if row["run_type"] == "iteration"]
    for key, (what, unit, factor, goal) in TOLD.items():
        for name in dict.fromkeys(row["name"] for row in rows if key in row):
            section.add(what, unit, [factor * row[key] for row in rows if row["name"] == name], name, at_most=goal)
    section.details["ingest_bench"] = rows
