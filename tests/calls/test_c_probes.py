# SPDX-License-Identifier: Apache-2.0
"""The native heap of programs without an agent, followed with probes at malloc and free."""

import os
import pathlib
import re
import signal
import unittest

import test_c_memory
from c_program import CProgram
from harness import NOTES, TARGETS, TARGETS5, E2ETest, eventually, settled

INTERVAL = test_c_memory.INTERVAL


def changed_code(pid, name):
    """Number of code bytes of the library that differ between the process and the file: breakpoints."""
    changed = 0
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            found = re.fullmatch(r"(\w+)-(\w+) r-xp (\w+) \S+ \d+ +(\S+)", line)
            if not found or name not in os.path.basename(found[4]):
                continue
            begin, end, offset = (int(found[i], 16) for i in (1, 2, 3))
            memory.seek(begin)
            there = memory.read(end - begin)
            with open(f"/proc/{pid}/root{found[4]}", "rb") as file:
                file.seek(offset)
                changed += sum(a != b for a, b in zip(there, file.read(end - begin)))
    return changed


class ByProbes(test_c_memory.CMemory):
    """The same program and the same expected numbers as with an agent."""

    remembers_notes = False
    views_of_all = (("report",), ("sites",))
    allocator = "libc"

    def setUp(self):
        E2ETest.setUp(self)
        self.program = self.start()
        self.memprofd = self.daemon("--pid", self.program.pid, "--mode", "observe", "--c-heap-interval", INTERVAL,
                                    "--c-heap-max-hits", 1_000_000)
        self.wait_until_followed()

    def drops_of_probes(self):
        return sum(self.drops(reason) for reason in ("c_event_lost", "c_stack_lost"))

    def test_the_program_is_not_touched_otherwise(self):
        self.assertNotIn("memprof_agent", pathlib.Path(f"/proc/{self.program.pid}/maps").read_text())
        self.assertGreater(changed_code(self.program.pid, self.allocator), 3)
        self.program.command("kinds 500")
        self.assertEqual(0, self.drops_of_probes())

    def test_functions_that_call_each_other_count_once(self):
        """glibc's realloc(NULL, n) and memalign with a small alignment call malloc; a resized block is freed at its old
        address."""
        before = self.c_bytes("memprofd_allocated_bytes_total", heap="c")
        lived = self.c_bytes()
        asked = int(self.program.command("kinds 3000"))
        resized = int(self.program.command("grow 3000"))
        settled(lambda: self.c_bytes("memprofd_allocated_bytes_total", heap="c"), "what C has allocated")
        counted = self.c_bytes("memprofd_allocated_bytes_total", heap="c") - before
        exact = asked + resized
        error = 4.5 * (exact * INTERVAL) ** 0.5
        NOTES.append(f"asked for {exact:,}, counted {counted:,.0f}")
        self.assertLess(abs(counted - exact), error + 0.02 * exact)
        self.assertLess(abs(self.c_bytes() - lived), 100_000)
        self.assertEqual(0, self.drops_of_probes())

    def test_children_are_not_counted(self):
        before = settled(lambda: self.c_bytes("memprofd_allocated_bytes_total", heap="c"), "what C has allocated")
        self.assertEqual("0", self.program.command("fork"))
        after = settled(lambda: self.c_bytes("memprofd_allocated_bytes_total", heap="c"), "what C has allocated")
        self.assertLess(after - before, 500_000, "the child takes 8 MB")

    def test_a_detach_leaves_no_breakpoint_behind(self):
        self.program.command("threads 4")
        self.memprofd.detach(self.program.pid)
        self.assertEqual(0, changed_code(self.program.pid, self.allocator))
        self.program.command("kinds 1000")

    def test_nor_does_a_memprofd_that_is_killed(self):
        self.program.command("threads 4")
        self.memprofd.stop(signal.SIGKILL)
        eventually(lambda: changed_code(self.program.pid, self.allocator) == 0, "breakpoints are gone")
        self.program.command("kinds 1000")

    def test_cycles_while_threads_and_children_come_and_go(self):
        self.program.command("threads 8")
        self.program.send(f"spin {TARGETS / 'c_memory_library.so'}")
        for _ in range(10):
            self.memprofd.detach(self.program.pid)
            self.memprofd.ctl("attach", "--pid", self.program.pid, "--c-heap", "--mode", "observe")
            self.memprofd.wait_state(self.program.pid, "sampling")
        self.memprofd.detach(self.program.pid)
        self.assertGreater(int(self.program.command("x", timeout=60)), 10_000)
        self.assertEqual(0, changed_code(self.program.pid, self.allocator))

    def test_a_program_that_kills_itself_for_system_calls_from_now_on(self):
        """Probes on returns use a system call, which seccomp filters do not block."""
        self.program.command("forbid")
        asked = int(self.program.command("leak 4000 1000"))
        self.assert_c_estimate(self.c_sites()["C_memory.Cache.remember"], "live_bytes", asked)

    def test_what_is_not_of_c_is_not_known(self):
        refused = self.memprofd.ctl("report", "--leaks", "--pid", self.program.pid, check=False)
        self.assert_one_line(refused.stderr, "observe mode")
        self.memprofd.ctl("report", "--leaks", "--pid", self.program.pid, "--heap", "c")

    test_such_a_program_is_told_of = None
    test_a_detach_leaves_no_slot_behind = None
    test_a_memprofd_that_is_killed_leaves_none_either = None
    test_cycles_while_threads_libraries_and_children_come_and_go = None
    test_nothing_else_has_it_among_its_numbers = None  # observe mode has no other numbers of live memory
    test_blocks_whose_end_was_not_seen = None  # probes see a free through any pointer


