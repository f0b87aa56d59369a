# SPDX-License-Identifier: Apache-2.0
"""What becomes of a test of the page when Chromium stands still, and when the page hangs."""

import os
import pathlib
import signal
import unittest
from unittest import mock

import browser
import page_harness


def drawing_process(folder):
    """Of the Chromium with that profile: the process without which no frame is drawn."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if folder.encode() in words and b"--type=gpu-process" in words:
            return int(pid)
    raise AssertionError(f"no process of {folder} draws")


def stand_still(test):
    """Waits for a frame of a Chromium that draws none any more."""
    os.kill(drawing_process(test.browser.folder), signal.SIGSTOP)
    with mock.patch.object(browser, "FRAME_PATIENCE", 1):
        test.browser.settle()


def hang(test):
    with mock.patch.object(browser, "TIMEOUT", 5):
        test.browser.evaluate("(() => { while (true); })()")


def run(act):
    """The result of two tests, the first of which is act(test, number of the try), and the tries."""
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
    """Only what cannot come is waited for with less patience: on a busy machine the rest takes its time."""

    def test_chromium_that_stands_still_is_replaced_and_the_test_is_run_again(self):
        result, tries = run(lambda test, number: stand_still(test) if number == 1 else test.browser.settle())
        self.assertEqual((result.testsRun, result.failures, result.errors), (2, [], []))
        self.assertEqual(len(tries), 2)
        self.assertIsNot(tries[0], tries[1])

    def test_chromium_that_stands_still_twice_fails(self):
        result, tries = run(lambda test, _: stand_still(test))
        self.assertEqual(len(tries), 2)
        self.assertEqual(result.errors, [])
        self.assertEqual(len(result.failures), 1, result.failures)  # not of the test after it
        self.assertIn("no frame within 1 s", result.failures[0][1])

    def test_page_that_hangs_fails_at_once_and_alone(self):
        result, tries = run(lambda test, _: hang(test))
        self.assertEqual(len(tries), 1)
        self.assertEqual(result.errors, [])
        self.assertEqual(len(result.failures), 1, result.failures)
        self.assertIn("Runtime.evaluate: not within 5 s", result.failures[0][1])


if __name__ == "__main__":
    unittest.main()
