# SPDX-License-Identifier: Apache-2.0
"""Allocation and free of every sampled native block, in streams and traces, of a program with known allocations."""

import collections
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest

import grpc
from c_program import INTERVAL, CProgram, line_of

import answers
import harness
from harness import BUILD, TARGETS5, E2ETest, eventually, memprofctl, settled

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from test_events import Stream  # noqa: E402
from test_outputs import make_messages  # noqa: E402

RATE = 8 / INTERVAL  # samples per word
LARGE = 512  # words; a block of at least this size has exactly one sample
ALLOC = re.compile(r"\+\S+ alloc (\d+)(?: domain 0)? (\w+) (\d+) samples? (\d+) words?:(.*)$")
COLLECT = re.compile(r"\+\S+ collect (\d+)")


def stands_for(event):
    """The bytes that an event stands for, as proto/memprof/v1 defines."""
    words = event.size_words
    return 8 * (event.n_samples / RATE if words < LARGE else words / (1 - (1 - RATE) ** words))


class CEventTest(CProgram):
    @classmethod
    def setUpClass(cls):
        make_messages(cls)

    def setUp(self):
        super().setUp()
        self.channel = grpc.insecure_channel(f"unix:{self.memprofd.socket}")
        self.addCleanup(self.channel.close)
        self.first_line = line_of("let known_sites =") + 2

    def stream(self, heap="BLOCK_HEAP_C", **fields):
        filters = self.pb.Filter(heap=heap, **fields)
        return Stream(self.pb, self.channel, self.pb.StreamEventsRequest(pid=self.program.pid, filter=filters))

    def known_sites(self):
        """memprofd's counts: {line: site}, and the site of blocks without a certain callstack."""
        self.c_sites("--limit", "1000")
        last = self.first_line + 32
        by_line = {s["line"]: s for s in self.all_c_sites if self.first_line <= s["line"] < last}
        return by_line, next((s for s in self.all_c_sites if s["function"] == "(unknown)"), collections.Counter())

    def assert_near(self, bytes_told, exact, what):
        self.assertLess(abs(bytes_told - exact), 4.5 * math.sqrt(exact * INTERVAL) + 0.01 * exact, f"{what}: {exact} exactly")


