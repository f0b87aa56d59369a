# SPDX-License-Identifier: Apache-2.0
"""Programs with large heaps, each with its own memprofd, and memprofctl commands about them."""

import json
import os
import subprocess

import harness

RATE = 1e-4
PROGRAM = "large_heap"
PLACES = {"OCaml 4.13": harness.TARGETS, "OCaml 5.3": harness.BUILD / "targets-trixie"}
MORE_PAUSE_SECONDS = 0.3e-3  # allowance for a snapshot on top of the program's own fork


def places(section):
    """The places whose program is built; a note names the others."""
    for place, folder in PLACES.items():
        if not (folder / PROGRAM).exists():
            section.notes.append(f"skipped: {PROGRAM} of {place} is not built")
    return [place for place, folder in PLACES.items() if (folder / PROGRAM).exists()]


class Heap:
    """A program with a large heap, sampled from the start."""

    def __init__(self, context, place, env=None):
        self.place, self.file = place, context.files / f"{place}.heap"
        self.target = harness.Target(PROGRAM, folder=PLACES[place], env=env)
        self.daemon = harness.Daemon(context.files, *context.memprofd, "--pid", self.target.pid, rate=RATE)

    def fill(self, megabytes):
        self.daemon.wait_state(self.target.pid, "sampling")
        self.target.command(f"fill {megabytes}", timeout=600)

    def own_fork(self):
        """Seconds that the program's own fork takes."""
        return self.target.command("fork", timeout=60)["seconds"]

    def take(self):
        """Takes a snapshot into self.file; returns memprofctl's answer and the command's cost."""
        done = Used("--grpc.socket", self.daemon.socket, "snapshot", "take", "--pid", self.target.pid,
                    "--out", self.file, "--max-pause", "10s", "-o", "json")
        return json.loads(done.output), done

    def close(self):
        self.target.kill()
        self.daemon.stop()
        self.daemon.kill()


class Used:
    """A finished command of memprofctl: its output, CPU time and peak memory."""

    def __init__(self, *arguments):
        command = [harness.BUILD / "memprofctl", *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            self.output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))} ended with {process.returncode}")
        self.cpu, self.bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
