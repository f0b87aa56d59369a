# SPDX-License-Identifier: Apache-2.0
"""The flame graph page (dashboards/web/offline.html) in a real browser, offline."""

import json
import math
import pathlib
import statistics
import tempfile
import unittest

import browser
import flame_profile
import harness
from flame_profile import MEASURES

REDRAW_MS = 100
# Reads through another canvas, because frequent reads change how Chromium draws a canvas.
READ_PIXELS = """const readPixels = (canvas, x, y) => {
    const copy = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
    const context = copy.getContext("2d", {willReadFrequently: true});
    context.drawImage(canvas, -Math.floor(x), -Math.floor(y));
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3); };"""
HOSTILE = "</script><script>window.broken = 1</script>"


def estimate(samples):
    """The page's text for a sum of N samples, in the format of daemon/util/units.cc."""
    value, error = samples * 8 / flame_profile.RATE, math.sqrt(samples) * 8 / flame_profile.RATE
    power = next((p for p in (3, 2, 1) if value >= 1024 ** p * 0.9995), 0)
    value, error = value / 1024 ** power, error / 1024 ** power
    if samples == 0:
        return "0 B"
    decimals = max(0, -math.floor(math.log10(error))) if power else 0
    return f"{value:.{decimals}f} {['B', 'KiB', 'MiB', 'GiB'][power]} ± {error:.{decimals}f}"


