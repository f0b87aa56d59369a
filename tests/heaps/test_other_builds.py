# SPDX-License-Identifier: Apache-2.0
"""Types come only from files of the program's own build. The program has two modules with names of the compiler's."""

import json
import pathlib
import subprocess
import unittest

import harness
from harness import OK, TARGETS4, TARGETS5
from heap_copies import Snapshot
from heap_copies import Snapshot

MODULES = ["Parser", "Path"]


class OtherBuilds(Snapshot):
    programs = TARGETS4

    def foreign(self):
        """Folder of the program's OCaml libraries, which include modules of the compiler."""
        if self.programs == TARGETS4:
            return pathlib.Path("/usr/lib/ocaml")
        release = self.programs.name.removeprefix("targets-")
        prefix = subprocess.run([harness.ROOT / "tests/targets/debian-prefix.sh", release],
                                capture_output=True, text=True, check=True).stdout.strip()
        return next(pathlib.Path(prefix).glob("usr/lib/*/ocaml/*/compiler-libs")).parent

    def shown(self, heap, *places):
        cmt = [option for place in places for option in ("--cmt", place)]
        return json.loads(harness.memprofctl("snapshot", "show", heap, *cmt, "-n", "0", "-o", "json").stdout)

    def values(self, daemon):
        """({name: type} of the two modules' values, the whole answer)"""
        answer = daemon.ctl_json("values", "--constants", "^(Path|Parser)[.[]")
        return {value["source_name"] or value["name"]: value["source_type"] for value in answer["values"]}, answer

    def test_files_of_another_build_are_ignored(self):
        foreign, own = self.foreign(), self.programs / "foreign-types"
        target = self.target("foreign", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, "--snapshot.cmt", foreign, rate=1e-3)
        self.stepping(target, daemon, "more")
        values, answer = self.values(daemon)
        self.assertEqual([], [name for name, type in values.items() if type or "[" not in name])
        self.assertEqual((MODULES, False), (answer["other_builds"], answer["unverified_names"]))
        self.assertIn("ignored, files of another build: Parser, Path", daemon.ctl("values", "^Path").stdout)
        self.assertIn(f"pid {target.pid}: files of another build are ignored for names and types: Parser, Path", daemon.stderr())

        heap, taker = self.folder / "a.heap", self.taker(daemon, "a.heap")
        while taker.running():
            target.command("more")
        self.assertEqual(OK, taker.wait(), taker.stderr())
        shown = self.shown(heap, foreign, own)
        self.assertEqual([], shown["types"]["other_builds"], "the own ones come later, and are taken")
        self.assertFalse(shown["types"]["unverified"])
        self.assertIn("Path.step", [row["name"] for row in shown["shapes"]])
        alone = self.shown(heap, foreign)
        self.assertEqual(MODULES, alone["types"]["other_builds"])
        self.assertFalse([row["name"] for row in alone["shapes"] if row["name"].startswith(("Path.", "Parser."))])

    def test_files_of_the_build_are_taken(self):
        target = self.target("foreign", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, "--snapshot.cmt", self.foreign(),
                             "--snapshot.cmt", self.programs / "foreign-types", rate=1e-3)
        self.stepping(target, daemon, "more")
        values, answer = self.values(daemon)
        self.assertEqual({"Path.same": "Path.step list ref", "Path.flatten": "Path.step array",
                          "Parser.implementation": "Parser.token list ref"}, values)
        self.assertEqual(([], False), (answer["other_builds"], answer["unverified_names"]))


class OtherBuilds5(OtherBuilds):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