class CEvents(CEventTest):
    def lives(self, stream):
        """Events of allocations and of frees, by block. Fails if a block has two of one kind, or is freed too early."""
        taken, freed = {}, {}
        for event in stream.events():
            if event.kind == self.pb.EVENT_KIND_C_ALLOC:
                self.assertNotIn(event.block, taken)
                taken[event.block] = event
            else:
                self.assertEqual(self.pb.EVENT_KIND_C_FREE, event.kind)
                self.assertNotIn(event.block, freed)
                freed[event.block] = event
                if event.block in taken:
                    self.assertGreaterEqual(event.time_unix_ns, taken[event.block].time_unix_ns)
        return taken, freed

    def by_line(self, stream, events):
        found = collections.defaultdict(list)
        for event in events:
            found[stream.site(event.callstack_id).line if event.callstack_id else 0].append(event)
        return found

    def test_a_stream_has_what_is_counted_and_no_more(self):
        unknown_before = self.known_sites()[1]["samples"]
        stream, others = self.stream(), self.stream(heap="BLOCK_HEAP_UNSPECIFIED")
        exact = self.program.command("known 400", timeout=60)["sites"]
        sites, unknown = self.known_sites()
        samples = sum(s["samples"] for s in sites.values()) + unknown["samples"] - unknown_before

        def told():
            taken = self.lives(stream)[0].values()
            here = [e for e in taken if e.callstack_id == 0 or stream.site(e.callstack_id).line in sites]
            return here if sum(1 if e.size_words >= LARGE else e.n_samples for e in here) >= samples else None
        taken = eventually(told, "all are told")
        for event in taken:
            self.assertEqual((self.pb.BLOCK_HEAP_C, self.pb.BLOCK_SOURCE_MALLOC), (event.heap, event.source))
            self.assertTrue(0 <= 8 * event.size_words - event.size_bytes < 8, event)
        self.assertEqual({RATE}, {m.sampling_rate for m in stream.messages if m.events})
        self.assertEqual((0, 0), (stream.dropped(), sum(m.lost_records for m in stream.messages)))
        freed = self.lives(stream)[1]
        by_line = self.by_line(stream, taken)
        for line, site in sites.items():
            allocated = sum(map(stands_for, by_line[line]))
            live = sum(stands_for(e) for e in by_line[line] if e.block not in freed)
            self.assertAlmostEqual(allocated, site["allocated_bytes"], delta=1e-3 * allocated, msg=line)
            self.assertAlmostEqual(live, site["live_bytes"], delta=1e-3 * allocated, msg=line)
        self.assert_near(sum(map(stands_for, taken)), sum(e[0] for e in exact), "what was taken")
        self.assert_near(sum(stands_for(e) for e in taken if e.block not in freed), sum(e[1] for e in exact), "what stays")

        # A stream that does not request the native heap has none of its events.
        before = others.size()
        self.program.send("spin")
        eventually(lambda: others.size() > before, "events of OCaml's memory")
        self.program.command("x")
        c_heap = {self.pb.BLOCK_HEAP_C}
        self.assertFalse(c_heap & {event.heap for event in others.events()})
        self.assertEqual({1e-3}, {m.sampling_rate for m in others.messages if m.events})

    def test_blocks_that_are_resized_and_freed_have_their_ends(self):
        stream = self.stream()
        asked = int(self.program.command("grow 3000")) + int(self.program.command("streams 50"))
        self.program.command("hold 500 300")

        def taken_by(function, taken):
            return [e.block for e in taken.values() if e.callstack_id and stream.site(e.callstack_id).function == function]

        # Blocks of the runtime itself may stay, for example OCaml 5's first table of custom blocks.
        def of_this_program(event):
            return not event.callstack_id or stream.site(event.callstack_id).function.startswith("C_memory.")

        def all_ended():
            taken, freed = self.lives(stream)
            taken = {number: event for number, event in taken.items() if of_this_program(event)}
            return (taken, freed) if taken_by("C_memory.run", taken) and set(taken) <= set(freed) else None
        taken, freed = eventually(all_ended, "each is told to be freed")
        self.assertTrue(taken_by("C_memory.resize", taken))
        self.assert_near(sum(map(stands_for, taken.values())), asked + 500_000, "what was taken")
        held = [freed[number] for number in taken_by("C_memory.run", taken)]
        self.assertGreater(min(event.lifetime_seconds for event in held), 0.3 * 0.9)
        self.assertEqual({self.program.pid}, {event.thread for event in taken.values()})
        self.assertNotIn(self.program.pid, {event.thread for event in held}, "another thread has freed them")

    def test_a_block_whose_end_was_not_seen_has_one_in_the_end(self):
        stream = self.stream(pattern="free_unseen")
        self.program.command("unseen 400 1000")

        def all_ended():
            taken, freed = self.lives(stream)
            return freed if taken and set(taken) == set(freed) else None
        freed = eventually(all_ended, "they are found gone", timeout=90)
        self.assertEqual({0}, {event.thread for event in freed.values()})

    def test_a_stream_that_is_detached_from_ends_with_all_that_was_counted(self):
        stream = self.stream()
        self.program.send("spin")
        eventually(lambda: stream.size() > 2_000, "events arrive")
        self.memprofd.detach(self.program.pid)
        self.assertEqual(grpc.StatusCode.OK, stream.code())
        self.program.command("x")
        taken, freed = self.lives(stream)
        # The stream has every event of this line until the detach.
        known = self.by_line(stream, taken.values())[line_of("let[@inline never] compress () =")]
        self.assertTrue(known)
        live = sum(stands_for(event) for event in known if event.block not in freed)
        site = next(s for s in self.memprofd.ctl_json("sites", "--pid", self.program.pid, "--heap", "c")["sites"]
                    if s["function"] == "C_memory.Zip.compress")
        self.assertAlmostEqual(sum(map(stands_for, known)), site["allocated_bytes"], delta=1e-3 * site["allocated_bytes"])
        self.assertAlmostEqual(live, site["live_bytes"], delta=1e-3 * site["allocated_bytes"])

    def test_memprofctl_shows_them(self):
        def events(*options):
            command = [BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket, "events", "--pid", self.program.pid,
                       "--heap", "c", "--match", "Cache", "-n", "5", *options]
            reader = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
            self.addCleanup(reader.stdout.close)
            eventually(lambda: self.program.command("leak 100 1003") and reader.poll() is not None, "it has seen enough")
            return reader.stdout.read().splitlines()
        for line in events():
            self.assertRegex(line, r"c_alloc +block \d+, 1003 bytes, \d samples, malloc, thread \d+ .*C_memory\.Cache\.remember")
        for line in map(json.loads, events("-o", "json")):
            self.assertEqual(("c_alloc", "c", "malloc", 1003, 126),
                             tuple(line[key] for key in ("kind", "heap", "source", "size_bytes", "size_words")))


class CEventsOfOcaml5(CEvents):
    programs = TARGETS5


class CLosses(CEventTest):
    options = ("--ring-bytes", "256KiB")

    def test_lost_events_are_reported(self):
        stream = self.stream()
        with harness.standing_still(self.memprofd):
            self.program.command("kinds 20000", timeout=60)
        self.program.command("kinds 100")
        settled(lambda: self.drops("c_event_lost"), "what was lost")
        lost = self.drops("c_event_lost")
        self.assertGreater(lost, 0)
        self.program.command("kinds 100")
        told = lambda: sum(message.lost_records for message in list(stream.messages))
        eventually(lambda: told() >= lost, "the losses are told")
        self.assertEqual((lost, 0), (told(), stream.dropped()))


