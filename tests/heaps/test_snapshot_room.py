# SPDX-License-Identifier: Apache-2.0
"""Snapshots in a control group with limited memory. memprofd takes none if the pages that the program may write
meanwhile do not fit. Otherwise the program survives, whatever it writes."""

import unittest

import harness
from containers import MemoryLimit
from harness import LIMIT, TARGETS4, TARGETS5, children, proc_status
from heap_copies import Snapshot, image
from heap_copies import Snapshot, image

MIB = 100


class Room(Snapshot):
    programs = TARGETS4

    def limited(self):
        """A program whose whole heap is charged to a control group with a memory limit."""
        limit = MemoryLimit(2_000)
        self.addCleanup(limit.remove)
        target = self.target("large_heap", folder=self.programs)
        self.addCleanup(target.kill)  # runs before the group is removed
        limit.put(target.pid)
        target.command(f"fill {MIB}")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        return limit, target, daemon

    def anonymous_bytes(self, pid):
        return int(proc_status(pid, "RssAnon").split()[0]) << 10

    def test_it_is_refused_without_room_and_taken_with_it(self):
        limit, target, daemon = self.limited()
        size = self.anonymous_bytes(target.pid)
        self.assertGreater(limit.usage(), MIB << 20)
        limit.set(limit.usage() + size // 2)
        path, done = self.take(daemon, "--pid", target.pid, check=False)
        self.assertEqual(LIMIT, done.returncode, done.stdout)
        self.assert_one_line(done.stderr, f"a snapshot of pid {target.pid} may need", f"its cgroup /{limit.folder.name} has room for",
                             "raise its memory limit")
        self.assertFalse(path.exists())
        self.assertEqual([], children(target.pid))
        self.assertEqual(1, daemon.metrics().value("memprofd_heap_snapshots_total", outcome="no_room"))
        limit.set(limit.usage() + size + size // 4)
        # A full collection writes to every block, so that every page exists twice.
        collect = f"fill {MIB}"
        most = 0

        def work():
            nonlocal most
            target.command(collect)
            most = max(most, limit.usage())
        taker = self.take_while(daemon, work)
        self.assertEqual(0, taker.wait(), taker.stderr())
        self.assertTrue(image(path)["complete"])
        target.command(collect)
        self.check_unharmed(target)
        harness.NOTES.append(f"heap and copy took {most >> 20} MiB, the program {size >> 20} MiB")

    def assert_works_on(self, target):
        self.assertGreater(target.command(f"fill {MIB}")["live_mb"], MIB // 2)


class Room5(Room):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
