# SPDX-License-Identifier: Apache-2.0
"""The page's table of sites, flame graph, callers, filter and search against a live
memprofd; and the page with 10,000 sites. Charts and time: test_page."""

import csv
import decimal
import json
import math
import re
import statistics
import urllib.parse
import xml.etree.ElementTree

import harness
from page_harness import PageTest

SVG = "{http://www.w3.org/2000/svg}"
LIMIT_MS = 100  # for one interaction
ROUNDS = 5 if harness.TIMES else 1
MEASURES = ("live", "allocated", "promoted", "died_young", "died_old")
FLOWS = MEASURES[1:]


def words(estimate):
    """The page's text for an estimate, in the format of daemon/util/units.cc."""
    value, error = estimate["bytes"], estimate["bytes_stderr"]
    if not error:
        return "0 B"
    power = next((p for p in (4, 3, 2, 1) if max(value, error) >= 1024 ** p * 0.9995), 0)
    value, error = value / 1024 ** power, error / 1024 ** power
    decimals = min(4, max(0, -math.floor(math.log10(error)))) if power else 0
    # JavaScript rounds halves up.
    digits = lambda number: str(decimal.Decimal(number).quantize(decimal.Decimal(1).scaleb(-decimals), decimal.ROUND_HALF_UP))
    return f"{digits(value)} {['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]} ± {digits(error)}"


def range_parameters(view, prefix=""):
    return {f"{prefix}range.begin_unix_ns": int(view[0] * 1e3) * 1_000_000,
            f"{prefix}range.end_unix_ns": int(view[1] * 1e3) * 1_000_000}


class PanelTest(PageTest):
    """Uses a past time range, so that a request beside the page returns the same numbers."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        harness.eventually(lambda: cls.recorded() > 9, "9 s are recorded", timeout=90)
        # Windows end at whole seconds after the attach. The last point is in an unfinished
        # second, and disappears when that second ends.
        span = cls.answer("history", **{"selection.pid": cls.server.pid, "points": 300})
        times = [int(point["time_unix_ns"]) / 1e9 for point in span["points"]]
        cls.range = (times[3], times[-2])
        cls.base = (times[0], times[3])

    # Prefixes of the filter's parameters: the page asks for sites of the application only.
    FILTERS = {"sites": ("",), "diff": ("base.", "other."), "history": ("selection.",), "leaks": ("selection.",),
               "callers": ("selection.",)}

    @classmethod
    def answer(cls, endpoint, **parameters):
        for prefix in cls.FILTERS.get(endpoint, ()):
            parameters.setdefault(f"{prefix}filter.frames", "application")
        query = urllib.parse.urlencode(parameters, doseq=True)
        status, text = harness.http_get(f"{cls.url}/api/v1/{endpoint}?{query}", timeout=harness.TIMEOUT)
        if status != 200:
            raise AssertionError(f"{endpoint} answered {status}: {text}")
        return json.loads(text)

    @classmethod
    def recorded(cls):
        span = cls.answer("history", **{"selection.pid": cls.server.pid, "points": 2})["range"]
        return (int(span["end_unix_ns"]) - int(span["begin_unix_ns"])) / 1e9

    def sites_of(self, **parameters):
        """memprofd's answer about the range that the page shows."""
        return self.answer("sites", page_size=1000, pid=self.server.pid, **range_parameters(self.range), **parameters)

    def link(self, tab, compare=False, **parameters):
        begin, end = (int(moment * 1e3) for moment in self.range)
        given = {"pid": self.server.pid, "tab": tab, "live": 0, "begin": begin, "end": end, **parameters}
        if compare:
            given["compare"] = "-".join(str(int(moment * 1e3)) for moment in self.base)
        return urllib.parse.urlencode(given, doseq=True)

    def shown(self, panel):
        return self.browser.wait_for(f"memprofd.{panel}()")

    def open_sites(self, **parameters):
        self.open(self.link("sites", **parameters))
        return self.shown("sites")

    def open_flame(self, **parameters):
        self.open(self.link("flame", **parameters))
        return self.shown("flame")

    def cells(self, selector=".sites-row"):
        return self.js(f"""[...document.querySelectorAll({json.dumps(selector)})].map((row) =>
            [...row.children].map((cell) => (cell.querySelector(".value, .name") ?? cell).innerText))""")

    def save(self, exporter):
        saved = self.folder / f"{self.id().rsplit('.', 1)[1]}-{exporter}"
        saved.mkdir()
        self.browser.save_downloads(saved)
        self.press("Export", "#actions")
        self.browser.wait_for(f"""document.querySelector('[data-export="{exporter}"]:not(:disabled)') !== null""")
        self.browser.click_on(f'[data-export="{exporter}"]')
        done = lambda: [f for f in saved.iterdir() if f.suffix != ".crdownload" and f.stat().st_size > 0]
        return harness.eventually(done, f"{exporter} is saved")[0]

    def bytes_of(self, rows, measure):
        return [row["site"][measure]["bytes"] if row["site"].get(measure) else 0 for row in rows]


