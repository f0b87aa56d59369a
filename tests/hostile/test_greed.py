# SPDX-License-Identifier: Apache-2.0
"""A user of the socket requests everything from memprofd; others and root still get answers."""

import os
import sys
import unittest

from harness import Process, eventually
from hostile_case import ATTACKER, HostileTest, as_user

# Runs as ATTACKER: starts `calls` calls at once, of a method with a pid in field 1, on several
# connections. It prints "sent", then the code of each call when it ends, and ends with its input.
CALLS = """
import sys, grpc
socket, method, calls, pid = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def varint(n):
    out = b""
    while n > 127: out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])
channels = [grpc.insecure_channel("unix:" + socket, options=[("number", i)]) for i in range(calls // 10 + 1)]
futures = []
for i in range(calls):
    call = channels[i // 10].unary_unary(method, request_serializer=lambda b: b, response_deserializer=lambda b: b)
    futures.append(call.future(b"\\x08" + varint(pid), timeout=120))
    futures[-1].add_done_callback(lambda f: sys.stdout.write((f.code().name if f.code() else "?") + "\\n"))
sys.stdout.write("sent\\n")
sys.stdin.read()
"""


class Greed(HostileTest):
    def setUp(self):
        super().setUp()
        os.chown(self.memprofd.socket, 0, ATTACKER)
        self.memprofd.socket.parent.chmod(0o755)

    def ask_for(self, method, calls, pid):
        script = self.folder / "calls.py"
        script.write_text(CALLS)
        return self.process(Process([*as_user(ATTACKER), sys.executable, "-u", script, self.memprofd.socket,
                                     f"/memprof.v1.{method}", calls, pid], cwd="/"))

    def said(self, process, word):
        """How often it has printed the word so far."""
        return sum(line.strip() == word for line in list(process.output))

    def refused(self, process, at_least):
        eventually(lambda: self.said(process, "RESOURCE_EXHAUSTED") >= at_least, "calls are refused")

    def test_calls_that_wait(self):
        """Calls wait up to 30 s for the safe point of a program that allocates nothing."""
        idle = self.guest("known_alloc")  # allocates on command
        self.memprofd.attach(idle.pid)
        self.sample_on_command(self.memprofd, idle)
        calls = self.ask_for("Heaps/DescribeHeap", 110, idle.pid)
        self.refused(calls, at_least=10)
        for _ in range(12):
            self.memprofd.ctl("targets")
        self.memprofd.ctl("rss", "--pid", self.bystander.pid)
        self.memprofd.detach(idle.pid)
        self.refused(calls, at_least=80)
        calls.kill()
        self.assert_memprofd_is_well()

    def test_refused_calls_do_not_fill_the_log(self):
        before = len(self.memprofd.stderr().splitlines())
        calls = self.ask_for("Profiler/Detach", 500, self.bystander.pid)
        eventually(lambda: len(calls.output) >= 501, "all are answered")
        self.assertLessEqual({line.strip() for line in calls.output},
                             {"sent", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"})
        lines = [line for line in self.memprofd.stderr().splitlines()[before:] if "refused" in line]
        self.assertLess(len(lines), 30)
        self.assertGreater(self.memprofd.metrics().total("memprofd_unlogged_requests_total"), 0)
        self.assert_memprofd_is_well()

    def test_what_memprofd_says_of_other_programs(self):
        calls = self.ask_for("Profiler/Diagnose", 1, self.bystander.pid)
        eventually(lambda: self.said(calls, "PERMISSION_DENIED") == 1, "it is not told of another user's program")


if __name__ == "__main__":
    unittest.main()
