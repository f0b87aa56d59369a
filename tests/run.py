#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests and closes with one line: "N passed, M failed, K skipped".

  tests/run.py [--build FOLDER] [SUITE...]     default: every suite but unit, unit-tsan-whole and tsan

Suites of C++: unit-asan (GoogleTest, with sanitizers), unit (the same without), unit-tsan (those of
folders where threads share data, with ThreadSanitizer), unit-tsan-whole (all that have threads, with
make tsan's build), plain (tests that sanitizers would disturb or make last), kernel (the kernel side
against the kernel that runs), fuzz (each target of tests/fuzz for 5 s).
Suites of Python: agent (the agent alone), e2e (memprofd with programs), calls (call traces, and the
native heap: malloc), heaps (heap snapshots), hostile (programs that attack memprofd), dashboards
(Grafana's and the page), bench (the benchmark's own code), runner (tests/run.py, documents, packages),
tsan (some modules of e2e with memprofd and memprofctl of make tsan).
A suite may be narrowed: e2e/test_attach to a module, e2e/test_attach:Ways to a class of it,
kernel:StackTruth* to tests by GoogleTest's filter. Exit code 0: all passed.

Output of failed modules is shown; all output is in FOLDER/test-logs. The end lists the ten slowest
modules, each skipped test with its reason, and what failed. Most tests wait for something most of the
time, so several modules run at once (--lanes); those that hold memprofd to a time or a cost run with
few others or alone, at the end. Where up to six modules of suites with real programs fail, these run
once more, each alone. A module that passes then counts as passed and is listed with its first failure
("passed only alone"): it is a defect, of the test or of memprofd.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "fuzz"))
import fuzz  # noqa: E402
import tsan  # noqa: E402
from outcomes import Outcome, child_environment, gtest_outcome, run_child, without_report  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON_SUITES = {"agent": "tests/agent", "e2e": "tests/e2e", "dashboards": "tests/dashboards", "bench": "tests/bench",
                 "runner": "tests/runner", "hostile": "tests/hostile", "calls": "tests/calls",
                 "heaps": "tests/heaps"}
GTEST_SUITES = {"unit": "tests/unit_tests", "unit-asan": "asan/tests/unit_tests",
                "unit-tsan": "tsan/tests/unit_tests", "unit-tsan-whole": "tsan-whole/tests/unit_tests",
                "plain": "tests/plain_tests", "kernel": "tests/kernel_tests"}
SUITES = ["unit-asan", "unit-tsan", "fuzz", "plain", "kernel", "agent", "e2e", "calls", "heaps", "hostile", "dashboards", "bench", "runner"]
NEED_ROOT = {"kernel", "tsan", "agent", "e2e", "calls", "heaps", "hostile", "dashboards", "bench"}
LANES = 4  # on two processors: most modules wait most of the time, and slow ones fail beside too many
QUIET_LANES = 3
FUZZ_SECONDS = 5
# So many processes share the tests of a program.
SHARDS = {"unit": 4, "unit-asan": 4, "unit-tsan": 2, "unit-tsan-whole": 2, "plain": 2}
ALONE = {"e2e/test_crowd"}  # 140 domains, which all have to run for each to go on
# With few others: what memprofd does in time is judged, and it must be seen who takes the processors from it.
QUIET = {"e2e/test_budget", "bench/test_bench"}
QUIET_SUITES = {"hostile"}
# Whose tests run real programs, and may fail for want of a processor.
AGAIN_SUITES = {"kernel", "tsan", "agent", "e2e", "calls", "heaps", "hostile", "dashboards", "bench"}
SLOWEST = 10  # modules that are listed at the end
MOST_AGAIN = 6  # modules that failed; more have not by chance
# Begun before all others, as they wait longest: lanes should end together.
FIRST = ["e2e/test_snapshots", "e2e/test_snapshot_questions", "e2e/test_attach_faults", "calls/test_c_memory", "agent/test_own_walk5",
         "e2e/test_inspections", "dashboards/test_page", "calls/test_c_probes", "dashboards/test_page_sites",
         "e2e/test_queries", "dashboards/test_alerts", "unit-asan-1", "unit-asan-2", "unit-asan-3", "unit-asan-4",
         "e2e/test_service", "e2e/test_attach", "e2e/test_containers", "e2e/test_accuracy", "e2e/test_history",
         "e2e/test_events", "e2e/test_process_life", "e2e/test_losses", "e2e/test_capture", "e2e/test_domains",
         "e2e/test_limits", "e2e/test_stalls", "e2e/test_agent_stops", "e2e/test_budget", "bench/test_bench",
         "hostile/test_attacks", "hostile/test_exec", "dashboards/test_dashboards", "dashboards/test_page_day",
         "dashboards/test_flamegraph", "heaps/test_waiting", "e2e/test_leaks", "e2e/test_dist", "kernel"]


