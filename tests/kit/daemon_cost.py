# SPDX-License-Identifier: Apache-2.0
"""Measures memprofd's cost for targets, for make bench and for tests of the limits."""

import os
import pathlib
import re
import time

import harness
import real_programs

MAX_IDLE_BYTES = 1.35 * 2**20
# Attaches overlap, so the allocator keeps more freed memory.
MAX_IDLE_BYTES_BESIDE_LOAD = 2.45 * 2**20
MAX_IDLE_KERNEL_BYTES = 0.75 * 2**20
MAX_IDLE_CPU_PERCENT = 0.05
MAX_ATTACH_SECONDS = 0.15
MAX_TABLE_BYTES = 4 * 10**6
LARGEST_DESCRIPTORS = 178_000


def attach(daemon, pid):
    """Attaches at the default rate and budget, whatever memprofd's options are."""
    daemon.ctl("attach", "--pid", pid, "--max-overhead", "1%")


def own_bytes(pid):
    """Private memory of a process."""
    return int(harness.proc_status(pid, "RssAnon").split()[0]) * 1024


def kernel_bytes(pid):
    """Memory of the BPF maps and programs that a process holds, each counted once."""
    taken = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            lines = pathlib.Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines()
        except OSError:
            continue  # closed meanwhile
        told = dict(line.split(":", 1) for line in lines if ":" in line)
        if "memlock" in told:
            taken[told.get("map_id"), told.get("prog_id")] = int(told["memlock"])
    return sum(taken.values())


def cpu_seconds(daemon):
    return daemon.metrics().value("memprofd_cpu_seconds_total")


def cpu_percent(daemon, seconds):
    """Percentage of a core, during a time without requests."""
    cpu, began = cpu_seconds(daemon), time.monotonic()
    time.sleep(seconds)  # the measurement
    return 100 * (cpu_seconds(daemon) - cpu) / (time.monotonic() - began)


def of_idle_targets(daemon, targets, seconds):
    """Attaches to programs that rest until the command "minor": CPU of each until then; bytes and
    CPU afterwards.

    Excludes the first one, because it includes what memprofd has only once (threads and their
    memory, the first answers).
    """
    def sampled(some):
        for target in some:
            target.command("minor")
        return all(t["state"] == "sampling" for t in daemon.targets().values())
    attach(daemon, targets[0].pid)
    harness.eventually(lambda: sampled(targets[:1]), "the first is sampled")
    targets = targets[1:]
    own, kernel = own_bytes(daemon.pid), kernel_bytes(daemon.pid)
    for target in targets:
        attach(daemon, target.pid)
    waiting_percent = cpu_percent(daemon, seconds) / len(targets)
    harness.eventually(lambda: sampled(targets), "all are sampled", timeout=120)
    own, kernel = own_bytes(daemon.pid) - own, kernel_bytes(daemon.pid) - kernel
    sampled_percent = cpu_percent(daemon, seconds) / len(targets)
    return {"bytes": (own + kernel) / len(targets), "own_bytes": own / len(targets),
            "kernel_bytes": kernel / len(targets), "cpu_percent": sampled_percent, "waiting_percent": waiting_percent}


def frame_tables(daemon, pid):
    """Numbers of doctor: (descriptors of the program and its plugins, plugins, bytes in the
    kernel)."""
    said = daemon.ctl("doctor", "--pid", pid, check=False).stdout
    found = re.search(r"frame tables +(\d+) descriptors(?:, (\d+) of (\d+) plugins)?, ([\d.]+) ([KM])iB in the kernel", said)
    program, in_plugins, plugins, size, unit = found.groups("0")
    return int(program) + int(in_plugins), int(plugins), float(size) * {"K": 2**10, "M": 2**20}[unit]


def largest_program(daemon, folder):
    """Coq with plugins, all of them loaded: the process and its frame_tables()."""
    program = real_programs.Coqc(folder, goals=20_000, plugins=real_programs.COQ_PLUGINS)

    def loaded():
        tables = frame_tables(daemon, program.pid)
        return tables if tables[0] >= LARGEST_DESCRIPTORS else None
    return program, harness.eventually(loaded, "its plugins are loaded", timeout=120)


def of_attaches(daemon, pid, count, plugins=0):
    """CPU seconds of memprofd in each of `count` attaches to a program with that many plugins."""
    costs = []
    for _ in range(count):
        before, known = cpu_seconds(daemon), daemon.said().count(": plugin ")
        attach(daemon, pid)
        harness.eventually(lambda: daemon.said().count(": plugin ") >= known + plugins, "its plugins are followed")
        costs.append(cpu_seconds(daemon) - before)
        daemon.detach(pid)
    return costs
