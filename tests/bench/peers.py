# SPDX-License-Identifier: Apache-2.0
"""Ways to run a workload: alone, under memprofd, and under other tools for comparison.

watch() is called while the workload waits for its work; look() is called right after the work, and returns what the
peer has seen.
"""

import pathlib
import re
import shutil
import signal

import harness
from probe_hits import Hits
from watching import Growth, Recording

AGENT = harness.BUILD / "libmemprof_agent.so"
JEMALLOC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
HEAPTRACK = pathlib.Path("/usr/lib/heaptrack/libheaptrack_preload.so")


class Bare:
    name, rate = "bare", None

    def missing(self, _workload):
        """The reason why this peer cannot run the workload; empty if it can."""
        return ""

    def environment(self, _workload):
        return {}

    def watch(self, process):
        pass

    def look(self, _process):
        return {}

    def leave(self, process):
        pass

    def after_end(self):
        """Results that exist only after the end of the program."""
        return {}


def attach(daemon, process, rate):
    """Attaches before the work begins, and waits until memprofd samples or, for an idle program, waits for it."""
    daemon.attach(process.pid, rate)
    daemon.wait_state(process.pid, "waiting", "sampling")
    if hasattr(process, "come_in"):
        process.come_in(lambda: daemon.state(process.pid) == "sampling")


class Memprofd(Bare):
    name = "memprofd"

    def __init__(self, daemon, rate):
        self.daemon, self.rate = daemon, rate
        self.growth = None

    def environment(self, workload):
        return {} if workload.waits_for_attach else {"LD_PRELOAD": str(AGENT)}

    def watch(self, process):
        attach(self.daemon, process, self.rate)
        self.growth = Growth(self.daemon)

    def look(self, process):
        growth = self.growth.now()
        return {"samples": growth.samples(process.pid), "lost": growth.lost(), "events": growth.events(process.pid),
                "daemon_cpu": growth.total("memprofd_cpu_seconds_total")}

    def leave(self, process):
        self.daemon.detach(process.pid, check=process.running())


class Probed(Memprofd):
    """Also reports the runs of the BPF programs at the probes; requires an active probe_hits.counted()."""
    hits = None

    def watch(self, process):
        super().watch(process)
        self.hits = Hits(self.daemon.pid)

    def look(self, process):
        return {"programs": self.hits.now(), **super().look(process)}


class Recorded(Memprofd):
    """memprofd while a recording of every event is written."""
    name = "memprofd, recorded"

    def __init__(self, daemon, rate, folder):
        super().__init__(daemon, rate)
        self.file = pathlib.Path(folder) / "recorded.ctf"
        self.recording = None

    def watch(self, process):
        attach(self.daemon, process, self.rate)
        self.recording = Recording(self.daemon, process.pid, self.file)
        self.growth = Growth(self.daemon)

    def look(self, process):
        seen = super().look(process)
        trace_bytes, unwritten = self.recording.finish()
        lost = {**seen["lost"], "not_written": unwritten} if unwritten else seen["lost"]
        return {**seen, "trace_bytes": trace_bytes, "lost": lost}

    def leave(self, process):
        super().leave(process)
        self.file.unlink()


class IdleAgent(Bare):
    """memprofd has attached and detached again; the agent stays."""
    name = "idle agent"

    def __init__(self, daemon):
        self.daemon = daemon

    def environment(self, workload):
        return {} if workload.waits_for_attach else {"LD_PRELOAD": str(AGENT)}

    def watch(self, process):
        attach(self.daemon, process, 1e-5)
        self.daemon.detach(process.pid)


class Tracker(Bare):
    """Gc.Memprof as a user would apply it: plain_tracker.ml."""
    name = "plain tracker"

    def __init__(self, folder, rate):
        self.rate = rate
        self.file = pathlib.Path(folder) / "tracker.events"

    def missing(self, workload):
        return "" if workload.tracked else "its source is not ours"

    def environment(self, _workload):
        return {"PLAIN_TRACKER": f"{self.rate:g} {self.file}"}

    def after_end(self):
        data = self.file.read_bytes()
        self.file.unlink()
        return {"samples": int.from_bytes(data[-8:], "little"), "trace_bytes": len(data)}


