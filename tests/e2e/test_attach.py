# SPDX-License-Identifier: Apache-2.0
"""memprofd on a program whose allocations are known exactly."""

import os
import pathlib
import unittest

import harness
from harness import E2ETest, eventually, sum_sites

SITES = ("site_small", "site_live", "site_major", "site_bytes", "site_promoted", "site_unmarshal")


class KnownAllocations(E2ETest):
    RATE = 1e-3
    ROUNDS = 12

    def attached(self, name="known_alloc", rate=RATE):
        target = self.target(name)
        daemon = self.daemon("--pid", target.pid, rate=rate)
        self.sample_on_command(daemon, target)
        return target, daemon

    def run_rounds(self, target, daemon, rounds):
        """Allocated words per site, and the estimates afterwards."""
        target.command("stat")
        truth = target.command(f"go {rounds}", timeout=120)
        for _ in range(2):
            target.command("full", timeout=60)
        return truth["sites"], daemon.settled_sites(target.pid)

    def check_sites(self, truth, sites, rate):
        for name in SITES:
            seen, exact = sum_sites(sites, name), truth[name]
            with self.subTest(site=name):
                self.assert_estimate(f"{name} allocated", seen["allocated_bytes"],
                                     exact["allocated_words"], rate)
                if exact["promoted_words"] >= 0:
                    self.assert_estimate(f"{name} promoted", seen["promoted_bytes"],
                                         exact["promoted_words"], rate)
                self.assert_estimate(f"{name} live", seen["live_bytes"], exact["live_words"], rate)

    def test_allocated_promoted_and_live_bytes_are_true(self):
        target, daemon = self.attached()
        truth, sites = self.run_rounds(target, daemon, self.ROUNDS)
        self.check_sites(truth, sites, self.RATE)
        self.assertEqual(0, daemon.targets()[target.pid]["dropped_events"])

    def test_standard_errors_are_those_of_the_samples(self):
        target, daemon = self.attached()
        truth, sites = self.run_rounds(target, daemon, self.ROUNDS)
        seen = sum_sites(sites, "site_small")
        exact = (truth["site_small"]["allocated_words"] / self.RATE) ** 0.5 * 8
        self.assertAlmostEqual(1.0, seen["allocated_bytes_stderr"] / exact, delta=0.1)

    def test_dropped_blocks_leave_the_live_set(self):
        target, daemon = self.attached()
        _, sites = self.run_rounds(target, daemon, 2)
        self.assertGreater(sum_sites(sites, "site_live")["live_bytes"], 0)
        target.command("drop")
        for _ in range(2):
            target.command("full")
        sites = daemon.settled_sites(target.pid)
        self.assertEqual(0, sum_sites(sites, "site_live")["live_bytes"])

    def test_sites_have_their_source_lines(self):
        target, daemon = self.attached()
        _, sites = self.run_rounds(target, daemon, 1)
        source = (harness.ROOT / "tests/targets/known_alloc.ml").read_text().splitlines()
        for name, text in (("site_small", "(i, i + 1, i + 2)"), ("site_live", "live.(i) <-"),
                           ("site_major", "Array.make"), ("site_bytes", "Bytes.create")):
            found = [s for s in sites if s["function"].endswith(name)]
            self.assertEqual(1, len(found), (name, found))
            self.assertTrue(found[0]["file"].endswith("known_alloc.ml"), found[0])
            self.assertIn(text, source[found[0]["line"] - 1])
            self.assertTrue(any(f["function"].endswith("round") for f in found[0]["callstack"]), found[0])

    def test_program_without_debug_information(self):
        target, daemon = self.attached("nog_target")
        truth, sites = self.run_rounds(target, daemon, 4)
        for name in ("site_small", "site_live", "site_bytes"):
            seen = sum_sites(sites, name)
            self.assert_estimate(name, seen["allocated_bytes"], truth[name]["allocated_words"], self.RATE)

    def test_second_attach_after_detach(self):
        target, daemon = self.attached()
        target.command("go 2")
        daemon.detach(target.pid)
        self.assertEqual("detached", daemon.state(target.pid))
        unseen = target.command("go 3")["sites"]["site_small"]["allocated_words"]
        self.assertEqual("detached", daemon.state(target.pid))

        # A second attach starts from zero.
        daemon.attach(target.pid)
        self.sample_on_command(daemon, target)
        seen_too = target.command("go 6")["sites"]["site_small"]["allocated_words"]
        target.command("full")
        seen = sum_sites(daemon.settled_sites(target.pid), "site_small")
        self.assert_estimate("site_small", seen["allocated_bytes"], seen_too - unseen, self.RATE)

    def test_counts_stay_readable_after_detach(self):
        target, daemon = self.attached()
        truth = target.command("go 4")["sites"]["site_small"]["allocated_words"]
        daemon.settled_sites(target.pid)
        daemon.detach(target.pid)
        target.command("go 2")
        seen = sum_sites(daemon.settled_sites(target.pid), "site_small")
        self.assert_estimate("site_small", seen["allocated_bytes"], truth, self.RATE)

    def test_second_daemon_after_the_first(self):
        target, first = self.attached()
        self.assertEqual(harness.OK, first.stop())
        second = self.daemon("--pid", target.pid, rate=self.RATE)
        self.sample_on_command(second, target)
        truth, sites = self.run_rounds(target, second, 4)
        self.check_sites(truth, sites, self.RATE)

    def test_rate_change_while_attached(self):
        target, daemon = self.attached(rate=1e-4)
        before = target.command("go 2")["sites"]
        low = sum_sites(daemon.settled_sites(target.pid), "site_small")
        daemon.set_rate(target.pid, 1e-3)

        def changed():
            target.command("minor")
            return daemon.targets()[target.pid]["sampling_rate"] == 1e-3
        eventually(changed, "the new rate is reported")
        self.sample_on_command(daemon, target)
        after = target.command("go 6")["sites"]
        high = sum_sites(daemon.settled_sites(target.pid), "site_small")
        words = after["site_small"]["allocated_words"] - before["site_small"]["allocated_words"]
        self.assert_estimate("site_small at the new rate",
                             high["allocated_bytes"] - low["allocated_bytes"], words, 1e-3)
        self.assert_estimate("site_small samples",
                             (high["samples"] - low["samples"]) / 1e-3 * 8, words, 1e-3)


