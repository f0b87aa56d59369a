# SPDX-License-Identifier: Apache-2.0
"""The native heap of programs with unusual mallocs: several, ones that call themselves, or with a thread inside."""

import os
import pathlib
import tempfile
import unittest

from c_program import INTERVAL, CProgram
from harness import BUILD, E2ETest, eventually, settled
from test_c_memory import slots_of_the_agent
from test_c_probes import changed_code

# Libraries without OCaml code.
OWN_MALLOC, LEAVES = BUILD / "targets/c_own_malloc.so", BUILD / "targets/c_leaves.so"
BY_PROBES = ("--mode", "observe", "--c-heap-max-hits", 10_000_000)


class Mallocs(CProgram):
    """The agent counts through its hooks."""

    options = ()
    malloc = "libc"  # the library that has breakpoints

    def assert_is_counted_once(self):
        """Checks the counts for all functions of malloc, for blocks that stay, and for resized ones."""
        before, lived = self.allocated(), self.c_bytes()
        exact = int(self.program.command("kinds 2000")) + int(self.program.command("grow 2000"))
        settled(self.allocated, "what C has allocated")
        self.assertLess(abs(self.allocated() - before - exact), 4.5 * (exact * INTERVAL) ** 0.5 + 0.02 * exact)
        self.assertLess(abs(self.c_bytes() - lived), 100_000)
        asked = int(self.program.command("leak 4000 1000"))
        site = self.c_sites()["C_memory.Cache.remember"]
        self.assert_c_estimate(site, "allocated_bytes", asked)
        self.assert_c_estimate(site, "live_bytes", asked)
        self.assertEqual(0, self.drops("c_event_lost") + self.drops("c_stack_lost"))


class BuiltOnItself(Mallocs):
    """Each function of this malloc calls another one of it, through slots as in a program."""

    malloc = OWN_MALLOC.name

    def start(self):
        return self.target("c_memory", folder=self.programs, env=dict(os.environ, LD_PRELOAD=OWN_MALLOC))

    def test_is_counted_once(self):
        self.assert_is_counted_once()


class BuiltOnItselfByProbes(BuiltOnItself):
    options = BY_PROBES

    def test_is_counted_once(self):
        # Waits until memprofd has seen a sampled call that calls another function.
        eventually(lambda: self.program.command("kinds 100") and self.allocated() > 20 * INTERVAL, "it is known to be")
        super().test_is_counted_once()


class LoadedForItself(Mallocs):
    """A library defines its own malloc, which neither the program nor the library calls."""

    def start(self):
        program = super().start()
        program.command(f"load {OWN_MALLOC} 0")
        return program

    def test_it_is_not_taken_for_the_programs(self):
        self.assert_is_counted_once()
        # The linker binds the library's calls at their first use; the agent checks the bindings at growing intervals.
        before = int(self.program.command(f"load {OWN_MALLOC} 1"))
        for _ in range(16):
            self.program.command("minor")
        asked = before + int(self.program.command(f"load {OWN_MALLOC} 3000"))
        self.assert_c_estimate(self.c_sites()["C_memory.remember_in_library"], "live_bytes", asked)


class LoadedForItselfByProbes(LoadedForItself):
    options = BY_PROBES

    def test_it_has_no_probe(self):
        self.assertGreater(changed_code(self.program.pid, "libc.so"), 3)
        self.assertEqual(0, changed_code(self.program.pid, OWN_MALLOC.name))