class Sites(PanelTest):
    def test_rows_are_what_memprofd_says(self):
        shown = self.open_sites()
        answer = self.sites_of(order="live")
        self.assertEqual(shown["groups"], answer["groups"])
        self.assertGreater(len(answer["sites"]), 20)
        self.assertEqual([(row["name"], row["where"]) for row in shown["rows"]],
                         [(site["function"], f"{site['file']}:{site['line']}" if site["file"] else "")
                          for site in answer["sites"]])
        for cells, site in zip(self.cells(), answer["sites"]):
            wanted = [site["function"], *(words(site[measure]) for measure in MEASURES), f"{int(site['samples']):,}"]
            self.assertEqual(cells[:7], wanted)

    def test_bars_show_value_and_error(self):
        self.open_sites(m="allocated")
        row = self.js("""(() => { const cell = document.querySelector(".sites-row [data-column=allocated]");
            const bar = cell.querySelector(".bar"), whisker = bar.querySelector("b");
            const box = bar.getBoundingClientRect(), error = whisker.getBoundingClientRect();
            return { left: error.left - box.left, right: error.right - box.left, width: box.width }; })()""")
        site = self.sites_of(order="allocated", limit=1)["sites"][0]["allocated"]
        scale = row["width"] / (site["bytes"] + site["bytes_stderr"])
        self.assertAlmostEqual(row["left"], (site["bytes"] - site["bytes_stderr"]) * scale, delta=1.5)
        self.assertAlmostEqual(row["right"], row["width"], delta=1.5)

    def test_sorts_by_each_column(self):
        self.open_sites()
        for key in (*MEASURES, "samples", "lifetime"):
            with self.subTest(key):
                self.browser.click_on(f".sites-head [data-sort={key}]")
                shown = self.browser.wait_for(f"(memprofd.sites() ?? {{}}).sort === '{key}' && memprofd.sites()")
                of = {"samples": lambda s: int(s["samples"]), "lifetime": lambda s: s["lifetime"].get("p50_seconds", s["lifetime"]["watched_seconds"])}
                values = [of.get(key, lambda s: s[key]["bytes"])(row["site"]) for row in shown["rows"]]
                self.assertEqual(values, sorted(values, reverse=True))
                self.assertGreater(values[0], 0)
        self.browser.click_on(".sites-head [data-sort=name]")
        shown = self.browser.wait_for("(memprofd.sites() ?? {}).sort === 'name' && memprofd.sites()")
        names = [row["name"] for row in shown["rows"]]
        self.assertEqual(names[0], min(names, key=str.lower))
        self.assertEqual(self.js("document.querySelector('.sites-head [aria-sort=ascending]').innerText.trim()"), "Site")

    def test_groups(self):
        self.open_sites()
        keys = {"Function": "function", "File": "file", "Module": "module", "Thread": "thread", "Callstack": None}
        for label, key in keys.items():
            with self.subTest(label):
                self.press(label, ".sites-controls")
                shown = self.browser.wait_for(f"(memprofd.sites() ?? {{}}).groupBy === '{label.lower()}' && memprofd.sites()")
                answer = self.sites_of(group_by=label.lower(), order="live")
                self.assertEqual(shown["groups"], answer["groups"])
                self.assertEqual(self.bytes_of(shown["rows"], "live"), self.bytes_of(
                    [{"site": site} for site in answer["sites"]], "live"))
                if key:
                    self.assertEqual([row["site"][key] for row in shown["rows"]], [s[key] for s in answer["sites"]])
                self.assertTrue(all(row["name"] for row in shown["rows"]))

    def test_details_of_a_site(self):
        self.open_sites(m="allocated")
        self.js("document.querySelector('.sites-table').focus()")
        self.browser.key("ArrowDown")
        self.browser.key("Enter")
        site = self.sites_of(order="allocated", limit=1)["sites"][0]
        self.assertEqual(self.text(".site-detail h3"), site["function"])
        numbers = self.text(".site-detail dl")
        for measure in MEASURES:
            self.assertIn(f"{words(site[measure])} in {int(site[measure]['samples']):,} samples", numbers)
        bars = self.js("document.querySelectorAll('.site-detail .histogram .bar').length")
        self.assertEqual(bars, len(site["lifetime"]["buckets"]))
        self.assertEqual(self.js("document.querySelectorAll('.site-detail .histogram .whisker').length"), bars)
        self.assertTrue(self.js("""(() => { const drawn = document.querySelector(".site-detail .histogram");
            return [...drawn.querySelectorAll("text")].every((text) =>
                text.getBoundingClientRect().left >= drawn.getBoundingClientRect().left); })()"""), "no label is cut off")
        stack = self.sites_of(order="allocated", group_by="callstack", pattern=f"^{re.escape(site['function'])}$",
                              limit=1)["sites"][0]["callstack"]
        self.browser.wait_for("document.querySelector('.site-detail .stacks li') !== null")
        frames = self.js("""[...document.querySelector('.site-detail .stacks ol').children].map((li) =>
            li.querySelector("button").innerText)""")
        self.assertEqual(frames, [location["function"] for location in stack])
        self.js("memprofd.update({extra: {...memprofd.view().extra, search: 'bytes|cache|sessions'}})")
        self.browser.wait_for("memprofd.sites()?.rows.length < 15")
        self.panel_picture("page-sites")
        self.js("document.querySelector('.sites-table').focus()")
        self.browser.key("Escape")
        self.browser.wait_for("document.querySelector('.site-detail').hidden")

    def test_table_as_csv(self):
        self.open_sites()
        rows = list(csv.DictReader(self.save("sites-csv").read_text().splitlines()))
        sites = self.sites_of(order="live")["sites"]
        self.assertEqual([row["name"] for row in rows], [site["function"] for site in sites])
        self.assertEqual([float(row["live_bytes_stderr"]) for row in rows], [site["live"]["bytes_stderr"] for site in sites])

    def test_details_stay_while_live(self):
        self.open(f"pid={self.server.pid}&tab=sites&m=allocated")
        self.shown("sites")
        self.browser.click_on(".sites-row")
        name = self.text(".site-detail h3")
        self.js("document.querySelector('.site-detail header button').focus()")
        numbers = self.text(".site-detail dl")
        self.browser.wait_for(f"document.querySelector('.site-detail dl').innerText !== {json.dumps(numbers)}")
        self.assertEqual(self.text(".site-detail h3"), name)
        self.assertEqual(self.js("document.activeElement.innerText"), "Callers")

    def test_growth_finds_the_leak(self):
        # From the first window, in which nothing was live, until enough major collections have ended.
        def named():
            end = int(self.answer("history", **{"selection.pid": self.server.pid, "points": 300})["points"][-2]
                      ["time_unix_ns"]) / 1e9
            leaks = self.answer("leaks", **{"selection.pid": self.server.pid,
                                            **range_parameters((self.base[0], end), "selection.")})["leaks"]
            names = [leak["site"]["function"] for leak in leaks]
            return (end, leaks) if "Demo_server.Sessions.make_session" in names[:2] else None
        end, leaks = harness.eventually(named, "the leak is named", timeout=120)
        self.open(self.link("sites", begin=int(self.base[0] * 1e3), end=int(end * 1e3), **{"x.sites.mode": "growth"}))
        shown = self.shown("sites")
        self.assertEqual({row["name"] for row in shown["rows"]}, {leak["site"]["function"] for leak in leaks})
        self.assertIn("Demo_server.Sessions.make_session", [row["name"] for row in shown["rows"]][:2])
        growth = [row["leak"]["growth_bytes"] for row in shown["rows"]]
        self.assertEqual(growth, sorted(growth, reverse=True))
        leak = shown["rows"][0]["leak"]
        self.assertLess(0, leak["growth_bytes_lower"])
        self.assertLess(leak["growth_bytes"], leak["growth_bytes_upper"])
        self.check_verdict()
        title = lambda column: self.js(f"document.querySelector('.sites-row [data-column={column}]').title")
        self.assertRegex(title("growth"), "^95 % interval: .*B to .*B$")
        self.assertRegex(title("per_second"), "^95 % interval: .*B to .*B/h$")
        saved = list(csv.DictReader(self.save("sites-csv").read_text().splitlines()))
        for part in ("", "_stderr", "_lower", "_upper"):
            self.assertEqual(float(saved[0][f"growth_bytes{part}"]), leak[f"growth_bytes{part}"])

    def check_verdict(self):
        """The first view states without any click that memory leaks, where, how fast and since when."""
        self.browser.wait_for("memprofd.verdict()?.kind === 'leak'")
        verdict = self.js("memprofd.verdict()")
        self.assertRegex(verdict["title"], r"^Something is leaking: \+[\d.]+ \wi?B in [\d.]+ \w+$")
        sessions = next(one for one in verdict["suspects"] if one["name"] == "Demo_server.Sessions.make_session")
        self.assertRegex(sessions["where"], r"demo_server\.ml:\d+$")
        self.assertRegex(sessions["growth"], r"^\+[\d.]+ \wi?B ± [\d.]+$")
        self.assertRegex(sessions["since"], r"^since \d\d:\d\d:\d\d( or earlier)?$")
        self.assertIn("make_session", self.text("#verdict"))
        self.assertLess(self.js("document.querySelector('#verdict').getBoundingClientRect().bottom"), 900, "without scrolling")

    def test_difference_of_two_ranges(self):
        shown = self.open_sites(compare=True, m="allocated")
        self.assertEqual(shown["mode"], "difference")
        answer = self.answer("diff", order="allocated", per_second="true",
                             **{"base.pid": self.server.pid, "other.pid": self.server.pid,
                                **range_parameters(self.base, "base."), **range_parameters(self.range, "other.")})
        self.assertEqual([row["name"] for row in shown["rows"]],
                         [(d["other"] if int(d["other"]["samples"]) else d["base"])["function"] for d in answer["diffs"]])
        seconds = [(int(answer[r]["end_unix_ns"]) - int(answer[r]["begin_unix_ns"])) / 1e9
                   for r in ("base_range", "other_range")]
        for row, diff in zip(shown["rows"], answer["diffs"]):
            before, after = (row["diff"][side]["allocated"]["bytes"] for side in ("base", "other"))
            self.assertAlmostEqual(before, diff["base"]["allocated"]["bytes"] / seconds[0], delta=1)
            self.assertAlmostEqual(after - before, diff["change"], delta=max(1, 1e-6 * abs(diff["change"])))
        first = self.cells()[0]
        self.assertRegex(first[3], r"^[+−][\d.]+ [KM]?i?B ± [\d.]+/s$")

    def test_the_link_reproduces_the_table(self):
        self.open_sites()
        self.press("Function", ".sites-controls")
        self.browser.wait_for("(memprofd.sites() ?? {}).groupBy === 'function'")
        self.browser.click_on(".sites-head [data-sort=allocated]")
        before = self.browser.wait_for("(memprofd.sites() ?? {}).sort === 'allocated' && memprofd.sites()")
        self.browser.navigate(self.js("memprofd.link()"))
        self.browser.wait_for("window.memprofd")
        after = self.shown("sites")
        for part in (before, after):
            del part["tookMs"]
            part["rows"].sort(key=lambda row: (-row["site"]["allocated"]["bytes"], row["name"], row["where"]))  # equal ones

        def rounded(part):
            """Rounds floats: the last digit of a sum depends on the order of its terms."""
            return json.loads(json.dumps(part), parse_float=lambda text: float(f"{float(text):.9g}"))
        self.assertEqual(rounded(after), rounded(before))


