# SPDX-License-Identifier: Apache-2.0
"""Sessions with agent capture in OCaml 4: the reported callstacks, and the agent's writes to runtime variables.

    MEMPROFD_STACKS=1000000 tests/run.py agent/test_own_walk     # 1,000,000 callstacks with each OCaml

The expected callstacks come from an agent that also has the runtime record whole ones (tests/e2e/truth).
"""

import json
import os
import struct
import unittest

import agent_process as agent
from agent_process import AGENT, BUILD, eventually, symbol
from walked_program import (ALLOCATOR, BY_AGENT, BY_RUNTIME, CROWDED, DIFFERED, OK, STACKS, TRUTH, Program, Witnessed,
                            a_moment)

MARSHAL = 1
RELEASES = ("bullseye", "4.12", "4.14")


class EqualsTheRuntimes(unittest.TestCase):
    def late(self, *lines, folder="targets", rate=1e-2):
        """Samples a program that gets these commands in turn; returns the program."""
        program = Witnessed(self, "late_stacks", folder=folder, rate=rate)
        lines = list(lines)

        def work():
            lines.append(lines.pop(0))
            self.answer = json.loads(program.ask(lines[-1]))
        program.collect(STACKS, work)
        self.assertEqual((BY_AGENT, OK), (program.captured_by(), program.walk()[0]))
        return program

    def test_recursion_exceptions_callbacks_threads_signals_unmarshalling(self):
        program = Witnessed(self, "stacks", "0")
        program.collect(STACKS, a_moment)
        self.assertEqual((BY_AGENT, OK), (program.captured_by(), program.walk()[0]))
        eventually(lambda: program.samples.update(program.look()) or program.longest() > 1000, "a deep stack", timeout=60)
        program.compare(self)
        self.assertGreater(sum(sample.source == MARSHAL for sample in program.samples.values()), STACKS / 1000)
        self.assertGreater(len({sample.tid for sample in program.samples.values()}), 3)

    def test_late_samples_and_compactions(self):
        """A compaction moves the blocks by which the agent finds late samples."""
        program = self.late("go 20", "compact")
        self.assertEqual(0, program.compare(self))
        self.assertGreater(self.answer["compactions"], 3)

    def test_late_samples_of_threads(self):
        program = self.late("thread", "go 20", "minor", "go 20", "compact", "go 20")
        self.assertEqual(0, program.compare(self))

    def test_another_allocation_policy(self):
        """Some late samples are then missed, and have only their innermost frame."""
        program = self.late("policy 0", "go 20", "policy 2", "go 20", "compact", "policy 1", "go 20")
        self.assertLess(program.compare(self), STACKS / 20)

    def test_other_versions_that_have_been_built(self):
        for release in RELEASES:
            if os.path.exists(os.path.join(BUILD, f"targets-{release}", "late_stacks")):
                with self.subTest(release):
                    program = self.late("go 20", "compact", folder=f"targets-{release}")
                    self.assertEqual(0, program.compare(self))
                    program = Witnessed(self, "stacks", "0", folder=f"targets-{release}")
                    program.collect(STACKS, a_moment)
                    program.compare(self)

    def test_plugins_that_are_loaded_meanwhile(self):
        program = Witnessed(self, "plugin_host", folder="targets/plugins")
        for name in ("early", "late"):
            path = os.path.abspath(os.path.join(BUILD, "targets/plugins", f"plugin_{name}.cmxs"))
            program.ask(f"load {path}")
            program.collect(len(program.samples) + STACKS // 10, lambda: program.ask("go 2000"))
        self.assertEqual(0, program.compare(self))

    def test_minor_heaps_that_move(self):
        program = Witnessed(self, "minor_heaps", rate=1e-1)
        program.collect(STACKS // 10, lambda: program.ask("stat"))
        self.assertEqual(0, program.compare(self))

    def test_code_without_debug_information(self):
        program = Witnessed(self, "nog_target")
        program.collect(STACKS // 10, lambda: program.ask("go 1"))
        self.assertEqual(0, program.compare(self))


class Undone(unittest.TestCase):
    """The agent's values are in the runtime's variables during a session only, however it ends."""

    def start(self, **options):
        self.program = Program(self, "late_stacks", **options)
        self.before = self.program.written()
        return self.program

    def assert_ours(self, program):
        """The variables contain the agent's functions; they would not during a collection, but none runs here."""
        for ours, theirs in zip(program.written(), self.before):
            self.assertNotEqual(ours, theirs)
            self.assertLess(program.base, ours)
            self.assertLess(ours, program.base + (1 << 24))
        self.assertEqual((BY_AGENT, (OK, 0)), (program.captured_by(), program.walk()))

    def until_undone(self, program, wanted=None):
        program.work_until(lambda: program.written() == (wanted or self.before), "all is as it was")

    def test_when_the_watcher_leaves(self):
        program = self.start()
        for generation in (1, 2):
            program.begin(generation)
            self.assert_ours(program)
            program.watch(False)
            self.until_undone(program)
        self.assertEqual(agent.IDLE, program.head()["state"])
        self.assertEqual(0, program.close()[0])

    def test_when_the_lease_runs_out(self):
        program = self.start()
        program.begin(lease=1)
        self.until_undone(program)

    def test_when_another_capture_is_wanted(self):
        program = self.start()
        program.begin()
        program.write(program.control + agent.REQUESTED_CAPTURE, struct.pack("<I", BY_RUNTIME))
        program.begin(2)
        self.assertEqual((BY_RUNTIME, self.before), (program.captured_by(), program.written()))

    def test_when_the_program_stops_memprof(self):
        program = self.start()
        program.begin()
        program.ask("stop")
        self.until_undone(program)
        self.assertEqual(agent.STOPPED, program.head()["state"])

    def test_a_policy_that_the_program_has_chosen_meanwhile_stays(self):
        program = self.start()
        chosen = {}
        for policy in (0, 1, 2):
            program.ask(f"policy {policy}")
            chosen[policy] = program.written()[0]
        self.before = program.written()
        self.assertEqual(3, len(set(chosen.values())))
        program.begin()
        for policy in (1, 0):
            program.ask(f"policy {policy}")
            program.ask("minor")
            self.assertNotIn(program.written()[0], chosen.values())
        program.watch(False)
        self.until_undone(program, (chosen[0], self.before[1]))

    def test_in_a_forked_child(self):
        program = self.start()
        program.begin()
        with program.forked(json.loads(program.ask("fork"))["pid"]) as child:
            eventually(lambda: child.written() == self.before, "all is as it was in the child")
        program.ask("go 20")
        self.assert_ours(program)

    def test_another_program_in_its_place(self):
        program = self.start()
        program.begin()
        program.command(f"exec {os.path.abspath(os.path.join(BUILD, 'targets/known_alloc'))}")
        self.assertTrue(program.answer().startswith("ready"))
        self.assertIn('"rounds":', program.ask("go 1"))

    def test_where_the_allocator_is_not_the_runtimes(self):
        """The agent does not overwrite unknown values; the runtime captures instead."""
        program = self.start()
        program.write(program.base + symbol(AGENT, "runtime_code"), bytes(16))
        program.begin()
        self.assertEqual((BY_RUNTIME, (ALLOCATOR, 0)), (program.captured_by(), program.walk()))
        self.assertEqual(self.before, program.written())


class FoundWrong(unittest.TestCase):
    """After an error only the runtime's innermost frames are reported, as truncated, until the runtime captures."""

    def test_a_program_that_allocates_many_blocks_of_one_word_by_c(self):
        """Each of these blocks costs a walk."""
        program = Program(self, "late_stacks", rate=1e-3)
        program.begin()
        program.ask("words 4000")
        self.assertEqual(OK, program.walk()[0])
        program.ask("words 4000")
        state, cut = program.walk()
        self.assertEqual(CROWDED, state)
        program.work_until(lambda: program.walk()[1] > cut + 10, "samples that are cut")

    def test_a_walk_that_the_runtimes_innermost_frame_does_not_agree_with(self):
        program = Witnessed(self, "late_stacks")
        program.work_until(lambda: program.head()["generation"] == 1, "a session")
        program.write(program.base + symbol(TRUTH, "state_offsets") + 4, struct.pack("<I", 8))
        program.work_until(lambda: program.walk()[0] != OK, "it has noticed")
        self.assertEqual(DIFFERED, program.walk()[0])
        cut = program.walk()[1]
        program.collect(1000, lambda: program.ask("go 20"))
        self.assertGreater(program.walk()[1], cut)
        self.assertGreater(program.compare(self), 0)


if __name__ == "__main__":
    unittest.main()
