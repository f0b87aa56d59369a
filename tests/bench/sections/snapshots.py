# SPDX-License-Identifier: Apache-2.0
"""Heap snapshots: cost of taking one, size of its file, time and memory of answers."""

import contextlib
import os
import pathlib

import harness
from heaps import Heap, Used, places
from rounds import interleaved
from workloads import cpu_seconds

MB = 1024
SHORT_MB = 128
GB = 1e9
# Goals: 1.5 s of CPU per GB, a file of 16 % of the heap, and no more memory than the heap.
MAX_SECONDS_OF_TAKING, MAX_FILE, MAX_MEMORY = 1.5, 16, 100
QUESTIONS = {"show": (), "retained": (), "why": ("make_order",), "garbage": (), "waste": ()}


def ticks_of(pid, children):
    """CPU ticks of a process; with children, also those of the child processes that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15 if children else 13]))


def cpu_of_all(daemon):
    """CPU seconds of memprofd and of its processes that read memory, including ended ones."""
    def ticks():
        nurseries = harness.children(daemon.pid)
        try:
            return sum(ticks_of(pid, False) for nursery in nurseries for pid in harness.children(nursery)) + sum(
                ticks_of(pid, True) for pid in nurseries)
        except OSError as error:
            raise AssertionError("one has just ended") from error
    return cpu_seconds(daemon.pid) + harness.eventually(lambda: ticks() + 1, "the servers' times") / os.sysconf("SC_CLK_TCK")


def taken(heap):
    """Costs of one snapshot, by quantity; seconds are per GB of the heap."""
    before = cpu_of_all(heap.daemon)
    told, done = heap.take()
    gigabytes = told["heap_bytes"] / GB
    cpu = cpu_of_all(heap.daemon) - before
    answers = {name: Used("snapshot", name, heap.file, *options, "-o", "json") for name, options in QUESTIONS.items()}
    return {"told": told, "cpu": (cpu + done.cpu) / gigabytes,
            "file": 100 * told["file_bytes"] / told["heap_bytes"], "answers": answers, "gigabytes": gigabytes}


def add(section, place, rounds):
    def values(value):
        return [value(seen[place]) for seen in rounds]
    section.add("heap", "GB", values(lambda seen: seen["gigabytes"]), place)
    section.add("blocks", "millions", values(lambda seen: seen["told"]["blocks"] / 1e6), place)
    section.add("CPU of taking and writing, all programs", "s a GB", values(lambda seen: seen["cpu"]), place,
                at_most=MAX_SECONDS_OF_TAKING)
    section.add("file", "% of the heap", values(lambda seen: seen["file"]), place, at_most=MAX_FILE)
    for name in QUESTIONS:
        section.add("CPU of an answer", "s a GB", values(lambda seen, name=name: seen["answers"][name].cpu / seen["gigabytes"]),
                    place, name)
        section.add("most memory of an answer", "% of the heap",
                    values(lambda seen, name=name: 100 * seen["answers"][name].bytes / seen["told"]["heap_bytes"]),
                    place, name, at_most=MAX_MEMORY)


def run(context, section):
    present = places(section)
    megabytes = int((SHORT_MB if context.short else MB) * context.scale / (0.1 if context.short else 1))
    with contextlib.ExitStack() as stack:
        heaps = {}
        for place in present:
            heaps[place] = Heap(context, place)
            stack.callback(heaps[place].close)
        for heap in heaps.values():
            heap.fill(max(megabytes, 8))
        rounds = interleaved(present, context.pairs, lambda place: taken(heaps[place]))
    for place in present:
        add(section, place, rounds)
