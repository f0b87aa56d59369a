# SPDX-License-Identifier: Apache-2.0
"""One ocsigenserver whose native heap is followed in every second run: CPU per request, and its number of mallocs."""

import re
import shutil
import signal
import subprocess

import harness
import peers
from rounds import interleaved
from spread import ratios, said_limits
from watching import LARGE_RING
from workloads import SERVER, Work

GOAL = 1.01  # CPU per request over that of the same server while detached
PAIRS = 100
SECONDS = 1.0  # of load per run
OURS = re.compile(r"libmemprof_agent|uprobe|bpf_prog")  # marks our code in the stack of a perf sample
SHARE_SECONDS = 60
MANY = "1KiB"  # an interval that allows counting blocks


class Server:
    def __init__(self, daemon, process, seconds, files):
        self.daemon, self.process, self.files = daemon, process, files
        self.interval = None  # current interval; None: detached
        process.seconds = seconds

    def c_sites(self):
        return self.daemon.ctl_json("sites", "--pid", self.process.pid, "--heap", "c", "--limit", "100000")["sites"]

    def samples(self):
        return sum(site["samples"] for site in self.c_sites())

    def turn_to(self, interval):
        if interval == self.interval:
            return
        if self.interval:
            self.daemon.detach(self.process.pid)
        if interval:
            peers.CMemory(self.daemon, interval).watch(self.process)
            before = self.samples()
            harness.eventually(lambda: self.process.warm() or self.samples() > before, "C's memory is followed")
        else:
            self.process.warm()  # the agent restores its slots at the end of a minor collection
        self.interval = interval

    def work(self, interval):
        self.turn_to(interval)
        return self.process.work()

    def share(self, interval, seconds):
        """(perf samples of the server in the agent or in the kernel's work for its probes, all its perf samples)."""
        self.turn_to(interval)
        self.process.seconds, before = seconds, self.process.seconds
        profile = self.files / "perf.data"
        recorder = harness.Process(["perf", "record", "-e", "cpu-clock", "-F", 4000, "-g", "-o", profile, "-p", self.process.pid])
        harness.eventually(lambda: profile.exists() and profile.stat().st_size > 0, "perf records")
        self.process.work()
        recorder.stop(signal.SIGINT)
        self.process.seconds = before
        said = subprocess.run(["perf", "script", "-i", profile, "-F", "ip,sym,dso"], capture_output=True, text=True, check=True)
        stacks = [stack for stack in said.stdout.split("\n\n") if stack.strip()]
        return sum(bool(OURS.search(stack)) for stack in stacks), len(stacks)

    def mallocs_a_request(self):
        """Estimated number of blocks per request, while most blocks are sampled."""
        self.turn_to(MANY)
        before = self.objects()
        requests = sum(1000 * self.process.work().units for _ in range(4))
        return (self.objects() - before) / requests

    def objects(self):
        return sum(site["allocated_objects"] for site in self.c_sites())


def run(context, section):
    if not context.chosen([SERVER]):
        return
    if not (shutil.which("wrk") and shutil.which("ocsigenserver.opt")):
        section.notes.append("skipped: wrk or ocsigenserver is not installed")
        return
    with context.daemon(*LARGE_RING) as daemon:
        process = SERVER.start({}, context.files, context.scale)
        try:
            server = Server(daemon, process, SECONDS * context.scale, context.files)
            rounds = interleaved([None, "512KiB"], context.at_least(PAIRS), server.work)
            if shutil.which("perf"):
                add_share(section, *server.share("512KiB", SHARE_SECONDS * context.scale))
            mallocs = server.mallocs_a_request()
            process.end()
        finally:
            process.kill()
    let_go, followed = ([done[case] for done in rounds] for case in (None, "512KiB"))
    measure(section, let_go, followed)
    section.details["rounds"] = [[(work.cpu, work.wall, work.units) for work in pair] for pair in zip(let_go, followed)]
    section.add("mallocs", "", [mallocs], "a request")
    section.add("mallocs", "", [1000 * work.units * mallocs / work.wall for work in let_go], "a second")
    section.add("mallocs", "", [1000 * work.units * mallocs / work.cpu for work in let_go], "a second of its CPU")


def add_share(section, ours, samples):
    """The share includes the agent's work for OCaml's memory too, but not its effect on caches."""
    section.add("CPU in the agent and at its probes, followed at 512 KiB", "%", [100 * ours / samples], f"of {samples:,} samples of perf",
                "", 100 * (GOAL - 1))


def measure(section, let_go, followed):
    costs, without = ([Work.cpu_per_unit(work) for work in of] for of in (followed, let_go))
    over = ratios(costs, without)
    what = "CPU per request, followed at 512 KiB over let go"
    section.add(what, "", over, "of rounds", "", GOAL)
    section.add(what, "", [min(costs) / min(without)], "least over least", "", GOAL)
    section.add(what, "", [sum(w.cpu for w in followed) / sum(w.units for w in followed) /
                           (sum(w.cpu for w in let_go) / sum(w.units for w in let_go))], "all over all", "", GOAL)
    section.notes += filter(None, [said_limits(over)])
    section.add("CPU per request, let go", "ms", without)
