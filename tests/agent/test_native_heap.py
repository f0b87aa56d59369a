# SPDX-License-Identifier: Apache-2.0
"""The native heap in the agent alone: the slots it fills, its samples, and a clean end."""

import math
import os
import re
import subprocess
import tempfile
import time
import unittest

import native_heap_cost
import fake_runtime
from agent_process import AGENT, BUILD, eventually, symbol
from c_process import FOLLOWING, IDLE, CProcess

MATRIX = os.environ.get("MEMPROFD_MATRIX")  # the long form
LIBRARY = os.path.abspath(os.path.join(BUILD, "targets", "c_memory_library.so"))
OTHER_LIST = os.path.abspath(os.path.join(BUILD, "tests/hostile/libother_list.so"))
CXX_LIBRARY = os.path.abspath(os.path.join(BUILD, "targets", "c_memory_cxx.so"))
HOOKS = re.findall(r" t (hook_\w+)$", subprocess.run(["nm", AGENT], capture_output=True, text=True).stdout, re.M)


class CHeap(unittest.TestCase):
    folder = "targets"

    def setUp(self):
        self.target = CProcess(folder=self.folder)

    def tearDown(self):
        self.target.process.stdin.write("exit\n")  # the first line ends a command that still runs
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
        # Slots of the program and of the C library.
        self.assertGreaterEqual(len(words), 9)
        self.assertEqual(before, self.target.protections(), "memory that was read-only is so again")
        self.target.ask("kinds 2000")
        heap = self.target.heap()
        self.assertEqual(heap["samples"], heap["frees"])
        # At an interval of 512 bytes, one in seven blocks of 1,000 bytes has no sample; each kind is about a seventh.
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
        # 1,000 samples are expected; one in forty blocks has two.
        self.assertLess(abs(heap["samples"] - asked / 10_000 * 0.975), 5 * 32)
        self.assertEqual(0, heap["frees"])

    def test_a_failed_realloc_leaves_its_block_followed(self):
        """If the block's sample were lost, the count of freed samples would be too low."""
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
        # The library is unloaded while its slots contain the agent's functions.
        self.target.ask("unload")
        self.target.ask("unload")
        self.target.leave()
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())

    def test_hooks_of_blocking_sections_are_put_back(self):
        before = self.target.blocking_hooks()
        self.target.note_blocking_sections(self.target.heap_at if self.folder == "targets" else 64)
        for _ in range(3):
            self.target.follow(512)
            self.assertEqual(0, len(set(before) & set(self.target.blocking_hooks())))
            self.target.ask("blocking 1000")
            self.target.ask("fork")
            self.target.leave()
            self.target.ask("minor")
            self.assertEqual(before, self.target.blocking_hooks())
            self.target.ask("blocking 1000")

    def test_a_change_of_the_interval_is_a_new_session(self):
        self.target.follow(512)
        self.target.ask("leak 500 1000")
        self.target.follow(1 << 40)
        samples = self.target.heap()["samples"]
        self.target.ask("leak 500 1000")
        heap = self.target.heap()
        self.assertEqual((samples, 1 << 40, 2), (heap["samples"], heap["interval"], heap["starts"]))

    def test_without_a_watcher_the_next_sample_ends_it(self):
        """memprofd may be killed: it then does not request the end."""
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
        self.assertLess(heap["samples"], 200)  # those of the parent itself

    def test_threads_libraries_and_children_over_many_sessions(self):
        """200 sessions, while the program keeps doing whatever could collide with a begin or an end, and checks its
        memory."""
        self.target.ask("threads 8")
        self.target.command(f"spin {LIBRARY}")
        self.target.watch(True)
        for _ in range(200):
            self.target.comes_and_goes()
        self.target.watch(False)
        heap = self.target.heap()
        self.assertEqual((200, 200), (heap["starts"], heap["stops"]))
        self.assertGreater(heap["frees"], 1_000)
        self.target.command("x")
        self.assertGreater(int(self.target.answer()), 100_000)
        self.assertEqual([], self.target.hooked_words())


class CHeapOfBoundProgram(unittest.TestCase):
    def test_all_slots_hold_what_they_held(self):
        """Compares the tables of all files in a program whose calls the linker has bound at its start."""
        target = CProcess(env={"LD_BIND_NOW": "1"})
        self.addCleanup(target.process.kill)
        before = target.filled_by_the_linker()
        self.assertGreater(sum(map(len, before.values())), 3)
        for _ in range(5):
            target.follow(512)
            self.assertNotEqual(before, target.filled_by_the_linker())
            target.leave()
            target.ask("minor")
            self.assertEqual(before, target.filled_by_the_linker())


class CHeapOfOcaml5(CHeap):
    folder = "targets-trixie"


