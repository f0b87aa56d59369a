#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs make with a count of its steps: deploy/progress.py make ARGUMENTS...

The first line says how long it will take, "building 143 steps, about 4 minutes on 2 processors"; each
step is shown as "[12/143] CXX daemon/query/1". The exit code is that of make.
"""

import os
import re
import subprocess
import sys

STEP = re.compile(r"^  ([A-Z]+) +\S")
# As make prints a step that it would take.
PLANNED = re.compile(r"^printf '  %-8s %s\\n' ([A-Z]+) ", re.M)
# Seconds of one processor, of a machine of 2026; for the estimate only.
SECONDS = {"CXX": 5.0, "NPM": 5.0, "VITE": 8.0, "BPF": 2.0, "LINK": 1.0}


def planned_steps(command):
    """What each step would do, in the words of the Makefile; empty where make cannot tell."""
    plan = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=False)
    return PLANNED.findall(plan.stdout)


def announcement(steps):
    processors = len(os.sched_getaffinity(0))
    minutes = sum(SECONDS.get(step, 0.5) for step in steps) / processors / 60
    length = f"about {minutes:.0f} minutes" if minutes >= 1.5 else "about a minute" if minutes > 0.5 else "seconds"
    return f"building: {len(steps)} steps, {length} on {processors} processors"


def main(command):
    steps = planned_steps(command)
    total = len(steps)
    if total > 0:
        print(announcement(steps), flush=True)
    done = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace", close_fds=False) as make:
        for line in make.stdout:
            if STEP.match(line):
                done += 1
                line = f"[{done}/{max(total, done)}] {' '.join(line.split())}\n"
            print(line, end="", flush=True)
    return make.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
