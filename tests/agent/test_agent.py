# SPDX-License-Identifier: Apache-2.0
"""The agent alone: its ELF contract, its states, and what it must never do."""

import json
import os
import re
import signal
import subprocess
import unittest

import agent_process as agent
from agent_process import AGENT, AgentProcess, eventually


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def ways_through(code):
    """The sequence of instructions on each path through a function without loops."""
    lines = [line for line in code.splitlines() if re.match(r"\s+[0-9a-f]+:\t", line)]
    at = {int(line.split(":")[0], 16): i for i, line in enumerate(lines)}
    ways = []

    def walk(i, path):
        while i is not None and i < len(lines):
            path = [*path, lines[i]]
            jump = re.search(r"\t(j\w+)\s+([0-9a-f]+) <", lines[i])
            if jump and jump[1] != "jmp":
                walk(at.get(int(jump[2], 16)), path)
            if re.search(r"\tret", lines[i]):
                break
            i = at.get(int(jump[2], 16)) if jump and jump[1] == "jmp" else i + 1
        ways.append(path)

    walk(0, [])
    return ways


class ElfContract(unittest.TestCase):
    def test_exactly_one_probe_on_a_one_byte_nop(self):
        notes = subprocess.run(["readelf", "-n", AGENT], capture_output=True, text=True).stdout
        self.assertEqual(notes.count("NT_STAPSDT"), 3)  # the others are in test_native_heap.py
        self.assertIn("Provider: memprof\n    Name: batch", notes)
        self.assertIn("Arguments: 8@%rdi 4@%esi 8@%rdx 4@%ecx 4@%r8d 4@%r9d", notes)
        self.assertNotIn("Semaphore: 0x0000000000000000", notes.split("otel_memory")[0])
        location = notes.split("Location: ")[1].split(",")[0]
        code = subprocess.run(
            ["objdump", "-d", f"--start-address={location}",
             f"--stop-address={int(location, 16) + 2}", AGENT],
            capture_output=True, text=True).stdout
        self.assertRegex(code, r"\t90\s+\tnop\n")

    def test_stays_mapped_and_exports_nothing_else(self):
        dynamic = subprocess.run(["readelf", "-d", AGENT], capture_output=True, text=True).stdout
        self.assertIn("NODELETE", dynamic)
        out = subprocess.run(["nm", "-D", "--defined-only", AGENT], capture_output=True, text=True)
        self.assertEqual(
            sorted(line.split()[2] for line in out.stdout.splitlines()),
            ["memprof_agent_at_point", "memprof_agent_control", "memprof_agent_hold", "memprof_agent_keep", "memprof_agent_poll",
             "memprof_agent_snapshot", "memprof_agent_snapshot_waiting", "memprof_c_alloc_probe", "memprof_c_free_probe",
             "memprof_c_heap", "memprof_sample_point", "memprof_share_order", "memprof_snapshot", "sigaltstack"])

    def test_hooks_are_there_after_what_they_call(self):
        """Another domain may call a hook as soon as it is stored, so its next hook must be stored first."""
        for function, stored in (("chain_hooks", "next"), ("memprof_pauses_begin", "next_")):
            code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", AGENT],
                                  capture_output=True, text=True).stdout
            storing = 0
            for path in ways_through(code):
                kept = [i for i, line in enumerate(path) if re.search(rf"\tmov\w*\s+%\w+,0x\w+\(%rip\)\s+# \w+ <{stored}", line)]
                hooked = [i for i, line in enumerate(path) if re.search(r"\tmov\s+%\w+,\(%\w+\)", line)]
                if hooked:
                    self.assertGreaterEqual(len(kept), 2, code)  # two of the three may share a register
                    self.assertEqual(len(hooked), 3, code)
                    self.assertLess(max(kept), min(hooked), f"{function} publishes a hook too early:\n{code}")
                    storing += 1
            self.assertGreater(storing, 0, code)

    def test_its_probe_is_in_one_mapping_of_its_load(self):
        """For each mapping with a probe, the kernel searches all mappings of the program for the semaphore. The dynamic
        linker first maps the first segment over the length of all, then the others."""
        notes, headers = (subprocess.run(["readelf", option, "-W", AGENT], capture_output=True, text=True).stdout
                          for option in ("-n", "-l"))
        probe = int(notes.split("Location: ")[1].split(",")[0], 16)
        segments = [[int(word, 16) for word in line.split()[1:6]] for line in headers.splitlines()
                    if line.split()[:1] == ["LOAD"]]
        (first, address, _, _, _), (_, last, _, _, last_size) = segments[0], segments[-1]
        ranges = [(first, first + last + last_size - address)]
        ranges += [(offset, offset + size) for offset, _, _, size, _ in segments[1:]]
        [at] = [offset + probe - begin for offset, begin, _, size, _ in segments if begin <= probe < begin + size]
        pages = [(begin & -4096, end + 4095 & -4096) for begin, end in ranges]
        self.assertEqual(1, sum(begin <= at < end for begin, end in pages), headers)

    def test_is_small(self):
        """If it has to be copied into a container, the program waits for the copy."""
        self.assertLess(os.path.getsize(AGENT), 185_000)

    def test_runs_with_old_c_libraries(self):
        out = subprocess.run(["objdump", "-T", AGENT], capture_output=True, text=True).stdout
        versions = [tuple(int(n) for n in part.split()[0].rstrip(")").split("."))
                    for part in out.split("GLIBC_")[1:]]
        self.assertTrue(versions)
        self.assertLessEqual(max(versions), (2, 17))

    def test_harmless_in_a_program_that_is_not_ocaml(self):
        result = subprocess.run(["/bin/echo", "unharmed"], env={"LD_PRELOAD": AGENT},
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "unharmed\n", ""))


