# SPDX-License-Identifier: Apache-2.0
"""make bench-report: writes the results in the JSON files of make bench to a file in tests/bench/results."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kit")]
import harness  # noqa: E402
from result import Result  # noqa: E402
from table import section_markdown  # noqa: E402

FOLDER = HERE / "results"
HEAD = """# Results of make bench

Written by make bench-report from the JSON files of make bench; BENCHMARKS.md says how to read them.
"""


def about_lines(about):
    changed = " and changes" if about["changed"] else ""
    return "\n".join([
        f"- commit {about['commit'][:12]}{changed}, `{about['command']}`",
        f"- {about['cpus']} CPUs ({about['cpu']}), {about['memory_mib']:,} MiB, Linux {about['kernel']}",
        f"- {about['began'].partition('T')[0]}, {about['seconds'] / 60:.0f} minutes; rounds: {about['pairs']}; "
        f"work of a run: {about['scale']:g} of the full",
        f"- load of the machine before {about['load_before']:.1f}, after {about['load_after']:.1f}; "
        f"nice {about['nice']}{quiet(about)}"])


def quiet(about):
    """The warning for a report from a machine that was not idle; empty otherwise."""
    busy = about["load_before"] > 0.5 * about["cpus"] or about["nice"] > 0
    return ". **The machine had other work: these numbers show that everything is measured, not what it costs**" * busy


def report(result, title):
    missed = [f"{section.name}: {', '.join(filter(None, measure.key()))}" for section in result.sections
              for measure in section.measures if not measure.met()]
    goals = "Goals missed:\n\n" + "\n".join(f"- {line}" for line in missed) if missed else "All goals were met."
    return "\n\n".join([f"## {title}", about_lines(result.about), goals,
                        *(section_markdown(section) for section in result.sections)])


def document(results):
    runs = [report(result, f"Results of run {n}") for n, result in enumerate(results, 1)]
    return "\n\n".join([HEAD.strip(), *runs]) + "\n"


def path_of(results):
    """One file per day: a later report of the same day replaces it."""
    return FOLDER / f"{results[0].about['began'].partition('T')[0]}.md"


def main(paths):
    results = [Result.load(path) for path in paths]
    path_of(results).write_text(document(results))
    print(f"written to {path_of(results)}")


if __name__ == "__main__":
    main(sys.argv[1:] or [harness.BUILD / "bench.json"])
