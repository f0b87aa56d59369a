# SPDX-License-Identifier: Apache-2.0
"""Programs that call Gc.Memprof.stop or start while memprofd samples them: they are told of, and sampled on."""

import unittest

import harness
from harness import TARGETS, TARGETS5, E2ETest, eventually

REPLACING = harness.BUILD / "targets-experimental"  # there a start does not raise


class Sampled(E2ETest):
    def sampled(self, folder):
        """A program that is, a memprofd, and whether it still is."""
        target = self.target("stops_memprof", folder=folder)
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
        return daemon

    def test_ocaml4(self):
        daemon = self.check(TARGETS)
        self.assertEqual(1, daemon.said().count("has called Gc.Memprof.stop; starting again"))

    def test_ocaml5(self):
        self.check(TARGETS5)


class ProgramStarts(Sampled):
    """A tracker of its own, that the program starts after the attach."""

    def test_it_is_refused(self):
        for folder in {TARGETS, TARGETS5} - {REPLACING}:
            with self.subTest(folder.name):
                target, daemon, goes_on = self.sampled(folder)
                self.assertEqual(1, target.command("start")["failures"])
                eventually(goes_on, "samples")
                self.assertEqual(0, target.exit()["own_samples"])

    @unittest.skipUnless(TARGETS5 == REPLACING, "of OCaml 5.5: e2e/test_newest_ocaml")
    def test_it_replaces_memprofds_profile(self):
        target, daemon, goes_on = self.sampled(REPLACING)
        for starts in (1, 2):
            before = target.command("start")
            self.assertEqual(0, before["failures"])
            eventually(lambda: target.command("go 20000") and self.drops(daemon, target, "domain_in_use") == starts,
                       "the start is told of")
            self.assertEqual("sampling", daemon.state(target.pid))
            now = target.command("go 200000")
            expected = (now["words"] - before["words"]) * 1e-2
            self.assertLess(abs(now["own_samples"] - before["own_samples"] - expected), 6 * expected ** 0.5 + 1)
            self.assertEqual(0, target.command("stop")["failures"])
            eventually(goes_on, "samples again")
        self.assertEqual(1, daemon.said().count("the program samples by Gc.Memprof itself"))
        target.exit()


if __name__ == "__main__":
    import unittest
    unittest.main()
