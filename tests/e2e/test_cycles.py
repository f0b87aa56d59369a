# SPDX-License-Identifier: Apache-2.0
"""Busy programs never notice repeated attaches and detaches."""

import statistics
import unittest

import faults
import harness
from api import post
from harness import E2ETest
from injected_agent import altered_code
from real_programs import Ocsigenserver, Wrk

CYCLES = 200 if harness.MATRIX else 20
SERVER_CYCLES = 200 if harness.MATRIX else 8  # its load uses all processors
FRESH = 25 if harness.MATRIX else 10


class Cycles(E2ETest):
    def cycle(self, daemon, pid):
        """Attaches, waits for samples, detaches; returns the total pause of the target."""
        daemon.attach(pid)
        daemon.wait_state(pid, "sampling")
        harness.eventually(lambda: daemon.sites(pid), f"samples of pid {pid}")
        self.assertNotEqual([], altered_code(pid), "probes")
        daemon.detach(pid)
        self.assertEqual([], altered_code(pid), "probes are out when the answer comes")
        self.assertEqual("detached", daemon.state(pid))
        return daemon.metrics().value("memprofd_target_paused_seconds_total", pid=pid)

    def cycles(self, daemon, process, cycles=CYCLES):
        pauses = []
        for _ in range(cycles):
            pauses.append(self.cycle(daemon, process.pid))
            self.assertTrue(process.running(), process.stderr())
        harness.NOTES.append(f"{cycles} cycles")
        self.assertGreater(pauses[0], 0, "the agent was put in")
        self.tell_pauses(process.name(), pauses)

    def tell_pauses(self, what, pauses):
        """Reports the pauses. They depend on other load; make bench measures them without (section
        attach)."""
        told = f"{what}: stopped for {statistics.median(pauses) * 1e3:.2f} ms (median of {len(pauses)})"
        print(f"\n    {told}", flush=True)


class BusyProgram(Cycles):
    def test_first_attach_to_fresh_programs(self):
        """The agent is injected once per program; later attaches find it."""
        daemon = self.daemon(rate=1e-4)
        pauses = []
        for _ in range(FRESH):
            target = self.target("busy_threads", "busy")
            pauses.append(self.cycle(daemon, target.pid))
            self.assertEqual(0, target.exit()["errors"])
            self.assertGreater(pauses[-1], 0, "the agent was put in")
        self.tell_pauses("first attach", pauses)

    def test_same_output(self):
        target, expected = self.busy_target()
        daemon = self.daemon(rate=1e-4)
        self.cycles(daemon, target)
        self.assert_works_on(target)
        self.assert_same_output(target, expected)


class BusyServer(Cycles):
    def test_ocsigenserver_under_load(self):
        server = self.process(Ocsigenserver(self.folder))
        load = self.process(Wrk(server.url, paced=not harness.MATRIX))
        daemon = self.daemon(rate=1e-4)
        self.cycles(daemon, server, SERVER_CYCLES)
        counts = load.finish()
        self.assertGreater(counts["requests"], 1_000)
        self.assertEqual((0, ""), (counts["bad_answers"], counts["socket_errors"]))
        self.assertEqual(200, harness.http_get(server.url)[0])


class SlowKernel(E2ETest):
    """A kernel that takes long to remove probes."""

    def setUp(self):
        super().setUp()
        self.faults = faults.Faults(self.folder / "faults", harness.BUILD / "tests/libfaults.so")
        self.memprofd = self.daemon("--web.enable-control", rate=1e-4, env=self.faults.environment)

    def control(self, what, target):
        status, said = post(self.memprofd, what, pid=target.pid)
        self.assertEqual(200, status, said)

    def cycle(self, target):
        self.control("attach", target)
        self.memprofd.wait_state(target.pid, "sampling")
        self.control("detach", target)
        self.assertEqual([], altered_code(target.pid), "probes are out when the answer comes")

    def test_a_detach_is_answered_all_the_same(self):
        target = self.target("steady")
        self.cycle(target)
        with self.faults.links_that_stay():
            for _ in range(3):
                self.cycle(target)
            self.assertGreater(self.faults.get("links_waited_for"), 0)
        self.assertEqual(0, self.memprofd.stop())
        self.assert_works_on(target)


if __name__ == "__main__":
    unittest.main()
