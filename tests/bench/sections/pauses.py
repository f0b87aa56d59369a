# SPDX-License-Identifier: Apache-2.0
"""Pause of a program for a heap snapshot, beside its own forks, and time until an answer."""

import contextlib
import statistics
import time

import heaps
from heaps import Heap, Used

MEGABYTES = (100, 1000, 4000)
SHORT_MEGABYTES = (100,)
ROUNDS = 5
FORKS = 3  # the program's own forks before each snapshot and after it
MAX_PAUSE = 1.1  # goal relative to the program's own fork, after subtracting heaps.MORE_PAUSE_SECONDS
MAX_ANSWER_SECONDS = 2  # goal for the smallest heap, from the command to the answer
# The tunable makes malloc use huge pages. OCaml 5 maps its heap without malloc.
PAGES = {"small pages": None, "huge pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}}
HAS_HUGE_PAGES = "OCaml 4.13"


def own_fork(heap):
    """A fork after a command, as in a snapshot: a fork immediately after another one would find warm caches."""
    Used("--grpc.socket", heap.daemon.socket, "targets")
    return heap.own_fork()


def paused(heap):
    """(pause of one snapshot, median of the program's own forks), in seconds."""
    own = [own_fork(heap) for _ in range(FORKS)]
    told, _ = heap.take()
    own += [own_fork(heap) for _ in range(FORKS)]
    return told["pause_seconds"], statistics.median(own)


def answered(heap):
    """Seconds until `memprofctl why` has answered."""
    began = time.monotonic()
    Used("--grpc.socket", heap.daemon.socket, "why", "--pid", heap.target.pid, "make_order", "-o", "json")
    return time.monotonic() - began


def measure(context, section, place, pages, megabytes):
    with contextlib.closing(Heap(context, place, PAGES[pages])) as heap:
        heap.fill(megabytes)
        seen = [paused(heap) for _ in range(context.at_least(ROUNDS))]
        answers = [answered(heap) for _ in seen] if megabytes == MEGABYTES[0] else []
    row = f"{place}, {pages}, {megabytes / 1000} GB"
    section.add("a snapshot", "ms", [1e3 * pause for pause, _ in seen], row)
    section.add("its own fork", "ms", [1e3 * own for _, own in seen], row)
    section.add("a snapshot less 0.3 ms", "of its own fork",
                [(pause - heaps.MORE_PAUSE_SECONDS) / own for pause, own in seen], row, at_most=MAX_PAUSE)
    section.add("from the command to the answer of why --pid", "s", answers, row, at_most=MAX_ANSWER_SECONDS)


def run(context, section):
    for place in heaps.places(section):
        for pages in PAGES:
            if pages == "huge pages" and place != HAS_HUGE_PAGES:
                continue
            for megabytes in SHORT_MEGABYTES if context.short else MEGABYTES:
                measure(context, section, place, pages, megabytes)
