# SPDX-License-Identifier: Apache-2.0
"""Native heap: target CPU over bare of a program whose C code allocates, beside heaptrack and jemalloc's profiler."""

import peers
from comparing import add_over_bare, add_seen, runs_of
from spread import ratios
from watching import LARGE_RING
from workloads import C_HEAVY, Work

INTERVALS = ("512KiB", "4KiB", "1KiB")
OF_HEAPTRACK = 0.2  # goal: share of the CPU that heaptrack adds


def run(context, section):
    with context.daemon(*LARGE_RING) as daemon:
        followed = [peers.CMemory(daemon, interval) for interval in INTERVALS]
        heaptrack = peers.Heaptrack(context.files)
        for workload in context.chosen([C_HEAVY]):
            glibc = runs_of(context, section, workload, [peers.Bare(), *followed, heaptrack])
            measure(section, workload, glibc)
            compare(section, workload, glibc, followed, heaptrack)
            profilers = [peers.JemallocProfiler(context.files, bits) for bits in (19, 12, 10)]
            measure(section, workload, runs_of(context, section, workload, [peers.Jemalloc(), *profilers]))
    section.notes.append("heaptrack tells of every block; the others of one in so many bytes")


def measure(section, workload, runs):
    def a_second(work, seen):
        return seen["samples"] / work.wall if seen.get("samples") else None

    add_over_bare(section, "target CPU over the same malloc alone", workload, runs, Work.cpu_per_unit)
    add_seen(section, "blocks told a second", "", workload, runs, a_second)


def compare(section, workload, runs, followed, heaptrack):
    """Adds the CPU that following the native heap adds, relative to the CPU that heaptrack adds."""
    bare = [work.cpu_per_unit() for work, _ in next(iter(runs.values()))]

    def added(case):
        return [work.cpu_per_unit() - without for (work, _), without in zip(runs[case], bare)]
    for case in followed if heaptrack in runs else []:
        section.add("target CPU added, of what heaptrack adds", "", ratios(added(case), added(heaptrack)),
                    f"{workload.name}, {case.name}", "", at_most=OF_HEAPTRACK)
