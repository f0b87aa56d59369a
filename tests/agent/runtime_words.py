# SPDX-License-Identifier: Apache-2.0
"""Reads the words that the agent writes in a running program: variables of the OCaml runtime, by name or by the
agent's offsets, and slots for malloc."""

import os
import pathlib
import re
import struct

import agent_process as agent

# Variables that an agent with its own stack walk writes during a session (agent-lib/walk/late_stacks.h).
WRITTEN_BY_THE_AGENT = ("caml_fl_p_allocate", "caml_scan_roots_hook")

# OCaml 5 (agent-lib/walk/sample_switch.h): the value that the agent leaves in a domain's requested_external_interrupt.
WALK_ASKS = 2
WHOLE = 256  # maximum of frames that the runtime records when the agent does not walk
IN_USE = WHOLE + 1  # the same for a profile that several domains use
DOMAIN = struct.Struct("<QQ3Q")  # struct memprof_domain
DOMAINS_USED = agent.HEAD.size + 2 * agent.PAUSES.size + 12


def written_by_the_agent(pid):
    exe = os.readlink(f"/proc/{pid}/exe")
    mappings = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    base = int(next(line for line in mappings if line.endswith(exe)).split("-")[0], 16)
    out = agent.listed_by_nm(exe, "-D")
    places = {line.split()[-1]: int(line.split()[0], 16) for line in out.splitlines() if len(line.split()) == 3}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return tuple(struct.unpack("<Q", os.pread(memory.fileno(), 8, base + places[name]))[0]
                     for name in WRITTEN_BY_THE_AGENT)


def hooks_in(path):
    """Addresses in the file of the functions that the agent puts into slots for malloc and related functions
    (agent-lib/native_heap/hooks.c) and into the runtime's hooks of blocking sections (blocking.c there)."""
    out = agent.listed_by_nm(path)
    return [int(line.split()[0], 16) for line in out.splitlines() if re.search(r" t hook_\w+$", line)]


def slots_of_the_agent(pid, agent):
    """Addresses of words in the program's mapped files that point to hooks of its agent, a copy of that file."""
    agent = os.path.realpath(agent)
    files = [line.split(None, 5) for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()]
    files = [line for line in files if len(line) > 5 and line[5].startswith("/") and "r" in line[1]]
    place = [[int(word, 16) for word in line[0].split("-")] for line in files]
    own = ["memprof_agent" in line[5] or os.path.realpath(line[5]) == agent for line in files]
    if not any(own):
        return []
    base, hooks, found = place[own.index(True)][0], hooks_in(agent), []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for (begin, end), is_own in zip(place, own):
            data = b"" if is_own else os.pread(memory.fileno(), end - begin, begin)
            for hook in hooks:
                word = struct.pack("<Q", base + hook)
                found += [begin + match.start() for match in re.finditer(re.escape(word), data)]
    return found


def written_in_domains(read, control):
    """(requested_external_interrupt, callstack size of the profile or None) of each domain.
    read(address, bytes) reads the memory; control: the address of the agent's control block."""
    def word(address):
        return struct.unpack("<Q", read(address, 8))[0]
    head = agent.unpack_head(read(control, agent.HEAD.size))
    used, = struct.unpack("<I", read(control + DOMAINS_USED, 4))
    found = []
    for at in range(used):
        state = word(head["domains"] + at * DOMAIN.size)
        if state:
            profile = word(word(state + head["memprof"]) + head["config"])
            found.append((word(state + head["interrupt"]), None if profile % 2 else word(profile + 3 * 8) >> 1))
    return found


def is_undone(written):
    """True if no domain contains a value that an agent with its own stack walk writes."""
    return bool(written) and all(asks == 0 and frames in (None, WHOLE) for asks, frames in written)
