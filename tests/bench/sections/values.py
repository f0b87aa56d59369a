# SPDX-License-Identifier: Apache-2.0
"""Cost of publishing values, and of watching 1,000 values at 10 Hz, over the same program without."""

import contextlib
import pathlib
import subprocess
import time

import harness
from bench_context import say
from rounds import interleaved
from spread import ratios

PROGRAMS = (("OCaml 4.13", harness.TARGETS, "threads"), ("OCaml 5.3", harness.TARGETS5, "domains"))
WORKERS = (1, 2, 4)
TURNS, BLOCKS, LISTS = 30_000_000, 3_000_000, 100_000_000  # LISTS take ten seconds
# Kind with and without publishing, turns of each worker, name, goals in ns for OCaml 4 and 5.
SAYINGS = (("points", "bare", TURNS, "a point", (1, 3)), ("timers", "bare", TURNS // 3, "a timer, start and stop", (25, 25)),
           ("marks", "blocks", BLOCKS, "a mark", (50, 50)), ("lines", "bare", TURNS, "a line that nobody sees", (1, 1)),
           ("phases", "bare", TURNS // 10, "a phase, begin and end", (None, None)),
           ("c_points", "c_bare", TURNS, "a point of C code", (None, None)))
WATCHES = 10  # per second
WATCHED = (("together", "^Thousand"), ("each on a page of its own", "^Apart"))
MOST_CORE_PERCENT, MOST_RATIO = 1, 1.1


def run(context, section):
    for index, (name, folder, workers) in enumerate(PROGRAMS):
        sayings(context, section, name, folder, workers, index)
    for name, folder, _ in PROGRAMS:
        watched(context, section, name, folder)


def sayings(context, section, name, folder, workers, index):
    target = harness.Target("bench/says", folder=folder)
    try:
        for count in WORKERS:
            for what, without, turns, called, goals in SAYINGS:
                turns = int(turns * context.scale) // count
                done = interleaved([without, what], context.pairs,
                                   lambda kind: target.command(f"run {kind} {count} {turns}")["cpu"])
                row = f"{called}, {name}, {count} {workers if count > 1 else workers[:-1]}"
                add(section, row, [one[what] for one in done], [one[without] for one in done], turns * count, goals[index])
        say(f"  {name}")
    finally:
        target.kill()


def add(section, row, with_it, without, turns, goal):
    cost = [(a - b) / turns * 1e9 for a, b in zip(with_it, without, strict=True)]
    section.add("CPU of the program", "ns", cost, row, at_most=goal)
    if not row.startswith("a point,"):
        return
    section.add("points a second of CPU", "million", [turns / a / 1e6 for a in with_it], row)
    section.add("CPU with points over CPU without", "", ratios(with_it, without), row, at_most=MOST_RATIO)


def watched(context, section, name, folder):
    """Excludes the CPU of memprofctl; memprofd's includes all its processes, and serialization."""
    target = harness.Target("bench/many_values", folder=folder)
    lists = int(LISTS * context.scale)
    try:
        with context.daemon("--pid", target.pid, "--mode", "observe") as daemon:
            done = interleaved([None, *(names for _, names in WATCHED)], context.pairs,
                               lambda names: one(daemon, target, lists, names, context.files / "watched"))
    finally:
        target.kill()
    for where, names in WATCHED:
        row = f"{where}, {name}"
        section.add("CPU with 1,000 values watched over CPU without", "",
                    ratios([one[names][0] for one in done], [one[None][0] for one in done]), row)
        percents = [one[names][1] - one[None][1] for one in done]
        section.add("memprofd, 1,000 values at 10 Hz", "% of a core", percents, row, at_most=MOST_CORE_PERCENT)


def one(daemon, target, lists, names, file):
    """(CPU seconds of the target, percent of a core that memprofd took); the watched values are written to the file."""
    with watching(daemon, names, file) if names else contextlib.nullcontext():
        cpu, began = cpu_of_all(daemon), time.monotonic()
        used = target.command(f"run {lists}")["cpu"]
        return used, 100 * (cpu_of_all(daemon) - cpu) / (time.monotonic() - began)


def cpu_of_all(daemon):
    """CPU seconds of memprofd and of its processes that read targets' memory."""
    pids = [daemon.pid]
    for pid in pids:
        pids += harness.children(pid)
    return sum(int(task.read_text().split()[0]) for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


@contextlib.contextmanager
def watching(daemon, names, file):
    with open(file, "w", encoding="utf-8") as out:
        watcher = subprocess.Popen([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "watch", names,
                                    "-d", str(1 / WATCHES)], stdout=out)
    try:
        harness.eventually(lambda: file.stat().st_size > 0, "they are watched")
        yield
    finally:
        watcher.kill()
        watcher.wait()
