# SPDX-License-Identifier: Apache-2.0
"""The agent's incremental stack walk against the runtime's walk, without other costs of a sample; OCaml 4.13."""

import json
import subprocess

import harness

PROGRAM = harness.TARGETS / "bench" / "stack_walk"
FRAMES = (10, 90, 400, 2000)
ANEW = 3  # innermost frames that change each time
MEASURES = (("agent", "delta"), ("runtime", "runtime"))


def run(context, section):
    rounds = 2 * context.pairs  # each order equally often
    for frames in FRAMES:
        done = subprocess.run([PROGRAM, str(frames), str(ANEW), str(rounds)], capture_output=True, text=True, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        row = f"{rows[0]['frames']} frames, {ANEW} new"
        for column, key in MEASURES:
            section.add("walk of a stack", "ns", [told[key] for told in rows], row, column)
        section.add("the agent's walk over the runtime's", "", [told["delta"] / told["runtime"] for told in rows], row)
