# SPDX-License-Identifier: Apache-2.0
"""The counts of tests/run.py: a skipped test does not count as passed."""

import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import outcomes
import run

GTEST = """<testsuites tests="6" failures="2" disabled="1" errors="0">
  <testsuite name="A" tests="6" failures="2" disabled="1" skipped="2" errors="0">
    <testcase name="Passes" status="run" result="completed" classname="A">
      <properties><property name="note" value="50 kills"/></properties></testcase>
    <testcase name="Skips" status="run" result="skipped" classname="A">
      <skipped message="a_test.cc:3&#x0A;no promtool"/></testcase>
    <testcase name="SkipsWithoutAWord" status="run" result="skipped" classname="A">
      <skipped message="a_test.cc:4&#x0A;"/></testcase>
    <testcase name="DISABLED_x" status="notrun" result="suppressed" classname="A"/>
    <testcase name="Fails" status="run" result="completed" classname="A"><failure message="no"/></testcase>
    <testcase name="FailsAndSkips" status="run" result="completed" classname="A">
      <failure message="no"/><skipped message="a_test.cc:9&#x0A;late"/></testcase>
  </testsuite></testsuites>"""

MODULE = '''
import unittest

class Some(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.fail()
    def test_skips(self): self.skipTest("the pid is taken")
    @unittest.skip("takes long")
    def test_never_runs(self): pass
    def test_skips_parts(self):
        for part in "ab":
            with self.subTest(part):
                self.skipTest("half of it")
    def test_fails_and_skips_parts(self):
        with self.subTest("a"):
            self.skipTest("not this")
        with self.subTest("b"):
            self.fail()

@unittest.skip("no such class here")
class WholeClass(unittest.TestCase):
    def test_one(self): pass
    def test_two(self): pass

class ClassThatSkipsItself(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("nothing to do")
    def test_one(self): pass
'''


TABLE = r"""
import unittest

class Table(unittest.TestCase):
    def test_rows(self):
        rows = [f"row {i} of a table\n" for i in range(200)]
        self.assertMultiLineEqual("".join(rows), "".join(rows[:100] + rows[101:]))
"""

# Simulates a GoogleTest program with one test in each shard; it records the shard's number.
SHARD = """#!/bin/sh
echo "$GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS" >> "$0.ran"
echo '<testsuites failures="0" errors="0"><testcase name="Passes" classname="A"/></testsuites>' > "${1#*xml:}"
"""


def closing_lines(total):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = run.close(total)
    return code, said.getvalue().splitlines()


def run_module(text):
    """Runs a module with that text; returns (the finished process, the reported outcome)."""
    with tempfile.TemporaryDirectory() as folder:
        module = pathlib.Path(folder) / "test_fake.py"
        module.write_text(text)
        report = pathlib.Path(folder) / "report.json"
        done = subprocess.run([sys.executable, run.__file__, "--module", module, "--report", report],
                              capture_output=True, text=True, check=False)
        return done, run.Outcome(**json.loads(report.read_text()))


