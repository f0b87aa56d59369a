# SPDX-License-Identifier: Apache-2.0
"""Programs that exec during an attach: the new program is never touched.

They exec tests/hostile/canary.c, which watches its code at each offset of a probe in the previous
program, and memory at each address that it used.
"""

import contextlib
import random
import unittest

import harness
from harness import eventually
from hostile_case import TRIES, StoppedAtTheEnd, stage

ROUNDS = TRIES or 16
# An attach takes some tenths of a second, including memprofctl's start.
LONGEST_US = 400_000


class Exec(StoppedAtTheEnd):
    def canary_of(self, target):
        """Lines of the program that the target has become."""
        words = target.read_line().split()
        self.assertEqual(["canary", str(target.pid)], words)

    def assert_unharmed(self, target):
        """Nothing changed from its start until memprofd had detached from its predecessor."""
        eventually(lambda: self.memprofd.state(target.pid) not in ("sampling", "waiting"), "memprofd has noticed")
        with contextlib.suppress(BrokenPipeError):  # it ends at once when it was changed
            target.send("exit")
        self.assertRegex(target.read_line(), "^unharmed ")
        self.assertEqual(0, target.wait())

    def becomes_another(self, moment, *options, attached=False):
        target = self.guest(attack=f"exec {stage()}/canary {moment}")
        if attached:
            self.memprofd.attach(target.pid)
            self.memprofd.wait_state(target.pid, "sampling")
        else:
            attach = self.attach_in_background(target.pid, *options)
        self.go()
        self.canary_of(target)
        if not attached:
            self.assert_answered(attach)
        self.assert_unharmed(target)
        self.go_file.unlink()
        self.processes_end()

    def test_at_random_moments(self):
        for seed in range(ROUNDS):
            with self.subTest(seed=seed):
                delay = random.Random(seed).randrange(LONGEST_US)
                self.becomes_another(f"go+{delay}")
        harness.NOTES.append(f"{ROUNDS} execs")
        self.assert_nothing_left()
        self.assert_memprofd_is_well()

    def is_met(self, target):
        """True if the attack hit its moment, which lasts some milliseconds; otherwise the target is
        sampled."""
        eventually(lambda: not target.lines.empty() or self.samples(target.pid) > 0, "it is sampled or another program")
        if target.lines.empty():
            self.processes_end()
        return target.running()

    def test_while_a_thread_is_held(self):
        met = 0
        for _ in range(8):
            target = self.guest(attack=f"exec {stage()}/canary seized")
            attach = self.attach_in_background(target.pid)
            if self.is_met(target):
                self.canary_of(target)
                self.assert_answered(attach)
                self.assert_unharmed(target)
                met += 1
        self.assertGreater(met, 0)
        self.assert_memprofd_is_well()

    def test_as_soon_as_its_code_is_changed(self):
        self.becomes_another("breakpoint")
        self.assert_memprofd_is_well()

    def test_as_soon_as_the_agent_is_there(self):
        self.becomes_another("agent")
        self.assert_memprofd_is_well()

    def test_while_it_is_sampled(self):
        for _ in range(4):
            self.becomes_another("go", attached=True)
        self.assert_nothing_left()
        self.assert_memprofd_is_well()

    def test_setuid_programs(self):
        """A program that runs with root's rights is not part of an attach to its predecessor."""
        folder = self.folder / "setuid"
        folder.mkdir()
        folder.chmod(0o755)
        program = folder / "canary"
        program.write_bytes((stage() / "canary").read_bytes())
        program.chmod(0o4755)
        for moment in ("breakpoint", "agent", "go+60000"):
            with self.subTest(moment):
                target = self.guest(attack=f"exec {program} {moment}", new_privileges=True)
                attach = self.attach_in_background(target.pid)
                self.go()
                self.canary_of(target)
                self.assertEqual("0", harness.proc_status(target.pid, "Uid").split()[1])
                self.assert_answered(attach)
                self.assert_unharmed(target)
                self.go_file.unlink()
        self.assert_memprofd_is_well()


class FollowedChildren(StoppedAtTheEnd):
    """Children are inspected shortly after their fork, when slow ones call exec."""

    OPTIONS = ("--follow-forks",)
    CHILDREN = max(TRIES // 10, 12)

    def test_children_that_become_another_program(self):
        parent = self.guest("forks", attack=f"exec-child {stage()}/canary {self.CHILDREN}")
        self.memprofd.attach(parent.pid)
        self.memprofd.wait_state(parent.pid, "sampling")
        self.go()
        said = [parent.read_line() for _ in range(2 * self.CHILDREN)]
        self.assertEqual(self.CHILDREN, sum(line.startswith("canary ") for line in said), said)
        self.assertEqual(self.CHILDREN, sum(line.startswith("unharmed ") for line in said), said)
        eventually(lambda: self.memprofd.state(parent.pid) == "sampling", "the parent is sampled on")
        self.memprofd.detach(parent.pid)
        parent.exit()
        self.assert_nothing_left()
        self.assert_memprofd_is_well()


if __name__ == "__main__":
    unittest.main()
