# SPDX-License-Identifier: Apache-2.0
"""Number of runs and run time of a memprofd's BPF programs, while the kernel counts them."""

import contextlib
import ctypes
import json
import os
import pathlib
import subprocess

SYS_BPF = 321  # x86-64
BPF_ENABLE_STATS = 32
KPROBE = 2  # type of the BPF programs at probes


@contextlib.contextmanager
def counted():
    """Makes the kernel count until the end of the block or of this process."""
    attributes = ctypes.create_string_buffer(128)  # zeros: BPF_STATS_RUN_TIME
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, BPF_ENABLE_STATS, attributes, len(attributes))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not count runs of BPF programs")
    try:
        yield
    finally:
        os.close(fd)


def _fields(path):
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError:
        return {}  # the descriptor has been closed
    return dict(line.split(":", 1) for line in lines if ":" in line)


def probe_programs(pid):
    """{id: (runs, nanoseconds)} of a process's BPF programs at probes."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        fields = _fields(f"/proc/{pid}/fdinfo/{fd}")
        if int(fields.get("prog_type", -1)) == KPROBE:
            found[int(fields["prog_id"])] = (int(fields["run_cnt"]), int(fields["run_time_ns"]))
    return found


def names():
    """{program id: name}"""
    shown = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True, check=True)
    return {program["id"]: program.get("name", "") for program in json.loads(shown.stdout)}


class Hits:
    """Counts of the programs at a memprofd's probes since the creation of this object, by program name."""

    def __init__(self, pid):
        self.pid, self.before, self.names = pid, probe_programs(pid), names()

    def now(self):
        """{name: (runs, nanoseconds)} of the programs that ran."""
        totals = {}
        for program, (runs, ns) in probe_programs(self.pid).items():
            runs_before, ns_before = self.before.get(program, (0, 0))
            name = self.names.get(program, str(program))
            known = totals.get(name, (0, 0))
            totals[name] = (known[0] + runs - runs_before, known[1] + ns - ns_before)
        return {name: total for name, total in totals.items() if total[0]}
