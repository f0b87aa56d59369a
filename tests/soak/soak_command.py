# SPDX-License-Identifier: Apache-2.0
"""What the commands of soaks have in common: a seed, a build, a folder, and how it is told what became of them."""

import argparse
import os
import subprocess
import sys
import tempfile
import time


def options_of(arguments):
    """arguments: of one name, a type and a default each. Names the build to whoever imports harness afterwards."""
    parser = argparse.ArgumentParser()
    for name, kind, default in arguments:
        parser.add_argument(name, type=kind, default=default)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    os.environ["MEMPROFD_BUILD"] = os.path.abspath(options.build)
    return options


def run(name, plan, soak_in, work):
    """work(soak_in(folder)) answers what was done; a soak tells its state, and ends by close()."""
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