class InTheMiddle(CProgram):
    """A thread is inside malloc while memprofd detaches and attaches again."""

    def setUp(self):
        E2ETest.setUp(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stay, self.go = (pathlib.Path(folder.name) / name for name in ("stay", "go"))
        self.program = self.target("c_memory", env=dict(
            os.environ, LD_PRELOAD=LEAVES, LEAVES="stays", LEAVES_STAY=str(self.stay), LEAVES_GO=str(self.go)))

    def of_the_thread_and_its_handler(self):
        """Number of their blocks: blocks are far larger than the interval, so each has one sample."""
        return self.drops("c_event_lost") + self.allocated() / 20_000

    def test_its_wait_is_known_to_the_next_session(self):
        """If only the kernel knew of the pending return, a call on a stack at a higher address would cancel it, and the
        program would crash."""
        self.memprofd = self.daemon("--pid", self.program.pid, "--mode", "observe", "--c-heap-interval", 1024,
                                    "--c-heap-max-hits", 10_000_000)
        eventually(lambda: self.allocated() > 1_000_000, "the handler is followed")
        self.stay.touch()
        eventually(lambda: self.drops("c_event_lost") > 50, "the thread stays in malloc, and its return is waited for")
        self.memprofd.detach(self.program.pid)
        self.memprofd.ctl("attach", "--pid", self.program.pid, "--mode", "observe", "--c-heap-interval", "1KiB")
        eventually(lambda: self.memprofd.stderr().count("is followed by probes") == 2, "it is followed again")
        before = self.of_the_thread_and_its_handler()
        eventually(lambda: self.of_the_thread_and_its_handler() > before + 100, "the handler has taken blocks")
        lost = self.drops("c_event_lost")
        self.go.touch()
        before = self.allocated()
        eventually(lambda: self.allocated() > before + 1_000_000, "the thread has come back from malloc")
        self.assertEqual("10000", self.program.command("leak 10 1000"))
        self.assertGreater(lost, 100)
        self.memprofd.detach(self.program.pid)
        self.assertEqual(0, changed_code(self.program.pid, "c_leaves"))
        self.program.command("leak 10 1000")


class Hostile(CProgram):
    """Programs with unusual calls of malloc (tests/hostile/attacks/mallocs.c) behave as without memprofd."""

    def setUp(self):
        E2ETest.setUp(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.go = pathlib.Path(folder.name) / "go"

    def attacked(self, attack):
        return self.target("c_memory", env=dict(os.environ, LD_PRELOAD=BUILD / "tests/hostile/libhostile.so", HOSTILE=attack,
                                                HOSTILE_GO=str(self.go)))

    def follow(self, attack, *meanwhile):
        self.program = self.attacked(attack)
        self.memprofd = self.daemon("--pid", self.program.pid, "--c-heap-interval", INTERVAL, *self.options)
        eventually(lambda: [self.program.command(line) for line in ("minor", *meanwhile)] and self.allocated() > 0,
                   "C's memory is followed")

    def let_go(self):
        self.memprofd.detach(self.program.pid)
        self.program.command("minor")
        self.assertEqual([], slots_of_the_agent(self.program.pid, BUILD / "libmemprof_agent.so"))
        self.assertEqual(0, changed_code(self.program.pid, "libc.so"))

    def test_threads_that_resize_and_free_blocks_of_others(self):
        """64 blocks of at most 50,000 bytes live; every missed free would add another one."""
        self.follow("trade-blocks")
        eventually(lambda: self.allocated() > 300_000_000, "many are taken")
        self.assertLess(self.c_bytes(), 64 * 50_000 + 3_000_000)
        self.let_go()

    def test_no_memory_at_all(self):
        """Failed allocations are not counted, and the frees of successful ones are seen."""
        self.follow("exhaust")
        eventually(lambda: self.allocated() > 20 << 30, "all was taken again and again")
        self.assertLess(self.c_bytes(), 2 << 30)
        self.let_go()

    def test_pointers_that_are_not_blocks(self):
        for kind in range(4):
            self.go.unlink(missing_ok=True)
            alone = self.attacked(f"free-wild {kind}")
            self.follow(f"free-wild {kind}", "kinds 100")
            self.go.touch()
            self.assertEqual((alone.wait(), alone.stderr()), (self.program.wait(), self.program.stderr()))
            self.assertNotEqual(98, alone.wait())
            self.memprofd.stop()


class HostileByProbes(Hostile):
    options = BY_PROBES


if __name__ == "__main__":
    unittest.main()