class TwoTargets(E2ETest):
    def test_two_targets_do_not_mix(self):
        small, threads = self.target("known_alloc"), self.target("busy_threads")
        daemon = self.daemon("--pid", small.pid, "--pid", threads.pid, rate=1e-3)
        self.sample_on_command(daemon, small)
        daemon.wait_state(threads.pid, "sampling")
        small.command("go 2")
        modules = {small.pid: "Known_alloc", threads.pid: "Busy_threads"}
        for pid, module in modules.items():
            eventually(lambda: [s for s in daemon.sites(pid) if module in s["function"]],
                       f"samples of {module}")
        self.assertFalse([s for s in daemon.sites(small.pid) if "Busy_threads" in s["function"]])
        self.assertFalse([s for s in daemon.sites(threads.pid) if "Known_alloc" in s["function"]])
        self.assertEqual(0, threads.exit()["errors"])
        daemon.wait_state(threads.pid, "exited")
        self.assertEqual("sampling", daemon.state(small.pid))


    def test_a_bad_pid_among_good_ones(self):
        good = self.target("busy_threads")
        sleeper = self.process(harness.Process(["sleep", "600"]))
        daemon = self.daemon("--pid", good.pid, "--pid", sleeper.pid, rate=1e-4)
        daemon.wait_state(good.pid, "sampling")
        eventually(lambda: "not an OCaml program" in daemon.said(), "the refusal is said")
        self.assertTrue(daemon.running() and sleeper.running())


class IdleTarget(E2ETest):
    def test_attach_waits_for_an_idle_target_and_says_so(self):
        target = self.target("idle")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        self.assertEqual("waiting", daemon.state(target.pid))

        def sampling():
            self.assertEqual("awake", target.command("wake"))
            return daemon.state(target.pid) == "sampling"
        eventually(sampling, "the idle target is sampled")
        self.assertEqual("awake", target.command("wake"))
        eventually(lambda: [s for s in daemon.sites(target.pid) if "Idle" in s["function"]],
                   "samples of the idle target")
        target.exit()
        daemon.wait_state(target.pid, "exited")

    def test_an_almost_idle_target_is_sampled_before_it_collects(self):
        for folder in (harness.TARGETS, harness.TARGETS5):
            with self.subTest(folder.name):
                target = self.target("idle", folder=folder)
                collections = target.command("touch")
                daemon = self.daemon("--pid", target.pid, rate=1e-3)

                def sampling():
                    self.assertEqual(collections, target.command("touch"))
                    return daemon.state(target.pid) == "sampling"
                eventually(sampling, "the target is sampled")
                target.exit()

    def test_detach_while_waiting(self):
        target = self.target("idle")
        daemon = self.daemon("--pid", target.pid)
        daemon.detach(target.pid)
        self.assertEqual("awake", target.command("wake"))
        self.assertEqual(harness.OK, daemon.stop())
        self.assertEqual("awake", target.command("wake"))


class Ways(E2ETest):
    """Ways to use the agent other than injection."""

    def test_preloaded_agent(self):
        env = dict(os.environ, LD_PRELOAD=str(harness.BUILD / "libmemprof_agent.so"))
        target = self.target("known_alloc", env=env)
        daemon = self.daemon("--pid", target.pid, "--no-inject", rate=1e-3)
        self.sample_on_command(daemon, target)
        truth = target.command("go 4")["sites"]
        seen = sum_sites(daemon.settled_sites(target.pid), "site_small")
        self.assert_estimate("site_small", seen["allocated_bytes"],
                             truth["site_small"]["allocated_words"], 1e-3)
        maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
        self.assertEqual(1, len({line.split()[-1] for line in maps.splitlines() if "memprof_agent" in line}))

    def test_linked_agent(self):
        for folder in sorted({harness.TARGETS, harness.TARGETS5}):
            with self.subTest(folder.name):
                target = self.target("linked_agent", folder=folder)
                daemon = self.daemon("--pid", target.pid, "--no-inject", rate=1e-3)
                self.sample_on_command(daemon, target)
                before = target.command("stat")["sites"]["site_small"]["allocated_words"]
                truth = target.command("go 4")["sites"]["site_small"]["allocated_words"] - before
                seen = sum_sites(daemon.settled_sites(target.pid), "site_small")
                self.assert_estimate("site_small", seen["allocated_bytes"], truth, 1e-3)
                self.assertEqual("agent", daemon.targets()[target.pid]["mode"])
                maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
                self.assertNotIn("memprof_agent", maps)
                target.exit()

    def test_no_inject_without_an_agent_is_refused_in_agent_mode(self):
        target = self.target("known_alloc")
        daemon = self.daemon("--no-inject", "--mode", "agent", "--pid", target.pid, wait=False)
        self.assertIn(daemon.wait(), (harness.NOT_PROFILABLE, harness.AGENT))
        self.assertIn("agent", daemon.said())
        self.assertEqual(1, target.command("go 1")["rounds"])


if __name__ == "__main__":
    unittest.main()
