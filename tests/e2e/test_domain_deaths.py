# SPDX-License-Identifier: Apache-2.0
"""OCaml 5: counts of blocks that several domains keep, release, or release while they wait."""

import unittest

import harness
from harness import TARGETS5, E2ETest, eventually

BLOCKS = 40_000
RATE = 1e-3
# Allowed share of missing blocks. Usually zero; rarely the samples of a collection or two, for an
# unknown reason.
MISSING = 0.04


class DomainDeaths(E2ETest):
    programs = TARGETS5

    def sampled(self, domains, *options):
        target = self.target("domain_caches", domains, folder=self.programs)
        daemon = self.daemon("--pid", target.pid, *options, rate=RATE)

        def all_sample():
            target.command("touch")
            target.command("churn")
            return daemon.state(target.pid) == "sampling"
        eventually(all_sample, "it is sampled")
        for _ in range(20):  # each domain joins the session at its next pending action
            target.command("touch")
            target.command("churn")
        return target, daemon

    def site(self, daemon, target, name):
        """(allocated, live) of its samples, once all have arrived."""
        sites = [site for site in daemon.settled_sites(target.pid) if site["function"].endswith(name)]
        return sum(site["allocated_bytes"] for site in sites), sum(site["live_bytes"] for site in sites)

    def settle(self, target):
        """Waits until each domain has run the callbacks of its deaths and promotions."""
        target.command("full")
        target.command("touch")
        target.command("churn")

    def check_kept(self, daemon, target):
        allocated, live = self.site(daemon, target, "site_kept")
        harness.NOTES.append(f"{live / allocated:.2%} of {allocated / 2**20:.1f} MiB live")
        self.assertGreater(allocated, 200 * BLOCKS / 4)
        self.assertLessEqual(live, allocated)
        self.assertLess(allocated - live, MISSING * allocated)

    def check_uncertain(self, daemon, target):
        lost = daemon.metrics().total("memprofd_dropped_events_total", reason="uncertain_death")
        harness.NOTES.append(f"{lost:.0f} uncertain")
        return lost

    def keeps_everything(self, domains, *options):
        target, daemon = self.sampled(domains, *options)
        for _ in range(4):
            target.command(f"keep {BLOCKS // domains}")
        self.settle(target)
        self.check_kept(daemon, target)
        self.check_uncertain(daemon, target)
        target.exit()

    def test_what_two_domains_keep_is_live(self):
        self.keeps_everything(2)

    def test_what_four_domains_keep_is_live(self):
        self.keeps_everything(4)

    def test_so_it_is_when_the_runtime_captures(self):
        self.keeps_everything(4, "--capture", "runtime")

    def keeps_half(self, domains):
        target, daemon = self.sampled(domains)
        for _ in range(4):
            target.command(f"half {BLOCKS // domains}")
        self.settle(target)
        self.check_kept(daemon, target)
        allocated, live = self.site(daemon, target, "site_dropped")
        self.assertGreater(allocated, 200 * BLOCKS / 4)
        self.assertEqual(0, live)
        # Later deaths in the major heap are seen: repaired entries continue to be followed.
        target.command("drop")
        self.settle(target)
        self.settle(target)
        self.assertEqual(0, self.site(daemon, target, "site_kept")[1])
        target.exit()

    def test_of_what_two_domains_keep_half_of(self):
        self.keeps_half(2)

    def test_of_what_four_domains_keep_half_of(self):
        self.keeps_half(4)

    def drops(self, command=""):
        target, daemon = self.sampled(3)
        target.command(f"keep {BLOCKS // 3}")
        self.settle(target)
        self.assertGreater(self.site(daemon, target, "site_kept")[1], 0)
        if command:
            target.command(command)
        target.command("drop")
        for _ in range(2):  # a collection reports the findings of the previous one
            target.command("full")
            target.command("churn")
        self.assertEqual(0, self.site(daemon, target, "site_kept")[1])
        target.exit()

    def test_what_waiting_domains_have_let_go_of_is_dead(self):
        self.drops()

    def test_what_ended_domains_have_let_go_of_is_dead(self):
        self.drops("end")

    def test_a_domain_that_wakes_up_goes_on(self):
        target, daemon = self.sampled(3)
        for _ in range(3):
            target.command(f"keep {BLOCKS // 3}")
            target.command("drop")
            target.command("full")
        target.command(f"keep {BLOCKS // 3}")
        target.command("drop")
        self.settle(target)
        self.settle(target)
        allocated, live = self.site(daemon, target, "site_kept")
        self.assertGreater(allocated, 200 * BLOCKS)
        self.assertEqual(0, live)
        target.exit()


if __name__ == "__main__":
    unittest.main()
