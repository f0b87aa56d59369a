# SPDX-License-Identifier: Apache-2.0
"""Pages that never arrive: no read of a target waits without end."""

import sys
import unittest

from harness import UNAVAILABLE, Process, eventually, proc_status
from hostile_case import ANSWERS, ROOT, StoppedAtTheEnd, stage

FUSE = ROOT / "tests/hostile/fuse_hang.py"


class HungPages(StoppedAtTheEnd):
    """A file whose server does not answer, at an address that memprofd has to read."""

    def served_page(self):
        folder = self.own_folder("page")
        self.server = self.process(Process([sys.executable, FUSE, folder]))
        self.assertRegex(self.server.read_line(), "^ready ")
        return folder / "page"

    def assert_nobody_waits(self, target):
        attach = self.attach_in_background(target.pid)
        self.assertRegex(self.server.read_line(), "^read ")
        for _ in range(3):
            self.assert_others_are_cared_for()
        self.assert_answered(attach, codes=(UNAVAILABLE,))
        other = self.guest("known_alloc")
        self.memprofd.attach(other.pid)
        self.sample_on_command(self.memprofd, other)
        self.memprofd.detach(other.pid)
        self.server.send("answer")
        target.kill()
        self.assert_nothing_left()
        self.assert_memprofd_is_well()

    def test_the_control_block(self):
        page = self.served_page()
        self.assert_nobody_waits(self.guest(env={"HOSTILE_AGENT": f"file {page}",
                                                 "LD_PRELOAD": f"{stage()}/libfake_agent.so"}))

    def test_the_list_of_loaded_files(self):
        """The program's thread continues, although memprofd searches the agent in a page that never
        arrives."""
        page = self.served_page()
        target = self.guest("known_alloc", attack=f"hang-linker {page}")
        threads = int(proc_status(target.pid, "Threads"))
        attach = self.attach_in_background(target.pid)
        eventually(lambda: self.memprofd.state(target.pid) == "waiting", "it is waited for")
        self.go()
        eventually(lambda: int(proc_status(target.pid, "Threads")) < threads, "the list has another end")
        # A thread that was caught too late must pass again.
        eventually(lambda: target.command("minor") and not self.server.lines.empty(), "memprofd looks for the agent")
        self.assertRegex(self.server.read_line(), "^read ")
        self.assert_others_are_cared_for()
        self.memprofd.detach(target.pid, check=False)
        self.assert_answered(attach, codes=ANSWERS | {UNAVAILABLE})
        self.server.send("answer")
        target.kill()
        self.assert_nothing_left()
        self.assert_memprofd_is_well()


class HungSlots(HungPages):
    """The same page where the agent reads slots of malloc: here the program hangs."""
    OPTIONS = ("--c-heap-interval", "4096")
    test_the_control_block = test_the_list_of_loaded_files = None

    def test_slots_of_a_file(self):
        page = self.served_page()
        target = self.guest(attack=f"hang-slots {stage()}/c_memory_library.so {page}")
        attach = self.attach_in_background(target.pid)
        self.assertRegex(self.server.read_line(), "^read ")
        for _ in range(3):
            self.assert_others_are_cared_for()
        self.assert_answered(attach)
        self.let_go(target)
        for _ in range(3):
            self.assert_others_are_cared_for()
        self.server.send("answer")
        target.kill()
        self.assert_nothing_left()
        self.assert_memprofd_is_well()


if __name__ == "__main__":
    unittest.main()
