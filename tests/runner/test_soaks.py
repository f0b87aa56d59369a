# SPDX-License-Identifier: Apache-2.0
"""Reports of failed soaks: a soak takes hours, so its report must contain everything."""

import contextlib
import io
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "soak"))

import soak  # noqa: E402 (of tests/soak)
import soak_command  # noqa: E402


class Daemon:
    def said(self):
        return "what it has logged"

    def ctl(self, *_, **__):
        return types.SimpleNamespace(stdout="its targets")

    def kill(self):
        self.killed = True


def fail(_):
    raise AssertionError("the reason")


class Soaks(unittest.TestCase):
    def told(self, daemon):
        def soak_in(folder):
            made = soak.Soak(types.SimpleNamespace(BUILD=pathlib.Path(folder)), folder, seed=1)
            made.daemon, made.doing = daemon, "attach_or_detach"
            return made
        with contextlib.redirect_stdout(io.StringIO()) as out, self.assertRaises(SystemExit) as end:
            soak_command.run("soak", "a minute", soak_in, fail)
        self.assertEqual(1, end.exception.code)
        return out.getvalue()

    def test_the_log_and_the_reason_are_reported(self):
        daemon = Daemon()
        told = self.told(daemon)
        for part in ("what it has logged", "its targets", "soak: failed in attach_or_detach: the reason"):
            self.assertIn(part, told)
        self.assertTrue(daemon.killed)

    def test_one_that_fails_before_memprofd_runs_says_why(self):
        told = self.told(None)
        self.assertIn("memprofd has not begun", told)
        self.assertIn("the reason", told)


if __name__ == "__main__":
    unittest.main()
