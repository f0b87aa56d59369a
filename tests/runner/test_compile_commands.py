# SPDX-License-Identifier: Apache-2.0
"""compile_commands.json contains make's command for each file in a form that clang understands."""

import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = """mkdir -p build/obj/daemon
/usr/bin/ccache g++ -include build/gen/pch.h -fpch-preprocess -I. -DNAME='"a b"' -O2 -MMD -MP -c daemon/b.cc -o build/obj/b.o
gcc -std=gnu11 -c agent-lib/a.c -o build/agent/a.c.o
g++ -Wl,--as-needed build/obj/b.o -o build/memprofd
printf '  %-8s %s\\n' CXX daemon/b.cc
"""


class CompileCommands(unittest.TestCase):
    def made(self, commands):
        done = subprocess.run([ROOT / "deploy/compile-commands.py"], cwd=ROOT, input=commands, capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)

    def test_has_what_compiles_and_nothing_else(self):
        self.assertEqual([["gcc", "-std=gnu11", "-c", "agent-lib/a.c", "-o", "build/agent/a.c.o"],
                          ["g++", "-I.", '-DNAME="a b"', "-O2", "-c", "daemon/b.cc", "-o", "build/obj/b.o"]],
                         [one["arguments"] for one in self.made(COMMANDS)])
        self.assertEqual([("agent-lib/a.c", str(ROOT)), ("daemon/b.cc", str(ROOT))],
                         [(one["file"], one["directory"]) for one in self.made(COMMANDS)])

    def test_make_names_every_source(self):
        """Uses the Makefile's rule, without writing the file."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        text = subprocess.run(["make", "--silent", "-C", ROOT, "compile_commands.json", "COMPILE_COMMANDS=/dev/stdout"],
                              env=own, capture_output=True, text=True, check=True).stdout
        sources = {str(path.relative_to(ROOT)) for path in [*(ROOT / "daemon").rglob("*.cc"), *(ROOT / "agent-lib").glob("*.c")]}
        self.assertEqual(set(), sources - {one["file"] for one in json.loads(text)})


if __name__ == "__main__":
    unittest.main()
