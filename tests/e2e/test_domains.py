# SPDX-License-Identifier: Apache-2.0
"""OCaml 5: every domain is sampled, including later ones, and all are detached."""

import pathlib
import random
import signal
import struct
import subprocess

import harness
from harness import TARGETS5, E2ETest, eventually

CYCLES = 200 if harness.MATRIX else 10
COLLECTIONS = 500 if harness.MATRIX else 12
SAMPLES = 200_000 if harness.MATRIX else 80_000
# Changes of the rate, fewer than make the first session too old.
CHANGES = 14 if harness.MATRIX else 7
FOLLOWED_SESSIONS = 16
WORDS_OF_SAMPLE = 5  # words that the runtime passes to a callback if it records no callstack


def kept_profiles(pid):
    """Number of profiles that the agent in a program keeps."""
    maps = [line.split() for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()]
    begin, path = next((line[0].split("-")[0], line[5]) for line in maps
                       if len(line) > 5 and "libmemprof_agent" in line[5])
    symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    place, = (line.split()[0] for line in symbols.splitlines() if line.split()[-1] == "kept_profiles")
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(int(begin, 16) + int(place, 16))
        return struct.unpack("I", memory.read(4))[0]


class Domains(E2ETest):
    RATE = 1e-3
    SITES = ("site_pair", "site_array", "site_string")

    def domains(self, workers=3, idle=1):
        return self.target("domains", "0", str(workers), str(idle), folder=TARGETS5)

    def calm_domains(self):
        """Domains that leave the processors to others, for tests that need no load."""
        target = self.domains()
        target.command("calm")
        return target

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
        """A sample that waited for a collection may come without its callstack, which must not be
        read. That once crashed a program within a minute."""
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
        # After all domains have joined: the program's count is read before and after ours.
        eventually(lambda: self.samples(daemon, target) > 15_000, "all domains are sampled")
        first = self.words(target)
        # What was under way to memprofd then has arrived.
        eventually(lambda: self.samples(daemon, target) > 20_000, "more samples")
        estimated = self.estimates(daemon, target)
        second = self.words(target)
        eventually(lambda: self.samples(daemon, target) > 20_000 + SAMPLES, "many samples", timeout=120)
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

    def test_domains_that_wait_are_in_the_runtimes_counters(self):
        """The agent does not know a domain before that allocates."""
        for mode in ("agent", "observe"):
            with self.subTest(mode):
                target = self.domains(workers=0)
                target.command("rest")
                daemon = self.daemon("--pid", target.pid, "--mode", mode, rate=1e-4)
                eventually(lambda: target.command("full") and daemon.state(target.pid) == "sampling", "it is sampled")
                counted = daemon.metrics().value("memprofd_ocaml_minor_allocated_bytes_total", pid=target.pid)
                self.assertGreater(counted, 4_000_000 * 8)
                self.assertLess(counted, 8_000_000 * 8)
                target.exit()
                daemon.stop()

    def test_short_lived_domains_are_sampled(self):
        """Only their counts grow, because all others have been stopped and sleep."""
        target = self.target("domains", "0", "0", folder=TARGETS5)
        daemon = self.sampled(target)
        eventually(lambda: self.samples(daemon, target) > 5_000, "domains that came later are sampled")
        target.exit()

    def test_each_short_lived_domain_draws_its_own_samples(self):
        """The runtime gives to each the same seed; each of these domains draws some 35 samples."""
        target = self.target("own_tracker", folder=TARGETS5)
        daemon = self.daemon("--pid", target.pid, rate=1e-4)
        eventually(lambda: target.command("keep 1000", timeout=60) and daemon.state(target.pid) == "sampling",
                   "the program is sampled")
        before = target.command("keep 1", timeout=60)["words"]
        for _ in range(12):
            after = target.command("spawn", timeout=60)
        daemon.settled_sites(target.pid)
        threads = daemon.ctl_json("sites", "--pid", target.pid, "--group-by", "thread", "-n", 0)["sites"]
        found = [int(one["samples"]) for one in threads if int(one["thread"]) != target.pid]
        self.assertEqual(12, len(found), threads)
        self.assertGreater(len(set(found)), 3, found)
        self.assert_estimate("all of them", sum(one["allocated"]["bytes"] for one in threads if int(one["thread"]) != target.pid),
                             after["words"] - before, 1e-4)

    def test_large_blocks_of_short_lived_domains(self):
        """Nor the place of the first sample among their large blocks."""
        target = self.domains(workers=0, idle=0)
        target.command("calm")
        daemon = self.sampled(target, "--max-overhead", "none", rate=1e-4)
        target.command("rest")
        daemon.settled_sites(target.pid)
        before, words = self.estimates(daemon, target)["site_array"], self.words(target)["site_array"]
        target.command("work")
        eventually(lambda: self.words(target)["site_array"] > words + 3_000_000, "they have allocated")
        target.command("rest")
        daemon.settled_sites(target.pid)
        self.assert_estimate("large blocks", self.estimates(daemon, target)["site_array"] - before,
                             self.words(target)["site_array"] - words, 1e-4)
        target.exit()

    def test_stacks_continue_through_fibers(self):
        target = self.domains(1)
        target.command("calm")
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
        """Attach, rate changes and detach are repeated; the program never notices."""
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

    def change_rate(self, daemon, target, rate):
        daemon.set_rate(target.pid, rate)
        daemon.wait_state(target.pid, "sampling")

    def assert_all_die(self, daemon, target, sites):
        """Released blocks are not live: each of their deaths was reported."""
        def live():
            target.command("full")
            found = daemon.sites(target.pid)
            return sum(harness.sum_sites(found, site)["live_bytes"] for site in sites)

        eventually(lambda: live() == 0, "nothing is live")
        given_up = daemon.metrics().total("memprofd_given_up_events_total", reason="session_end")
        self.assertEqual((0, 0), (given_up, daemon.targets()[target.pid]["dropped_events"]))

    def test_blocks_are_followed_over_changes_of_the_rate(self):
        """Blocks of domains that have ended are followed while others continue; 1,204,000 words per
        round."""
        target = self.domains(idle=0)
        daemon = self.sampled(target)
        kept = lambda: harness.sum_sites(daemon.sites(target.pid), "site_kept")
        rates, words = (1e-3, 4e-4, 2e-3), 4 * 1_000 * 301
        variance = 0
        for i, rate in enumerate(rates):
            if i > 0:
                self.change_rate(daemon, target, rate)
            target.command("keep 1000")
            variance += words / rate
            exact = (i + 1) * words
            # All are reported once none is unflushed.
            eventually(lambda: abs(kept()["live_bytes"] / 8 - exact) < 4 * variance ** 0.5,
                       f"{exact} words live at {rate:g}")
        total = kept()
        self.assertEqual(total["allocated_bytes"], total["live_bytes"])
        target.command("drop")
        self.assert_all_die(daemon, target, ["site_kept"])
        self.assertEqual(total["allocated_bytes"], kept()["allocated_bytes"])
        target.exit()

    def test_every_death_is_told_while_the_rate_changes(self):
        """Includes deaths in the middle of a change: domains are always busy, and millions of
        blocks die."""
        target = self.domains(idle=0)
        daemon = self.sampled(target, rate=1e-2)
        for i in range(CHANGES):
            seen = self.samples(daemon, target)
            eventually(lambda: self.samples(daemon, target) > seen + 10_000, "more samples")
            self.change_rate(daemon, target, (5e-3, 1e-2)[i % 2])
        target.command("rest")
        self.assert_all_die(daemon, target, self.SITES)
        target.exit()

    def counted(self, daemon, target):
        """Words allocated at rest, by the runtime and by memprofd."""
        target.command("rest")

        def read():
            target.command("full")
            return daemon.targets()[target.pid]

        def newer(than):
            collections = than["gc"]["major_collections"]
            return eventually(lambda: (now := read())["gc"]["major_collections"] > collections and now, "newer numbers")

        def quiet():
            """Once the numbers are newer; domains at rest and what tells of them allocate a little.

            What is published now may have been read before the rest, what is read after that has not.
            """
            before = newer(read())
            after = newer(before)
            return after["alloc_events"] - before["alloc_events"] < 100 and after

        of = eventually(quiet, "all samples have come")
        gc = of["gc"]
        # What the runtime hands a sample over in has no sample itself. Neither has the continuation of a callback
        # in a fiber, of 3 words (caml_callbackN_exn), which stays in this number: 1 % at a rate of 1e-2.
        exact = gc["minor_words"] + gc["major_words"] - gc["promoted_words"] - WORDS_OF_SAMPLE * of["alloc_events"]
        unsampled = daemon.metrics().value("memprofd_unsampled_bytes_total", pid=target.pid) / 8
        return exact, of["allocated_bytes"] / 8, unsampled

    def test_words_of_domains_that_have_ended_are_all_counted(self):
        """Also those of large blocks that no slice of a collection has counted yet when a domain ends."""
        target = self.domains(idle=0)
        daemon = self.sampled(target)
        before = self.counted(daemon, target)[0]
        blocks, domains = 100, 4
        for _ in range(5):
            target.command(f"keep {blocks}")
        grown = self.counted(daemon, target)[0] - before
        allocated = 5 * domains * blocks * 301
        self.assertGreaterEqual(grown, allocated)
        self.assertLess(grown, 1.2 * allocated, "lists, domains, answers")
        target.exit()

    def test_what_is_not_sampled_while_the_rate_changes_is_counted(self):
        """By all domains together, which others of them keep waiting."""
        rates = (5e-3, 1e-2)
        target = self.domains(idle=0)
        daemon = self.sampled(target, "--capture", "kernel", rate=rates[1])
        before = self.counted(daemon, target)
        self.assertEqual(0, before[2])
        target.command("work")
        for i in range(CHANGES):
            seen = self.samples(daemon, target)
            eventually(lambda: self.samples(daemon, target) > seen + 1_000, "more samples")
            self.change_rate(daemon, target, rates[i % 2])
        exact, estimated, unsampled = (now - then for now, then in zip(self.counted(daemon, target), before))
        # The ring's lock gives up when a processor is taken from who holds it: counted, and next to nothing.
        self.assertLess(daemon.targets()[target.pid]["dropped_events"], 1e-3 * self.samples(daemon, target))
        error = 4 * (exact / min(rates)) ** 0.5
        words = f"{exact} words allocated, {estimated} sampled, {unsampled} not"
        self.assertGreater(unsampled, 0)
        self.assertLess(estimated + unsampled, exact + error, words)
        # Changes come here as fast as they can; what the counter does not have yet is some percent.
        self.assertGreater(estimated + unsampled, 0.9 * exact - error, words)
        self.assertGreater(estimated, 0.8 * exact - error, words)
        harness.NOTES.append(f"{CHANGES} changes of the rate: {unsampled / exact:.1%} of {exact * 8 / 1e6:.0f} MB not sampled")
        target.exit()

    def test_profiles_are_few_and_none_is_left_behind(self):
        """Whether memprofd lets go of the program, or is killed while the rate changes."""
        target = self.calm_domains()
        daemon = self.sampled(target)
        most = 0
        for i in range(FOLLOWED_SESSIONS + 4):
            self.change_rate(daemon, target, (2e-4, 1e-3)[i % 2])
            most = max(most, kept_profiles(target.pid))
        self.assertGreater(most, FOLLOWED_SESSIONS, "more than one a session")
        self.assertLessEqual(most, 10 * FOLLOWED_SESSIONS, "one a session for each of seven domains, and some that come")
        none_left = lambda: kept_profiles(target.pid) == 0
        daemon.detach(target.pid)
        eventually(none_left, "all are discarded after a detach")
        daemon.stop()
        for _ in range(3):
            daemon = self.sampled(target)
            for rate in (2e-4, 1e-3):
                daemon.set_rate(target.pid, rate)
            daemon.stop(signal.SIGKILL)
            eventually(none_left, "all are discarded after a kill")
        self.assert_works_on(target)
        target.exit()

    def test_the_program_goes_on_when_memprofd_is_killed(self):
        target = self.calm_domains()
        for _ in range(3):
            daemon = self.sampled(target)
            eventually(lambda: self.samples(daemon, target) > 1_000, "samples arrive")
            daemon.stop(signal.SIGKILL)
            self.assert_works_on(target)
        target.exit()

    def test_a_program_that_samples_by_itself_is_left_alone(self):
        target = self.target("uses_memprof", folder=TARGETS5)
        daemon = self.daemon()
        self.assert_one_line(daemon.refusal(target.pid, "--mode", "agent"),
                             "uses Gc.Memprof itself; its tracker was not touched; attach without --mode agent to observe it")
        own = target.exit()
        expected = own["words"] * 1e-4
        self.assertLess(abs(own["samples"] - expected), 6 * expected ** 0.5 + 1)


if __name__ == "__main__":
    import unittest
    unittest.main()
