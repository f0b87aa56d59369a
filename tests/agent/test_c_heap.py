# SPDX-License-Identifier: Apache-2.0
"""C memory, in the agent alone: which slots it fills, what it samples, and that nothing is left behind."""

import os
import re
import struct
import subprocess
import time
import unittest

import fake_runtime
from agent_process import AGENT, BUILD, AgentProcess, eventually, symbol

# struct memprof_c_heap, agent-lib/include/memprof_c_heap_abi.h
HEAP = struct.Struct("<QIIQIIQIIIIQQQQQ")
NAMES = ("magic", "abi", "bytes", "requested_interval", "requested_generation", "_", "interval", "generation", "state",
         "slots", "slots_left", "starts", "stops", "samples", "frees", "not_followed")
IDLE, FOLLOWING, NO_SLOTS, UNSUPPORTED = range(4)
LIBRARY = os.path.abspath(os.path.join(BUILD, "targets", "c_memory_library.so"))
# calloc, say, may not be called by the program itself; these are.
HOOKS = ("hook_malloc", "hook_calloc", "hook_realloc", "hook_free", "hook_aligned_alloc", "hook_posix_memalign",
         "hook_memalign")


class CProcess(AgentProcess):
    """A watcher that wants no samples of OCaml's memory, but those of C's."""

    def __init__(self, *arguments, folder="targets"):
        super().__init__("c_memory", *arguments, folder=folder)
        self.heap_at = self.base + symbol(AGENT, "memprof_c_heap")
        self.hooks = {self.base + symbol(AGENT, name) for name in HOOKS}
        self.generation = 0

    def heap(self):
        return dict(zip(NAMES, HEAP.unpack(self.read(self.heap_at, HEAP.size))))

    def ask_for(self, interval, generation=None, lease=3600.0):
        until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(lease * 1e9)
        self.write(self.control + 40, struct.pack("<Q", until))
        self.generation = generation or self.generation + 1
        self.write(self.heap_at + 16, struct.pack("<QI", interval, self.generation))

    def follow(self, interval=2_000):
        """Until it does."""
        self.watch(True)
        self.ask_for(interval)
        self.ask("minor")
        heap = self.heap()
        assert heap["state"] == FOLLOWING and heap["generation"] == self.generation, heap

    def leave(self):
        self.ask_for(0)
        self.watch(False)

    def hooked_words(self):
        """Where a function of the agent's stands in the program's memory, but for the agent itself and stacks."""
        agent, found = os.path.realpath(AGENT), []
        with open(f"/proc/{self.pid}/maps") as maps:
            lines = maps.read().splitlines()
        for line in lines:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            name = line.split()[5] if len(line.split()) > 5 else ""
            if "r" not in line.split()[1] or not name.startswith("/") or os.path.realpath(name) == agent:
                continue
            words = memoryview(self.read(begin, end - begin)).cast("Q")
            found += [begin + 8 * i for i, word in enumerate(words) if word in self.hooks]
        return found

    def protections(self):
        """What may be done with the memory of each file, and where it is."""
        with open(f"/proc/{self.pid}/maps") as maps:
            return [line.split()[:2] + line.split()[5:] for line in maps if ".so" in line or "c_memory" in line]


