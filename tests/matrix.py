#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tests that make up the support table, on every OCaml: make test-matrix.

  tests/matrix.py [--build FOLDER] [VERSION|programs|unit...]     default: all of them

Runs the tests of tests/run.py with the programs of each version, and at full
length (200 attaches, 50 kills); then those of real programs, and unit tests with more damage
and more random input. Closes with a table
of what each run found, and "N passed, M failed, K skipped". Logs are in FOLDER/test-logs.
"""

import argparse
import os
import pathlib
import sys
import time

import run

FOLDERS = {"4.11": "targets-bullseye", "4.12": "targets-4.12", "4.13": "targets", "4.14": "targets-4.14",
           "5.3": "targets-trixie", "5.4": "targets-forky", "5.5": "targets-experimental"}
PROGRAMS = "programs"
UNIT = "unit"


def checks(version):
    """(heading, unit of tests/run.py) of everything that is run for a version."""
    if version == PROGRAMS:
        return [("real programs", "e2e/test_real_programs"), ("servers", "e2e/test_cycles:BusyServer")]
    if version == UNIT:
        return [("unit tests", "unit"), ("many programs", "plain")]
    five = version.startswith("5.")
    stacks = "*StackTruth*ocaml5*:*StackTruthOfDomains*" if five else "*StackTruth*ocaml4*"
    always = [("stacks", f"kernel:{stacks}"), ("torn reads", f"kernel:TornReads.{'*Domain*' if five else '*Thread*'}"),
              ("estimates", "e2e/test_attach"), ("accuracy", "e2e/test_accuracy"), ("lifetimes", "e2e/test_lifetimes"),
              ("cycles", "e2e/test_cycles:BusyProgram"), ("kills", "e2e/test_faults:DaemonDies"),
              ("heap", "e2e/test_heap"), ("snapshots", "e2e/test_snapshots"), ("their rules", "e2e/test_snapshot_rules"),
              ("their answers", "e2e/test_snapshot_questions"),
              ("roots", "heaps/test_heap_roots"), ("waiting", "heaps/test_waiting"), ("values", "e2e/test_values"),
              ("own trackers", "e2e/test_program_stops"),
              ("own snapshots", f"e2e/test_own_heap:{'Taking5' if five else 'Taking'}")]
    if version != "4.11":  # its Unix has not what the program needs
        always += [("C memory", "calls/test_c_memory:CMemory")]
    if not five:
        return always
    return always + [("domains", "e2e/test_domains"), ("their deaths", "e2e/test_domain_deaths"),
                     ("observe mode", "e2e/test_observe"), ("captures", "e2e/test_capture"),
                     ("agent capture", "agent/test_own_walk5"), ("runs", "e2e/test_run:Numbers5"),
                     ("growth", "e2e/test_run:Growth5"), ("probes", "calls/test_c_probes:ByProbesOfOcaml5"),
                     ("containers", "e2e/test_containers:ContainerOfOtherLibc"), ("calls", "calls/test_calls"),
                     ("C events", "calls/test_c_events"), ("mallocs", "calls/test_c_mallocs"),
                     ("resident", "e2e/test_totals"), ("its parts", "e2e/test_rss_parts")]


def run_version(build, version):
    """Outcomes by heading."""
    os.environ["MEMPROFD_MATRIX"] = "1"
    os.environ["MEMPROFD_TARGETS"] = str(build / FOLDERS.get(version, "targets"))
    return {heading: run.run_suites(build, [unit], prefix=f"{version}-") for heading, unit in checks(version)}


def cell(outcome):
    if outcome is None:
        return "-"
    if outcome.failed:
        return f"{outcome.failed} FAILED"
    skipped = [f"{len(outcome.skipped)} skipped"] if outcome.skipped else []
    return ", ".join((outcome.notes or [f"{outcome.passed} passed"]) + skipped)


def print_table(results):
    headings = list(dict.fromkeys(heading for row in results.values() for heading in row))
    rows = [["OCaml", *headings]]
    rows += [[version, *(cell(row.get(heading)) for heading in headings)] for version, row in results.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(run.ROOT / "build"))
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    arguments = parser.parse_args()
    versions = arguments.versions or [*FOLDERS, PROGRAMS, UNIT]
    unknown = [version for version in versions if version not in (*FOLDERS, PROGRAMS, UNIT)]
    if unknown:
        sys.exit(f"matrix.py: no {', '.join(unknown)}; there are {', '.join(FOLDERS)}, {PROGRAMS} and {UNIT}")
    if os.geteuid() != 0:
        sys.exit("matrix.py: these tests attach to processes and need root")
    started = time.monotonic()
    build = pathlib.Path(arguments.build).resolve()
    results = {version: run_version(build, version) for version in versions}
    print()
    print_table(results)
    print(f"\nin {(time.monotonic() - started) / 60:.0f} minutes")
    return run.close(run.added_up([outcome for row in results.values() for outcome in row.values()]))


if __name__ == "__main__":
    sys.exit(main())
