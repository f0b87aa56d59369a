# SPDX-License-Identifier: Apache-2.0
"""Daemon memory per live sampled block: a large live heap at a high rate."""

import daemon_cost
import peers
from bench_context import say
from comparing import add_seen, note_losses
from watching import LARGE_RING
from workloads import LIVE_HEAP

RATE = 0.2  # results in about a million live samples
MAX_BYTES = 100  # a million live samples in 100 MB


class Weighed(peers.Memprofd):
    """Also reports the number of live samples, and the growth of the daemon in bytes."""
    own = 0

    def watch(self, process):
        self.own = daemon_cost.own_bytes(self.daemon.pid)
        super().watch(process)

    def look(self, process):
        live = self.daemon.metrics().value("memprofd_live_samples", pid=process.pid)
        return {**super().look(process), "live": live, "grown": daemon_cost.own_bytes(self.daemon.pid) - self.own}


def run(context, section):
    done = [one(context) for _ in range(context.pairs)]
    case = Weighed(None, RATE)
    note_losses(section, LIVE_HEAP, {case: done})
    add_seen(section, "live samples", "", LIVE_HEAP, {case: done}, lambda _, seen: seen["live"])
    add_seen(section, "daemon memory per live sample", "bytes", LIVE_HEAP, {case: done},
             lambda _, seen: seen["grown"] / seen["live"] if seen["live"] else None, {Weighed: MAX_BYTES})


def one(context):
    """One run with a new memprofd."""
    with context.daemon(*LARGE_RING) as daemon:
        work, seen = peers.run(LIVE_HEAP, Weighed(daemon, RATE), context.files, context.scale)
    say(f"  {seen['live']:,.0f} live samples")
    return work, seen
