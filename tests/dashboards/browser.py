# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through the DevTools protocol over pipes.

It uses the standard library only. One Browser has one page. Every wait has a deadline.
Errors in the page's console, uncaught exceptions and network requests are kept for the
test to check.
"""

import base64
import collections
import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

DEVTOOLS = "devtools://devtools/bundled/"
TIMEOUT = 60.0  # seconds; generous, because only a failing test waits that long
FRAME_PATIENCE = 10.0  # seconds without a frame after which Chromium counts as stalled
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
         "--disable-component-update", "--disable-default-apps", "--disable-extensions",
         "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows",
         "--disable-renderer-backgrounding",
         "--disable-sync", "--mute-audio", "--hide-scrollbars", "--remote-debugging-pipe"]
KEYS = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
        "ArrowDown": 40, "Tab": 9, "/": 191}


class JavaScriptError(AssertionError):
    """An evaluated expression threw this."""


class Stalled(AssertionError):
    """Chromium no longer draws, although the page's thread runs: a fault of Chromium, not of the page."""


def _high_pipe():
    """A pipe whose ends are not 3 and 4: Chromium needs these numbers for its own pipe."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved


def belongs_to(folder, pid):
    """True if a process names the folder of that Chromium in its environment or its command."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
        words = [pathlib.Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline")]
    except OSError:
        return False  # it has ended
    is_zombie = status.rpartition(")")[2].split()[0] == "Z"
    return not is_zombie and any(folder.encode() in word for word in words)


def processes_of(folder):
    return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if belongs_to(folder, pid)]


def kill_process_of(folder, pid):
    """Kills it by pidfd, after another check: its pid may meanwhile belong to another process."""
    with contextlib.suppress(OSError):
        held = os.pidfd_open(pid)
        try:
            if belongs_to(folder, pid):
                signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)


