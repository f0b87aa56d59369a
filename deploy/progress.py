#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs make with a count of its steps: deploy/progress.py make ARGUMENTS...

The first line says how long it will take, "building: 143 steps, about 4 minutes on 2 processors"; each
step is shown as "[12/143, 6 minutes left] CXX daemon/query/1", by the pace so far. The exit code is
that of make.
"""

import os
import re
import subprocess
import sys
import time

STEP = re.compile(r"^  ([A-Z]+) +\S")
# As make prints a step that it would take.
PLANNED = re.compile(r"^printf '  %-8s %s\\n' ([A-Z]+) ", re.M)
# Seconds of one processor, of a machine of 2026; for the estimate only.
SECONDS = {"CXX": 6.5, "NPM": 5.0, "VITE": 8.0, "BPF": 2.0, "LINK": 1.0}
OTHER_SECONDS = 0.5
# Part of the work after which the pace is known.
KNOWN = 0.1


def planned_steps(command):
    """What each step would do, in the words of the Makefile; empty where make cannot tell."""
    plan = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=False)
    return PLANNED.findall(plan.stdout)


def weight(step):
    return SECONDS.get(step, OTHER_SECONDS)


def announcement(steps):
    processors = len(os.sched_getaffinity(0))
    minutes = sum(map(weight, steps)) / processors / 60
    length = f"about {minutes:.0f} minutes" if minutes >= 1.5 else "about a minute" if minutes > 0.5 else "seconds"
    return f"building: {len(steps)} steps, {length} on {processors} processors"


def time_left(done, total, seconds):
    """Text for the time that the rest of the work takes; empty if it is short or not known yet."""
    if total == 0 or done < KNOWN * total:
        return ""
    minutes = (total - done) * seconds / done / 60
    return f", {minutes:.0f} minutes left" if minutes >= 1.5 else ""


def main(command):
    steps = planned_steps(command)
    if steps:
        print(announcement(steps), flush=True)
    began = time.monotonic()
    number, done, total = 0, 0.0, sum(map(weight, steps))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace", close_fds=False) as make:
        for line in make.stdout:
            if step := STEP.match(line):
                left = time_left(done, total, time.monotonic() - began)  # of the steps before this one
                number, done = number + 1, done + weight(step[1])
                line = f"[{number}/{max(len(steps), number)}{left}] {' '.join(line.split())}\n"
            print(line, end="", flush=True)
    return make.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
