#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzz targets one after the other: make fuzz.

tests/fuzz/fuzz.py [--build FOLDER] [--seconds N] [TARGET...]

FOLDER/fuzz/TARGET keeps inputs that covered new code, and the next run starts from them. A failing
input is stored in FOLDER/fuzz as TARGET-crash-..; to read it again: fuzz_targets TARGET FILE.
"""

import argparse
import pathlib
import subprocess
import sys
import time

# Per input; one that needs more time or memory is a finding. The time is wall-clock time: on a busy
# machine an input of some milliseconds may take half a minute.
TIMEOUT_SECONDS, MEMORY_MIB = 300, 2048


def program(build):
    return pathlib.Path(build) / "asan/tests/fuzz_targets"


def targets(build):
    return subprocess.run([program(build)], capture_output=True, text=True, check=True).stdout.split()


def command(build, target, seconds, corpus):
    return [program(build), target, corpus, f"-max_total_time={seconds}", f"-timeout={TIMEOUT_SECONDS}",
            f"-rss_limit_mb={MEMORY_MIB}", f"-artifact_prefix={pathlib.Path(build) / 'fuzz' / target}-",
            "-print_final_stats=1", "-verbosity=1"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    folder = pathlib.Path(options.build) / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for target in options.targets or targets(options.build):
        log = folder / f"{target}.log"
        began = time.monotonic()
        with log.open("wb") as output:
            code = subprocess.run(command(options.build, target, options.seconds, folder / target), stdout=output,
                                  stderr=subprocess.STDOUT, check=False).returncode
        runs = [line.split()[-1] for line in log.read_text(errors="replace").splitlines()
                if line.startswith("stat::number_of_executed_units")]
        print(f"{target:<12} {'failed, see ' + str(log) if code else 'ok'}: {time.monotonic() - began:.0f} s, "
              f"{runs[0] if runs else '?'} inputs", flush=True)
        failed += [target] if code else []
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
