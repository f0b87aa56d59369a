# SPDX-License-Identifier: Apache-2.0
"""A simulated day of 10,000 sites: memory, and CPU time of the questions about it."""

import json
import subprocess

import harness

PROGRAM = harness.BUILD / "tests" / "history_bench"
MAX_MIB = 128


def run(context, section):
    if not PROGRAM.exists():
        section.notes.append(f"skipped: {PROGRAM.name} is not built")
        return
    # Exit code 1 means a missed goal; `missed` names it.
    done = subprocess.run([PROGRAM], stdout=subprocess.PIPE, text=True, check=False)
    context.day.write_text(done.stdout)
    result = json.loads(done.stdout)
    for case in ("zipf", "equal"):
        numbers = result[case]
        section.add("memory of a day", "MiB", [numbers["history_bytes"] / 2**20], case,
                    at_most=MAX_MIB if case == "zipf" else None)
        section.add(f"hours in {result['max_bytes'] / 2**20:.0f} MiB", "", [numbers["hours_within_limit"]], case)
        for name, times in numbers["queries"].items():
            section.add("CPU time of a question, median", "ms", [times["median_ms"]], name, case)
    if result["missed"]:
        section.notes.append("goals missed: " + ", ".join(result["missed"]))
    section.details["history_bench"] = result
