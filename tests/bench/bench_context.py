# SPDX-License-Identifier: Apache-2.0
"""What all sections of a benchmark share: how much to do, where, and with which options of memprofd."""

import contextlib
import dataclasses
import pathlib

import harness

RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
SHORT_RATES = (1e-5, 1e-3)
SHORT_SCALE = 0.1


@dataclasses.dataclass
class Context:
    files: pathlib.Path
    pairs: int = 9
    short: bool = False
    scale: float = 1.0  # of the work of each run
    rates: tuple = RATES
    memprofd: tuple = ()  # more arguments of it
    workloads: tuple = ()  # names; none: all
    memtrace: pathlib.Path | None = None  # of programs linked with it

    def at_least(self, count):
        """Rounds of what is quick and noisy."""
        return self.pairs if self.short else max(self.pairs, count)

    def chosen(self, workloads):
        return [workload for workload in workloads if not self.workloads or workload.name in self.workloads]

    @property
    def day(self):
        """What history_bench has printed, once it has run: a day takes minutes to simulate."""
        return self.files / "history_bench.json"

    @contextlib.contextmanager
    def daemon(self, *arguments):
        daemon = harness.Daemon(self.files, *self.memprofd, *arguments)
        try:
            yield daemon
            daemon.stop()
        finally:
            daemon.kill()


def rate_text(rate):
    """1e-5 and not 1e-05."""
    return f"{rate:.0e}".replace("e-0", "e-") if rate else ""


def say(text):
    print(text, flush=True)