class Life(unittest.TestCase):
    def start(self, *arguments, **options):
        process = AgentProcess(*arguments, **options)
        self.addCleanup(lambda: process.process.kill() if process.process.poll() is None else None)
        return process

    def test_idle_until_the_semaphore_rises(self):
        target = self.start("known_alloc")
        target.request(1e-3, 1)
        target.ask("go 1")
        head = target.head()
        self.assertEqual((head["magic"], head["abi"]), (agent.MAGIC, 6))
        self.assertEqual((head["state"], head["starts"], head["last_sample_id"]),
                         (agent.IDLE, 0, 0))
        self.assertEqual(target.close()[0], 0)

    def test_samples_at_the_requested_rate_and_stops_with_the_semaphore(self):
        target = self.start("known_alloc")
        target.request(1e-3, 7)
        target.watch(True)
        target.ask("minor")
        target.ask("go 1")
        head = target.state(agent.SAMPLING, 7)
        self.assertEqual(head["rate"], 1e-3)
        words = sum(site["allocated_words"]
                    for site in json.loads(target.ask("stat"))["sites"].values())
        (first, count, generation, *_), _ = target.batch()
        self.assertEqual(generation, 7)
        # Each sampled block produces at least one record; most blocks are small.
        self.assertGreater(first + count, words * 1e-3)
        target.watch(False)
        target.ask("go 1")
        head = target.state(agent.IDLE)
        self.assertEqual((head["starts"], head["stops"]), (1, 1))
        before = target.head()["last_sample_id"]
        target.ask("go 1")
        self.assertEqual(target.head()["last_sample_id"], before)
        self.assertEqual(target.close()[0], 0)

    def test_starts_again_and_numbers_continue(self):
        target = self.start("known_alloc")
        for generation in (1, 2, 3):
            target.request(1e-4, generation)
            target.watch(True)
            target.ask("go 1")
            target.state(agent.SAMPLING, generation)
            target.watch(False)
            target.ask("go 1")
            target.state(agent.IDLE)
        head = target.head()
        self.assertEqual((head["starts"], head["stops"]), (3, 3))
        self.assertGreater(head["last_sample_id"], 0)
        self.assertEqual(target.close()[0], 0)

    def test_obeys_a_new_rate_while_sampling(self):
        target = self.start("known_alloc")
        target.request(1e-3, 1)
        target.watch(True)
        target.ask("minor")
        target.ask("go 1")
        many = target.head()["last_sample_id"]
        target.request(1e-5, 2)
        target.ask("go 1")
        head = target.state(agent.SAMPLING, 2)
        self.assertEqual(head["rate"], 1e-5)
        before = head["last_sample_id"]
        target.ask("go 1")
        few = target.head()["last_sample_id"] - before
        self.assertGreater(few, 0)
        self.assertLess(few * 20, many)
        self.assertEqual(target.close()[0], 0)

    def test_rate_zero_is_a_stop(self):
        target = self.start("known_alloc")
        target.request(1e-3, 1)
        target.watch(True)
        target.ask("go 1")
        target.state(agent.SAMPLING, 1)
        target.request(0.0, 2)
        target.ask("go 1")
        target.state(agent.IDLE)
        self.assertEqual(target.close()[0], 0)

    def test_a_lease_that_runs_out_ends_the_session(self):
        target = self.start("known_alloc")
        target.request(1e-3, 1)
        target.watch(True)
        target.ask("go 1")
        target.state(agent.SAMPLING, 1)
        # A watcher has died, and the kernel did not lower the semaphore.
        target.request(1e-3, 1, lease=-1.0)
        target.ask("go 1")
        self.assertEqual(target.head()["state"], agent.IDLE)
        target.ask("go 1")
        self.assertEqual(target.head()["starts"], 1)
        target.request(1e-3, 2)
        target.ask("go 1")
        target.state(agent.SAMPLING, 2)
        self.assertEqual(target.close()[0], 0)

    def records_by_number(self, target, enough):
        """{number: record} of the unflushed records that are visible between steps of the program."""
        records = {}
        for _ in range(200):
            for step in ("go 1", "minor", "minor", "full"):
                target.ask(step)
                first, tail = eventually(target.tail, "an undisturbed read")
                records.update(enumerate(tail, first))
            if enough(records):
                return records
        self.fail(f"only {len(records)} records")

    def stories(self, records):
        """The kinds of each block's records, in the order of their numbers."""
        kinds = {}
        for _, (_, sample_id, _, _, origin) in sorted(records.items()):
            kinds.setdefault(sample_id, []).append(origin & 15)
        return kinds

    def test_records_follow_each_block_in_time_order(self):
        target = self.start("known_alloc")
        target.request(1e-4, 1)
        target.watch(True)
        target.ask("go 1")
        target.state(agent.SAMPLING, 1)
        allocs = {agent.ALLOC_MINOR, agent.ALLOC_MAJOR}
        whole = [[agent.ALLOC_MINOR, agent.DEALLOC_MINOR], [agent.ALLOC_MINOR, agent.PROMOTE, agent.DEALLOC_MAJOR]]
        records = self.records_by_number(
            target, lambda seen: all(list(self.stories(seen).values()).count(story) >= 3 for story in whole))
        last_time = 0
        for _, (time_ns, _, size, n_samples, origin) in sorted(records.items()):
            self.assertGreaterEqual(time_ns, last_time)
            last_time = time_ns
            self.assertEqual(origin >> 8, target.pid)
            self.assertIn(origin >> 4 & 15, (0, 1, 2))
            if origin & 15 in allocs:
                self.assertGreater(size, 0)
                self.assertGreater(n_samples, 0)
            else:
                self.assertEqual((size, n_samples), (0, 0))
        # Each block's records are part of a possible story; records that were never visible are missing.
        possible = (*whole, [agent.ALLOC_MAJOR, agent.DEALLOC_MAJOR])
        for kinds in self.stories(records).values():
            self.assertTrue(any(self.is_part(kinds, story) for story in possible), kinds)
        self.assertEqual(target.close()[0], 0)

    def is_part(self, kinds, story):
        rest = iter(story)
        return all(kind in rest for kind in kinds)

    def test_counts_pauses_only_while_sampling(self):
        target = self.start("known_alloc")
        target.ask("go 1")
        self.assertEqual(target.pauses(0), (0, [0] * 24))
        target.request(1e-4, 1)
        target.watch(True)
        target.ask("go 1")
        target.state(agent.SAMPLING, 1)
        before = json.loads(target.ask("stat"))["minor_collections"]
        counted_before = sum(target.pauses(0)[1])
        after = json.loads(target.ask("go 1"))["minor_collections"]
        self.assertEqual(sum(target.pauses(0)[1]) - counted_before, after - before)
        self.assertGreater(sum(target.pauses(1)[1]), 0)
        self.assertGreater(target.pauses(0)[0], 0)
        self.assertEqual(target.close()[0], 0)

    def test_does_not_disturb_a_program_that_uses_memprof(self):
        target = self.start("uses_memprof")
        target.request(1e-4, 5)
        target.watch(True)
        head = target.state(agent.IN_USE, 5)
        self.assertEqual((head["starts"], head["last_sample_id"]), (0, 0))
        code, rest = target.close()
        self.assertEqual(code, 0)
        own = json.loads(rest)
        # The program's own sampling continued undisturbed: within 6 standard errors.
        expected = own["words"] * 1e-4
        self.assertLess(abs(own["samples"] - expected), 6 * expected ** 0.5 + 1)

    def check_forked(self, child):
        # It stops by itself: its semaphore is raised and its lease lasts an hour.
        head = child.state(agent.IDLE)
        self.assertEqual((0.0, 1, 1), (head["requested_rate"], head["starts"], head["stops"]))
        # The child must not report its parent's unflushed records.
        self.assertEqual(0, head["unflushed"])
        child.request(1e-3, 2)
        child.state(agent.SAMPLING, 2)
        _, records = eventually(lambda: (tail := child.tail()) and tail[1] and tail, "the child samples")
        self.assertEqual({child.pid}, {origin >> 8 for *_, origin in records})

    def test_forked_children_stop_and_the_parent_continues(self):
        target = self.start("forks")
        target.request(1e-3, 1)
        target.watch(True)
        target.state(agent.SAMPLING, 1)
        for _ in range(3):
            child = json.loads(target.ask("fork"))["pid"]
            self.addCleanup(kill, child)
            with target.forked(child) as forked:
                self.check_forked(forked)
        before = target.head()["last_sample_id"]
        eventually(lambda: target.head()["last_sample_id"] > before + 100, "more samples")
        self.assertEqual(target.head()["state"], agent.SAMPLING)
        self.assertEqual(target.close()[0], 0)

    def test_linked_through_the_findlib_package(self):
        target = self.start("linked_agent", preload=False)
        target.request(1e-3, 1)
        target.watch(True)
        target.ask("go 1")
        target.state(agent.SAMPLING, 1)
        self.assertGreater(target.head()["last_sample_id"], 0)
        self.assertEqual(target.close()[0], 0)