class CHeap(unittest.TestCase):
    folder = "targets"

    def setUp(self):
        self.target = CProcess(folder=self.folder)

    def tearDown(self):
        self.target.process.stdin.write("exit\n")  # the first one ends what it may be in the middle of
        code, _ = self.target.close()
        self.assertEqual(0, code)

    def test_no_slot_is_touched_unless_asked(self):
        self.target.watch(True)
        self.target.request(1e-4, 1)
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())
        self.assertEqual(IDLE, self.target.heap()["state"])

    def test_all_functions_are_seen_and_put_back(self):
        before = self.target.protections()
        self.target.follow(512)
        heap = self.target.heap()
        words = self.target.hooked_words()
        self.assertEqual(heap["slots"], len(words))
        self.assertEqual(0, heap["slots_left"])
        # The program's and the C library's own.
        self.assertGreaterEqual(len(words), 9)
        self.assertEqual(before, self.target.protections(), "memory that was read-only is so again")
        self.target.ask("kinds 2000")
        heap = self.target.heap()
        self.assertEqual(heap["samples"], heap["frees"])
        # Of 1,000 bytes at 512 for a sample one block in seven has none; each kind is a seventh or so of all.
        self.assertGreater(heap["samples"], 2000 * 7 * 0.75)
        self.target.leave()
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())
        self.assertEqual(before, self.target.protections())
        self.assertEqual((IDLE, 0, 1), tuple(self.target.heap()[k] for k in ("state", "slots", "stops")))

    def test_samples_are_as_many_as_the_bytes_say(self):
        self.target.follow(10_000)
        asked = int(self.target.ask("leak 20000 500"))
        heap = self.target.heap()
        # 1,000 expected; blocks with two samples are one in forty.
        self.assertLess(abs(heap["samples"] - asked / 10_000 * 0.975), 5 * 32)
        self.assertEqual(0, heap["frees"])

    def test_a_failed_realloc_leaves_its_block_followed(self):
        """A sample of the block, once lost, would be missing among those that are freed."""
        self.target.follow(512)
        self.target.ask("grow 5000")
        heap = self.target.heap()
        self.assertGreater(heap["samples"], 3_000)
        self.assertEqual(heap["samples"], heap["frees"])

    def test_a_library_that_comes_later_is_followed_too(self):
        self.target.follow(512)
        slots = self.target.heap()["slots"]
        self.target.ask(f"load {LIBRARY} 0")
        self.target.ask("minor")
        self.assertGreater(self.target.heap()["slots"], slots)
        before = self.target.heap()["samples"]
        self.target.command(f"load {LIBRARY} 500")
        self.assertEqual("500000\n", self.target.answer())
        self.assertGreater(self.target.heap()["samples"], before + 400)
        # Unloaded while its slots are ours.
        self.target.ask("unload")
        self.target.ask("unload")
        self.target.leave()
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())

    def test_a_change_of_the_interval_is_a_new_session(self):
        self.target.follow(512)
        self.target.ask("leak 500 1000")
        self.target.follow(1 << 40)
        samples = self.target.heap()["samples"]
        self.target.ask("leak 500 1000")
        heap = self.target.heap()
        self.assertEqual((samples, 1 << 40, 2), (heap["samples"], heap["interval"], heap["starts"]))

    def test_without_a_watcher_the_next_sample_ends_it(self):
        """As when memprofd is killed: nobody asks for the end."""
        self.target.follow(512)
        self.target.watch(False)
        self.target.ask("leak 100 1000")
        before = self.target.heap()["samples"]
        self.target.ask("kinds 100")
        self.assertEqual(before, self.target.heap()["samples"])
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())

    def test_a_lease_that_runs_out_ends_it(self):
        self.target.follow(512)
        self.target.ask_for(512, generation=self.target.generation, lease=-1)
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())

    def test_a_forked_child_is_not_followed(self):
        self.target.follow(512)
        self.target.ask("fork")
        heap = self.target.heap()
        self.assertLess(heap["samples"], 200)  # of the parent's own

    def test_threads_libraries_and_children_over_many_sessions(self):
        """The program does what could meet a begin or an end all the time, and checks its memory; 200 times."""
        self.target.ask("threads 8")
        self.target.command(f"spin {LIBRARY}")
        self.target.watch(True)
        for _ in range(200):
            self.target.ask_for(2_000)
            wanted = self.target.generation
            eventually(lambda: self.target.heap()["generation"] == wanted, "it follows")
            self.target.ask_for(0)
            eventually(lambda: self.target.heap()["slots"] == 0, "slots are put back")
        self.target.watch(False)
        heap = self.target.heap()
        self.assertEqual((200, 200), (heap["starts"], heap["stops"]))
        self.assertGreater(heap["frees"], 1_000)
        self.target.command("x")
        self.assertGreater(int(self.target.answer()), 100_000)
        self.assertEqual([], self.target.hooked_words())


class CHeapOfOcaml5(CHeap):
    folder = "targets-trixie"


class Parts(unittest.TestCase):
    """The sampler and the table of blocks, with a program that plays the rest."""

    def test_sampler_and_blocks(self):
        parts = ["c_heap/sampled_blocks.c", "c_heap/sampler.c"]
        said = dict(line.split("=") for line in fake_runtime.said_by("fake_c_heap.c", parts).splitlines())
        # 100 million bytes in blocks of 1 to 8,191, at one sample for 10,000: an error is 0.9 %.
        self.assertAlmostEqual(float(said["estimate"]), float(said["truth"]), delta=0.045 * float(said["truth"]))
        self.assertEqual("0", said["lost"])
        self.assertEqual("0", said["wrong"])
        self.assertGreater(int(said["refused"]), 0)
        self.assertEqual("0", said["left"])


class ElfContract(unittest.TestCase):
    def test_its_probe_is_a_one_byte_nop(self):
        code = subprocess.run(["objdump", "-d", "--disassemble=memprof_c_heap_probe", AGENT], capture_output=True,
                              text=True).stdout
        self.assertRegex(code, r"<memprof_c_heap_probe>:\n\s+[0-9a-f]+:\t90\s+\tnop\n")

    def test_what_runs_within_malloc_calls_nothing_of_the_c_library(self):
        """Called under any lock: a function that allocates or locks would be the program's end."""
        for function in (*HOOKS, "memprof_c_allocated", "memprof_c_freed", "memprof_c_still_there", "memprof_c_samples",
                         "resize_sampled", "tell", "memprof_sampled_add", "memprof_sampled_take"):
            code = subprocess.run(["objdump", "-d", f"--disassemble={function}", AGENT], capture_output=True,
                                  text=True).stdout
            self.assertEqual([], re.findall(r"call\s.*@plt.*|__tls_get_addr.*", code), function)


if __name__ == "__main__":
    unittest.main()
