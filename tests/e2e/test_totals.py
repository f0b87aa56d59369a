# SPDX-License-Identifier: Apache-2.0
"""All outputs show the same numbers of one run.

The program works while a trace is recorded and events are streamed, then it rests. All outputs use
the same samples, so they differ at most by rounding to whole bytes.
"""

import collections
import json
import math
import os
import re
import signal
import subprocess
import tempfile
import unittest

import answers
import harness
from api import Api
from harness import TARGETS4, TARGETS5, E2ETest, eventually, memprofctl, proc_status
from heap_copies import SWEPT_AT_ONCE, Snapshot
from messages import message_modules
from heap_copies import SWEPT_AT_ONCE, Snapshot
from messages import message_modules
from test_events import Stream
from test_profiles import Profile, go_pprof, http_bytes, row_of, top_rows

RATE = 5e-4
MEASURES = ("allocated", "promoted", "live", "died_young", "died_old")
ORDERS = {"allocated": "allocated", "promoted": "promoted", "live": "live", "died_young": "died-young",
          "died_old": "died-old"}
ROUNDING = 1  # bytes; of a total, and of each site
SITE = re.compile(r"^Known_alloc\.(site_\w+)$")
LARGE_WORDS = 512  # larger blocks count once
N_SITES = 6
CHANNEL = 65_536  # bytes of its buffer
LEFT_ALONE = ("VmRSS", "VmPTE", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
OCAML4 = harness.BUILD / "targets"
OCAML_FOLDERS = [folder for folder in (OCAML4, harness.BUILD / "targets-4.14", harness.TARGETS5)
                 if (folder / "known_alloc").exists()]


class Numbers:
    """Bytes by measure: in total, and of each site_* function."""

    def __init__(self):
        self.total = collections.Counter()
        self.sites = collections.defaultdict(collections.Counter)

    def add(self, measure, value, function=""):
        self.total[measure] += value
        if SITE.match(function):
            self.sites[function][measure] += value
        return self

    def of(self, *measures):
        """The same with only these measures."""
        out = Numbers()
        out.total = {m: self.total[m] for m in measures}
        out.sites = {f: {m: counts[m] for m in measures} for f, counts in self.sites.items()}
        return out


def from_ctl(sites):
    numbers = Numbers()
    for site in sites:
        for measure in MEASURES:
            numbers.add(measure, site[f"{measure}_bytes"], site["function"])
    return numbers


def from_messages(sites):
    """Converts sites of gRPC or of the HTTP API's JSON."""
    numbers = Numbers()
    for site in sites:
        of_json = isinstance(site, dict)
        for measure in MEASURES:
            value = site[measure]["bytes"] if of_json else getattr(site, measure).bytes
            numbers.add(measure, value, site["function"] if of_json else site.function)
    return numbers


def words_of(event, rate):
    """Words that an event stands for, as SampleEvent defines."""
    if event.size_words < LARGE_WORDS:
        return event.n_samples / rate
    words = event.size_words + (event.source != 3)  # memory outside of the heap has no header
    return words / -math.expm1(words * math.log1p(-rate))


class Totals(E2ETest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.profile_pb2, cls.pb = message_modules(cls.shared.name, "pprof/profile.proto",
                                                  "memprof/v1/profiler.proto")
        cls.memprofd = harness.Daemon(cls.shared.name, rate=RATE)
        cls.addClassCleanup(cls.memprofd.kill)
        cls.api = Api(cls.pb, cls.memprofd)
        cls.addClassCleanup(cls.api.close)
        eventually(cls.attached_without_a_sample, "a program of which nothing is sampled yet")
        cls.run_program()
        cls.truth = from_messages(cls.api.ListSites(pid=cls.pid, page_size=1000).sites)

    @classmethod
    def attached_without_a_sample(cls):
        """The answer to "quiet" allocates little, but may be sampled."""
        cls.program = harness.Target("known_alloc")
        cls.addClassCleanup(cls.program.kill)
        cls.pid = cls.program.pid
        cls.memprofd.attach(cls.pid)

        def sampling():
            cls.program.command("quiet")
            return cls.memprofd.state(cls.pid) == "sampling"
        eventually(sampling, "the program is sampled")
        if cls.settled_counts()[0] == 0:
            return True
        cls.program.exit()
        return False

    @classmethod
    def counts(cls):
        target = cls.api.ListSites(pid=cls.pid, limit=1).target
        return target.alloc_events, target.promote_events, target.dealloc_events

    @classmethod
    def settled_counts(cls):
        return harness.settled(cls.counts, "the daemon's counts", quiet=0.7)

    @classmethod
    def run_program(cls):
        """Makes samples of every kind while a trace and a stream record from the begin."""
        cls.file = f"{cls.shared.name}/run.ctf"
        recording = harness.Process(
            [harness.BUILD / "memprofctl", "--grpc.socket", cls.memprofd.socket, "record",
             "--pid", cls.pid, "--out", cls.file], stdin=subprocess.DEVNULL)
        cls.addClassCleanup(recording.kill)
        cls.stream = Stream(cls.pb, cls.api.channel, cls.pb.StreamEventsRequest(pid=cls.pid))
        eventually(lambda: os.path.exists(cls.file) and os.path.getsize(cls.file) > 0,
                   "the recording begins")
        cls.program.command("go 3", timeout=120)
        cls.program.command("full", timeout=60)
        events = cls.settled_counts()
        eventually(lambda: cls.stream.size() >= sum(events), "all events are streamed")
        eventually(lambda: len(cls.dumped("alloc")) >= events[0], "all allocations are in the file")
        recording.stop(signal.SIGINT)

    @classmethod
    def dumped(cls, kind):
        lines = memprofctl("dump", cls.file).stdout.splitlines()
        return [line for line in lines if line.startswith("+") and line.split()[1] == kind]

    def assert_same(self, numbers, *measures):
        truth, seen = self.truth.of(*(measures or MEASURES)), numbers.of(*(measures or MEASURES))
        self.assertEqual(N_SITES, len(truth.sites))
        self.assert_close(truth.total, seen.total, "all sites")
        for function, counts in truth.sites.items():
            self.assert_close(counts, seen.sites.get(function, {}), function)

    def assert_close(self, truth, seen, what):
        for measure, value in truth.items():
            self.assertAlmostEqual(value, seen.get(measure, 0), delta=ROUNDING, msg=f"{measure} of {what}")

    def profile(self, kind, measure="live"):
        """Text of `report -o KIND`, sorted by a measure."""
        return self.memprofd.ctl("report", "--pid", self.pid, "-o", kind, "-s", ORDERS[measure]).stdout

    # ------------------------------------------------------------ the daemon's numbers

    def test_the_run_has_something_of_everything(self):
        for measure in MEASURES:
            self.assertGreater(self.truth.total[measure], 1_000_000, measure)
        self.assertAlmostEqual(
            self.truth.total["allocated"],
            sum(self.truth.total[m] for m in ("live", "died_young", "died_old")), delta=ROUNDING)
        truth = self.program.command("stat")["sites"]
        for site, exact in truth.items():
            seen = self.truth.sites[f"Known_alloc.{site}"]
            self.assert_estimate(f"{site} allocated", seen["allocated"], exact["allocated_words"], RATE)
            self.assert_estimate(f"{site} live", seen["live"], exact["live_words"], RATE)

    def test_grpc_total_and_target(self):
        answer = self.api.ListSites(pid=self.pid, limit=1)
        for measure in MEASURES:
            for whole in (answer.total, answer.target):
                self.assertAlmostEqual(self.truth.total[measure], getattr(whole, measure).bytes, delta=1e-3)
        self.assertEqual(0, answer.target.dropped_events, answer.target.drops)

    def test_http_api(self):
        self.assert_same(from_messages(self.api.json("sites", pid=self.pid, page_size=1000)["sites"]))

    def test_json(self):
        self.assert_same(from_ctl(self.memprofd.sites(self.pid)))
        target = self.memprofd.targets()[self.pid]
        for measure in MEASURES:
            self.assertAlmostEqual(self.truth.total[measure], target[f"{measure}_bytes"], delta=1e-3)

    def test_metrics(self):
        metrics, numbers = self.memprofd.metrics(), Numbers()
        total = {"allocated": metrics.total("memprofd_allocated_bytes_total", pid=self.pid),
                 "promoted": metrics.value("memprofd_promoted_bytes_total", pid=self.pid),
                 "live": metrics.value("memprofd_live_bytes", pid=self.pid),
                 "died_young": metrics.value("memprofd_deallocated_bytes_total", pid=self.pid, heap="minor"),
                 "died_old": metrics.value("memprofd_deallocated_bytes_total", pid=self.pid, heap="major")}
        self.assert_close(self.truth.total, total, "all sites")
        for measure, name in (("allocated", "allocated_bytes_total"), ("promoted", "promoted_bytes_total"),
                              ("live", "live_bytes")):
            for sample in metrics.find(f"memprofd_site_{name}", pid=self.pid):
                numbers.add(measure, sample.value, sample.labels["function"])
        self.assert_same(numbers, "allocated", "promoted", "live")  # the total includes "other"

    # ------------------------------------------------------------ profiles

    def test_pprof(self):
        for path in ("/debug/pprof/heap", "/debug/pprof/allocs"):
            status, body = http_bytes(f"{self.memprofd.url}{path}?pid={self.pid}")
            self.assertEqual(200, status)
            numbers = Numbers()
            for sample in Profile(self.profile_pb2, body).samples:
                _, allocated, _, live = sample.values
                numbers.add("allocated", allocated, sample.frames[0].function)
                numbers.add("live", live, sample.frames[0].function)
            self.assert_same(numbers, "allocated", "live")

    def test_go_pprof(self):
        for kind, measure in (("heap", "live"), ("allocs", "allocated")):
            text = go_pprof(self.folder, "-top", "-unit=B", f"{self.memprofd.url}/debug/pprof/{kind}?pid={self.pid}")
            shown = re.search(r"% of (\d+)B total", text)
            self.assertAlmostEqual(self.truth.total[measure], float(shown[1]), delta=ROUNDING)
            for function, counts in self.truth.sites.items():
                if counts[measure] > self.truth.total[measure] / 100:  # small ones are omitted
                    self.assertAlmostEqual(counts[measure], row_of(top_rows(text), SITE.match(function)[1]).flat,
                                           delta=ROUNDING)

    def test_collapsed(self):
        for measure in MEASURES:
            numbers = Numbers()
            for line in self.profile("collapsed", measure).splitlines():
                stack, value = line.rsplit(" ", 1)
                numbers.add(measure, int(value), stack.split(";")[-1])
            self.assert_same(numbers, measure)

    def test_speedscope(self):
        file, numbers = json.loads(self.profile("speedscope")), Numbers()
        frames = file["shared"]["frames"]
        for profile in file["profiles"]:
            measure = profile["name"].replace(" ", "_")
            self.assertIn(measure, MEASURES)
            for stack, weight in zip(profile["samples"], profile["weights"]):
                numbers.add(measure, weight, frames[stack[-1]]["name"])
        self.assert_same(numbers)

    def test_html(self):
        path = self.folder / "flame.html"
        self.memprofd.ctl("report", "--pid", self.pid, "-o", "html", "--out", path)
        data = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
        flame, numbers = json.loads(data[1]), Numbers()
        names = ["" if node == 0 else flame["strings"][flame["functions"][function][0]]
                 for node, function in enumerate(flame["function"])]
        for measure in MEASURES:
            for name, value in zip(names, flame["self"][measure]):
                numbers.add(measure, value, name)
            self.assertEqual(numbers.total[measure], flame["totals"][measure][0])
        self.assert_same(numbers)

    # ------------------------------------------------------------ what was recorded meanwhile

    def test_trace_file(self):
        report = answers.answer(memprofctl("report", self.file, "-o", "json", "-n", 0).stdout)
        self.assert_same(from_ctl(report["sites"]))
        for measure in MEASURES:
            self.assertAlmostEqual(self.truth.total[measure], report["target"][f"{measure}_bytes"], delta=ROUNDING)

    def test_profile_of_the_trace_file(self):
        for measure in MEASURES:
            text = memprofctl("report", self.file, "-o", "collapsed", "-s", ORDERS[measure]).stdout
            self.assertEqual(self.profile("collapsed", measure), text, measure)

    def test_event_stream(self):
        self.assertEqual((0, False), (self.stream.dropped(), self.stream.ended.is_set()))
        numbers, site_of, measures = Numbers(), {}, {
            self.pb.EVENT_KIND_ALLOC_MINOR: "allocated", self.pb.EVENT_KIND_ALLOC_MAJOR: "allocated",
            self.pb.EVENT_KIND_PROMOTE: "promoted", self.pb.EVENT_KIND_DEALLOC_MINOR: "died_young",
            self.pb.EVENT_KIND_DEALLOC_MAJOR: "died_old"}
        for message in self.stream.messages:
            site_of.update((c.id, c.locations[0].function) for c in message.callstacks)
            for event in message.events:
                value = words_of(event, message.sampling_rate) * 8
                measure, function = measures[event.kind], site_of[event.callstack_id]
                numbers.add(measure, value, function)
                if measure == "allocated":
                    numbers.add("live", value, function)
                elif measure != "promoted":
                    numbers.add("live", -value, function)
        self.assert_same(numbers)


class ResidentMemory(E2ETest):
    """Parts of the resident memory add up to the kernel's count."""

    def rss(self, daemon, target):
        answer = daemon.ctl_json("rss", "--pid", target.pid)
        kinds = collections.Counter()
        for part in answer["parts"]:
            kinds[part["kind"]] += int(part["resident_bytes"])
        self.assertEqual(int(answer["counted_bytes"]), kinds.total())
        return answer, kinds

    def test_to_the_byte_of_programs_that_stand_still(self):
        daemon = self.daemon()
        for folder in OCAML_FOLDERS:
            with self.subTest(folder.name):
                target = self.target("known_alloc", folder=folder)
                target.command("go 40")
                harness.settled(lambda: proc_status(target.pid, "voluntary_ctxt_switches"), "the program rests")
                before = [proc_status(target.pid, key) for key in LEFT_ALONE]
                answer, kinds = self.rss(daemon, target)
                self.assertEqual(answer["rss_bytes"], answer["counted_bytes"])
                self.assertEqual(f"{int(answer['rss_bytes']) // 1024} kB", before[0])
                self.assertEqual([], answer["notes"])
                # The rest consists of mappings that libraries make for themselves.
                self.assertLess(kinds["other"], 256 << 10)
                self.assertGreater(kinds["ocaml_heap_used"], 100 << 10)
                # The inspection neither stopped it nor mapped a page.
                self.assertEqual(before, [proc_status(target.pid, key) for key in LEFT_ALONE])

    def rss_that_adds_up(self, daemon, target, tolerance):
        """(bytes, bytes by kind), unless the program grew more during the count, on a busy
        machine."""
        answer, kinds = self.rss(daemon, target)
        rss = int(answer["rss_bytes"])
        self.assertLess(abs(int(answer["counted_bytes"]) - rss), tolerance * rss)
        return rss, kinds

    def test_within_two_in_a_hundred_while_they_run(self):
        targets = [self.target("demo_server", "--self-load", "4", "--rate", "500", folder=OCAML4),
                   self.target(*harness.BUSY_PROGRAM), self.target("domains", folder=harness.TARGETS5)]
        daemon = self.daemon("--pid", targets[0].pid)
        daemon.wait_state(targets[0].pid, "sampling")
        for target in targets:
            with self.subTest(target.name()):
                rss, kinds = eventually(lambda target=target: self.rss_that_adds_up(daemon, target, 0.02), "parts add up")
                # Mappings made since its heap was read are unknown: more on a busy machine.
                self.assertLess(kinds["other"], 0.3 * rss, kinds)
        self.assertGreater(self.rss(daemon, targets[0])[1]["agent"], 0)

    def test_names_the_heap_that_the_runtime_has(self):
        target = self.target("known_alloc", folder=OCAML4)
        daemon = self.daemon("--pid", target.pid)
        self.sample_on_command(daemon, target)
        target.command("go 40")

        def heap():
            return daemon.metrics().value("memprofd_ocaml_heap_bytes", pid=target.pid)
        harness.settled(heap, "the heap")
        answer = self.rss(daemon, target)[0]
        parts = answer["parts"]
        self.assertEqual(int(answer["rss_bytes"]),
                         daemon.metrics().total("memprofd_target_resident_bytes", pid=target.pid))
        found = sum(int(part["size_bytes"]) for part in parts if part["kind"].startswith("ocaml_heap"))
        self.assertEqual(heap(), found)

    def owners(self, daemon, target):
        """Bytes and chunks by identifier; "" is memory that no block holds."""
        answer = daemon.ctl_json("rss", "--pid", target.pid, "--owners")
        self.assertEqual([], answer["notes"])
        self.assertEqual(answer["rss_bytes"], answer["counted_bytes"])
        rows = answer["owners"] + [answer["no_owner"]]
        for row in rows:
            self.assertLessEqual(int(row["resident_bytes"]), int(row["bytes"]))
        return {row["identifier"]: [int(row["bytes"]), int(row["chunks"])] for row in rows}

    def owners_with(self, daemon, target, lists):
        """Owners with that much memory in lists, read after the cached answer of the last second
        has expired."""
        return eventually(lambda: found if (found := self.owners(daemon, target)).get("test.list") == lists else None,
                          f"lists have {lists}")

    def test_custom_blocks_own_what_malloc_gave_to_them(self):
        daemon = self.daemon()
        for folder in (OCAML4, harness.TARGETS5):
            with self.subTest(folder.name):
                target = self.target("c_owners", folder=folder)
                before = self.owners(daemon, target)[""]
                truth = target.command("hold 200")
                found = self.owners_with(daemon, target, truth["lists"])
                self.assertEqual(truth["files"], found["test.file"])
                # 20 arrays of 300,000 bytes and 180 of 5,000, including shared parts.
                arrays = 20 * 300_000 + 180 * 5_000
                self.assertLess(arrays, found["_bigarr02"][0])
                self.assertLess(found["_bigarr02"][0], arrays + 20 * 4096 + 280 * 64)
                self.assertEqual(200 + 100, found["_bigarr02"][1])
                self.assertLess(3 * 65_536, found["_chan"][0])
                # The C list, and some recent allocations of the C library.
                none = [now - then for now, then in zip(found[""], before)]
                for has, holds in zip(none, truth["none"]):
                    self.assertLess(abs(has - holds), max(8, 0.05 * holds))
                # Released and collected memory has no owner; the memory beside it stays.
                left = target.command("drop")
                self.assertLess(left["lists"][0], truth["lists"][0])
                found = self.owners_with(daemon, target, left["lists"])
                self.assertEqual(left["files"], found["test.file"])

    def answer_without_notes(self, daemon, target):
        """None while a busy machine leaves too little time to read all of the memory."""
        answer, _ = self.rss(daemon, target)
        return None if answer["notes"] else answer

    def test_a_compaction_gives_back_what_is_advised(self):
        """OCaml 4 keeps some free memory and whole chunks: with little free memory it returns
        nothing. OCaml 5 keeps what blocks do not fill of their slots."""
        daemon = self.daemon()
        cases = [(OCAML4, given_up) for given_up in (30, 60, 70, 80)]
        for folder in (TARGETS5, SWEPT_AT_ONCE):
            cases += [(folder, given_up) for given_up in (15, 25, 60) if (folder / "fragmented").exists()]
        for folder, given_up in cases:
            with self.subTest(f"{folder.name} {given_up}"):
                target = self.target("fragmented", str(given_up), folder=folder)
                answer = eventually(lambda: self.answer_without_notes(daemon, target), "a complete answer")
                advised = sum(int(advice["bytes"]) for advice in answer["advice"] if "Gc.compact" in advice["action"])
                resident = target.command("compact")
                back = resident["before"] - resident["after"]
                if advised == 0:
                    self.assertLess(back, int(answer["counted_bytes"]) / 20)
                else:
                    self.assertGreaterEqual(advised, int(answer["counted_bytes"]) / 20)
                    self.assertAlmostEqual(back, advised, delta=advised / 5)
                target.exit()

    def test_what_cannot_be_looked_at_is_one_line(self):
        daemon = self.daemon()
        self.assert_one_line(daemon.ctl("rss", "--pid", 1 << 22, check=False).stderr, "no process")
        table = daemon.ctl("rss", "--pid", daemon.pid).stdout
        self.assertIn("sum of all", table)
        self.assertIn("not an OCaml program", table)


class ExternalMemory(E2ETest):
    def test_contents_of_bigarrays_are_outside_of_the_heap_and_of_who_made_them(self):
        rounds, rate = 100_000, 1e-3
        target = self.target("c_heavy", rounds, folder=OCAML4)
        daemon = self.daemon("--pid", target.pid, rate=rate)
        self.sample_on_command(daemon, target)
        target.command("go", timeout=120)
        daemon.settled_sites(target.pid)
        external = daemon.ctl_json("sites", "--pid", target.pid, "--heap", "external", "-s", "allocated")["sites"]
        self.assertEqual(["C_heavy.numbers"], [site["function"] for site in external])
        exact, found = rounds * 8 * 8, external[0]["allocated_bytes"]
        self.assertLess(abs(found - exact), 5 * external[0]["allocated_bytes_stderr"])
        custom = daemon.ctl_json("sites", "--pid", target.pid, "--source", "custom", "-s", "allocated")["sites"]
        # Watched times grow between two questions.
        sums = [[{key: site[key] for key in site if "lifetime" not in key} for site in sites]
                for sites in (external, custom)]
        self.assertEqual(*sums)
        for heap in ("minor", "major"):
            self.assertEqual(0, daemon.metrics().total("memprofd_allocated_bytes_total", heap=heap, source="custom"))
        self.assertAlmostEqual(found, daemon.metrics().value(
            "memprofd_allocated_bytes_total", pid=target.pid, heap="external", source="custom"), delta=ROUNDING)


class Outside(Snapshot):
    """Memory outside of the heap held by blocks of a snapshot matches malloc's own count, with its
    holders."""

    programs = TARGETS4
    pointers_in_records = True  # pointers to outside of the heap

    def held(self):
        """A snapshot of a program that holds memory of every kind, and the program's own
        numbers."""
        target, daemon = self.attached("c_owners")
        self.stepping(target, daemon, "hold 3")
        target.command("hold 200")
        target.command("raw 100")
        told = target.command("drop")  # another drop does not change the numbers
        owners = {row["identifier"]: int(row["bytes"]) for row in daemon.ctl_json("rss", "--pid", target.pid, "--owners")["owners"]}
        taker = self.take_while(daemon, lambda: target.command("drop"))
        self.assertEqual(0, taker.wait(), taker.stderr())
        return told, owners, self.folder / "a.heap"

    def asked(self, command, path, *options):
        return json.loads(harness.memprofctl("snapshot", command, path, *options, "-o", "json").stdout)

    def rows(self, path, sql):
        return self.asked("query", path, sql)["rows"]

    def test_each_chunk_is_its_blocks(self):
        told, owners, path = self.held()
        by_name = dict(self.rows(path, "SELECT name, sum(outside_bytes) FROM blocks WHERE tag = 255 AND reachable GROUP BY name"))
        self.assertEqual(told["lists"][0], by_name["test.list"])
        self.assertEqual(told["files"][0], by_name["test.file"])
        # Parts of dropped arrays remain, and hold all of their memory.
        self.assertLess(20 * 300_000 + 180 * 5_000, by_name["_bigarr02"])
        self.assertGreater(by_name["_chan"], CHANNEL)
        self.assertEqual(owners, {name: bytes for name, bytes in by_name.items() if name in owners}, "as without a snapshot")
        abstract = self.rows(path, "SELECT sum(outside_bytes) FROM blocks WHERE tag = 251 AND reachable")
        self.assertEqual([[told["abstract"][0]]], abstract)
        (large, resident), = self.rows(path, "SELECT outside_bytes, outside_resident_bytes FROM blocks WHERE tag = 251 AND outside_bytes > 500000")
        self.assertGreaterEqual(large, 1_000_000)
        self.assertGreaterEqual(resident, 4096, "so much of it was touched")
        self.assertLess(resident, 0.5 * large)
        records = self.rows(path, "SELECT sum(outside_bytes) FROM blocks WHERE tag < 246 AND reachable")
        self.assertEqual([[told["naked"][0]]], records)
        self.assertEqual(self.pointers_in_records, told["naked"][0] > 0)
        self.check_answers(told, path, sum(by_name.values()) + told["abstract"][0] + told["naked"][0])

    def check_answers(self, told, path, all_bytes):
        retained = self.asked("retained", path, "-n", "0")
        self.assertEqual(all_bytes, retained["reachable"]["outside_bytes"])
        globals_ = next(row for row in retained["roots"] if row["name"] == "globals")
        module = next(row for row in globals_["children"] if row["name"] == "C_owners")
        self.assertLessEqual(told["lists"][0] + told["files"][0] + told["abstract"][0], module["outside_bytes"])
        show = self.asked("show", path)
        self.assertEqual(all_bytes, show["heap"]["outside_bytes"])
        why = self.asked("why", path, "--outside", r"test\.list")
        self.assertEqual(["custom test.list"], [row["name"] for row in why["classes"]])
        reachable = why["classes"][0]["reachable"]
        self.assertEqual([200, told["lists"][0]], [reachable["blocks"], reachable["outside_bytes"]])
        self.assertEqual(told["lists"][0], reachable["resident_bytes"], "all of them were written to")
        self.assertRegex(why["paths"][0]["path"], r"^global C_owners")
        self.assertEqual(told["lists"][0], why["paths"][0]["outside_bytes"])
        self.assertLessEqual({"custom test.list", "custom test.file", "custom _bigarr02", "abstract"},
                             {row["name"] for row in self.asked("why", path, "--outside", "-n", "0")["classes"]})
        text = harness.memprofctl("snapshot", "why", path, "--outside").stdout
        self.assertIn("Memory outside of the heap", text)
        refused = harness.memprofctl("snapshot", "why", path, "--outside", "no such class", check=False)
        self.assert_one_line(refused.stderr, "no such class")
        self.assert_one_line(harness.memprofctl("snapshot", "why", path, check=False).stderr, "give a SITE pattern", "--outside")


class Outside5(Outside):
    programs = TARGETS5
    pointers_in_records = False


if __name__ == "__main__":
    unittest.main()
