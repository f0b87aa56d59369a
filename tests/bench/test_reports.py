# SPDX-License-Identifier: Apache-2.0
"""Output of make bench: the JSON file, tables, reports and comparisons."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import report
from comparison import Change, changes
from result import Measure, Result, Section
from table import as_markdown, as_text, section_markdown, section_text, tables

ABOUT = {"command": "bench.py", "began": "2024-05-01T10:00:00+00:00", "commit": "0123456789abcdef", "changed": False,
         "kernel": "6.1", "cpu": "A CPU", "cpus": 2, "memory_mib": 4096, "load_before": 0.1, "load_after": 1.2, "nice": 0,
         "seconds": 120, "pairs": 3, "scale": 1.0}


def section(*values, name="overhead", at_most=None):
    made = Section(name, "What it costs.")
    made.add("target CPU over bare", "", values, "churn, memprofd", "1e-3", at_most)
    return made


class ResultFile(unittest.TestCase):
    def test_is_read_as_it_was_written(self):
        made = section(1.1, 1.2, 1.3, at_most=1.1)
        made.notes.append("perf is not installed")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bench.json"
            Result(ABOUT, [made]).save(path)
            self.assertEqual(1.2, json.loads(path.read_text())["sections"][0]["measures"][0]["spread"]["median"])
            self.assertEqual(Result(ABOUT, [made]), Result.load(path))

    def test_another_format_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bench.json"
            path.write_text('{"machine": {}}')
            with self.assertRaisesRegex(ValueError, "run make bench again"):
                Result.load(path)

    def test_a_goal_is_met_by_the_median(self):
        self.assertTrue(Measure("cost", "ns", (1, 2, 9), at_most=2).met())
        self.assertFalse(Measure("cost", "ns", (1, 3, 9), at_most=2).met())

    def test_no_values_add_no_measure(self):
        self.assertEqual([], section().measures)


class Tables(unittest.TestCase):
    def measures(self):
        return [Measure("CPU", "ns", (1,), "churn", "1e-3"), Measure("CPU", "ns", (2,), "churn", "1e-2", at_most=1),
                Measure("CPU", "ns", (3,), "deep", "1e-2"), Measure("wall", "", (4,), "churn")]

    def test_one_table_per_quantity(self):
        self.assertEqual(
            [("CPU, ns", ["", "1e-3", "1e-2"], [["churn", "1.00", "2.00 (goal 1, missed)"], ["deep", "", "3.00"]]),
             ("wall", ["", ""], [["churn", "4.00"]])], tables(self.measures()))

    def test_text_is_in_columns(self):
        self.assertEqual("         1e-3\n  churn  1.0\n  deep   2", as_text(["", "1e-3"], [["churn", "1.0"], ["deep", "2"]]))
        self.assertEqual("  churn  4", as_text(["", ""], [["churn", "4"]]))

    def test_markdown(self):
        self.assertEqual("|  | a |\n| --- | --- |\n| x\\|y | 1 |", as_markdown(["", "a"], [["x|y", "1"]]))

    def test_sections_show_notes_and_failures(self):
        made = section(1)
        made.notes.append("without perf")
        made.failed = "OSError: no"
        for shown in (section_text(made), section_markdown(made)):
            self.assertIn("without perf", shown)
            self.assertIn("failed: OSError: no", shown)


class Report(unittest.TestCase):
    def test_has_where_it_comes_from_and_all_tables(self):
        text = report.document([Result(ABOUT, [section(1.0, 1.1, 1.2)])])
        self.assertTrue(text.startswith(f"{report.HEAD}\n## Results of run 1\n"))
        for words in ("0123456789ab", "A CPU", "rounds: 3", "| churn, memprofd | 1.10 [1.05..1.15] |", "All goals"):
            self.assertIn(words, text)

    def test_names_missed_goals_and_other_work_of_the_machine(self):
        text = report.report(Result({**ABOUT, "load_before": 3.0}, [section(1.2, at_most=1.1)]), "Results")
        self.assertIn("- overhead: target CPU over bare, churn, memprofd, 1e-3", text)
        self.assertIn("other work", text)

    def test_runs_follow_each_other(self):
        runs = [Result(ABOUT, [section(1.0)]), Result({**ABOUT, "pairs": 20}, [section(2.0)])]
        first, second = report.document(runs).split("## Results of run 2")
        self.assertIn("rounds: 3", first)
        self.assertIn("rounds: 20", second)
        self.assertIn("| churn, memprofd | 2.00 |", second)

    def test_is_named_after_its_day_and_written_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bench.json"
            Result(ABOUT, [section(1.0)]).save(path)
            with mock.patch.object(report, "FOLDER", pathlib.Path(folder)), contextlib.redirect_stdout(io.StringIO()):
                report.main([path])
            self.assertEqual(report.document([Result.load(path)]), (pathlib.Path(folder) / "2024-05-01.md").read_text())

    def test_those_in_the_tree_have_its_form(self):
        files = list(report.FOLDER.glob("*.md"))
        self.assertNotEqual([], files)
        for path in files:
            self.assertTrue(path.read_text().startswith(f"{report.HEAD}\n## Results of run 1\n\n- commit "), path)


class Comparison(unittest.TestCase):
    def rounds(self, *pairs):
        return [(Result(ABOUT, [section(base)]), Result(ABOUT, [section(here)])) for base, here in pairs]

    def test_ratios_are_within_rounds(self):
        found = changes(self.rounds((1, 2), (2, 4), (4, 4)))
        [change] = found["overhead"]
        self.assertEqual([2, 2, 1], change.ratios())
        self.assertEqual(["churn, memprofd, 1e-3", "2.00", "4.00", "2.00 [1.50..2.00]", ""], change.cells())

    def test_a_verdict_needs_rounds_that_agree(self):
        def verdict(*here):
            return Change("cost", "ns", "", "", (10,) * len(here), here).verdict()
        self.assertEqual("more", verdict(11, 12, 11, 12, 11, 13))
        self.assertEqual("less", verdict(9, 8, 9, 8, 9, 8, 9, 8, 12))
        self.assertEqual("", verdict(9, 8, 9, 8, 9, 8, 9, 11, 12))
        self.assertEqual("", verdict(12, 12, 12, 12, 12))
        self.assertEqual("", verdict(10, 10, 10, 10, 10, 10, 10))

    def test_what_one_side_lacks_is_left_out(self):
        self.assertEqual({"overhead": []}, changes([(Result(ABOUT), Result(ABOUT, [section(1)]))]))

    def test_no_ratio_to_nothing(self):
        self.assertEqual("-", Change("lost", "", "", "", (0, 0), (0, 1)).cells()[3])


if __name__ == "__main__":
    unittest.main()
