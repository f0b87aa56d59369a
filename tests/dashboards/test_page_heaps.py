# SPDX-License-Identifier: Apache-2.0
"""Stored heap snapshots on the page at /: marks on the time axis, the answers from one, and the difference of two."""

import json

import harness
from page_harness import PageTest

MARK = "#charts .heap-lane button"


class KeptTest(PageTest):
    options = ()

    @classmethod
    def start_server(cls):
        cls.kept = cls.folder / "heaps"
        cls.kept.mkdir()
        cls.arguments = ("--snapshot.directory", cls.kept, "--snapshot.max-pause", "10s", *cls.options)
        super().start_server()

    def files(self, pid=None):
        """The server's snapshot files, oldest first."""
        return sorted(self.kept.glob(f"auto-demo_server-{pid or self.server.pid}-*.heap"), key=lambda path: path.stat().st_mtime_ns)

    def wait_marks(self, count):
        self.browser.wait_for(f"document.querySelectorAll({json.dumps(MARK)}).length === {count}")

    def choose(self, name):
        self.js(f"document.querySelector('{MARK}[data-name=\"{name}\"]').click()")

    def rows(self, table):
        return self.js(f"""[...document.querySelectorAll('#heaps table[data-table={table}] tbody tr')].map(
            (row) => [...row.cells].map((cell) => cell.textContent))""")


TYPES = harness.BUILD / "targets" / "obj"  # of the demo server


