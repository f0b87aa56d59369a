# SPDX-License-Identifier: Apache-2.0
"""Shared code of the soaks' commands: seed, build, folder, and the report of the result."""

import argparse
import os
import subprocess
import sys
import tempfile
import time


def options_of(arguments):
    """Parses arguments, given as (name, type, default). Sets the build for a later import of harness."""
    parser = argparse.ArgumentParser()
    for name, kind, default in arguments:
        parser.add_argument(name, type=kind, default=default)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    os.environ["MEMPROFD_BUILD"] = os.path.abspath(options.build)
    return options


def run(name, plan, soak_in, work):
    """Runs work(soak_in(folder)), which returns a summary; a soak reports its state, and close() ends it."""
    print(f"{name}: {plan}", flush=True)
    with tempfile.TemporaryDirectory(prefix="memprofd-soak-") as folder:
        soak = soak_in(folder)
        try:
            done = work(soak)
        except (AssertionError, OSError, RuntimeError, subprocess.SubprocessError) as failure:
            print(f"{dict(soak.done)}\n{soak.state()}\n{name}: failed{soak.where()}: {failure}", flush=True)
            sys.exit(1)
        finally:
            soak.close()
    print(f"{name}: passed: {done}", flush=True)
