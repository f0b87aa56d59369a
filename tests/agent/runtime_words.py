# SPDX-License-Identifier: Apache-2.0
"""Variables of the OCaml runtime in a program that runs, by their names in its file or where the agent is told, and
what else the agent writes to."""

import os
import pathlib
import re
import struct

import agent_process as agent

# What an agent that walks stacks itself writes in a session (agent-lib/walk/late_stacks.h).
WRITTEN_BY_THE_AGENT = ("caml_fl_p_allocate", "caml_scan_roots_hook")

# Further ones of OCaml 5 (agent-lib/walk/sample_switch.h): what requested_external_interrupt of a domain is left at.
WALK_ASKS = 2
WHOLE = 256  # frames that the runtime records of what the agent does not walk
IN_USE = WHOLE + 1  # the same, where several domains use a profile
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
    """Where in that file the functions are that stand in slots for malloc and its like (agent-lib/native_heap/hooks.c), and in
    the runtime's hooks of blocking sections (agent-lib/native_heap/blocking.c)."""
    out = agent.listed_by_nm(path)
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
    base, hooks, found = place[own.index(True)][0], hooks_in(agent), []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for (begin, end), is_own in zip(place, own):
            data = b"" if is_own else os.pread(memory.fileno(), end - begin, begin)
            for hook in hooks:
                word = struct.pack("<Q", base + hook)
                found += [begin + match.start() for match in re.finditer(re.escape(word), data)]
    return found


def written_in_domains(read, control):
    """Of each domain: requested_external_interrupt and the callstack size of its profile, None where it has none.
    read(address, bytes) of the memory; control: the address of the agent's control block."""
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
    """Whether nothing of an agent that walks stacks is in any domain."""
    return bool(written) and all(asks == 0 and frames in (None, WHOLE) for asks, frames in written)
