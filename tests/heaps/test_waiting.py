# SPDX-License-Identifier: Apache-2.0
"""Copies of waiting programs: each matches the program's own counts, and no wait ends early or with an error. There
are none of a working program. make waiting-copies takes thousands of copies."""

import collections
import contextlib
import json
import os
import pathlib
import random
import socket
import time
import unittest

import harness
from containers import Contained, files, make_root, unshared
from harness import TARGETS4, TARGETS5, Process, eventually, proc_status
from heap_copies import COPY, KILLS, HeapCopy, Snapshot, image
from heap_copies import COPY, HeapCopy, Snapshot, image

TRIES = int(os.environ.get("WAITING_TRIES", "15"))
BUSY_TRIES = 10 * TRIES
KILLS = TRIES


class Waiting(HeapCopy):
    def waiting(self, name, *arguments, folder=TARGETS4):
        target = self.target(name, *arguments, folder=folder,
                             env={**os.environ, "LD_PRELOAD": str(harness.BUILD / "libmemprof_agent.so")})
        return target, json.loads(target.read_line())

    def tried(self, target, tries):
        """(copies, {reason: number of refused tries})"""
        copier = self.process(Process([COPY, target.pid, "waiting", tries]))
        lines = list(iter(copier.lines.get, None))
        self.assertEqual(0, copier.wait(), copier.stderr())
        *copies, refused = map(json.loads, lines)
        return copies, refused["refused"]

    def check_copies(self, copies, told):
        """Checks that all copies have exactly the blocks and words that the collector counts, and the same roots."""
        for copy in copies:
            heap = copy["heap"]
            blocks, words = heap["used"]
            # In OCaml 5 every large block has extra words in front of it.
            self.assertEqual((told["blocks"], told["words"]), (blocks, words + 2 * heap["large"][0]))
            self.check_kept(told, copy)
        self.assertEqual(1, len({json.dumps(copy["roots"]) for copy in copies}), "the same roots each time")

    def check_kept(self, told, copy):
        """Compares what one global retains. Obj.reachable_words of OCaml 5 also counts the empty array, which is not in
        the heap."""
        self.assertTrue({told["kept_words"], told["kept_words"] - 1} & set(copy["retained"]), (told, copy["retained"]))

    def check_undisturbed(self, target, waits=True):
        self.assertEqual("0", proc_status(target.pid, "TracerPid"))
        report = target.command("report")
        self.assertEqual((0, 20_000), (report["wrong"], report["kept"]))
        if waits:
            self.assertGreater(report["waits"], 0)
        self.assertEqual(0, target.exit() or 0)

    def check(self, name, *arguments, waits=False, folder=TARGETS4):
        with self.subTest(" ".join((folder.name, name, *arguments))):
            target, told = self.waiting(name, *arguments, folder=folder)
            copies, refusals = [], collections.Counter()
            while len(copies) < TRIES:  # refused tries are normal: a thread may run at any time
                more, refused = self.tried(target, TRIES)
                self.assertEqual(TRIES, len(more) + sum(refused.values()))
                copies += more
                refusals.update(refused)
            self.check_copies(copies, told)
            for why in refusals:
                self.assertRegex(why, "has just woken up|is running|has run meanwhile|has the runtime lock|may hold the runtime|a domain|was made too late|has not ended yet")
            self.check_undisturbed(target, waits)
            harness.NOTES.append(f"{name} {' '.join(arguments)} {folder.name}: {len(copies)} copies, {sum(refusals.values())} refused")


