# SPDX-License-Identifier: Apache-2.0
"""Follows the native heap from malloc to the line of OCaml code, in a program with known allocations."""

import math
import os
import pathlib
import signal
import sys
import time
import unittest

from c_program import INTERVAL, CProgram, line_of
from harness import BUILD, MATRIX, NOTES, TARGETS, TARGETS5, E2ETest, eventually, settled

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "agent"))
from runtime_words import slots_of_the_agent  # noqa: E402

PATH = ("noted", "unnoted", "unlocked", "plain", "guarded", "called", "fibered")
LEAVES = PATH[:3]


class CMemory(CProgram):
    remembers_notes = True  # notes of callers that have released the runtime lock
    views_of_all = (("report",), ("report", "-o", "collapsed"), ("sites",))

    def test_a_leak_is_charged_to_its_line(self):
        asked = int(self.program.command("leak 4000 1000"))
        site = self.c_sites()["C_memory.Cache.remember"]
        self.assertEqual(line_of("let[@inline never] remember size"), site["line"])
        self.assert_c_estimate(site, "allocated_bytes", asked)
        self.assert_c_estimate(site, "live_bytes", asked)
        self.assertEqual(site["allocated_bytes"], site["live_bytes"])
        self.assertIn("C_memory.run", [frame["function"] for frame in site["callstack"]])
        self.assertEqual(0, self.drops("c_event_lost") + self.drops("c_stack_lost"))

    def test_views_and_formats_have_it_when_asked(self):
        self.program.command("leak 4000 1000")
        self.c_sites()
        for view in (("report",), ("sites",), ("callers", "remember"), ("report", "-o", "collapsed"), ("report", "-o", "speedscope"),
                     ("sites", "--last", "1h", "-o", "json"), ("report", "--group-by", "callstack")):
            asked = (*view, "--pid", self.program.pid, "--heap", "c")
            self.assertIn("remember", self.memprofd.ctl(*asked).stdout, view)
        for view in self.views_of_all:
            self.assertNotIn("C_memory.Cache.remember", self.memprofd.ctl(*view, "--pid", self.program.pid).stdout, view)
        self.memprofd.ctl("report", "--leaks", "--pid", self.program.pid, "--heap", "c")

    def test_streams_that_are_closed_leave_nothing(self):
        """zlib streams that the program forgets are a leak; the others live only briefly."""
        closed, forgotten = int(self.program.command("streams 50")), int(self.program.command("keep 30"))
        sites = self.c_sites()
        self.assert_c_estimate(sites["C_memory.Zip.compress"], "allocated_bytes", closed)
        self.assertEqual(0, sites["C_memory.Zip.compress"]["live_bytes"])
        self.assert_c_estimate(sites["C_memory.Zip.forget_to_close"], "live_bytes", forgotten)
        self.assertLess(sites["C_memory.Zip.compress"]["lifetime_seconds"]["p50"], 1)

    def test_blocks_that_are_resized_in_vain_or_not(self):
        asked = int(self.program.command("grow 3000"))
        site = self.c_sites()["C_memory.resize"]
        self.assertGreater(site["allocated_bytes"], 0.9 * asked)
        before = self.c_bytes()
        self.program.command("grow 3000")
        settled(self.c_bytes, "what lives of C's memory")
        self.assertLess(self.c_bytes() - before, 100_000)

    def test_what_has_no_certain_callstack_is_counted_by_reason(self):
        """Such blocks count in the sums, but at no line."""
        asked = int(self.program.command("noalloc 2000"))
        sites = self.c_sites()
        self.assertNotIn("C_memory.remember_quickly", sites)
        unknown = sites["(unknown)"]
        self.assert_c_estimate(unknown, "live_bytes", asked)
        # The number of sampled blocks; a few of them look like another thread's.
        sampled = 2000 * (1 - math.exp(-1000 / INTERVAL))
        self.assertGreater(self.drops("c_no_record") + self.drops("c_no_lock"), sampled - 5 * math.sqrt(sampled))

    def test_nothing_else_has_it_among_its_numbers(self):
        """Other numbers exclude the native heap, which contains part of the OCaml heap itself."""
        def live():
            return self.memprofd.metrics().value("memprofd_live_bytes", pid=self.program.pid)
        before = live()
        self.program.command("leak 4000 1000")
        self.assertGreater(self.c_sites()["C_memory.Cache.remember"]["live_bytes"], 3_000_000)
        self.assertLess(live() - before, 1_000_000)
        self.assertLess(self.memprofd.metrics().total("memprofd_site_live_bytes", pid=self.program.pid), 2_000_000)
        by_default = self.memprofd.sites(self.program.pid)
        self.assertLess(sum(site["live_bytes"] for site in by_default), 2_000_000)

    def test_estimates_are_as_wrong_as_they_say(self):
        """For many lines with blocks of all sizes, functions and ends, the errors match their standard errors."""
        exact = self.program.command("known 400", timeout=60)["sites"]
        eventually(lambda: self.check_errors(exact), "estimates are as wrong as they say")

    def check_errors(self, exact):
        """True if all errors are plausible. It may fail at first: a memprofd that waits for a processor is behind."""
        self.c_sites("--limit", "1000")
        self.assertEqual(0, self.drops("c_event_lost") + self.drops("c_stack_lost"))
        first = line_of("let known_sites =") + 2
        found = {site["line"]: site for site in self.all_c_sites if first <= site["line"] < first + len(exact)}
        self.assertEqual(len(exact), len(found))
        unknown = next((site for site in self.all_c_sites if site["function"] == "(unknown)"), {})
        for measure, which in (("allocated_bytes", 0), ("live_bytes", 1)):
            # Some blocks are at no line, because their callstack is not certain.
            share = unknown.get(measure, 0) / sum(e[which] for e in exact)
            self.assertLess(share, 0.06)
            errors = [(found[first + i][measure] - e[which] * (1 - share)) / found[first + i][f"{measure}_stderr"]
                      for i, e in enumerate(exact)]
            mean, square = (sum(e ** k for e in errors) / len(errors) for k in (1, 2))
            self.assertLess(abs(mean), 4.5 / math.sqrt(len(errors)), f"{measure} is biased: {errors}")
            # A sum of n squares has a relative error of sqrt(2 / n), and more as sizes differ.
            self.assertGreater(square, 0.3, measure)
            # The share of blocks without a line differs between the lines.
            self.assertLess(square, 2 + 4.5 * math.sqrt(2 / len(errors)), f"{measure}: {errors}")
            total = sum(e[which] for e in exact) * (1 - share)
            error = math.sqrt(sum(site[f"{measure}_stderr"] ** 2 for site in found.values()))
            self.assertLess(abs(sum(site[measure] for site in found.values()) - total), 4.5 * error, measure)
        return True

    def seen_of(self, frames):
        """The frames that the runtime itself reports: during a callback from C it hides those outside the fiber."""
        outside = (i for i, frame in enumerate(frames) if frame == "fibered" and "called" in frames[:i])
        return frames[:next(outside, None)] if self.ocaml5 else frames

    def test_no_callstack_is_wrong(self):
        """A block's size identifies its true callstack. MEMPROFD_MATRIX=1 tests more blocks."""
        rounds, threads = (10_000, 4) if MATRIX else (200, 4)
        paths = self.program.command(f"paths {rounds} {threads}", timeout=600)["paths"]
        self.c_sites()
        others = []
        right, unknown = dict.fromkeys(LEAVES, 0), dict.fromkeys(LEAVES, 0)
        for path in paths:
            size, frames = path["size"], path["frames"]
            self.c_sites("--group-by", "callstack", "--min-size", size - 20, "--max-size", size + 20, "--limit", "100000")
            for row in self.all_c_sites:
                names = [frame["function"].split(".")[-1] for frame in row["callstack"]]
                names = [name for name in names if name in PATH]
                if names:
                    self.assertEqual(self.seen_of(frames), names, row)
                    right[frames[0]] += row["samples"]
                elif row["function"] == "(unknown)":
                    unknown[frames[0]] += row["samples"]
                else:
                    others.append(row)
        # Blocks of the standard library.
        self.assertLess(sum(row["samples"] for row in others), 10, [row["function"] for row in others])
        NOTES.append(f"callstacks of C memory: right {right}, unknown {unknown}")
        lost = self.drops("c_event_lost") + self.drops("c_stack_lost")
        # In OCaml 4, remains of calls without a note on the stack make some callstacks uncertain.
        self.assertLessEqual(unknown["noted"], 0.2 * right["noted"] + 3 * lost)
        self.assertGreater(right["noted"], rounds * threads * 12 * 0.25 - 3 * lost)
        if not self.remembers_notes:
            return
        # In a blocking section, while another thread has the lock, and after it.
        self.assertLessEqual(unknown["unlocked"], (0 if self.ocaml5 else 0.2) * right["unlocked"] + 3 * lost)
        self.assertGreater(right["unlocked"], rounds * threads * 6 * 2 * 0.25 - 3 * lost)

    def site(self, function):
        return self.c_sites().get(function, {})

    def test_its_resident_part(self):
        """The program writes to one word of each block of 100,000 bytes: one page, or two at a page border."""
        asked = int(self.program.command("leak 300 100000"))
        eventually(lambda: "resident_bytes" in self.site("C_memory.Cache.remember"), "its pages are looked at", timeout=60)
        site = self.site("C_memory.Cache.remember")
        self.assert_c_estimate(site, "live_bytes", asked)
        pages = 300 * os.sysconf("SC_PAGE_SIZE")
        self.assertGreater(site["resident_bytes"], 0.9 * 300 * 8)
        self.assertLess(site["resident_bytes"], 2.5 * pages)
        table = self.memprofd.ctl("sites", "--pid", self.program.pid, "--heap", "c").stdout
        self.assertIn("RESIDENT", table.splitlines()[0])
        resident = self.c_bytes("memprofd_resident_c_bytes")
        self.assertLess(resident, 0.5 * self.c_bytes())
        self.assertGreater(resident, 0.99 * site["resident_bytes"])
        metrics = self.memprofd.metrics()
        for measure in ("live", "resident"):
            of_site = metrics.value(f"memprofd_site_{measure}_c_bytes", pid=self.program.pid, function="C_memory.Cache.remember")
            self.assertAlmostEqual(of_site / site[f"{measure}_bytes"], 1, delta=0.05)
        for other in self.memprofd.ctl_json("sites", "--pid", self.program.pid)["sites"]:
            self.assertNotIn("resident_bytes", other)

    def test_blocks_whose_end_was_not_seen(self):
        """The program frees blocks through a pointer it has looked up: small ones, and ones with their own mappings."""
        before = self.drops("c_free_missed")
        for size in (1_000, 40_000, 400_000):
            asked = int(self.program.command(f"unseen 400 {size}"))
            self.assertGreater(self.site("C_memory.free_unseen")["live_bytes"], 0.5 * asked)
            eventually(lambda: self.site("C_memory.free_unseen")["live_bytes"] < 0.1 * asked, "they are found gone", timeout=90)
            self.assertGreater(self.drops("c_free_missed"), before)
            before = self.drops("c_free_missed")

    def test_lifetimes(self):
        begun = time.monotonic()
        self.program.command("hold 1000 300")
        elapsed = time.monotonic() - begun

        def half_lived():
            self.c_sites()
            return next(site["lifetime_seconds"]["p50"] for site in self.all_c_sites if site["line"] == line_of('| [ "hold"'))
        eventually(lambda: half_lived() > 0.3 * 0.9, "the end of most is counted")  # classes of lifetimes are coarse
        self.assertLess(half_lived(), elapsed * 1.1)

    def test_more_blocks_than_can_be_followed(self):
        """Blocks beyond the limit are counted as given up."""
        self.program.command("leak 90000 20000", timeout=120)
        eventually(lambda: self.drops("c_blocks_full") > 0, "it is counted")
        self.program.command("leak 10 1000")

    def test_a_library_that_comes_later(self):
        self.program.command(f"load {TARGETS / 'c_memory_library.so'} 0")
        self.program.command("minor")
        asked = int(self.program.command(f"load {TARGETS / 'c_memory_library.so'} 3000"))
        self.assert_c_estimate(self.c_sites()["C_memory.remember_in_library"], "live_bytes", asked)

    def hooked(self):
        """Number of words in the program's mapped files that point to the agent's functions."""
        return len(slots_of_the_agent(self.program.pid, BUILD / "libmemprof_agent.so"))

    def assert_unhooked(self):
        """A detach waits for a collection a short time only; later the next collection restores all slots."""
        self.assertEqual("0", self.program.command("minor", timeout=60))
        self.assertEqual(0, self.hooked())

    def test_a_detach_leaves_no_slot_behind(self):
        self.assertGreater(self.hooked(), 9)
        self.program.send("spin")  # keeps collecting during the detach
        self.memprofd.detach(self.program.pid)
        self.program.command("x")
        self.assert_unhooked()
        self.memprofd.ctl("attach", "--pid", self.program.pid, "--c-heap-interval", "0")
        self.sample_on_command(self.memprofd, self.program)
        self.assertEqual(0, self.hooked(), "nobody has asked for C's memory")

    def test_a_memprofd_that_is_killed_leaves_none_either(self):
        self.memprofd.stop(signal.SIGKILL)
        eventually(lambda: self.program.command("minor") == "0" and self.hooked() == 0, "slots are put back")
        self.program.command("kinds 1000")

    def test_a_program_that_kills_itself_for_system_calls_from_now_on(self):
        """Its slots are not restored; the hooks then call the C library directly."""
        self.program.command("forbid")
        self.memprofd.detach(self.program.pid)
        for _ in range(3):
            self.program.command("minor")
        self.program.command("kinds 1000")
        self.assertGreater(self.hooked(), 9)

    def test_such_a_program_is_told_of(self):
        self.program.command("forbid")

        def told():
            self.program.command("minor")
            return "seccomp" in self.memprofd.stderr()
        eventually(told, "it is told")
        self.program.command("kinds 1000")

    def work_in_threads(self):
        self.program.command("threads 8")
        self.program.send(f"spin {TARGETS / 'c_memory_library.so'}")

    def test_cycles_while_threads_libraries_and_children_come_and_go(self):
        """memprofd attaches and detaches meanwhile. After the program has freed its blocks, only those that it keeps
        are left among the sampled ones, and no free was lost."""
        self.work_in_threads()
        freed = 0
        for _ in range(200 if MATRIX else 20):
            self.memprofd.detach(self.program.pid)
            self.memprofd.ctl("attach", "--pid", self.program.pid, "--c-heap-interval", "64KiB")
            self.memprofd.wait_state(self.program.pid, "sampling")
            eventually(lambda: self.allocated() > 0, "C's memory is followed")
            self.assertGreater(int(self.program.command("x", timeout=60)), 0)
            self.program.command("calm", timeout=60)
            freed += self.assert_no_free_is_lost()
            self.work_in_threads()
        self.assertGreater(freed, 100)
        NOTES.append(f"{freed} sampled blocks were freed in the cycles, each told")
        self.memprofd.detach(self.program.pid)
        self.assertGreater(int(self.program.command("x", timeout=60)), 10_000)
        self.assert_unhooked()

    def assert_no_free_is_lost(self):
        """Returns the number of samples freed since the attach. The first thread's blocks are checked only at lines of
        the program; it keeps the library's blocks and frees all others."""
        kept = "C_memory.remember_in_library"
        sites = [site for name, site in self.c_sites("--limit", "1000").items() if name.startswith("C_memory.")]
        by_thread = self.memprofd.ctl_json("sites", "--pid", self.program.pid, "--heap", "c", "--group-by", "thread")["sites"]
        threads = [row for row in by_thread if row["thread"] != self.program.pid]
        for reason in ("c_event_lost", "c_blocks_full", "c_free_missed"):
            self.assertEqual(0, self.drops(reason), reason)
        for row in sites + threads:
            live = row["allocated_bytes"] if row["function"] == kept else 0
            self.assertEqual(live, row["live_bytes"], row)
        return sum(row["samples"] for row in sites + threads if row["function"] != kept)