class Filters(PanelTest):
    def filled(self, name, text):
        self.browser.click_on(f"#filter-editor [name={name}]")
        self.browser.type(text)
        self.browser.key("Enter")

    def wait_filter(self, **wanted):
        self.browser.wait_for(f"JSON.stringify(memprofd.view().filter) === {json.dumps(json.dumps(wanted, separators=(',', ':')))}")
        return self.shown("sites")

    def same_as(self, shown, **parameters):
        answer = self.sites_of(order="live", **parameters)
        self.assertEqual([row["name"] for row in shown["rows"]], [site["function"] for site in answer["sites"]])
        self.assertEqual(self.bytes_of(shown["rows"], "live"), [site["live"]["bytes"] for site in answer["sites"]])
        return answer["groups"]

    def test_conditions_are_memprofds(self):
        everything = self.open_sites()["groups"]
        self.press("Filter…")
        self.filled("min_size_bytes", "64 B")
        groups = self.same_as(self.wait_filter(min_size_bytes="64"), **{"filter.min_size_bytes": 64})
        self.assertTrue(0 < groups < everything)
        self.assertIn("size ≥ 64 B", self.text("#filter .chip"))
        self.browser.click_on("#filter .chip button")
        self.assertEqual(self.wait_filter()["groups"], everything)
        self.filled("min_lifetime_seconds", "200 ms")
        self.same_as(self.wait_filter(min_lifetime_seconds="0.2"), **{"filter.min_lifetime_seconds": 0.2})
        self.filled("max_lifetime_seconds", "soon")
        self.assertEqual(self.js("document.querySelector('[name=max_lifetime_seconds]').ariaInvalid ?? "
                                 "document.querySelector('[name=max_lifetime_seconds]').getAttribute('aria-invalid')"), "true")
        self.press("Clear", "#filter")
        self.assertEqual(self.wait_filter()["groups"], everything)

    def test_heap_and_fate(self):
        self.open_sites()
        self.press("Filter…")
        for name, value in (("heap", "major"), ("fate", "dead")):
            with self.subTest(name):
                self.js(f"""(() => {{ const select = document.querySelector("#filter-editor [name={name}]");
                    select.value = "{value}"; select.dispatchEvent(new Event("change")); }})()""")
                self.same_as(self.wait_filter(**{name: value}), **{f"filter.{name}": value})
                self.press("Clear", "#filter")
                self.wait_filter()

    def test_required_and_hidden_frames(self):
        self.open_sites()
        self.press("Filter…")
        for field, pattern in (("require", r"Order_parser\.parse"), ("hide", "^Stdlib"), ("forbid", "Cache")):
            with self.subTest(field):
                self.js(f"document.querySelector('#filter-editor select').value = '{field}'")
                self.browser.click_on("#filter-editor .grow input")
                self.browser.type(pattern)
                self.browser.key("Escape")  # closes the suggestions
                self.js("document.querySelector('#filter-editor').hidden || document.querySelector('#filter-editor .grow input').focus()")
                if self.js("document.querySelector('#filter-editor').hidden"):
                    self.press("Filter…")
                self.press("Add", "#filter-editor")
                self.same_as(self.wait_filter(**{field: [pattern]}), **{f"filter.{field}": pattern})
                self.press("Clear", "#filter")
                self.wait_filter()

    def test_search_completes_names(self):
        self.open_sites()
        self.browser.key("/")
        self.assertEqual(self.js("document.activeElement.closest('#search') !== null"), True)
        self.browser.type("make_s")
        self.browser.wait_for("document.querySelector('#search [role=option]') !== null")
        self.assertIn("Demo_server.Sessions.make_session", self.text("#search [role=option]"))
        self.browser.key("ArrowDown")
        self.browser.key("Enter")
        pattern = r"^Demo_server\.Sessions\.make_session$"
        self.browser.wait_for(f"memprofd.view().extra.search === {json.dumps(pattern)}")
        self.assertEqual({row["name"] for row in self.shown("sites")["rows"]}, {"Demo_server.Sessions.make_session"})
        self.browser.click_on("#tab-flame")
        matched = self.shown("flame")["matched"]
        self.assertEqual(matched["functions"], self.js("""new Set(memprofd.flame().frames
            .filter((f) => f.matched).map((f) => f.name + f.location)).size"""))
        self.assertGreater(matched["bytes"], 0)

    def test_search_by_any_part(self):
        self.open_sites()
        self.js("document.querySelector('#search input').focus()")
        self.browser.type("ORDER_P")  # capitals make the search case-sensitive
        self.browser.wait_for("memprofd.view().extra.search === 'ORDER_P'")
        self.assertEqual(self.shown("sites")["rows"], [])
        self.js("document.querySelector('#search input').select()")
        self.browser.type("order_p")
        self.browser.wait_for("memprofd.view().extra.search === 'order_p'")
        names = {row["name"] for row in self.shown("sites")["rows"]}
        self.assertTrue(names)
        self.assertTrue(all("order_p" in name.lower() for name in names), names)
        self.js("document.querySelector('#search input').select()")
        self.browser.type("order(")
        self.browser.wait_for("document.querySelector('#search input').getAttribute('aria-invalid') === 'true'")
        self.assertEqual(self.view()["extra"]["search"], "order_p")


