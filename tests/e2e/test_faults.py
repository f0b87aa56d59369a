# SPDX-License-Identifier: Apache-2.0
"""Either side dies at random moments, and targets change during an operation.

Each random moment comes from a seed that is shown when the test fails. A random delay is an
injected fault, never a wait.
"""

import random
import signal
import time
import unittest

import harness
from harness import E2ETest, eventually, proc_status, sum_sites

SEEDS = range(8)
LONGEST = 0.6  # seconds; an attach takes some tenths, so moments before and after it occur


class DaemonDies(E2ETest):
    KILLS = range(50) if harness.MATRIX else SEEDS

    def check_unharmed(self, target):
        """The target runs, is neither stopped nor traced, and answers."""
        self.assertEqual("0", proc_status(target.pid, "TracerPid"))
        self.assertNotIn(proc_status(target.pid, "State")[0], "tTZX")
        self.assert_works_on(target)

    def die_at_a_random_moment(self, seed, number):
        target, expected = self.busy_target()
        first = self.daemon("--pid", target.pid, rate=1e-3, wait=False)
        time.sleep(random.Random(seed).uniform(0, LONGEST))
        first.stop(number)
        self.check_unharmed(target)
        second = self.daemon("--pid", target.pid, rate=1e-3)
        second.wait_state(target.pid, "sampling")
        eventually(lambda: second.sites(target.pid), "samples for the second daemon")
        second.stop()
        self.assert_same_output(target, expected)

    def test_killed(self):
        for seed in self.KILLS:
            with self.subTest(seed=seed):
                self.die_at_a_random_moment(seed, signal.SIGKILL)
            self.processes_end()
        harness.NOTES.append(f"{len(self.KILLS)} kills")

    def test_told_to_end(self):
        for seed in list(SEEDS)[:4]:
            with self.subTest(seed=seed):
                self.die_at_a_random_moment(seed, signal.SIGTERM)
            self.processes_end()

    def test_killed_while_an_idle_target_waits(self):
        target = self.target("idle")
        daemon = self.daemon("--pid", target.pid)
        daemon.stop(signal.SIGKILL)
        self.assertEqual("awake", target.command("wake"))
        self.assertIsNone(target.exit())

    def test_clean_end_answers_and_removes_the_socket(self):
        target = self.target("busy_threads")
        for number in (signal.SIGINT, signal.SIGTERM):
            daemon = self.daemon("--pid", target.pid)
            daemon.wait_state(target.pid, "sampling")
            self.assertEqual(harness.OK, daemon.stop(number))
            self.assertFalse(daemon.socket.exists())
            self.check_unharmed(target)


