#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Takes many snapshots of busy servers: make soak-snapshots.

  tests/soak/snapshot_soak.py [--snapshots N] [--kills N] [--seed N] [--build FOLDER]

Servers with threads, in OCaml 4 and 5, and a program with several domains work under load. The soak takes N snapshots
of them in turn, then kills memprofd N times at random moments of a snapshot. It fails if a request fails, a program
computes a wrong result, or a file is incomplete; if a copy outlives memprofd, keeps a descriptor or stays as a zombie;
if memprofd's descriptors grow; or if a server's port or lock is not free soon after its end.
"""

import collections
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "kit"), str(TESTS / "e2e")]

import soak_command  # noqa: E402 (of this folder)

CLIENTS, PAGES, REQUESTS_A_CONNECTION = 3, 200, 100
LONGEST = 1.2  # seconds that a snapshot takes, most of them before it affects the program
LONGEST_COPY = 0.01
PATIENCE = 180  # seconds; the machine may be busy
MOST_REFUSED = 0.2  # share of refused snapshots of domains, which may lack processors to meet in time


class Failed(AssertionError):
    pass


class Client(threading.Thread):
    """Requests pages, which must stay the same as at first, with pauses of `rest` seconds."""

    def __init__(self, port, pages, rest):
        super().__init__(daemon=True)
        self.port, self.pages, self.rest = port, pages, rest
        self.requests, self.longest, self.failures, self.ending = 0, 0.0, [], False

    def run(self):
        while not self.ending:
            try:
                self.talk()
            except (OSError, http.client.HTTPException, Failed) as failure:
                self.failures.append(repr(failure))

    def talk(self):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            for _ in range(REQUESTS_A_CONNECTION):
                if self.ending:
                    return
                name, began = f"/page/article-{random.randrange(PAGES)}", time.monotonic()
                connection.request("GET", name, headers={"Cookie": "session=known"})
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200 or self.pages.setdefault(name, body) != body:
                    raise Failed(f"{name}: {answer.status}, {len(body)} bytes")
                self.longest = max(self.longest, time.monotonic() - began)
                self.requests += 1
                time.sleep(self.rest)


def server_of(harness, folder, programs, rest):
    """demo_server under load; its standard input is a file on which only it holds a lock."""

    class Server(harness.Process):
        def __init__(self):
            self.lock_path = folder / f"{programs.name}.lock"
            with open(self.lock_path, "w+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                super().__init__([programs / "demo_server", "--self-load", "2"], stdin=lock)
            self.port, pages = int(self.read_line().split()[1]), {}
            self.clients = [Client(self.port, pages, rest) for _ in range(CLIENTS)]
            for client in self.clients:
                client.start()

        def check(self):
            failures = [failure for client in self.clients for failure in client.failures]
            if failures or not self.running():
                raise Failed(f"{self.name()}: {failures[:3]}, {self.stderr()[-500:]}")
            before = self.requests()
            harness.eventually(lambda: self.requests() > before, "requests are answered", timeout=PATIENCE)

        def requests(self):
            return sum(client.requests for client in self.clients)

        def finish(self):
            """Kills the program; its port and lock must soon be free, even if copies of it exist.

            A copy that has not run yet shares the descriptors until memprofd notices the end of
            the program and kills the copy.
            """
            for client in self.clients:
                client.ending = True
            for client in self.clients:
                client.join()
            self.popen.kill()
            self.popen.wait()
            harness.eventually(self.is_lock_free, "its lock is free", timeout=PATIENCE)
            harness.eventually(self.is_port_free, "its port is free", timeout=PATIENCE)

        def is_lock_free(self):
            with open(self.lock_path) as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False

        def is_port_free(self):
            with socket.socket() as again, contextlib.suppress(OSError):
                again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                again.bind(("127.0.0.1", self.port))
                again.listen()
                return True
            return False

        def told(self):
            longest = max(client.longest for client in self.clients)
            return f"{self.requests()} requests, the longest {longest * 1000:.0f} ms"
    return Server()


def domains_of(harness):
    """Four working domains, whose results must be those of an undisturbed run."""

    class Domains(harness.Target):
        def __init__(self):
            super().__init__("domains", folder=harness.TARGETS5)

        def check(self):
            before = self.work_done()
            harness.eventually(lambda: self.work_done() > before, "the domains work on", timeout=PATIENCE)

        def finish(self):
            harness.eventually(lambda: self.command("stat")["checksums"], "it has computed something", timeout=PATIENCE)
            if len(self.exit(timeout=PATIENCE)["checksums"]) != 1:
                raise Failed("the domains have computed different things")

        def told(self):
            return "4 domains, one result"
    return Domains()


class SnapshotSoak:
    def __init__(self, folder, seed, rest=0):
        """rest: pause of clients in seconds, for runs beside other tests."""
        import harness
        import heap_copies
        self.harness, self.children, self.is_gone = harness, harness.children, heap_copies.is_gone
        self.folder, self.random = pathlib.Path(folder), random.Random(seed)
        self.done, self.longest_outlived = collections.Counter(), 0.0
        self.daemon, self.programs = None, []
        self.programs.append(server_of(harness, self.folder, harness.TARGETS4, rest))
        if harness.TARGETS5.exists():
            self.programs.append(server_of(harness, self.folder, harness.TARGETS5, rest))
            self.programs.append(domains_of(harness))

    def close(self):
        for process in [*self.programs, *([self.daemon] if self.daemon else [])]:
            process.kill()

    def eventually(self, condition, what):
        return self.harness.eventually(condition, what, timeout=PATIENCE)

    def start(self):
        self.daemon = self.harness.Daemon(self.folder, *[word for program in self.programs
                                                         for word in ("--pid", program.pid)], rate=1e-4)
        for program in self.programs:
            self.daemon.wait_state(program.pid, "sampling", timeout=PATIENCE)

    def take(self, program):
        path = self.folder / "a.heap"
        return path, self.harness.Process([self.harness.BUILD / "memprofctl", "--grpc.socket", self.daemon.socket,
                                           "snapshot", "take", "--pid", program.pid, "--out", path, "--max-pause", "10s"])

    def look_at_copies(self, program):
        """Checks that finished copies have no descriptors; an unfinished one briefly shares the program's table."""
        for copy in self.children(program.pid):
            with contextlib.suppress(OSError):
                folder = pathlib.Path("/proc") / copy
                is_ready = (folder / "comm").read_text().strip() == "memprof-copy"
                if is_ready and not self.is_gone(copy):
                    self.done["copies seen"] += 1
                    if held := list((folder / "fd").iterdir()):
                        raise Failed(f"copy {copy} has {len(held)} descriptors")

    def settle(self, program):
        """Waits until the copy is gone, also from the list of processes; the program must continue correctly."""
        self.eventually(lambda: not self.children(program.pid), f"pid {program.pid} has no copy")
        program.check()

    def snapshot(self, program):
        path, taker = self.take(program)
        while taker.running():
            self.look_at_copies(program)
            time.sleep(0.002)
        if taker.wait() != 0:
            if "could not be stopped together" not in taker.stderr():
                raise Failed(f"{program.name()}: {taker.stderr()}")
            self.done["refused"] += 1
        else:
            shown = subprocess.run([self.harness.BUILD / "tests/heap_image", path], capture_output=True, check=True)
            if not json.loads(shown.stdout)["complete"]:
                raise Failed(f"{path} is not whole")
            path.unlink()
            self.done[f"of {program.name()}"] += 1
        taker.kill()
        self.settle(program)

    def snapshots(self, number):
        self.start()
        self.snapshot(self.programs[0])  # opens the descriptors that memprofd keeps
        before = self.descriptors()
        for i in range(number):
            self.snapshot(self.programs[i % len(self.programs)])
        if self.done["refused"] > max(2, MOST_REFUSED * number):
            raise Failed(f"{self.done['refused']} of {number} were refused")
        self.eventually(lambda: self.descriptors() <= before, f"memprofd has {before} descriptors again")
        self.check_processes()
        self.daemon.stop(timeout=PATIENCE)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))

    def check_processes(self):
        """memprofd has child processes, but no zombies."""
        def no_zombies():
            return not any(self.is_gone(child) for child in self.children(self.daemon.pid))
        self.eventually(no_zombies, "memprofd has no zombies")

    def wait_for_a_moment(self, program, taker, with_copy):
        """Waits for a random moment of the whole snapshot, or of the short time in which a copy exists."""
        if not with_copy:
            return time.sleep(self.random.uniform(0, LONGEST))
        while taker.running() and not self.children(program.pid):
            pass
        return time.sleep(self.random.uniform(0, LONGEST_COPY))

    def kills(self, number):
        for i in range(number):
            self.start()
            program = self.programs[i % len(self.programs)]
            path, taker = self.take(program)
            self.wait_for_a_moment(program, taker, with_copy=i % 2 == 0)
            self.done["kills with a copy"] += any(not self.is_gone(copy) for copy in self.children(program.pid))
            self.daemon.send_signal(signal.SIGKILL)
            self.daemon.wait(PATIENCE)
            ended = time.monotonic()
            self.eventually(lambda program=program: all(self.is_gone(copy) for copy in self.children(program.pid)),
                            "the copy ends")
            self.longest_outlived = max(self.longest_outlived, time.monotonic() - ended)
            if taker.wait(PATIENCE) != 0 and list(self.folder.glob("a.heap*")):
                raise Failed("memprofctl has left part of a file")
            taker.kill()
            path.unlink(missing_ok=True)
            self.settle(program)
            self.done["kills"] += 1

    def finish(self):
        """Ends each program while it is being copied, or soon after."""
        self.start()
        for program in self.programs:
            _, taker = self.take(program)
            self.eventually(lambda program=program, taker=taker: self.children(program.pid) or not taker.running(),
                            "it is copied")
            program.finish()
            taker.wait(PATIENCE)
            taker.kill()
        self.daemon.stop(timeout=PATIENCE)

    def where(self):
        return ""

    def state(self):
        return f"memprofd: {self.daemon.said()[-20_000:] if self.daemon else ''}"

    def run(self, snapshots, kills):
        self.snapshots(snapshots)
        self.kills(kills)
        self.finish()
        programs = "; ".join(f"{program.arguments[0].rpartition('build/')[2]}: {program.told()}" for program in self.programs)
        return f"{dict(self.done)}; a copy was there for {self.longest_outlived * 1000:.0f} ms at most after memprofd; {programs}"


def main():
    options = soak_command.options_of([("--snapshots", int, 200), ("--kills", int, 50)])
    soak_command.run("soak-snapshots", f"{options.snapshots} snapshots, {options.kills} kills, seed {options.seed}",
                     lambda folder: SnapshotSoak(folder, options.seed),
                     lambda soak: soak.run(options.snapshots, options.kills))


if __name__ == "__main__":
    main()
