# SPDX-License-Identifier: Apache-2.0
"""memprofd --rules: limits of the memory of running programs."""

import re
import signal
import unittest

from harness import E2ETest, USAGE, eventually, http_get

RATE = 1e-3


class Rules(E2ETest):
    def start(self, rules, *options):
        self.rules = self.folder / "rules.yaml"
        self.rules.write_text(rules)
        target = self.target("ends")
        daemon = self.daemon("--pid", target.pid, "--rules", self.rules, *options, rate=RATE)
        eventually(lambda: self.hold(target, 0) or daemon.state(target.pid) == "sampling", "it is sampled")
        return target, daemon

    def hold(self, target, mib):
        target.send(f"hold {mib}")
        self.assertEqual("held", target.read_line())

    def violations(self, daemon):
        """The metric by rule."""
        found = re.findall(r'(?m)^memprofd_assertion_violations{[^}]*rule="([^"]*)"} (\d)', str(http_get(daemon.url + "/metrics")[1]))
        return {rule: int(value) for rule, value in found}

    def test_a_broken_rule_is_logged_and_exported(self):
        target, daemon = self.start("rules:\n  - max-live: 10MiB\n    of: Ends\\.hold\n    name: held\n"
                                    "  - max-live: 1GiB\n    name: all\n  - max-live: 0\n    program: other\n    name: of others\n")
        eventually(lambda: self.violations(daemon) == {"held": 0, "all": 0}, "rules are checked")
        self.hold(target, 20)
        eventually(lambda: self.violations(daemon) == {"held": 1, "all": 0}, "the rule is broken")
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: ends breaks the rule held: live <= 10.0 MiB of Ends\\+\.hold: "
                                          r"\d\S* MiB.*certainly at least 1\d.* MiB; most of it: ")

    def test_the_file_is_read_again(self):
        target, daemon = self.start("rules:\n  - max-live: 1GiB\n    name: one\n")
        self.hold(target, 20)
        eventually(lambda: self.violations(daemon) == {"one": 0}, "the rule is checked")
        self.rules.write_text("rules:\n  - max-live: 1MiB\n    name: two\n")
        daemon.send_signal(signal.SIGHUP)
        eventually(lambda: self.violations(daemon) == {"two": 1}, "the new rule is checked")
        self.rules.write_text("rules:\n  - max-life: 1MiB\n")
        daemon.send_signal(signal.SIGHUP)
        eventually(lambda: "line 2: unexpected max-life" in daemon.stderr(), "the bad file is logged")
        self.assertEqual({"two": 1}, self.violations(daemon))

    def test_a_broken_rule_takes_one_snapshot(self):
        heaps = self.folder / "heaps"
        heaps.mkdir(mode=0o700)
        target, daemon = self.start("rules:\n  - max-live: 10MiB\n    name: held\n    snapshot: true\n",
                                    "--snapshot.directory", heaps, "--snapshot.interval", "0")
        eventually(lambda: self.violations(daemon) == {"held": 0}, "the rule is checked")
        self.assertEqual([], list(heaps.iterdir()))
        self.hold(target, 20)
        eventually(lambda: list(heaps.glob("*.heap")), "a snapshot is taken")
        self.assertIn("snapshot (rule held)", daemon.stderr())

    def test_a_bad_file_is_refused_at_the_start(self):
        rules = self.folder / "rules.yaml"
        for text, words in (("rules: 3\n", "is not one list named rules"),
                            ("rules:\n  - max-live: 1MiB\n    snapshot: true\n", "give --snapshot.directory")):
            with self.subTest(text):
                rules.write_text(text)
                daemon = self.daemon("--rules", rules, wait=False)
                self.assertEqual(USAGE, daemon.wait())
                self.assertIn(words, daemon.stderr())


if __name__ == "__main__":
    unittest.main()
