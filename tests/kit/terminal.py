# SPDX-License-Identifier: Apache-2.0
"""A program in a pseudo terminal, and its screen.

The screen is pyte's (Debian's python3-pyte), extended by the xterm features that ncurses uses and
pyte lacks. A thread reads the program's output; nothing waits for time.
"""

import codecs
import fcntl
import os
import pty
import struct
import signal
import subprocess
import termios
import threading

import pyte

import harness
from harness import eventually

KEYS = {"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
        "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "enter": "\r", "escape": "\x1b", "backspace": "\x7f", "tab": "\t"}
# Key sequences after smkx.
KEYS_OF_APPLICATION = {name: keys.replace("[", "O") for name, keys in KEYS.items()
                       if name in ("up", "down", "left", "right", "home", "end")}


class Screen(pyte.Screen):
    def draw(self, data):
        super().draw(data)
        self.last_drawn = data[-1:]

    def repeat(self, count=1):
        self.draw(self.last_drawn * (count or 1))

    def scroll_up(self, count=1):
        self._scroll(count, self.index, lambda top, bottom: bottom)

    def scroll_down(self, count=1):
        self._scroll(count, self.reverse_index, lambda top, bottom: top)

    def _scroll(self, count, step, row):
        top, bottom = self.margins or pyte.screens.Margins(0, self.lines - 1)
        before, self.cursor.y = self.cursor.y, row(top, bottom)
        for _ in range(count or 1):
            step()
        self.cursor.y = before


class Stream(pyte.Stream):
    csi = dict(pyte.Stream.csi, S="scroll_up", T="scroll_down", b="repeat")
    events = pyte.Stream.events | {"scroll_up", "scroll_down", "repeat"}


def take_terminal():
    """Makes stdin the controlling terminal of a child that begins a session, so that Ctrl-C,
    SIGWINCH and hang-ups reach it, even if the tests were started with nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """Like harness.Process, but stdin, stdout and stderr are a terminal."""

    def __init__(self, arguments, columns=120, lines=40, environment=None):
        self.arguments = [str(a) for a in arguments]
        self.screen = Screen(columns, lines)
        self.stream = Stream(self.screen)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = b""  # all output so far
        self.lock = threading.Lock()  # guards the three above
        self.master, slave = pty.openpty()
        self._set_size(columns, lines)
        self.settings = termios.tcgetattr(slave)
        self.slave = slave  # kept open: output stays readable after the program's end
        env = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(environment or {})}
        self.popen = subprocess.Popen(self.arguments, stdin=slave, stdout=slave, stderr=slave, env=env,
                                      start_new_session=True, cwd=harness.ROOT, preexec_fn=take_terminal)
        threading.Thread(target=self._read, daemon=True).start()
        harness.STARTED.add(self)

    def _set_size(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            with self.lock:
                self.raw += data
                self.stream.feed(self.decoder.decode(data))

    @property
    def pid(self):
        return self.popen.pid

    def lines(self):
        with self.lock:
            return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def row_with(self, words):
        """The first line with these words; AssertionError if there is none yet."""
        for line in self.lines():
            if words in line:
                return line
        raise AssertionError(f"no {words!r} in:\n{self.text()}")

    def cursor_row(self):
        """The line of the cursor, whose sign also occurs elsewhere, in lifetimes."""
        for line in self.lines():
            if line.startswith("> "):
                return line
        raise AssertionError(f"no cursor in:\n{self.text()}")

    def wait_for(self, *words):
        """Waits until the screen shows all words; returns its text."""
        def shown():
            text = self.text()
            missing = [w for w in words if w not in text]
            if not missing:
                return text
            if self.popen.poll() is not None:
                raise RuntimeError(f"ended with {self.popen.returncode}; no {missing} in:\n{text}")
            raise AssertionError(f"no {missing} in:\n{text}")
        return eventually(shown, f"the screen shows {', '.join(words)}")

    def wait_gone(self, words):
        def gone():
            text = self.text()
            assert words not in text, text
            return True
        eventually(gone, f"{words} goes away")

    def press(self, *keys):
        """Presses keys, given by names of KEYS or as characters."""
        for key in keys:
            os.write(self.master, KEYS_OF_APPLICATION.get(key, KEYS.get(key, key)).encode())

    def resize(self, columns, lines):
        with self.lock:
            self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def restored(self):
        """True if settings, screen and cursor of the terminal are restored."""
        with self.lock:
            raw = self.raw
        return (termios.tcgetattr(self.slave) == self.settings
                and raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h")
                and raw.rfind(b"\x1b[?25l") < max(raw.rfind(b"\x1b[?25h"), raw.rfind(b"\x1b[?12l\x1b[?25h")))

    def after_screen(self):
        """Output after the screen was restored."""
        with self.lock:
            return self.raw.rpartition(b"\x1b[?1049l")[2].decode(errors="replace")

    def wait(self, timeout=harness.TIMEOUT):
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.arguments[0]} did not end in {timeout:g} s:\n{self.text()}") from None

    def running(self):
        return self.popen.poll() is None

    def kill(self):
        """Kills the program; cannot fail."""
        if self.running():
            self.popen.kill()
            self.popen.wait()
        for fd in (self.slave, self.master):
            try:
                os.close(fd)
            except OSError:
                pass
        self.slave = self.master = -1
