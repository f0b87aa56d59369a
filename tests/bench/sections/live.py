"""Daemon memory for each sampled block that lives: a large live heap at a high rate."""

import daemon_cost
import peers
from bench_context import say
from watching import LARGE_RING
from workloads import LIVE_HEAP

RATE = 3e-2
MAX_BYTES = 100  # a million live samples in 100 MB


def run(context, section):
    measured = [one(context) for _ in range(context.pairs)]
    section.add("live samples", "", [live for live, _ in measured], LIVE_HEAP.name)
    section.add("daemon memory per live sample", "bytes", [grown / live for live, grown in measured if live],
                LIVE_HEAP.name, at_most=MAX_BYTES)


class Weighed(peers.Memprofd):
    """Also tells how many samples live then, and by how many bytes the daemon grew."""
    own = 0

    def watch(self, process):
        super().watch(process)
        self.own = daemon_cost.own_bytes(self.daemon.pid)

    def look(self, process):
        live = self.daemon.metrics().value("memprofd_live_samples", pid=process.pid)
        return {**super().look(process), "live": live, "grown": daemon_cost.own_bytes(self.daemon.pid) - self.own}


def one(context):
    """(live samples, bytes), of a memprofd that has seen nothing else."""
    with context.daemon(*LARGE_RING) as daemon:
        _, seen = peers.run(LIVE_HEAP, Weighed(daemon, RATE), context.files, context.scale)
    say(f"  {seen['live']:,.0f} live samples")
    return seen["live"], seen["grown"]
