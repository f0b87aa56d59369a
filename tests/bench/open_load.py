# SPDX-License-Identifier: Apache-2.0
"""A load on a server at a fixed rate, whatever the server does: tests/bench/open_load.cc, and what came of it."""

import contextlib
import dataclasses
import json
import os

import harness
from spread import quantile

LOAD = harness.TARGETS.parent / "tests/open_load"  # this tree's, of whichever build memprofd is
PATIENCE = 60  # seconds for an answer, beyond the load itself


@dataclasses.dataclass
class Slice:
    """What a server did under an open load for a while, or for several whiles together."""
    cpu: float  # seconds of the server
    requests: int
    failed: int
    latencies_ns: list  # of those that did not fail, each from when its request was due
    seconds: float
    load_cpu: float  # seconds of the load
    late_ns: int  # the most that the load itself came late to a request

    @staticmethod
    def of(cpu, found):
        if not found["latencies_ns"]:
            raise AssertionError(f"none of {found['requests']} requests was answered")
        return Slice(cpu, found["requests"], found["failed"], found["latencies_ns"], found["seconds"], found["cpu_seconds"],
                     found["late_ns"])

    @staticmethod
    def together(slices):
        sums = (sum(getattr(one, name) for one in slices) for name in ("cpu", "requests", "failed"))
        return Slice(*sums, [latency for one in slices for latency in one.latencies_ns], sum(one.seconds for one in slices),
                     sum(one.load_cpu for one in slices), max(one.late_ns for one in slices))

    def cpu_us(self):
        """Of a request."""
        return 1e6 * self.cpu / self.requests

    def latency_ms(self, percentile):
        return quantile(self.latencies_ns, percentile / 100) / 1e6


class OpenLoad(harness.Process):
    """Keeps its connections to the server from one load to the next.

    It stands for clients on other machines, which wait for no processor of this one: so it goes first here, where it may.
    """

    def __init__(self, port, connections, request, files):
        path = files / f"request-{port}"
        path.write_bytes(request)
        super().__init__([LOAD, port, connections, path])
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(self.pid, os.SCHED_FIFO, os.sched_param(1))

    def begin(self, rate, seconds):
        """So many requests a second, at equal distances; at least one. found() has to follow."""
        self.send(f"open {max(rate, 1 / seconds):.9g} {seconds:.9g}")

    def found(self, seconds):
        """What came of the load."""
        return json.loads(self.read_line(timeout=seconds + PATIENCE))

    def open(self, rate, seconds):
        self.begin(rate, seconds)
        return self.found(seconds)

    def capacity(self, seconds):
        """Requests a second that are answered when each connection asks again as soon as it is."""
        self.send(f"closed {seconds:.9g}")
        found = self.found(seconds)
        return (found["requests"] - found["failed"]) / found["seconds"]