class CMemoryOfOcaml5(CMemory):
    programs = TARGETS5


class OfAnotherMalloc(CMemory):
    """A preloaded malloc; tests/agent/test_native_heap.py tests its effect on the program."""

    allocator = ""

    def start(self):
        path = f"/usr/lib/x86_64-linux-gnu/{self.allocator}"
        if not os.path.exists(path):
            self.skipTest(f"no {path}")
        return self.target("c_memory", env=dict(os.environ, LD_PRELOAD=path))


# Keeps only the tests in which the malloc matters.
for name in dir(CMemory):
    if name.startswith("test_") and name not in ("test_a_leak_is_charged_to_its_line", "test_a_detach_leaves_no_slot_behind",
                                                 "test_estimates_are_as_wrong_as_they_say",
                                                 "test_streams_that_are_closed_leave_nothing"):
        setattr(OfAnotherMalloc, name, None)


class CMemoryOfJemalloc(OfAnotherMalloc):
    allocator = "libjemalloc.so.2"


class CMemoryOfTcmalloc(OfAnotherMalloc):
    allocator = "libtcmalloc_minimal.so.4"


class CMemoryOfMimalloc(OfAnotherMalloc):
    allocator = "libmimalloc.so.2.0"


class Callbacks(CProgram):
    """C code that calls back to OCaml and then calls malloc: the block belongs to the function that called C."""

    def start(self):
        return self.target("callback_malloc", folder=self.programs)

    def wait_until_followed(self):
        before = self.allocated()

        def followed():
            self.program.command("go 10")
            return self.allocated() > before
        eventually(followed, "C's memory is followed")

    def test_what_is_allocated_after_a_callback_is_the_callers(self):
        before, rounds = self.c_sites(), 2000
        self.program.command(f"go {rounds}", timeout=60)
        after = self.c_sites()

        def taken(function):
            bytes_taken = after.get(function, {}).get("allocated_bytes", 0) - before.get(function, {}).get("allocated_bytes", 0)
            return {"function": function, "allocated_bytes": bytes_taken}
        self.assert_c_estimate(taken("Callback_malloc.fetch"), "allocated_bytes", 4000 * rounds)
        self.assert_c_estimate(taken("Callback_malloc.fetch_deep"), "allocated_bytes", 2000 * rounds)
        # Within a callback, a call without a note has no certain caller; the older note must not count.
        self.assert_c_estimate(taken("(unknown)"), "allocated_bytes", 1000 * rounds)
        self.assertNotIn("Callback_malloc.fetch_inside", after)


