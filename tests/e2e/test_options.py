# SPDX-License-Identifier: Apache-2.0
"""Options and messages: what is wrong is said in words, what stands later counts."""

import subprocess
import unittest

import harness
from harness import BUILD, LIMIT, USAGE, E2ETest

LONGEST_MESSAGE = 250


def said_of(*options, program="memprofd", code=USAGE):
    done = subprocess.run([BUILD / program, *options], capture_output=True, text=True, timeout=harness.TIMEOUT)
    if done.returncode != code:
        raise AssertionError(f"{options}: ended with {done.returncode}: {done.stderr}")
    return done.stderr + done.stdout


class BadOptions(unittest.TestCase):
    def test_are_told_in_words(self):
        for options, words in ((("--pid", "0"), '"0" is no pid'), (("--pid", "abc"), '"abc" is no pid'),
                               (("--history.retention", "often"), "such as 90s, 5m or 2h"),
                               (("--history.memory=-1",), "-1"), (("--history.memory", "1KiB"), "not between 64.0 KiB"),
                               (("--ring-bytes", "3"), "not between 256 KiB and 1.00 GiB"),
                               (("--ring-bytes", "2147483648"), "not between 256 KiB and 1.00 GiB"),
                               (("--mode", "foo"), "none of auto, agent, observe"),
                               (("--capture", "2"), "none of auto, kernel, runtime"),
                               (("--trace.directory", "/nowhere"), "--trace.directory")):
            with self.subTest(options):
                said = said_of(*options)
                self.assertIn(words, said)
                self.assertLess(len(said), LONGEST_MESSAGE)

    def test_a_recording_without_end_is_not_begun_by_mistake(self):
        self.assertIn("above 0", said_of("record", "--pid", "1", "--duration", "0s", "--out", "/dev/null",
                                         program="memprofctl"))


class Options(E2ETest):
    def test_what_stands_later_counts(self):
        """As the options of /etc/default/memprofd come after those of the unit."""
        elsewhere = self.folder / "elsewhere.sock"
        daemon = self.daemon("--grpc.socket", elsewhere, "--history.retention", "5m", "--history.memory", "1.5G")
        self.assertFalse(daemon.socket.exists())
        self.assertEqual({}, {t["pid"]: t for t in harness.json.loads(
            harness.memprofctl("--grpc.socket", elsewhere, "targets", "-o", "json").stdout)["targets"]})

    def test_a_full_disk_is_no_internal_error(self):
        target = self.target("known_alloc")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        self.sample_on_command(daemon, target)
        done = daemon.ctl("sites", "--pid", target.pid, "--out", "/dev/full", check=False)
        self.assertEqual(LIMIT, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, "/dev/full", "No space left")


if __name__ == "__main__":
    unittest.main()
