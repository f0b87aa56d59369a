# SPDX-License-Identifier: Apache-2.0
"""Sampled blocks that are reachable only from a stack get their types from the source at their allocation sites."""

import json
import pathlib
import subprocess
import unittest

import harness
from harness import OK, TARGETS4, TARGETS5
from heap_copies import Snapshot
from heap_copies import Snapshot

# Types start at the list's first sampled cell, one in 333; of this many cells only few precede it.
ORDERS = 100_000


class SiteTypes(Snapshot):
    programs = TARGETS4

    def cmt(self):
        """Options that name the types of the program and of its OCaml library."""
        if self.programs == TARGETS4:
            return ["--cmt", self.programs / "heaps"]
        prefix = subprocess.run([harness.ROOT / "tests/targets/debian-prefix.sh", self.programs.name.removeprefix("targets-")],
                                capture_output=True, text=True, check=True).stdout.strip()
        places = [self.programs / "on_stack-types", *pathlib.Path(prefix).glob("usr/lib/*/ocaml")]
        return [option for place in places for option in ("--cmt", place)]

    def ask(self, question, *arguments):
        return json.loads(harness.memprofctl("snapshot", question, *arguments, "-n", "0", "-o", "json").stdout)

    def share(self, shown):
        """The typed share of the reachable memory."""
        return shown["types"]["typed"]["bytes"] / shown["heap"]["reachable"]["bytes"]

    def shown(self, daemon, name):
        path, done = self.take(daemon, name=name)
        self.assertEqual(OK, done.returncode, done.stderr)
        return path, self.ask("show", path, *self.cmt())

    def test_what_only_a_stack_leads_to(self):
        target, daemon = self.attached("on_stack")
        daemon.wait_state(target.pid, "sampling")
        orders = target.command(f"take {ORDERS}")["orders"]
        path, shown = self.shown(daemon, "sampled.heap")
        before = self.share(self.unsampled())
        types, share = shown["types"], self.share(shown)
        harness.NOTES.append(f"{before:.1%} typed by modules, {share:.1%} with sites: {types}")
        self.assertLess(before, 0.1)
        self.assertGreater(share, 0.9)
        self.assertGreater(types["by_site"], 100)
        self.assertEqual((0, 0), (types["disagreed"], types["sites_disagreed"]))
        self.assertLess(types["sites_unfit"], 0.05 * types["by_site"])
        blocks = {row["name"]: row["reachable"]["blocks"] for row in shown["shapes"]}
        self.assertAlmostEqual(orders, blocks["On_stack.order"], delta=0.05 * orders)
        self.assertAlmostEqual(orders // 3, blocks["On_stack.state.Paid"], delta=0.05 * orders)
        self.assertAlmostEqual(5 * orders, blocks["On_stack.line"], delta=0.05 * 5 * orders)
        self.assertAlmostEqual(orders, blocks["On_stack.line array"], delta=0.05 * orders)
        ways = json.dumps(self.ask("why", path, "make_line", *self.cmt())["paths"], ensure_ascii=False)
        self.assertIn("On_stack.order.lines → On_stack.line array", ways)

    def unsampled(self):
        """The snapshot of a program that was not sampled while it allocated."""
        target = self.target("on_stack", folder=self.programs)
        target.command(f"take {ORDERS}")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        return self.shown(daemon, "plain.heap")[1]


class SiteTypes5(SiteTypes):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
