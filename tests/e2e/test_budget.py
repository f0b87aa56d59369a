# SPDX-License-Identifier: Apache-2.0
"""With --max-overhead and --cpu.max, sampling rates follow the load, and estimates stay correct."""

import os
import re
import time
import unittest

import harness
from harness import E2ETest, eventually

BUDGET = 0.01
RATE = 1e-2
WORD_BYTES = 8


def rested(memprofd, load):
    """At rest: allocated words by the program's count, and their estimate with its variance."""
    words = load.command("rest")["words"]

    def estimates():
        metrics = memprofd.metrics()
        found = metrics.find("memprofd_allocated_bytes_stderr", pid=load.pid)
        return (metrics.total("memprofd_allocated_bytes_total", pid=load.pid) / WORD_BYTES,
                sum((sample.value / WORD_BYTES) ** 2 for sample in found))
    return words, *harness.settled(estimates, "estimates")


class Budget(E2ETest):
    def start(self, *options, folder=None, budget=f"{BUDGET:.0%}", rate=RATE, **daemon):
        self.load = self.target("load", folder=folder)
        self.load.command("light")
        limit = () if budget is None else ("--max-overhead", budget)
        self.memprofd = self.daemon(*limit, "--pid", self.load.pid, *options, rate=rate, **daemon)
        self.wait_for(lambda value: value("memprofd_samples_total", event="alloc") > 0, "samples")

    def wait_for(self, condition, what):
        """Waits until condition(value) holds, where value(name) is a metric of the target."""
        def holds():
            metrics = self.memprofd.metrics()
            return condition(lambda name, **labels: metrics.value(name, pid=self.load.pid, **labels))
        eventually(holds, what)

    def wait_for_rate(self, low, high):
        self.wait_for(lambda value: low <= value("memprofd_sampling_rate") <= high, f"a rate of {low:g} to {high:g}")

    def rested(self):
        return rested(self.memprofd, self.load)

    def test_the_rate_follows_the_load_and_estimates_stay_right(self):
        self.start()
        self.wait_for_rate(RATE, RATE)
        before = self.rested()
        self.load.command("busy")
        self.wait_for_rate(1e-6, RATE / 20)
        self.wait_for(lambda value: 0 < value("memprofd_overhead_ratio") < BUDGET, "overhead within the budget")
        self.load.command("light")
        self.wait_for_rate(2e-4, RATE)
        after = self.rested()

        metrics = self.memprofd.metrics()
        lowered, raised = (metrics.value("memprofd_sampling_rate_changes_total", pid=self.load.pid, reason=reason)
                           for reason in ("over_budget", "below_budget"))
        self.assertTrue(1 <= lowered <= 4 and 2 <= raised <= 8, (lowered, raised))
        drops = {drop["reason"]: drop["count"] for drop in self.memprofd.targets()[self.load.pid]["drops"]}
        exact, estimated = after[0] - before[0], after[1] - before[1]
        error = (after[2] - before[2]) ** 0.5
        harness.NOTES.append(f"estimated/exact {estimated / exact:.4f}, error {error / exact:.4f}, "
                             f"lowered {lowered:.0f}, raised {raised:.0f}")
        self.assertLess(error, exact / 20)
        self.assertLess(abs(estimated - exact), 4 * error, f"exact {exact}, estimated {estimated:.0f}, dropped {drops}")

    def test_it_is_shown(self):
        self.start()
        self.wait_for_rate(RATE, RATE)
        overhead = self.memprofd.targets()[self.load.pid]["overhead"]
        self.assertEqual((BUDGET, RATE, False),
                         (overhead["budget_ratio"], overhead["requested_sampling_rate"], overhead["exhausted"]))
        self.assertIn("of 1.0 %", self.memprofd.ctl("targets").stdout)
        raised = re.compile(r"sampling load at 0\.01/word .*, raised: profiling took .* %")
        eventually(lambda: raised.search(self.memprofd.said()), "the change is in the log")

    def test_a_requested_rate_is_the_highest(self):
        self.start()
        self.wait_for_rate(RATE, RATE)
        self.memprofd.set_rate(self.load.pid, 1e-3)
        self.wait_for_rate(1e-3, 1e-3)
        self.load.command("busy")
        self.wait_for_rate(1e-6, 5e-4)
        target = self.memprofd.targets()[self.load.pid]
        self.assertEqual(1e-3, target["overhead"]["requested_sampling_rate"])

    def test_a_rate_that_cannot_take_effect_says_what_holds_it(self):
        self.start()
        self.load.command("busy")
        self.wait_for_rate(1e-6, RATE / 20)
        kept = re.compile(r"kept at \S+ by --max-overhead 1% \(runtime capture costs [\d.]+ .?s a sample\); "
                          r"(try --max-overhead \d+%|0\.01 would take \d+ % of its CPU)")
        eventually(lambda: kept.search(self.memprofd.targets()[self.load.pid]["message"]), "the reason is shown")
        eventually(lambda: kept.search(self.memprofd.ctl("rate", "1e-2", "--pid", self.load.pid).stdout), "it is answered")
        self.assertRegex(self.memprofd.ctl("targets").stdout, r" \S+ of 0\.01 .* kept at ")
        self.assertGreater(self.memprofd.targets()[self.load.pid]["overhead"]["sample_seconds"], 0)

    def test_who_captures_does_not_change_with_the_rate(self):
        self.start()
        self.load.command("busy")
        self.wait_for_rate(1e-6, 9e-5)  # kernel capture would run here without a budget

        def counts():
            metrics = self.memprofd.metrics()
            return (metrics.value("memprofd_samples_total", pid=self.load.pid, event="alloc"),
                    metrics.value("memprofd_events_total"))
        before = counts()
        eventually(lambda: counts()[0] > before[0] + 5_000, "samples")
        samples, hits = (after - first for after, first in zip(counts(), before))
        self.assertLess(hits, samples / 20)

    def test_an_attach_has_a_budget_of_its_own(self):
        daemon = self.daemon(rate=RATE)
        bounded, free = self.target("load"), self.target("load")
        for target in bounded, free:
            target.command("light")
        daemon.ctl("attach", "--pid", bounded.pid, "--max-overhead", "0.5%")
        daemon.attach(free.pid)
        targets = daemon.targets()
        self.assertEqual(0.005, targets[bounded.pid]["overhead"]["budget_ratio"])
        self.assertEqual(0, targets[free.pid]["overhead"]["budget_ratio"])
        self.assertEqual([], daemon.metrics().find("memprofd_overhead_budget_ratio", pid=free.pid))

    def test_what_profiling_takes_is_told_without_a_budget(self):
        self.start(budget="none")
        self.load.command("busy")
        self.wait_for(lambda value: value("memprofd_overhead_ratio") > 2 * BUDGET, "what it takes")
        self.wait_for_rate(RATE, RATE)
        self.assertRegex(self.memprofd.ctl("targets").stdout, r" \d[\d.]* % ")

    def test_it_is_told_without_cap_sys_admin_too(self):
        """Without CAP_SYS_ADMIN the cost of BPF programs is estimated, and a budget is still
        kept."""
        self.start(prefix=("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"))
        self.load.command("busy")
        self.wait_for_rate(1e-6, RATE / 20)
        self.wait_for(lambda value: 0 < value("memprofd_overhead_ratio") < BUDGET, "overhead within the budget")

    def test_a_budget_is_changed_while_attached(self):
        self.start(budget="none")
        self.load.command("busy")
        self.wait_for_rate(RATE, RATE)
        self.memprofd.ctl("rate", "--pid", self.load.pid, "--max-overhead", f"{BUDGET:.0%}")
        self.wait_for_rate(1e-6, RATE / 20)
        self.assertEqual(BUDGET, self.memprofd.targets()[self.load.pid]["overhead"]["budget_ratio"])
        self.memprofd.ctl("rate", "--pid", self.load.pid, "--max-overhead", "none")
        self.wait_for_rate(RATE, RATE)
        self.memprofd.ctl("rate", "1e-3", "--pid", self.load.pid)
        self.wait_for_rate(1e-3, 1e-3)

    def test_the_usual_budget_is_one_percent_and_pays_for_the_usual_rate(self):
        self.start(usual_budget=True, budget=None, rate=None)
        self.wait_for(lambda value: value("memprofd_overhead_budget_ratio") == 0.01, "the budget")
        self.wait_for_rate(1e-4, 1e-4)
        self.memprofd.wait_state(self.load.pid, "sampling")
        target = self.memprofd.targets()[self.load.pid]
        self.assertEqual(("runtime", ""), (target["capture"], target["message"]))

    def test_the_usual_rate_of_a_busy_program_is_what_the_budget_pays_for(self):
        self.start(usual_budget=True, budget=None, rate=None)
        self.load.command("busy")
        samples = lambda value: value("memprofd_samples_total", event="alloc")
        self.wait_for(lambda value: samples(value) > 20_000, "samples")
        self.wait_for(lambda value: 0 < value("memprofd_overhead_ratio") < BUDGET, "overhead within the budget")
        self.wait_for_rate(1e-5, 1e-4)  # kernel capture would allow a fifth of that

    def test_bad_budgets_are_refused(self):
        daemon = self.daemon()
        target = self.target("load")
        for bad in ("0", "-1", "101%", "much"):
            with self.subTest(bad):
                refused = daemon.ctl("attach", "--pid", target.pid, "--max-overhead", bad, check=False)
                self.assertNotEqual(harness.OK, refused.returncode)
                self.assert_one_line(refused.stderr, bad, "such as 1%", "none")


