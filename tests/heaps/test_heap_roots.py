# SPDX-License-Identifier: Apache-2.0
"""For each root of a program, a snapshot reports the reachable memory that the program's own runtime counts."""

import json
import subprocess
import unittest

import harness
from harness import TARGETS4, TARGETS5
from heap_copies import Snapshot
from heap_copies import Snapshot


class Roots(Snapshot):
    """Compares every field of every module, and other kinds of roots, to the word."""

    programs = TARGETS4

    def query(self, sql):
        command = [harness.BUILD / "memprofctl", "snapshot", "query", self.folder / "a.heap", sql, "-o", "json"]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=harness.TIMEOUT).stdout)["rows"]

    def modules(self):
        """{offset of a module's block from caml_globals: module name}, from the symbols of the program's file."""
        listed = subprocess.run(["nm", self.programs / "heap_roots"], capture_output=True, text=True, check=True).stdout
        places = {name: int(place, 16) for place, _, name in (line.split() for line in listed.splitlines()
                                                              if len(line.split()) == 3)}
        return {place - places["caml_globals"]: name.removeprefix("caml") for name, place in places.items()
                if name.startswith("caml") and name[4:5].isupper()}

    def told(self):
        """{(module, field): (words that the program's runtime counts, words of those in the heap)}, from the program's
        output."""
        modules = self.modules()
        rows = [map(int, line.split()) for line in (self.folder / "own").read_text().splitlines()]
        return {(modules[place], field): (words, heap) for place, field, words, heap in rows}

    def taken(self):
        """Takes a snapshot between two equal answers of the program; returns the answer."""
        target, daemon = self.attached("heap_roots")
        command = f"roots {self.folder / 'own'}"
        self.stepping(target, daemon, command)
        before = (target.command(command), self.told())
        taker = self.taker(daemon, "a.heap")
        while taker.running():
            target.command(command)  # the program allocates, so that it reaches a safe point
        self.assertEqual(0, taker.wait(), taker.stderr())
        after = (target.command(command), self.told())
        self.assertEqual(before, after)
        return after

    def test_each_leads_to_what_the_program_counts(self):
        others, told = self.taken()
        found = {(owner, field): words for owner, field, words in self.query(
            "SELECT owner, field, reachable_bytes(block) / 8 FROM roots WHERE kind = 'globals' GROUP BY owner, field")}
        told = {root: words for root, words in told.items() if words[1]}
        # A module without its own code has no name.
        [nameless] = {owner for owner, _ in told} - {owner for owner, _ in found}
        self.assertEqual("UnixLabels", nameless)
        told = {(None if owner == nameless else owner, field): words for (owner, field), words in told.items()}
        self.assertEqual({root: heap for root, (_, heap) in told.items()}, found)
        # Only the runtime of OCaml 5 counts blocks in the program's file; snapshots never contain them.
        exact = {root: words for root, (words, heap) in told.items() if words == heap}
        if self.programs == TARGETS5:
            self.assertLess(40, len(exact))
        else:
            self.assertEqual(found, exact)
        self.assertLess({"Heap_roots", "Stdlib", "Unix", "Handshake"}, {owner for owner, _ in found})
        self.assertLess(25, len([owner for owner, _ in found if owner == "Heap_roots"]))
        self.assertLess(50_000, max(found.values()), "one of them is large")
        harness.NOTES.append(f"{len(found)} roots, {len(exact)} of them by Obj.reachable_words")
        self.check_others(others)

    def check_others(self, told):
        """Checks roots that C code registers, on the stack, and of finalisers."""
        for words, where in ((told["in_c"], "kind = 'registered by C code' AND owner LIKE 'heap_roots%'"),
                             (told["on_stack"], "kind = 'stacks' AND function = 'Heap_roots.hold_on_stack'")):
            found = self.query(f"SELECT reachable_bytes(block) / 8 FROM roots WHERE {where} GROUP BY block")
            self.assertIn([words], found)
        # Finalisers that are due to run have their values as roots, too.
        self.assertEqual([["Gc.finalise", 30, told["first"]], ["Gc.finalise_last", 20, told["last"]], ["to run", 18, told["to_run"]]],
                         self.query("SELECT owner, count(*), reachable_bytes(block) / 8 FROM roots WHERE kind = 'finalisers' "
                                    "GROUP BY owner ORDER BY owner"))


class Roots5(Roots):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
