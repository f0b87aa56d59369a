# SPDX-License-Identifier: Apache-2.0
"""A program that resizes its minor heap without end is woken, attached to and detached; it never
notices."""

import unittest

import harness
from harness import TARGETS, TARGETS5, E2ETest, eventually

WAKES = 200 if harness.MATRIX else 10  # the program detects about half of them
CYCLES = 50 if harness.MATRIX else 3


class MovingMinorHeap(E2ETest):
    def attach_in_vain(self, daemon, target):
        """No thread can be borrowed, so the program is woken repeatedly."""
        daemon.attach(target.pid)
        info = daemon.targets()[target.pid]
        self.assertEqual("waiting", info["state"])
        self.assertIn("SIGURG", info["message"])
        daemon.detach(target.pid)

    def check_wakes(self, daemon, target):
        target.command("block")

        def woken():
            if not target.running():
                raise RuntimeError(f"it ended with {target.popen.returncode}: {target.stderr()}")
            self.attach_in_vain(daemon, target)
            return target.command("stat")["woken"] >= WAKES
        eventually(woken, "it is woken")
        target.command("unblock")

    def check_cycle(self, daemon, target):
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling")
        eventually(lambda: daemon.sites(target.pid), "samples")
        daemon.set_rate(target.pid, 1e-3)
        self.assert_works_on(target)
        daemon.detach(target.pid)
        self.assert_works_on(target)

    def check(self, folder):
        """The program checks its allocation limit, and ends if that is below its minor heap."""
        target = self.target("minor_heaps", folder=folder)
        daemon = self.daemon(rate=1e-4)
        self.check_wakes(daemon, target)
        for _ in range(CYCLES):
            self.check_cycle(daemon, target)
        self.assertEqual(0, target.exit()["errors"])

    def test_ocaml4(self):
        self.check(TARGETS)

    def test_ocaml5(self):
        self.check(TARGETS5)


if __name__ == "__main__":
    unittest.main()
