# SPDX-License-Identifier: Apache-2.0
"""Settings that all sections of a benchmark share: amount of work, folders, and options of memprofd."""

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
    scale: float = 1.0  # factor for the work of each run
    rates: tuple = RATES
    memprofd: tuple = ()  # additional arguments of memprofd
    workloads: tuple = ()  # names; empty: all
    memtrace: pathlib.Path | None = None  # folder of programs linked with Memtrace

    def at_least(self, count):
        """Number of rounds for fast and noisy measurements."""
        return self.pairs if self.short else max(self.pairs, count)

    def chosen(self, workloads):
        return [workload for workload in workloads if not self.workloads or workload.name in self.workloads]

    @property
    def day(self):
        """File with the output of history_bench, if it has run: simulating a day takes minutes."""
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
    """Formats a rate as 1e-5 instead of 1e-05."""
    return f"{rate:.0e}".replace("e-0", "e-") if rate else ""


def say(text):
    print(text, flush=True)