class Perf(Bare):
    """CPU samples with callstacks by frame pointers, per_second per second."""
    name = "perf"
    per_second = 1000

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "perf.data"
        self.recorder = None

    def missing(self, _workload):
        return "" if shutil.which("perf") else "perf is not installed"

    def watch(self, process):
        self.recorder = harness.Process(["perf", "record", "-e", "cpu-clock", "-F", self.per_second, "-g",
                                         "-o", self.file, "-p", process.pid])
        harness.eventually(lambda: self.file.exists() and self.file.stat().st_size > 0, "perf records")

    def look(self, _process):
        self.recorder.stop(signal.SIGINT)
        said = re.search(r"\((\d+) samples\)", self.recorder.stderr())
        size = self.file.stat().st_size
        self.file.unlink()
        return {"samples": int(said.group(1)) if said else 0, "trace_bytes": size}

    def leave(self, _process):
        self.recorder.kill()


class Heaptrack(Bare):
    """Records every malloc and free: for an OCaml program, the native blocks of its C code."""
    name = "heaptrack"

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "heaptrack.raw"

    def missing(self, _workload):
        return "" if HEAPTRACK.exists() else "heaptrack is not installed"

    def environment(self, _workload):
        return {"LD_PRELOAD": str(HEAPTRACK), "DUMP_HEAPTRACK_OUTPUT": str(self.file)}

    def after_end(self):
        with open(self.file, "rb") as trace:
            allocations = sum(line.startswith(b"+") for line in trace)
        size = self.file.stat().st_size
        self.file.unlink()
        return {"samples": allocations, "trace_bytes": size}


class CMemory(Memprofd):
    """Follows the native heap with one sample per interval of bytes, and takes almost no samples of OCaml's memory."""

    def __init__(self, daemon, interval):
        super().__init__(daemon, None)
        self.interval, self.name = interval, f"memprofd, C memory, {interval}"

    def watch(self, process):
        self.daemon.ctl("attach", "--pid", process.pid, "--c-heap-interval", self.interval, "--sampling-rate", "1e-6")
        self.daemon.wait_state(process.pid, "waiting", "sampling")
        if hasattr(process, "come_in"):
            process.come_in(lambda: self.daemon.state(process.pid) == "sampling")
        self.growth = Growth(self.daemon)

    def look(self, process):
        sites = self.daemon.ctl_json("sites", "--pid", process.pid, "--heap", "c", "--limit", "100000")["sites"]
        return {**super().look(process), "samples": sum(site["samples"] for site in sites)}


class Jemalloc(Bare):
    """jemalloc, preloaded, without its profiler: the base for JemallocProfiler."""
    name, settings = "jemalloc", ""

    def missing(self, _workload):
        return "" if JEMALLOC.exists() else "jemalloc is not installed"

    def environment(self, _workload):
        return {"LD_PRELOAD": str(JEMALLOC), "MALLOC_CONF": self.settings}


class JemallocProfiler(Jemalloc):
    """jemalloc's own profiler: a callstack for one block per 2^bits bytes."""

    def __init__(self, folder, bits):
        self.name = f"jemalloc, profiled, {2 ** bits} bytes"
        self.settings = f"prof:true,lg_prof_sample:{bits},prof_prefix:{pathlib.Path(folder) / 'jeprof'}"


def run(workload, peer, files, scale):
    """Runs a workload once: (Work, what the peer has seen)."""
    process = workload.start(peer.environment(workload), files, scale)
    try:
        peer.watch(process)
        work = process.work()
        seen = peer.look(process)
        peer.leave(process)
        process.end()
    finally:
        process.kill()
    return work, {**seen, **peer.after_end()}
