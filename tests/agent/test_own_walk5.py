# SPDX-License-Identifier: Apache-2.0
"""Sessions with agent capture in OCaml 5: the reported callstacks, and the agent's writes to runtime variables.

    make targets-forky targets-experimental                      # OCaml 5.4 and 5.5 too
    MEMPROFD_STACKS=1000000 tests/run.py agent/test_own_walk5    # 1,000,000 callstacks in each program

The expected callstacks come from an agent that also has the runtime record whole ones (tests/e2e/truth). The
shipped agent has the runtime record one frame of each walked sample; LosesNoFrames checks that no other sample
loses frames by this.
"""

import json
import os
import struct
import unittest

import agent_process as agent
from agent_process import AGENT, BUILD, eventually, symbol
from runtime_words import IN_USE, WALK_ASKS, WHOLE, is_undone
from walked_program import (BY_AGENT, BY_RUNTIME, DIFFERED, OK, STACKS, UNKNOWN_RUNTIME, Program, Witnessed, a_moment)

RELEASES = [release for release in ("trixie", "forky", "experimental")
            if release == "trixie" or os.path.exists(os.path.join(BUILD, f"targets-{release}", "fibers"))]
# MEMPROFD_TARGETS may name one release: the matrix tests each of them separately.
ONLY = os.path.basename(os.environ.get("MEMPROFD_TARGETS", "")).removeprefix("targets-")
RELEASES = [ONLY] if ONLY in RELEASES else RELEASES


def again(program, *lines):
    """A function that gives the program one of these commands per call, in turn."""
    lines = list(lines)

    def work():
        lines.append(lines.pop(0))
        program.ask(lines[-1])
    return work


