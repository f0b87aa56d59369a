# SPDX-License-Identifier: Apache-2.0
"""A program that allocates native blocks at known lines, and a memprofd that follows it."""

import math
import os
import pathlib

from harness import TARGETS, E2ETest, eventually, settled

INTERVAL = 4096
SOURCE = pathlib.Path(__file__).resolve().parents[1] / "targets/memory/c_memory.ml"


def line_of(text):
    return next(i for i, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


class CProgram(E2ETest):
    programs = TARGETS
    options = ()

    @property
    def ocaml5(self):
        return (self.programs / "domains").exists()

    def setUp(self):
        super().setUp()
        self.program = self.start()
        self.memprofd = self.daemon("--pid", self.program.pid, "--c-heap-interval", INTERVAL, *self.options, rate=1e-3)
        self.wait_until_followed()

    def start(self):
        return self.target("c_memory", folder=self.programs)

    def c_bytes(self, metric="memprofd_live_c_bytes", **labels):
        found = self.memprofd.metrics().find(metric, pid=self.program.pid, **labels)
        return found[0].value if found else 0

    def allocated(self):
        return self.c_bytes("memprofd_allocated_bytes_total", heap="c")

    def wait_until_followed(self):
        before = self.allocated()

        def followed():
            self.program.command("minor")
            self.program.command("kinds 100")
            return self.allocated() > before
        eventually(followed, "C's memory is followed")

    def c_sites(self, *options):
        settled(self.allocated, "what C has allocated")
        self.all_c_sites = self.memprofd.ctl_json("sites", "--pid", self.program.pid, "--heap", "c", *options)["sites"]
        return {site["function"]: site for site in self.all_c_sites}

    def assert_c_estimate(self, site, measure, exact):
        """Checks an estimate of blocks of at least 1,000 bytes: one sample stands for at most one interval."""
        error = math.sqrt(exact * INTERVAL)
        self.assertLess(abs(site[measure] - exact), 4.5 * error, f"{measure} of {site['function']}: {exact} exactly")

    def drops(self, reason):
        metrics = self.memprofd.metrics()
        return metrics.total("memprofd_dropped_events_total", reason=reason) + \
            metrics.total("memprofd_given_up_events_total", reason=reason)
