#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a snapshot of a huge heap is complete, and measures the cost of its answers.

  tests/soak/large_snapshots.py [--millions N] [--ocaml 4|5] [--build FOLDER]      default: 50 million, OCaml 4

A program fills its heap with N million blocks and counts them itself (Gc.stat). Then one snapshot is taken. The test
fails if the numbers differ. It prints CPU time and peak memory of each step. 100 million blocks take 3 GB.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "kit"))

BYTES_A_BLOCK = 29  # average in these heaps
PATIENCE = 3600


def used(harness, *arguments):
    """Runs memprofctl; returns its output and CPU time, and prints its time and memory."""
    command = [harness.BUILD / "memprofctl", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"large_snapshots.py: {' '.join(map(str, command))} ended with {process.returncode}")
    cpu, most = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    asked = arguments.index("snapshot")
    print(f"  {' '.join(arguments[asked:asked + 2]):18}  {cpu:7.1f} s of CPU  {most:8,.0f} MiB at most", flush=True)
    return said, cpu


def filled(target, millions):
    """Fills the program's heap with this many million blocks; returns the program's counts."""
    megabytes = 0
    counted = {"live_blocks": 0}
    while counted["live_blocks"] < millions * 1_000_000:
        megabytes += max(8, int((millions * 1_000_000 - counted["live_blocks"]) * BYTES_A_BLOCK) >> 20)
        target.command(f"fill {megabytes}", timeout=PATIENCE)
        counted = target.command("count", timeout=PATIENCE)
    return counted


def check(harness, path, counted):
    """Compares the snapshot's reachable blocks with the program's count, except for up to 1,000 newer blocks of the
    program and of memprofd."""
    shown, _ = used(harness, "snapshot", "show", path, "-n", "0", "-o", "json")
    reachable = json.loads(shown)["heap"]["reachable"]
    print(f"  the program: {counted}\n  the snapshot: {reachable}", flush=True)
    if abs(reachable["blocks"] - counted["live_blocks"]) > 1_000:
        sys.exit("large_snapshots.py: the snapshot has another number of blocks than the program")


def run(harness, folder, millions, place):
    target = harness.Target("large_heap", folder=place)
    daemon = None
    try:
        counted = filled(target, millions)
        daemon = harness.Daemon(folder, "--pid", target.pid, rate=1e-6)
        daemon.wait_state(target.pid, "sampling")
        path = folder / "large.heap"
        print(used(harness, "--grpc.socket", daemon.socket, "snapshot", "take", "--out", path, "--max-pause", "10s")[0].strip())
        check(harness, path, counted)
        plain = used(harness, "snapshot", "query", path, "SELECT reachable FROM blocks LIMIT 1")[1]
        dominated = used(harness, "snapshot", "query", path, "SELECT reachable, retained_bytes FROM blocks LIMIT 1")[1]
        print(f"  dominators: {dominated - plain:.1f} s of CPU")
        used(harness, "snapshot", "retained", path)
    finally:
        target.kill()
        if daemon:
            daemon.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--millions", type=int, default=50)
    parser.add_argument("--ocaml", choices=("4", "5"), default="4")
    parser.add_argument("--build", default=str(TESTS.parent / "build"))
    arguments = parser.parse_args()
    os.environ["MEMPROFD_BUILD"] = arguments.build
    import harness  # reads MEMPROFD_BUILD
    place = harness.TARGETS if arguments.ocaml == "4" else harness.TARGETS5
    with tempfile.TemporaryDirectory() as folder:
        run(harness, pathlib.Path(folder), arguments.millions, place)


if __name__ == "__main__":
    main()
