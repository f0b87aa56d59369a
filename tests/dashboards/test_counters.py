# SPDX-License-Identifier: Apache-2.0
"""A target's counters never decrease while it is profiled: Prometheus would take the whole new value for growth."""

import re
import unittest

from harness import E2ETest, eventually


class Counters(E2ETest):
    def setUp(self):
        super().setUp()
        self.programs = [self.target("demo_server", "--self-load", "3"), self.target("busy_threads")]
        self.last = {}

    def begin(self):
        return self.daemon("--state.directory", self.folder / "state",
                           *(word for program in self.programs for word in ("--pid", program.pid)), rate=1e-3)

    def scrape(self):
        """Compares with all earlier scrapes; returns the number of counters that increased."""
        metrics, forward = self.memprofd.metrics(), 0
        for sample in metrics.samples:
            family = re.sub("_(bucket|count|sum)$", "", sample.name)
            counts = metrics.types.get(sample.name) == "counter" or metrics.types.get(family) == "histogram"
            if not counts or "pid" not in sample.labels:
                continue
            series = (sample.name, *sorted(sample.labels.items()))
            before = self.last.get(series, 0)
            self.assertGreaterEqual(sample.value, before * (1 - 1e-12), series)
            self.last[series] = sample.value
            forward += sample.value > before
        return forward

    def watch(self, what):
        self.scrape()  # fails if a counter decreases, now or in a later scrape
        for _ in range(3):
            eventually(lambda: self.scrape() > 50, f"counters go forward after {what}")

    def test_whatever_changes(self):
        self.memprofd = self.begin()
        self.watch("the attach")
        for program in self.programs:
            for rate in ("1e-2", "1e-4", "1e-3"):
                self.memprofd.ctl("rate", rate, "--pid", program.pid, "--max-overhead", "none")
                self.watch(f"a rate of {rate}")
        self.memprofd.ctl("rate", "1e-2", "--pid", self.programs[0].pid, "--max-overhead", "1%")
        self.watch("a budget")
        for _ in range(2):
            self.memprofd.stop()
            self.memprofd = self.begin()
            self.watch("a restart")
        self.assertGreater(len(self.last), 150)


if __name__ == "__main__":
    unittest.main()
