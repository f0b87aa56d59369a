# SPDX-License-Identifier: Apache-2.0
"""Programs that call Gc.Memprof.stop or start while memprofd samples them are reported, and sampled
again."""

import os
import unittest

import harness
from harness import TARGETS, TARGETS5, E2ETest, eventually

OTHERS = 0.02  # share of the samples: blocks that are not kept
FIVE = TARGETS == TARGETS5  # the tested release is an OCaml 5
IN_USE = "allocations are missing from the time in which the program used Gc.Memprof itself"
REFUSING = [harness.BUILD / "targets-bullseye"]  # OCaml 4.11: start raises during a session
OPENING = ("targets-trixie", "targets-forky")  # frees a slot (agent-lib/make_room5.c)


class Sampled(E2ETest):
    def sampled(self, folder, **options):
        """A sampled program, a memprofd, and a function that returns whether it is still
        sampled."""
        target = self.target("stops_memprof", folder=folder, **options)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)

        def samples_after_work():
            target.command("go 20000")
            return harness.sum_sites(daemon.sites(target.pid), "site_triple").get("samples", 0)

        def goes_on():
            before = samples_after_work()
            return before > 0 and samples_after_work() > before

        eventually(goes_on, "samples")
        return target, daemon, goes_on

    def drops(self, daemon, target, reason):
        return sum(d["count"] for d in daemon.targets()[target.pid]["drops"] if d["reason"] == reason)


class ProgramStops(Sampled):
    def check(self, folder):
        target, daemon, goes_on = self.sampled(folder)
        for stops in (1, 2):
            self.assertEqual(0, target.command("stop")["failures"])
            eventually(lambda: target.command("go 20000") and self.drops(daemon, target, "stopped_by_program") == stops,
                       "the stop is told of")
            eventually(goes_on, "samples again")
            self.assertEqual("sampling", daemon.state(target.pid))
        target.exit()
        self.assertEqual(1, daemon.said().count("has called Gc.Memprof.stop; starting again"))

    @unittest.skipIf(FIVE, "OCaml 5")
    def test_ocaml4(self):
        self.check(TARGETS)

    def test_ocaml5(self):
        self.check(TARGETS5)


class ProgramStarts(Sampled):
    """The program starts its own tracker after the attach."""

    def check(self, folder):
        target, daemon, goes_on = self.sampled(folder)
        for starts in (1, 2):
            before = target.command("start")
            self.assertEqual(0, before["failures"])
            eventually(lambda: target.command("go 20000") and self.drops(daemon, target, "domain_in_use") >= starts,
                       "the start is told of")
            self.assertEqual("sampling", daemon.state(target.pid))
            self.assertEqual(IN_USE, daemon.targets()[target.pid]["message"])
            self.assertIn(IN_USE, daemon.ctl("sites", "--pid", target.pid).stdout)
            now = target.command("go 200000")
            expected = (now["words"] - before["words"]) * 1e-2
            self.assertLess(abs(now["own_samples"] - before["own_samples"] - expected), 6 * expected ** 0.5 + 1)
            self.assertEqual(0, target.command("stop")["failures"])
            eventually(goes_on, "samples again")
        self.assertEqual(1, daemon.said().count("the program samples by Gc.Memprof itself"))
        target.exit()

    def test_memprofd_makes_room_for_it(self):
        for folder in {TARGETS, TARGETS5} - set(REFUSING):
            with self.subTest(folder.name):
                self.check(folder)

    def check_refused(self, target, daemon, goes_on):
        self.assertEqual(1, target.command("start")["failures"])
        eventually(goes_on, "samples")
        self.assertEqual(0, self.drops(daemon, target, "stopped_by_program"))
        self.assertEqual(0, target.exit()["own_samples"])

    def test_it_is_refused_where_there_is_no_hook(self):
        """OCaml 4.11 has no hook."""
        for folder in {TARGETS, TARGETS5} & set(REFUSING):
            self.check_refused(*self.sampled(folder))

    @unittest.skipUnless(TARGETS5.name in OPENING, "a page is opened for it in OCaml 5.3 and 5.4")
    def test_it_is_refused_where_a_filter_may_forbid_to_open_a_page(self):
        """The program has loaded the agent itself."""
        env = dict(os.environ, LD_PRELOAD=str(harness.BUILD / "libmemprof_agent.so"))
        self.check_refused(*self.sampled(TARGETS5, prefix=("python3", "-c", harness.UNDER_A_FILTER), env=env))


class Trackers5(E2ETest):
    """A program that samples blocks itself and discards its profiles, as Memtrace does."""

    def setUp(self):
        super().setUp()
        self.program = self.target("own_tracker", folder=TARGETS5)

    def command(self, line):
        answer = self.program.command(line)
        self.assertEqual(0, answer["failures"], line)
        return answer

    def check_tracker(self, *between):
        """Its samples between a start and a stop are correct, and so are the live ones."""
        before = self.command("start")
        for line in ("keep 200000", *between):
            now = self.command(line)
        expected = (now["words"] - before["words"]) * 1e-2
        self.assertLess(abs(now["allocated"] - before["allocated"] - expected), 7 * expected ** 0.5)
        allocated, lived = now["allocated"] - before["allocated"], now["live"] - before["live"]
        self.assertLess(abs(allocated - lived), OTHERS * allocated)
        self.assertLess(self.command("drop")["live"] - before["live"], OTHERS * allocated)
        self.command("stop")

    def samples(self, daemon):
        self.command("keep 20000")
        self.command("drop")
        return harness.sum_sites(daemon.sites(self.program.pid), "site_triple").get("samples", 0)

    def check_sampled(self, daemon):
        def goes_on():
            before = self.samples(daemon)
            return before > 0 and self.samples(daemon) > before
        eventually(goes_on, "samples")

    def test_before_and_after_the_attach(self):
        self.check_tracker()
        self.command("discard")
        daemon = self.daemon("--pid", self.program.pid, rate=1e-3)
        self.check_sampled(daemon)
        for _ in range(3):
            self.check_tracker()
            self.check_sampled(daemon)
            self.command("discard")
            self.check_sampled(daemon)
        self.assertEqual("sampling", daemon.state(self.program.pid))
        self.program.exit()

    def test_with_domains(self):
        daemon = self.daemon("--pid", self.program.pid, rate=1e-3)
        self.check_sampled(daemon)
        for _ in range(3):
            self.check_tracker("spawn", "spawn")
            self.command("discard")
            self.check_sampled(daemon)
        self.program.exit()

    def test_in_a_domain_that_has_its_parents_profile(self):
        daemon = self.daemon("--pid", self.program.pid, rate=1e-3)
        self.check_sampled(daemon)
        for _ in range(3):
            before, now = self.command("drop"), self.command("tracked")
            expected = (now["words"] - before["words"]) * 1e-2
            self.assertLess(abs(now["allocated"] - before["allocated"] - expected), 7 * expected ** 0.5)
            self.check_sampled(daemon)
            self.command("discard")
            self.check_sampled(daemon)
        self.program.exit()

    def test_a_detach_leaves_its_profile(self):
        daemon = self.daemon("--pid", self.program.pid, rate=1e-3)
        self.check_sampled(daemon)
        before = self.command("start")
        self.command("keep 100000")
        daemon.detach(self.program.pid)
        now = self.command("keep 100000")
        expected = (now["words"] - before["words"]) * 1e-2
        self.assertLess(abs(now["allocated"] - before["allocated"] - expected), 7 * expected ** 0.5)
        self.command("stop")
        self.command("discard")
        self.program.exit()


if __name__ == "__main__":
    import unittest
    unittest.main()