def gtest(build, suite, chosen, log, shard=0, shards=1):
    program = build / GTEST_SUITES[suite]
    report = log.with_suffix(".xml")
    report.unlink(missing_ok=True)
    if not program.exists():
        log.write_text(f"{program} is missing: run make test\n")
        return Outcome(failed=1)
    watched = suite.startswith("unit-tsan")
    chosen = tsan.chosen_tests(chosen) if watched else chosen or "*"
    command = [program, f"--gtest_output=xml:{report}", f"--gtest_filter={chosen}"]
    environment = dict(child_environment(build), GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(shard))
    if suite == "unit-asan":  # of 256 MiB, nearly each block is in a page that the kernel has to make
        environment.setdefault("ASAN_OPTIONS", "quarantine_size_mb=32")
    if watched:
        tsan.forget_reports(log)
        command, environment = [*tsan.COMMAND, *command], environment | tsan.environment(log)
    code, cpu = run_child(command, log, environment)
    try:
        outcome = gtest_outcome(ElementTree.parse(report).getroot())
    except (OSError, ElementTree.ParseError):
        outcome = without_report(code, log)
    outcome.cpu_seconds = cpu
    if code != 0 and outcome.failed == 0:
        outcome.failed = 1  # a sanitizer's finding at exit
    if watched:
        tsan.note_reports(log, outcome)
    return outcome


def fuzz_target(build, target, log):
    """From the seeds on, so that each run is like the one before."""
    (build / "fuzz").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        code, cpu = run_child(fuzz.command(build, target, FUZZ_SECONDS, corpus), log, child_environment(build))
    return Outcome(passed=int(code == 0), failed=int(code != 0), cpu_seconds=cpu)


def python_module(build, path, chosen, log, prefix=(), environment=()):
    report = log.with_suffix(".json")
    report.unlink(missing_ok=True)
    code, cpu = run_child([*prefix, sys.executable, __file__, "--module", path, "--class", chosen, "--report", report],
                          log, dict(child_environment(build), **dict(environment)))
    outcome = Outcome(**json.loads(report.read_text())) if report.exists() else without_report(code, log)
    outcome.cpu_seconds = cpu
    if code != 0 and outcome.failed == 0:
        outcome.failed = 1
    return outcome


def tsan_module(build, path, chosen, log):
    """One of e2e, with the programs of make tsan."""
    tsan.forget_reports(log)
    outcome = python_module(build / "tsan-whole", path, chosen, log, tsan.COMMAND, tsan.environment(log))
    tsan.note_reports(log, outcome)
    return outcome


# ---------------------------------------------------------------- inside a child