class Flame(PanelTest):
    def profile(self, span=None):
        return self.answer("profile", pids=self.server.pid, format="flame_json", **range_parameters(span or self.range))

    def frame(self, name, flame=None):
        flame = flame or self.shown("flame")
        return next(frame for frame in flame["frames"] if frame["name"].endswith(name))

    def click_frame(self, name):
        self.js("document.querySelector('#flame .graph').scrollIntoView({block: 'center'})")
        box = self.frame(name)["box"]
        self.browser.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def wait_zoom(self, name):
        return self.browser.wait_for(f"(memprofd.flame()?.zoomed.name ?? '') === {json.dumps(name)} && memprofd.flame()")

    def test_frames_are_what_memprofd_says(self):
        self.open_flame()
        profile = self.profile()
        for measure in MEASURES:
            with self.subTest(measure):
                self.js(f"memprofd.update({{measure: '{measure}'}})")
                flame = self.browser.wait_for(f"(memprofd.flame() ?? {{}}).measure === '{measure}' && memprofd.flame()")
                total, _, samples = profile["totals"][measure]
                self.assertEqual((flame["frames"][0]["total"], flame["frames"][0]["samples"]), (total, samples))
                by_name = {}
                for node, own in enumerate(profile["self"][measure]):
                    if own:
                        name = profile["strings"][profile["functions"][profile["function"][node]][0]]
                        by_name[name] = by_name.get(name, 0) + own
                shown = {}
                for frame in flame["frames"]:
                    shown[frame["name"]] = shown.get(frame["name"], 0) + frame["self"]
                for name, own in by_name.items():
                    if own > total / 50:  # narrower frames may not be drawn
                        self.assertAlmostEqual(shown[name], own, delta=total / 100)

    def test_zooms_and_goes_back(self):
        self.open_flame(m="allocated")
        self.click_frame("Server.respond")
        flame = self.wait_zoom("Demo_server.Server.respond")
        self.assertEqual(flame["zoomed"]["box"]["width"], flame["frames"][0]["box"]["width"])
        self.js("history.back()")
        self.wait_zoom("all")
        self.js("document.querySelector('#flame canvas').focus()")
        for key, name in (("Home", "all"), ("ArrowUp", "Thread.create.(fun)"),
                          ("ArrowUp", "Demo_server.Server.serve_connection")):
            self.browser.key(key)
            self.assertEqual(self.shown("flame")["selected"]["name"], name)
        self.browser.key("Enter")
        self.wait_zoom("Demo_server.Server.serve_connection")
        self.browser.key("Escape")
        self.wait_zoom("all")

    def test_zoom_holds_while_live_and_in_the_link(self):
        for order in ("callees", "callers"):
            with self.subTest(order):
                self.open(f"pid={self.server.pid}&tab=flame&m=allocated&x.flame.order={order}")
                name = "Cache.copy" if order == "callers" else "Cache.find_or_add"
                self.browser.wait_for(f"(memprofd.flame()?.frames ?? []).some((f) => f.name.endsWith('{name}'))")
                self.click_frame(name)
                zoomed = self.wait_zoom(f"Demo_server.{name}")["zoomed"]
                later = self.browser.wait_for(f"memprofd.flame()?.zoomed.samples > {zoomed['samples']} && memprofd.flame()")
                self.assertEqual((later["zoomed"]["name"], later["zoomed"]["depth"]), (zoomed["name"], zoomed["depth"]))
                self.browser.navigate(self.js("memprofd.link()"))
                self.browser.wait_for("window.memprofd && memprofd.flame()")
                self.wait_zoom(f"Demo_server.{name}")

    def test_callers(self):
        self.open_flame(m="allocated")
        self.press("Callers", "#flame")
        flame = self.browser.wait_for("memprofd.flame()?.inverted && memprofd.flame()")
        first = {}
        for frame in flame["frames"]:
            if frame["depth"] == 1:
                first[frame["name"]] = first.get(frame["name"], 0) + frame["samples"]
        for site in self.sites_of(group_by="function", order="allocated", limit=5, **{"filter.frames": "all"})["sites"]:
            self.assertEqual(first[site["function"]], int(site["samples"]))

    def test_icicle(self):
        self.open_flame()
        self.assertGreater(self.frame("all")["box"]["y"], self.frame("make_session")["box"]["y"])
        self.press("Icicle", "#flame")
        self.browser.wait_for("memprofd.flame()?.upwards === false")
        self.assertLess(self.frame("all")["box"]["y"], self.frame("make_session")["box"]["y"])

    def test_difference_of_two_ranges(self):
        flame = self.open_flame(compare=True, m="allocated")
        self.assertTrue(flame["isDifference"])
        self.assertEqual(flame["colour"], "change")
        root = flame["frames"][0]
        for side, span in (("before", self.base), ("after", self.range)):
            profile = self.profile(span)
            seconds = (profile["end_unix_ms"] - profile["begin_unix_ms"]) / 1e3
            self.assertAlmostEqual(root[side], profile["totals"]["allocated"][0] / seconds, delta=2)
        self.assertAlmostEqual(root["total"], (root["before"] + root["after"]) / 2, delta=2)
        self.press("After", "#flame")
        self.browser.wait_for(f"Math.abs(memprofd.flame()?.frames[0].total - {root['after']}) < 2")
        self.assertIn("/s", self.text("#flame .total"))

    def test_what_is_new_stands_out(self):
        """Sessions leak: their live bytes grow between two moments by far more than the error."""
        begin = int(self.base[0] * 1e3)
        self.open(self.link("flame", compare=True, begin=begin))
        flame = self.shown("flame")
        session = self.frame("Sessions.make_session", flame)
        self.assertGreater(session["change"], 3 * session["error"])
        self.assertAlmostEqual(session["after"] - session["before"], session["change"], delta=1)
        colour = self.js(f"""(() => {{ const canvas = document.querySelector("#flame canvas");
            canvas.scrollIntoView({{block: "center"}});
            const frame = memprofd.flame().frames.find((f) => f.node === {session["node"]});
            const at = canvas.getBoundingClientRect(), ratio = canvas.width / at.width;
            const data = canvas.getContext("2d").getImageData((frame.box.x + frame.box.width * 0.96 - at.x) * ratio,
                (frame.box.y + 3 - at.y) * ratio, 1, 1).data;
            return [...data].slice(0, 3); }})()""")
        self.assertGreater(colour[0], colour[2] + 20)  # red
        self.browser.emulate_media(prefers_color_scheme="dark")
        self.panel_picture("page-difference")

    def test_menu_of_a_frame(self):
        self.open_flame(m="allocated")
        self.js("document.querySelector('#flame canvas').focus()")
        for _ in range(3):
            self.browser.key("ArrowUp")
        self.js("""document.querySelector("#flame canvas").dispatchEvent(new MouseEvent("contextmenu",
            {bubbles: true, cancelable: true, button: 0}))""")
        self.assertEqual(self.js("document.activeElement.innerText"), "Zoom here")
        self.press("Only callstacks with it", ".menu")
        pattern = r"^Demo_server\.Server\.serve_connection$"
        self.browser.wait_for(f"(memprofd.view().filter.require ?? [])[0] === {json.dumps(pattern)}")
        total = self.shown("flame")["frames"][0]["total"]
        wanted = self.sites_of(**{"filter.require": pattern})["total"]["allocated"]["bytes"]
        self.assertAlmostEqual(total, wanted, delta=2)

    def test_tooltip(self):
        self.open_flame(m="allocated")
        self.panel_picture("page-flame")
        self.js("document.querySelector('#flame .graph').scrollIntoView({block: 'center'})")
        frame = self.frame("Cache.find_or_add")
        self.browser.move(frame["box"]["x"] + 8, frame["box"]["y"] + 8)
        tip = self.text("#flame .tip")
        self.assertIn("Demo_server.Cache.find_or_add", tip)
        self.assertIn(words({"bytes": frame["total"], "bytes_stderr": frame["error"]}), tip)

    def test_exports(self):
        flame = self.open_flame(m="allocated")
        svg = self.save("flame-svg")
        self.assertEqual(svg.name, f"demo_server-{self.server.pid}-allocated.svg")
        root = xml.etree.ElementTree.parse(svg).getroot()
        titles = [title.text or "" for title in root.iter(SVG + "title")]
        self.assertTrue(any(title.startswith("Demo_server.Cache.copy\n") for title in titles))
        self.assertIn(f"{round(flame['frames'][0]['total'])} bytes", titles[0])
        png = self.save("flame-png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(int.from_bytes(png[16:20], "big"), 2000)
        self.assertGreater(len(png), 10_000)
        lines = self.save("flame-collapsed").read_text().splitlines()
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines), flame["frames"][0]["total"])
        self.assertTrue(any(line.startswith("Thread.create.(fun);Demo_server.Server.serve_connection;") for line in lines))