class Counting(unittest.TestCase):
    def test_googletest(self):
        outcome = run.gtest_outcome(ElementTree.fromstring(GTEST))
        self.assertEqual((1, 2), (outcome.passed, outcome.failed))
        self.assertEqual(["A.Skips: no promtool", "A.SkipsWithoutAWord: no reason given, a_test.cc:4",
                          "A.DISABLED_x: disabled"], outcome.skipped)
        self.assertEqual(["50 kills"], outcome.notes)
        self.assertEqual(["A.Fails", "A.FailsAndSkips"], outcome.failures)

    def test_python(self):
        done, outcome = run_module(MODULE)
        self.assertEqual((1, 1, 2), (done.returncode, outcome.passed, outcome.failed))
        reasons = {skip.removeprefix("test_fake.") for skip in outcome.skipped}
        self.assertEqual({"Some.test_skips: the pid is taken", "Some.test_never_runs: takes long",
                          "Some.test_skips_parts: half of it", "WholeClass.test_one: no such class here",
                          "WholeClass.test_two: no such class here",
                          "setUpClass (test_fake.ClassThatSkipsItself): nothing to do"}, reasons)

        self.assertEqual({"Some.test_fails: AssertionError: None", "Some.test_fails_and_skips_parts: AssertionError: None"},
                         {failure.removeprefix("test_fake.") for failure in outcome.failures})

    def test_the_missing_row_of_a_long_table_is_shown(self):
        done, _ = run_module(TABLE)
        self.assertRegex(done.stderr, "(?m)^- row 100 of a table")

    def test_failures_are_reported_last_with_their_unit(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            build = pathlib.Path(folder)
            (build / "test-logs").mkdir()
            outcomes = [run.run_unit(build, name, lambda _build, log, outcome=outcome: (log.touch(), outcome)[1])
                        for name, outcome in (("a/b", run.Outcome(1, 1, failures=["C.d: late"])),
                                              ("crashed", run.Outcome(failed=1)), ("good", run.Outcome(2)))]
            run.close(run.added_up(outcomes))
        self.assertEqual(["failed: a/b: C.d: late", "failed: crashed", "3 passed, 2 failed, 0 skipped"],
                         said.getvalue().splitlines()[-3:])

    def test_what_did_not_end_is_named(self):
        gtest = "[ RUN      ] A.Passes\n[       OK ] A.Passes (0 ms)\n"
        for said, code, expected in (
                (gtest + "[ RUN      ] A.Hangs\nwaits\n", outcomes.LATE, f"A.Hangs: not done after {outcomes.SUITE_TIMEOUT} s"),
                (gtest + "[ RUN      ] A.Crashes\n", -11, "A.Crashes: ended with exit code -11"),
                (gtest, 1, "ended with exit code 1, in no test"),
                ("", 127, "ended with exit code 127, in no test"),
                ("test_a (m.C.test_a) ... ok\ntest_b (m.C.test_b)\nWaits. ... ", outcomes.LATE,
                 f"test_b (m.C.test_b): not done after {outcomes.SUITE_TIMEOUT} s")):
            with self.subTest(expected), tempfile.NamedTemporaryFile("w") as log:
                log.write(said)
                log.flush()
                outcome = outcomes.without_report(code, pathlib.Path(log.name))
                self.assertEqual((1, [expected]), (outcome.failed, outcome.failures))

    def test_the_threads_of_what_hangs_are_shown(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(outcomes, "SUITE_TIMEOUT", 0.5):
            log = pathlib.Path(folder) / "log"
            self.assertIs(outcomes.LATE, outcomes.run_child(["sleep", "600"], log, None)[0])
            said = log.read_text()
        self.assertTrue(said.endswith("\nnot done after 0.5 s\n"), said)
        if shutil.which("gdb"):
            self.assertIn("Thread 1", said)

    def test_closing_line_stands_alone_after_the_list(self):
        total = run.added_up([run.Outcome(2, 0, ["a: x"]), run.Outcome(3, 1, ["b: y"], ["50 kills"])])
        self.assertEqual((1, ["skipped: a: x", "skipped: b: y", "5 passed, 1 failed, 2 skipped"]),
                         closing_lines(total))

    def test_the_ten_slowest_come_before_the_closing_line(self):
        outcomes = [run.Outcome(1, times=[(f"e2e/m{i}", 10.0 * i, 1.0 + i)]) for i in range(12)]
        outcomes[3].times.append(("e2e/m3", 100.0, 2.5))  # this module ran twice
        code, said = closing_lines(run.added_up(outcomes))
        self.assertEqual((0, 11, "12 passed, 0 failed, 0 skipped"), (code, len(said), said[-1]))
        self.assertEqual(["slowest: e2e/m3                        130.0 s     6.5 s of CPU",
                          "slowest: e2e/m11                       110.0 s    12.0 s of CPU"], said[:2])
        self.assertEqual([3, 11, 10, 9, 8, 7, 6, 5, 4, 2], [int(line.split()[1].removeprefix("e2e/m")) for line in said[:-1]])

    def test_seconds_of_cpu_are_those_of_a_child_and_of_its_children(self):
        busy = "import time\nwhile time.process_time() < 0.3: pass"
        nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\nsys.exit(3)"
        with tempfile.TemporaryDirectory() as folder:
            code, cpu = outcomes.run_child([sys.executable, "-c", nested], pathlib.Path(folder) / "log", None)
        self.assertEqual(3, code)
        self.assertGreaterEqual(cpu, 0.28)  # the kernel counts in clock ticks

    def test_a_module_that_fails_beside_others_runs_again(self):
        for failing, suite, expected in (
                (1, "e2e", (0, ["passed only alone: e2e/m0: C.d: late", "2 passed, 0 failed, 0 skipped"])),
                (2, "e2e", (1, ["failed: e2e/m0: C.d: late", "1 passed, 1 failed, 0 skipped"])),
                (1, "unit", (1, ["failed: unit/m0: C.d: late", "1 passed, 1 failed, 0 skipped"]))):
            with self.subTest(failing=failing, suite=suite):
                self.assertEqual(expected, self.closing_of(suite, [failing, 0]))

    def test_many_failures_are_not_random(self):
        code, said = self.closing_of("e2e", [1] * (run.MOST_AGAIN + 1))
        self.assertEqual((1, f"0 passed, {run.MOST_AGAIN + 1} failed, 0 skipped"), (code, said[-1]))
        self.assertEqual([1] * (run.MOST_AGAIN + 1), self.runs)

    def closing_of(self, suite, failing):
        """The output of a run in which module i fails failing[i] times before it passes."""
        self.runs = [0] * len(failing)

        def unit(i):
            def function(_build, log):
                log.touch()
                self.runs[i] += 1
                return run.Outcome(1) if self.runs[i] > failing[i] else run.Outcome(failed=1, failures=["C.d: late"])
            return f"{suite}/m{i}", function

        with (tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()),
              unittest.mock.patch.object(run, "units_of", lambda _build, _suite: [unit(i) for i in range(len(failing))])):
            total = run.run_suites(pathlib.Path(folder), [suite])
        self.assertEqual([f"{suite}/m{i}" for i, runs in enumerate(self.runs) for _ in range(runs)],
                         sorted(name for name, _, _ in total.times))
        code, said = closing_lines(total)
        return code, [line for line in said if not line.startswith("slowest: ")]

    def test_only_skips_are_not_a_success(self):
        self.assertEqual((1, ["skipped: a: x", "0 passed, 0 failed, 1 skipped"]),
                         closing_lines(run.Outcome(skipped=["a: x"])))

    def test_each_shard_runs_once(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / run.GTEST_SUITES["unit"]
            program.parent.mkdir(parents=True)
            program.write_text(SHARD)
            program.chmod(0o755)
            for suite, shards in (("unit", run.SHARDS["unit"]), ("unit:A.*", 1)):
                with self.subTest(suite), contextlib.redirect_stdout(io.StringIO()):
                    outcome = run.run_suites(pathlib.Path(folder), [suite], lanes=2)
                ran = pathlib.Path(f"{program}.ran")
                self.assertEqual({f"{shard} of {shards}" for shard in range(shards)}, set(ran.read_text().splitlines()))
                self.assertEqual(shards, outcome.passed)
                ran.unlink()


if __name__ == "__main__":
    unittest.main()
