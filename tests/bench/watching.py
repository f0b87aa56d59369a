# SPDX-License-Identifier: Apache-2.0
"""Measures a memprofd by the growth of its counters."""

import re
import signal
import time

import harness

LARGE_RING = ("--ring-bytes", "64MiB")  # avoids losses at the highest rates


class Growth:
    """Growth of counters since the creation of this object; now() returns the growth up to the present."""

    def __init__(self, daemon, since=None):
        self.daemon = daemon
        self.before = since
        self.after = daemon.metrics()

    def now(self):
        return Growth(self.daemon, self.after)

    def total(self, name, **labels):
        return self.after.total(name, **labels) - self.before.total(name, **labels)

    def samples(self, pid):
        return self.total("memprofd_samples_total", pid=pid, event="alloc")

    def records(self, pid):
        """Number of allocations, promotions and deaths."""
        return self.total("memprofd_samples_total", pid=pid)

    def events(self, pid):
        """Number of decoded events: records, and a capture for each allocation."""
        return self.records(pid) + self.samples(pid)

    def lost(self):
        """{reason: dropped events}, without the reasons that every session has."""
        lost = {}
        for name in ("memprofd_dropped_events_total", "memprofd_given_up_events_total"):
            reasons = {sample.labels["reason"] for sample in self.after.find(name)}
            for reason in sorted(reasons - harness.EXPECTED_DROPS):
                lost[reason] = self.total(name, reason=reason)
        return {reason: count for reason, count in lost.items() if count}


class Recording:
    """A memprofctl record of a target, which starts at the creation of this object."""

    def __init__(self, daemon, pid, file):
        self.file = file
        file.unlink(missing_ok=True)
        self.process = harness.Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket,
                                        "record", "--pid", pid, "--out", file])
        harness.eventually(lambda: file.exists() and file.stat().st_size > 0, "the recording begins")

    def finish(self):
        """(written bytes, events that it lost because it was too slow)."""
        self.process.stop(signal.SIGINT)
        lost = re.search(r"([\d,]+)\S* lost because", "".join(self.process.output))
        return self.file.stat().st_size, int(lost.group(1).replace(",", "")) if lost else 0

    def kill(self):
        self.process.kill()


def attached(daemon, pid, rate=1e-5):
    """Attaches and detaches once: {quantity: ms}."""
    daemon.attach(pid, rate)
    metrics = daemon.metrics()
    began = time.monotonic()
    daemon.detach(pid)
    return {"attach": 1e3 * metrics.value("memprofd_attach_seconds", pid=pid),
            "target stopped": 1e3 * metrics.value("memprofd_target_paused_seconds_total", pid=pid),
            "detach, with memprofctl": 1e3 * (time.monotonic() - began)}


def add_attached(section, measured, row=""):
    for what in measured[0]:
        section.add(what, "ms", [one[what] for one in measured], row)
    section.add("target stopped, longest", "ms", [max(one["target stopped"] for one in measured)], row)