class Callers(PanelTest):
    def open_callers(self, pattern, **parameters):
        self.open(self.link("callers", **{"x.callers.of": pattern, **parameters}))
        self.browser.wait_for("document.querySelector('.callers-parts .of') !== null")

    def list(self, which):
        return self.js(f"""[...document.querySelectorAll(".callers-parts .card")[{which}].querySelectorAll("li")].map((li) =>
            [li.querySelector("button").innerText, li.querySelector(".value").innerText.split("(")[0].trim()])""")

    def test_lists_are_what_memprofd_says(self):
        pattern = r"^Demo_server\.Server\.respond$"
        self.open_callers(pattern, m="allocated")
        answer = self.answer("callers", function=pattern, order="allocated",
                             **{"selection.pid": self.server.pid, **range_parameters(self.range, "selection.")})
        for which, key in ((0, "callers"), (2, "callees")):
            wanted = [[site["function"], words(site["allocated"])] for site in answer[key] if site["allocated"]["bytes"] > 0]
            self.assertEqual(self.list(which), wanted)
            self.assertTrue(wanted)
        self.assertIn(words(answer["total"]["allocated"]), self.text(".callers-parts .of"))
        self.panel_picture("page-callers")

    def test_walks_from_function_to_function(self):
        self.open_callers(r"^Demo_server\.Server\.respond$", m="allocated")
        self.browser.click_on(".callers-parts .card:last-child li button")
        name = self.browser.wait_for("""memprofd.view().extra["callers.of"] !== "^Demo_server\\\\.Server\\\\.respond$" &&
            document.querySelector(".callers-parts .of h3").innerText !== "Demo_server.Server.respond" &&
            document.querySelector(".callers-parts .of h3").innerText""")
        self.assertIn("Demo_server.Server.respond", [caller for caller, _ in self.list(0)])
        self.js("history.back()")
        self.browser.wait_for("document.querySelector('.callers-parts .of h3').innerText === 'Demo_server.Server.respond'")
        self.assertNotEqual(name, "Demo_server.Server.respond")

    def test_nothing_found_says_so(self):
        self.open_callers("no_such_function")
        self.assertIn("No callstack with a function that matches no_such_function", self.text(".callers-head"))


