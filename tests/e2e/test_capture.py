# SPDX-License-Identifier: Apache-2.0
"""All ways to capture callstacks give the same answers."""

import unittest

import harness
from harness import E2ETest, eventually, sum_sites
from test_attach import SITES

RATE = 1e-3


class Captures(E2ETest):
    def run_known(self, capture, folder=None):
        """Program, daemon, allocated words by site, and the estimates."""
        target = self.target("known_alloc", folder=folder)
        daemon = self.daemon("--capture", capture, "--pid", target.pid, rate=RATE)
        self.sample_on_command(daemon, target)
        target.command("stat")
        truth = target.command("go 8", timeout=120)
        target.command("full", timeout=60)
        return target, daemon, truth["sites"], daemon.settled_sites(target.pid)

    @staticmethod
    def stacks(daemon, target):
        """Allocated bytes by callstack, only for the program's own sites."""
        said = daemon.ctl("report", "--pid", target.pid, "-o", "collapsed", "-s", "allocated").stdout
        rows = (line.rsplit(" ", 1) for line in said.splitlines() if ";" in line)
        return {stack: int(n) for stack, n in rows if stack.rsplit(";", 1)[-1].startswith("Known_alloc.site_")}

    def assert_same(self, folder, captures):
        seen = {}
        for capture in captures:
            target, daemon, truth, sites = self.run_known(capture, folder)
            info = daemon.targets()[target.pid]
            self.assertEqual((capture, f"CAPTURED_BY_{capture.upper()}"), (info["capture"], info["captured_by"]))
            for name in SITES:
                with self.subTest(capture=capture, site=name):
                    found, exact = sum_sites(sites, name), truth[name]
                    self.assert_estimate(f"{name} allocated", found["allocated_bytes"], exact["allocated_words"], RATE)
                    self.assert_estimate(f"{name} live", found["live_bytes"], exact["live_words"], RATE)
            self.assertEqual(0, daemon.targets()[target.pid]["dropped_events"])
            lines = {(s["function"], s["file"], s["line"]) for s in sites if "site_" in s["function"]}
            seen[capture] = lines, set(self.stacks(daemon, target))
            target.exit()
            daemon.stop()
        for capture in captures:
            self.assertEqual(seen["kernel"], seen[capture], capture)
        self.assertGreaterEqual(len(seen["kernel"][1]), 5)

    def test_same_sites_and_stacks(self):
        self.assert_same(None, ("kernel", "runtime", "agent"))

    def test_same_sites_and_stacks_of_ocaml_5(self):
        self.assert_same(harness.TARGETS5, ("kernel", "runtime", "agent"))

    def test_few_probe_hits(self):
        for capture in ("runtime", "agent"):
            with self.subTest(capture=capture):
                self.check_hits(capture)

    def check_hits(self, capture):
        target, daemon, _, _ = self.run_known(capture)

        def counts():
            metrics = daemon.metrics()
            return (metrics.value("memprofd_samples_total", pid=target.pid, event="alloc"),
                    metrics.value("memprofd_events_total"))
        samples, hits = counts()
        target.command("go 8", timeout=120)
        samples, hits = (after - before for after, before in zip(counts(), (samples, hits)))
        self.assertLess(hits, samples / 50)
        harness.NOTES.append(f"{samples / hits:.0f} samples a probe hit")

    def test_auto_has_the_runtime_capture_at_any_rate(self):
        self.check_auto(None)

    def test_auto_has_the_runtime_capture_at_any_rate_of_ocaml_5(self):
        self.check_auto(harness.TARGETS5)

    def check_auto(self, folder):
        target = self.target("known_alloc", folder=folder)
        daemon = self.daemon("--capture", "auto", "--pid", target.pid, rate=1e-5)
        self.sample_on_command(daemon, target)
        self.assertEqual("runtime", daemon.targets()[target.pid]["capture"])
        for rate in (RATE, 1e-5, RATE):
            daemon.set_rate(target.pid, rate)

            def changed():
                target.command("go 1")  # a session ends with a sample
                info = daemon.targets()[target.pid]
                self.assertEqual((rate, "runtime"), (info["sampling_rate"], info["capture"]))
                return info["state"] == "sampling"
            eventually(changed, f"sampling at {rate}")
        words = lambda answer: answer["sites"]["site_small"]["allocated_words"]
        so_far = words(target.command("stat"))
        before = sum_sites(daemon.settled_sites(target.pid), "site_small")["allocated_bytes"]
        truth = words(target.command("go 8", timeout=120)) - so_far
        seen = sum_sites(daemon.settled_sites(target.pid), "site_small")["allocated_bytes"]
        self.assert_estimate("site_small", seen - before, truth, RATE)
        drops = {d["reason"] for d in daemon.targets()[target.pid]["drops"]}
        # A busy machine may lose some samples.
        busy = {"batch_ring_full", "lost_records", "unknown_sample"}
        self.assertLessEqual(drops - busy, {"session_end"})


if __name__ == "__main__":
    unittest.main()
