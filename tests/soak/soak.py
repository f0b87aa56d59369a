#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs memprofd under extreme conditions for an hour or a day: make soak.

  tests/soak/soak.py [--minutes N] [--seed N] [--build FOLDER]

memprofd attaches to programs, detaches, and changes rates and budgets. Programs fork, load plugins, start and end.
Clients connect, ask, watch and are killed. memprofd runs out of descriptors, disk, kernel memory and threads, its
clock is changed, it is stopped, and it is killed and resumes from its state. The soak fails if a program computes a
wrong result, a target is lost, an estimate is wrong without a counted loss, or memory has grown (checked in runs of
at least 20 minutes).
"""

import collections
import os
import pathlib
import random
import resource
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kit"))

import faults  # noqa: E402 (of tests/kit)
import soak_command  # noqa: E402 (of this folder)

RATES = (1e-5, 1e-4, 1e-3)
LOOKS = (("targets",), ("sites",), ("sites", "-g", "callstack", "--last", "1m"), ("report", "--leaks"), ("history",),
         ("report", "-o", "collapsed"), ("doctor",))
# Limits of memory growth between the second and the last quarter of the time. In the first MINUTES_TO_SETTLE,
# ended programs and history are still filling their limits.
GROWTH, SLACK_BYTES, MINUTES_TO_SETTLE = 1.10, 16 << 20, 20
SIGMAS = 6
DAY = 24 * 3600
STEPS = (-30 * DAY, -3600, -10, 10, 3600, 30 * DAY)  # steps of the clock, in seconds
PATIENCE = 180  # seconds; the machine may be busy


class Failed(AssertionError):
    pass


class Soak:
    def __init__(self, harness, folder, seed):
        self.harness, self.folder = harness, pathlib.Path(folder)
        self.random = random.Random(seed)
        self.done, self.doing = collections.Counter(), "the beginning"
        self.memory = []  # (seconds, bytes)
        self.faults = faults.Faults(self.folder / "faults", harness.BUILD / "tests/libfaults.so")
        self.disk, self.state_folder = self.folder / "disk", self.folder / "state"
        self.daemon = None
        self.programs = []  # programs that run as long as the soak
        self.wanted = set()  # pids that memprofd should sample

    def begin(self):
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.disk], check=True)
        self.state_folder.mkdir(mode=0o700)
        self.start()
        self.busy = [self.harness.Target("busy_threads", "busy") for _ in range(3)]
        self.forks, self.host = self.harness.Target("forks"), self.plugin_host()
        self.programs = [*self.busy, self.forks, self.host]

    def start(self):
        self.daemon = self.harness.Daemon(
            self.folder, "--state.directory", self.state_folder, "--trace.directory", self.disk, "--memory.max",
            "512MiB", "--history.memory", "32MiB", "--history.retention", "2m", "--follow-forks", rate=1e-4, usual_budget=True,
            wait=False, env=self.faults.environment)
        self.harness.eventually(self.ready, "memprofd is ready", timeout=PATIENCE)

    def ready(self):
        if not self.daemon.running():
            raise RuntimeError(f"memprofd does not begin: {self.daemon.said()}")
        try:
            return self.harness.http_get(self.daemon.url + "/-/ready")[0] == 200
        except OSError:
            return False

    def ctl(self, *arguments, check=True):
        return self.daemon.ctl(*arguments, check=check, timeout=PATIENCE)

    def targets(self):
        try:
            return self.ctl("targets", "-o", "json", check=False).stdout
        except (OSError, subprocess.SubprocessError) as error:
            return f"memprofd does not answer: {error}"

    def plugin(self, name):
        return self.harness.TARGETS / "plugins" / f"plugin_{name}.cmxs"

    def plugin_host(self):
        return self.harness.Target("plugin_host", self.plugin("early"), folder=self.harness.TARGETS / "plugins")

    def close(self):
        for process in [*self.programs, *([self.daemon] if self.daemon else [])]:
            process.kill()
        if self.disk.is_mount():
            subprocess.run(["umount", self.disk], check=False)

    # ------------------------------------------------------------ what happens

    def attach_or_detach(self):
        pid = self.random.choice(self.programs).pid
        if pid in self.wanted:
            self.ctl("detach", "--pid", pid)
            self.wanted.discard(pid)
        else:
            self.ctl("attach", "--pid", pid, "--sampling-rate", f"{self.random.choice(RATES):g}")
            self.wanted.add(pid)

    def other_rate(self):
        if not self.wanted:
            return
        pid = self.random.choice(sorted(self.wanted))
        how = self.random.choice((("--sampling-rate", f"{self.random.choice(RATES):g}"), ("--max-overhead", "0.5%"),
                                  ("--max-overhead", "5%")))
        self.ctl("rate", "--pid", pid, *how)

    def fork(self):
        child = self.forks.command("fork")["pid"]
        self.forks.command("burst 5")
        time.sleep(self.random.random() * 2)
        os.kill(child, signal.SIGTERM)

    def load_plugin(self):
        """Lets a new host load a plugin; the host's end unloads it."""
        host = self.plugin_host()
        try:
            self.ctl("attach", "--pid", host.pid)
            host.command(f"load {self.plugin('late')}")
            host.command("go 1000")
            self.ctl("sites", "--pid", host.pid)
            host.exit()
        finally:
            host.kill()

    def short_program(self):
        """Profiles a program with known allocations from its start to its end."""
        program, rate = self.harness.Target("known_alloc"), 1e-3
        try:
            self.ctl("attach", "--pid", program.pid, "--sampling-rate", f"{rate:g}", "--max-overhead", "none")
            self.harness.eventually(lambda: program.command("minor") and self.is_sampled(program.pid),
                                    "a short program is sampled", timeout=PATIENCE)
            truth = program.command("go 1")["sites"]["site_small"]["allocated_words"]
            seen = self.harness.sum_sites(self.daemon.settled_sites(program.pid), "site_small")["allocated_bytes"] / 8
            lost = self.daemon.targets()[program.pid]["dropped_events"]
            error = SIGMAS * (truth / rate) ** 0.5
            if abs(seen - truth) > error and not lost:
                raise Failed(f"{seen:.0f} words of {truth} were seen, more than {error:.0f} off, and no loss is counted")
            program.exit()
        finally:
            program.kill()

    def look(self):
        what = self.random.choice(LOOKS)
        pid = self.random.choice(sorted(self.wanted)) if self.wanted else self.busy[0].pid
        self.ctl(*what, *(() if what[0] == "targets" else ("--pid", pid)), check=False)

    def client_that_goes(self):
        if not self.wanted:
            return
        pid = self.random.choice(sorted(self.wanted))
        watching = subprocess.Popen(
            [self.harness.BUILD / "memprofctl", "--grpc.socket", self.daemon.socket, "events", "--pid", str(pid)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.random.random() * 2)
        if self.random.random() < 0.5:
            watching.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
        watching.kill()
        watching.wait()

    def stand_still(self):
        self.daemon.send_signal(signal.SIGSTOP)
        time.sleep(self.random.random() * 2)
        self.daemon.send_signal(signal.SIGCONT)

    def stop_a_program(self):
        program = self.random.choice(self.busy)
        program.send_signal(signal.SIGSTOP)
        time.sleep(self.random.random())
        program.send_signal(signal.SIGCONT)

    def no_descriptors(self):
        before = resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{self.daemon.pid}/fd"))
        resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE, (used + 3, before[1]))
        try:
            self.ctl("attach", "--pid", self.busy[0].pid, check=False)
            self.ctl("targets", check=False)
        finally:
            resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE, before)
        if self.daemon.state(self.busy[0].pid) in ("waiting", "sampling"):
            self.wanted.add(self.busy[0].pid)

    def no_disk(self):
        if not self.wanted:
            return
        filler = self.disk / "filler"
        with filler.open("wb") as file:
            try:
                file.write(bytes(8 << 20))
            except OSError:
                pass
        self.ctl("trace", "start", "--pid", self.random.choice(sorted(self.wanted)), check=False)
        filler.unlink()

    def clock_step(self):
        """Steps the clock; answers about the last minute must not change."""
        self.faults.step_clock(self.random.choice(STEPS))

    def no_memory(self):
        self.while_it_lacks(self.faults.no_memory(self.random.randrange(1, 12)))

    def no_threads(self):
        self.while_it_lacks(self.faults.no_threads(self.random.randrange(1, 6)))

    def while_it_lacks(self, something):
        """Sends requests while memprofd lacks something. Other targets must continue; failures must be explained."""
        untouched = {pid for pid in self.wanted if self.daemon.state(pid) == "sampling"}
        with something:
            for _ in range(3):
                pid = self.random.choice([*self.busy, self.forks]).pid
                untouched.discard(pid)
                self.wanted.discard(pid)
                what = self.random.choice((("attach",), ("detach",), ("rate", "--sampling-rate", "1e-3"),
                                           ("snapshot", "take", "--out", self.disk / "heap"), ("doctor",), ("trace", "start")))
                self.ctl(*what, "--pid", pid, check=False)
                (self.disk / "heap").unlink(missing_ok=True)
            self.ctl("targets", check=False)
        targets = self.daemon.targets()
        for pid, target in targets.items():
            if target["state"] in ("waiting", "sampling") and pid in {t.pid for t in [*self.busy, self.forks]}:
                self.wanted.add(pid)
        lost = {pid: targets.get(pid) for pid in untouched
                if targets.get(pid, {}).get("state") not in ("waiting", "sampling")}
        if lost:
            raise Failed(f"lost in {self.doing}: {lost}")

    def killed(self):
        self.daemon.kill()
        self.start()

    EVENTS = ((attach_or_detach, 10), (other_rate, 6), (fork, 4), (load_plugin, 1), (short_program, 4), (look, 10),
              (client_that_goes, 4), (stand_still, 2), (stop_a_program, 2), (no_descriptors, 1), (no_disk, 1),
              (clock_step, 2), (no_memory, 2), (no_threads, 2), (killed, 1))

    # ------------------------------------------------------------ what has to hold

    def check(self):
        if not self.daemon.running():
            raise Failed(f"memprofd has ended: {self.daemon.said()[-2000:]}")
        for program in self.busy:
            program.work_done()
        for pid in self.wanted:
            self.harness.eventually(lambda pid=pid: self.is_sampled(pid), f"pid {pid} is sampled", timeout=PATIENCE)

    def is_sampled(self, pid):
        if pid == self.host.pid:
            self.host.command("go 1000")  # the host is idle otherwise
        state = self.daemon.state(pid)
        if state not in ("waiting", "sampling"):
            raise RuntimeError(f"pid {pid} is {state}, not sampled")
        return state == "sampling"

    def note_memory(self, seconds):
        status = self.harness.proc_status(self.daemon.pid, "VmRSS")
        self.memory.append((seconds, int(status.split()[0]) << 10))

    def check_memory(self, seconds):
        quarter = lambda n: [size for at, size in self.memory if n * seconds / 4 <= at < (n + 1) * seconds / 4]
        before, after = (statistics.median(quarter(n)) for n in (1, 3))
        print(f"memory: {before / 2**20:.0f} MiB in the second quarter, {after / 2**20:.0f} MiB in the last", flush=True)
        if after > before * GROWTH + SLACK_BYTES and seconds >= 60 * MINUTES_TO_SETTLE:
            raise Failed("memory has grown")

    def where(self):
        return f" in {self.doing}"

    def state(self):
        return f"memprofd: {self.daemon.said()[-20_000:]}\n{self.targets()}" if self.daemon else "memprofd has not begun"

    def run(self, seconds):
        events, weights = zip(*self.EVENTS)
        began = time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            event = self.random.choices(events, weights)[0]
            self.doing = event.__name__
            event(self)
            self.done[event.__name__] += 1
            self.check()
            self.note_memory(now)
        self.check_memory(seconds)
        for program in self.busy:
            if program.exit()["errors"] != 0:
                raise Failed("a program has had errors")


def main():
    options = soak_command.options_of([("--minutes", float, 60)])
    import harness  # reads MEMPROFD_BUILD

    def work(soak):
        soak.begin()
        soak.run(60 * options.minutes)
        return dict(soak.done)
    soak_command.run("soak", f"{options.minutes:g} minutes, seed {options.seed}",
                     lambda folder: Soak(harness, folder, options.seed), work)


if __name__ == "__main__":
    main()