class Large(PageTest):
    """10,000 sites of a real program."""

    @classmethod
    def start_server(cls):
        cls.server = cls.start(harness.Target("many_sites"))
        cls.daemon = cls.start(harness.Daemon(cls.folder, "--pid", cls.server.pid, rate=1e-2))

        def sampling():
            cls.server.command("go 1")
            return cls.daemon.state(cls.server.pid) == "sampling"
        harness.eventually(sampling, "many_sites is sampled")
        cls.server.command("go 60", timeout=120)
        cls.server.command("full", timeout=120)
        cls.url = cls.daemon.url

        def groups():
            status, text = harness.http_get(f"{cls.url}/api/v1/sites?pid={cls.server.pid}&limit=1", timeout=30)
            return status == 200 and json.loads(text)["groups"] >= 10_000
        harness.eventually(groups, "10,000 sites are there")

    def setUp(self):
        super().setUp()
        self.open(f"pid={self.server.pid}&tab=sites&m=allocated")
        self.js("memprofd.update({live: false, end: Date.now()})")  # so that only the test causes work
        self.browser.wait_for("memprofd.sites()")
        self.js("""(() => { window.slow = [];
            new PerformanceObserver((list) => { for (const e of list.getEntries())
                if (e.interactionId > 0) slow.push(e.duration); })
                .observe({type: "event", durationThreshold: 16}); })()""")

    def cpu_ms(self):
        """CPU time of the page's thread so far."""
        metrics = self.browser.call("Performance.getMetrics")["metrics"]
        return 1e3 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def check_interactions(self, what, act):
        """Checks the time from each input to the next frame, measured by the browser, and the
        page's CPU time per input. The best of a few rounds counts."""
        taken = []
        self.browser.call("Performance.enable", timeDomain="threadTicks")
        for _ in range(ROUNDS):
            self.js("slow.length = 0")
            began = self.cpu_ms()
            inputs = act()
            self.browser.settle()
            cpu = (self.cpu_ms() - began) / inputs
            median = statistics.median(self.js("slow") or [16])  # the browser reports no shorter ones
            taken.append((max(median, cpu), median, cpu))
            if max(taken[-1]) <= LIMIT_MS:
                break
        _, median, cpu = min(taken)
        harness.check_time(self, what, median, LIMIT_MS)
        harness.check_time(self, f"{what}, CPU", cpu, LIMIT_MS)

    def test_table(self):
        shown = self.js("memprofd.sites()")
        self.assertGreaterEqual(shown["groups"], 10_000)
        self.assertEqual(len(shown["rows"]), 500)

        def sort():
            for key in ("live", "lifetime", "allocated", "name"):
                self.browser.click_on(f".sites-head [data-sort={key}]")
            self.browser.wait_for(f"(memprofd.sites() ?? {{}}).sort === '{key}'")
            return 4
        self.check_interactions("sort 500 of 10,000", sort)

    def test_all_rows(self):
        self.browser.click_on(".sites-controls .button")
        self.browser.wait_for("(memprofd.sites() ?? {rows: []}).rows.length >= 10000")
        self.js("document.querySelector('.sites-table').focus()")

        def move():
            for key in ("End", "ArrowUp", "Home", "ArrowDown", "ArrowDown"):
                self.browser.key(key)
            return 5
        self.check_interactions("move in 10,000 rows", move)
        self.assertLess(self.js("document.querySelectorAll('.sites-row').length"), 60)
        self.assertEqual(self.js("document.querySelector('.sites-row[aria-selected=true]').ariaRowIndex ?? "
                                 "document.querySelector('.sites-row[aria-selected=true]').getAttribute('aria-rowindex')"), "4")
        self.browser.key("End")
        last = self.js("memprofd.sites().rows.at(-1).name")
        self.assertEqual(self.text(".sites-row[aria-selected=true] .name"), last)

        def sort():
            for key in ("promoted", "allocated", "samples", "allocated"):
                self.browser.click_on(f".sites-head [data-sort={key}]")
            return 4
        self.check_interactions("sort 10,000 rows", sort)

    def test_search_and_filter(self):

        def search():
            self.js("document.querySelector('#search input').focus()")
            self.js("document.querySelector('#search input').select()")
            for letter in "site_04":
                self.browser.key(letter)
            self.browser.wait_for("memprofd.view().extra.search === 'site_04' && memprofd.sites()")
            return len("site_04")
        self.check_interactions("search", search)
        names = self.js("memprofd.sites().rows.map((row) => row.name)")
        self.assertEqual(len(names), 100)
        self.assertTrue(all(".site_04" in name for name in names))

    def test_flame_graph(self):
        self.browser.click_on("#tab-flame")
        self.browser.wait_for("memprofd.flame()")
        nodes = self.js("memprofd.flame(1).frames[0].samples")
        self.assertGreater(nodes, 10_000)
        self.js("memprofd.update({live: false, end: Date.now()})")
        self.browser.wait_for("memprofd.flame()")

        def change():
            for label in ("Callers", "Callees", "Icicle", "Flame", "Lifetime", "Module", "Live", "Allocated"):
                self.press(label, "#flame")
            self.js("document.querySelector('#flame canvas').focus()")
            for key in ("Home", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowRight", "Enter", "Escape"):
                self.browser.key(key)
            return 15
        self.check_interactions("flame graph of 10,000 sites", change)


del PageTest, PanelTest  # they contain no tests themselves