class CallbacksOfOcaml5(Callbacks):
    programs = TARGETS5


class Leaks(E2ETest):
    """Leaks of real C libraries: live bytes by line, compared with malloc's own counts."""

    INTERVAL = 4096

    def test_each_is_charged_to_its_line(self):
        program = self.target("c_leaks", folder=BUILD / "targets")
        memprofd = self.daemon("--pid", program.pid, "--c-heap-interval", self.INTERVAL, rate=1e-3)

        def sites(*options):
            return {site["function"]: site for site in
                    memprofd.ctl_json("sites", "--pid", program.pid, "--heap", "c", "--limit", "1000", *options)["sites"]}

        def followed():
            program.command("minor")
            program.command("bigarrays 1")
            return sites()
        eventually(followed, "C's memory is followed")
        kept = sites().get("C_leaks.make_array", {}).get("live_bytes", 0)
        lines = {"zlib 60": "C_leaks.open_stream", "bigarrays 200": "C_leaks.make_array", "ssl 300": "C_leaks.make_context"}
        taken = {function: int(program.command(command)) for command, function in lines.items()}
        taken["C_leaks.make_array"] += kept

        def of_lines():
            program.command("minor")
            found = {}
            rows = memprofd.ctl_json("sites", "--pid", program.pid, "--heap", "c", "--group-by", "callstack", "--limit", "1000")
            for row in rows["sites"]:
                names = {frame["function"] for frame in row["callstack"]}
                for function in names & set(taken):
                    # malloc adds a header to each block, and rounds sizes up.
                    found[function] = found.get(function, 0) + row["live_bytes"] + 16 * row["live_objects"]
            return found
        found = settled(of_lines, "what lives")
        for function, bytes_taken in taken.items():
            error = 4.5 * math.sqrt(bytes_taken * self.INTERVAL) + 0.1 * bytes_taken
            self.assertLess(abs(found.get(function, 0) - bytes_taken), error, f"{function}: {found}, {taken}")
        NOTES.append(", ".join(f"{function}: {found[function]:,.0f} of {count:,}" for function, count in taken.items()))


