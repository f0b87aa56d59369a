# SPDX-License-Identifier: Apache-2.0
"""What the walk of a heap finds is what the program itself has there, to the last block."""

import json
import subprocess
import unittest

import harness
from harness import TARGETS, TARGETS5, E2ETest

TARGETS4 = harness.BUILD / "targets" if TARGETS5 == TARGETS else TARGETS
PROGRAM = harness.BUILD / "tests" / "heap_walk"
# What heap_shapes keeps: (tag, fields) and how many.
KEPT = {(33, 3): 1_000, (34, 40): 500, (35, 100): 300, (36, 300): 50, (37, 100_000): 3, (38, 5): 100}
LARGE_HEAD_WORDS = 2  # before a large block of OCaml 5
STEPS = 100 if harness.MATRIX else 5


def walk(target, *states):
    result = subprocess.run([PROGRAM, str(target.pid), *states], capture_output=True, text=True,
                            timeout=harness.TIMEOUT)
    if result.returncode != 0:
        raise AssertionError(f"refused: {result.stderr}")
    found = json.loads(result.stdout)
    found["rows"] = {(tag, fields): blocks for tag, fields, blocks in found["rows"]}
    return found


class HeapWalk(E2ETest):
    def ask(self, target, command):
        """The program's own numbers, the lines of its own walk by tag and size, and what ours finds."""
        path = self.folder / "own"
        told = target.command(f"{command} {path}")
        own = [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []
        return told, {(tag, fields): blocks for tag, fields, blocks in own}, walk(target, told["state"])

    def assert_kept(self, found):
        self.assertEqual(KEPT, {key: found["rows"].get(key) for key in KEPT})
        self.assertEqual(1, found["rows"][252, 250_001], "the long string")

    def without_young(self, rows):
        """Blocks of the minor heap are in our rows: those of a tag of their own, and what the answer took."""
        return {key: blocks for key, blocks in rows.items() if key != (38, 5)}

    def check_own_walk(self, own, found):
        """All that the program's own walk has seen, and little more: its minor heap."""
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
        """The runtime's own counts, which the walk is checked against, hold at any moment."""
        target = self.target("heap_shapes", folder=TARGETS5)
        dead = 0
        for _ in range(STEPS):
            _, _, found = self.ask(target, "step")
            self.assert_kept(found)
            dead += found["dead"][0]
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
        """Nobody has taken it over yet: its blocks are in the lists of the process."""
        target = self.target("heap_domains", folder=TARGETS5)
        target.command("stat")
        found = walk(target, *target.command("end")["states"])
        self.assertEqual((1980, 20), (found["rows"][54, 7], found["rows"][54, 500]))
        self.assertGreater(found["orphans"], 5)

    def test_a_state_that_is_none_is_refused(self):
        target = self.target("heap_shapes", folder=TARGETS5)
        told, _, _ = self.ask(target, "settle")
        wrong = hex(int(told["state"], 16) + 8)
        with self.assertRaisesRegex(AssertionError, "not laid out as its OCaml version has it|not all mapped"):
            walk(target, wrong)


if __name__ == "__main__":
    unittest.main()
