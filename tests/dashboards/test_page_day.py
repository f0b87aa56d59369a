# SPDX-License-Identifier: Apache-2.0
"""The page with ten thousand sites and a day of history (tests/bench/simulated_day.h): its
contents and reaction times. The browser measures a reaction from the event to the next
painted frame (Event Timing API)."""

import json
import statistics
import time

import harness
from page_harness import PageTest

REACTION_MS = 100
REPEATS = 5 if harness.TIMES else 2
DAY_TIMEOUT = 400  # seconds to simulate a day, on a busy machine
PID = 1
VIEW = "JSON.stringify(memprofd.view())"
OBSERVE = """(() => { window.reactions = [];
    new PerformanceObserver((list) => { for (const e of list.getEntries()) reactions.push(e.duration); })
        .observe({type: "event", durationThreshold: 16}); })()"""


class DayServer(harness.Process):
    def __init__(self):
        super().__init__([harness.BUILD / "tests" / "day_server", *([] if harness.TIMES else ["coarse"])])
        words = self.read_line(DAY_TIMEOUT).split()
        self.url = f"http://127.0.0.1:{words[1]}"


class Day(PageTest):
    @classmethod
    def start_server(cls):
        cls.day = cls.start(DayServer())
        cls.url = cls.day.url

    def setUp(self):
        super().setUp()
        began = time.monotonic()
        self.open(f"pid={PID}&span=86400")
        self.loaded_seconds = time.monotonic() - began
        self.wait_element("#sites tbody tr, #sites [role=row]")
        self.js(OBSERVE)

    def quiet(self):
        """Waits until no request is outstanding."""
        self.browser.wait_for("""(() => { const n = performance.getEntriesByType("resource").length;
            const same = n === window.lastCount; window.lastCount = n; return same; })()""")
        self.browser.settle()

    def reaction(self, act):
        """Milliseconds from an event of act() to the next frame: the longest of its events, 0 when
        shorter than a frame."""
        self.js("reactions.length = 0")
        act()
        self.browser.settle()
        self.browser.settle()
        return max(self.js("reactions"), default=0)

    def check_reacts(self, what, act, shown=VIEW):
        """Each act(i), one after another, changes the value of the expression `shown` within the limit."""
        times = []
        for i in range(REPEATS):
            before = self.js(shown or "null")
            times.append(self.reaction(lambda: act(i)))
            if shown:
                self.browser.wait_for(f"{shown} !== {json.dumps(before)}")
            self.quiet()
        # Takes the best time, because other load on the machine only adds to the page's own.
        harness.check_time(self, f"day: {what}", min(times), REACTION_MS)

    def over(self, share, height=0.5):
        box = self.box("#charts .u-over")
        return box["x"] + box["width"] * share, box["y"] + box["height"] * height

    def test_a_day_is_there(self):
        recorded = self.js("memprofd.recorded()")
        self.assertAlmostEqual((recorded["now"] - recorded["begin"]) / 3.6e6, 24, delta=0.2)
        answer = self.ask("sites", pid=PID, limit=1)
        self.assertGreater(answer["groups"], 9000)
        self.assertGreater(self.chart()["points"], 100)
        self.picture("page-day")

    def test_keys_zoom_and_step(self):
        self.check_reacts("zoom in", lambda _: self.browser.key("+"))
        self.check_reacts("zoom out", lambda _: self.browser.key("-"))
        self.check_reacts("step back", lambda _: self.browser.key("ArrowLeft"))

    def test_the_cursor_on_the_strip(self):
        def place(share):
            strip = self.box(".strip")  # it may have moved
            return strip["x"] + strip["width"] * share, strip["y"] + 20
        self.check_reacts("drag the cursor", lambda i: self.browser.drag(place(0.9 - i / 10), place(0.85 - i / 10)))

    def test_pointing_and_brushing(self):
        self.check_reacts("point", lambda i: self.browser.move(*self.over(0.2 + i / 10)),
                          shown="document.querySelector('.chart-legend').textContent")
        self.check_reacts("brush", lambda i: self.browser.drag(self.over(0.1 + i / 10), self.over(0.3 + i / 10)))

    def test_drilling(self):
        def drill(_):
            self.js(f"memprofd.update({{groupBy: 'module', filter: {{}}, drill: []}})")
            self.browser.wait_for("memprofd.charts()[0].by === 'module'")
            self.wait_element(".chart-legend li button")
            self.browser.click_on(".chart-legend li button")
            self.browser.wait_for("memprofd.charts()[0].by === 'function'")
        self.check_reacts("drill down", drill, shown=None)

    def test_what_moves_keeps_moving(self):
        """While the cursor is dragged over a day, no frame takes longer than the limit."""
        strip = self.box(".strip")
        self.js("""(() => { window.frames = []; let last = performance.now();
            const next = (now) => { frames.push(now - last); last = now; window.frameLoop = requestAnimationFrame(next); };
            requestAnimationFrame(next); })()""")
        self.browser.drag((strip["x"] + strip["width"] * 0.95, strip["y"] + 20),
                          (strip["x"] + strip["width"] * 0.2, strip["y"] + 20), steps=40)
        frames = self.js("(cancelAnimationFrame(frameLoop), frames)")
        self.assertGreater(len(frames), 40)
        harness.check_time(self, "day: a frame while dragging", statistics.quantiles(frames, n=20)[-1], REACTION_MS)
