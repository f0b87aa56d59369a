# SPDX-License-Identifier: Apache-2.0
"""Published values on the page at /, at any recorded moment: the table, plots beside memory, phases on every chart, the
log, pauses, graphs."""

import itertools
import json
import math
import time

import harness
from api import post
from page_harness import PICTURE_SECONDS, PageTest

SCRIPT = "<img src=x onerror=document.title='broken'>"


class ValuesTest(PageTest):
    options = ()

    @classmethod
    def start_server(cls):
        cls.server = cls.start(harness.Target("reports"))
        cls.other = cls.start(harness.Target("demo_server", "--self-load", "1"))
        cls.daemon = cls.start(harness.Daemon(cls.folder, "--pid", cls.server.pid, "--pid", cls.other.pid,
                                              *cls.options, rate=1e-3))
        cls.url = cls.daemon.url
        cls.daemon.wait_state(cls.other.pid, "sampling")
        cls.server.command("set 41")
        cls.server.command("hit 100")
        cls.server.command("time 3")
        cls.wait_recorded(cls(), 3)

    def open_values(self, extra="", pid=None):
        self.open(f"pid={pid or self.server.pid}&tab=values{extra}")

    def told(self):
        return self.js("memprofd.values()")

    def rows(self):
        return {row["name"]: row for row in self.told()["rows"]}

    def wait_row(self, name, **cells):
        """Waits until the row of this name has these texts."""
        wanted = json.dumps({"name": name, **cells})
        self.browser.wait_for(f"""memprofd.values().rows.some((row) =>
            Object.entries({wanted}).every(([key, text]) => row[key] === text))""")

    def toggle(self, name, label):
        self.js(f"""[...document.querySelectorAll('#values .value-rows tr')].find(
            (row) => row.cells[0].textContent === {json.dumps(name)}).querySelectorAll('td:last-child button')
            .forEach((one) => {{ if (one.textContent === {json.dumps(label)}) one.click(); }})""")

    def line_of(self, plot):
        return self.js(f"""document.querySelectorAll('#values .value-plot .said')[{plot}].textContent""")


