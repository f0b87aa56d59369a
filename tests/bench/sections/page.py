# SPDX-License-Identifier: Apache-2.0
"""How fast the page reacts, with ten thousand sites, a day of history, and 100,000 frames of a flame graph."""

import json
import os
import subprocess
import sys

import harness

# Tests of the page that tell times, which have no limit where other tests run beside them.
TESTS = [("tests/dashboards/test_page_sites.py", "Large"), ("tests/dashboards/test_page_day.py", ""),
         ("tests/dashboards/test_flamegraph.py", "Large")]


def run(context, section):
    for path, chosen in TESTS:
        report = context.files / "report.json"
        done = subprocess.run([sys.executable, harness.ROOT / "tests/run.py", "--module", path, "--class", chosen, "--report", report],
                              cwd=harness.ROOT, env={**os.environ, "MEMPROFD_TIMES": "1"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        section.notes += json.loads(report.read_text())["notes"]
        if done.returncode != 0:
            raise AssertionError(f"{path}: {done.stdout[-2000:]}")
