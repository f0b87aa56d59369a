# SPDX-License-Identifier: Apache-2.0
"""deploy/progress.py: what a person sees while memprofd is built."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRESS = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "progress.py"
sys.path.insert(0, str(PROGRESS.parent))
import progress  # pylint: disable=wrong-import-position

MAKEFILE = """
all: a b c
a b:
\t@printf '  %-8s %s\\n' CXX '$@'
\t@touch $@
c: a b
\t@printf '  %-8s %s\\n' LINK '$@'
\t@echo a warning
\t@exit {code}
"""


class Progress(unittest.TestCase):
    def build(self, code=0):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "Makefile").write_text(MAKEFILE.format(code=code))
            return subprocess.run([PROGRESS, "make", "--no-print-directory", "-C", folder], capture_output=True, text=True,
                                  timeout=60, check=False)

    def test_steps_are_counted(self):
        done = self.build()
        lines = done.stdout.splitlines()
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(lines[0], r"^building: 3 steps, seconds on \d+ processors?$")
        self.assertEqual(["[1/3] CXX a", "[2/3] CXX b", "[3/3] LINK c", "a warning"], lines[1:])

    def test_a_failure_is_passed_on(self):
        self.assertEqual(2, self.build(code=3).returncode)

    def test_time_left(self):
        self.assertEqual("", progress.time_left(0, 100, 0), "nothing is known yet")
        self.assertEqual("", progress.time_left(9, 100, 600), "too little is known")
        self.assertEqual(", 30 minutes left", progress.time_left(25, 100, 600))
        self.assertEqual("", progress.time_left(99, 100, 600), "less than a minute and a half")
        self.assertEqual("", progress.time_left(1, 0, 600), "more steps than were planned")

    def test_a_plan_of_the_real_makefile(self):
        """The estimate counts on lines that make prints in this form."""
        with tempfile.TemporaryDirectory() as folder:
            plan = progress.planned_steps(["make", "--no-print-directory", "-C", PROGRESS.parents[1], f"BUILD={folder}", "all"])
        self.assertGreater(plan.count("CXX"), 100)
        self.assertTrue(all(re.fullmatch("[A-Z]+", step) for step in plan), plan)


if __name__ == "__main__":
    unittest.main()
