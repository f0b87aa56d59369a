# SPDX-License-Identifier: Apache-2.0
"""Attach, detach and stop time against the size of the program's frame table."""

import contextlib
import pathlib
import shutil
import tempfile

import daemon_cost
import harness
import real_programs
from bench_context import say
from watching import add_attached, attached

ROUNDS = 10


def small(_folder):
    return [harness.Target("busy_threads")]


def many_sites(_folder):
    target = harness.Target("many_sites")
    target.send("go 1000000")
    return [target]


def server(folder):
    process = real_programs.Ocsigenserver(folder)
    return [process, real_programs.Wrk(process.url)]


def compiler(folder):
    return [real_programs.Ocamlopt(folder / "work", functions=10_000)]


def prover(folder):
    return [real_programs.Coqc(folder / "work", goals=20_000)]


# (function that starts a busy program, command that it needs)
PROGRAMS = [(small, ""), (many_sites, ""), (server, "ocsigenserver.opt"), (compiler, "ocamlopt.opt"), (prover, "coqc")]


def run(context, section):
    with context.daemon() as daemon:
        for start, needed in PROGRAMS[:3] if context.short else PROGRAMS:
            if not needed or shutil.which(needed):
                measure(context, section, daemon, start)
            else:
                section.notes.append(f"without {needed}, which is not installed")


def measure(context, section, daemon, start):
    """Measures attaches, each to a new process, because an injected agent stays in its process."""
    measured, descriptors = [], 0
    for _ in range(context.at_least(ROUNDS)):
        with contextlib.ExitStack() as stack:
            processes = start(pathlib.Path(tempfile.mkdtemp(dir=context.files)))
            for process in processes:
                stack.callback(process.kill)
            descriptors, _, _ = daemon_cost.frame_tables(daemon, processes[0].pid)
            measured.append(attached(daemon, processes[0].pid))
    row = f"{processes[0].name()}, {descriptors:,} descriptors"
    add_attached(section, measured, row)
    say(f"  {row}")
