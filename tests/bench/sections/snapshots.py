# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a heap: what taking one costs, how large its file is, and time and memory of answers."""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess

import harness
from rounds import interleaved
from workloads import cpu_seconds

MB = 1024
SHORT_MB = 128
RATE = 1e-4
PROGRAM = "large_heap"
PLACES = {"OCaml 4.13": harness.TARGETS, "OCaml 5.3": harness.BUILD / "targets-trixie"}
GB = 1e9
# The goals of the snapshots: a second and a half of a core for 1 GB, 16 % of the heap, no more memory than it has.
MAX_SECONDS_OF_TAKING, MAX_FILE, MAX_MEMORY = 1.5, 16, 100
# Of what a fork takes that the program does itself, beside this.
MAX_PAUSE, MORE_PAUSE_SECONDS = 1.1, 0.3e-3
QUESTIONS = {"show": (), "retained": (), "why": ("make_order",), "garbage": (), "waste": ()}


class Heap:
    """A program with a large heap, sampled while it was made."""

    def __init__(self, context, place):
        self.place, self.file = place, context.files / f"{place}.heap"
        self.target = harness.Target(PROGRAM, folder=PLACES[place])
        self.daemon = harness.Daemon(context.files, *context.memprofd, "--pid", self.target.pid, rate=RATE)

    def fill(self, megabytes):
        self.daemon.wait_state(self.target.pid, "sampling")
        self.target.command(f"fill {megabytes}", timeout=600)

    def own_fork(self):
        """Seconds that the program takes for a fork of its own."""
        return self.target.command("fork", timeout=60)["seconds"]

    def close(self):
        self.target.kill()
        self.daemon.stop()
        self.daemon.kill()


class Used:
    """A command of memprofctl that has ended: its output, CPU time and most memory."""

    def __init__(self, *arguments):
        command = [harness.BUILD / "memprofctl", *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            self.output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))} ended with {process.returncode}")
        self.cpu, self.bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def ticks_of(pid, children):
    """CPU time of a process, and of those that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15 if children else 13]))


def cpu_of_all(daemon):
    """CPU seconds of memprofd, and of the processes that read memory for it, those that have ended too."""
    def ticks():
        nurseries = harness.children(daemon.pid)
        try:
            return sum(ticks_of(pid, False) for nursery in nurseries for pid in harness.children(nursery)) + sum(
                ticks_of(pid, True) for pid in nurseries)
        except OSError as error:
            raise AssertionError("one has just ended") from error
    return cpu_seconds(daemon.pid) + harness.eventually(lambda: ticks() + 1, "the servers' times") / os.sysconf("SC_CLK_TCK")


def taken(heap):
    """What one snapshot took, by quantity; of a GB of the heap where it is seconds."""
    forks = [heap.own_fork()]
    before = cpu_of_all(heap.daemon)
    done = Used("--grpc.socket", heap.daemon.socket, "snapshot", "take", "--pid", heap.target.pid, "--out", heap.file,
                "--max-pause", "10s", "-o", "json")
    told = json.loads(done.output)
    gigabytes = told["heap_bytes"] / GB
    cpu = cpu_of_all(heap.daemon) - before
    forks.append(heap.own_fork())
    answers = {name: Used("snapshot", name, heap.file, *options, "-o", "json") for name, options in QUESTIONS.items()}
    return {"told": told, "cpu": (cpu + done.cpu) / gigabytes, "pause": 1e3 * told["pause_seconds"] / gigabytes,
            "forks": (told["pause_seconds"] - MORE_PAUSE_SECONDS) / statistics.mean(forks),
            "file": 100 * told["file_bytes"] / told["heap_bytes"], "answers": answers, "gigabytes": gigabytes}


def add(section, place, rounds):
    def values(value):
        return [value(seen[place]) for seen in rounds]
    section.add("heap", "GB", values(lambda seen: seen["gigabytes"]), place)
    section.add("blocks", "millions", values(lambda seen: seen["told"]["blocks"] / 1e6), place)
    section.add("CPU of taking and writing, all programs", "s a GB", values(lambda seen: seen["cpu"]), place,
                at_most=MAX_SECONDS_OF_TAKING)
    section.add("the program stands still", "ms a GB", values(lambda seen: seen["pause"]), place)
    section.add("the program stands still, less 0.3 ms", "of its own fork", values(lambda seen: seen["forks"]), place,
                at_most=MAX_PAUSE)
    section.add("file", "% of the heap", values(lambda seen: seen["file"]), place, at_most=MAX_FILE)
    for name in QUESTIONS:
        section.add("CPU of an answer", "s a GB", values(lambda seen, name=name: seen["answers"][name].cpu / seen["gigabytes"]),
                    place, name)
        section.add("most memory of an answer", "% of the heap",
                    values(lambda seen, name=name: 100 * seen["answers"][name].bytes / seen["told"]["heap_bytes"]),
                    place, name, at_most=MAX_MEMORY)


def run(context, section):
    places = [place for place, folder in PLACES.items() if (folder / PROGRAM).exists()]
    for place in PLACES.keys() - set(places):
        section.notes.append(f"skipped: {PROGRAM} of {place} is not built")
    megabytes = int((SHORT_MB if context.short else MB) * context.scale / (0.1 if context.short else 1))
    with contextlib.ExitStack() as stack:
        heaps = {}
        for place in places:
            heaps[place] = Heap(context, place)
            stack.callback(heaps[place].close)
        for heap in heaps.values():
            heap.fill(max(megabytes, 8))
        rounds = interleaved(places, context.pairs, lambda place: taken(heaps[place]))
    for place in places:
        add(section, place, rounds)
