# SPDX-License-Identifier: Apache-2.0
"""make bench: measures the cost of memprofd on this machine, side by side with other tools.

Prints tables and writes a JSON file, from which `report.py` makes tables in tests/bench/results. BENCHMARKS.md
describes the method. Compared runs are interleaved. Needs root.
"""

import argparse
import importlib
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kit"), str(HERE.parent / "agent")]
import bench_context  # noqa: E402
import harness  # noqa: E402
import machine  # noqa: E402
from bench_context import say  # noqa: E402
from result import Result, Section  # noqa: E402
from served import PROGRAMS  # noqa: E402
from table import section_text  # noqa: E402
from workloads import SERVER, WORKLOADS  # noqa: E402

SECTIONS = ["overhead", "latency", "parts", "hits", "budget", "ingest", "live", "trace", "recording", "attach", "tables",
            "large", "targets", "crowd", "history", "limits", "walks", "captures", "values", "snapshots", "pauses", "c_memory",
            "c_server", "servers"]
NAMES = list(dict.fromkeys(workload.name for workload in (*WORKLOADS, SERVER, *PROGRAMS)))
NOT_SHORT = {"large", "history", "limits"}  # each takes minutes


def section_module(name):
    return importlib.import_module(f"sections.{name}")


def measured(name, module, context):
    """Runs a section. A failure is recorded in the result, and the other sections continue."""
    section = Section(name, module.__doc__.strip().partition("\n")[0])
    say(f"{name}: {section.title}")
    try:
        module.run(context, section)
    except (AssertionError, RuntimeError, OSError, subprocess.SubprocessError) as error:
        section.failed = f"{type(error).__name__}: {error}"
    say(section_text(section))
    return section


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SECTION", choices=SECTIONS, action="append",
                        help=f"repeatable; of {', '.join(SECTIONS)}")
    parser.add_argument("--pairs", type=int, metavar="N", help="rounds of interleaved runs (default 9; short: 2)")
    parser.add_argument("--short", action="store_true", help="a tenth of the work, two rates, under 5 minutes")
    parser.add_argument("--scale", type=float, help="of the work of each run (default 1; short: 0.1)")
    parser.add_argument("--rate", type=float, action="append", help="repeatable; the default is 1e-6 to 1e-2")
    parser.add_argument("--workload", metavar="NAME", choices=NAMES, action="append", default=[],
                        help=f"repeatable; of {', '.join(NAMES)}; the default is all")
    parser.add_argument("--memprofd", metavar="ARGUMENT", action="append", default=[],
                        help="one more for memprofd; repeatable")
    parser.add_argument("--memtrace", metavar="FOLDER", type=pathlib.Path,
                        help="compare captures with depths and c_heavy of that folder, linked by hand with Memtrace")
    parser.add_argument("--out", type=pathlib.Path, default=harness.BUILD / "bench.json")
    return parser.parse_args(arguments)


def context_of(options, files):
    short = options.short
    rates = options.rate or (bench_context.SHORT_RATES if short else bench_context.RATES)
    return bench_context.Context(
        files=pathlib.Path(files), pairs=options.pairs or (2 if short else 9), short=short,
        scale=options.scale or (bench_context.SHORT_SCALE if short else 1.0), rates=tuple(sorted(rates)),
        memprofd=tuple(options.memprofd), workloads=tuple(options.workload),
        memtrace=options.memtrace and options.memtrace.resolve())


def main(arguments):
    options = options_of(arguments)
    chosen = options.only or [name for name in SECTIONS if not (options.short and name in NOT_SHORT)]
    result = Result(machine.about(["tests/bench/bench.py", *arguments]))
    with tempfile.TemporaryDirectory(prefix="memprofd-bench-") as files:
        context = context_of(options, files)
        result.about.update(pairs=context.pairs, scale=context.scale)
        for name in chosen:
            result.sections.append(measured(name, section_module(name), context))
            result.about = machine.finished(result.about)
            result.save(options.out)
    say(f"written to {options.out}")
    return 1 if any(section.failed for section in result.sections) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
