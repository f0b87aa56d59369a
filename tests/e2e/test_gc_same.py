# SPDX-License-Identifier: Apache-2.0
"""Kernel capture does not change the target's garbage collection."""

import unittest

from harness import E2ETest

RATE = 1e-4


class SameCollections(E2ETest):
    def work(self, name, argument, profiled):
        """(minor collections, major collections, heap words) and the checksum of one run."""
        target = self.target(name, argument)
        daemon = None
        if profiled:
            daemon = self.daemon("--capture", "kernel", "--pid", target.pid, rate=RATE)
        target.send("go")
        words = target.read_line(timeout=120).split()
        self.assertEqual("done", words[0])
        if daemon:
            samples = daemon.metrics().total("memprofd_samples_total", pid=target.pid, event="alloc")
            self.assertGreater(samples, 1_000, "the target was hardly sampled")
        target.exit()
        if daemon:
            daemon.stop()
        _, _, checksum, minor, major, heap = words
        return checksum, {"minor": int(minor), "major": int(major), "heap words": int(heap)}

    def check(self, name, argument):
        plain_sum, plain = self.work(name, argument, profiled=False)
        profiled_sum, profiled = self.work(name, argument, profiled=True)
        self.assertEqual(plain_sum, profiled_sum)
        for what, count in plain.items():
            self.assertAlmostEqual(count, profiled[what], delta=max(0.005 * count, 1 if count < 200 else 0),
                                   msg=f"{name}: {what}")

    def test_churn(self):
        self.check("churn", 400_000_000)

    def test_live_heap(self):
        self.check("live_heap", 1_500_000)

    def test_deep(self):
        self.check("deep", 100_000_000)

    def test_c_heavy(self):
        self.check("c_heavy", 200_000)


if __name__ == "__main__":
    unittest.main()
