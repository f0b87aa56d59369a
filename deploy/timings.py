#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long building takes, and prints it as a table: deploy/timings.py [--test]

Works in a clone of the current revision, without the compiler cache. Packages are installed already: a
bare machine takes a minute more. --test also runs `make test`, which takes half an hour. Nothing else
should run meanwhile.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
ONE_FILE = "daemon/query/leaks.cc"
ONE_TEST = "leaks"
CENTRAL = ["daemon/model/measure.h", "daemon/history/snapshot.h", "proto/memprof/v1/profiler.proto"]
OBJECT = re.compile(r"^ *(?:\[\d+/\d+\] )?CXX ", re.M)


class Tree:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "tree"
        subprocess.run(["git", "clone", "-q", ROOT, self.folder], check=True)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        self.environment["CCACHE_DISABLE"] = "1"

    def make(self, *goals):
        """(seconds, seconds of CPU, objects that were compiled) of one run of make."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        jobs = f"-j{os.cpu_count()}"
        done = subprocess.run(["make", jobs, *goals], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"timings: make {' '.join(goals)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return time.monotonic() - began, cpu, len(OBJECT.findall(done.stdout))

    def change(self, path):
        """Adds a line that changes what is compiled."""
        text = "message Timing {}\n" if path.endswith(".proto") else "// Timing.\n"
        with open(self.folder / path, "a", encoding="utf-8") as file:
            file.write(text)


def duration(seconds):
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def rows(tree, with_tests):
    seconds, cpu, objects = tree.make("demo")
    yield "`make demo`, packages installed", "8 min", seconds, cpu, objects
    tree.make("all")
    yield "`make` with nothing to do", "2 s", *tree.make("all")
    tree.change(ONE_FILE)
    yield f"`{ONE_FILE}` changed, until memprofd runs again", "12 s", *tree.make("build/memprofd")
    tree.make("all", "build/tests/plain_tests")
    tree.change(ONE_FILE)
    yield f"the same, until its unit test has run (`make unit UNIT={ONE_TEST}`)", "10 s of CPU", *tree.make("unit", f"UNIT={ONE_TEST}")
    tree.make("all")
    for path in CENTRAL:
        tree.change(path)
        yield f"`{path}` changed", "60 s", *tree.make("all")
    if with_tests:
        yield "`make test` after that", "30 min", *tree.make("test")


def main():
    print(f"Measured on {os.cpu_count()} processors, without the compiler cache.\n")
    print("| what | goal | time | CPU | C++ files compiled |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="memprofd-timings-") as folder:
        for what, goal, seconds, cpu, objects in rows(Tree(folder), "--test" in sys.argv[1:]):
            print(f"| {what} | {goal} | {duration(seconds)} | {duration(cpu)} | {objects} |", flush=True)


if __name__ == "__main__":
    main()