class ByProbesOfOcaml5(ByProbes):
    programs = TARGETS5


class ByProbesOfAnotherMalloc(ByProbes):
    def start(self):
        path = f"/usr/lib/x86_64-linux-gnu/{self.allocator}"
        if not os.path.exists(path):
            self.skipTest(f"no {path}")
        return self.target("c_memory", env=dict(os.environ, LD_PRELOAD=path))


for name in dir(ByProbes):
    if name.startswith("test_") and name not in ("test_a_leak_is_charged_to_its_line", "test_estimates_are_as_wrong_as_they_say",
                                                 "test_functions_that_call_each_other_count_once",
                                                 "test_a_detach_leaves_no_breakpoint_behind"):
        setattr(ByProbesOfAnotherMalloc, name, None)


class ByProbesOfJemalloc(ByProbesOfAnotherMalloc):
    allocator = "libjemalloc.so.2"


class ByProbesOfTcmalloc(ByProbesOfAnotherMalloc):
    allocator = "libtcmalloc_minimal.so.4"


class ByProbesOfMimalloc(ByProbesOfAnotherMalloc):
    allocator = "libmimalloc.so.2.0"


class Leaving(CProgram):
    """Calls of malloc that never return although their return is probed: the program survives, losses are counted."""

    def follow(self, ways):
        self.program = self.target("c_memory", env=dict(os.environ, LD_PRELOAD=TARGETS / "c_leaves.so", LEAVES=ways))
        self.memprofd = self.daemon("--pid", self.program.pid, "--mode", "observe", "--c-heap-interval", 1024,
                                    "--c-heap-max-hits", 1_000_000)

    def setUp(self):
        E2ETest.setUp(self)

    def assert_lost_and_alive(self, lost):
        before = self.allocated()
        eventually(lambda: self.drops("c_event_lost") > lost, "calls have been left", timeout=60)
        self.program.command("leak 100 1000")
        eventually(lambda: self.allocated() > before, "others are counted")
        self.memprofd.detach(self.program.pid)
        self.assertEqual(0, changed_code(self.program.pid, "c_leaves"))
        self.program.command("leak 10 1000")

    def test_for_stacks_that_lie_above(self):
        """The kernel drops a pending return at a call on a higher stack; the return would then crash the program."""
        self.follow("stacks")
        self.assert_lost_and_alive(20_000)

    def test_by_a_jump(self):
        self.follow("jumps")
        self.assert_lost_and_alive(1000)

    def test_by_the_end_of_its_thread(self):
        self.follow("ends")
        self.assert_lost_and_alive(50)