def cpu_seconds():
    """Of this process and of all its children that have ended and been waited for."""
    return sum(usage.ru_utime + usage.ru_stime
               for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class ShownResult(unittest.TextTestResult):
    """Names each test with its seconds, and counts tests rather than subtests."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.passed_tests = set()
        self.failed_tests = {}  # test: what it said first
        self.skips = {}  # test: reason; a class or a module that is skipped is one of them
        self.started = self.cpu_before = 0.0

    def startTest(self, test):
        self.started, self.cpu_before = time.monotonic(), cpu_seconds()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.stream.writeln(f"    {time.monotonic() - self.started:.1f} s, "
                            f"{cpu_seconds() - self.cpu_before:.1f} s of CPU")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed_tests.add(test.id())

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fails(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.fails(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.fails(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        test = getattr(test, "test_case", test)  # of a subtest
        self.skips.setdefault(test.id(), reason or "no reason given")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.failed_tests[test.id()] = "success was not expected"

    def fails(self, test, err):
        said = traceback.format_exception_only(*err[:2])[-1].split("\n", 1)[0]
        self.failed_tests.setdefault(test.id(), said[:200])

    def outcome(self, notes):
        """A test that failed in one part and was skipped in another has failed."""
        skipped = [f"{name}: {reason}" for name, reason in self.skips.items() if name not in self.failed_tests]
        failures = [f"{name}: {said}" for name, said in self.failed_tests.items()]
        return Outcome(len(self.passed_tests - self.failed_tests.keys()), len(failures), skipped, notes,
                       failures=failures)


def run_module(path, chosen, report):
    """The tests of one file, or of one class; SIGTERM ends them as Ctrl-C would, clean-up included."""
    def interrupt(_number, _frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)
    path = pathlib.Path(path)
    sys.path[0:0] = [str(path.parent), str(ROOT / "tests/kit")]
    unittest.TestCase.maxDiff = None  # the row of a table that is missing is shown, however long the table
    tests = unittest.defaultTestLoader.loadTestsFromName(f"{path.stem}.{chosen}" if chosen else path.stem)
    result = unittest.TextTestRunner(verbosity=2, resultclass=ShownResult).run(tests)
    outcome = result.outcome(getattr(sys.modules.get("harness"), "NOTES", []))
    pathlib.Path(report).write_text(json.dumps(dataclasses.asdict(outcome)))
    return 0 if result.wasSuccessful() else 1


# ---------------------------------------------------------------- suites


def shards_of(suite):
    """A share of each suite's tests for each process; what is narrowed runs in one."""
    shards = SHARDS.get(suite, 1)
    return [(f"{suite}-{shard + 1}" if shards > 1 else suite,
             lambda build, log, shard=shard: gtest(build, suite, "", log, shard, shards)) for shard in range(shards)]


def fuzz_units(build):
    if not fuzz.program(build).exists():
        sys.exit(f"run.py: {fuzz.program(build)} is missing: run make test")
    return [(f"fuzz/{target}", lambda build, log, target=target: fuzz_target(build, target, log))
            for target in fuzz.targets(build)]


def units_of(build, suite):
    """(name, function) for each program or module of a suite, or of one module of it."""
    suite, _, chosen = suite.partition(":")
    suite, _, module = suite.partition("/")
    if suite == "fuzz":
        return [unit for unit in fuzz_units(build) if module in ("", unit[0].partition("/")[2])]
    if suite == "tsan":
        return [(f"tsan/{name.partition('/')[2]}",
                 lambda build, log, path=ROOT / PYTHON_SUITES["e2e"] / f"{name.partition('/')[2]}.py":
                 tsan_module(build, path, chosen, log))
                for name in tsan.MODULES if module in ("", name.partition("/")[2])]
    if suite in GTEST_SUITES and not chosen:
        return shards_of(suite)
    if suite in GTEST_SUITES:
        return [(suite, lambda build, log: gtest(build, suite, chosen, log))]
    if suite not in PYTHON_SUITES:
        sys.exit(f"run.py: no suite {suite}; there are {', '.join(SUITES)}")
    files = sorted((ROOT / PYTHON_SUITES[suite]).glob("test_*.py"))
    wanted = [f for f in files if module in ("", f.stem)]
    if not wanted:
        sys.exit(f"run.py: no module {module} in {PYTHON_SUITES[suite]}")
    return [(f"{suite}/{f.stem}", lambda build, log, f=f: python_module(build, f, chosen, log)) for f in wanted]


def log_of(build, name):
    return build / "test-logs" / (name.replace("/", "-") + ".log")


def run_unit(build, name, function):
    log = log_of(build, name)
    started = time.monotonic()
    outcome = function(build, log)
    seconds = time.monotonic() - started
    outcome.times = [(name, seconds, outcome.cpu_seconds)]
    outcome.skipped = [f"{name}: {skip}" for skip in outcome.skipped]
    outcome.failures = [f"{name}: {failure}" for failure in outcome.failures] or [name] * (outcome.failed > 0)
    print(f"{name:<28}{outcome.passed:>5} passed {outcome.failed:>3} failed {len(outcome.skipped):>3} skipped "
          f"{seconds:>7.1f} s ({outcome.cpu_seconds:.1f} s of CPU)", flush=True)
    if outcome.failed:
        print(log.read_text(errors="replace")[-20_000:], flush=True)
    return outcome


def added_up(outcomes):
    return Outcome(sum(o.passed for o in outcomes), sum(o.failed for o in outcomes),
                   [skip for o in outcomes for skip in o.skipped], [note for o in outcomes for note in o.notes],
                   failures=[failure for o in outcomes for failure in o.failures],
                   alone=[failure for o in outcomes for failure in o.alone],
                   times=[taken for o in outcomes for taken in o.times])


def passed_alone(build, name, function, first):
    """What comes of a unit that failed beside others when it runs once more."""
    log = log_of(build, name)
    log.replace(log.with_suffix(".first.log"))
    outcome = run_unit(build, name, function)
    outcome.times = first.times + outcome.times
    if outcome.failed == 0:
        outcome.alone = first.failures
    return outcome


def run_again(build, units, outcomes):
    """Those that failed by chance, it may be, one at a time; the outcomes that count."""
    if not 0 < sum(outcome.failed > 0 for outcome in outcomes) <= MOST_AGAIN:
        return outcomes
    return [passed_alone(build, *unit, outcome)
            if outcome.failed and unit[0].partition("/")[0] in AGAIN_SUITES else outcome
            for unit, outcome in zip(units, outcomes)]


def slowest(times):
    """The units that took longest, and of each its seconds and seconds of CPU, all its runs together."""
    sums = {}
    for name, seconds, cpu in times:
        before = sums.get(name, (0, 0))
        sums[name] = (before[0] + seconds, before[1] + cpu)
    return sorted(sums.items(), key=lambda unit: unit[1], reverse=True)[:SLOWEST]


def close(total):
    """Says which modules took longest, what was skipped, what passed only alone, what failed (where the end of a log is read
    first) and, alone on the last line, how many tests did what; returns the exit code."""
    for name, (seconds, cpu) in slowest(total.times):
        print(f"slowest: {name:<28}{seconds:>7.1f} s {cpu:>7.1f} s of CPU")
    for skip in total.skipped:
        print(f"skipped: {skip}")
    for failure in total.alone:
        print(f"passed only alone: {failure}")
    for failure in total.failures:
        print(f"failed: {failure}")
    print(f"{total.passed} passed, {total.failed} failed, {len(total.skipped)} skipped", flush=True)
    return 0 if total.failed == 0 and total.passed > 0 else 1


def lanes_of(name, lanes):
    """How many may run at once where this one does."""
    if name in ALONE:
        return 1
    return min(lanes, QUIET_LANES) if name in QUIET or name.partition("/")[0] in QUIET_SUITES else lanes


def run_suites(build, suites, prefix="", lanes=1):
    """The outcomes of all their programs and modules, added up."""
    (build / "test-logs").mkdir(parents=True, exist_ok=True)
    units = [unit for suite in suites for unit in units_of(build, suite)]
    units.sort(key=lambda unit: FIRST.index(unit[0]) if unit[0] in FIRST else len(FIRST))
    done, outcomes = [], []
    for at_once in sorted({lanes, min(lanes, QUIET_LANES), 1}, reverse=True):
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            turn = [(prefix + name, function) for name, function in units if lanes_of(name, lanes) == at_once]
            outcomes += pool.map(lambda unit: run_unit(build, *unit), turn)
            done += turn
    return added_up(run_again(build, done, outcomes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--module", help=argparse.SUPPRESS)
    parser.add_argument("--class", dest="chosen", default="", help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    parser.add_argument("--lanes", type=int, default=LANES, metavar="N", help="modules at once")
    parser.add_argument("suites", nargs="*", default=SUITES)
    arguments = parser.parse_args()
    if arguments.module:
        return run_module(arguments.module, arguments.chosen, arguments.report)
    if os.geteuid() != 0 and any(s.partition(":")[0].partition("/")[0] in NEED_ROOT for s in arguments.suites):
        sys.exit("run.py: these tests attach to processes and need root")
    return close(run_suites(pathlib.Path(arguments.build).resolve(), arguments.suites, lanes=arguments.lanes))


if __name__ == "__main__":
    sys.exit(main())
