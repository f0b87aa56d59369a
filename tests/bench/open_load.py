# SPDX-License-Identifier: Apache-2.0
"""Drives tests/bench/open_load.cc, a load at a fixed rate that does not depend on the server, and reads its results."""

import contextlib
import dataclasses
import json
import os

import harness
from spread import quantile

LOAD = harness.TARGETS.parent / "tests/open_load"  # always this tree's, even if memprofd is of another build
PATIENCE = 60  # seconds to wait for an answer after the load


@dataclasses.dataclass
class Slice:
    """A server's work under an open load, in one interval or summed over several."""
    cpu: float  # CPU seconds of the server
    requests: int
    failed: int
    latencies_ns: list  # of successful requests, each from the time when it was due
    seconds: float
    load_cpu: float  # CPU seconds of the load program
    late_ns: int  # largest delay of a request by the load program itself

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
        """Server CPU per request, in microseconds."""
        return 1e6 * self.cpu / self.requests

    def latency_ms(self, percentile):
        return quantile(self.latencies_ns, percentile / 100) / 1e6


class OpenLoad(harness.Process):
    """The load program. It keeps its connections to the server between loads.

    It simulates clients on other machines, which do not wait for this machine's processors, so it runs with a high
    priority if allowed.
    """

    def __init__(self, port, connections, request, files):
        path = files / f"request-{port}"
        path.write_bytes(request)
        super().__init__([LOAD, port, connections, path])
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(self.pid, os.SCHED_FIFO, os.sched_param(1))

    def begin(self, rate, seconds):
        """Starts `rate` requests per second at equal intervals, at least one. The caller then calls found()."""
        self.send(f"open {max(rate, 1 / seconds):.9g} {seconds:.9g}")

    def found(self, seconds):
        """The results of the load."""
        return json.loads(self.read_line(timeout=seconds + PATIENCE))

    def open(self, rate, seconds):
        self.begin(rate, seconds)
        return self.found(seconds)

    def capacity(self, seconds):
        """Answered requests per second if each connection sends the next one immediately after an answer."""
        self.send(f"closed {seconds:.9g}")
        found = self.found(seconds)
        return (found["requests"] - found["failed"]) / found["seconds"]
