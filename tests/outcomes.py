# SPDX-License-Identifier: Apache-2.0
"""A program or module of tests as a process of its own, and what has come of it."""

import contextlib
import dataclasses
import os
import pathlib
import re
import select
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Seconds for one program or module; the full form of some takes an hour.
SUITE_TIMEOUT = 7200 if os.environ.get("MEMPROFD_MATRIX") == "1" else 1800
LATE = None  # for an exit code
# What GoogleTest and unittest write before a test, and the former after it.
BEGINS = re.compile(r"^(?:\[ RUN      \] (\S+)$|(test\w+ \(\S+\)))", re.MULTILINE)
ENDS = re.compile(r"^\[ +(?:OK|FAILED|SKIPPED) +\] (\S+)|^Ran \d+ test", re.MULTILINE)


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: list = dataclasses.field(default_factory=list)  # "test: reason"
    notes: list = dataclasses.field(default_factory=list)  # numbers that tests tell
    cpu_seconds: float = 0.0  # of the process and of all that it waited for
    failures: list = dataclasses.field(default_factory=list)  # "test: reason", as far as it is known
    alone: list = dataclasses.field(default_factory=list)  # the same of what failed only beside others
    times: list = dataclasses.field(default_factory=list)  # (unit, seconds, seconds of CPU)


def show_threads(pid, output):
    """Where they stand, for whoever asks later why they did not come to an end."""
    if shutil.which("gdb"):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace 30"], check=False,
                           stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=120)


def ended(child, seconds):
    """Waits for the end, at most so long; whether it came. The child stays a zombie, whose times can be read."""
    pidfd = os.pidfd_open(child.pid)
    try:
        return bool(select.select([pidfd], [], [], seconds)[0])
    finally:
        os.close(pidfd)


def cpu_seconds(zombie):
    """Of a process that has ended, and of all its children that it waited for."""
    fields = pathlib.Path(f"/proc/{zombie}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # utime, stime, cutime, cstime


def run_child(command, log, env):
    """Runs a command with its output in a file; returns its exit code and its seconds of CPU."""
    with open(log, "wb") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, cwd=ROOT, env=env)
        try:
            if ended(child, SUITE_TIMEOUT):
                cpu = cpu_seconds(child.pid)
                return child.wait(), cpu
            show_threads(child.pid, output)
            output.write(f"\nnot done after {SUITE_TIMEOUT} s\n".encode())
            child.terminate()  # a Python suite ends what it started
            if not ended(child, 20):
                child.kill()
                ended(child, None)
            cpu = cpu_seconds(child.pid)
            child.wait()
            return LATE, cpu
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            raise


def child_environment(build):
    return dict(os.environ, MEMPROFD_BUILD=str(build), BUILD=str(build), PYTHONDONTWRITEBYTECODE="1")


def gtest_skip(case):
    """ "test: reason" of a test that GoogleTest did not run to its end, None of one that ran."""
    name = f"{case.get('classname')}.{case.get('name')}"
    skipped = case.find("skipped")
    if skipped is not None:
        place, _, reason = skipped.get("message").strip().partition("\n")
        return f"{name}: {reason or 'no reason given, ' + place}"
    return f"{name}: disabled" if case.get("status") == "notrun" else None


def gtest_outcome(report):
    """What GoogleTest's XML report says, whose JSON has no reasons; "note" is a test's RecordProperty()."""
    cases = list(report.iter("testcase"))
    failed = max(int(report.get("failures")) + int(report.get("errors")),
                 sum(case.find("failure") is not None for case in cases))
    skipped = [skip for case in cases if case.find("failure") is None and (skip := gtest_skip(case))]
    notes = [p.get("value") for case in cases for p in case.iter("property") if p.get("name") == "note"]
    failures = [f"{case.get('classname')}.{case.get('name')}" for case in cases if case.find("failure") is not None]
    return Outcome(max(len(cases) - failed - len(skipped), 0), failed, skipped, notes, failures=failures)


def without_report(code, log):
    """What came of a child that did not get to its end, and in which test that was."""
    text = log.read_text(errors="replace") if log.exists() else ""
    begun = list(BEGINS.finditer(text))
    why = f"not done after {SUITE_TIMEOUT} s" if code == LATE else f"ended with exit code {code}"
    if not begun or ENDS.search(text, begun[-1].end()):
        return Outcome(failed=1, failures=[f"{why}, in no test"])
    return Outcome(failed=1, failures=[f"{begun[-1][1] or begun[-1][2]}: {why}"])
