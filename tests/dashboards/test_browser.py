# SPDX-License-Identifier: Apache-2.0
"""Outcome of a page test when Chromium stalls, and when the page hangs."""

import contextlib
import os
import pathlib
import signal
import unittest
from unittest import mock

import browser
import harness
import page_harness


def drawing_process(folder):
    """Pid of the process that draws the frames of the Chromium with that profile folder."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if folder.encode() in words and b"--type=gpu-process" in words:
            return int(pid)
    raise AssertionError(f"no process of {folder} draws")


def stand_still(test):
    """Stops Chromium's drawing, then waits for a frame."""
    os.kill(drawing_process(test.browser.folder), signal.SIGSTOP)
    with mock.patch.object(browser, "FRAME_PATIENCE", 1):
        test.browser.settle()


def hang(test):
    with mock.patch.object(browser, "TIMEOUT", 5):
        test.browser.evaluate("(() => { while (true); })()")


def descendants(pid):
    """Pids of the children of a process, of their children, and so on."""
    found = []
    for child in map(int, harness.children(pid)):
        found += [child, *descendants(child)]
    return found


def crash_handlers(folder):
    """Pids of Chromium's crash handlers. They are not its descendants: the processes that started them have ended."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"crashpad" in words.split(b"\0")[0] and folder.encode() in words:
                yield int(pid)


def runs(pid, ticks):
    """True if the process with this pid and start time has not ended."""
    try:
        return harness.start_ticks(pid) == ticks and not harness.proc_status(pid, "State").startswith("Z")
    except OSError:
        return False


def run(act):
    """Runs two page tests, the first of which calls act(test, number of the try). Returns the result, and the browser
    of each try."""
    tries = []

    class Page(page_harness.PageTest):
        @classmethod
        def start_server(cls):
            cls.url = "about:"

        def test_1(self):
            tries.append(self.browser)
            act(self, len(tries))

        def test_2(self):
            self.browser.settle()

    result = unittest.TestResult()
    with mock.patch.object(browser, "Browser", browser.WholeChromium):
        unittest.defaultTestLoader.loadTestsFromTestCase(Page).run(result)
    return result, tries


class FaultsOfTheBrowser(unittest.TestCase):
    """The tests shorten only timeouts that have to expire; all others stay long, for busy machines."""

    def test_chromium_that_stands_still_is_replaced_and_the_test_is_run_again(self):
        result, tries = run(lambda test, number: stand_still(test) if number == 1 else test.browser.settle())
        self.assertEqual((result.testsRun, result.failures, result.errors), (2, [], []))
        self.assertEqual(len(tries), 2)
        self.assertIsNot(tries[0], tries[1])

    def test_chromium_that_stands_still_twice_fails(self):
        result, tries = run(lambda test, _: stand_still(test))
        self.assertEqual(len(tries), 2)
        self.assertEqual(result.errors, [])
        self.assertEqual(len(result.failures), 1, result.failures)  # the next test passes
        self.assertIn("no frame within 1 s", result.failures[0][1])

    def test_page_that_hangs_fails_at_once_and_alone(self):
        result, tries = run(lambda test, _: hang(test))
        self.assertEqual(len(tries), 1)
        self.assertEqual(result.errors, [])
        self.assertEqual(len(result.failures), 1, result.failures)
        self.assertIn("Runtime.evaluate: not within 5 s", result.failures[0][1])


class End(unittest.TestCase):
    def test_close_ends_every_process_also_a_stopped_one(self):
        chromium = browser.WholeChromium()
        handlers = list(crash_handlers(chromium.folder))
        started = {pid: harness.start_ticks(pid)
                   for pid in [chromium.process.pid, *descendants(chromium.process.pid), *handlers]}
        drawing = drawing_process(chromium.folder)
        self.assertIn(drawing, started)
        self.assertTrue(handlers)
        os.kill(drawing, signal.SIGSTOP)
        chromium.close()
        self.assertEqual([], [pid for pid, ticks in started.items() if runs(pid, ticks)])
        self.assertFalse(os.path.exists(chromium.folder))


if __name__ == "__main__":
    unittest.main()
