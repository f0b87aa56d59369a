# SPDX-License-Identifier: Apache-2.0
"""Variables of the OCaml runtime in a program that runs, by their names in its file, and what else the agent writes to."""

import functools
import os
import pathlib
import re
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


@functools.cache
def hooks_in(agent):
    """Where in that file the functions are that stand in slots for malloc and its like (agent-lib/c_heap/hooks.c)."""
    out = subprocess.run(["nm", agent], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0], 16) for line in out.splitlines() if re.search(r" t hook_\w+$", line)]


def slots_of_the_agent(pid, agent):
    """Addresses in the program's files of words that lead to those functions of its agent, a copy of that file."""
    agent = os.path.realpath(agent)
    files = [line.split(None, 5) for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()]
    files = [line for line in files if len(line) > 5 and line[5].startswith("/") and "r" in line[1]]
    place = [[int(word, 16) for word in line[0].split("-")] for line in files]
    own = ["memprof_agent" in line[5] or os.path.realpath(line[5]) == agent for line in files]
    if not any(own):
        return []
    base, found = place[own.index(True)][0], []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for (begin, end), is_own in zip(place, own):
            data = b"" if is_own else os.pread(memory.fileno(), end - begin, begin)
            for hook in hooks_in(agent):
                word = struct.pack("<Q", base + hook)
                found += [begin + match.start() for match in re.finditer(re.escape(word), data)]
    return found
