# SPDX-License-Identifier: Apache-2.0
"""State of an injected agent, read from the memory of its program."""

import os
import pathlib
import sys

import harness

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "agent"))
import agent_process  # noqa: E402


def in_agent(pid, name):
    """Address of a variable of an injected agent; None if there is no agent."""
    path = (harness.BUILD / "libmemprof_agent.so").resolve()
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    # A program that may not see that file gets a copy.
    own = [line for line in maps if line.endswith(str(path))] or [line for line in maps if "/memfd:memprof_agent" in line]
    return int(own[0].split("-")[0], 16) + agent_process.symbol(path, name) if own else None


def altered_code(pid):
    """Lines of maps whose code in memory differs from the file."""
    altered = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in harness.mappings(pid):
            words = line.split(maxsplit=5)
            if "x" not in words[1] or len(words) < 6 or not words[5].startswith("/"):
                continue
            begin, end = (int(number, 16) for number in words[0].split("-"))
            with open(f"/proc/{pid}/map_files/{begin:x}-{end:x}", "rb", buffering=0) as file:
                code = os.pread(file.fileno(), end - begin, int(words[2], 16))
            if os.pread(memory.fileno(), len(code), begin) != code:
                altered.append(line)
    return altered


def agent_head(pid):
    """Control block of an injected agent by field name; None if there is no agent."""
    at = in_agent(pid, "memprof_agent_control")
    if at is None:
        return None
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        head = os.pread(memory.fileno(), agent_process.HEAD.size, at)
    return agent_process.unpack_head(head)


def agent_state(pid):
    head = agent_head(pid)
    return head and head["state"]
