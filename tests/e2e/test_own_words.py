# SPDX-License-Identifier: Apache-2.0
"""What memprofd prints and takes for itself: text of programs is made printable, limits are raised."""

import re
import unittest

import harness
from harness import E2ETest


class OwnWords(E2ETest):
    def test_a_name_cannot_write_to_the_terminal(self):
        """Neither on standard output nor in the log, and it makes no line of its own."""
        (self.folder / '\x1b[31mE\nx"y').symlink_to(harness.TARGETS / "known_alloc")
        target = self.target('\x1b[31mE\nx"y', folder=self.folder)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        harness.eventually(lambda: len(daemon.output) == 2, "it has said what it has attached to")
        self.assertRegex(daemon.said(), r"\A[\n\x20-\x7e\u00a0-\uffff]*\Z")
        self.assertRegex(daemon.output[0], rf"^pid {target.pid}: .*E.x\"y \(OCaml ")

    def test_as_many_descriptors_as_it_may_have(self):
        daemon = self.daemon(prefix=["prlimit", "--nofile=512:4096"])
        with open(f"/proc/{daemon.pid}/limits", encoding="utf-8") as limits:
            soft, hard = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits.read()).groups()
        self.assertEqual(("4096", "4096"), (soft, hard))


if __name__ == "__main__":
    unittest.main()
