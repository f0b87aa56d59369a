# SPDX-License-Identifier: Apache-2.0
"""Programs that exec while memprofd attaches."""

import random
import threading
import time
import unittest

import harness
from harness import E2ETest

OTHER = harness.BUILD / "targets" / "every_byte"
TRIES = 200 if harness.MATRIX else 25


class ExecDuringAttach(E2ETest):
    def attach_in_background(self, daemon, pid):
        thread = threading.Thread(target=daemon.attach, args=(pid,), kwargs={"check": False})
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def exec_after(self, daemon, seconds):
        """Attaches, and makes the program exec that long after the attach began."""
        target = self.target("execer")
        attach = self.attach_in_background(daemon, target.pid)
        time.sleep(seconds)
        target.send(f"exec {OTHER}")
        self.assertEqual(f"ready {target.pid}", target.read_line())
        attach.join()
        return target

    def check(self, *options):
        daemon = self.daemon(*options, rate=1e-5)
        chance = random.Random(7)
        for _ in range(TRIES):
            seconds = chance.uniform(0, 0.3)
            with self.subTest(seconds=seconds):
                target = self.exec_after(daemon, seconds)
                target.send("exit")
                self.assertEqual(("fine", 0), (target.read_line(), target.wait()))

    def test_the_other_program_is_unharmed(self):
        self.check()

    def test_the_other_program_is_unharmed_by_observe_mode(self):
        self.check("--mode", "observe")


if __name__ == "__main__":
    unittest.main()
