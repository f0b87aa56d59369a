# SPDX-License-Identifier: Apache-2.0
"""While one thread of memprofd hangs, targets are still sampled, and requests report the state."""

import contextlib
import ctypes
import os
import pathlib
import time
import unittest

import harness
from harness import UNAVAILABLE, E2ETest, eventually, sum_sites

RATE = 1e-3
ANNOUNCE_PATIENCE = 3  # above kAnnouncePatience
LEASE_NS = 15_000_000_000  # AgentControl::kLeaseNs

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def thread_named(pid, name):
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (thread / "comm").read_text().strip() == name:
            return int(thread.name)
    raise AssertionError(f"pid {pid} has no thread {name}")


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) != 0:
        raise AssertionError(f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def stopped_thread(pid, name):
    """The thread of that name is stopped within the block."""
    thread = thread_named(pid, name)
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    eventually(lambda: os.waitpid(thread, os.WNOHANG | WALL)[0] == thread, f"{name} stands still")
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, thread)


class Stalls(E2ETest):
    def setUp(self):
        super().setUp()
        self.known = self.target("known_alloc")
        self.memprofd = self.daemon("--pid", self.known.pid, rate=RATE)
        self.sample_on_command(self.memprofd, self.known)

    def samples(self):
        return sum_sites(self.memprofd.sites(self.known.pid), "site_small")["samples"]

    def assert_fresh(self):
        before = self.samples()
        self.known.command("go 1")
        eventually(lambda: self.samples() > before, "its numbers go on")

    def test_control_thread(self):
        """Stops it longer than a lease."""
        with stopped_thread(self.memprofd.pid, "control"):
            lease_ends = time.monotonic_ns() + LEASE_NS
            told = self.memprofd.set_rate(self.known.pid, 2 * RATE, check=False)
            self.assertEqual(UNAVAILABLE, told.returncode, told.stderr)
            self.assert_one_line(told.stderr, "memprofd has not done this", "memprofctl targets")
            eventually(lambda: time.monotonic_ns() > lease_ends, "every lease of before has run out")
            self.assert_fresh()
        # The late request is done, and no session restarts.
        eventually(lambda: self.memprofd.targets()[self.known.pid]["sampling_rate"] == 2 * RATE, "the new rate")
        self.sample_on_command(self.memprofd, self.known)
        self.assert_fresh()
        self.assertNotIn("starting again", self.memprofd.said())

    def test_ingest_thread(self):
        """Answers report that their numbers are old, and the control thread continues."""
        other = self.target("known_alloc")
        self.memprofd.attach(other.pid)
        with stopped_thread(self.memprofd.pid, "ingest"):
            eventually(lambda: " s old: " in self.memprofd.targets()[self.known.pid]["message"], "they are old")
            self.memprofd.set_rate(self.known.pid, 2 * RATE)
            self.memprofd.detach(other.pid)
            self.memprofd.attach(other.pid)
            other.command("go 1")
            taken = self.memprofd.metrics().value("memprofd_snapshot_timestamp_seconds", pid=self.known.pid)
            self.assertLess(taken, time.time() - 5)
            self.assertGreater(self.memprofd.targets()[self.known.pid]["snapshot_age_seconds"], 5)
            announced = time.monotonic() + ANNOUNCE_PATIENCE
            eventually(lambda: time.monotonic() > announced, "the agent has long announced its session")
        eventually(lambda: " s old: " not in self.memprofd.targets()[self.known.pid]["message"], "they are of now")
        self.sample_on_command(self.memprofd, other)
        self.memprofd.set_rate(self.known.pid, 3 * RATE)
        self.sample_on_command(self.memprofd, self.known)
        self.assert_fresh()
        taken = self.memprofd.metrics().value("memprofd_snapshot_timestamp_seconds", pid=self.known.pid)
        self.assertGreater(taken, time.time() - 5)


if __name__ == "__main__":
    unittest.main()
