# SPDX-License-Identifier: Apache-2.0
"""The surroundings of a program change during an attach: its file is deleted, a library shrinks, it
is frozen."""

import os
import shutil
import unittest

from containers import ControlGroup
from harness import eventually, undisturbed_output
from hostile_case import ATTACKER, StoppedAtTheEnd, stage

MOMENTS = ("at-once", "go+30000", "agent")


class Files(StoppedAtTheEnd):
    def copy(self, folder, name):
        shutil.copy(stage() / name, folder / name)
        os.chown(folder / name, ATTACKER, ATTACKER)
        return folder / name

    def check(self, target):
        attach = self.attach_in_background(target.pid)
        self.go()
        self.assert_answered(attach)
        eventually(lambda: self.memprofd.state(target.pid) in ("sampling", "failed", None), "the attach is over")
        self.let_go(target)
        self.assert_nothing_left()
        self.assert_same_output(target, undisturbed_output())
        self.go_file.unlink()
        self.processes_end()

    def test_its_program_is_unlinked_or_replaced(self):
        for how in ("unlink", "replace"):
            for moment in MOMENTS:
                with self.subTest(how=how, moment=moment):
                    folder = self.own_folder(f"{how}-{moment}")
                    program = self.copy(folder, "busy_threads")
                    self.copy(folder, "canary").rename(folder / "busy_threads.new")
                    self.check(self.guest(folder=folder, attack=f"file {how} {program} {moment}"))
        self.assert_memprofd_is_well()

    def test_a_library_that_it_has_mapped_shrinks(self):
        for moment in MOMENTS:
            with self.subTest(moment=moment):
                folder = self.own_folder(moment)
                library = self.copy(folder, "libhostile.so")
                self.check(self.guest(attack=f"map-file {library} 3;file truncate {library} {moment}"))
        self.assert_memprofd_is_well()


class Freezer(ControlGroup):
    """The test freezes its processes."""

    def __init__(self):
        super().__init__("freezer")

    def set(self, frozen):
        if self.old:
            (self.folder / "freezer.state").write_text("FROZEN" if frozen else "THAWED")
        else:
            (self.folder / "cgroup.freeze").write_text(str(int(frozen)))

    def remove(self):
        self.set(False)
        super().remove()


class Frozen(StoppedAtTheEnd):
    def frozen(self, target):
        freezer = Freezer()
        self.addCleanup(freezer.remove)
        self.addCleanup(target.kill)
        self.addCleanup(freezer.set, False)
        freezer.put(target.pid)
        return freezer

    def test_before_the_attach(self):
        target = self.guest()
        freezer = self.frozen(target)
        freezer.set(True)
        attach = self.attach_in_background(target.pid)
        self.assert_others_are_cared_for()
        self.assert_answered(attach)
        self.assertNotEqual("sampling", self.memprofd.state(target.pid))
        freezer.set(False)
        eventually(lambda: self.memprofd.state(target.pid) in ("sampling", "failed", None), "the attach is over")
        self.let_go(target)
        self.assert_same_output(target, undisturbed_output())

    def test_in_the_middle_and_while_sampled(self):
        target = self.guest()
        freezer = self.frozen(target)
        for attempt in range(6):
            attach = self.attach_in_background(target.pid)
            if attempt % 2:
                self.memprofd.wait_state(target.pid, "sampling")
            freezer.set(True)
            self.assert_others_are_cared_for()
            freezer.set(False)
            self.assert_answered(attach)
            eventually(lambda: self.memprofd.state(target.pid) in ("sampling", "failed"), "the attach is over")
            self.let_go(target)
        self.assert_nothing_left(target)
        self.assert_same_output(target, undisturbed_output())
        self.assert_memprofd_is_well()


if __name__ == "__main__":
    unittest.main()