class TargetDies(E2ETest):
    def setUp(self):
        super().setUp()
        self.bystander = self.target("busy_threads")
        self.memprofd = self.daemon("--pid", self.bystander.pid, rate=1e-3)
        self.memprofd.wait_state(self.bystander.pid, "sampling")

    def check_bystander(self):
        before = self.memprofd.metrics().total("memprofd_samples_total", pid=self.bystander.pid)
        eventually(lambda: self.memprofd.metrics().total(
            "memprofd_samples_total", pid=self.bystander.pid) > before, "the other target is sampled on")
        self.assertEqual(0, self.bystander.command("stat")["errors"])

    def attach_in_background(self, pid):
        """Starts memprofctl attach without waiting for its answer."""
        return self.process(harness.Process(
            [harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket,
             "attach", "--pid", str(pid)]))

    def test_killed_at_a_random_moment(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                target = self.target("busy_threads")
                attach = self.attach_in_background(target.pid)
                time.sleep(random.Random(seed).uniform(0, LONGEST))
                target.stop(signal.SIGKILL)
                code = attach.wait()
                self.assertIn(code, (harness.OK, harness.NO_PROCESS), attach.stderr())
                if code == harness.OK:
                    self.memprofd.wait_state(target.pid, "exited")
        self.check_bystander()

    def test_killed_while_stopped_and_awaited(self):
        target = self.target("busy_threads")
        target.send_signal(signal.SIGSTOP)
        self.memprofd.attach(target.pid)
        target.stop(signal.SIGKILL)
        self.memprofd.wait_state(target.pid, "exited", "failed")
        self.check_bystander()

    def test_counts_survive_the_target(self):
        target = self.target("known_alloc")
        self.memprofd.attach(target.pid)
        self.sample_on_command(self.memprofd, target)
        truth = target.command("go 4")["sites"]["site_small"]
        seen = sum_sites(self.memprofd.settled_sites(target.pid), "site_small")
        target.exit()
        self.memprofd.wait_state(target.pid, "exited")
        after = sum_sites(self.memprofd.sites(target.pid), "site_small")
        self.assertGreaterEqual(after["samples"], seen["samples"])
        self.assert_estimate("site_small", after["allocated_bytes"], truth["allocated_words"], 1e-3)
        self.check_bystander()

    def test_exit_flushes_what_was_sampled(self):
        target = self.target("known_alloc")
        self.memprofd.attach(target.pid)
        self.sample_on_command(self.memprofd, target)
        truth = target.command("go 2")["sites"]["site_small"]
        target.exit()
        self.memprofd.wait_state(target.pid, "exited")
        seen = sum_sites(self.memprofd.settled_sites(target.pid), "site_small")
        self.assert_estimate("site_small", seen["allocated_bytes"], truth["allocated_words"], 1e-3)

    def test_stopped_and_continued_while_sampled(self):
        target = self.target("busy_threads")
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        target.send_signal(signal.SIGSTOP)
        eventually(lambda: proc_status(target.pid, "State").startswith("T"), "the target is stopped")
        self.check_bystander()
        self.assertEqual("sampling", self.memprofd.state(target.pid))
        target.send_signal(signal.SIGCONT)
        before = target.command("stat")["requests"]
        eventually(lambda: target.command("stat")["requests"] > before, "the target works on")
        self.memprofd.detach(target.pid)
        self.assertEqual(0, target.exit()["errors"])

    def test_detach_while_stopped(self):
        target = self.target("busy_threads")
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        target.send_signal(signal.SIGSTOP)
        eventually(lambda: proc_status(target.pid, "State").startswith("T"), "the target is stopped")
        self.memprofd.detach(target.pid)
        target.send_signal(signal.SIGCONT)
        self.assertEqual(0, target.exit()["errors"])

    def test_exec_ends_the_target_and_leaves_the_new_program_alone(self):
        target = self.target("execer")
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        target.send(f"exec {harness.BUILD}/targets/known_alloc")
        self.assertEqual(f"ready {target.pid}", target.read_line())
        self.memprofd.wait_state(target.pid, "exited")
        self.assertEqual(1, target.command("go 1")["rounds"])
        self.check_bystander()

    def test_new_program_after_exec_can_be_profiled(self):
        target = self.target("execer")
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        target.send(f"exec {harness.BUILD}/targets/known_alloc")
        target.read_line()
        self.memprofd.wait_state(target.pid, "exited")
        self.memprofd.attach(target.pid)
        self.sample_on_command(self.memprofd, target)
        truth = target.command("go 2")["sites"]["site_small"]
        sites = self.memprofd.settled_sites(target.pid)
        self.assert_estimate("site_small", sum_sites(sites, "site_small")["allocated_bytes"],
                             truth["allocated_words"], 1e-3)

    def test_children_of_a_forking_target_are_left_alone(self):
        target = self.target("forker")
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        eventually(lambda: sum_sites(self.memprofd.sites(target.pid), "parent_work")["samples"] > 500,
                   "samples of the parent")
        sites = self.memprofd.sites(target.pid)
        self.assertEqual(0, sum_sites(sites, "child_work")["samples"])
        counts = target.exit()
        self.assertGreater(counts["children"], 10)
        self.assertEqual(0, counts["failed"])


if __name__ == "__main__":
    unittest.main()