class CTraces(CEventTest):
    def recording(self, path):
        recording = self.process(harness.Process(
            [BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket, "record", "--pid", self.program.pid, "--heap", "c",
             "--out", path], stdin=subprocess.DEVNULL))
        eventually(lambda: path.exists() and path.stat().st_size > 0, "the recording begins")
        return recording

    def blocks(self, path):
        """({id: (bytes in the view of Memtrace's readers, which is samples / rate; line)}, ids of freed blocks)"""
        dump = memprofctl("dump", path)
        self.assertEqual("", dump.stderr)
        lines = dump.stdout.splitlines()
        self.assertIn(f"{RATE} samples per word", lines[0])
        self.assertIn("C's memory", lines[0])
        blocks, freed = {}, set()
        for line in lines[1:]:
            if collect := COLLECT.match(line):
                freed.add(collect[1])
                continue
            number, heap, samples, _, callstack = ALLOC.match(line).groups()
            self.assertEqual("external", heap)
            site = re.search(r":(\d+):[\d-]+$", callstack)
            blocks[number] = (8 * int(samples) / RATE, int(site[1]) if site else 0)
        return blocks, freed

    def test_a_recording_has_it_alone_with_its_own_rate(self):
        path = self.folder / "c.ctf"
        recording = self.recording(path)
        exact = self.program.command("known 400", timeout=60)["sites"]
        sites = self.known_sites()[0]
        answer = lambda *options: answers.answer(memprofctl("sites", path, "-n", 0, *options, "-o", "json").stdout)["sites"]
        by_line = lambda rows: {s["line"]: s for s in rows if s["line"] in sites}
        eventually(lambda: sum(s["samples"] for s in by_line(answer()).values()) == sum(s["samples"] for s in sites.values()),
                   "all is in the file")
        # memprofctl's answers about the file match memprofd's counts.
        for asked in ((), ("--heap", "c"), ("--heap", "external")):
            for line, site in by_line(answer(*asked)).items():
                for measure in ("samples", "allocated_bytes", "live_bytes", "died_young_bytes"):
                    self.assertAlmostEqual(sites[line].get(measure, 0), site.get(measure, 0), delta=1, msg=(asked, line, measure))
        self.assertFalse(answer("--heap", "major"))
        self.assertIn("known_sites", memprofctl("report", path).stdout)

        # The file is complete even if memprofd detaches during work.
        self.program.send("spin")
        self.memprofd.detach(self.program.pid)
        self.assertEqual(0, recording.wait())
        self.program.command("x")
        blocks, freed = self.blocks(path)
        told = [(bytes_taken, number in freed) for number, (bytes_taken, line) in blocks.items() if line in sites]
        unknown = 1 - sum(s["allocated_bytes"] for s in sites.values()) / sum(e[0] for e in exact)
        self.assertLess(abs(unknown), 0.1)
        lines_taken, lines_stay = (sum(s[measure] for s in sites.values()) for measure in ("allocated_bytes", "live_bytes"))
        # The rounding of each large block's samples is random.
        self.assert_near(sum(t[0] for t in told), lines_taken, "what was taken")
        self.assert_near(sum(t[0] for t in told if not t[1]), lines_stay, "what stays")

    def test_a_recording_of_all_others_has_none_of_it(self):
        path = self.folder / "others.ctf"
        done = []
        recording = threading.Thread(target=lambda: done.append(
            self.memprofd.ctl("record", "--pid", self.program.pid, "--out", path, "--duration", "2s")))
        recording.start()
        eventually(lambda: path.exists() and path.stat().st_size > 0, "the recording begins")
        self.program.command("known 400", timeout=60)
        recording.join(harness.TIMEOUT)
        dump = memprofctl("dump", path).stdout
        self.assertIn("0.001 samples per word", dump.splitlines()[0])
        self.assertNotRegex(dump, r"alloc \d+ (domain 0 )?external")
        self.assertFalse([line for line in dump.splitlines() if "known_sites" in line and "external" in line])

    def test_an_interrupted_one_is_a_whole_file(self):
        path = self.folder / "c.ctf"
        recording = self.recording(path)
        eventually(lambda: self.program.command("kinds 1000") and len(self.blocks(path)[0]) > 1_000, "events are in the file")
        recording.stop(signal.SIGINT)
        self.assertTrue(self.blocks(path)[1])


class CTracesOfOcaml5(CTraces):
    programs = TARGETS5


class NotFollowed(E2ETest):
    def test_is_said(self):
        program = self.target("c_memory")
        memprofd = self.daemon("--pid", program.pid, rate=1e-3)
        self.sample_on_command(memprofd, program)
        for command in (("events",), ("record", "--out", self.folder / "none.ctf")):
            refused = memprofd.ctl(*command, "--pid", program.pid, "--heap", "c", check=False)
            self.assertNotEqual(0, refused.returncode, command)
            self.assert_one_line(refused.stderr, "the native heap is not followed", "--c-heap")


del CEventTest  # it contains no tests itself

if __name__ == "__main__":
    unittest.main()
