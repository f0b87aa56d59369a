# SPDX-License-Identifier: Apache-2.0
"""The native heap in the agent alone: forked children, and other listeners to its probes."""

import json
import math
import os
import re
import signal
import subprocess
import tempfile
import unittest

from agent_process import AGENT, eventually, symbol
from c_process import FOLLOWING, LINKER_LOCKED, CProcess


class FollowedChildren(unittest.TestCase):
    """Forked children whose native heap memprofd asks to follow."""

    folder = "targets"

    def followed_children(self, n, attack=""):
        """The outcomes of n children, each of which answers."""
        target = CProcess(program="forks", folder=self.folder, attack=attack)
        self.addCleanup(target.process.kill)
        states = []
        for _ in range(n):
            child = json.loads(target.ask("fork"))["pid"]
            with target.forked(child) as forked:
                forked.watch(True)

                def answers():
                    forked.ask_for(512, generation=1)  # repeated: the child may still have been starting
                    return forked.heap()["generation"] == 1
                eventually(answers, "it answers")
                states.append(forked.heap()["state"])
                os.kill(child, signal.SIGKILL)
        self.assertEqual(0, target.close()[0])
        return states

    def test_they_are(self):
        self.assertEqual([FOLLOWING] * 2, self.followed_children(2))

    def test_those_without_a_request_have_no_hooks(self):
        target = CProcess(program="forks", folder=self.folder)
        self.addCleanup(target.process.kill)
        before = target.blocking_hooks()
        target.note_blocking_sections(target.heap_at if self.folder == "targets" else 64)
        target.watch(True)
        target.ask_for(512)
        eventually(lambda: target.heap()["state"] == FOLLOWING, "it follows")
        child = json.loads(target.ask("fork"))["pid"]
        with target.forked(child) as forked:
            eventually(lambda: forked.blocking_hooks() == before, "they are as they were")
        self.assertNotEqual(before, target.blocking_hooks())
        os.kill(child, signal.SIGKILL)
        self.assertEqual(0, target.close()[0])

    def test_not_those_that_would_hang(self):
        """A thread that does not exist in the child holds the dynamic linker's lock there."""
        self.assertIn(LINKER_LOCKED, self.followed_children(5, "hold-linker"))


class FollowedChildrenOfOcaml5(FollowedChildren):
    folder = "targets-trixie"


class OthersListen(unittest.TestCase):
    """The kernel's own tracing, which only relies on the contract of otel_memory."""

    GROUP = f"otel_{os.getpid()}"
    REGISTERS = {"alloc": "block=%di:x64 bytes=%si:u64 weight=%dx:u64", "free": "block=%di:x64"}

    def setUp(self):
        self.tracing = tempfile.mkdtemp()
        if subprocess.run(["mount", "-t", "tracefs", "none", self.tracing], capture_output=True).returncode != 0:
            os.rmdir(self.tracing)
            self.skipTest("no tracefs")
        self.addCleanup(os.rmdir, self.tracing)
        self.addCleanup(subprocess.run, ["umount", self.tracing], check=True)
        os.mkdir(f"{self.tracing}/instances/{self.GROUP}")
        self.addCleanup(os.rmdir, f"{self.tracing}/instances/{self.GROUP}")
        for name, registers in self.REGISTERS.items():
            offset = symbol(AGENT, f"memprof_c_{name}_probe")  # in the first segment, so address and file offset agree
            self.write("uprobe_events", f"p:{self.GROUP}/{name} {AGENT}:{offset:#x} {registers}")
            self.addCleanup(self.write, "uprobe_events", f"-:{self.GROUP}/{name}")

    def write(self, file, text):
        out = os.open(f"{self.tracing}/{file}", os.O_WRONLY | os.O_APPEND)
        os.write(out, f"{text}\n".encode())
        os.close(out)

    def trace_of(self, target, command):
        """{probe: [values]} of the events during a command of the program."""
        events = f"instances/{self.GROUP}/events/{self.GROUP}/enable"
        self.write(f"instances/{self.GROUP}/set_event_pid", str(target.pid))
        os.close(os.open(f"{self.tracing}/instances/{self.GROUP}/trace", os.O_WRONLY | os.O_TRUNC))
        self.write(events, "1")
        target.ask(command)
        self.write(events, "0")
        with open(f"{self.tracing}/instances/{self.GROUP}/trace") as trace:
            lines = [line for line in trace if f"-{target.pid} " in line]
        return {name: [[int(value, 0) for value in re.findall(r"=(\w+)", line)] for line in lines if f" {name}: (" in line]
                for name in self.REGISTERS}

    def test_they_hear_of_the_same_blocks(self):
        target = CProcess()
        self.addCleanup(target.close)
        target.follow(512)
        before = target.heap()
        told = self.trace_of(target, "leak 500 1000")
        self.assertEqual(target.heap()["samples"] - before["samples"], len(told["alloc"]))
        self.assertGreater(len(told["alloc"]), 300)
        self.assertEqual({1000}, {size for _, size, _ in told["alloc"]})
        self.assertEqual({0}, {weight % 512 for _, _, weight in told["alloc"]})
        # The weights add up to the allocated bytes.
        weight = sum(weight for *_, weight in told["alloc"])
        self.assertLess(abs(weight - 500_000), 5 * math.sqrt(500_000 * 512))
        told = self.trace_of(target, "kinds 100")
        self.assertEqual({block for block, *_ in told["alloc"]}, {block for block, in told["free"]})
        told = self.trace_of(target, "leak 100 100000")
        self.assertEqual({100_000}, {weight for *_, weight in told["alloc"]}, "it was as good as sure to be sampled")


if __name__ == "__main__":
    unittest.main()
