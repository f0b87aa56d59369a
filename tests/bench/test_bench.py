# SPDX-License-Identifier: Apache-2.0
"""make bench itself, with minimal work: every peer runs, and the result contains the requested measures."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import bench
import harness
import peers
from bench_context import Context
from result import Result
from sections import budget, crowd, limits
from served import PROGRAMS

PROGRAM = pathlib.Path(__file__).with_name("bench.py")


class Bench(unittest.TestCase):
    def measured(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "bench.json"
            done = subprocess.run([sys.executable, PROGRAM, "--pairs", "1", "--out", out, *arguments], capture_output=True,
                                  text=True, timeout=300, check=False)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            return {section.name: section for section in Result.load(out).sections}

    def test_workloads_under_all_peers(self):
        found = self.measured("--only", "overhead", "--only", "hits", "--only", "trace", "--scale", "0.02",
                              "--rate", "1e-3", "--workload", "c_heavy", "--workload", "many_domains",
                              "--workload", "ocamlopt")
        rows = {measure.row for measure in found["overhead"].measures if measure.what == "target CPU over bare"}
        both = ("idle agent", "memprofd", "plain tracker")
        self.assertEqual({f"{name}, {peer}" for name in ("c_heavy", "many_domains") for peer in both} |
                         {"ocamlopt, idle agent", "ocamlopt, memprofd"}, rows)
        self.assertEqual(3, len([m for m in found["hits"].measures if m.values[0] > 0]))
        written = {measure.row for measure in found["trace"].measures if measure.what == "bytes per sample"}
        self.assertLessEqual({"c_heavy, memprofd, recorded", "c_heavy, plain tracker"}, written)

    def test_a_server_under_load(self):
        found = self.measured("--only", "latency", "--scale", "0.1", "--rate", "1e-4")["latency"]
        p99 = {measure.row: measure.values[0] for measure in found.measures if measure.what == "p99 of latency"}
        self.assertEqual({f"ocsigenserver, {peer}" for peer in ("bare", "idle agent", "memprofd")}, set(p99))
        self.assertGreater(min(p99.values()), 0)

    def test_one_target_among_others(self):
        found = self.measured("--short", "--only", "crowd", "--scale", "0.05")["crowd"]
        costs = {(m.row, m.column) for m in found.measures if m.what == "target CPU per sample"}
        rows = {f"{capture} captures, {count} others" for capture, _, count in crowd.CASES}
        self.assertEqual({(row, column) for row in rows for column in (crowd.ALONE, crowd.CROWD)}, costs)
        self.assertEqual(len(rows), len([m for m in found.measures if m.what == "target CPU over alone" and m.values[0] > 0]))

    def test_servers_asked_at_fixed_times(self):
        """The whole short form, with one round less."""
        section = self.measured("--only", "servers", "--short")["servers"]
        cells = {(m.what, m.row, m.column): m for m in section.measures}
        ratios = ["idle agent / bare", *(f"memprofd {rate} / {base}" for rate in ("1e-5", "1e-4") for base in ("bare", "let go"))]
        for program in PROGRAMS:
            self.assertEqual("", program.missing())
            for load in ("20 %", "50 %", "80 %"):
                row = f"{program.what}, {load}"
                for what in ("CPU per request, ratio", "p50, ratio", "p99, ratio", "p99.9, ratio"):
                    for column in ratios:
                        measure = cells[what, row, column]
                        self.assertGreater(measure.values[0], 0)
                        self.assertEqual(1.02 if "1e-4" in column else 1.01, measure.at_most)
                for percentile in ("p50", "p99", "p99.9"):
                    self.assertGreater(cells["latency, bare", row, percentile].values[0], 0)
                self.assertLess(0, cells["CPU of the load", row, ""].values[0])
            for case, samples in (("idle agent", 0), ("memprofd 1e-5", 1), ("memprofd 1e-4", 10)):
                self.assertGreaterEqual(sum(cells["samples per 1,000 requests", program.what, case].values), samples)
                self.assertGreater(cells["CPU of memprofd meanwhile", program.what, case].values[0], 0)
            share = "the programs at its probes, without what a trap takes"
            self.assertGreater(cells[share, program.what, "memprofd 1e-5"].values[0], 0)
            self.assertGreater(cells["capacity", program.what, ""].values[0], 0)
            self.assertIn(("CPU per request, ratio", f"{program.what}, all loads", "idle agent / bare"), cells)
            self.assertIn("memprofd 1e-4", section.details[program.name][-1])
        self.assertEqual([], [note for note in section.notes if "failed" in note])

    def test_what_a_budget_is_judged_by(self):
        with tempfile.TemporaryDirectory() as folder:
            context = Context(pathlib.Path(folder), pairs=1, scale=0.01)
            with context.daemon() as daemon:
                for workload in budget.PROGRAMS:
                    _, seen = peers.run(workload, budget.Budgeted(daemon, 1), context.files, context.scale)
                    words = workload.amount * context.scale
                    self.assertEqual(budget.RATE, seen["rate"])
                    self.assertLess(abs(seen["words"] - words), 5 * (words / budget.RATE) ** 0.5 + 1e5)

    def test_a_day_that_was_measured_is_not_simulated_again(self):
        """The file's contents are judged; this one has a day that takes too much memory."""
        with tempfile.TemporaryDirectory() as folder:
            context = Context(pathlib.Path(folder))
            queries = {str(i): {"reference_ms": 50, "min_ms": 1, "answer_bytes": 1} for i in range(13)}
            context.day.write_text(json.dumps({"zipf": {"samples": 2e8, "history_bytes": 2**40, "hours_within_limit": 24,
                                                        "queries": queries}}))
            done = subprocess.run([sys.executable, harness.ROOT / "tests/run.py", "--module",
                                   "tests/e2e/test_limits.py", "--class", "DayOfTenThousandSites",
                                   "--report", context.files / "report.json"], cwd=harness.ROOT,
                                  env=limits.environment(context), capture_output=True, text=True, check=False)
        self.assertNotEqual(0, done.returncode, done.stdout)
        self.assertIn(str(2**40), done.stdout + done.stderr)

    def test_every_section_has_a_title(self):
        for name in bench.SECTIONS:
            self.assertTrue(bench.section_module(name).__doc__, name)

    def test_a_section_that_fails_says_so(self):
        class Failing:
            __doc__ = "Fails."

            @staticmethod
            def run(_context, _section):
                raise AssertionError("no target")
        self.assertEqual("AssertionError: no target", bench.measured("failing", Failing, None).failed)


if __name__ == "__main__":
    unittest.main()
