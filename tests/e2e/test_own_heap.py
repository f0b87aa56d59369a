# SPDX-License-Identifier: Apache-2.0
"""Heap snapshots, why and values --snapshot with --no-daemon: taken by the program's own user, without memprofd and
without any privilege."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

import harness
from harness import TARGETS4, TARGETS5, Process, children, eventually
from heap_copies import KEPT, OLD, image
from test_run import NOBODY, UNPRIVILEGED
from test_run_pid import PidCase

TRIES = 30 if harness.MATRIX else 4
LONGEST = 1.0  # seconds that a snapshot takes, mostly before it touches the program


class OwnHeap(PidCase):
    targets = TARGETS4
    # Libraries of other releases than Debian's are in root's home folder.
    user = NOBODY if TARGETS4 == harness.BUILD / "targets" else UNPRIVILEGED

    def command(self, *arguments):
        return [str(word) for word in (*self.user, self.folder / "memprofctl", *arguments)]

    def ask(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=harness.TIMEOUT, check=False)

    def take_arguments(self, pid, pause="10s"):
        return ("snapshot", "take", "--no-daemon", "--pid", pid, "--out", self.folder / "a.heap", "--max-pause", pause)

    def take(self, target):
        done = self.ask(*self.take_arguments(target.pid))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assert_one_line(done.stdout, self.folder / "a.heap", "blocks in a heap of", "was paused for")
        found = image(self.folder / "a.heap")
        self.assertTrue(found["complete"])
        return found


class Taking(OwnHeap):
    def test_a_program_that_waits(self):
        """It has not allocated anything since memprofctl began."""
        target = self.begin("heap_shapes")
        self.answer(target, f"settle {self.folder / 'own'}")
        for _ in range(3):
            found = self.take(target)
            self.assertEqual(KEPT, {key: found["rows"].get(key) for key in KEPT})
        self.answer(target, f"step {self.folder / 'own'}")
        self.assertTrue(target.running())

    def test_a_program_that_works(self):
        """A sample brings one of its threads to the agent, where it is copied."""
        target = self.begin("heap_shapes")
        for _ in range(3):
            taker = self.process(Process(self.command(*self.take_arguments(target.pid))))
            self.answer(target, f"step {self.folder / 'own'}")
            while taker.running():
                self.answer(target, f"step {self.folder / 'own'}")
            self.assertEqual(0, taker.wait(), taker.stderr())
            found = image(self.folder / "a.heap")
            self.assertTrue(found["complete"])
            self.assertEqual(OLD, {key: found["rows"].get(key) for key in OLD})
        self.assertTrue(target.running())

    def test_threads(self):
        target = self.begin("busy_threads", "busy")
        for _ in range(TRIES):
            self.assertGreater(self.take(target)["reachable"], 100)
            self.assert_goes_on(target, 1000)
        self.wait_nothing_shared(target.pid)

    def test_beside_a_profile(self):
        """One of the two at a time: the other is refused, and the profile goes on."""
        target = self.begin("busy_threads", "busy")
        run = self.attach(target)
        self.wait_sampling(run)
        done = self.ask(*self.take_arguments(target.pid))
        self.assertEqual(harness.BUSY, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, "is already profiled by")
        self.end(run)
        self.take(target)

    def test_it_is_killed(self):
        """At any moment; the program goes on, and the next snapshot is taken."""
        target = self.begin("busy_threads", "busy")
        for _ in range(2 * TRIES):
            taker = self.process(Process(self.command(*self.take_arguments(target.pid))))
            time.sleep(random.uniform(0, LONGEST))
            os.kill(taker.pid, signal.SIGKILL)
            taker.wait()
            self.assert_goes_on(target, 1000)
        self.take(target)
        self.assert_goes_on(target, 1000)
        self.wait_nothing_shared(target.pid)

    def test_it_is_killed_while_the_program_sleeps(self):
        """A copy that nobody traces any more leaves no core."""
        folder = self.folder / "cores"
        folder.mkdir()
        folder.chmod(0o777)
        target = self.begin("heap_shapes", user=(*self.user, "env", "-C", folder, "prlimit", "--core=unlimited"))
        for _ in range(4 * TRIES):
            taker = self.process(Process(self.command(*self.take_arguments(target.pid))))
            eventually(lambda: harness.proc_status(target.pid, "TracerPid") != "0" or not taker.running(), "it is traced")  # pylint: disable=cell-var-from-loop
            taker.stop(signal.SIGKILL)
        self.take(target)
        self.assertEqual([], list(folder.iterdir()))

    def test_it_is_stopped(self):
        """Ctrl-Z does not stop it while a thread of the program is."""
        target = self.begin("busy_threads", "busy")
        taker = self.process(Process(self.command(*self.take_arguments(target.pid))))
        eventually(lambda: harness.proc_status(target.pid, "TracerPid") != "0" or self.shared_of(target.pid), "it has begun")
        while taker.running():
            os.kill(taker.pid, signal.SIGTSTP)
        self.assertEqual(0, taker.wait(), taker.stderr())
        self.assert_goes_on(target, 1000)

    def test_a_program_that_writes_there_itself(self):
        """Whatever it writes, no thread of it waits for longer than for one snapshot."""
        target = self.begin("busy_threads", "busy")
        self.take(target)
        begin, path = next((line.split()[0].split("-")[0], line.split()[-1])
                           for line in pathlib.Path(f"/proc/{target.pid}/maps").read_text().splitlines()
                           if "libmemprof_agent" in line)
        place, = (line.split()[0] for line in subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True)
                  .stdout.splitlines() if line.split()[-1] == "memprof_sample_point")
        run = self.attach(target)
        self.wait_sampling(run)
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
            for _ in range(TRIES):
                memory.seek(int(begin, 16) + int(place, 16))
                memory.write(random.randbytes(8))
                self.assert_goes_on(target, 1000)
        self.end(run)

    def test_ctrl_c(self):
        target = self.begin("busy_threads", "busy")
        asker = self.process(Process(self.command("why", "--no-daemon", "--pid", target.pid, "--for", "1h", "make_words")))
        eventually(lambda: self.shared_of(target.pid), "it has begun")
        self.assertNotEqual(0, asker.stop(signal.SIGINT))
        self.assert_one_line(asker.stderr(), "interrupted")
        self.assert_goes_on(target, 1000)
        self.wait_nothing_shared(target.pid)

    def test_linked_agent(self):
        self.assertGreater(self.take(self.begin("linked_agent"))["reachable"], 10)

    def test_what_is_refused(self):
        other = self.process(Process([self.targets / "busy_threads"]))  # of root
        self.assertEqual("ready", other.read_line().split()[0])
        mine = self.begin("busy_threads", "busy")
        tracker = self.begin("uses_memprof")
        for arguments, code, words in (
                (self.take_arguments(other.pid), harness.PRIVILEGES, ("not allowed to profile pid", "memprofd as root")),
                (self.take_arguments(0), harness.USAGE, ("--no-daemon requires --pid",)),
                (self.take_arguments(mine.pid, "0.001ms"), harness.NOT_PROFILABLE,
                 ("would pause", "--max-pause")),
                (self.take_arguments(tracker.pid), harness.NOT_PROFILABLE, ("uses Gc.Memprof itself", "never found waiting")),
                (("why", "--no-daemon", "--pid", tracker.pid, "x"), harness.NOT_PROFILABLE, ("uses Gc.Memprof itself",)),
                (("why", "--no-daemon", "--pid", mine.pid, "--for", "100ms", "No_such"), harness.NO_PROCESS,
                 ('matches "No_such"', f"memprofctl run --pid {mine.pid}"))):
            with self.subTest(words):
                done = self.ask(*arguments)
                self.assertEqual(code, done.returncode, done.stderr)
                self.assert_one_line(done.stderr, *words)
        self.assertEqual([], list(self.folder.glob("a.heap*")))
        self.assert_goes_on(mine)


class Taking5(Taking):
    targets = TARGETS5
    user = UNPRIVILEGED

    def test_domains(self):
        """Several domains allocate; they stop together for the copy."""
        target = self.begin("domains")
        taken = refused = 0
        while taken < TRIES:
            before = self.work(target)
            done = self.ask(*self.take_arguments(target.pid))
            if done.returncode == 0:
                self.assertGreater(image(self.folder / "a.heap")["reachable"], 100)
                taken += 1
            else:  # the machine is too busy
                self.assert_one_line(done.stderr, "could not be stopped together")
                refused += 1
                self.assertLessEqual(refused, 3 * TRIES)
            eventually(lambda: self.work(target) > before, "its domains go on")  # pylint: disable=cell-var-from-loop


class Namespaces(OwnHeap):
    def test_user_namespace(self):
        """As in a container without privileges: from inside of it, and from outside."""
        target = self.begin("busy_threads", "busy", user=(*NOBODY, "unshare", "-Ur"))
        inside = (*NOBODY, "nsenter", "--user", "--preserve-credentials", "--target", str(target.pid))
        for self.user in (NOBODY, inside):
            with self.subTest(self.user):
                self.assertGreater(self.take(target)["reachable"], 100)
        self.assert_goes_on(target, 1000)

    def test_filter_of_a_container(self):
        """memprofctl cannot read the filter, but has it itself, as everything in the container."""
        filtered = (sys.executable, "-c", harness.UNDER_A_FILTER)
        target = self.process(Process(["unshare", "--pid", "--fork", "--mount-proc", *filtered, self.program("busy_threads"), "busy"]))
        self.assertEqual("ready", target.read_line().split()[0])
        (first,) = children(target.pid)
        self.user = ("nsenter", "--target", str(first), "--pid", "--mount", *filtered)
        for _ in range(TRIES):
            done = self.ask(*self.take_arguments(1))
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertTrue(image(self.folder / "a.heap")["complete"])
        self.assert_goes_on(target, 1000)


class Questions(OwnHeap):
    def test_why(self):
        target = self.begin("demo_server", "--self-load", "2")
        done = self.ask("why", "--no-daemon", "--pid", target.pid, "--for", "3s", "make_session")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("Demo_server.Sessions", done.stdout)
        found = json.loads(self.ask("why", "--no-daemon", "--pid", target.pid, "--for", "3s", "-o", "json", "make_session").stdout)
        self.assertGreater(len(found["sites"]), 0)

    def test_values_that_are_too_large(self):
        """They are counted in a snapshot, which is taken only for such."""
        target = self.begin("values")
        self.answer(target, "grow 30000")
        done = self.ask("values", "--no-daemon", "--pid", target.pid, "--snapshot", "-o", "json")
        self.assertEqual(0, done.returncode, done.stderr)
        tables = [value["value"] for value in json.loads(done.stdout)["values"]
                  if value["value"]["kind"] == "VALUE_KIND_TABLE"]
        self.assertIn(("30000", True), [(table["size"], table["is_of_snapshot"]) for table in tables])


if __name__ == "__main__":
    unittest.main()