class Attacked(unittest.TestCase):
    """Programs that change their mapped files in unusual ways, or whose children do (tests/hostile/attacks/slots.c)."""

    def attacked(self, *attack, **options):
        self.target = CProcess(attack="; ".join(attack), **options)
        self.addCleanup(self.target.process.kill)

    def sessions(self, n):
        self.target.command("spin")
        self.target.watch(True)
        for _ in range(n):
            self.target.comes_and_goes()
        self.target.watch(False)
        self.target.command("x")
        self.assertNotEqual("", self.target.answer(), "it has ended")

    def ends_well(self):
        code, _ = self.target.close()
        self.assertEqual(0, code)

    def follows_and_leaves(self):
        self.target.follow(512)
        self.target.ask("kinds 100")
        self.assertGreater(self.target.heap()["samples"], 100)
        self.target.leave()
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())

    def test_a_word_that_the_program_writes_meanwhile_is_its_own(self):
        self.attacked("own-slot")
        self.sessions(1_000 if MATRIX else 300)
        self.ends_well()

    def test_what_the_program_has_opened_stays_open(self):
        """Memory that the program has made writable, and keeps writing to, stays writable."""
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            self.attacked("open-relro go", env={"HOSTILE_GO": go})
            self.target.follow(512)
            closed = self.target.protections()
            open(go, "w").close()
            eventually(lambda: self.target.protections() != closed, "they can be written to")
            time.sleep(0.05)  # the fault would occur now
            before = self.target.protections()
            self.target.leave()
            self.target.ask("minor")
            self.assertEqual([], self.target.hooked_words())
            self.target.watch(True)
            self.target.ask_for(512)
            self.target.ask("minor")
            self.assertEqual(before, self.target.protections())
            self.assertGreater(self.target.heap()["slots_left"], 0, "what is not followed is told")
            self.target.leave()
            self.target.ask("minor")
            self.assertEqual([], self.target.hooked_words())
            self.ends_well()

    def test_hooks_are_put_back_where_no_slot_could_be_filled(self):
        """A file with writable constants may not have been relocated yet, so none of its slots are filled."""
        self.attacked("open-relro at-once")
        before = self.target.blocking_hooks()
        self.target.note_blocking_sections(self.target.heap_at)
        self.target.follow(512)
        self.assertEqual(0, self.target.heap()["slots"])
        self.assertNotEqual(before, self.target.blocking_hooks())
        self.target.leave()
        self.target.ask("minor")
        self.assertEqual(before, self.target.blocking_hooks())

    def test_tables_of_a_file_that_has_become_unreadable(self):
        self.attacked(f"hide-tables {LIBRARY}")
        self.follows_and_leaves()
        self.ends_well()

    def test_a_file_that_is_in_the_list_and_nowhere_else(self):
        self.attacked(f"unmap {LIBRARY}")
        self.follows_and_leaves()  # the program would not survive its own regular end

    def test_a_list_that_lies(self):
        self.attacked(f"lie-in-list {LIBRARY}")
        self.follows_and_leaves()

    def test_a_list_of_the_programs_own(self):
        self.attacked(others=[OTHER_LIST])
        self.follows_and_leaves()
        self.ends_well()

    def test_a_forked_child_asks_the_linker_for_nothing(self):
        """A thread that does not exist in the child holds the linker's lock there."""
        self.attacked("hold-linker")
        self.target.follow(512)
        self.assertTrue(self.target.ask_within(30, "fork"), "its child stands still")
        self.ends_well()

    def test_a_child_of_a_thread_of_c_finds_the_linker_unlocked(self):
        self.attacked("fork-and-look at-once")
        self.sessions(1_000 if MATRIX else 300)
        before = self.target.children()
        eventually(lambda: self.target.children() - before, "children come and go")
        self.ends_well()


