# SPDX-License-Identifier: Apache-2.0
"""Variables of the OCaml runtime in a program that runs, by their names in its file."""

import os
import pathlib
import struct
import subprocess

# What an agent that walks stacks itself writes in a session (agent-lib/walk/late_stacks.h).
WRITTEN_BY_THE_AGENT = ("caml_fl_p_allocate", "caml_scan_roots_hook")


def written_by_the_agent(pid):
    exe = os.readlink(f"/proc/{pid}/exe")
    mappings = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    base = int(next(line for line in mappings if line.endswith(exe)).split("-")[0], 16)
    out = subprocess.run(["nm", "-D", exe], capture_output=True, text=True, check=True).stdout
    places = {line.split()[-1]: int(line.split()[0], 16) for line in out.splitlines() if len(line.split()) == 3}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return tuple(struct.unpack("<Q", os.pread(memory.fileno(), 8, base + places[name]))[0]
                     for name in WRITTEN_BY_THE_AGENT)
