# SPDX-License-Identifier: Apache-2.0
"""Lifetimes of blocks whose births and deaths a program does on command, some of which live on."""

import time
import unittest

from harness import TARGETS, TARGETS5, E2ETest, eventually, sum_sites

RATE = 1e-3
BUCKET = 2 ** 0.5  # between the ends of a bucket of lifetimes


class Lifetimes(E2ETest):

    def setUp(self):
        super().setUp()
        self.program = self.target("known_alloc")
        self.memprofd = self.daemon("--pid", self.program.pid, rate=RATE)
        self.sample_on_command(self.memprofd, self.program)
        self.born = [0.0, 0.0]

    def allocate(self):
        """The blocks of site_live, and the earliest and latest moment of their births."""
        begin = time.monotonic()
        self.program.command("go 1", timeout=60)
        self.born = [begin, time.monotonic()]

    def let_live(self, seconds):
        eventually(lambda: time.monotonic() - self.born[1] >= seconds, "the blocks are old enough")

    def drop(self):
        """The least and the greatest age at which they are found dead."""
        least = time.monotonic() - self.born[1]
        self.program.command("drop")
        for _ in range(2):
            self.program.command("full", timeout=60)
        return least, time.monotonic() - self.born[0]

    def lifetimes(self):
        sites = [s for s in self.memprofd.settled_sites(self.program.pid) if s["function"].endswith("site_live")]
        self.assertEqual(1, len(sites))
        return sites[0]["lifetime_seconds"]

    def test_what_lives_on_is_said_to_live_longer_than_it_has(self):
        self.allocate()
        self.let_live(3)
        before = time.monotonic() - self.born[0]

        def is_seen():
            lifetimes = self.lifetimes()
            self.assertGreaterEqual(lifetimes["watched"], 3 / BUCKET)
            return lifetimes

        of = eventually(is_seen, "their age is known though the program stands still")
        after = time.monotonic() - self.born[0]
        self.assertGreaterEqual(after, before)
        self.assertLessEqual(of["watched"], after)
        self.assertEqual((0, 1, None, None, None, None), (of["samples"], of["alive_ratio"], of["p50"], of["p90"], of["p99"],
                                                         of["p50_upper"]))
        self.assertGreater(of["p50_lower"], 1, "many have lived so long")
        report = self.memprofd.ctl("report", "--pid", self.program.pid).stdout
        self.assertRegex(report, r"lifetime > [\d.]+ s: nothing was seen to die, 100 % alive")
        table = self.memprofd.ctl("sites", "--pid", self.program.pid, "--match", "site_live").stdout
        self.assertRegex(table, r"> [\d.]+ s \(100 %\)")

        least, greatest = self.drop()
        of = self.lifetimes()
        self.assertEqual(0, of["alive_ratio"])
        for name in ("p50", "p99"):
            self.assertGreaterEqual(of[name], least / BUCKET)
            self.assertLessEqual(of[name], greatest * BUCKET)
        self.assertLessEqual(of["p50_lower"], greatest)
        self.assertGreaterEqual(of["p50_upper"], least)

    def test_a_rate_change_forgets_no_age(self):
        """A third lives longer than 4 s, what is known of two thirds is that they died at 1 s."""
        self.allocate()
        self.let_live(4)
        self.lifetimes()
        self.memprofd.set_rate(self.program.pid, RATE / 2)
        self.sample_on_command(self.memprofd, self.program)
        ages = []
        for _ in range(2):
            self.allocate()
            self.let_live(1)
            ages.append(self.drop())
        of = self.lifetimes()
        self.assertEqual(0, of["alive_ratio"], "of them nothing is followed any more")
        self.assertGreaterEqual(of["p50"], ages[0][0] / BUCKET)
        self.assertLessEqual(of["p50"], max(greatest for _, greatest in ages) * BUCKET)
        self.assertIsNone(of["p90"])
        self.assertIsNone(of["p90_upper"])
        self.assertGreaterEqual(of["watched"], 4 / BUCKET)
        # In a range after the change nothing of what was before.
        seconds = time.monotonic() - self.born[1]
        of = self.memprofd.ctl_json("sites", "--pid", self.program.pid, "--match", "site_live", "--last",
                                    f"{seconds + 1.5:.0f}s")["sites"][0]["lifetime_seconds"]
        self.assertIsNotNone(of["p90"])


class OverRateChanges(E2ETest):
    """What was sampled before a change of the rate. site_live keeps 1,000,000 words, those of its last round."""
    WORDS = 1_000_000

    def set_rate(self, memprofd, program, rate):
        memprofd.set_rate(program.pid, rate)
        self.sample_on_command(memprofd, program)

    def check(self, folder):
        program = self.target("known_alloc", folder=folder)
        memprofd = self.daemon("--pid", program.pid, rate=1e-2)
        site = lambda: sum_sites(memprofd.settled_sites(program.pid), "site_live")
        self.sample_on_command(memprofd, program)
        program.command("go 1", timeout=60)
        before = site()
        self.assert_estimate("live", before["live_bytes"], self.WORDS, 1e-2)
        self.set_rate(memprofd, program, 1e-3)
        self.assertEqual((0, before["allocated_bytes"]), (site()["live_bytes"], site()["allocated_bytes"]))
        self.assertGreater(memprofd.metrics().total("memprofd_given_up_events_total", reason="session_end"), 0)
        # Deaths of what is forgotten do not come off what is live now.
        program.command("go 1", timeout=60)
        program.command("full", timeout=60)
        self.assert_estimate("live", site()["live_bytes"], self.WORDS, 1e-3)

    def test_ocaml4_forgets_it(self):
        self.check(TARGETS)

    def test_ocaml5_forgets_it(self):
        self.check(TARGETS5)


if __name__ == "__main__":
    unittest.main()