class Options(E2ETest):
    def test_it_is_off_unless_asked_for(self):
        program = self.target("c_memory")
        memprofd = self.daemon("--pid", program.pid, rate=1e-3)
        self.sample_on_command(memprofd, program)
        program.command("leak 1000 1000")
        self.assertEqual([], memprofd.metrics().find("memprofd_live_c_bytes", pid=program.pid))
        self.assertEqual([], memprofd.ctl_json("sites", "--pid", program.pid, "--heap", "c")["sites"])

    def test_attach_asks_for_it(self):
        program, memprofd = self.target("c_memory"), self.daemon(rate=1e-3)
        memprofd.ctl("attach", "--pid", program.pid, "--c-heap-interval", "1KiB")

        def seen():
            program.command("minor")
            program.command("leak 100 1000")
            return memprofd.ctl_json("sites", "--pid", program.pid, "--heap", "c")["sites"]
        eventually(seen, "C's memory is followed")

    def test_why_it_is_not_followed(self):
        """A program's filter might kill it for the agent's changes; no thread is borrowed to ask it."""
        program = self.target("seccomp", "kills", "1000", env={**os.environ, "LD_PRELOAD": str(BUILD / "libmemprof_agent.so")})
        memprofd = self.daemon("--pid", program.pid, "--c-heap", rate=1e-2)

        def told():
            program.command("wake")
            return memprofd.state(program.pid) == "sampling" and "not followed" in memprofd.targets()[program.pid]["message"]
        eventually(told, "the target's message has the reason")
        self.assert_one_line(memprofd.targets()[program.pid]["message"],
                             "the native heap is not followed: the program runs under a seccomp filter")
        self.assertIn("the native heap is not followed", memprofd.stderr())

    def test_an_interval_that_makes_no_sense(self):
        program, memprofd = self.target("c_memory"), self.daemon(rate=1e-3)
        refused = memprofd.ctl("attach", "--pid", program.pid, "--c-heap-interval", "10", check=False)
        self.assertNotEqual(0, refused.returncode)
        self.assert_one_line(refused.stderr, "c_heap_interval", "1024")


del OfAnotherMalloc  # not a test case itself

if __name__ == "__main__":
    unittest.main()
