"""make bench-report: puts the results of benchmarks' JSON files, one a run, into BENCHMARKS.md, below its marker."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import harness  # noqa: E402
from result import Result  # noqa: E402
from table import section_markdown  # noqa: E402

DOCUMENT = harness.ROOT / "BENCHMARKS.md"
MARKER = "<!-- Below: written by make bench-report from the JSON file of make bench. -->"


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
    """What a reader has to know of a machine that had other things to do."""
    busy = about["load_before"] > 0.5 * about["cpus"] or about["nice"] > 0
    return ". **The machine had other work: these numbers show that everything is measured, not what it costs**" * busy


def report(result, title):
    missed = [f"{section.name}: {', '.join(filter(None, measure.key()))}" for section in result.sections
              for measure in section.measures if not measure.met()]
    goals = "Goals missed:\n\n" + "\n".join(f"- {line}" for line in missed) if missed else "All goals were met."
    return "\n\n".join([f"## {title}", about_lines(result.about), goals,
                        *(section_markdown(section) for section in result.sections)])


def reports(results):
    titles = ["Results", *(f"Results of run {n}" for n in range(2, len(results) + 1))]
    return "\n\n".join(report(result, title) for result, title in zip(results, titles, strict=True))


def with_results(document, results):
    head, marker, _ = document.partition(MARKER)
    if not marker:
        raise ValueError(f"{DOCUMENT.name} has no line {MARKER}")
    return f"{head}{MARKER}\n\n{reports(results)}\n"


def main(paths):
    DOCUMENT.write_text(with_results(DOCUMENT.read_text(), [Result.load(path) for path in paths]))


if __name__ == "__main__":
    main(sys.argv[1:] or [harness.BUILD / "bench.json"])
