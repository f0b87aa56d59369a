# SPDX-License-Identifier: Apache-2.0
"""Cost of a sample in a single target, and beside others of the same program and agent, by capture mode."""

import contextlib
import pathlib
import shutil

import harness
import peers
from bench_context import say
from rounds import interleaved
from sections.overhead import extra_per_sample
from spread import ratios
from watching import LARGE_RING
from workloads import CHURN, Bundled

# (capture mode, rate, other targets): a hit is a batch with runtime capture, a sample with kernel capture. Unless
# kernel capture is requested, it serves at most 8 targets of a program.
CASES = (("runtime", 1e-3, 99), ("kernel", 1e-4, 7), ("kernel", 1e-4, 99))
MOST_SHORT = 9
ALONE, CROWD = "alone", "crowd"


def run(context, section):
    own = own_copies(context.files / "alone")
    for capture, rate, count in CASES:
        row = f"{capture} captures, {count} others"
        with (daemon_of(context, capture, agent=own / "libmemprof_agent.so") as lone,
              daemon_of(context, capture) as shared, others(context, shared, count)):
            cases = {peers.Bare(): CHURN, peers.Memprofd(lone, rate): Bundled(CHURN.name, CHURN.amount, own),
                     peers.Memprofd(shared, rate): CHURN}
            rounds = interleaved(list(cases), context.pairs,
                                 lambda case: peers.run(cases[case], case, context.files, context.scale))  # noqa: B023
        bare, alone, crowd = ([done[case] for done in rounds] for case in cases)
        costs = {ALONE: extra_per_sample(alone, bare), CROWD: extra_per_sample(crowd, bare)}
        for column, values in costs.items():
            section.add("target CPU per sample", "ns", values, row, column)
        section.add("target CPU over alone", "", ratios([work.cpu_per_unit() for work, _ in crowd],
                                                        [work.cpu_per_unit() for work, _ in alone]), row)
        say(f"  {row}")


def own_copies(folder):
    """Copies the program and the agent: to the kernel, which keeps probes by file, these are other files."""
    folder.mkdir(exist_ok=True)
    for file in (harness.TARGETS / "bench" / CHURN.name, peers.AGENT):
        shutil.copy2(file, folder)
    return pathlib.Path(folder)


@contextlib.contextmanager
def daemon_of(context, capture, agent=None):
    daemon = harness.Daemon(context.files, *context.memprofd, *LARGE_RING, "--capture", capture, agent=agent)
    try:
        yield daemon
        daemon.stop()
    finally:
        daemon.kill()


@contextlib.contextmanager
def others(context, daemon, count):
    """Starts idle targets and samples them until the end of the block."""
    targets = []
    try:
        for _ in range(min(count, MOST_SHORT) if context.short else count):
            targets.append(CHURN.start({}, context.files, 0))
            peers.attach(daemon, targets[-1], 1e-5)
        yield
    finally:
        for target in targets:
            target.kill()
