# SPDX-License-Identifier: Apache-2.0
"""The resident memory of programs on the page at /: its parts over time, and on request the contents of each page."""

import json
import signal

import harness
from page_harness import PageTest

PARTS = ["OCaml heap: blocks", "OCaml heap: free", "OCaml minor heaps", "native heap, stacks, data", "code and mapped files"]
FIELDS = ["heap_used_bytes", "heap_free_bytes", "minor_heap_bytes", "other_anonymous_bytes", "file_bytes"]


def resident(pid):
    """Resident bytes by the kernel's count."""
    return int(harness.proc_status(pid, "VmRSS").split()[0]) * 1024


class MemoryTest(PageTest):
    def open_memory(self):
        self.open()
        self.browser.wait_for("memprofd.memory().points > 1")

    def memory(self):
        return self.js("memprofd.memory()")

    def parts_now(self):
        return self.history(points=2)["points"][-1]["memory"]

    def rows(self, table):
        return self.js(f"""[...document.querySelectorAll('#memory table[data-table={table}] tbody tr')].map(
            (row) => [...row.cells].map((cell) => cell.textContent))""")


class Memory(MemoryTest):
    arguments = ("--web.enable-control",)

    def test_parts_add_up_to_what_the_kernel_counts(self):
        self.open_memory()
        shown = self.memory()
        labels = [area["label"] for area in shown["areas"]]
        self.assertEqual([label for label in PARTS if label in labels], labels, "from the bottom up")
        for at, whole in enumerate(shown["resident"]):
            self.assertEqual(whole, sum(area["values"][at] for area in shown["areas"]))
        self.server.popen.send_signal(signal.SIGSTOP)
        try:
            harness.eventually(lambda: int(self.parts_now()["resident_bytes"]) == resident(self.server.pid),
                               "the last moment is the kernel's")
            told = self.parts_now()
            self.browser.wait_for(f"memprofd.memory().resident.at(-1) === {told['resident_bytes']}")
        finally:
            self.server.popen.send_signal(signal.SIGCONT)
        for field in ("heap_used_bytes", "minor_heap_bytes", "file_bytes"):
            self.assertGreater(int(told[field]), 1 << 20, field)
        self.assertEqual(int(told["resident_bytes"]), sum(int(told[field]) for field in FIELDS) + int(told["shared_memory_bytes"]))
        self.assertGreater(self.box("#memory .u-over")["height"], 100)

    def test_what_c_code_takes_is_a_part(self):
        holder = self.start(harness.Target("c_owners"))
        self.daemon.attach(holder.pid)

        def sampled():
            holder.command("hold 200")
            return self.daemon.state(holder.pid) == "sampling"
        harness.eventually(sampled, "it is sampled")
        held = sum(holder.command("raw 1000")[kind][0] for kind in ("lists", "files", "none"))

        def told():
            memory = self.history(holder.pid, points=2)["points"][-1].get("memory")
            return memory and int(memory["other_anonymous_bytes"]) > 0.8 * held
        harness.eventually(told, "a part that holds it")
        self.open(f"pid={holder.pid}")
        self.browser.wait_for(f"memprofd.memory().areas.some(({{label, values}}) => label.startsWith(\"native heap\") && values.at(-1) > {0.8 * held})")
        self.daemon.detach(holder.pid)

    def test_the_legend_shows_the_moment_under_the_pointer(self):
        self.wait_recorded(4)
        self.open_memory()
        legend = self.text("#memory .chart-legend")
        for label in ("OCaml heap: blocks", "OCaml minor heaps", "code and mapped files"):
            self.assertIn(label, legend)
        self.assertRegex(legend, r"resident\s+[\d.]+ MiB")
        self.js("memprofd.update({live: false, end: memprofd.recorded().now})")
        self.browser.settle()

        def moment(chart):
            return self.text(f"{chart} .chart-legend-head").partition(" at ")[2]
        last = moment("#memory")

        def points():  # moves again until it has an effect: a redrawn chart forgets the pointer
            over = self.box("#charts .u-over")
            self.browser.move(over["x"] + over["width"] * 0.3, over["y"] + over["height"] * 0.5)
            return moment("#charts") == moment("#memory") != last
        harness.eventually(points, "both charts have one pointer")

    def test_a_click_asks_what_each_page_holds(self):
        self.wait_recorded(4)
        self.open_memory()
        self.browser.settle()
        self.box("#memory .u-over")
        place = self.memory()["areas"][0]["place"]
        self.browser.click(place["x"], place["y"])
        self.wait_element("#memory table[data-table=parts]")
        self.press("Close", "#memory .pages")
        self.assertTrue(self.js("document.querySelector('#memory .pages').hidden"))

    def test_what_holds_it_now(self):
        self.open_memory()
        self.server.popen.send_signal(signal.SIGSTOP)
        try:
            self.press("What holds it now", "#memory")
            self.wait_element("#memory table[data-table=parts]")
            whole, counted = self.js("""document.querySelector('#memory .pages-head .muted').textContent
                .match(/^(.*) in the pages that were read; the kernel counted (.*) right after/).slice(1)""")
            self.assertEqual(whole, counted, "it stands still")
            told = self.daemon.ctl_json("rss", "--pid", self.server.pid)
            titles = {part["title"] for part in told["parts"] if int(part["resident_bytes"]) > 0}
            names = {part["name"] for part in told["parts"] if part["kind"] == "code"}
            rows = self.rows("parts")
            self.assertLessEqual(titles, {row[-1] for row in rows})
            self.assertLessEqual(names, {row[-1].strip() for row in rows}, "code by file")
            self.press("Owners of native memory", "#memory")
            self.wait_element("#memory table[data-table=owners]")
            owners = [row[-1] for row in self.rows("owners")]
            self.assertIn("_chan", owners)
            self.assertEqual("(held by no custom block)", owners[-1])
        finally:
            self.server.popen.send_signal(signal.SIGCONT)
        self.js(f"memprofd.update({{pid: {self.other.pid}}})")
        self.browser.wait_for("document.querySelector('#memory .pages').hidden")

    def test_how_it_looks(self):
        self.wait_recorded(4)
        self.open_memory()
        self.press("What holds it now", "#memory")
        self.wait_element("#memory table[data-table=parts]")
        self.picture("page-memory")


class WithoutControl(MemoryTest):
    def test_pages_require_the_right_to_control(self):
        self.open_memory()
        self.press("What holds it now", "#memory")
        self.assertIn("--web.enable-control", self.text("#memory .pages"))
        self.assertEqual([], self.rows("parts"))
