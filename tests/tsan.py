# SPDX-License-Identifier: Apache-2.0
"""ThreadSanitizer's builds: how their programs are started, and what they have reported."""

import pathlib

TESTS = pathlib.Path(__file__).resolve().parent
# Its runtime has places of its own in memory, which programs get by chance where the kernel spreads them widely.
COMMAND = ["setarch", "--addr-no-randomize"]
# Seconds that a test waits for something: such a program takes ten times as long.
TIMEOUT = 300
# What starts and answers with real programs: attaching, streams, traces, snapshots, HTTP, many targets and many clients.
MODULES = ["e2e/test_attach", "e2e/test_events", "e2e/test_http_control", "e2e/test_process_life", "e2e/test_queries",
           "e2e/test_service", "e2e/test_snapshots", "e2e/test_traces"]
# Slow tests that one thread decides; unit-asan runs them. Of all others make tsan runs everything.
SLOW = ["SymbolizerTest.KeepsSoManyAnswersAndNoMore", "PagesTest.*"]


def chosen_tests(chosen):
    """GoogleTest's filter: without the slow ones, unless somebody chooses."""
    return chosen or "*-" + ":".join(SLOW)


def environment(log):
    """Reports go to files beside the log, whoever starts the program; it goes on after one."""
    options = {"suppressions": TESTS / "tsan.supp", "log_path": reports_of(log), "exitcode": 0, "history_size": 4}
    return {"TSAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items()), "MEMPROFD_TIMEOUT": str(TIMEOUT)}


def reports_of(log):
    return log.with_suffix(".report")


def forget_reports(log):
    for path in log.parent.glob(reports_of(log).name + ".*"):
        path.unlink()


def note_reports(log, outcome):
    """Each program that has reported something has failed; the log ends with what they said."""
    for path in sorted(log.parent.glob(reports_of(log).name + ".*")):
        said = path.read_text(errors="replace")
        with log.open("a") as out:
            out.write(f"\n{path.name}:\n{said}")
        summary = [line for line in said.splitlines() if line.startswith("SUMMARY: ")] or ["it says no more"]
        outcome.failed += 1
        outcome.failures += [f"{path.name}: {line}" for line in sorted(set(summary))]