class OneThread(Waiting):
    def test_in_system_calls(self):
        """Tests without the library of threads, with it, and with OCaml 5."""
        for name, folder in (("waits_alone", TARGETS4), ("waits", TARGETS4), ("waits", TARGETS5)):
            for kind in ("read", "select"):
                self.check(name, kind, folder=folder)
            for kind in ("sleep", "timed_select"):
                self.check(name, kind, waits=True, folder=folder)
            if name != "waits_alone":
                self.check(name, "epoll", waits=True, folder=folder)

    def test_c_code_that_is_not_known_is_refused(self):
        """Unknown C code may hold the runtime lock; without threads nothing shows this."""
        target, _ = self.waiting("waits_alone", "epoll")
        eventually(lambda: target.command("report")["waits"] > 0, "it waits")
        copies, refused = self.tried(target, TRIES)
        self.assertEqual([], copies)
        self.assertTrue(any("may hold the runtime" in why for why in refused), refused)
        self.check_undisturbed(target)

    def test_in_accept(self):
        for name, folder in (("waits_alone", TARGETS4), ("waits", TARGETS4), ("waits", TARGETS5)):
            with self.subTest(f"{folder.name} {name}"):
                target, told = self.waiting(name, "accept", folder=folder)
                port = int(target.read_line())
                copies = []
                while len(copies) < TRIES:
                    copies += self.tried(target, TRIES)[0]
                self.check_copies(copies, told)
                with contextlib.closing(socket.create_connection(("127.0.0.1", port))):
                    report = json.loads(target.read_line())
                self.assertEqual((0, 20_000), (report["wrong"], report["kept"]))

    def test_a_socket_with_a_time_out_is_refused(self):
        for folder in (TARGETS4, TARGETS5):
            target, _ = self.waiting("waits", "timed_read", folder=folder)
            eventually(lambda: target.command("report")["waits"] > 0, "it waits")
            copies, refused = self.tried(target, TRIES)
            self.assertEqual([], copies)
            self.assertTrue(any("SO_RCVTIMEO" in why for why in refused), refused)
            self.check_undisturbed(target)

    def test_the_copier_is_killed(self):
        """Kills the copier at random moments. A wait with a timeout may start again, but nothing else may change."""
        for name, kind, folder in (("waits_alone", "sleep", TARGETS4), ("waits", "timed_select", TARGETS4), ("waits", "sleep", TARGETS5)):
            with self.subTest(f"{folder.name} {name} {kind}"):
                target, _ = self.waiting(name, kind, folder=folder)
                for _ in range(KILLS):
                    copier = self.process(Process([COPY, target.pid, "waiting", 10_000]))
                    copier.read_line()
                    time.sleep(random.uniform(0, 0.05))
                    copier.kill()
                    self.assertTrue(target.running())
                self.check_undisturbed(target)


class Busy(Waiting):
    def test_none_of_a_program_that_works(self):
        """The program keeps allocating, or sleeps in C code with an uninitialised block."""
        for name, folder in (("waits_alone", TARGETS4), ("waits", TARGETS4), ("waits", TARGETS5)):
            for kind in ("busy", "in_c"):
                with self.subTest(f"{folder.name} {name} {kind}"):
                    target, _ = self.waiting(name, kind, folder=folder)
                    copies, refused = self.tried(target, BUSY_TRIES)
                    self.assertEqual([], copies)
                    self.assertEqual(BUSY_TRIES, sum(refused.values()))
                    self.check_undisturbed(target, waits=False)
                    harness.NOTES.append(f"{name} {kind} {folder.name}: {refused}")

    def test_from_its_waits_alone(self):
        """The program alternates between allocating and sleeping; the kept memory is complete in each copy."""
        for name, folder in (("waits_alone", TARGETS4), ("waits", TARGETS4), ("waits", TARGETS5)):
            target, told = self.waiting(name, "in_turns", folder=folder)
            copies, refused = self.tried(target, BUSY_TRIES)
            self.assertEqual(BUSY_TRIES, len(copies) + sum(refused.values()))
            for copy in copies:
                self.check_kept(told, copy)
            self.check_undisturbed(target, waits=False)
            harness.NOTES.append(f"{name} in turns, {folder.name}: {len(copies)} copies of {BUSY_TRIES}")


