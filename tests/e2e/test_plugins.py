# SPDX-License-Identifier: Apache-2.0
"""Stacks are complete through code that Dynlink loads before or after the attach."""

import unittest

import harness
from harness import E2ETest, eventually, sum_sites


class Plugins(E2ETest):
    RATE = 1e-2
    BLOCKS = 100_000
    FOLDER = harness.TARGETS / "plugins"

    def plugin(self, name):
        return self.FOLDER / f"plugin_{name}.cmxs"

    def attached(self, *plugins):
        target = self.target("plugin_host", *map(self.plugin, plugins), folder=self.FOLDER)
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        self.sample_on_command(daemon, target)
        return target, daemon

    def work(self, target, daemon):
        before = self.stacks(daemon, target)
        target.command(f"go {self.BLOCKS}")
        daemon.settled_sites(target.pid)
        return before, self.stacks(daemon, target)

    def stacks(self, daemon, target):
        """Samples by callstack, as names without module prefixes."""
        counts = {}
        for row in daemon.ctl_json("sites", "--pid", target.pid, "--group-by", "callstack", "-n", 0)["sites"]:
            names = tuple(frame["function"].split("__")[-1] for frame in row["callstack"])
            counts[names] = counts.get(names, 0) + row["samples"]
        return counts

    def check(self, target, daemon, *plugins):
        """In one round, all allocations of each plugin and below it have complete stacks."""
        before, after = self.work(target, daemon)
        grown = {stack: n - before.get(stack, 0) for stack, n in after.items() if n > before.get(stack, 0)}
        for plugin in plugins:
            module = f"Plugin_{plugin}"
            for site, words in (("site_in_plugin", 4), ("site_in_host", 3)):
                mine = [(stack, n) for stack, n in grown.items()
                        if stack[0].endswith(site) and any(name.startswith(module) for name in stack)]
                samples = sum(n for _, n in mine)
                self.assert_estimate(f"{site} under {module}", samples / self.RATE * 8,
                                     self.BLOCKS * words, self.RATE, sigmas=5)
                for stack, _ in mine:
                    self.assertTrue(any("Plugin_host.round" in name for name in stack), stack)
                    if site == "site_in_host":
                        self.assertIn(f"{module}.through_plugin", stack)

    def known(self, daemon, plugin):
        eventually(lambda: f"plugin_{plugin}.cmxs has" in daemon.said(), f"plugin {plugin} is found")

    def test_plugins_loaded_before_the_attach(self):
        target, daemon = self.attached("early")
        self.check(target, daemon, "early")
        target.exit()

    def test_plugins_loaded_after_the_attach(self):
        target, daemon = self.attached()
        target.command(f"load {self.plugin('late')}")
        self.known(daemon, "late")
        self.check(target, daemon, "late")
        target.exit()

    def test_plugins_loaded_before_and_after(self):
        target, daemon = self.attached("early")
        target.command(f"load {self.plugin('late')}")
        self.known(daemon, "late")
        self.check(target, daemon, "early", "late")
        sites = daemon.sites(target.pid)
        found = [s for s in sites if s["function"].endswith("Plugin_late.site_in_plugin")]
        self.assertEqual(1, len(found), sites)
        self.assertTrue(found[0]["file"].endswith("plugin_late.ml"), found)
        self.assertEqual(0, sum_sites(sites, "(unknown)")["samples"])
        target.exit()

    def test_observe_mode_goes_through_plugins(self):
        """Also if the agent was present before and could not sample."""
        target = self.target("plugin_host", self.plugin("early"), folder=self.FOLDER)
        target.command("memprof")
        daemon = self.daemon("--pid", target.pid)
        def observed():
            target.command(f"go {self.BLOCKS}")
            return daemon.state(target.pid) == "sampling"
        eventually(observed, "it is observed")
        self.assertIn("uses Gc.Memprof itself", daemon.targets()[target.pid]["message"])
        def through_plugin():
            target.command(f"go {self.BLOCKS}")
            return [stack for stack in self.stacks(daemon, target) if "Plugin_early.through_plugin" in stack]
        stacks = eventually(through_plugin, "samples under the plugin")
        for stack in stacks:
            self.assertTrue(any("Plugin_host.round" in name for name in stack), stack)
        self.assertEqual(1, daemon.said().count("plugin_early.cmxs has"))
        target.exit()

    def test_before_it_is_known_a_plugin_ends_the_stack(self):
        """Early samples may end at a plugin; no stack continues past it with wrong frames."""
        target, daemon = self.attached()
        target.send(f"load {self.plugin('late')}")
        target.send(f"go {self.BLOCKS}")
        target.read_line()
        target.read_line()
        daemon.settled_sites(target.pid)
        for stack in self.stacks(daemon, target):
            self.assertTrue(stack[-1] in ("caml_program", "Plugin_host.site_in_host", "(unknown)"), stack)
        self.known(daemon, "late")
        self.check(target, daemon, "late")
        target.exit()

    def test_the_first_sample_goes_through_plugins(self):
        """A plugin that is already loaded is known before the first sample."""
        target = self.target("plugin_host", self.plugin("early"), folder=self.FOLDER)
        target.send("go 1000000000000")  # works until it is killed
        for _ in range(10):
            daemon = self.daemon("--pid", target.pid, "--mode", "observe")
            eventually(lambda d=daemon: d.metrics().total("memprofd_samples_total", pid=target.pid) > 100, "samples")
            self.assertEqual(0, daemon.metrics().value("memprofd_dropped_events_total", reason="broken_stack"))
            cut = [stack for stack in self.stacks(daemon, target) if stack[-1] != "caml_program"]
            self.assertEqual([], cut)
            self.assertEqual(harness.OK, daemon.stop())


class PluginsOfOcaml5(Plugins):
    FOLDER = harness.BUILD / "targets-trixie" / "plugins"


if __name__ == "__main__":
    unittest.main()
