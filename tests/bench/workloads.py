# SPDX-License-Identifier: Apache-2.0
"""Programs with a fixed amount of work, and a server under load for a fixed time.

A workload starts a process that waits; work() lets it do its work and measures it; end() ends it.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import time

import harness
import real_programs

BUNDLED = harness.TARGETS / "bench"
OF_OCAML5 = harness.TARGETS5 / "bench"


@dataclasses.dataclass
class Work:
    """Seconds of the process for `units` of work."""
    cpu: float
    wall: float
    units: float = 1
    latency_ms: dict = dataclasses.field(default_factory=dict)  # percentile to milliseconds

    def cpu_per_unit(self):
        return self.cpu / self.units

    def wall_per_unit(self):
        return self.wall / self.units


def cpu_seconds(pid):
    """CPU time of a process so far; it may be a zombie."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock of clock_getcpuclockid(3) for another process


def timed(pid, do):
    """(CPU seconds of the process, seconds, result) of do()."""
    cpu, began = cpu_seconds(pid), time.monotonic()
    result = do()
    return cpu_seconds(pid) - cpu, time.monotonic() - began, result


def environment(extra):
    return dict(os.environ, **extra)


class Bundled:
    """A program of tests/targets or tests/bench/programs with an amount of work, about 2 s on a fast machine."""
    waits_for_attach = True  # True: the agent is injected; False: it is preloaded
    tracked = True  # whether the program is linked with plain_tracker

    def __init__(self, name, amount, folder=BUNDLED):
        self.name, self.amount, self.folder = name, amount, folder

    def start(self, extra, _files, scale):
        return BundledProcess(self.name, max(1, int(self.amount * scale)), self.folder, extra)


class BundledProcess(harness.Target):
    def __init__(self, name, amount, folder, extra):
        super().__init__(name, str(amount), env=environment(extra), folder=folder)

    def work(self):
        cpu, wall, answer = timed(self.pid, lambda: self.command("go", timeout=300))
        if not answer.startswith("done "):
            raise AssertionError(f"{self.name()} said {answer}")
        return Work(cpu, wall)

    def come_in(self, sampled):
        """Runs OCaml code, which the agent needs to enter and to start sampling."""
        def begun():
            self.command("minor")
            return sampled()
        harness.eventually(begun, f"{self.name()} is sampled before its work")

    def end(self):
        self.exit()


class Compiler:
    """ocamlopt on a generated file; a preprocessor holds it back until work()."""
    name = "ocamlopt"
    waits_for_attach = False
    tracked = False

    def start(self, extra, files, scale):
        return CompilerProcess(files, max(20, int(2_000 * scale)), extra)


class CompilerProcess(harness.Process):
    def __init__(self, files, functions, extra):
        folder = pathlib.Path(files) / "ocamlopt"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "generated.ml").write_text(real_programs.ocaml_source(functions))
        self.gate = folder / "gate"
        os.mkfifo(self.gate)
        command = [shutil.which("ocamlopt.opt"), "-c", "-g", "-pp", "cat gate", "generated.ml"]
        super().__init__(command, cwd=folder, env=environment(extra), stdin=subprocess.DEVNULL)

    def _compile(self):
        with open(self.gate, "w"):
            pass  # closing the gate lets the preprocessor continue
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def work(self):
        cpu, wall, _ = timed(self.pid, self._compile)
        return Work(cpu, wall)

    def end(self):
        if self.wait() != 0:
            raise AssertionError(f"ocamlopt: {self.stderr()}")


class Server:
    """ocsigenserver under wrk; a unit of work is a thousand requests."""
    name = "ocsigenserver"
    waits_for_attach = True
    tracked = False

    def start(self, extra, files, scale):
        return ServerProcess(pathlib.Path(files), 6 * scale, extra)


class ServerProcess(real_programs.Ocsigenserver):
    def __init__(self, files, seconds, extra):
        shutil.rmtree(files / "ocsigen", ignore_errors=True)
        super().__init__(files, env=environment(extra))
        self.seconds = max(0.5, seconds)
        self.warm()

    def warm(self):
        self._load(self.seconds / 4)

    def _load(self, seconds):
        load = real_programs.Wrk(self.url)
        try:
            time.sleep(seconds)  # duration of the measurement
            return load.finish()
        finally:
            load.kill()

    def work(self):
        cpu, wall, counts = timed(self.pid, lambda: self._load(self.seconds))
        if counts["bad_answers"] or counts["socket_errors"] or not counts["requests"]:
            raise AssertionError(f"wrk: {counts}")
        return Work(cpu, wall, counts["requests"] / 1000, counts["latency_ms"])

    def end(self):
        self.stop()


WORKLOADS = [Bundled("churn", 300_000_000), Bundled("deep", 350_000_000), Bundled("live_heap", 700_000),
             Bundled("c_heavy", 600_000), Bundled("many_threads", 100_000),
             Bundled("many_domains", 100_000_000, OF_OCAML5), Compiler()]
SERVER = Server()
CHURN, DEEP, LIVE_HEAP, C_HEAVY = WORKLOADS[:4]