class FlameGraphTest(unittest.TestCase):
    """All tests share one browser; each loads its own page."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="memprofd-test-")))
        cls.browser = browser.Browser(1280, 900)
        cls.addClassCleanup(cls.browser.close)
        cls.small = flame_profile.small()

    def setUp(self):
        self.browser.resize(1280, 900)
        self.browser.emulate_media(prefers_color_scheme="light")

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])

    def open(self, profile, fragment="", changes=None):
        self.file = self.folder / f"{self.id().rsplit('.', 1)[1]}.html"
        self.file.write_text(profile.page(changes), encoding="utf-8")
        self.browser.navigate(self.file, fragment)

    def js(self, expression):
        return self.browser.evaluate(expression)

    def state(self):
        return self.js("flamegraph.state()")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def frame(self, name, **wanted):
        """The first visible frame of a function."""
        for frame in self.js("flamegraph.frames()"):
            if frame["name"].endswith(name) and all(frame[k] == v for k, v in wanted.items()):
                return frame
        raise AssertionError(f"no frame of {name}")

    def click_frame(self, name):
        box = self.frame(name)["box"]
        self.browser.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def pixel(self, frame):
        """Red, green and blue near the right end of a frame, where it has no letters."""
        box = frame["box"]
        return self.js(f"""(() => {{ {READ_PIXELS}
            const canvas = document.querySelector("canvas"), at = canvas.getBoundingClientRect();
            const ratio = canvas.width / at.width;
            const x = ({box["x"]} + {box["width"]} * 0.97 - at.x) * ratio, y = ({box["y"]} + 3 - at.y) * ratio;
            return readPixels(canvas, x, y); }})()""")

    def table(self):
        return self.js("""[...document.querySelectorAll("#top tbody tr")].map(
            (row) => [...row.cells].map((cell) => cell.innerText))""")


class Loading(FlameGraphTest):
    def test_needs_nothing_but_its_file(self):
        self.open(self.small)
        self.assertEqual(self.browser.requests, [self.file.as_uri()])
        self.assertEqual(self.state()["rows"], 6)

    def test_header_says_what_was_profiled(self):
        self.open(self.small)
        self.assertEqual(self.text("h1"), "demo_server (pid 4242)")
        facts = self.text("#facts")
        for fact in ("OCaml 4.14.1", "2026-01-31 12:00:00 – 12:05:00 UTC (5.0 min)",
                     "1e-04/word (1 sample per 78.1 KiB)", "no events lost"):
            self.assertIn(fact, facts)
        self.assertEqual(self.text("#losses"), "")

    def test_header_says_what_was_lost(self):
        self.open(self.small, changes={"title": "nightly", "dropped_events": 12345})
        self.assertEqual(self.text("h1"), "nightly")
        self.assertIn("12,345 events lost", self.text("#losses"))
        self.assertNotIn("no events lost", self.text("#facts"))

    def test_hostile_names_are_shown_as_text(self):
        profile = flame_profile.Profile()
        profile.add([(HOSTILE, "<b>file</b>.ml", 3), ("<!--\u2028&lt;", "", 0)], live=70, allocated=70)
        self.open(profile, changes={"title": "<i>title</i>", "comm": HOSTILE})
        self.assertFalse(self.js("'broken' in window"))
        self.assertEqual(self.text("h1"), "<i>title</i>")
        self.assertEqual(self.frame(HOSTILE)["location"], "<b>file</b>.ml:3")
        self.assertEqual({row[0] for row in self.table()}, {HOSTILE, "<!--\u2028&lt;"})
        self.assertEqual(self.js("document.querySelectorAll('b, i:not(.legend i)').length"), 0)
        self.browser.click_on("#top tbody button")  # searches for the whole name, quoted
        self.assertEqual(self.state()["matched"]["functions"], 1)

    def test_another_file_is_refused(self):
        for changes, words in (({"parent": [-1, 5]}, "bad profile"), ({"measures": []}, "no measures"),
                               ({"self": {}}, "no self values of live")):
            with self.subTest(words):
                self.open(self.small, changes=changes)
                self.assertIn(words, self.text("#error"))
                self.assertFalse(self.js("'flamegraph' in window"))

    def test_an_empty_profile_is_shown(self):
        self.open(flame_profile.Profile())
        self.assertEqual(self.state()["rows"], 1)
        self.assertEqual(self.table(), [])
        self.assertEqual(self.text("#measures .value"), "0 B")


class Numbers(FlameGraphTest):
    def test_every_measure_shows_the_profiles_own_numbers(self):
        self.open(self.small)
        for key, label in MEASURES.items():
            with self.subTest(key):
                self.browser.click_on(f"#measures input[value={key}] ~ .value")
                self.assertEqual(self.state()["measure"], key)
                sums = self.small.subtree(key)
                self.assertEqual(self.text("#measures label:has(:checked)").split("\n"),
                                 [label, estimate(sums[0]), f"{sums[0]:,} samples"])
                self.compare_frames(key, sums)

    def compare_frames(self, key, sums):
        frames = self.js("flamegraph.frames()")
        self.assertEqual({f["node"] for f in frames}, {n for n, samples in enumerate(sums) if samples})
        for frame in frames:
            node = frame["node"]
            self.assertEqual(frame["samples"], sums[node])
            self.assertAlmostEqual(frame["total"], self.small.bytes(sums[node]), places=3)
            self.assertAlmostEqual(frame["self"], self.small.bytes(self.small.samples[key][node]), places=3)
            self.assertAlmostEqual(frame["error"], frame["total"] / math.sqrt(sums[node]), places=3)
            width = frame["box"]["width"] / frames[0]["box"]["width"]
            self.assertAlmostEqual(width, sums[node] / sums[0], places=6)

    def test_table_of_functions(self):
        self.open(self.small, "#m=allocated&sort=total")
        samples, total = self.small.samples["allocated"], sum(self.small.samples["allocated"])
        rows = {row[0]: row for row in self.table()}
        # List.map is recursive: its total counts the outermost call only.
        by_name = {name: sum(n for node, n in enumerate(samples) if node and self.small.name(node) == name)
                   for name in rows}
        for name, row in rows.items():
            self.assertEqual(row[2], estimate(by_name[name]))
            with_it = self.small.stacks_with("allocated", lambda other, name=name: other == name)
            self.assertEqual(row[4], estimate(with_it))
            self.assertEqual(row[6], f"{with_it:,}")
        self.assertEqual(len(rows), 8)
        self.assertEqual(rows["Stdlib__List.map"][2], rows["Stdlib__List.map"][4])
        self.assertEqual(self.table()[0][4], estimate(total))
        self.assertEqual(self.table()[0][5], "100 %")
        self.browser.click_on("#top th:nth-child(3) button")
        self.assertEqual(self.table()[0][0], "Dune__exe__Http.parse")
        self.assertEqual(self.state()["sort"], "self")

    def test_tooltip(self):
        self.open(self.small, "#m=allocated")
        box = self.frame("Cache.add")["box"]
        self.browser.move(box["x"] + 20, box["y"] + 8)
        tip = self.text("#tip").replace("\n", " ")
        self.assertIn("Dune__exe__Cache.add bin/cache.ml:31", tip)
        self.assertIn(f"Allocated {estimate(660)} (28 %)", tip)  # of 2,320
        self.assertIn("Of the caller 31 %", tip)                 # of 2,160
        self.assertIn(f"Self {estimate(500)} (22 %)", tip)
        self.assertIn("Samples 660, self 500", tip)
        # Geometric mean of 40 s and 200 s, weighted 500 : 160.
        lifetime = math.exp((500 * math.log(40) + 160 * math.log(200)) / 660)
        self.assertIn(f"Typical lifetime {lifetime / 60:.1f} min" if lifetime >= 59.97
                      else f"Typical lifetime {lifetime:.1f} s", tip)
        self.browser.move(5, 5)
        self.assertTrue(self.js("document.getElementById('tip').hidden"))

    def test_recursion_says_how_deep_it_is(self):
        """A node that stands for several frames shows their number next to its name, which stays unchanged."""
        profile = flame_profile.Profile()
        profile.add(["M.main", "List.init", "M.leaf"], live=100, allocated=100)
        self.open(profile, changes={"frames": [1, 1, 1312, 1]})
        frame = self.frame("List.init")
        self.assertEqual((frame["name"], frame["label"], frame["frames"]), ("List.init", "List.init ×1,312", 1312))
        self.browser.move(frame["box"]["x"] + 20, frame["box"]["y"] + 8)
        self.assertIn("List.init ×1,312", self.text("#tip"))
        self.assertIn("at most 1,312 frames, folded", self.text("#tip"))
        self.click_frame("List.init")
        self.assertIn("List.init ×1,312", self.text("#crumbs"))
        self.assertIn("List.init", [row[0] for row in self.table()])
        self.browser.key("Escape")
        self.browser.click_on("[data-set=inverted][data-value='1']")
        self.assertEqual(self.frame("List.init")["label"], "List.init ×1,312")

    def test_an_error_is_that_of_the_tables(self):
        """A block that is certainly sampled counts with its own size, however few samples it has."""
        profile = flame_profile.Profile()
        profile.add(["M.main", "Buffer.resize"], live=1, allocated=1)
        self.open(profile, changes={"self": {key: [0, 0, 8 << 20] for key in MEASURES},
                                    "totals": {key: [8 << 20, 40 << 10, 1] for key in MEASURES},
                                    "variance": {key: [0, 0, (40 << 10) ** 2] for key in MEASURES}})
        box = self.frame("Buffer.resize")["box"]
        self.browser.move(box["x"] + 20, box["y"] + 8)
        self.assertIn("8.00 MiB ± 0.04", self.text("#tip"))

    def test_callers(self):
        self.open(self.small, "#m=allocated")
        self.browser.click_on("[data-set=inverted][data-value='1']")
        first = {f["name"]: f["samples"] for f in self.js("flamegraph.frames()") if f["depth"] == 1}
        own = {}
        for node, samples in enumerate(self.small.samples["allocated"]):
            if samples:
                own[self.small.name(node)] = own.get(self.small.name(node), 0) + samples
        self.assertEqual(first, own)
        # List.map allocates 60 + 600 samples, all of them below List.map and Http.parse.
        above = [f for f in self.js("flamegraph.frames()") if f["depth"] == 3 and f["samples"] == 600]
        self.assertEqual([f["name"] for f in above], ["Dune__exe__Http.parse"])
        # Every inverted stack ends in main.
        ends = {}
        for frame in self.js("flamegraph.frames()"):
            ends[frame["name"]] = ends.get(frame["name"], 0) + frame["selfSamples"]
        self.assertEqual({name: n for name, n in ends.items() if n}, {"Dune__exe__Server.main": 2320})
        self.assertAlmostEqual(sum(f["self"] for f in self.js("flamegraph.frames()")),
                               self.small.bytes(2320), places=3)
        self.click_frame("Cache.add")
        self.assertEqual(self.state()["zoomed"]["samples"], 500)

    def test_narrow_frames_are_one_block(self):
        profile = flame_profile.Profile()
        profile.add(["M.wide"], live=10_000, allocated=10_000)
        for i in range(500):
            profile.add([f"M.narrow{i}"], live=1, allocated=1)
        self.open(profile)
        self.assertEqual(self.state()["rows"], 2)
        self.assertEqual(len(self.js("flamegraph.frames()")), 2)
        box = self.frame("M.wide")["box"]
        self.browser.move(box["x"] + box["width"] + 10, box["y"] + 8)
        self.assertIn("500 smaller frames", self.text("#tip"))


class Moving(FlameGraphTest):
    def test_click_zooms_and_back_goes_back(self):
        self.open(self.small)
        self.click_frame("Cache.add")
        state = self.state()
        self.assertEqual(state["zoomed"]["name"], "Dune__exe__Cache.add")
        self.assertEqual(state["zoomed"]["box"]["width"], self.frame("all")["box"]["width"])
        self.assertEqual(self.text("#crumbs").split("\n")[-1], "Dune__exe__Cache.add")
        self.click_frame("Server.handle")  # zooms out to this caller
        self.assertEqual(self.state()["zoomed"]["name"], "Dune__exe__Server.handle")
        self.js("history.back()")
        self.browser.wait_for("flamegraph.state().zoomed.name === 'Dune__exe__Cache.add'")
        self.browser.click_on("#crumbs button")
        self.assertEqual(self.state()["zoomed"]["node"], 0)
        self.click_frame("Cache.add")
        self.browser.click_on("#reset")
        self.assertEqual(self.state()["zoom"], "")

    def test_keyboard(self):
        self.open(self.small)
        self.js("document.querySelector('canvas').focus()")
        path = [("ArrowUp", "all"), ("ArrowUp", "main"), ("ArrowUp", "Server.handle"),
                ("ArrowRight", "load_config"), ("ArrowRight", "caml_alloc_string"),
                ("ArrowLeft", "load_config"), ("ArrowLeft", "Server.handle"),
                ("ArrowUp", "Cache.add"), ("ArrowDown", "Server.handle"),
                ("Home", "all"), ("ArrowUp", "main"), ("ArrowUp", "Server.handle")]
        for key, name in path:
            self.browser.key(key)
            self.assertTrue(self.state()["selected"]["name"].endswith(name), (key, name))
            self.assertIn(name, self.text("#spoken"))
        self.browser.key("Enter")
        self.assertEqual(self.state()["zoomed"]["name"], "Dune__exe__Server.handle")
        self.browser.key("Escape")
        self.assertEqual(self.state()["zoomed"]["node"], 0)
        self.assertIsNone(self.state()["selected"])
        self.browser.key("/")
        self.assertEqual(self.js("document.activeElement.id"), "search")
        self.browser.type("list")
        self.assertEqual(self.state()["search"], "list")
        self.browser.key("Escape")
        self.assertEqual(self.state()["search"], "")
        self.assertEqual(self.js("document.activeElement.tagName"), "CANVAS")

    def test_icicle_has_its_root_above(self):
        self.open(self.small)
        self.assertGreater(self.frame("all")["box"]["y"], self.frame("Cache.add")["box"]["y"])
        self.browser.click_on("[data-set=upwards][data-value='0']")
        self.assertLess(self.frame("all")["box"]["y"], self.frame("Cache.add")["box"]["y"])
        self.js("document.querySelector('canvas').focus()")
        self.browser.key("ArrowDown")
        self.browser.key("ArrowDown")
        self.assertTrue(self.state()["selected"]["name"].endswith("main"))

    def test_search(self):
        self.open(self.small, "#m=allocated")
        plain = self.pixel(self.frame("Cache.add"))
        self.browser.click_on("#search")
        self.browser.type(r"cache|hashtbl\.ml")
        matched = self.small.stacks_with("allocated", lambda name: "Cache" in name or "Hashtbl" in name)
        state = self.state()
        self.assertAlmostEqual(state["matched"]["bytes"], self.small.bytes(matched), places=3)
        self.assertEqual(state["matched"]["functions"], 2)
        self.assertTrue(self.text("#matched").startswith(f"{100 * matched / 2320:.0f} % matched"))
        marked = {f["name"] for f in self.js("flamegraph.frames()") if f["matched"]}
        self.assertEqual(marked, {"Dune__exe__Cache.add", "Stdlib__Hashtbl.replace"})
        self.assertEqual(self.pixel(self.frame("Cache.add")), [0x7c, 0x4d, 0xdb])
        self.js("flamegraph.set({search: 'server.handle'})")  # all its callees belong to it
        self.assertEqual(self.state()["matched"]["bytes"], self.small.bytes(2160))
        self.js("flamegraph.set({search: 'CACHE'})")  # capitals make the search case-sensitive
        self.assertEqual(self.state()["matched"]["bytes"], 0)
        self.js("flamegraph.set({search: 'Cache('})")
        self.assertEqual(self.text("#matched"), "not a regular expression")
        self.js("flamegraph.reset()")
        self.assertIsNone(self.state()["matched"])
        self.assertEqual(self.pixel(self.frame("Cache.add")), plain)

    def test_link_reproduces_the_view(self):
        self.open(self.small)
        self.browser.click_on("#measures input[value=allocated] ~ .value")
        self.browser.click_on("[data-set=colour][data-value=lifetime]")
        self.browser.click_on("[data-set=upwards][data-value='0']")
        self.js("flamegraph.set({search: 'a&b|cache#'})")
        for inverted in (False, True):
            with self.subTest(inverted=inverted):
                self.browser.click_on(f"[data-set=inverted][data-value='{int(inverted)}']")
                self.click_frame("Http.parse")
                state, frames = self.state(), self.frames_without_numbers()
                self.assertEqual(state["zoomed"]["name"], "Dune__exe__Http.parse")
                self.browser.navigate(self.file, self.js("location.hash"))
                after = self.state()
                for part in (after, state):
                    del part["selected"], part["zoomed"]["node"]  # the link does not contain these
                self.assertEqual(after, state)
                self.assertEqual(self.frames_without_numbers(), frames)

    def frames_without_numbers(self):
        """Frames without their nodes, because callers are numbered in the order in which they are first shown."""
        return [{k: v for k, v in frame.items() if k != "node"} for frame in self.js("flamegraph.frames()")]

    def test_nonsense_in_the_link_is_ignored(self):
        for fragment in ("#m=none&zoom=99999&colour=x", "#zoom=-1", "#callers=1&zoom=7.x.3", "#zoom=1e3", "#%"):
            with self.subTest(fragment):
                self.open(self.small, fragment)
                self.assertEqual(self.state()["zoomed"]["node"], 0)
                self.assertEqual(self.state()["measure"], "live")


class Looks(FlameGraphTest):
    def brightness(self, selector):
        colour = self.js(f"getComputedStyle(document.querySelector('{selector}')).backgroundColor")
        return sum(float(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")) / 3

    def test_dark_and_light(self):
        self.open(self.small)
        self.assertGreater(self.brightness("body"), 200)
        light = self.pixel(self.frame("Cache.add"))
        self.browser.emulate_media(prefers_color_scheme="dark")  # while it is open
        self.assertTrue(self.state()["dark"])
        self.assertLess(self.brightness("body"), 60)
        dark = self.pixel(self.frame("Cache.add"))
        self.assertLess(sum(dark), sum(light) * 0.7)

    def test_colours_by_lifetime(self):
        self.open(self.small, "#m=allocated&colour=lifetime")
        cold, hot = self.pixel(self.frame("List.map")), self.pixel(self.frame("Hashtbl.replace"))
        self.assertGreater(cold[2], cold[0])  # 0.4 ms: blue
        self.assertGreater(hot[0], hot[2])    # 200 s: red
        unknown = self.pixel(self.frame("load_config"))
        self.assertLess(max(unknown) - min(unknown), 16)  # nothing died: grey
        self.assertIn("Median lifetime", self.text("#legend"))

    def test_no_lifetimes_no_such_colours(self):
        self.open(self.small, "#colour=lifetime", {"lifetime_p50": []})
        self.assertEqual(self.state()["colour"], "module")
        self.assertTrue(self.js("document.querySelector('[data-value=lifetime]').disabled"))

    def test_follows_the_windows_size_and_density(self):
        self.open(self.small)
        for width, ratio in ((900, 1), (1600, 2), (500, 1.5)):
            with self.subTest(width=width, ratio=ratio):
                self.browser.resize(width, 800, ratio)
                self.browser.wait_for(f"""(() => {{ const c = document.querySelector('canvas');
                    return c.width === Math.round(c.parentNode.clientWidth * {ratio}) &&
                        flamegraph.state().zoomed.box.width === c.parentNode.clientWidth; }})()""")
                self.assertLessEqual(self.js("document.documentElement.scrollWidth"), width)

    def test_has_labels_for_screen_readers(self):
        self.open(self.small)
        self.assertIn("Flame graph of Live", self.js("document.querySelector('canvas').ariaLabel"))
        unnamed = self.js("""[...document.querySelectorAll("button, input")].filter((e) =>
            !(e.innerText?.trim() || e.ariaLabel || e.labels?.[0]?.innerText)).length""")
        self.assertEqual(unnamed, 0)


class Large(FlameGraphTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.forest = flame_profile.forest(100_000)

    def redraw_ms(self):
        """Median time of laying out and drawing, including the pixels."""
        return statistics.median(self.js(f"""(() => {{ {READ_PIXELS}
            const canvas = document.querySelector("canvas"), times = [];
            for (let i = 0; i < 9; ++i) {{
                const began = performance.now();
                flamegraph.redraw();
                readPixels(canvas, 0, 0);  // waits for the drawing
                times.push(performance.now() - began);
            }}
            return times; }})()"""))

    def check_redraw(self, what):
        harness.check_time(self, f"redraw: {what}", self.redraw_ms(), REDRAW_MS)
        self.assertGreater(self.state()["frames"], 0)

    def check_redraws(self, profile):
        self.assertGreaterEqual(len(profile.parent), 100_000)
        self.open(profile, "#m=allocated")
        self.browser.resize(1920, 1080)
        for change in ("{}", "{search: 'm1|stdlib'}", "{colour: 'lifetime', upwards: false}",
                       "{inverted: true}"):
            with self.subTest(change):
                self.js(f"flamegraph.set({change})")
                self.check_redraw(f"{len(profile.parent)} nodes, {change}")

    def test_redraws_100000_nodes_in_time(self):
        self.check_redraws(self.forest)

    def test_redraws_100000_frames_in_time(self):
        self.check_redraws(flame_profile.grid(rows=101))
        self.js("flamegraph.set({inverted: false})")
        self.assertGreaterEqual(self.state()["frames"], 100_000)

    def test_sums_of_100000_nodes(self):
        self.open(self.forest, "#m=promoted")
        sums = self.forest.subtree("promoted")
        frames = self.js("flamegraph.frames(500)")
        self.assertEqual([f["samples"] for f in frames], [sums[f["node"]] for f in frames])

    def test_stacks_10000_deep(self):
        self.open(flame_profile.deep())
        self.assertEqual(self.state()["rows"], 10_001)
        self.check_redraw("10,000 deep")
        self.js("flamegraph.set({zoom: '5000'})")
        zoomed = self.state()["zoomed"]
        self.assertEqual((zoomed["name"], zoomed["samples"]), ("Deep.f4999", 11))
        self.assertTrue(0 < zoomed["box"]["y"] < 900, zoomed)  # scrolled into sight
        self.assertIn("4,995 more", self.text("#crumbs"))
        self.js("flamegraph.set({zoom: '', inverted: true})")
        self.assertEqual(self.state()["rows"], 10_001)
        self.check_redraw("10,000 deep")

    def test_more_callers_than_can_be_drawn(self):
        self.open(flame_profile.deep(every=100), "#callers=1")
        self.assertGreater(self.state()["rows"], 1000)
        self.assertIn("The deepest frames are not drawn", self.text("#legend"))
        self.check_redraw("more callers than can be drawn")
        self.click_frame("Deep.f9999")
        self.assertEqual(self.state()["rows"], 10_001)
        self.assertNotIn("The deepest frames", self.text("#legend"))


class Live(FlameGraphTest):
    """The page that memprofctl writes for a running program."""

    def test_page_of_a_running_program(self):
        program = harness.Target("known_alloc")
        self.addCleanup(program.kill)
        memprofd = harness.Daemon(self.folder, "--pid", program.pid, rate=1e-3)
        self.addCleanup(memprofd.kill)

        def sampling():
            program.command("minor")
            return memprofd.state(program.pid) == "sampling"
        harness.eventually(sampling, "the program is sampled")
        program.command("go 2", timeout=120)
        program.command("full")
        memprofd.settled_sites(program.pid)
        self.file = self.folder / "live.html"
        memprofd.ctl("report", "--pid", program.pid, "-o", "html", "--out", self.file)
        status, text = harness.http_get(f"{memprofd.url}/api/v1/sites?pid={program.pid}&group_by=function")
        self.assertEqual(status, 200)
        answer = json.loads(text)

        self.browser.navigate(self.file)
        self.assertEqual(self.browser.requests[-1], self.file.as_uri())
        self.assertEqual(self.text("h1"), f"known_alloc (pid {program.pid})")
        self.assertIn("no events lost", self.text("#facts"))
        for key in MEASURES:
            with self.subTest(key):
                self.js(f"flamegraph.set({{measure: '{key}'}})")
                self.compare(key, answer)

    def compare(self, key, answer):
        """Compares the root with the total, and allocating frames with the sites of their functions."""
        frames, total = self.js("flamegraph.frames()"), answer["total"][key]
        self.assertGreater(total["bytes"], 0)
        self.assertAlmostEqual(frames[0]["total"], total["bytes"], delta=1)
        self.assertEqual(str(frames[0]["samples"]), total["samples"])
        own = {}
        for frame in frames:
            own[frame["name"]] = own.get(frame["name"], 0) + frame["self"]
        for site in answer["sites"]:
            if ".site_" in site["function"]:  # frames of other functions are too narrow to be drawn
                self.assertAlmostEqual(own.get(site["function"], 0), site[key]["bytes"], delta=1)


if __name__ == "__main__":
    unittest.main()
