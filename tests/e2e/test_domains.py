# SPDX-License-Identifier: Apache-2.0
"""OCaml 5: every domain is sampled, those that come later too, and all of them are let go."""

import random
import signal

import harness
from harness import TARGETS5, E2ETest, eventually

CYCLES = 200 if harness.MATRIX else 25
COLLECTIONS = 500 if harness.MATRIX else 30


class Domains(E2ETest):
    RATE = 1e-3
    SITES = ("site_pair", "site_array", "site_string")

    def domains(self, workers=3):
        return self.target("domains", "0", str(workers), folder=TARGETS5)

    def sampled(self, target, *arguments, rate=RATE):
        daemon = self.daemon("--pid", target.pid, *arguments, rate=rate)
        daemon.wait_state(target.pid, "sampling")
        return daemon

    def samples(self, daemon, target):
        return sum(site["samples"] for site in daemon.sites(target.pid))

    def estimates(self, daemon, target):
        sites = daemon.sites(target.pid)
        return {name: harness.sum_sites(sites, name)["allocated_bytes"] for name in self.SITES}

    def words(self, target):
        return {name: site["allocated_words"] for name, site in target.command("stat")["sites"].items()}

    def test_collections_in_the_middle_of_callbacks(self):
        """A sample that has waited for a collection may come without its callstack, which must not be read: a program
        ended by a signal within a minute of this."""
        target = self.domains()
        daemon = self.sampled(target, rate=1e-2)
        for _ in range(COLLECTIONS):
            target.command("full")
        self.assertGreater(self.samples(daemon, target), 0)
        self.assert_works_on(target)
        target.exit()

    def test_estimates_are_what_all_domains_allocate(self):
        target = self.domains()
        daemon = self.sampled(target)
        # Once all domains have joined: both are read while it runs, the program's own counts around ours.
        eventually(lambda: self.samples(daemon, target) > 15_000, "all domains are sampled")
        first = self.words(target)
        # What was under way to memprofd then has arrived.
        eventually(lambda: self.samples(daemon, target) > 20_000, "more samples")
        estimated = self.estimates(daemon, target)
        second = self.words(target)
        eventually(lambda: self.samples(daemon, target) > 200_000, "many samples", timeout=120)
        third = self.words(target)
        estimate = self.estimates(daemon, target)
        fourth = self.words(target)
        for site in self.SITES:
            grown = (estimate[site] - estimated[site]) / 8
            least, most = third[site] - second[site], fourth[site] - first[site]
            error = (most / self.RATE) ** 0.5
            self.assertGreater(grown, least - 4 * error, site)
            self.assertLess(grown, most + 4 * error, site)
        self.assertEqual(0, daemon.targets()[target.pid]["dropped_events"])
        target.exit()

    def test_short_lived_domains_are_sampled(self):
        """Only their counts grow: all others are asleep once they are told to stop."""
        target = self.target("domains", "0", "0", folder=TARGETS5)
        daemon = self.sampled(target)
        eventually(lambda: self.samples(daemon, target) > 5_000, "domains that came later are sampled")
        target.exit()

    def test_stacks_continue_through_fibers(self):
        target = self.domains(1)
        daemon = self.sampled(target)
        def deepest():
            stacks = daemon.ctl_json("sites", "--pid", target.pid, "--group-by", "callstack", "-n", 0,
                                     "--match", "site_pair")["sites"]
            return [s for s in stacks if sum("in_fibers" in f["function"] for f in s["callstack"]) >= 3]
        found = eventually(deepest, "a stack of three fibers")[0]
        names = [frame["function"] for frame in found["callstack"]]
        self.assertTrue(any(name.endswith(".round") for name in names), names)
        target.exit()

    def test_cycles(self):
        """Attached to, slowed down and let go again and again: the program never notices."""
        target = self.domains()
        daemon = self.daemon()
        rates = random.Random(5)
        for i in range(CYCLES):
            daemon.ctl("attach", "--pid", target.pid, "--sampling-rate", rates.choice(("1e-3", "1e-4", "1e-5")))
            if i % 3 == 0:
                daemon.set_rate(target.pid, 2e-4)
            if i % 5 == 0:
                eventually(lambda: self.samples(daemon, target) > 100, "samples arrive")
            daemon.detach(target.pid)
            self.assertTrue(target.running())
        self.assert_works_on(target)
        harness.NOTES.append(f"{CYCLES} cycles with rate changes")
        target.exit()

    def test_the_program_goes_on_when_memprofd_is_killed(self):
        target = self.domains()
        for _ in range(3):
            daemon = self.sampled(target)
            eventually(lambda: self.samples(daemon, target) > 1_000, "samples arrive")
            daemon.stop(signal.SIGKILL)
            self.assert_works_on(target)
        target.exit()

    def test_a_program_that_samples_by_itself_is_left_alone(self):
        target = self.target("uses_memprof", folder=TARGETS5)
        daemon = self.daemon()
        said = daemon.ctl("attach", "--pid", target.pid, "--mode", "agent", check=False)
        self.assertNotEqual(0, said.returncode)
        self.assert_one_line(said.stderr, "uses Gc.Memprof itself")
        own = target.exit()
        expected = own["words"] * 1e-4
        self.assertLess(abs(own["samples"] - expected), 6 * expected ** 0.5 + 1)


if __name__ == "__main__":
    import unittest
    unittest.main()