class Threads(Waiting):
    def test_on_conditions_and_in_delays(self):
        for folder in (TARGETS4, TARGETS5):
            for kind in ("condition", "join"):
                self.check("wait_threads", kind, waits=True, folder=folder)

    def test_domains(self):
        self.check("wait_domains", waits=True, folder=TARGETS5)


class Server(Snapshot):
    """The users' commands, on a program that has been waiting since before the attach."""

    programs = TARGETS4

    def test_the_agent_comes_while_it_waits(self):
        target = self.target("waits", "read", folder=self.programs)
        told = json.loads(target.read_line())
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: "memprof_agent" in pathlib.Path(f"/proc/{target.pid}/maps").read_text(), "the agent is in it")
        eventually(lambda: self.take(daemon, check=False)[1].returncode == 0, "a snapshot is taken")
        for _ in range(3):
            path, done = self.take(daemon)
            self.assert_one_line(done.stdout, path, "blocks in a heap of")
            found = image(path)
            self.assertTrue(found["complete"])
            self.assertEqual(told["blocks"], found["blocks"] - found["young"])
        report = target.command("report")
        self.assertEqual((0, 20_000), (report["wrong"], report["kept"]))
        self.assertEqual(harness.OK, daemon.detach(target.pid).returncode)
        self.assertEqual(0, target.command("report")["wrong"])

    def test_what_cannot_be_copied_says_why(self):
        target = self.target("waits", "long_read", folder=self.programs,
                             env={**os.environ, "LD_PRELOAD": str(harness.BUILD / "libmemprof_agent.so")})
        _, port = target.read_line(), int(target.read_line())
        daemon = self.daemon("--pid", target.pid, rate=1e-3)

        def refused():  # memprofd finds the preloaded agent shortly after the attach
            _, done = self.take(daemon, check=False, timeout=3 * harness.TIMEOUT)
            return "its agent is not ready" not in done.stderr and done
        done = eventually(refused, "its agent is ready")
        self.assert_one_line(done.stderr, "reached no safe point", "SO_RCVTIMEO", "send it one request")
        with contextlib.closing(socket.socket(type=socket.SOCK_DGRAM)) as sender:
            sender.sendto(b"x", ("127.0.0.1", port))
        report = json.loads(target.read_line())
        self.assertEqual((0, 20_000), (report["wrong"], report["kept"]))


class InContainer(Snapshot):
    """The program cannot see the agent's file, and gets a copy of it while it waits."""

    def test_the_agent_comes_while_it_waits(self):
        for programs in (TARGETS4, TARGETS5):
            with self.subTest(programs.name):
                root = make_root(self.folder / programs.name, programs / "waits")
                target = self.process(Contained(unshared(root), "/app/waits", "read"))
                told, before = json.loads(target.read_line()), files(root)
                daemon = self.daemon("--pid", target.pid, rate=1e-3)

                def has_agent():
                    return "/memfd:memprof_agent" in pathlib.Path(f"/proc/{target.pid}/maps").read_text()
                eventually(has_agent, "the agent is in it")
                path = self.folder / f"{programs.name}.heap"
                done = eventually(lambda: self.taken(daemon, path), "a snapshot is taken")
                self.assert_one_line(done.stdout, path, "blocks in a heap of")
                found = image(path)
                self.assertEqual(told["blocks"], found["blocks"] - found["young"])
                report = target.command("report")
                self.assertEqual((0, 20_000), (report["wrong"], report["kept"]))
                self.assertEqual(before, files(root))
                fds = [str(fd.readlink()) for fd in pathlib.Path(f"/proc/{target.pid}/fd").iterdir()]
                self.assertFalse([fd for fd in fds if "memprof" in fd])
                daemon.stop()

    def taken(self, daemon, path):
        """The finished command, or None if memprofd does not know the agent yet."""
        done = daemon.ctl("snapshot", "take", "--out", path, "--max-pause", "10s", check=False, timeout=3 * harness.TIMEOUT)
        return done if done.returncode == 0 else None


class Server5(Server):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