class OfAnotherMalloc:
    """The same with a preloaded malloc, which is found before the C library's."""

    allocator = ""

    def setUp(self):
        if not os.path.exists(self.allocator):
            self.skipTest(f"no {self.allocator}")
        self.target = CProcess(others=[self.allocator])
        self.target.follow(512)
        self.target.leave()
        self.target.ask("minor")

    def tearDown(self):
        code, _ = self.target.close()
        self.assertEqual(0, code)

    def test_all_functions_are_seen_and_put_back(self):
        self.target.follow(512)
        self.target.ask("kinds 2000")
        self.target.ask("grow 2000")
        heap = self.target.heap()
        self.assertEqual(heap["samples"], heap["frees"])
        self.assertGreater(heap["samples"], 2000 * 7 * 0.75)
        self.target.leave()
        self.target.ask("minor")
        self.assertEqual([], self.target.hooked_words())

    def test_operators_of_cxx(self):
        """They belong to the preloaded library and do not call malloc."""
        self.target.follow(512)
        self.target.ask(f"load {CXX_LIBRARY} 1")
        # With another malloc loaded, the agent checks the binding of the library's calls, at growing intervals.
        for _ in range(16):
            self.target.ask("minor")
        before = self.target.heap()
        self.target.ask(f"load {CXX_LIBRARY} 1000")
        heap = self.target.heap()
        samples, frees = (heap[key] - before[key] for key in ("samples", "frees"))
        # Samples per round: blocks of 1,000 bytes twice, 1,024 and 2,048 are freed, one of 1,000 is not. A passing
        # exception has a block, too.
        share = [1 - math.exp(-size / 512) for size in (1_000, 1_000, 1_024, 2_048, 1_000)]
        self.assertGreater(frees, 1000 * sum(share[:-1]) - 5 * math.sqrt(1000))
        # Operators that call malloc count once; an exception has a block, too.
        self.assertLess(samples, 1.2 * 1000 * sum(share))
        self.assertAlmostEqual(samples - frees, 1000 * share[-1], delta=5 * math.sqrt(1000))

    def test_threads_libraries_and_children_over_many_sessions(self):
        self.target.ask("threads 8")
        self.target.command(f"spin {LIBRARY}")
        self.target.watch(True)
        for _ in range(50):
            self.target.comes_and_goes()
        self.target.watch(False)
        self.target.command("x")
        self.assertGreater(int(self.target.answer()), 10_000)
        self.assertEqual([], self.target.hooked_words())


class Jemalloc(OfAnotherMalloc, unittest.TestCase):
    allocator = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


class Tcmalloc(OfAnotherMalloc, unittest.TestCase):
    allocator = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"


class Mimalloc(OfAnotherMalloc, unittest.TestCase):
    allocator = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"


class Glibc(OfAnotherMalloc, unittest.TestCase):
    """glibc's own malloc, which the operators of C++ call."""
    allocator = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"


class Parts(unittest.TestCase):
    """The sampler and the table of blocks, with a program that simulates the rest."""

    def test_sampler_and_blocks(self):
        said = dict(line.split("=") for line in
                    fake_runtime.said_by("fake_native_heap.c", ["native_heap/sampler.c"]).splitlines())
        # 100 million bytes in blocks of 1 to 8,191 bytes, one sample per 10,000 bytes: the standard error is 0.9 %.
        self.assertAlmostEqual(float(said["estimate"]), float(said["truth"]), delta=0.045 * float(said["truth"]))
        self.assertEqual("0", said["lost"])
        self.assertEqual("0", said["wrong"])
        self.assertGreater(int(said["refused"]), 0)
        self.assertEqual("0", said["left"])
        # 200 blocks in 25,600 regions of 4 KB, which share 16,384 counts.
        self.assertEqual(("0", "0"), (said["missed"], said["regions"]))
        self.assertAlmostEqual(float(said["slow"]), 0.012, delta=0.002)
        # One place is claimed by a block that is being added; the block's other places are free.
        self.assertEqual("32", said["claimed"])


class Cost(unittest.TestCase):
    def test_what_measures_it_runs(self):
        self.assertRegex(native_heap_cost.measured("-DROUNDS=3"), "hot pair: least .*\n?.*churn: least ")


class ElfContract(unittest.TestCase):
    def test_its_probe_is_a_one_byte_nop(self):
        for name in ("memprof_c_alloc_probe", "memprof_c_free_probe"):
            code = subprocess.run(["objdump", "-d", f"--disassemble={name}", AGENT], capture_output=True, text=True).stdout
            self.assertRegex(code, rf"<{name}>:\n\s+[0-9a-f]+:\t90\s+\tnop\n")

    def test_its_probes_are_those_of_the_contract(self):
        """Consumers of otel_memory read these registers without checking the note."""
        notes = subprocess.run(["readelf", "-n", AGENT], capture_output=True, text=True).stdout
        for name, arguments in (("alloc", "8@%rdi 8@%rsi 8@%rdx"), ("free", "8@%rdi")):
            found = re.search(rf"Provider: otel_memory\s+Name: {name}\s+Location: 0x([0-9a-f]+), .*\s+Arguments: (.*)\n", notes)
            self.assertEqual(arguments, found[2])
            self.assertEqual(symbol(AGENT, f"memprof_c_{name}_probe"), int(found[1], 16))

    def test_what_runs_within_malloc_calls_nothing_of_the_c_library(self):
        """These functions may run under any lock: one that allocates or locks could deadlock the program."""
        for function in (*HOOKS, "memprof_c_allocated", "memprof_c_freed", "memprof_c_weight", "memprof_blocking_note", "memprof_c_still_there", "memprof_c_samples",
                         "resize_sampled", "tell", "memprof_sampled_add", "memprof_sampled_take"):
            code = subprocess.run(["objdump", "-d", f"--disassemble={function}", AGENT], capture_output=True,
                                  text=True).stdout
            self.assertEqual([], re.findall(r"call\s.*@plt.*|__tls_get_addr.*", code), function)


if __name__ == "__main__":
    unittest.main()
