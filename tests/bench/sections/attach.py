# SPDX-License-Identifier: Apache-2.0
"""Attach to a busy program with 8 threads, also in a container: its duration, and the pause of the program."""

import contextlib
import pathlib
import tempfile

import harness
from containers import Contained, make_root, unshared
from watching import add_attached, attached

ROUNDS = 20
PROGRAM = "busy_threads"


@contextlib.contextmanager
def begun(place, root):
    """Starts the program on the host, or in its own namespaces and root file system."""
    target = Contained(unshared(root), f"/app/{PROGRAM}") if place == "container" else harness.Target(PROGRAM)
    try:
        yield target
        target.exit()
    finally:
        target.kill()


def run(context, section):
    with tempfile.TemporaryDirectory(prefix="memprofd-bench-") as folder, context.daemon() as daemon:
        root = make_root(pathlib.Path(folder) / "root", harness.TARGETS / PROGRAM)
        measured = {"host": [], "container": []}
        for _ in range(context.at_least(ROUNDS)):
            for place, values in measured.items():
                with begun(place, root) as target:
                    values.append(attached(daemon, target.pid))
    for place, values in measured.items():
        add_attached(section, values, place)
