# SPDX-License-Identifier: Apache-2.0
"""A target with the agent, observed through its memory as a tracer would.

watch() raises the semaphore by a write, as the kernel does for a uprobe with a
reference counter. BPF and the daemon are not involved: these tests are of the agent only.
"""

import contextlib
import copy
import functools
import os
import re
import struct
import subprocess
import time

import waiting

# The conditions here are cheap and usually hold immediately, so the first pause is short.
eventually = functools.partial(waiting.eventually, first_pause=0.002)

BUILD = os.environ.get("MEMPROFD_BUILD", "build")
AGENT = os.path.abspath(os.path.join(BUILD, "libmemprof_agent.so"))

# struct memprof_agent_control, agent-lib/include/memprof_agent_abi.h
MAGIC = 0x746E67614D50524D
REQUESTED_RATE, REQUESTED_UNTIL, REQUESTED_GENERATION, REQUESTED_CAPTURE, OFFSETS = 32, 40, 48, 52, 56
HEAD = struct.Struct("<QIIIIIIdQII6I2QQQdIIQQQQQ3Q")
HEAD_NAMES = ("magic", "abi", "bytes", "buffer_bytes", "buffer_count", "domain_bytes", "domain_count",
              "requested_rate", "requested_until_ns", "requested_generation", "requested_capture", "interrupt", "memprof", "config", "words", "heap", "_",
              "owner", "_", "buffers", "domains", "rate", "generation", "state", "starts", "stops", "conflicts",
              "domains_left_out", "program_stops")
PAUSES = struct.Struct("<Q24Q")
BATCH = struct.Struct("<QIIQII")
RECORD = struct.Struct("<QQQII")
IDLE, SAMPLING, IN_USE, UNSUPPORTED, STOPPED, ASIDE = range(6)
ALLOC_MINOR, ALLOC_MAJOR, PROMOTE, DEALLOC_MINOR, DEALLOC_MAJOR = range(1, 6)
MAX_RECORDS = 512


def unpack_head(data):
    return dict(zip(HEAD_NAMES, HEAD.unpack(data)))


@functools.cache
def _listed(path, options, _changed):
    return subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True).stdout


def listed_by_nm(path, *options):
    """The output of nm for a file, cached while the file stays the same: nm is slower than these tests' own work."""
    there = os.stat(path)
    return _listed(str(path), options, (there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns))


def symbol(path, name):
    """Address of a dynamic or static symbol."""
    out = listed_by_nm(path) + listed_by_nm(path, "-D")
    return int(re.search(rf"^([0-9a-f]+) . {name}$", out, re.M).group(1), 16)


def semaphore(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
    return int(re.search(r"Semaphore: 0x([0-9a-f]+)", notes).group(1), 16)


class AgentProcess:
    def __init__(self, target, *arguments, preload=True, holder=None, folder="targets", agent=AGENT, others=(), env=None):
        environment = dict(os.environ, **(env or {}))
        if preload:
            environment["LD_PRELOAD"] = ":".join((agent, *others))
        self.path = os.path.abspath(os.path.join(BUILD, folder, target))
        self.process = subprocess.Popen(
            [self.path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment, text=True)
        self.ready = self.process.stdout.readline().split()
        assert self.ready[:1] == ["ready"], self.ready
        self.pid = self.process.pid
        # The file that contains the agent: the preloaded library, or the program.
        holder = holder or (agent if preload else self.path)
        self.base = self._base(holder)
        self.control = self.base + symbol(holder, "memprof_agent_control")
        self.semaphore = self.base + semaphore(holder)
        self.memory = open(f"/proc/{self.pid}/mem", "r+b", buffering=0)

    def _base(self, path):
        with open(f"/proc/{self.pid}/maps") as maps:
            for line in maps:
                if line.rstrip().endswith(os.path.realpath(path)):
                    return int(line.split("-")[0], 16)
        raise AssertionError(f"{path} is not mapped")

    def read(self, address, size):
        return os.pread(self.memory.fileno(), size, address)

    def write(self, address, data):
        assert os.pwrite(self.memory.fileno(), data, address) == len(data)

    def head(self):
        head = unpack_head(self.read(self.control, HEAD.size))
        # OCaml 4 uses only the first buffer.
        _, head["unflushed"], _, head["last_sample_id"], *_ = self.batch()[0]
        return head

    @contextlib.contextmanager
    def forked(self, child):
        """An AgentProcess for a forked child, whose memory has the same layout."""
        other = copy.copy(self)
        other.pid = child
        with open(f"/proc/{child}/mem", "r+b", buffering=0) as other.memory:
            yield other

    def pauses(self, phase):
        at = self.control + HEAD.size + phase * PAUSES.size
        total, *counts = PAUSES.unpack(self.read(at, PAUSES.size))
        return total, counts

    def batch(self):
        at = unpack_head(self.read(self.control, HEAD.size))["buffers"]
        return BATCH.unpack(self.read(at, BATCH.size)), at + BATCH.size

    def batches(self):
        """batch() of every buffer; OCaml 5 uses one per domain."""
        head = unpack_head(self.read(self.control, HEAD.size))
        used, = struct.unpack("<I", self.read(self.control + HEAD.size + 2 * PAUSES.size + 4, 4))
        for at in range(head["buffers"], head["buffers"] + used * head["buffer_bytes"], head["buffer_bytes"]):
            yield BATCH.unpack(self.read(at, BATCH.size)), at + BATCH.size

    def tail(self):
        """(first_seq, records) read consistently, or None if a flush intervened."""
        (first, count, *_), records_at = self.batch()
        raw = self.read(records_at, count * RECORD.size)
        if self.batch()[0][0] != first:
            return None
        return first, [RECORD.unpack_from(raw, i * RECORD.size) for i in range(count)]

    def request(self, rate, generation, lease=3600.0):
        until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(lease * 1e9)
        self.write(self.control + REQUESTED_UNTIL, struct.pack("<Q", until))
        self.write(self.control + REQUESTED_RATE, struct.pack("<d", rate))
        self.write(self.control + REQUESTED_GENERATION, struct.pack("<I", generation))

    def watch(self, on):
        self.write(self.semaphore, struct.pack("<H", 1 if on else 0))

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline()

    def ask(self, line):
        self.command(line)
        return self.answer()

    def state(self, wanted, generation=None):
        def reached():
            head = self.head()
            return head["state"] == wanted and generation in (None, head["generation"]) and head
        return eventually(reached, f"agent state {wanted}")

    def close(self):
        self.memory.close()
        if self.process.poll() is None:
            self.command("exit")
        rest = self.process.stdout.read()
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=30), rest
