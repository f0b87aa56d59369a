# SPDX-License-Identifier: Apache-2.0
"""A program that produces more events than memprofd may read, at any rate (--cpu.max)."""

import unittest

from harness import eventually
from hostile_case import StoppedAtTheEnd, stage

BOUND = 0.1  # of a processor
PATIENCE = 300  # for a busy machine


class Floods(StoppedAtTheEnd):
    OPTIONS = ("--cpu.max", f"{BOUND:.0%}")
    RATE = 1e-4  # at 1e-3 it exceeds its share of the bound on a slow machine

    def of_target(self, name, pid):
        return self.memprofd.metrics().value(name, pid=pid)

    def test_it_is_read_slowly_and_others_are_not(self):
        target = self.guest(env={"HOSTILE_AGENT": "flood", "LD_PRELOAD": f"{stage()}/libfake_agent.so"})
        rate = self.of_target("memprofd_sampling_rate", self.bystander.pid)
        self.assert_answered(self.attach_in_background(target.pid))
        taken = lambda: self.of_target("memprofd_target_cpu_ratio", target.pid)
        eventually(lambda: taken() > BOUND, "it takes too much", timeout=PATIENCE)
        eventually(lambda: f"pid {target.pid}: its events took " in self.memprofd.said(), "it is told", timeout=PATIENCE)
        # If the target is slow for a while, all its events are read and the limit ends; it soon
        # starts again.
        slow = "read slowly, with losses, as memprofd may take no more CPU (--cpu.max)"
        eventually(lambda: taken() < BOUND and slow in self.memprofd.targets()[target.pid]["message"],
                   "it takes less", timeout=PATIENCE)
        lost = lambda: sum(drop["count"] for drop in self.memprofd.targets()[target.pid]["drops"]
                           if drop["reason"] == "batch_ring_full")
        before = lost()
        eventually(lambda: lost() > before, "what is lost is counted")
        self.assertEqual(rate, self.of_target("memprofd_sampling_rate", self.bystander.pid))
        self.assertEqual(0, self.of_target("memprofd_sampling_rate_held", self.bystander.pid))
        self.assert_others_are_cared_for()
        self.let_go(target)
        self.assert_works_on(target)
        self.assert_nothing_left(target)
        self.assert_memprofd_is_well()


if __name__ == "__main__":
    unittest.main()
