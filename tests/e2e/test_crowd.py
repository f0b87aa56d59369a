# SPDX-License-Identifier: Apache-2.0
"""OCaml 5 with more domains than agent buffers: all domains are sampled, and nothing is lost."""

import harness
from harness import TARGETS5, E2ETest, eventually

DOMAINS = 140  # besides the main one
BUFFERS = 128
PATIENCE = 120  # seconds; each collection waits for all domains


class Crowd(E2ETest):
    RATE = 1e-2

    def crowd(self):
        return self.target("crowd", folder=TARGETS5, env={"OCAMLRUNPARAM": "d=256"})

    def sampled(self, target, capture):
        daemon = self.daemon("--pid", target.pid, "--capture", capture, rate=self.RATE)
        eventually(lambda: target.command("go 1", PATIENCE) and daemon.targets()[target.pid]["state"] == "sampling", "sampling",
                   timeout=PATIENCE)
        return daemon

    def estimate(self, daemon, target):
        return harness.sum_sites(daemon.sites(target.pid), "site_triple")["allocated_bytes"] / 8

    def assert_estimate(self, daemon, target, command):
        words, estimate = target.command("go 1", PATIENCE)["words"], self.estimate(daemon, target)
        grown = target.command(command, PATIENCE)["words"] - words
        error = (grown / self.RATE) ** 0.5
        eventually(lambda: abs(self.estimate(daemon, target) - estimate - grown) < 6 * error, "the right estimate")
        self.assertGreater(grown, 100 * error)

    def assert_all_dies(self, daemon, target):
        def kept():
            return harness.sum_sites(daemon.sites(target.pid), "site_kept")["live_bytes"]
        self.assertGreater(kept(), 0)
        target.command("drop", PATIENCE)
        # Each domain reports its own blocks when it runs.
        eventually(lambda: target.command("go 1", PATIENCE) and kept() == 0, "nothing is live any longer",
                   timeout=PATIENCE)

    def assert_nothing_lost(self, daemon, target):
        """Nothing is lost. The walk finds the outer frames, so losses of frames are allowed."""
        drops = {drop["reason"]: drop["count"] for drop in daemon.targets()[target.pid]["drops"]}
        # Deaths on 5.3 of blocks that another domain may have promoted are counted.
        self.assertEqual(set(), set(drops) - {"broken_stack", "callstack_moved", "uncertain_death"}, drops)

    def check(self, capture):
        target = self.crowd()
        self.assertEqual(1 + DOMAINS // 2, target.command(f"spawn {DOMAINS // 2}", PATIENCE)["domains"])
        daemon = self.sampled(target, capture)
        target.command(f"spawn {DOMAINS - DOMAINS // 2}", PATIENCE)  # these inherit the main domain's profile
        self.assertGreater(target.command("go 1", PATIENCE)["domains"], BUFFERS)
        # First all domains; then few that repeatedly share a buffer.
        self.assert_estimate(daemon, target, "go 2000")
        self.assert_estimate(daemon, target, "few 200000")
        self.assert_all_dies(daemon, target)
        self.assert_nothing_lost(daemon, target)
        target.exit()

    def test_runtime_capture(self):
        self.check("runtime")

    def test_kernel_capture(self):
        self.check("kernel")


if __name__ == "__main__":
    import unittest
    unittest.main()
