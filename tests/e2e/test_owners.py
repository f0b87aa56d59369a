# SPDX-License-Identifier: Apache-2.0
"""One memprofd per target, even if two cannot see each other's sockets, or another process takes
the name."""

import signal
import sys
import unittest

import harness
from harness import BUSY, E2ETest, Process, start_ticks

RATE = 1e-3
# Binds the abstract name of a target's lock, and listens if asked to.
SQUATTER = """
import socket, sys
name, listens = sys.argv[1], sys.argv[2] == "listen"
taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
taken.bind("\\0" + name)
if listens:
    taken.listen(0)
print("ready", flush=True)
sys.stdin.read()
"""
# Enables the loopback device of its network namespace, and execs the program that follows.
WITH_LOOPBACK = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
os.execv(sys.argv[1], sys.argv[1:])
"""


class Owners(E2ETest):
    def setUp(self):
        super().setUp()
        self.known = self.target("known_alloc")

    def assert_sampled_by(self, memprofd):
        self.sample_on_command(memprofd, self.known)
        self.assertEqual("sampling", memprofd.state(self.known.pid))

    def elsewhere(self):
        """A memprofd in its own network namespace; only its Unix socket is reachable."""
        memprofd = self.daemon(rate=RATE, wait=False, prefix=["unshare", "--net", sys.executable, "-c", WITH_LOOPBACK])
        harness.eventually(lambda: memprofd.ctl("targets", check=False).returncode == harness.OK, "it answers")
        return memprofd

    def test_two_in_different_network_namespaces(self):
        here, there = self.daemon(rate=RATE), self.elsewhere()
        here.attach(self.known.pid)
        self.assert_sampled_by(here)
        refused = there.attach(self.known.pid, check=False)
        self.assertEqual(BUSY, refused.returncode, refused.stderr)
        self.assert_one_line(refused.stderr, f"memprofd (pid {here.pid})")
        self.assert_sampled_by(here)
        self.assertNotIn("starting again", here.said())
        here.detach(self.known.pid)
        there.attach(self.known.pid)
        self.assert_sampled_by(there)
        self.assertEqual(BUSY, here.attach(self.known.pid, check=False).returncode)
        self.assert_sampled_by(there)

    def test_one_that_was_killed_is_followed_by_the_other(self):
        here, there = self.daemon(rate=RATE), self.elsewhere()
        here.attach(self.known.pid)
        self.assert_sampled_by(here)
        here.stop(signal.SIGKILL)
        there.attach(self.known.pid)
        self.assert_sampled_by(there)

    def squatted(self, how):
        name = f"memprofd/{self.known.pid}/{start_ticks(self.known.pid)}"
        squatter = self.process(Process(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                                         sys.executable, "-c", SQUATTER, name, how]))
        self.assertEqual("ready", squatter.read_line())

    def test_another_user_cannot_take_the_name(self):
        for how in ("listen", "do not listen"):
            with self.subTest(how):
                self.known = self.target("known_alloc")
                self.squatted(how)
                memprofd = self.daemon(rate=RATE)
                memprofd.attach(self.known.pid)
                self.assert_sampled_by(memprofd)
                second = self.daemon(rate=RATE)
                self.assertEqual(BUSY, second.attach(self.known.pid, check=False).returncode)


if __name__ == "__main__":
    unittest.main()
