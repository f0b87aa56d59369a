# SPDX-License-Identifier: Apache-2.0
"""What the files of snapshots say: names, sites, answers of all commands, types of the source, garbage."""

import collections
import json
import pathlib
import re
import subprocess
import time
import unittest

import harness
from harness import OK, TARGETS4, TARGETS5, Process, eventually
from heap_copies import OLD, image, Snapshot


class Names(Snapshot):
    def test_of_roots(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")
        path, _ = self.take(daemon)
        found = image(path)
        modules = {owner for kind, owner, _, _, _ in found["roots"] if kind == 0}
        self.assertLessEqual({"Busy_threads", "Stdlib", "Handshake", "Unix"}, modules)
        fields = {field for kind, owner, field, _, _ in found["roots"] if owner == "Busy_threads" and kind == 0}
        self.assertGreaterEqual(min(fields), 0)
        frames = {(owner, function) for kind, owner, _, function, _ in found["roots"] if kind == 2}
        self.assertEqual({f"thread {number}" for number in range(9)}, {owner for owner, _ in frames})
        functions = {function for _, function in frames}
        self.assertLessEqual({"Busy_threads.serve", "Busy_threads.client"}, functions)
        self.assertIn("Busy_threads.(fun)", found["names"])
        self.assertIn("_chan", found["names"])
        self.assertEqual(daemon.targets()[target.pid]["sampling_rate"], found["rate"])

    def test_of_sampled_blocks(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")

        def sites_of_blocks_that_are_there():
            path, _ = self.take(daemon)
            return {site for _, samples, words, site in image(path)["samples"] if samples > 0 and words > 0} - {""}
        found = eventually(sites_of_blocks_that_are_there, "sampled blocks are in a snapshot")
        self.assertLessEqual(found, {site["function"] for site in daemon.sites(target.pid)})


class Names5(Names):
    programs = TARGETS5

    def test_of_fibers(self):
        """Blocks that only the stack of a suspended fiber holds, or of a fiber that it returns
        to."""
        target, daemon = self.attached("heap_domains")
        self.stepping(target, daemon, "stat")
        taker = self.taker(daemon, "a.heap")
        told = target.command("park")
        while taker.running():
            told = target.command("park")
        self.assertEqual(0, taker.wait(), taker.stderr())
        found = image(self.folder / "a.heap")
        waits = "Heap_domains.wait_holding"
        fibers = {tuple(held): count for *held, count in found["fibers"]}
        self.assertLessEqual(500, fibers.get((waits, waits, 60, 100), 0), fibers)
        self.assertLessEqual(500, fibers.get((waits, waits, 61, 3), 0), fibers)
        self.assertAlmostEqual(told["live_blocks"], found["reachable"], delta=400)

    def test_of_domains(self):
        target, daemon = self.attached("heap_domains")
        self.stepping(target, daemon, "stat")
        self.assertEqual(0, self.take_while(daemon, lambda: target.command("stat")).wait())
        roots = image(self.folder / "a.heap")["roots"]
        frames = {(owner, function) for kind, owner, _, function, _ in roots if kind == 2}
        workers = {owner for owner, function in frames if function == "Heap_domains.work"}
        self.assertEqual(3, len(workers), frames)
        for owner in workers:
            self.assertRegex(owner, r"^domain [1-9]\d*, thread \d+$")
        self.assertIn("domain 0, thread 0", {owner for owner, _ in frames})
        storage = {owner for kind, owner, _, _, _ in roots if kind == 4 and "local storage" in owner}
        self.assertLessEqual({f"local storage of {owner.split(',')[0]}" for owner in workers}, storage)


class Reading(Snapshot):
    """memprofctl's answers about a snapshot file match the program."""

    # Includes malloc's overhead per chunk, 8 bytes per Bigarray, and channels beyond their buffers.
    outside = {"custom _bigarr02": 8008 + 1208 + 392, "custom _mutex": 40, "custom _threadstatus": 104}
    channels = 3 * 65536 + 344

    def ask(self, question, path, *options):
        """The answer in JSON; checks that the table works, too."""
        command = [harness.BUILD / "memprofctl", "snapshot", question, path, *options]
        table = subprocess.run(command, capture_output=True, text=True, timeout=harness.TIMEOUT)
        self.assertEqual((OK, ""), (table.returncode, table.stderr))
        self.assertIn("OCaml 5." if self.programs == TARGETS5 else "OCaml 4.", table.stdout.splitlines()[0])
        return json.loads(subprocess.run([*command, "-n", "0", "-o", "json"], capture_output=True, check=True,
                                         timeout=harness.TIMEOUT).stdout)

    def sizes(self, rows):
        for row in rows:
            yield row["bytes"]
            yield from self.sizes(row.get("children", []))

    def test_every_block_is_counted(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        told, found = self.take_while_stepping(target, daemon)
        path = self.folder / "a.heap"
        shown = self.ask("show", path)
        shapes = {row["name"]: row["reachable"]["blocks"] for row in shown["shapes"]}
        self.assertEqual(OLD, {(tag, fields): shapes.get(f"block({fields}, tag {tag})") for tag, fields in OLD})
        outside = {row["name"]: row["outside_bytes"] for row in shown["shapes"] if row["outside_bytes"]}
        # Channels have types if the machine has this compiler's library.
        channels = sum(outside.pop(name, 0) for name in ("custom _chan", "in_channel", "out_channel"))
        self.assertEqual((self.outside, self.channels), (outside, channels))
        self.assertEqual(sum(outside.values()) + channels, shown["heap"]["outside_bytes"])
        reachable = shown["heap"]["reachable"]
        self.assertEqual(found["reachable"], reachable["blocks"])
        self.assertEqual(found["blocks"], reachable["blocks"] + shown["heap"]["garbage"]["blocks"])
        retained = self.ask("retained", path)
        self.assertEqual({**reachable, "outside_bytes": shown["heap"]["outside_bytes"]}, retained["reachable"])
        self.assertEqual(reachable["bytes"], sum(root["bytes"] for root in retained["roots"]))
        self.assertIn(8 * told["kept_words"], set(self.sizes(retained["roots"])), "what only one global keeps")
        self.ask("waste", path)
        largest = self.ask("largest", path)["blocks"]
        self.assertIn(("custom _bigarr02", 8008), [(row["class_name"], row["outside_bytes"]) for row in largest])
        self.check_description(target, daemon, told["kept_words"])

    def check_description(self, target, daemon, kept_words):
        """gRPC reports the same about a snapshot that is not stored."""
        pb, ask = self.heaps(daemon)
        heap = ask("DescribeHeap", pb.DescribeHeapRequest(pid=target.pid, max_pause_seconds=10, limit=10_000),
                   pb.DescribeHeapResponse, lambda: target.command(f"step {self.folder / 'own'}"))
        classes = {one.name: one.reachable.blocks for one in heap.census.shapes}
        self.assertEqual(OLD, {(tag, fields): classes.get(f"block({fields}, tag {tag})") for tag, fields in OLD})
        self.assertEqual(sum(self.outside.values()) + self.channels, heap.census.heap.outside_bytes)
        self.assertEqual(heap.census.heap.reachable.bytes, sum(root.bytes for root in heap.retained.roots))
        sizes, rows = set(), list(heap.retained.roots)
        while rows:
            row = rows.pop()
            sizes.add(row.bytes)
            rows += row.children
        self.assertIn(8 * kept_words, sizes, "what only one global keeps")
        self.assertRegex(daemon.said(), "snapshot to describe by user 0, process .*: done")

    def assert_in_the_table(self, way):
        """The path splits after the array if a sampled table cell gives its type."""
        wholes = [way["path"] + child["path"] for child in way["children"]] or [way["path"]]
        for whole in wholes:
            self.assertRegex(whole, r"^global Demo_server, field \d+ → block\(4\) field 1 → array\[\*\]")

    def test_why_what_a_site_allocated_is_there(self):
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        path, done = self.take(daemon)
        self.assertEqual(OK, done.returncode, done.stderr)
        why = self.ask("why", path, r"Sessions\.make_session")
        reachable = why["reachable"]["sampled_blocks"]
        self.assertGreater(reachable, 0)
        self.assertEqual(reachable, sum(way["sampled_blocks"] for way in why["paths"]))
        self.assert_in_the_table(why["paths"][0])
        none = subprocess.run([harness.BUILD / "memprofctl", "snapshot", "why", path, "Nowhere"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(harness.NO_PROCESS, none.returncode)
        self.assert_one_line(none.stderr, "no sampled block's callstack matches")

    def test_why_in_one_step(self):
        """Takes a snapshot of the present state; a misspelt site does not pause it."""
        target = self.target("demo_server", "--self-load", "2", folder=TARGETS4)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        options = ("--max-pause", "10s")
        why = json.loads(daemon.ctl("why", r"Sessions\.make_session", *options, "-n", 0, "-o", "json").stdout)
        reachable = why["reachable"]["sampled_blocks"]
        self.assertGreater(reachable, 0)
        self.assertEqual(reachable, sum(way["sampled_blocks"] for way in why["paths"]))
        self.assert_in_the_table(why["paths"][0])
        self.check_asked_why(target, daemon, why)
        table = daemon.ctl("why", r"Sessions\.make_session", *options).stdout
        self.assertIn("global Demo_server, field", table)
        eventually(lambda: daemon.targets()[target.pid]["paused_seconds"] > why["snapshot"]["pause_seconds"],
                   "the pauses are counted")
        for pattern, code, words in (("Nowhere", harness.NO_PROCESS, 'a callstack that matches "Nowhere"'),
                                     ("(", harness.USAGE, "site")):
            done = daemon.ctl("why", pattern, *options, check=False)
            self.assertEqual(code, done.returncode)
            self.assert_one_line(done.stderr, "memprofctl:", words)
        self.assertEqual(2, daemon.said().count("snapshot by"), "none was asked for then")

    def check_asked_why(self, target, daemon, why):
        """gRPC sends the message that the command prints."""
        pb, ask = self.heaps(daemon)
        answer = ask("Why", pb.WhyRequest(pid=target.pid, site=r"Sessions\.make_session", max_pause_seconds=10), pb.HeapWhy)
        self.assertEqual({field.name for field in pb.HeapWhy.DESCRIPTOR.fields}, set(why))
        self.assertEqual(why["sites"], list(answer.sites))
        self.assertGreaterEqual(answer.reachable.sampled_blocks, why["reachable"]["sampled_blocks"])
        # This is another snapshot with other sessions, behind the same global.
        for path in (why["paths"][0]["path"], answer.paths[0].path):
            self.assertRegex(path, r"^global Demo_server, field \d+ → block\(\d\) field 1 → array")
        self.assertRegex(daemon.said(), "snapshot for why by user 0, process .*: done")

    def query(self, path, sql):
        """Rows as dictionaries; checks that the table has a line for each."""
        command = [harness.BUILD / "memprofctl", "snapshot", "query", path, sql]
        answer = json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, check=True,
                                           timeout=harness.TIMEOUT).stdout)
        table = subprocess.run([*command, "-n", "0"], capture_output=True, text=True, check=True,
                               timeout=harness.TIMEOUT).stdout
        self.assertEqual(1 + len(answer["rows"]), len(table.splitlines()))
        return [dict(zip(answer["columns"], row)) for row in answer["rows"]]

    def test_the_documents_queries(self):
        """Each example of docs/heap_sql.md has an answer that agrees with other commands."""
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        path, _ = self.take(daemon)
        text = (harness.ROOT / "docs/heap_sql.md").read_text()
        chapter = text.split("## Examples\n")[1].split("\n## ")[0]
        examples = re.findall(r"^\*\*(.+)\*\*.*\n\n((?:    .+\n)+)", chapter, re.M)
        self.assertEqual(10, len(examples))
        answers = {title: self.query(path, sql) for title, sql in examples}
        self.assertEqual([], [title for title, rows in answers.items() if not rows])
        shown = self.ask("show", path)
        closures = collections.Counter()
        for row in shown["shapes"]:
            closures[row["name"].split(" : ")[0]] += row["reachable"]["blocks"]  # without the type
        for row in answers["Which functions' closures are kept?"]:
            self.assertEqual(closures["closure " + row["name"] if row["name"] else "closure"], row["closures"])
        sites = {}
        for row in shown["sites"]:
            function, _, place = row["name"].rpartition(" ")
            sites[function or place, int(place.rpartition(":")[2]) if function else None] = row["reachable"]["bytes"]
        for row in answers["How much of each site is reachable, how much is garbage?"]:
            self.assertAlmostEqual(sites[row["function"] or "(unknown)", row["line"]], row["reachable"] or 0, delta=1)
        modules = {row["name"]: row for root in self.ask("retained", path)["roots"] if root["name"] == "globals"
                   for row in root["children"]}
        for row in answers["How much does each module keep that no other does?"]:
            self.assertEqual(modules[row["name"]]["bytes"], row["bytes"])
        self.assertEqual(shown["free"]["bytes"],
                         answers["How much of the free memory is in blocks of up to a size?"][-1]["up_to_here"])

    def test_blocks_have_types_of_the_source(self):
        """Blocks have source types with .cmt files, and shapes without."""
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        path, _ = self.take(daemon)
        cmt = [option for folder in self.cmt() for option in ("--cmt", folder)]
        shown = self.ask("show", path, *cmt)
        share = shown["types"]["typed"]["bytes"] / shown["heap"]["reachable"]["bytes"]
        harness.NOTES.append(f"{share:.1%} typed")
        self.assertLess(0.9, share)
        self.assertEqual(0, shown["types"]["disagreed"])
        blocks = {row["name"]: row["reachable"]["blocks"] for row in shown["shapes"]}
        sessions = blocks["Demo_server.Sessions.session"]
        self.assertEqual(sessions, blocks["(int, Demo_server.Sessions.session) Hashtbl.bucketlist.Cons"])
        self.assertLessEqual(sessions, blocks["bytes"], "each has a draft")
        self.assertEqual(blocks["Demo_server.Cache.page"],
                         blocks["(string, Demo_server.Cache.page) Hashtbl.bucketlist.Cons"])
        why = self.ask("why", path, r"Sessions\.make_session", *cmt)["paths"][0]["path"]
        self.assertRegex(why, r"^global Demo_server\.Sessions\.\w+ → \(int, .*\) Hashtbl\.t\.data → .* array\[\*\] → .*"
                              r"\.Cons( up to ×\d+ )?\.data → Demo_server\.Sessions\.session")
        retained = json.dumps(self.ask("retained", path, "--depth", "5", *cmt))
        self.assertIn("Demo_server.Sessions.session", retained)
        self.assertRegex(retained, r'"name": "(several, nearest global Demo_server\.)?Sessions\.\w+"')
        rows = json.loads(harness.memprofctl("snapshot", "query", path, *cmt, "-o", "json",
                                             "SELECT type, count(*) FROM blocks WHERE type LIKE '%session' AND reachable "
                                             "GROUP BY 1").stdout)["rows"]
        self.assertEqual([["Demo_server.Sessions.session", sessions]], rows)
        converted = self.folder / "a.heapsnapshot"
        self.assertEqual(OK, harness.memprofctl("snapshot", "convert", path, *cmt, "--out", converted).returncode)
        self.assertIn("Demo_server.Sessions.session", json.loads(converted.read_text())["strings"])
        without = {row["name"] for row in self.ask("show", path)["shapes"]}
        self.assertNotIn("Demo_server.Sessions.session", without)

    def test_memprofd_gives_blocks_their_types_too(self):
        """Types in memprofd's own answers about new and stored snapshots."""
        kept = self.folder / "auto"
        kept.mkdir()
        places = [option for folder in self.cmt() for option in ("--snapshot.cmt", folder)]
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, "--snapshot.directory", kept, *places, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        pb, ask = self.heaps(daemon)
        heap = ask("DescribeHeap", pb.DescribeHeapRequest(pid=target.pid, max_pause_seconds=10, depth=5, limit=1000),
                   pb.DescribeHeapResponse)
        self.check_typed(heap.census.types)
        self.assertLess({"Demo_server.Sessions.session", "string list"}, {row.name for row in heap.census.shapes})
        self.assertIn("(int, Demo_server.Sessions.session) Hashtbl.t", str(heap.retained.roots))
        for _ in range(2):
            ask("KeepHeap", pb.KeepHeapRequest(pid=target.pid, max_pause_seconds=10), pb.KeepHeapResponse)
        last, first = [heap.name for heap in ask("ListHeaps", pb.ListHeapsRequest(), pb.ListHeapsResponse).heaps]
        diff = ask("CompareHeaps", pb.CompareHeapsRequest(base=first, other=last, limit=1000), pb.HeapDiff)
        self.check_typed(diff.base_types)
        self.check_typed(diff.other_types)
        self.assertIn("Demo_server.Sessions.session", {row.name for row in diff.shapes})
        self.check_typed(ask("FindWaste", pb.FindWasteRequest(name=last), pb.HeapWaste).types)
        self.check_census(daemon, target.pid, pb, ask)

    def check_census(self, daemon, pid, pb, ask):
        """Censuses of stored snapshots, and metrics of the last one, match memprofctl's."""
        def told():
            return ask("ListCensuses", pb.ListCensusesRequest(pid=pid, limit=100), pb.ListCensusesResponse)
        eventually(lambda: told().uncounted == 0, "both are counted")
        censuses = told()
        cmt = [option for folder in self.cmt() for option in ("--cmt", folder)]
        for i, heap in enumerate(censuses.heaps):
            shown = self.ask("show", self.folder / "auto" / heap.name, *cmt)
            blocks = {row["name"]: row["reachable"]["blocks"] for row in shown["shapes"]}
            self.check_typed(censuses.types[i])
            self.assertEqual({row.name: blocks.get(row.name, 0) for row in censuses.classes},
                             {row.name: row.counts[i].blocks for row in censuses.classes})
            self.assertEqual(shown["heap"]["reachable"]["blocks"],
                             sum(row.counts[i].blocks for row in censuses.classes) + censuses.other[i].blocks)
        metrics = daemon.metrics()
        self.assertEqual(blocks["Demo_server.Sessions.session"],
                         metrics.value("memprofd_heap_class_blocks", pid=str(pid), **{"class": "Demo_server.Sessions.session"}))
        self.assertEqual(shown["types"]["typed"]["bytes"], metrics.value("memprofd_heap_typed_bytes", pid=str(pid)))

    def check_typed(self, types):
        self.assertLess(0.9, types.typed.bytes / types.reachable.bytes)
        self.assertEqual((0, False), (types.disagreed, types.out_of_time))

    def cmt(self):
        """Folders with types of the program and of its OCaml library."""
        if self.programs != TARGETS5:
            return [self.programs / "obj"]
        release = self.programs.name.removeprefix("targets-")
        prefix = subprocess.run([harness.ROOT / "tests/targets/debian-prefix.sh", release], capture_output=True,
                                text=True, check=True).stdout.strip()
        return [self.programs / "demo_server-types", *pathlib.Path(prefix).glob("usr/lib/*/ocaml")]

    def test_a_query_counts_what_the_program_has(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        told, found = self.take_while_stepping(target, daemon)
        path = self.folder / "a.heap"
        rows = self.query(path, "select tag, fields, count(*) as n from blocks group by tag, fields")
        counted = {(row["tag"], row["fields"]): row["n"] for row in rows}
        self.assertEqual(found["rows"], counted)
        self.assertEqual(OLD, {key: counted[key] for key in OLD})
        [reachable] = self.query(path, "select count(*) as n from blocks where reachable")
        self.assertEqual(found["reachable"], reachable["n"])
        [kept] = self.query(path, f"select count(*) as n from retained where bytes = 8 * {told['kept_words']}")
        self.assertGreater(kept["n"], 0, "Obj.reachable_words of what only one global keeps")
        refused = subprocess.run([harness.BUILD / "memprofctl", "snapshot", "query", path,
                                  f"attach '{self.folder}/x.db' as x"], capture_output=True, text=True, check=False)
        self.assertEqual(harness.USAGE, refused.returncode)
        self.assert_one_line(refused.stderr, "only SELECT is allowed")
        self.assertFalse((self.folder / "x.db").exists())

    def test_what_the_program_marks(self):
        """Marked values have the program's names; the query of docs/heap_sql.md finds the values of
        a tag."""
        target, daemon = self.attached("reports")
        self.stepping(target, daemon, "minor")
        target.command("mark 300")
        self.assertEqual(0, self.take_while(daemon, lambda: target.command("minor")).wait())
        path = self.folder / "a.heap"
        marked = {owner for kind, owner, _, _, _ in image(path)["roots"] if kind == 8}
        self.assertLessEqual({"count", "ratio", "table", "marked{kind=record}"}, marked)
        chapter = (harness.ROOT / "docs/heap_sql.md").read_text().split("## Marked values\n")[1]
        query = re.search(r"((?:^    .+\n)+)", chapter, re.M).group(1)
        [row] = [row for row in self.query(path, query) if row["name"] == "marked{kind=record}"]
        self.assertEqual(150, row["marked"], "each second one has died")
        self.assertGreater(row["retained_bytes"], row["bytes"] - 1)

    def test_what_ephemerons_keep(self):
        """Before the collection, a snapshot shows by tag what the collector will keep."""
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon, "weak")
        path = self.folder / "a.heap"

        def kept():
            self.assertEqual(0, self.take_while(daemon, lambda: target.command("weak")).wait())
            rows = self.query(path, "select tag, count(*) as n, sum(reachable) as kept from blocks "
                                    "where tag between 61 and 64 group by tag")
            # Skip snapshots taken while the ephemerons are created, or after the last was
            # collected.
            return {str(row["tag"]): row["kept"] for row in rows if row["n"] > row["kept"] or row["tag"] == 64}
        expected = {"61": 21, "62": 21, "63": 20, "64": 1}
        # Each try takes a second or more, and only some moments of a collection show the
        # difference.
        eventually(lambda: kept() == expected, "there is something to tell apart", 4 * harness.TIMEOUT)
        self.assertEqual(expected, target.command("collect"))
        classes = {row["name"]: row["reachable"]["blocks"] for row in self.ask("show", path)["shapes"]}
        self.assertLessEqual(42, sum(classes.get(name, 0) for name in ("ephemeron", "weak array")), classes)

    def test_what_has_come_since(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        self.take_while_stepping(target, daemon)
        earlier = (self.folder / "a.heap").rename(self.folder / "earlier.heap")
        self.take_while_stepping(target, daemon)
        later = self.folder / "a.heap"
        diff = self.ask("diff", earlier, later)
        self.assertTrue(diff["same_process"])
        before, after = (self.ask("show", path)["heap"]["reachable"]["bytes"] for path in (earlier, later))
        self.assertEqual(after - before, diff["heap"][0]["change_bytes"])


class Reading5(Reading):
    programs = TARGETS5
    outside = {**Reading.outside, "custom _mutex": 80}
    channels = 3 * 65536 + 432


class CaseStudies(Snapshot):
    """Programs like those of the thesis on ocp-memprof, explained by a snapshot."""

    programs = harness.TARGETS
    ask = Reading.ask

    def retained(self, case):
        """Share of all reachable memory that each root keeps, by its full name."""
        target, daemon = self.attached("case_studies")
        self.stepping(target, daemon, "work")
        target.command(f"begin {case}")
        self.assertEqual(0, self.take_while(daemon, lambda: target.command("work")).wait())
        answer = self.ask("retained", self.folder / "a.heap")
        shares = {}

        def note(rows, above):
            for row in rows:
                name = f"{above} / {row['name']}" if above else row["name"]
                shares[name] = row["bytes"] / answer["reachable"]["bytes"]
                note(row["children"], name)
        note(answer["roots"], "")
        return shares

    def test_a_parsers_environment_keeps_the_last_tree(self):
        self.assertGreater(self.retained("parser")["globals / Stdlib__Parsing"], 0.9)

    def test_finalisers_keep_what_they_are_to_free(self):
        self.assertGreater(self.retained("finalisers")["finalisers"], 0.8)

    def test_a_renaming_table_is_never_emptied(self):
        shares = self.retained("renaming")
        self.assertGreater(max(share for name, share in shares.items()
                               if re.fullmatch(r"globals / Case_studies / field \d+", name)), 0.9, shares)


class CaseStudies5(CaseStudies):
    programs = TARGETS5


class HungTypes(Snapshot):
    """A compiler file whose reads never end: answers do without it."""

    programs = harness.TARGETS

    def compiler_file(self):
        """The file of demo_server from the machine's OCaml or from
        tests/targets/compile-with.sh."""
        return next(path for path in (self.programs / "obj/demo_server.cmt", self.programs / "demo_server-types/demo_server.cmt")
                    if path.exists())

    def test_it_is_waited_for_only_so_long(self):
        mount, types = self.folder / "mount", self.folder / "types/demo_server.cmt"
        mount.mkdir()
        types.parent.mkdir()
        types.touch()
        server = self.process(Process([harness.ROOT / "tests/hostile/fuse_hang.py", "--async", mount,
                                       self.compiler_file()]))
        self.assertRegex(server.read_line(), "^ready ")
        self.addCleanup(server.kill)
        subprocess.run(["mount", "--bind", mount / "page", types], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", types], check=True)
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, "--snapshot.cmt", types, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        pb, ask = self.heaps(daemon)
        request = pb.DescribeHeapRequest(pid=target.pid, max_pause_seconds=10)
        heap = ask("DescribeHeap", request, pb.DescribeHeapResponse)
        self.assertTrue(heap.census.types.out_of_time)
        self.assertGreater(heap.census.heap.reachable.blocks, 1000, "the rest is told")
        server.send("answer")
        heap = ask("DescribeHeap", request, pb.DescribeHeapResponse)
        self.assertFalse(heap.census.types.out_of_time)
        self.assertGreater(heap.census.types.modules, 0)


class Garbage(Snapshot):
    def sampled(self):
        target, daemon = self.attached("leftovers")
        self.stepping(target, daemon, "tick")
        return target, daemon

    def wait_until_seen(self, target, daemon):
        """memprofd has read the collector's state again."""
        def looked():
            return daemon.metrics().value("memprofd_snapshot_timestamp_seconds", pid=str(target.pid))
        before = looked()
        eventually(lambda: looked() > before, "memprofd looks again")

    def answer(self, target, daemon):
        """Waiting orders, and the times at which the snapshot began and ended."""
        began = time.monotonic()
        taker = self.take_while(daemon, lambda: target.command("tick"))
        ended = time.monotonic()
        self.assertEqual(0, taker.wait(), taker.stderr())
        path = self.folder / "a.heap"
        told = json.loads(harness.memprofctl("snapshot", "garbage", path, "-o", "json").stdout)
        self.assertIn("AGE P50", harness.memprofctl("snapshot", "garbage", path).stdout)
        [orders] = [site for site in told["sites"] if "make_order" in site["name"]] or [None]
        return told, orders, began, ended

    def answer_long_after(self, target, daemon, looking, dropped):
        """Asks so late that neither half of the real waiting time nor twice of it can be right."""
        while True:
            told, orders, began, ended = self.answer(target, daemon)
            if began - dropped > ended - began + dropped - looking:
                return told, orders, began, ended
            self.wait_until_seen(target, daemon)

    def test_how_old_it_is_and_how_long_it_has_waited_at_most(self):
        target, daemon = self.sampled()
        making = time.monotonic()
        target.command("make")
        made = time.monotonic()
        for _ in range(2):
            looking = time.monotonic()
            for _ in range(2):  # the second read began after it
                self.wait_until_seen(target, daemon)
            target.command("full")
            target.command("full")
        target.command("drop")
        dropped = time.monotonic()
        told, orders, began, ended = self.answer_long_after(target, daemon, looking, dropped)
        self.assertGreater(orders["sampled_blocks"], 50)
        self.assertAlmostEqual(20_000 * 9 * 8, orders["bytes"], delta=6 * orders["bytes_stderr"])
        self.assertLessEqual(20_000, told["garbage"]["blocks"])
        for age in orders["ages"].values():
            self.assertLess(began - made, age)
            self.assertLess(age, ended - making)
        self.assertLess(began - dropped, orders["longest_wait_seconds"])
        self.assertLess(orders["longest_wait_seconds"], ended - looking, "the last look before these collections")
        self.assertLess(orders["longest_wait_seconds"], orders["ages"]["p50_seconds"])
        self.assertEqual(told["longest_wait_seconds"], orders["longest_wait_seconds"])
        rows = json.loads(harness.memprofctl("snapshot", "query", self.folder / "a.heap", "-o", "json",
                                             "SELECT min(age_seconds), max(age_seconds), max(longest_wait_seconds) FROM samples "
                                             "JOIN sites USING (site) WHERE function LIKE '%make_order'").stdout)["rows"]
        self.assertEqual(orders["longest_wait_seconds"], rows[0][2])
        self.assertEqual(orders["ages"]["longest_seconds"], rows[0][1])

    def dropped_while_a_collection_ran(self, target, daemon):
        """Orders that waited, unless found; time of the snapshot's begin and of the drop."""
        target.command("make")
        self.wait_until_seen(target, daemon)
        target.command("begin")
        target.command("drop")
        dropped = time.monotonic()
        for _ in range(4):  # longer than a snapshot takes
            self.wait_until_seen(target, daemon)
        target.command("major")
        _, orders, began, _ = self.answer(target, daemon)
        return orders and (orders, began, dropped)

    def test_a_collection_leaves_what_was_dropped_while_it_ran(self):
        """The reported wait may then cover the whole collection before the last finished one."""
        target, daemon = self.sampled()
        self.wait_until_seen(target, daemon)
        target.command("full")
        found = self.dropped_while_a_collection_ran(target, daemon)
        if self.programs != TARGETS5:  # OCaml 4 marks what is let go of, if it has begun to mark
            found = found or eventually(lambda: self.dropped_while_a_collection_ran(target, daemon), "it is left",
                                        timeout=3 * harness.TIMEOUT)
        if found:
            orders, began, dropped = found
            self.assertLess(began - dropped, orders["longest_wait_seconds"])


class Garbage5(Garbage):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
