# SPDX-License-Identifier: Apache-2.0
"""Times that tests check against limits only here: reactions of the page, questions about a day of history."""

import json
import os
import subprocess
import sys

import harness

# In make test these would run beside other tests.
TESTS = [("tests/dashboards/test_page_sites.py", "Large"), ("tests/dashboards/test_page_day.py", ""),
         ("tests/dashboards/test_flamegraph.py", "Large"), ("tests/e2e/test_limits.py", "")]


def environment(context):
    """The environment, with the simulated day if it exists."""
    day = {"MEMPROFD_DAY": str(context.day)} if context.day.exists() else {}
    return {**os.environ, "MEMPROFD_TIMES": "1", **day}


def run(context, section):
    for path, chosen in TESTS:
        report = context.files / "report.json"
        done = subprocess.run([sys.executable, harness.ROOT / "tests/run.py", "--module", path, "--class", chosen, "--report", report],
                              cwd=harness.ROOT, env=environment(context), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        section.notes += json.loads(report.read_text())["notes"]
        if done.returncode != 0:
            raise AssertionError(f"{path}: {done.stdout[-2000:]}")
