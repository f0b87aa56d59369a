# SPDX-License-Identifier: Apache-2.0
"""Lying agents (tests/hostile/fake_agent.c): memprofd trusts nothing that it reads of a target."""

import unittest

from harness import eventually
from hostile_case import StoppedAtTheEnd, stage

# Kinds of lies, and the drop reason that memprofd reports.
KINDS = {"counts": "batch_bad_count", "packed": "bad_record", "tails": "", "control": "", "restarts": "",
         "pointers": "", "unmapped": "batch_unreadable"}


class Liars(StoppedAtTheEnd):
    def lied_to(self, kind):
        target = self.guest(env={"HOSTILE_AGENT": kind, "LD_PRELOAD": f"{stage()}/libfake_agent.so"})
        attach = self.attach_in_background(target.pid)
        self.assert_answered(attach)
        # The lies last while the other program takes some honest samples.
        before = self.samples(self.bystander.pid)
        eventually(lambda: self.samples(self.bystander.pid) > before + 3_000, "the other program is sampled on")
        for question in ("targets", "sites", "report"):
            told = self.memprofd.ctl(question, *(("--pid", target.pid) if question != "targets" else ()), check=False)
            self.assertRegex(told.stdout + told.stderr, r"\A[\n\x20-\x7e\u0080-\U0010ffff]*\Z")
        self.assertNotIn("kernel", self.memprofd.targets()[target.pid]["message"])
        if KINDS[kind]:
            eventually(lambda: KINDS[kind] in {drop["reason"] for drop in self.memprofd.targets()[target.pid]["drops"]},
                       f"{KINDS[kind]} is told")
        self.let_go(target)
        self.assert_works_on(target)
        self.assert_nothing_left(target)
        self.assert_memprofd_is_well()


def test_of(kind):
    return lambda self: self.lied_to(kind)


for kind in KINDS:
    setattr(Liars, f"test_{kind}", test_of(kind))


if __name__ == "__main__":
    unittest.main()
