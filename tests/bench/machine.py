# SPDX-License-Identifier: Apache-2.0
"""Describes the machine and the command of a benchmark run, so that readers can judge its numbers."""

import datetime
import os
import pathlib
import platform
import shlex
import subprocess

import harness


def about(command):
    began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"command": shlex.join(command), "began": began, **revision(), "kernel": platform.release(),
            "cpu": cpu_model(), "cpus": os.cpu_count(),
            "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
            "ocaml": said("ocamlfind", "ocamlopt", "-version"), "load_before": os.getloadavg()[0],
            "nice": os.getpriority(os.PRIO_PROCESS, 0)}


def said(*command):
    """The output of a command; empty if it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def git(*arguments):
    return said("git", "-C", harness.ROOT, *arguments)


def revision():
    """The commit of this tree. A base of bench-compare is not a work tree; its build folder contains its commit."""
    named = harness.BUILD / "commit"
    if named.exists():
        return {"commit": named.read_text().strip(), "changed": False}
    return {"commit": git("rev-parse", "HEAD") or "unknown",
            "changed": git("status", "--porcelain", "--untracked-files=no") != ""}


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def finished(about):
    """Fields for the end of a run: its duration, and the load of the machine."""
    began = datetime.datetime.fromisoformat(about["began"])
    seconds = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
    return {**about, "seconds": round(seconds), "load_after": os.getloadavg()[0]}
