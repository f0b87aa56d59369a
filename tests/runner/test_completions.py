# SPDX-License-Identifier: Apache-2.0
"""bash completes the commands and options that the programs' help lists."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MEMPROFD_BUILD", ROOT / "build")).resolve()
# Calls the completion function as bash does. Arguments: the script, the program, the words of the line.
ASK = """set -eu; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _$1; printf '%s\\n' "${COMPREPLY[@]}" """
TARGETS = "#!/bin/sh\necho '    PID  PROGRAM'\necho '   4242  shop'\necho ' 137000  mail'\n"


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="memprofd-test-")))
        subprocess.run([ROOT / "deploy/completions.py", BUILD, cls.folder / "made"], check=True)
        fake = cls.folder / "bin/memprofctl"
        fake.parent.mkdir()
        fake.write_text(TARGETS)
        fake.chmod(0o755)
        (cls.folder / "work/traces").mkdir(parents=True)
        (cls.folder / "work/a.ctf").touch()

    def completed(self, program, *words):
        """The completions of a line with the cursor at the end of its last word, which may be empty."""
        done = subprocess.run(["bash", "-c", ASK, "bash", self.folder / "made" / program, program, *words], check=True,
                              env=dict(os.environ, PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}"),
                              cwd=self.folder / "work", capture_output=True, text=True)
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(["targets", "top", "trace", "trace-calls"], sorted(self.completed("memprofctl", "t")))
        self.assertEqual(["record", "dump", "start", "stop", "list"], self.completed("memprofctl", "trace", "")[:5])
        self.assertEqual(["watch", "history", "set", "call", "resume"], self.completed("memprofctl", "values", "")[:5])

    def test_every_option_in_the_help(self):
        for program, *command in (["memprofd"], ["memprofctl"], ["memprofctl", "report"], ["memprofctl", "snapshot", "take"]):
            option = "--help-all" if [program, *command] == ["memprofctl"] else "--help"
            help_text = subprocess.run([BUILD / program, *command, option], check=True, capture_output=True, text=True).stdout
            names = {name for line in help_text.splitlines() if line.startswith("  -")
                     for name in line.split()[0].split(",") if name.startswith("--")}
            self.assertGreater(len(names), 1)
            self.assertEqual(names, set(self.completed(program, *command, "--")))

    def test_choices_of_an_option(self):
        self.assertEqual(["table", "json"], self.completed("memprofctl", "targets", "-o", ""))
        self.assertEqual(["debug"], self.completed("memprofd", "--log.level", "d"))
        with self.subTest("the shell takes --option=value apart"):
            self.assertEqual(["table", "json"], self.completed("memprofctl", "targets", "--output", "="))
            self.assertEqual(["json"], self.completed("memprofctl", "targets", "--output", "=", "j"))

    def test_targets_and_trace_files(self):
        self.assertEqual(["137000", "4242", "a.ctf", "traces"], sorted(self.completed("memprofctl", "report", "")))
        self.assertEqual(["4242"], self.completed("memprofctl", "detach", "4"))

    def test_processes(self):
        self.assertIn(str(os.getpid()), self.completed("memprofctl", "attach", ""))
        self.assertIn(str(os.getpid()), self.completed("memprofd", "--pid", ""))

    def test_files_and_folders(self):
        self.assertEqual(["a.ctf"], self.completed("memprofctl", "trace", "dump", "a"))
        self.assertEqual(["traces"], self.completed("memprofd", "--trace.directory", ""))

    def test_nothing_of_a_free_text(self):
        self.assertEqual([], self.completed("memprofctl", "report", "--match", "x"))


if __name__ == "__main__":
    unittest.main()
