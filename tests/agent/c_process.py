# SPDX-License-Identifier: Apache-2.0
"""A program whose native heap the agent follows, observed as in agent_process.py."""

import glob
import os
import re
import select
import struct
import subprocess
import time

from agent_process import AGENT, BUILD, AgentProcess, eventually, symbol
from runtime_words import slots_of_the_agent

# struct memprof_c_heap, agent-lib/include/memprof_native_heap_abi.h
HEAP = struct.Struct("<QIIQIIQQIIIIQQQQQ")
NAMES = ("magic", "abi", "bytes", "requested_interval", "requested_generation", "_", "note_place", "interval", "generation", "state",
         "slots", "slots_left", "starts", "stops", "samples", "frees", "not_followed")
IDLE, FOLLOWING, NO_SLOTS, UNSUPPORTED, LINKER_LOCKED = range(5)
HOSTILE = os.path.abspath(os.path.join(BUILD, "tests/hostile/libhostile.so"))


class CProcess(AgentProcess):
    """A watcher that requests samples of the native heap only."""

    def __init__(self, *arguments, program="c_memory", folder="targets", attack="", **options):
        if attack:
            options |= {"others": [HOSTILE], "env": {"HOSTILE": attack} | options.get("env", {})}
        super().__init__(program, *arguments, folder=folder, **options)
        self.heap_at = self.base + symbol(AGENT, "memprof_c_heap")
        self.generation = 0

    def heap(self):
        return dict(zip(NAMES, HEAP.unpack(self.read(self.heap_at, HEAP.size))))

    def ask_for(self, interval, generation=None, lease=3600.0):
        until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(lease * 1e9)
        self.write(self.control + 40, struct.pack("<Q", until))
        self.generation = generation or self.generation + 1
        self.write(self.heap_at + 16, struct.pack("<QI", interval, self.generation))

    def follow(self, interval=2_000):
        """Starts a session and waits until the agent follows."""
        self.watch(True)
        self.ask_for(interval)
        self.ask("minor")
        heap = self.heap()
        assert heap["state"] == FOLLOWING and heap["generation"] == self.generation, heap

    def note_blocking_sections(self, note_place=64):
        """Requests notes as a watcher that knows their place in the runtime; this place contains none."""
        self.write(self.heap_at + 32, struct.pack("<Q", note_place))

    def blocking_hooks(self):
        return [self.read(self._base(self.path) + symbol(self.path, f"caml_{which}_blocking_section_hook"), 8)
                for which in ("enter", "leave")]

    def leave(self):
        self.ask_for(0)
        self.watch(False)

    def comes_and_goes(self):
        """Begins and ends a session while the program keeps allocating in OCaml."""
        self.ask_for(2_000)
        wanted = self.generation
        eventually(lambda: self.heap()["generation"] == wanted, "it follows")
        self.ask_for(0)
        eventually(lambda: self.heap()["slots"] == 0, "slots are put back")

    def children(self):
        return {child for path in glob.glob(f"/proc/{self.pid}/task/*/children") for child in open(path).read().split()}

    def ask_within(self, seconds, line):
        """True if the program answers in time."""
        self.command(line)
        return bool(select.select([self.process.stdout], [], [], seconds)[0]) and self.answer() != ""

    def hooked_words(self):
        return slots_of_the_agent(self.pid, AGENT)

    def filled_by_the_linker(self):
        """The global offset tables of all files except the agent."""
        tables = {}
        for line in open(f"/proc/{self.pid}/maps"):
            words = line.split()
            if len(words) < 6 or not words[5].startswith("/") or words[5] in tables or words[5] == os.path.realpath(AGENT):
                continue
            sections = subprocess.run(["readelf", "-SW", words[5]], capture_output=True, text=True).stdout
            base = int(words[0].split("-")[0], 16)
            tables[words[5]] = [self.read(base + int(m[2], 16), int(m[3], 16)) for m in
                                re.finditer(r"(\.got\S*|\.data\.rel\.ro\S*) +PROGBITS +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", sections)]
        return tables

    def protections(self):
        """Addresses and access rights of each mapped file."""
        with open(f"/proc/{self.pid}/maps") as maps:
            return [line.split()[:2] + line.split()[5:] for line in maps if ".so" in line or "c_memory" in line]
