# SPDX-License-Identifier: Apache-2.0
"""Programs with an agent that captures, and with one that also has the runtime record whole callstacks, to compare
(tests/e2e/truth)."""

import os
import pathlib
import re
import signal
import struct
import tempfile

import agent_process as agent
from agent_process import BUILD, AgentProcess, eventually, listed_by_nm, symbol
from packed_batch import samples_of
from runtime_words import written_by_the_agent, written_in_domains

TRUTH = os.path.abspath(os.path.join(BUILD, "tests/libmemprof_agent_truth.so"))
BY_RUNTIME, BY_AGENT = 1, 2  # enum memprof_capture_by
OK, UNKNOWN_RUNTIME, ALLOCATOR, DIFFERED, BROKEN, CROWDED = range(6)  # enum memprof_walk_state
STACKS = int(os.environ.get("MEMPROFD_STACKS", "10000"))
# struct memprof_runtime_offsets: interrupt, memprof, its profile, words, heap, callstacks stay, local roots.
OFFSETS = {"targets-trixie": (256, 464, 64, 384, 280, 0, 160), "targets-forky": (288, 496, 64, 416, 312, 1, 192),
           "targets-experimental": (288, 504, 64, 424, 312, 1, 192)}
OFFSETS_FORM = "<5I2H"
RUNNING_CAPTURE = agent.HEAD.size + 2 * agent.PAUSES.size + 8


def stopped(pid):
    """True if all threads of the process are stopped; False while one of them ends."""
    try:
        states = [pathlib.Path(f"/proc/{pid}/task/{tid}/stat").read_text() for tid in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return all(state.rsplit(")", 1)[1].split()[0] == "T" for state in states)


class Program(AgentProcess):
    """A program with an agent that captures, and access to the agent's state."""

    def __init__(self, test, *arguments, rate=1e-2, folder="targets", **options):
        super().__init__(*arguments, folder=folder, **options)
        self.agent = options.get("agent", agent.AGENT)
        test.addCleanup(self.kill)
        self.offsets = OFFSETS.get(folder.split("/")[0])
        if self.offsets:
            self.write(self.control + agent.OFFSETS, struct.pack(OFFSETS_FORM, *self.offsets))
            self.walk_from(0)
        self.write(self.control + agent.REQUESTED_CAPTURE, struct.pack("<I", BY_AGENT))
        self.rate = rate

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()

    def begin(self, generation=1, **options):
        self.request(self.rate, generation, **options)
        self.watch(True)
        self.work_until(lambda: self.head()["generation"] == generation, "a session")

    def work_until(self, reached, what):
        def worked():
            self.ask("go 20")
            return reached()
        eventually(worked, what)

    def look(self):
        """The samples of the program's unflushed batches."""
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: stopped(self.pid), "it stands still")
        samples = samples_of(self)
        os.kill(self.pid, signal.SIGCONT)
        return samples

    def sampled(self):
        """Number of samples so far in all domains."""
        return sum(last >> (7 if self.offsets else 0) for (_, _, _, last, *_), _ in self.batches())

    def work_and_look(self, work):
        """Works until there are more samples, then looks. A look may see samples of the one before again."""
        before = self.sampled()
        for _ in range(1000):
            work()
            if self.sampled() > before + 200:
                break
        return self.look()

    def captured_by(self):
        return struct.unpack("<I", self.read(self.control + RUNNING_CAPTURE, 4))[0]

    def walk(self):
        """(enum memprof_walk_state, number of truncated callstacks)"""
        return struct.unpack("<II", self.read(self.control + self.head()["bytes"] - 16, 8))  # uncertain_deaths is behind

    def written(self):
        """The runtime's variables that the agent writes during a session: the allocator and the scanner of roots."""
        return written_by_the_agent(self.pid)

    def walk_from(self, frames):
        """Sets the mean depth from which on the agent walks stacks of OCaml 5, in frames; the default is 20."""
        self.write(self.base + symbol(self.agent, "memprof_switch_frames"), struct.pack("<I", frames))

    def walked(self):
        """Number of OCaml 5 samples whose stack the agent has walked: the first words of 16 struct fiber_stack."""
        out = listed_by_nm(self.agent, "-S")
        at, size = re.search(r"^([0-9a-f]+) ([0-9a-f]+) . memprof_fiber_stacks$", out, re.M).groups()
        return sum(self.word(self.base + int(at, 16) + i * int(size, 16) // 16) for i in range(16))

    def word(self, address):
        return struct.unpack("<Q", self.read(address, 8))[0]

    def written_in_domains(self):
        return written_in_domains(self.read, self.control)


class Witnessed(Program):
    """A program with the runtime's callstacks of the same samples."""

    def __init__(self, test, *arguments, **options):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.told = pathlib.Path(folder.name) / "truth"
        os.environ["MEMPROF_TRUTH_FILE"] = str(self.told)
        super().__init__(test, *arguments, agent=TRUTH, **options)
        self.samples = {}
        self.request(self.rate, 1)
        self.watch(True)

    def collect(self, count, work):
        while len(self.samples) < count:
            self.samples.update(self.work_and_look(work))

    def longest(self):
        return max(len(sample.frames) for sample in self.samples.values())

    def truth(self):
        """{sample id: frames} of the collected samples. The file's last record may be incomplete."""
        data, at, truth = self.told.read_bytes(), 0, {}
        while at + 16 <= len(data):
            sample, slots = struct.unpack_from("<QQ", data, at)
            if at + 16 + 8 * slots > len(data):
                break
            if sample in self.samples:
                truth[sample] = list(struct.unpack_from(f"<{slots}Q", data, at + 16))
            at += 16 + 8 * slots
        return truth

    def compare(self, test):
        """Checks that all callstacks equal the runtime's, truncated ones as far as they go. Returns the number of
        truncated ones."""
        self.watch(False)
        self.close()
        truth = self.truth()
        test.assertLessEqual(len(self.samples) - len(truth), 1, "a sample is told before its truth")
        cut = 0
        for number, frames in truth.items():
            sample = self.samples[number]
            cut += sample.cut
            test.assertEqual(frames[:len(sample.frames)] if sample.cut else frames, sample.frames, number)
        return cut


def a_moment():
    eventually(lambda: True, "")
