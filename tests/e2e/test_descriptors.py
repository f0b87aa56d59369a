# SPDX-License-Identifier: Apache-2.0
"""memprofd without descriptors, threads or kernel memory: it names limit and remedy, and
continues."""

import contextlib
import os
import resource
import shutil
import signal
import tempfile
import unittest

import grpc

import faults
import harness
from api import PAGE, Api, ask
from descriptors import leave_descriptors
from harness import E2ETest, eventually
from messages import message_modules
from messages import message_modules


class Descriptors(E2ETest):
    # More descriptors than an attach needs.
    MOST = 120

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.pb, = message_modules(folder.name, "memprof/v1/profiler.proto")

    def setUp(self):
        super().setUp()
        self.memprofd = self.daemon(rate=1e-3)
        self.before = resource.prlimit(self.memprofd.pid, resource.RLIMIT_NOFILE)

    def leave(self, number):
        """Leaves that many descriptors; None restores the limit."""
        if number is None:
            resource.prlimit(self.memprofd.pid, resource.RLIMIT_NOFILE, self.before)
        else:
            leave_descriptors(self.memprofd.pid, number)

    def assert_names_the_limit(self, message, number):
        self.assert_one_line(message, "too many files open", "LimitNOFILE=", "ulimit -n")
        self.assertRegex(message, r"\bpid \d+\b", f"{number} descriptors left")

    def test_at_each_step_of_an_attach(self):
        """The limit is reached later each time."""
        api = Api(self.pb, self.memprofd)
        self.addCleanup(api.close)
        api.ListTargets()  # connected
        refused = 0
        for number in range(self.MOST):
            target = self.target("busy_threads")
            self.leave(number)
            try:
                api.Attach(pid=target.pid)
                told = eventually(lambda: next((t for t in api.ListTargets().targets if t.pid == target.pid and
                                                t.state != self.pb.TARGET_STATE_WAITING), None),
                                  "it is sampled or has failed")
                message = f"pid {told.pid}: {told.message}" if told.state == self.pb.TARGET_STATE_FAILED else ""
            except grpc.RpcError as error:
                message = error.details()
            self.leave(None)
            if not message:
                break
            refused += 1
            self.assert_names_the_limit(message, number)
            self.assertEqual(0, target.exit()["errors"])
        harness.NOTES.append(f"{refused} descriptors")
        self.assertGreater(refused, 10)
        self.assertLess(refused, self.MOST - 1)

    def test_children_that_cannot_be_followed_are_told_of_once(self):
        target = self.target("forks", folder=harness.TARGETS)
        self.memprofd.ctl("attach", "--pid", target.pid, "--follow-forks")
        self.memprofd.wait_state(target.pid, "sampling")
        self.leave(0)
        for _ in range(5):
            child = target.command("fork")["pid"]
            self.addCleanup(os.kill, child, signal.SIGKILL)
            os.kill(child, signal.SIGSTOP)  # it stays after its parent ends
        target.send("exit")
        eventually(lambda: "4 more of its children were not followed" in self.memprofd.said(), "the others are counted")
        self.leave(None)
        said = [line for line in self.memprofd.said().splitlines()
                if "too many files open" in line and ": plugin " not in line]
        self.assertEqual(1, len(said), said)
        self.assert_names_the_limit(said[0], 0)


class NoMemory(E2ETest):
    CALLS = 12  # includes libbpf's first checks of the kernel

    def test_what_the_kernel_once_had_no_memory_for_is_tried_again(self):
        """libbpf remembers what the kernel supports; it must not conclude that from a lack of
        memory."""
        made = faults.Faults(self.folder / "faults", harness.BUILD / "tests/libfaults.so")
        target = self.target("busy_threads")
        for number in range(self.CALLS):
            daemon = self.daemon(rate=1e-3, env=made.environment)
            made.set("calls", made.NEVER - number)
            with made.no_memory(made.NEVER):  # except for that call
                daemon.attach(target.pid, check=False)
            self.assertEqual(number + 1, made.get("failed"))
            daemon.ctl("detach", "--pid", target.pid, check=False)
            daemon.attach(target.pid)
            daemon.wait_state(target.pid, "sampling")
            daemon.stop()
        target.exit()


