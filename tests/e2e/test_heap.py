# SPDX-License-Identifier: Apache-2.0
"""The walk of a heap finds exactly the program's blocks; a copy holds the same, and the program
never notices the copy, even if one of the processes dies."""

import json
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import harness
from harness import TARGETS4, TARGETS5, E2ETest, children, eventually, proc_status
from heap_copies import COPIES, KEPT, KILLS, LONGEST, OLD, SWEPT_AT_ONCE, HeapCopy, is_gone, undisturbed_output

WALK = harness.BUILD / "tests" / "heap_walk"
LARGE_HEAD_WORDS = 2  # before a large block of OCaml 5
STEPS = 100 if harness.MATRIX else 5
# All signals but those that cannot be blocked, and SIGTRAP, at which it stops.
BLOCKED = ~sum(1 << (number - 1) for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTRAP)) & (1 << 64) - 1


def walk(target, *states):
    result = subprocess.run([WALK, str(target.pid), *states], capture_output=True, text=True,
                            timeout=harness.TIMEOUT)
    if result.returncode != 0:
        raise AssertionError(f"refused: {result.stderr}")
    found = json.loads(result.stdout)
    found["rows"] = {(tag, fields): blocks for tag, fields, blocks in found["rows"]}
    return found


class HeapWalk(E2ETest):
    def ask(self, target, command):
        """The program's numbers, the lines of its own walk by tag and size, and the results of
        ours."""
        path = self.folder / "own"
        told = target.command(f"{command} {path}")
        own = [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []
        return told, {(tag, fields): blocks for tag, fields, blocks in own}, walk(target, told["state"])

    def assert_kept(self, found):
        self.assertEqual(KEPT, {key: found["rows"].get(key) for key in KEPT})
        self.assertEqual(1, found["rows"][252, 250_001], "the long string")

    def check_own_walk(self, own, found):
        """The walk finds all blocks of the program's own walk, and little more: its minor heap."""
        rows = found["rows"]
        missing = {key: (blocks, rows.get(key, 0)) for key, blocks in own.items() if rows.get(key, 0) < blocks}
        self.assertEqual({}, missing)
        beyond = sum(blocks - own.get(key, 0) for key, blocks in rows.items() if key[1] < 128)
        self.assertEqual(found["minor"][0], beyond)

    def check_settled(self, told, found):
        self.assert_kept(found)
        blocks, words = found["used"]
        self.assertEqual([0, 0], found["dead"])
        self.assertEqual(told["live_blocks"], blocks)
        self.assertEqual(told["live_words"], words + LARGE_HEAD_WORDS * found["large"][0])
        self.assertEqual(told["heap_words"], found["heap_words"])

    def test_settled_in_ocaml4(self):
        target = self.target("heap_shapes", folder=TARGETS4)
        told, own, found = self.ask(target, "settle")
        self.check_settled(told, found)
        self.check_own_walk(own, found)
        self.assertEqual([told["free_blocks"], told["free_words"]], found["free"])
        self.assertEqual(told["largest_free"], found["largest_free"])
        self.assertEqual(told["fragments"], found["fragments"][0])
        self.assertGreater(told["fragments"], 0, "the test has fragments")

    def test_settled_in_ocaml5(self):
        target = self.target("heap_shapes", folder=TARGETS5)
        told, _, found = self.ask(target, "settle")
        self.check_settled(told, found)

    def test_collector_at_work_in_ocaml4(self):
        target = self.target("heap_shapes", folder=TARGETS4)
        dead = 0
        for _ in range(STEPS):
            told, own, found = self.ask(target, "step")
            self.assertTrue(told["sweeping"])
            self.assert_kept(found)
            self.check_own_walk(own, found)
            dead += found["dead"][0]
        self.assertGreater(dead, 1_000, "there was something to tell apart")

    def test_collector_at_work_in_ocaml5(self):
        """The runtime's counts match the walk at any moment."""
        target = self.target("heap_shapes", folder=TARGETS5)
        dead = 0
        for _ in range(STEPS):
            _, _, found = self.ask(target, "step")
            self.assert_kept(found)
            dead += found["dead"][0]
        if TARGETS5 != SWEPT_AT_ONCE:
            self.assertGreater(dead, 1_000, "there was something to tell apart")

    def test_domains(self):
        target = self.target("heap_domains", folder=TARGETS5)
        for _ in range(3):
            told = target.command("stat")
            found = walk(target, *told["states"])
            self.assertEqual(told["live_blocks"], found["used"][0])
            self.assertEqual(told["live_words"], found["used"][1] + LARGE_HEAD_WORDS * found["large"][0])
            self.assertEqual(told["heap_words"], found["heap_words"])
            for tag in range(50, 54):
                self.assertEqual((1980, 20), (found["rows"][tag, 7], found["rows"][tag, 500]))

    def test_what_an_ended_domain_has_left(self):
        """No domain has adopted its blocks yet: they are in the lists of the process."""
        target = self.target("heap_domains", folder=TARGETS5)
        target.command("stat")
        found = walk(target, *target.command("end")["states"])
        self.assertEqual((1980, 20), (found["rows"][54, 7], found["rows"][54, 500]))
        self.assertGreater(found["orphans"], 5)

    def test_a_state_that_is_none_is_refused(self):
        target = self.target("heap_shapes", folder=TARGETS5)
        told, _, _ = self.ask(target, "settle")
        wrong = hex(int(told["state"], 16) + 8)
        with self.assertRaisesRegex(AssertionError, "does not match its OCaml version|not all mapped"):
            walk(target, wrong)


class Contents(HeapCopy):
    def test_a_busy_program_with_threads(self):
        target, expected = self.program(), undisturbed_output()
        for _ in range(COPIES):
            answer = self.answer(self.copy(target))
            roots = answer["roots"]
            self.assertGreater(roots["module"], 300)
            self.assertGreater(roots["stack"], 0)
            self.assertGreater(roots["thread"], 7, "one at least of each other thread")
            self.assertGreater(answer["heap"]["used"][0], 100)
            self.check_unharmed(target)
        self.assert_same_output(target, expected)
        harness.NOTES.append(f"{COPIES} copies")

    def test_it_holds_what_the_program_holds(self):
        """Takes copies while the program allocates, drops and collects."""
        target = self.program("heap_shapes")
        own = self.folder / "own"
        for _ in range(3):
            copier = self.copy(target)
            told = target.command(f"step {own}")
            while copier.running():
                told = target.command(f"step {own}")
            answer = self.answer(copier)
            heap = answer["heap"]
            found = {(tag, fields): blocks for tag, fields, blocks in heap["rows"]}
            self.assertEqual(OLD, {key: found.get(key) for key in OLD})
            self.assertIn(told["kept_words"], answer["retained"], "Obj.reachable_words of what only one global keeps")
            self.assertGreater(answer["reachable"][1], told["kept_words"])
            least = 0 if self.programs == SWEPT_AT_ONCE else 1
            self.assertLessEqual(answer["reachable"][0] + least, heap["used"][0] + heap["minor"][0], "there is garbage")

    def test_a_program_without_the_agent_is_refused(self):
        target = self.target("busy_threads", folder=self.programs)
        self.assertIn("there is no agent", self.refusal(self.copy(target)))
        self.check_unharmed(target)


class Contents5(Contents):
    programs = TARGETS5


class Domains(HeapCopy):
    """OCaml 5 with several domains that run at once."""

    programs = TARGETS5

    def test_it_holds_what_all_of_them_hold(self):
        target = self.program("heap_domains")
        for _ in range(3):
            copier = self.copy(target)
            told = target.command("stat")
            while copier.running():
                told = target.command("stat")
            answer = self.answer(copier)
            rows = {(tag, fields): blocks for tag, fields, blocks in answer["heap"]["rows"]}
            for tag in range(50, 54):
                self.assertEqual((1980, 20), (rows[tag, 7], rows[tag, 500]))
            kept = 1 + 2000 + 1980 * 8 + 20 * 501
            self.assertLessEqual(3, answer["retained"].count(kept), "what the stacks of other domains keep")
            self.assertGreaterEqual(answer["heap"]["used"][0], answer["reachable"][0])
            self.assertAlmostEqual(told["live_blocks"], answer["reachable"][0], delta=100)

    def test_under_load_as_domains_begin_and_end(self):
        target = self.program("domains")
        copies = refused = 0
        while copies < COPIES:
            copier = self.copy(target)
            if copier.wait() == 0:
                answer = self.answer(copier)
                self.assertGreater(answer["roots"]["stack"], 30, "of all domains")
                self.assertGreater(answer["roots"]["thread"], 7)
                copies += 1
            else:  # the machine is too busy
                self.assertIn("could not be stopped together", self.refusal(copier))
                refused += 1
                self.assertLessEqual(refused, COPIES // 5)
            self.check_unharmed(target)
        self.assertEqual(1, len(target.exit()["checksums"]))
        harness.NOTES.append(f"{COPIES} copies")

    def test_the_borrowed_thread_ends(self):
        """The thread may belong to a domain that lives for one computation."""
        target = self.program("heap_domains")
        copier = self.copy(target, "hold")
        while not children(target.pid):
            target.command("short")
        self.assertEqual("held", copier.read_line().split()[0])
        target.command("short")
        copier.send("")
        self.answer(copier)


class WhatACopyIs(HeapCopy):
    def setUp(self):
        super().setUp()
        self.busy = self.program()
        self.copier, self.pid = self.held(self.busy)

    def test_it_holds_nothing_and_takes_no_signal(self):
        self.assertEqual([], list(pathlib.Path(f"/proc/{self.pid}/fd").iterdir()))
        self.assertEqual("1000", pathlib.Path(f"/proc/{self.pid}/oom_score_adj").read_text().strip())
        self.assertEqual(BLOCKED, int(proc_status(self.pid, "SigBlk"), 16))
        self.assertEqual("memprof-copy", proc_status(self.pid, "Name"))
        self.assertEqual("t (tracing stop)", proc_status(self.pid, "State"))
        self.assertEqual("1", proc_status(self.pid, "Threads"))
        self.copier.send("")
        self.answer(self.copier)
        self.check_unharmed(self.busy)

    def test_the_program_waits_for_its_own_children_alone(self):
        for _ in range(5):
            self.assertEqual(0, self.busy.command("fork")["errors"])
        self.assertIn(str(self.pid), children(self.busy.pid))
        self.copier.send("")
        self.answer(self.copier)
        for _ in range(5):
            self.assertEqual(0, self.busy.command("fork")["errors"])
        self.check_unharmed(self.busy)

    def test_who_holds_it_is_killed(self):
        self.copier.stop(signal.SIGKILL)
        eventually(lambda: is_gone(self.pid), "the copy ends")
        self.check_unharmed(self.busy)
        self.answer(self.copy(self.busy))

    def test_it_is_killed_itself(self):
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: is_gone(self.pid), "the copy ends")
        self.copier.send("")
        self.assertIn("the copy of the program was killed while it was read", self.refusal(self.copier))
        self.check_unharmed(self.busy)
        self.answer(self.copy(self.busy))

    def test_the_program_is_killed(self):
        self.busy.stop(signal.SIGKILL)
        self.copier.send("")
        self.answer(self.copier)
        eventually(lambda: is_gone(self.pid), "the copy ends")

    def test_the_program_becomes_another_one(self):
        self.busy.send(f"exec {TARGETS4}/idle")
        eventually(lambda: proc_status(self.busy.pid, "Name") == "idle", "it is another program")
        self.copier.send("")
        self.answer(self.copier)
        eventually(lambda: is_gone(self.pid), "the copy ends")
        self.assertTrue(self.busy.running())

    def test_another_copy_meanwhile_is_refused(self):
        self.assertIn("has not been cleaned up", self.refusal(self.copy(self.busy)))
        self.copier.send("")
        self.answer(self.copier)
        self.check_unharmed(self.busy)


class WhatACopyIs5(WhatACopyIs):
    programs = TARGETS5


class Death(HeapCopy):
    def test_of_who_takes_it_at_a_random_moment(self):
        target, expected = self.program(), undisturbed_output()
        for seed in range(KILLS):
            with self.subTest(seed=seed):
                copier = self.copy(target)
                time.sleep(random.Random(seed).uniform(0, LONGEST))
                copier.kill()
                self.check_unharmed(target)
        self.answer(self.copy(target))
        self.assert_same_output(target, expected)
        harness.NOTES.append(f"{KILLS} kills")


class Death5(Death):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