class EqualsTheRuntimes(unittest.TestCase):
    def check(self, target, *arguments, lines=(), release="trixie", stacks=STACKS, **options):
        program = Witnessed(self, target, *arguments, folder=f"targets-{release}", **options)
        program.collect(stacks, again(program, *lines) if lines else a_moment)
        self.assertEqual((BY_AGENT, OK), (program.captured_by(), program.walk()[0]))
        self.assertGreater(program.walked(), stacks / 10, "few were walked")
        program.compare(self)
        return program

    def test_recursion_exceptions_callbacks_threads_signals_unmarshalling(self):
        for release in RELEASES:
            with self.subTest(release):
                program = self.check("stacks", "0", release=release)
                self.assertGreater(len({sample.tid for sample in program.samples.values()}), 3)

    def test_domains_and_their_fibers(self):
        for release in RELEASES:
            with self.subTest(release):
                program = self.check("domains", "0", release=release)
                self.assertGreater(len({sample.tid for sample in program.samples.values()}), 2)

    def test_fibers_that_grow_move_are_resumed_elsewhere_and_discontinued(self):
        for release in RELEASES:
            with self.subTest(release):
                self.check("fibers", release=release, lines=("go 40", "deep 10"))

    def test_fibers_of_threads(self):
        self.check("fibers", lines=("thread", *["go 10"] * 500))

    def test_domains_that_come_and_go(self):
        """A parent and its child use one profile; the agent then walks for neither."""
        self.check("fibers", lines=["go 40"] * 60 + ["spawn"] + ["go 20"] * 20 + ["join"], stacks=STACKS // 2)

    def test_what_c_allocates_and_compactions(self):
        for release in RELEASES:
            with self.subTest(release):
                self.check("late_stacks", release=release, lines=("go 20", "compact", "minor", "go 20"))

    def test_plugins_that_are_loaded_meanwhile(self):
        program = Witnessed(self, "plugin_host", folder="targets-trixie/plugins")
        for name in ("early", "late"):
            path = os.path.abspath(os.path.join(BUILD, "targets-trixie/plugins", f"plugin_{name}.cmxs"))
            program.ask(f"load {path}")
            program.collect(len(program.samples) + STACKS // 10, lambda: program.ask("go 2000"))
        self.assertGreater(program.walked(), STACKS / 20)
        self.assertEqual(0, program.compare(self))

    def test_minor_heaps_that_move(self):
        self.check("minor_heaps", rate=1e-1, stacks=STACKS // 10, lines=("stat",))

    def test_code_without_debug_information(self):
        self.check("nog_target", stacks=STACKS // 10, lines=("go 1",))


class LosesNoFrames(unittest.TestCase):
    """The runtime records one frame of walked samples only; no other sample is truncated to one."""

    def check(self, target, *arguments, lines=(), release="trixie", until=lambda program: True):
        program = Program(self, target, *arguments, folder=f"targets-{release}")
        program.request(program.rate, 1)
        program.watch(True)
        work = again(program, *lines) if lines else a_moment
        cut, samples = [], set()
        while len(samples) < STACKS or not until(program):
            now = program.work_and_look(work)
            samples.update(now)
            cut += [sample for sample in now.values() if sample.cut and len(sample.frames) < WHOLE]
        self.assertEqual((BY_AGENT, (OK, 0), []), (program.captured_by(), program.walk(), cut))
        self.assertGreater(program.walked(), STACKS / 10)
        return program

    def test_threads_signals_and_what_c_allocates(self):
        for release in RELEASES:
            with self.subTest(release):
                self.check("stacks", "0", release=release)
                self.check("late_stacks", release=release, lines=("thread", *["go 20"] * 50, "compact"))

    def test_domains(self):
        for release in RELEASES:
            with self.subTest(release):
                self.check("domains", "0", release=release)

    def test_domains_that_use_one_profile(self):
        for release in RELEASES:
            with self.subTest(release):
                self.check("fibers", release=release, lines=["go 40"] * 40 + ["spawn"] + ["go 20"] * 40 + ["join"],
                           until=lambda program: IN_USE in [frames for _, frames in program.written_in_domains()])

    def test_fibers(self):
        for release in RELEASES:
            with self.subTest(release):
                self.check("fibers", release=release, lines=("go 40", "deep 10"))


class OnlyWhereStacksAreDeep(unittest.TestCase):
    def start(self):
        self.program = Program(self, "fibers", folder="targets-trixie")
        self.program.walk_from(100)
        self.program.begin()
        return self.program

    def asks(self):
        return WALK_ASKS in [asks for asks, _ in self.program.written_in_domains()]

    def test_short_ones_are_left_to_the_runtime(self):
        program = self.start()
        program.work_until(lambda: program.head()["last_sample_id"] >> 7 > 1000, "samples")
        self.assertEqual((0, False), (program.walked(), self.asks()))
        self.assertEqual((BY_AGENT, (OK, 0)), (program.captured_by(), program.walk()))

    def test_it_begins_and_ends_with_the_depth(self):
        program = self.start()
        eventually(lambda: program.ask("deep 20") and self.asks(), "deep stacks are walked")
        eventually(lambda: program.ask("go 20") and not self.asks(), "short ones no longer")
        self.assertGreater(program.walked(), 0)
        self.assertEqual((OK, 0), program.walk())


class Undone(unittest.TestCase):
    """The agent's values are in the runtime's variables during a session only, however it ends."""

    def start(self, target="late_stacks", release="trixie", **options):
        self.program = Program(self, target, folder=f"targets-{release}")
        self.program.begin(**options)
        self.until_walking(self.program)
        return self.program

    def until_walking(self, program):
        before = program.walked()
        program.work_until(lambda: program.walked() > before and self.asks(program), "stacks are walked")

    def asks(self, program):
        return WALK_ASKS in [asks for asks, _ in program.written_in_domains()]

    def sizes(self, program):
        return {frames for _, frames in program.written_in_domains()}

    def is_undone(self, program):
        """True if no domain contains a value of the agent."""
        return is_undone(program.written_in_domains())

    def until_undone(self, program):
        program.work_until(lambda: self.is_undone(program), "all is as it was")

    def test_between_samples_the_runtime_records_all(self):
        program = self.start()
        for _ in range(50):
            program.ask("go 5")
            self.assertEqual([(WALK_ASKS, WHOLE)], program.written_in_domains())

    def test_when_the_watcher_leaves(self):
        for release in RELEASES:
            with self.subTest(release):
                program = self.start(release=release)
                for generation in (1, 2):
                    if generation == 2:
                        program.begin(2)
                        self.until_walking(program)
                    program.watch(False)
                    self.until_undone(program)
                self.assertEqual(agent.IDLE, program.head()["state"])
                self.assertEqual(0, program.close()[0])

    def test_when_the_lease_runs_out(self):
        program = Program(self, "late_stacks", folder="targets-trixie")
        program.begin(lease=2)
        self.until_undone(program)

    def test_when_another_capture_is_wanted(self):
        program = self.start()
        program.write(program.control + agent.REQUESTED_CAPTURE, struct.pack("<I", BY_RUNTIME))
        program.begin(2)
        self.until_undone(program)
        walked = program.walked()
        program.ask("go 200")
        self.assertEqual((BY_RUNTIME, walked), (program.captured_by(), program.walked()))

    def test_when_the_program_stops_memprof(self):
        """The agent starts another profile, and walks again."""
        program = self.start()
        stops = program.head()["program_stops"]
        program.ask("stop")
        program.work_until(lambda: program.head()["program_stops"] > stops, "another profile")
        self.until_walking(program)
        program.watch(False)
        self.until_undone(program)

    def test_a_profile_of_the_programs_own_is_left_alone(self):
        program = self.start("fibers")
        program.command("stop")
        program.answer()
        program.command("start")
        program.answer()
        walked, before = program.walked(), json.loads(program.ask("go 1"))["own_samples"]
        program.work_until(lambda: json.loads(program.ask("go 20"))["own_samples"] > before + 1000, "its own samples")
        self.assertEqual((walked, {10}, False), (program.walked(), self.sizes(program), self.asks(program)))

    def test_in_a_forked_child(self):
        program = self.start()
        with program.forked(json.loads(program.ask("fork"))["pid"]) as child:
            eventually(lambda: self.is_undone(child), "all is as it was in the child")
        self.until_walking(program)

    def test_another_program_in_its_place(self):
        program = self.start()
        program.command(f"exec {os.path.abspath(os.path.join(BUILD, 'targets/known_alloc'))}")
        self.assertTrue(program.answer().startswith("ready"))
        self.assertIn('"rounds":', program.ask("go 1"))

    def test_when_a_domain_is_spawned_and_ends(self):
        """The domain shares its parent's profile, so neither switches it until the next session."""
        program = self.start("fibers")
        program.ask("spawn")
        program.work_until(lambda: IN_USE in self.sizes(program) and not self.asks(program), "one profile for two")
        program.ask("join")
        walked = program.walked()
        program.ask("go 200")
        self.assertEqual((walked, {IN_USE}), (program.walked(), self.sizes(program)))
        program.begin(2)
        self.until_walking(program)
        program.watch(False)
        self.until_undone(program)

    def test_of_each_domain(self):
        program = Program(self, "domains", "0", folder="targets-trixie")
        program.request(program.rate, 1)
        program.watch(True)
        eventually(lambda: self.asks(program), "domains are walked for")
        program.watch(False)
        eventually(lambda: self.is_undone(program), "all is as it was")
        self.assertEqual(0, program.close()[0])

    def test_where_the_walk_is_not_possible(self):
        """The agent first checks the runtime's code; the test makes it expect different code."""
        program = Program(self, "late_stacks", folder="targets-trixie")
        program.write(program.base + symbol(AGENT, "memprof_call_code"), bytes(7))
        program.begin()
        self.assertEqual((BY_RUNTIME, (UNKNOWN_RUNTIME, 0)), (program.captured_by(), program.walk()))
        self.assertTrue(self.is_undone(program))


class FoundWrong(unittest.TestCase):
    def test_a_walk_that_the_runtimes_innermost_frame_does_not_agree_with(self):
        """The sample is reported with the runtime's frame, as truncated; then the runtime records whole callstacks."""
        program = Program(self, "late_stacks", folder="targets-trixie")
        program.begin()
        program.work_until(lambda: program.walked() > 0, "stacks are walked")
        program.write(program.base + symbol(AGENT, "memprof_callback_bytes"), struct.pack("<Q", 48))
        program.work_until(lambda: program.walk()[0] != OK, "it has noticed")
        self.assertEqual(DIFFERED, program.walk()[0])
        cut, walked = program.walk()[1], program.walked()
        self.assertGreater(cut, 0)
        program.ask("go 200")
        self.assertEqual((cut, walked), (program.walk()[1], program.walked()))
        self.assertEqual([(0, WHOLE)], program.written_in_domains())


if __name__ == "__main__":
    unittest.main()
