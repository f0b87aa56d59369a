# SPDX-License-Identifier: Apache-2.0
"""make bench-compare BASE=REVISION: compares the cost of another revision's memprofd with this tree's.

Builds the revision under BUILD/compare and runs rounds of make bench with both in turn, with this tree's programs and
measurements: only memprofd, memprofctl and the agent are the base's. Prints the medians of both and their ratio.
Other options are passed to bench.py.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kit")]
import harness  # noqa: E402
import machine  # noqa: E402
from comparison import HEADER, changes  # noqa: E402
from result import FORMAT, Result  # noqa: E402
from rounds import interleaved  # noqa: E402
from table import as_text, grouped  # noqa: E402

SECTIONS = ["overhead", "latency", "hits", "ingest", "live", "trace"]
PROGRAMS = ["all", "build/tests/ingest_bench", "build/tests/history_bench"]


def checked(command, **options):
    """Runs a command and shows its output; a failure ends this program."""
    done = subprocess.run([str(word) for word in command], check=False, **options)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} ended with {done.returncode}")


def built(base, jobs):
    """Builds a revision, and returns its build folder. The file `commit` in it marks a complete build."""
    commit = machine.git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    if not commit:
        sys.exit(f"compare: there is no revision {base}")
    tree = harness.BUILD / "compare" / commit[:12]
    if not (tree / "build/commit").exists():
        print(f"building {base} ({commit[:12]}) in {tree}", flush=True)
        tree.mkdir(parents=True, exist_ok=True)
        archive = tree / "tree.tar"
        checked(["git", "-C", harness.ROOT, "archive", "--output", archive, commit])
        checked(["tar", "-x", "-f", archive, "-C", tree])
        archive.unlink()
        own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        checked(["make", "-C", tree, f"-j{jobs}", *PROGRAMS], env=own)
        (tree / "build/commit").write_text(commit + "\n")
    return tree / "build"


def one_round(build, arguments):
    """The result of one round with the memprofd of a build folder."""
    out = harness.BUILD / "compare" / "round.json"
    out.unlink(missing_ok=True)
    out.parent.mkdir(exist_ok=True)
    environment = dict(os.environ, MEMPROFD_BUILD=str(build), MEMPROFD_TARGETS=str(harness.TARGETS))
    done = subprocess.run([sys.executable, HERE / "bench.py", "--pairs", "1", "--out", out, *arguments],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, flush=True)  # the sections that have numbers still count
    if not out.exists():
        sys.exit("compare: bench.py ended without a result")
    return Result.load(out)


def run_rounds(base, count, arguments, here_arguments):
    """[(result of the base, result of this tree)]"""
    sides = {"base": (base, arguments), "here": (harness.BUILD, arguments + here_arguments)}
    done = []

    def one(side):
        done.append(side)
        print(f"  run {len(done)} of {2 * count}: {side}", flush=True)
        return one_round(*sides[side])
    return [(pair["base"], pair["here"]) for pair in interleaved(list(sides), count, one)]


def show(found):
    for section, of_section in found.items():
        print(f"{section}:")
        for what, rows in grouped(of_section, lambda change: change.what).items():
            unit = f", {rows[0].unit}" if rows[0].unit else ""
            print(f"  {what}{unit}\n" + as_text(HEADER, [change.cells() for change in rows]))


def save(path, rounds, found):
    base, here = rounds[-1]
    document = {"format": FORMAT, "base": base.about, "here": here.about,
                "sections": {name: [change.to_json() for change in of_section] for name, of_section in found.items()}}
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {path}")


def main(given):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="REVISION")
    parser.add_argument("--pairs", type=int, default=9, metavar="N", help="rounds (default 9)")
    parser.add_argument("--here", metavar="ARGUMENT", action="append", default=[],
                        help="one more for this tree's memprofd alone; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="for the build")
    options, arguments = parser.parse_known_args(given)
    base = built(options.base, options.jobs)
    if not any(word.startswith("--only") for word in arguments):
        arguments += [word for section in SECTIONS for word in ("--only", section)]
    rounds = run_rounds(base, options.pairs, arguments, [f"--memprofd={word}" for word in options.here])
    found = changes(rounds)
    show(found)
    save(harness.BUILD / "bench-compare.json", rounds, found)


if __name__ == "__main__":
    main(sys.argv[1:])