class Collector(unittest.TestCase):
    """The agent does not affect the collector: it allocates nothing on the OCaml heap."""

    def gc_of(self, rate):
        target = AgentProcess("churn", "20000000")
        if rate:
            target.request(rate, 1)
            target.watch(True)
        line = target.ask("go").split()
        if rate:
            self.assertGreater(target.head()["last_sample_id"], 100)
        self.assertEqual(target.close()[0], 0)
        return [int(word) for word in line[2:]]

    def minor_words_of(self, rate):
        """Allocated minor words and number of sampled blocks after the same commands."""
        target = AgentProcess("known_alloc")
        if rate:
            target.request(rate, 1)
            target.watch(True)
        target.ask("go 1")
        words = json.loads(target.ask("go 1"))["minor_words"]
        samples = target.head()["last_sample_id"]
        self.assertEqual(target.close()[0], 0)
        return words, samples

    def test_allocates_nothing_itself(self):
        bare, _ = self.minor_words_of(None)
        sampled, samples = self.minor_words_of(1e-3)
        self.assertGreater(samples, 1000)
        # The runtime allocates a record of 5 words for each sampled block. Some blocks may be sampled after the answer
        # has read its count of words.
        self.assertIn(5 * samples - (sampled - bare), (0, 5, 10))

    def test_same_result_and_collections_with_and_without(self):
        bare, sampled = self.gc_of(None), self.gc_of(1e-4)
        self.assertEqual(bare[0], sampled[0])  # the program's own result
        for without, with_agent in zip(bare[1:], sampled[1:]):
            self.assertLessEqual(abs(with_agent - without), max(1, 0.005 * without))


if __name__ == "__main__":
    unittest.main()
