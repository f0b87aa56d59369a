# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the tests that open the page of a live memprofd in a headless Chromium."""

import json
import os
import pathlib
import shutil
import tempfile
import unittest

import browser
import harness

RATE = 1e-3
# Folder for pictures of the page; the documents have copies.
PICTURES = pathlib.Path(os.environ.get("MEMPROFD_PICTURES", harness.BUILD / "pictures"))
# Seconds of history on the pictures; 0 in a test run, which does not wait for any.
PICTURE_SECONDS = float(os.environ.get("MEMPROFD_PICTURE_SECONDS", 0))
MARGIN = 12  # pixels above the first element of a picture


class PageTest(unittest.TestCase):
    """One memprofd with two targets and one browser for all tests of a class; each test
    loads the page again. No test may leave an error in the console or send a request to
    another machine."""

    arguments = ()  # of memprofd
    expected_errors = ()  # parts of console errors that a test provokes

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.start_server()
        cls.browser = browser.Browser(1280, 900)
        cls.addClassCleanup(lambda: cls.browser.close())

    @classmethod
    def renew_browser(cls):
        cls.browser.close()
        cls.browser = browser.Browser(1280, 900)

    def _callTestMethod(self, method):
        """Repeats a test once in a new Chromium if the first one stalled: this proves nothing about the page."""
        try:
            super()._callTestMethod(method)
        except browser.Stalled as stalled:
            print(f"    {stalled}: again in a new browser")
            self.renew_browser()
            self.doCleanups()
            self.setUp()
            super()._callTestMethod(method)

    @classmethod
    def start_server(cls):
        cls.server = cls.start(harness.Target("demo_server", "--self-load", "1"))
        cls.other = cls.start(harness.Target("demo_server", "--self-load", "1", "--rate", "300"))
        cls.daemon = cls.start(harness.Daemon(cls.folder, "--pid", cls.server.pid, "--pid", cls.other.pid,
                                              *cls.arguments, rate=RATE))
        for target in (cls.server, cls.other):
            cls.daemon.wait_state(target.pid, "sampling")
        cls.url = cls.daemon.url
        cls.wait_recorded(cls(), PICTURE_SECONDS)

    @classmethod
    def start(cls, process):
        cls.addClassCleanup(process.log.close)
        cls.addClassCleanup(process.popen.stdout.close)
        cls.addClassCleanup(process.kill)
        return process

    def start_named(self, name):
        """Attaches to a demo_server whose file, and thus its process, has this name."""
        program = self.folder / name
        shutil.copy(harness.BUILD / "targets" / "demo_server", program)
        target = self.start(harness.Process([program]))
        self.assertRegex(target.read_line(), "^ready")
        self.daemon.attach(target.pid)
        return target

    def setUp(self):
        if not self.browser.usable:  # the previous test has failed for this reason
            self.renew_browser()
        self.browser.resize(1280, 900)
        self.browser.emulate_media(prefers_color_scheme="light")

    def tearDown(self):
        unexpected = [e for e in self.browser.errors if not any(part in e for part in self.expected_errors)]
        self.assertEqual(unexpected, [])
        foreign = [r for r in self.browser.requests if not r.startswith((self.url, "blob:" + self.url))]
        self.assertEqual(foreign, [])

    # ------------------------------------------------------------ memprofd

    def ask(self, endpoint, **parameters):
        """An answer of the HTTP API, requested independently of the page."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        status, text = harness.http_get(f"{self.url}/api/v1/{endpoint}?{query}", timeout=harness.TIMEOUT)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def history(self, pid=None, **parameters):
        return self.ask("history", **{"selection.pid": pid or self.server.pid, **parameters})

    def wait_recorded(self, seconds, pid=None):
        """Waits for this much history."""
        def enough():
            span = self.history(pid, points=2)["range"]
            return (int(span["end_unix_ns"]) - int(span["begin_unix_ns"])) / 1e9 >= seconds
        harness.eventually(enough, f"{seconds} s are recorded", timeout=60 + 2 * seconds)

    # ------------------------------------------------------------ the page

    def open(self, fragment=None):
        """Loads the page; waits until the chart is drawn."""
        if fragment is None:
            fragment = f"pid={self.server.pid}"
        self.browser.navigate(self.url + "/", "#" + fragment)
        self.browser.wait_for("window.memprofd && memprofd.charts()[0].points > 1")

    def js(self, expression):
        return self.browser.evaluate(expression)

    def wait_element(self, selector):
        self.browser.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")

    def wait_sessions(self):
        """Waits until demo_server has sampled live sessions."""
        harness.eventually(lambda: any(site["function"].endswith("make_session") and site["live"]["bytes"] > 0
                                       for site in self.ask("sites", pid=self.server.pid)["sites"]), "sessions are sampled")

    def ask_why_sessions_live(self):
        """Opens the site of demo_server's sessions, and takes the snapshot that answers the question."""
        self.wait_sessions()
        self.open(f"pid={self.server.pid}&tab=sites")
        self.open_session_site()
        self.press("Take a snapshot and look", ".site-detail .why")
        self.wait_element(".site-detail .why li")

    def open_session_site(self):
        self.js("memprofd.update({extra: {...memprofd.view().extra, search: 'make_session'}})")
        self.browser.wait_for("memprofd.sites()?.rows.length === 1")
        self.js("document.querySelector('.sites-table').focus()")
        self.browser.key("ArrowDown")
        self.browser.key("Enter")
        self.wait_element(".site-detail .why button")

    def cells(self, pid):
        """Texts of a program's row in the overview."""
        return self.js(f"""[...document.querySelector('#overview tr[data-pid="{pid}"]').cells].map(
            (cell) => cell.querySelector("input")?.value ?? cell.innerText.trim())""")

    def view(self):
        return self.js("memprofd.view()")

    def chart(self, index=0):
        return self.js(f"memprofd.charts()[{index}]")

    def labels(self, index=0):
        return [area["label"] for area in self.chart(index)["areas"]]

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def press(self, text, within="body"):
        """Clicks the button with this text once it no longer moves."""
        def place():
            return self.js(f"""(() => {{
                const found = [...document.querySelectorAll({json.dumps(within + " button")})]
                    .find((one) => one.innerText.trim() === {json.dumps(text)} && one.offsetParent !== null);
                if (!found) return null;
                found.scrollIntoView({{block: "center"}});
                const b = found.getBoundingClientRect();
                return [b.x + b.width / 2, b.y + b.height / 2]; }})()""")
        box = self.steady(place)
        self.assertIsNotNone(box, f"no button {text!r} in {within}")
        self.browser.click(*box)

    def steady(self, place):
        """The result of place() once it is the same after two frames: late answers move the elements below them."""
        now, before = place(), None
        while now != before:
            self.browser.settle()
            now, before = place(), now
        return now

    def box(self, selector):
        return self.steady(lambda: self.js(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center"}});
            const b = e.getBoundingClientRect(); return {{x: b.x, y: b.y, width: b.width, height: b.height}}; }})()"""))

    def picture(self, name, above=None):
        """Saves the visible page for the documents. above: the first element on the picture; None: the whole page."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.js("window.scrollTo(0, 0)")
        self.browser.settle()
        top = self.js(f"document.querySelector({json.dumps(above)}).getBoundingClientRect().top") if above else 0
        self.browser.screenshot(PICTURES / f"{name}.png", max(0, top - MARGIN))

    def panel_picture(self, name):
        """Saves the tabs and the whole panel below them, without the parts above."""
        self.browser.resize(1280, min(4000, self.js("document.documentElement.scrollHeight")))
        self.browser.settle()
        self.picture(name, above="#tabs")