class KeptSnapshots(KeptTest):
    options = ("--web.enable-control", "--snapshot.cmt", TYPES)

    def keep(self, count):
        self.press("Keep one now", "#heaps")
        self.wait_marks(count)

    def test_two_are_taken_chosen_and_compared(self):
        self.open()
        self.browser.wait_for("document.querySelector('#heaps').hidden === false")
        self.assertIn("No snapshots of this program yet", self.text("#heaps .heaps-head"))
        self.keep(1)
        self.assertRegex(self.text("#notice"), rf"Snapshot of demo_server \(pid {self.server.pid}\): stored, .* was paused for")
        self.keep(2)
        first, last = [path.name for path in self.files()]
        self.check_marks(first, last)
        self.check_areas()
        self.choose(last)
        self.wait_element("#heaps table[data-table=garbage]")
        self.choose(first)
        self.wait_element("#heaps table[data-table=roots]")
        self.check_answers(first, last)
        self.assertEqual(f"{last},{first}", self.view()["extra"]["heaps"])
        self.open(self.js("location.hash").lstrip("#"))
        self.wait_element("#heaps table[data-table=roots]")
        self.assertEqual([[True, first], [True, last]], sorted(
            self.js(f"[...document.querySelectorAll('{MARK}[aria-pressed=true]')].map((one) => [true, one.dataset.name])"),
            key=lambda one: one[1] == last))
        self.choose(first)
        self.choose(last)
        self.browser.wait_for("document.querySelector('#heaps .answer').children.length === 0")
        self.check_other_program()

    def check_marks(self, first, last):
        """Marks are at their times on the chart's axis."""
        told = {heap["name"]: int(heap["unix_ns"]) / 1e6 for heap in self.ask("heaps", pid=self.server.pid)["heaps"]}
        self.assertEqual({first, last}, set(told))
        self.js("memprofd.update({live: false, end: memprofd.recorded().now})")
        self.browser.settle()

        def stand():  # hidden until the chart is drawn with them
            axis = self.js("memprofd.axis()")
            plot = self.box("#charts .u-over")
            for name, time in told.items():
                mark = self.box(f'{MARK}[data-name="{name}"]')
                place = plot["x"] + plot["width"] * (time - axis["begin"]) / (axis["end"] - axis["begin"])
                self.assertAlmostEqual(place, mark["x"] + mark["width"] / 2, delta=3, msg=name)
            return True
        harness.eventually(stand, "marks are where their times are")

    def check_areas(self):
        """memprofd's censuses of both snapshots, as areas over time and as a table."""
        self.browser.wait_for("document.querySelectorAll('#heaps .areas-chart line').length === 2")
        told = self.ask("censuses", pid=self.server.pid)
        self.assertEqual((2, "0"), (len(told["heaps"]), told["uncounted"]))
        names = [row["name"] for row in told["classes"]] + ["other"]
        self.assertIn("Demo_server.Sessions.session", names)
        self.assertEqual(names, self.js("[...document.querySelectorAll('#heaps .areas polygon')].map((one) => one.dataset.class)"))
        self.assertEqual(names, [row[-1] for row in self.rows("census")])
        self.check_types("#heaps .areas")
        # The areas are stacked: the first starts at the bottom, the last reaches the top at the larger snapshot.
        heights = self.js("""[...document.querySelectorAll('#heaps .areas polygon')].map(
            (one) => one.getAttribute('points').split(' ').map((point) => Number(point.split(',')[1])))""")
        self.assertEqual([100, 100], heights[0][2:])
        self.assertEqual(0, min(heights[-1]))
        for below, above in zip(heights, heights[1:]):
            self.assertEqual(below[:2], above[:1:-1])

    def check_answers(self, first, last):
        """The tables match memprofctl's answers about the files."""
        diff = json.loads(harness.memprofctl("snapshot", "diff", self.kept / first, self.kept / last,
                                             "--cmt", TYPES, "-o", "json").stdout)
        self.assertEqual(["reachable", "garbage", "dead", "free"], [row[-1] for row in self.rows("totals")])
        for table, told in (("roots", diff["roots"]), ("classes", diff["shapes"]), ("sites", diff["sites"])):
            self.assertEqual([row["name"] for row in told[:20]], [row[-1] for row in self.rows(table)], table)
        self.assertIn("globals / Demo_server", [row[-1] for row in self.rows("roots")])
        growth = next(row for row in diff["roots"] if row["name"] == "globals / Demo_server")["change_bytes"]
        shown = next(row for row in self.rows("roots") if row[-1] == "globals / Demo_server")[0]
        self.assertEqual("+" if growth > 0 else "−", shown[0])
        self.assertIn("Demo_server.Sessions.session", [row[-1] for row in self.rows("classes")])
        self.check_types("#heaps .answer")
        waste = json.loads(harness.memprofctl("snapshot", "waste", self.kept / last, "--cmt", TYPES, "-o", "json").stdout)
        shown = [row[-1].split(";")[0] for row in self.rows("waste") if row[1] != ""]
        self.assertEqual([row["pattern"] for row in waste["patterns"]], shown)
        garbage = json.loads(harness.memprofctl("snapshot", "garbage", self.kept / last, "-o", "json").stdout)
        self.assertEqual([row["name"] for row in garbage["sites"][:20]], [row[-1] for row in self.rows("garbage-sites")])
        blocks = [garbage["garbage"]["blocks"] - garbage["young"]["blocks"], garbage["young"]["blocks"], garbage["dead"]["blocks"]]
        self.assertEqual([f"{count:,}" for count in blocks], [row[1] for row in self.rows("garbage")])

    def check_types(self, within):
        """The page states the typed share of the memory, which is most of it for the demo server."""
        told = self.text(f"{within} .types")
        self.assertRegex(told, r"^(At [\d:]+: )?(9\d|100) % of the reachable memory has a source type, from files of \d+ modules")

    def test_a_heap_is_shown_by_types(self):
        """Shows the census with types, and the paths to GC roots with their names and types."""
        self.wait_sessions()
        self.open()
        self.browser.click_on(f'#overview tr[data-pid="{self.server.pid}"] td:last-child button:nth-of-type(3)')
        self.wait_element("#overview .heap .holders li")
        self.check_types("#overview .heap")
        classes = self.js("[...document.querySelectorAll('#overview .classes tbody td:first-child')].map((td) => td.textContent)")
        self.assertIn("Demo_server.Sessions.session", classes)
        self.assertRegex("\n".join(classes), r"\((int|string), Demo_server\.\w+\.\w+\) Hashtbl\.bucketlist\.Cons")
        holders = self.js("document.querySelector('#overview .holders').textContent")
        self.assertRegex(holders, r"nearest global Demo_server\.Sessions\.\w+")
        self.assertIn(" (int, Demo_server.Sessions.session) Hashtbl.t ", holders)
        self.check_sizes()
        self.press("Close", "#overview .heap")

    def check_sizes(self):
        """Live and free blocks by size, with cumulative shares up to 100 %, and the fragmentation of free memory."""
        for table, what in (("live-sizes", "There"), ("free-sizes", "Free")):
            rows = self.js(f"""[...document.querySelectorAll('#overview .heap table[data-table={table}] tr')].map(
                (row) => [...row.cells].map((cell) => cell.textContent))""")
            self.assertEqual(["Size", what, "Blocks", "Share", "Up to here", ""], rows[0])
            self.assertLess(1, len(rows))
            self.assertEqual("100 %", rows[-1][4])
            shares = [float(row[3].rstrip(" %").lstrip("<")) for row in rows[1:]]
            sums = [float(row[4].rstrip(" %").lstrip("<")) for row in rows[1:]]
            self.assertEqual(sorted(sums), sums)
            for i, upto in enumerate(sums):
                self.assertAlmostEqual(upto, sum(shares[:i + 1]), delta=1 + 0.6 * i)
            widths = self.js(f"""[...document.querySelectorAll('#overview .heap table[data-table={table}] .bar i')].map(
                (bar) => bar.getBoundingClientRect().width)""")
            self.assertEqual(max(range(len(widths)), key=widths.__getitem__), max(range(len(shares)), key=shares.__getitem__))
        self.assertIn("3 words", self.text("#overview .heap table[data-table=live-sizes]"))
        self.assertRegex(self.text("#overview .heap .fragmentation"),
                         r"^Fragmentation: <?[\d.]+ % of the free memory is not in its largest block, of [\d.]+ [KM]iB\.$")

    def test_paths_to_a_site_are_shown_by_types(self):
        self.ask_why_sessions_live()
        self.check_types(".site-detail .why")
        self.assertRegex(self.text(".site-detail .why li"), r"global Demo_server\.Sessions\.\w+ → \(int, Demo_server\.Sessions\.session\) "
                                                            r"Hashtbl\.t\.data → .*\.data → Demo_server\.Sessions\.session")

    def check_other_program(self):
        self.js(f"memprofd.update({{pid: {self.other.pid}}})")
        self.wait_marks(0)
        self.browser.wait_for("document.querySelector('#heaps .heaps-head').innerText.includes('No snapshots of this program')")


class WithoutControl(KeptTest):
    """Snapshots taken by rules have marks, but answers from them require the right to control."""

    options = ("--snapshot.when", "live>1KiB")

    def test_marks_exist_and_say_how_to_get_answers(self):
        harness.eventually(self.files, "one is taken")
        self.open()
        self.wait_marks(1)
        self.choose(self.files()[0].name)
        self.browser.wait_for("document.querySelector('#heaps .answer').innerText.includes('--web.enable-control')")
        self.assertTrue(self.js("[...document.querySelectorAll('#heaps .heaps-head button')].every((one) => one.disabled)"))