class NoThreads(E2ETest):
    """As with a control group's pids.max (TasksMax=)."""

    MOST = 6  # most threads that one request starts

    def setUp(self):
        super().setUp()
        self.faults = faults.Faults(self.folder / "faults", harness.BUILD / "tests/libfaults.so")

    def memprofd(self, *arguments, **options):
        return self.daemon("--web.enable-control", "--trace.directory", self.folder, *arguments, rate=1e-3,
                           env=self.faults.environment, **options)

    def sampled(self, daemon):
        target = self.target("busy_threads")
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling")
        return target

    def for_each_thread(self, request):
        """Repeats the request with room for one thread more each time; it reports why it failed.
        Returns the failures."""
        failed = 0
        for number in range(self.MOST):
            with self.faults.few_threads(number):
                said = request()
            if said:
                failed += 1
                self.assertRegex(said, "(?i)thread")
        self.assertEqual("", request())
        return failed

    def test_it_does_not_begin(self):
        for number in (0, 20):
            with self.faults.few_threads(number):
                daemon = self.memprofd(wait=False)
                self.assertEqual(harness.LIMIT, daemon.wait(), daemon.said())
            self.assert_one_line(daemon.said(), "cannot start a thread", "TasksMax=", "ulimit -u")

    def test_traces(self):
        daemon = self.memprofd()
        target = self.sampled(daemon)

        def trace():
            done = daemon.ctl("trace", "start", "--pid", target.pid, check=False)
            self.assertEqual(len(list(self.folder.glob("*.ctf"))), len(daemon.ctl_json("trace", "list")["traces"]))
            return done.stderr
        self.assertGreater(self.for_each_thread(trace), 0)
        self.assertEqual(0, daemon.stop())
        self.assertEqual(0, target.exit()["errors"])

    def test_snapshots_over_http(self):
        daemon = self.memprofd()
        target = self.sampled(daemon)

        def snapshot():
            try:
                status, said = ask(daemon, "POST", "/api/v1/snapshot", {"pid": target.pid, "max_pause_seconds": 10}, PAGE)
            except OSError:
                return "no thread for this connection"
            return "" if status == 200 else said.decode()
        self.assertGreater(self.for_each_thread(snapshot), 1)
        self.assertEqual(0, daemon.stop())
        self.assertEqual(0, target.exit()["errors"])

    def test_attaches(self):
        daemon = self.memprofd()
        for number in range(self.MOST):
            target = self.target("busy_threads")
            with self.faults.few_threads(number):
                done = daemon.attach(target.pid, check=False)
            if done.returncode != 0:
                self.assertRegex(done.stderr, "(?i)thread")
                daemon.attach(target.pid)
            daemon.wait_state(target.pid, "sampling")
            daemon.detach(target.pid)
            self.assertEqual(0, target.exit()["errors"])

    def test_programs_that_are_named(self):
        name = f"{self.folder.name[-8:]}-shop"
        shutil.copy(harness.TARGETS / "busy_threads", self.folder / name)
        daemon = self.memprofd("--name", name)
        with self.faults.no_threads(1):
            target = self.target(name, folder=self.folder)
            eventually(lambda: self.faults.get("threads_failed") > 0, "a thread is missed")
        daemon.wait_state(target.pid, "sampling")

    def test_values_over_http(self):
        """A separate thread searches names of values; a missing thread loses none for good."""
        daemon = self.memprofd()
        target = self.sampled(daemon)
        for number in range(12):  # more than may search names at the same time
            failed = self.faults.get("threads_failed")
            with self.faults.few_threads(number % 3):
                with contextlib.suppress(OSError):  # no thread for this connection
                    ask(daemon, "POST", "/api/v1/values", {"pid": target.pid}, PAGE)
            self.assertTrue(daemon.running(), daemon.said())
            self.assertTrue(number % 3 == 2 or self.faults.get("threads_failed") > failed)
        self.assertEqual(0, daemon.ctl("values", "--pid", target.pid, check=False).returncode)
        self.assertEqual(0, daemon.stop())
        self.assertEqual(0, target.exit()["errors"])

    def test_snapshots_that_are_kept(self):
        """memprofd counts each stored snapshot in one thread, and searches source types in
        another."""
        kept = self.folder / "kept"
        kept.mkdir()
        daemon = self.memprofd("--snapshot.directory", kept)
        target = self.sampled(daemon)
        daemon.ctl("snapshot", "take", "--pid", target.pid, "--max-pause", "10s", "--out", self.folder / "one.heap")
        with self.faults.no_threads(1):
            failed = self.faults.get("threads_failed")
            shutil.copy(self.folder / "one.heap", kept / "auto-one-1-t.heap")
            eventually(lambda: self.faults.get("threads_failed") > failed, "a thread is missed")
            self.assertTrue(daemon.running(), daemon.said())
        self.assertEqual(0, daemon.stop(), daemon.said())
        self.assertEqual(0, target.exit()["errors"])

    def test_a_waiting_attach_goes_on(self):
        daemon = self.memprofd()
        target = self.target("known_alloc")  # allocates on command
        daemon.attach(target.pid)
        eventually(lambda: "next allocation" in daemon.targets()[target.pid]["message"], "the thread that attaches waits")
        with self.faults.no_threads(1):
            eventually(lambda: self.faults.get("threads_failed") > 1, "threads are missed")
            self.assertEqual("waiting", daemon.state(target.pid) or "waiting", daemon.said())
        self.sample_on_command(daemon, target)

    def test_it_lets_go_and_ends(self):
        daemon = self.memprofd()
        target = self.sampled(daemon)
        with self.faults.no_threads(1):
            self.assertEqual(0, daemon.stop())
        self.assertIn("SIGTERM: detaching", daemon.said())
        next_one = self.daemon("--pid", target.pid)
        next_one.wait_state(target.pid, "sampling")
        self.assertEqual(0, target.exit()["errors"])


if __name__ == "__main__":
    unittest.main()