class Values(ValuesTest):
    options = ("--web.enable-control",)

    def test_all_kinds_are_in_the_table(self):
        self.open_values()
        self.wait_row("count", kind="value", value="41 things")
        rows = self.rows()
        self.assertEqual("400 requests", rows["requests{route=/a}"]["value"])
        self.assertEqual("−100 requests", rows["requests{route=/b}"]["value"])
        self.assertRegex(rows["handling"]["value"], r"^3 times, \d")
        self.assertRegex(rows["waiting{queue=in}"]["value"], r"1 running$")
        self.assertRegex(rows["table"]["value"], r"^Hashtbl of 41 in \d+ buckets, .* chains of 1: ")
        self.assertEqual(f'"{"w" * 41}"', rows["word"]["value"])
        self.assertEqual("1", rows["flag"]["value"])
        self.server.command("mark 100")  # functions are evaluated after its collections
        self.browser.wait_for("memprofd.values().rows.some(({name, value}) => name === 'failing' && value.includes('exception'))")
        self.browser.wait_for("""memprofd.values().rows.some(({name, value}) => name === 'marked{kind=record}' && value.startsWith('50 marked, '))""")
        self.js("memprofd.update({extra: {'values.names': 'c_'}})")
        self.browser.wait_for("memprofd.values().rows.length === 5")
        self.assertTrue(all("c_" in name for name in self.rows()))

    def test_plots_share_the_axis_with_memory(self):
        self.open_values()
        self.wait_row("count", kind="value")
        self.toggle("count", "value")
        self.toggle("requests{route=/a}", "per second")
        self.browser.wait_for("memprofd.values().plots.length === 3")
        self.assertRegex(self.line_of(0), r"^Memory: heap ")
        self.browser.wait_for("memprofd.values().plots[1].last === '41 things'")
        self.server.command("set 77")
        self.browser.wait_for("memprofd.values().plots[1].last === '77 things'")
        boxes = [self.js(f"""(() => {{ const b = document.querySelectorAll('#values .u-over')[{i}].getBoundingClientRect();
            return [b.x, b.width]; }})()""") for i in range(3)]
        self.assertEqual([boxes[0]] * 3, boxes)
        main = self.js("(() => { const b = document.querySelector('#charts .u-over').getBoundingClientRect(); return [b.x, b.width]; })()")
        self.assertAlmostEqual(main[0], boxes[0][0], delta=60)
        self.check_address()
        self.live_a_while()
        self.server.command("set 41")
        self.panel_picture("page-values")
        self.toggle("count", "value")
        self.toggle("requests{route=/a}", "per second")
        self.browser.wait_for("memprofd.values().plots.length === 0")

    def live_a_while(self):
        """Produces varied values, so that the documents' picture shows some."""
        until = time.monotonic() + PICTURE_SECONDS
        for n in itertools.count():
            if time.monotonic() >= until:
                return
            self.server.command(f"set {300 + round(250 * math.sin(n / 9))}")
            self.server.command(f"hit {20 + n % 40}")
            self.server.command(f"time {n % 50}")
            if n % 40 in (5, 25):
                self.server.command(f"phase {'enter' if n % 40 == 5 else 'leave'}")
            if n % 10 == 0:
                self.server.command(f"log batch {n // 10} of orders is taken in")
            time.sleep(0.25)

    def check_address(self):
        """The page's address contains the plots."""
        self.open(self.js("location.hash").lstrip("#"))
        self.browser.wait_for("memprofd.values().plots.length === 3")

    def recorded_at(self, name, number):
        """The time in ms of the history's latest number, once that is `number`."""
        answer = self.ask("value_history", pid=self.server.pid, points=10_000, pattern=f"^{name}$")
        lasts = [float(last) for last in answer["series"][0]["lasts"]]
        return int(answer["times_unix_ns"][-1]) / 1e6 if lasts[-1:] == [number] else None

    def test_the_cursor_goes_back(self):
        """In the past the values are those of that time, as on the whole page; Replay returns to the present."""
        self.open_values()
        self.server.command("set 50")
        self.wait_row("count", value="50 things")
        middle = harness.eventually(lambda: self.recorded_at("count", 50), "50 things are recorded")
        self.server.command("set 60")
        self.wait_row("count", value="60 things")
        self.js(f"memprofd.update({{live: false, end: {middle}}})")
        self.wait_row("count", value="50 things")
        self.assertRegex(self.text("#values .values-controls"), "as at ")
        self.press("▶ Replay", "#time")
        self.browser.wait_for("memprofd.view().live")
        self.wait_row("count", value="60 things")
        self.server.command("set 41")

    def test_an_answer_that_comes_late_is_not_shown(self):
        """The answer is about a past moment that the page has left, and no other request is outstanding."""
        has_text = "memprofd.values().rows.some(({name, value}) => name === 'word' && value.startsWith('\"'))"
        self.open_values()
        self.browser.wait_for(has_text)
        self.js("""(() => { const ask = window.fetch; window.asked = 0; window.quiet = false;
            window.fetch = async (url, ...rest) => {
                if (!String(url).includes("value")) return ask(url, ...rest);
                if (window.quiet) return new Promise(() => {});
                if (String(url).includes("value_lines") && !memprofd.view().live) await new Promise((go) => { window.letGo = go; });
                window.asked++;
                try { return await ask(url, ...rest); } finally { window.asked--; }
            }; })()""")
        self.js("memprofd.update({live: false, end: memprofd.recorded().now})")
        self.browser.wait_for("window.letGo !== undefined")
        self.js("memprofd.update({live: true, end: undefined, axis: undefined})")
        self.browser.wait_for(has_text)
        self.js("window.quiet = true")
        self.browser.wait_for("window.asked === 0")
        self.js("(async () => { window.letGo(); await new Promise((go) => setTimeout(go, 100)); })()")
        self.browser.wait_for("window.asked === 0")
        self.browser.settle()
        self.assertTrue(self.js(has_text), "only the program's present has texts")

    def test_phases_are_on_every_chart(self):
        self.server.command("phase enter")
        self.open_values()
        self.js("memprofd.update({charts: [{pid: memprofd.view().pid, groupBy: 'module', measure: 'allocated'}]})")
        self.browser.wait_for("memprofd.charts().length === 2 && memprofd.charts().every((one) => one.phases?.length > 0)")
        last = self.chart()["phases"][-1]
        self.assertEqual(("load", None), (last["name"], last.get("end")))
        self.server.command("phase leave")
        self.browser.wait_for("memprofd.charts().every((one) => one.phases.at(-1).end > one.phases.at(-1).begin)")
        self.js("memprofd.update({charts: []})")
        painted = """(() => { const canvas = document.querySelector('#charts canvas'), context = canvas.getContext('2d');
            const { begin, end } = memprofd.axis(), phase = memprofd.charts()[0].phases.at(-1);
            const over = document.querySelector('#charts .u-over').getBoundingClientRect(), at = canvas.getBoundingClientRect();
            const x = over.x - at.x + over.width * ((phase.begin + phase.end) / 2 - begin) / (end - begin);
            return [...context.getImageData(Math.round(x * devicePixelRatio), Math.round((over.y - at.y + 1) * devicePixelRatio), 1, 1).data]; })()"""
        self.browser.wait_for(f"{painted}.some((part) => part > 0)")  # the bar, after the next repaint of the chart

    def test_the_log_is_text(self):
        self.open_values()
        self.browser.wait_for("memprofd.values().rows.length > 5")
        self.server.command(f"log {SCRIPT}")
        self.browser.wait_for(f"memprofd.values().lines.some(({{text}}) => text === {json.dumps(SCRIPT)})")
        self.browser.wait_for(f"[...document.querySelectorAll('#values .log-lines span')].some((one) => one.textContent === {json.dumps(SCRIPT)})")
        self.assertEqual(0, self.js("document.querySelectorAll('#values img').length"))
        self.assertEqual("memprofd", self.js("document.title"))

    def test_a_pause_stops_the_page(self):
        """The page stays at that moment, and the program resumes on request."""
        self.open_values()
        self.browser.wait_for("memprofd.values().rows.length > 5")
        self.addCleanup(self.go_on)
        self.server.send(f"pause {SCRIPT.replace(' ', '_')} 3600000")
        self.browser.wait_for("memprofd.view().live === false")
        self.assertIn("has reached a pause point", self.text("#notice"))
        pause = next(line for line in self.told()["lines"] if line["isPause"])
        self.assertAlmostEqual(pause["ms"], self.view()["end"], delta=2)
        self.js("memprofd.update({live: true, end: undefined, axis: undefined})")
        self.browser.wait_for("document.querySelector('#values .values-controls button').hidden === false")
        self.press("Go on", "#values")
        self.assertTrue(json.loads(self.server.read_line())["resumed"])
        self.browser.wait_for("document.querySelector('#values .values-controls button').hidden")
        self.assertEqual(0, self.js("document.querySelectorAll('#values img').length"))

    def go_on(self):
        """Resumes the program if it still waits."""
        status, text = post(self.daemon, "resume", pid=self.server.pid)
        self.assertEqual(200, status, text)
        if json.loads(text).get("waiting"):
            self.server.read_line()

    def test_a_value_is_a_graph(self):
        """Each block is drawn once: one leaf has two holders, and one edge leads back."""
        self.open_values()
        self.wait_row("graph", kind="value")
        self.browser.wait_for("!document.querySelector('#values tr[data-id=\"value graph\"] button.graph').hidden")
        self.js("document.querySelector('#values tr[data-id=\"value graph\"] button.graph').click()")
        self.browser.wait_for("document.querySelectorAll('#values g.block').length === 10")
        self.assertEqual((1, 11), (self.js("document.querySelectorAll('#values g.shared').length"),
                                   self.js("document.querySelectorAll('#values path.edge').length")))
        self.assertGreater(self.js("document.querySelectorAll('#values path.back').length"), 0)
        self.assertIn("10 blocks; 1 held by several", self.text("#values .value-graph"))

    def click(self, name, which):
        self.js(f"""[...document.querySelectorAll('#values .value-rows tr')].find(
            (row) => row.cells[0].textContent === {json.dumps(name)}).querySelector({json.dumps(which)}).click()""")

    def test_observations_are_switched(self):
        """With control enabled, one can switch one observation or all found ones, and set a function's period."""
        self.open_values()
        self.wait_row("ratio", kind="value")
        self.browser.wait_for("!document.querySelector('#values tr[data-id=\"value ratio\"] button.switch').hidden")
        self.click("ratio", "button.switch")
        self.wait_row("ratio", value="(off)")
        self.assertEqual("On", self.js("document.querySelector('#values tr[data-id=\"value ratio\"] button.switch').textContent"))
        self.click("ratio", "button.switch")
        self.browser.wait_for("memprofd.values().rows.some(({name, value}) => name === 'ratio' && value !== '(off)')")
        self.js("memprofd.update({extra: {'values.names': 'requests{'}})")
        self.browser.wait_for("memprofd.values().rows.length === 3")
        self.press("All off", "#values")
        self.wait_row("requests{route=/a}", value="(off)")
        self.wait_row("requests{route=/b}", value="(off)")
        self.press("All on", "#values")
        self.browser.wait_for("memprofd.values().rows.every(({value}) => value !== '(off)')")
        self.js("memprofd.update({extra: {}})")
        self.wait_row("ratio", kind="value")
        self.assertEqual([True, False], self.js("""['ratio', 'half'].map((name) =>
            document.querySelector(`#values tr[data-id="value ${name}"] select`).hidden)"""), "functions have periods")
        self.js("""(() => { const period = document.querySelector('#values tr[data-id="value half"] select');
            period.value = '10000'; period.dispatchEvent(new Event('change')); })()""")
        self.browser.wait_for("""document.querySelector('#values tr[data-id="value half"] select').title.includes('10000 ms')""")
        self.assertRegex(self.daemon.stderr(), r"adjust '\^half\$' \(period 10000 ms\) by 127.0.0.1.*: done")

    def test_timers_have_limits(self):
        self.open_values()
        self.browser.wait_for("memprofd.values().rows.some(({name, value}) => name === 'handling' && /; 50 % within .* 99 % /.test(value))")

    def test_values_of_modules_are_kept(self):
        """Without published values too, selected module values become rows with plots, until they are forgotten."""
        self.open_values(pid=self.other.pid)
        self.browser.wait_for("!document.querySelector('#values .modules').hidden")
        self.js("""(() => { document.querySelector('#values .modules input').value = '^Demo_server';
            document.querySelector('#values .modules form').requestSubmit(); })()""")
        self.browser.wait_for("document.querySelectorAll('#values .value-modules tr').length > 5")
        name = self.js("""(() => { const row = [...document.querySelectorAll('#values .value-modules tr')].find(
            (row) => row.cells[1].textContent.startsWith('ref 1500')); row.querySelector('button.keep').click();
            return row.cells[0].textContent; })()""")
        self.browser.wait_for(f"memprofd.values().rows.some((row) => row.name === {json.dumps(name)} && row.value === '1,500')")
        self.toggle(name, "value")
        self.browser.wait_for("memprofd.values().plots.length === 2")
        self.toggle(name, "value")
        self.click(name, "button.forget")
        self.browser.wait_for(f"document.querySelector('#values tr[data-id=\"value {name}\"] button.forget').hidden")

    def test_modules_of_any_program(self):
        self.open_values(pid=self.other.pid)
        self.browser.wait_for("document.querySelector('#values output').textContent.includes('publishes no values')")
        self.js("""(() => { document.querySelector('#values .modules input').value = '^Demo_server';
            document.querySelector('#values .modules form').requestSubmit(); })()""")
        self.browser.wait_for("document.querySelectorAll('#values .value-modules tr').length > 5")
        self.js("document.querySelector('#values .value-modules button').click()")
        self.browser.wait_for("document.querySelector('#values .value-graph h3')?.textContent.startsWith('Demo_server[')")


class WithoutControl(ValuesTest):
    """Numbers and phases are shown, as in metrics; contents, lines and graphs are not."""

    def test_numbers_alone(self):
        self.open_values()
        self.wait_row("count", value="41 things")
        rows = self.rows()
        self.assertEqual("size 41", rows["word"]["value"])
        self.assertNotIn("failing", rows)
        self.assertIn("--web.enable-control", self.text("#values .value-log"))
        self.assertTrue(self.js("document.querySelector('#values .modules form').hidden"))
        self.assertIn("--web.enable-control", self.text("#values .modules"))
        self.assertTrue(self.js("[...document.querySelectorAll('#values button.graph, #values .value-rows .switches > *')].every((one) => one.hidden)"))
        self.assertTrue(self.js("[...document.querySelectorAll('#values .values-controls .switches')].every((one) => one.hidden)"))


if __name__ == "__main__":
    import unittest
    unittest.main()
