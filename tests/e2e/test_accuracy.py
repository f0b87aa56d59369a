# SPDX-License-Identifier: Apache-2.0
"""Many rounds of programs with known allocations, pooled: no bias, correct errors, intervals that
hold.

One run cannot show a bias of some percent or an error that is half as large as it should be; the
pool of all runs does. The table of docs/internals/accuracy.md covers many simulated programs; this
test shows the same for a real one.
"""

import math
import re
import statistics
import unittest

from harness import TARGETS, TARGETS5, E2ETest, eventually

SITES = ("site_small", "site_live", "site_major", "site_bytes", "site_promoted", "site_unmarshal")
PROMOTED = ("site_live", "site_promoted")
ROUNDS = 15
MIB = 1 << 20


def sum_of(sites, function):
    """Sum of all sites of that function, with error and limits; the distances to the limits add up
    as errors do."""
    chosen = [site for site in sites if re.search(rf"(^|[._]){function}(_\d+)?$", site["function"])]
    total = {}
    for name in ("allocated_bytes", "promoted_bytes", "live_bytes"):
        total[name] = sum(site[name] for site in chosen)
        total[f"{name}_stderr"] = math.hypot(*(site[f"{name}_stderr"] for site in chosen))
        total[f"{name}_lower"] = total[name] - math.hypot(*(site[name] - site[f"{name}_lower"] for site in chosen))
        total[f"{name}_upper"] = total[name] + math.hypot(*(site[f"{name}_upper"] - site[name] for site in chosen))
    return total


class Accuracy(E2ETest):
    def follow(self, folder, rate):
        """For each round, estimates and truth of each site."""
        target = self.target("known_alloc", folder=folder)
        daemon = self.daemon("--pid", target.pid, rate=rate)
        self.sample_on_command(daemon, target)
        for _ in range(ROUNDS):
            truth = target.command("go 1", timeout=60)["sites"]
            target.command("full", timeout=60)
            told = daemon.settled_sites(target.pid)
            self.assertEqual(0, daemon.targets()[target.pid]["dropped_events"])
            yield {site: (sum_of(told, site), truth[site]) for site in SITES}

    def z_values(self, rounds, measure, sites, rate=None):
        """(estimate - truth) / error for the increment of each round; rounds are independent. If
        few samples are expected, the estimated error is small whenever the samples are too few;
        with a rate, the error of the truth is used instead."""
        values = []
        for site in sites:
            before = (0.0, 0.0, 0.0)
            for seen in rounds:
                told, exact = seen[site]
                now = (told[f"{measure}_bytes"], exact[f"{measure}_words"] * 8, told[f"{measure}_bytes_stderr"] ** 2)
                said, true, variance = (a - b for a, b in zip(now, before))
                before = now
                if rate:
                    variance = true * 8 / rate
                if variance > 0:
                    values.append((said - true) / math.sqrt(variance))
        return values

    def assert_standard(self, what, values):
        """Values are standard normal, within 3.5 of their own errors."""
        n = len(values)
        self.assertGreater(n, 2 * ROUNDS - 1, what)
        mean, deviation = statistics.fmean(values), math.sqrt(statistics.fmean(z * z for z in values))
        self.assertLess(abs(mean), 3.5 / math.sqrt(n), f"{what}: biased, {values}")
        self.assertLess(abs(deviation - 1), 3.5 / math.sqrt(2 * n), f"{what}: the error is not the scatter, {values}")

    def check(self, folder, rate, few_samples=False):
        rounds = list(self.follow(folder, rate))
        rate_of_errors = rate if few_samples else None
        self.assert_standard("allocated", self.z_values(rounds, "allocated", SITES, rate_of_errors))
        self.assert_standard("promoted", self.z_values(rounds, "promoted", PROMOTED, rate_of_errors))
        # Each round releases what the previous one kept.
        live = [seen["site_live"] for seen in rounds]
        held = sum(told["live_bytes_lower"] <= exact["live_words"] * 8 <= told["live_bytes_upper"] for told, exact in live)
        self.assertGreaterEqual(held, ROUNDS - 3, live)  # four misses of 15 happen once in 180
        for site in SITES:
            for told, _ in (seen[site] for seen in rounds):
                self.assertLessEqual(told["allocated_bytes_lower"], told["allocated_bytes"])
                self.assertGreaterEqual(told["allocated_bytes_upper"], told["allocated_bytes"])

    def test_ocaml4(self):
        self.check(TARGETS, 1e-3)

    def test_ocaml5(self):
        self.check(TARGETS5, 1e-3)

    def test_few_samples(self):
        self.check(TARGETS, 2e-5, few_samples=True)


class LargeBlocks(E2ETest):
    """Large blocks count with their own sizes, so their live bytes have almost no error."""

    def site(self, daemon, pid):
        sites = [s for s in daemon.sites(pid) if s["function"].endswith("large_block")]
        return sites[0] if sites else {"live_objects": 0}

    def check(self, folder, rate):
        program = self.target("large_blocks", folder=folder)
        daemon = self.daemon(rate=rate)
        daemon.attach(program.pid)
        daemon.wait_state(program.pid, "sampling")
        program.command(f"hold 12 {16 * MIB}")
        eventually(lambda: round(self.site(daemon, program.pid)["live_objects"], 3) == 12, "all are seen")
        program.command("drop 2")
        eventually(lambda: round(self.site(daemon, program.pid)["live_objects"], 3) == 10, "two are gone")
        site = self.site(daemon, program.pid)
        self.assertAlmostEqual(1, site["live_bytes"] / (160 * MIB), delta=0.001)
        self.assertLess(site["live_bytes_stderr"], 0.001 * site["live_bytes"])
        self.assertAlmostEqual(1, site["allocated_bytes"] / (192 * MIB), delta=0.001)
        in_range = daemon.ctl_json("sites", "--pid", program.pid, "--last", "10m")["sites"][0]
        self.assertAlmostEqual(1, in_range["live_bytes"] / (160 * MIB), delta=0.001)

    def test_ocaml4(self):
        self.check(TARGETS, 1e-4)

    def test_ocaml5(self):
        self.check(TARGETS5, 1e-4)

    def test_at_a_low_rate(self):
        self.check(TARGETS, 1e-5)


if __name__ == "__main__":
    unittest.main()