class CpuMax(E2ETest):
    """Programs sampled far beyond memprofd's limit, and a quiet one."""

    BOUND = 0.03  # of a processor
    RATE = 0.03
    WINDOW_CPU_SECONDS = 3  # CPU time of the programs, however long it takes
    PATIENCE = 300  # for a busy machine

    def setUp(self):
        super().setUp()
        self.noisy, self.quiet = [self.target("load") for _ in range(2)], self.target("load")
        for target in (*self.noisy, self.quiet):
            target.command("light")

    def start(self, *options, rate=RATE):
        self.memprofd = self.daemon("--cpu.max", f"{self.BOUND:.0%}", *options, rate=rate)
        for target in (*self.noisy, self.quiet):
            self.memprofd.attach(target.pid)
        for target in (*self.noisy, self.quiet):
            self.memprofd.wait_state(target.pid, "sampling")

    @staticmethod
    def cpu_seconds(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def taken(self):
        """memprofd's share of a processor over a window in which the programs do enough work."""
        def read():
            return [time.monotonic(), self.cpu_seconds(self.memprofd.pid),
                    sum(self.cpu_seconds(target.pid) for target in self.noisy)]
        began = read()
        eventually(lambda: read()[2] - began[2] > self.WINDOW_CPU_SECONDS, "the programs work", timeout=self.PATIENCE)
        seconds, own, _ = (now - then for now, then in zip(read(), began))
        harness.NOTES.append(f"{own / seconds:.1%} of a processor")
        return own / seconds

    def rates(self, targets):
        metrics = self.memprofd.metrics()
        return [metrics.value("memprofd_sampling_rate", pid=target.pid) for target in targets]

    def held(self, target):
        return self.memprofd.metrics().value("memprofd_sampling_rate_held", pid=target.pid) == 1

    def assert_estimate(self, target, before):
        words, estimate, variance = (now - then for now, then in zip(rested(self.memprofd, target), before))
        drops = {drop["reason"]: drop["count"] for drop in self.memprofd.targets()[target.pid]["drops"]}
        self.assertLess(abs(estimate - words), 4 * variance ** 0.5, f"{words} words, estimated {estimate:.0f}, {drops}")

    def test_the_dearest_are_sampled_less_and_a_quiet_one_is_not(self):
        self.start()
        self.assertEqual(self.BOUND, self.memprofd.metrics().value("memprofd_cpu_max_ratio"))
        before = {target: rested(self.memprofd, target) for target in (*self.noisy, self.quiet)}
        self.quiet.command("light")
        for target in self.noisy:
            target.command("busy")
        eventually(lambda: all(map(self.held, self.noisy)), "their rates are lowered", timeout=self.PATIENCE)
        eventually(lambda: self.taken() < self.BOUND, "the bound is kept", timeout=self.PATIENCE)
        self.assertLess(max(self.rates(self.noisy)), self.RATE / 2)
        self.assertEqual([self.RATE], self.rates([self.quiet]))
        self.assertFalse(self.held(self.quiet))
        shown = self.memprofd.targets()[self.noisy[0].pid]
        self.assertIn("--cpu.max", shown["message"])
        self.assertTrue(shown["overhead"]["held"])
        for target in (*self.noisy, self.quiet):
            self.assert_estimate(target, before[target])
        for target in self.noisy:
            target.command("light")
        eventually(lambda: self.rates(self.noisy) == [self.RATE] * len(self.noisy), "there is room again",
                   timeout=self.PATIENCE)
        for target in self.noisy:
            self.assertRegex(self.memprofd.said(), rf"pid {target.pid}: sampling load at .*, lowered: memprofd took .* % "
                                                   r"of a processor for it, --cpu\.max leaves .* %; raise that, or ask")
            self.assertRegex(self.memprofd.said(), rf"pid {target.pid}: sampling load at .*, raised: --cpu\.max leaves")
        self.assertNotRegex(self.memprofd.said(), rf"pid {self.quiet.pid}: .*lowered")


if __name__ == "__main__":
    unittest.main()
