# SPDX-License-Identifier: Apache-2.0
"""Builds parts of the agent with a C program that simulates the runtime."""

import pathlib
import re
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
AGENT = HERE.parents[1] / "agent-lib"
WALK = ("walk/reported_stack.c", "walk/late_stacks.c", "walk/own_walk.c", "walk/sample_switch.c", "walk/fiber_stacks.c",
        "native_heap/linker.c", "native_heap/elf_object.c", "native_heap/own_memory.c")


def said_by(source, parts, *options):
    """Builds a source of this folder with parts of the agent, and returns its output; its exit status must be 0."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program"
        stubs = pathlib.Path(folder) / "stubs.S"
        # Keeps the probe, its semaphore and stubs of linked bodies: no OCaml code is linked.
        code = (AGENT / "stubs_x86_64.S").read_text()
        bodies = "memprof_on_" if "profiles.c" in parts else "memprof_"
        stubs.write_text(re.sub(rf"(?m)^\tOCAML5?_TO_C memprof_\w+, {bodies}\w+$", "", code))
        sources = [HERE / source, *(AGENT / part for part in parts), stubs]
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-g", f"-I{AGENT}", f"-I{AGENT / 'include'}", *map(str, sources),
                        *options, "-o", str(program)], check=True)
        return subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=600).stdout
