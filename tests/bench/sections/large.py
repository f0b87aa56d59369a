# SPDX-License-Identifier: Apache-2.0
"""Daemon CPU of an attach to coqc with many plugins, and kernel memory of its frames."""

import shutil

import daemon_cost

ROUNDS = 10


def run(context, section):
    if not shutil.which("coqc"):
        section.notes.append("skipped: coq is not installed")
        return
    with context.daemon() as daemon:
        program, (descriptors, plugins, table_bytes) = daemon_cost.largest_program(daemon, context.files / "coq")
        try:
            seconds = daemon_cost.of_attaches(daemon, program.pid, context.at_least(ROUNDS), plugins)
        finally:
            program.kill()
    section.add("daemon CPU of an attach", "ms", [1e3 * s for s in seconds], at_most=1e3 * daemon_cost.MAX_ATTACH_SECONDS)
    section.add("frame descriptors", "", [descriptors])
    section.add("kernel memory of them", "MB", [table_bytes / 1e6], at_most=daemon_cost.MAX_TABLE_BYTES / 1e6)