class Connection:
    """DevTools messages: JSON, each terminated by a zero byte."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.ids = itertools.count(1)
        self.received = b""
        self.messages = collections.deque()  # received, not yet processed

    def close(self):
        os.close(self.reader)
        os.close(self.writer)

    def send(self, method, parameters, session=None):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writer, data):]
        return number

    def next_message(self, deadline, what):
        while not self.messages:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.reader], [], [], left)[0]:
                raise AssertionError(f"{what}: not within {TIMEOUT:g} s")
            data = os.read(self.reader, 1 << 20)
            if not data:
                raise AssertionError(f"{what}: Chromium has ended")
            *whole, self.received = (self.received + data).split(b"\0")
            self.messages.extend(json.loads(message) for message in whole)
        return self.messages.popleft()


class Browser:
    """A page of a width and height in CSS pixels; close() ends Chromium.

    errors: texts of uncaught exceptions and of errors and warnings in the
    console. requests: every requested URL, except data: ones. usable: false once
    an answer or a frame was late.
    """

    program = "/usr/bin/chromium-headless-shell"  # needs two thirds of the CPU that Chromium needs

    def __init__(self, width=1280, height=900):
        if not os.path.exists(self.program):
            raise AssertionError(f"{self.program} is missing: install Debian's {os.path.basename(self.program)}")
        self.errors, self.requests, self.events = [], [], []
        self.usable = True
        self.folder = tempfile.mkdtemp(prefix="memprofd-chromium-")
        self._start(width, height)
        try:
            target = self._call("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
            self.session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True},
                                      None)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def _start(self, width, height):
        from_us, to_us = _high_pipe(), _high_pipe()
        self.log = open(os.path.join(self.folder, "log"), "wb")
        try:
            self.process = subprocess.Popen(
                ["/bin/bash", "-c", f'exec "$@" 3<&{from_us[0]} 4>&{to_us[1]}', "bash", self.program, *FLAGS,
                 f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"],
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                pass_fds=(from_us[0], to_us[1]), start_new_session=True,
                env=dict(os.environ, HOME=self.folder))
        finally:
            os.close(from_us[0])
            os.close(to_us[1])
        self.connection = Connection(to_us[0], from_us[1])

    def close(self):
        """Ends Chromium and every process that it started, and removes its files."""
        try:
            self.connection.send("Browser.close", {})
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        # Chromium ends neither stopped children nor crash handlers, which have their own sessions.
        while left := processes_of(self.folder):
            for pid in left:
                kill_process_of(self.folder, pid)
            time.sleep(0.01)
        self.connection.close()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ------------------------------------------------------------ protocol

    def call(self, method, **parameters):
        """The result of one DevTools command to the page."""
        return self._call(method, parameters, self.session)

    def _call(self, method, parameters, session):
        number = self.connection.send(method, parameters, session)
        deadline = time.monotonic() + TIMEOUT
        while True:
            message = self._next_message(deadline, method)
            if message.get("id") == number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error'].get('message')}")
                return message["result"]
            self._note(message)

    def _next_message(self, deadline, what):
        try:
            return self.connection.next_message(deadline, what)
        except AssertionError:
            self.usable = False
            raise

    def _note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method is not None:
            self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(argument.get("value", argument.get("description")))
                                        for argument in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}".rstrip())
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("data:"):
            self.requests.append(parameters["request"]["url"])

    def wait_event(self, method):
        """Waits for the event; one since the last navigation counts."""
        deadline = time.monotonic() + TIMEOUT
        while method not in self.events:
            self._note(self._next_message(deadline, method))

    # ------------------------------------------------------------ the page

    def navigate(self, url, fragment=""):
        """Loads a URL or a file, again even if only the fragment ("#...") differs, and waits
        until it is loaded."""
        if isinstance(url, pathlib.Path):
            url = url.resolve().as_uri()
        url += fragment
        self.call("Page.navigate", url="about:blank")
        self.settle()
        self.events, self.requests, self.errors = [], [], []
        result = self.call("Page.navigate", url=url)
        if result.get("errorText"):
            raise AssertionError(f"{url}: {result['errorText']}")
        self.wait_event("Page.loadEventFired")
        self.settle()

    def open_devtools(self):
        """Opens the page of the DevTools without a page to inspect; their modules can be imported there."""
        target = self._call("Target.createTarget", {"url": f"{DEVTOOLS}devtools_app.html"}, None)["targetId"]
        self.session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True}, None)["sessionId"]
        self.call("Runtime.enable")
        self.wait_for("document.readyState === 'complete'")

    def give_file(self, name, path):
        """Sets a variable of the page to a File, as if a user had chosen it."""
        made = self.call("Runtime.evaluate", expression="var chooser = document.createElement('input'); "
                                                        "chooser.type = 'file'; chooser")
        self.call("DOM.setFileInputFiles", files=[str(path)], objectId=made["result"]["objectId"])
        self.evaluate(f"globalThis.{name} = chooser.files[0]; 0")

    def evaluate(self, expression):
        """The JSON value of an expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise JavaScriptError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def settle(self):
        """Returns after two animation frames: earlier changes are then drawn."""
        drawn = self.evaluate(f"""new Promise((done) => {{
            const late = setTimeout(() => done(false), {1e3 * FRAME_PATIENCE});
            requestAnimationFrame(() => requestAnimationFrame(() => {{ clearTimeout(late); done(true); }})); }})""")
        if not drawn:
            self.usable = False
            raise Stalled(f"no frame within {FRAME_PATIENCE:g} s though the page's timers run; the page is "
                          + self.evaluate("document.visibilityState"))

    def wait_for(self, expression):
        """Polls once per frame until the expression is truthy; returns its value."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{expression}: not within {TIMEOUT:g} s; last: {value!r}")
            self.settle()

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x, y):
        """Clicks the left button at a place in CSS pixels of the window."""
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def drag(self, from_place, to_place, steps=8):
        """Presses the left button at one (x, y), moves, and releases it at another."""
        self.move(*from_place)
        mouse = lambda kind, x, y: self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                                             buttons=1, clickCount=1)
        mouse("mousePressed", *from_place)
        for i in range(1, steps + 1):
            mouse("mouseMoved", *(a + (b - a) * i / steps for a, b in zip(from_place, to_place)))
            self.settle()
        mouse("mouseReleased", *to_place)
        self.settle()

    def save_downloads(self, folder):
        """Makes the page save its downloads in a folder, without a dialog."""
        self._call("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder),
                                                   "eventsEnabled": False}, None)

    def click_on(self, selector):
        """Clicks in the middle of the first element that matches a CSS selector."""
        box = self.evaluate(f"""(() => {{
            const found = document.querySelector({json.dumps(selector)});
            if (!found) return null;
            found.scrollIntoView({{block: "center"}});
            const b = found.getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2]; }})()""")
        if box is None:
            raise AssertionError(f"no element {selector}")
        self.click(*box)

    def key(self, key):
        """Presses a key: a name of KEYS or one character."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        parameters = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper()))}
        kind = "keyDown" if text else "rawKeyDown"
        self.call("Input.dispatchKeyEvent", type=kind, text=text, **parameters)
        self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)
        self.settle()

    def type(self, text):
        """Types into the element that has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def resize(self, width, height, ratio=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=ratio, mobile=False)
        self.settle()

    def emulate_media(self, **features):
        """emulate_media(prefers_color_scheme="dark"); without features: the machine's settings."""
        self.call("Emulation.setEmulatedMedia", media="", features=[
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()])
        self.settle()

    def screenshot(self, path, top=0):
        """Writes a PNG of the window, without its first `top` CSS pixels."""
        width, height = self.evaluate("[innerWidth, innerHeight]")
        clip = {"x": 0, "y": top, "width": width, "height": height - top, "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", clip=clip)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))


class WholeChromium(Browser):
    """Has DevTools, and draws in a separate process."""
    program = "/usr/bin/chromium"