class TooMany(E2ETest):
    """Programs that call malloc more often than the limit on probe hits allows."""

    def observe(self, program, *options):
        return self.daemon("--pid", program.pid, "--mode", "observe", "--c-heap", *options)

    def message(self, memprofd, program):
        return memprofd.targets()[program.pid]["message"]

    def test_is_refused(self):
        program = self.target("c_memory")
        program.command("threads 8")
        memprofd = self.observe(program, "--c-heap-max-hits", 100)
        eventually(lambda: "the native heap is not followed" in self.message(memprofd, program), "it is told")
        self.assertRegex(self.message(memprofd, program), r"would cost \d+ us per second, but the limit is 100; .*--c-heap-max-hits")
        self.assertIn("the native heap is not followed", memprofd.stderr())
        eventually(lambda: changed_code(program.pid, "libc") == 0, "breakpoints are gone")
        self.assertEqual([], memprofd.metrics().find("memprofd_live_c_bytes", pid=program.pid))
        refused = memprofd.ctl("sites", "--pid", program.pid, "--heap", "c", "--sort", "live", "--leaks", check=False)
        self.assertNotEqual(0, refused.returncode)

    def test_is_switched_off(self):
        program = self.target("c_memory")
        memprofd = self.observe(program, "--c-heap-interval", 1024, "--c-heap-max-hits", 2000)
        eventually(lambda: "is followed by probes" in memprofd.stderr(), "it is followed")
        program.command("leak 500 1000")
        eventually(lambda: memprofd.metrics().total("memprofd_live_c_bytes", pid=program.pid) > 100_000, "it is seen")
        program.command("kinds 3000")
        eventually(lambda: "more than 2000 us in one second" in self.message(memprofd, program), "it is told")
        eventually(lambda: changed_code(program.pid, "libc") == 0, "breakpoints are gone")
        metrics = memprofd.metrics()
        self.assertEqual([], metrics.find("memprofd_live_c_bytes", pid=program.pid))
        self.assertGreater(metrics.total("memprofd_given_up_events_total", reason="session_end"), 100)
        self.memprofd_goes_on(memprofd, program)

    def memprofd_goes_on(self, memprofd, program):
        """memprofd still samples OCaml's memory, and keeps its counts of native allocations."""
        self.assertEqual("sampling", memprofd.targets()[program.pid]["state"])
        sites = memprofd.ctl_json("sites", "--pid", program.pid, "--heap", "c")["sites"]
        self.assertIn("C_memory.Cache.remember", [site["function"] for site in sites])


class Leaks(E2ETest):
    def test_of_a_real_library_at_a_low_rate(self):
        """With the default limits it reports zlib's streams by the line that leaks them."""
        program = self.target("c_leaks")
        memprofd = self.daemon("--pid", program.pid, "--mode", "observe", "--c-heap-interval", 4096)
        eventually(lambda: "is followed by probes" in memprofd.stderr(), "it is followed")
        taken = int(program.command("zlib 60"))

        def live():
            rows = memprofd.ctl_json("sites", "--pid", program.pid, "--heap", "c", "--group-by", "callstack", "--limit", "1000")
            return sum(row["live_bytes"] for row in rows["sites"]
                       if "C_leaks.open_stream" in {frame["function"] for frame in row["callstack"]})
        found = settled(live, "what lives")
        NOTES.append(f"zlib: {found:,.0f} of {taken:,}")
        self.assertLess(abs(found - taken), 4.5 * (taken * 4096) ** 0.5 + 0.1 * taken)


del ByProbesOfAnotherMalloc  # not a test case itself

if __name__ == "__main__":
    unittest.main()
