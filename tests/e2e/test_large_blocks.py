# SPDX-License-Identifier: Apache-2.0
"""Large blocks count with their own sizes: what is live of them has hardly an error."""

import unittest

from harness import TARGETS, TARGETS5, E2ETest, eventually

MIB = 1 << 20


class LargeBlocks(E2ETest):
    def site(self, daemon, pid):
        sites = [s for s in daemon.sites(pid) if s["function"].endswith("large_block")]
        return sites[0] if sites else {"live_objects": 0}

    def check(self, folder, rate):
        program = self.target("large_blocks", folder=folder)
        daemon = self.daemon(rate=rate)
        daemon.attach(program.pid)
        daemon.wait_state(program.pid, "sampling")
        program.command(f"hold 12 {16 * MIB}")
        eventually(lambda: round(self.site(daemon, program.pid)["live_objects"], 3) == 12, "all are seen")
        program.command("drop 2")
        eventually(lambda: round(self.site(daemon, program.pid)["live_objects"], 3) == 10, "two are gone")
        site = self.site(daemon, program.pid)
        self.assertAlmostEqual(1, site["live_bytes"] / (160 * MIB), delta=0.001)
        self.assertLess(site["live_bytes_stderr"], 0.001 * site["live_bytes"])
        self.assertAlmostEqual(1, site["allocated_bytes"] / (192 * MIB), delta=0.001)
        in_range = daemon.ctl_json("sites", "--pid", program.pid, "--last", "10m")["sites"][0]
        self.assertAlmostEqual(1, in_range["live_bytes"] / (160 * MIB), delta=0.001)

    def test_ocaml4(self):
        self.check(TARGETS, 1e-4)

    def test_ocaml5(self):
        self.check(TARGETS5, 1e-4)

    def test_at_a_low_rate(self):
        self.check(TARGETS, 1e-5)


if __name__ == "__main__":
    unittest.main()
