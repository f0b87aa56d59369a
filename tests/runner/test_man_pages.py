# SPDX-License-Identifier: Apache-2.0
"""The manual pages have the text of --help for each option and command, in man's format."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MEMPROFD_BUILD", ROOT / "build")).resolve()
REQUESTS = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", r".\""}


def plain(page):
    return re.sub(r"\\f[BR]", "", page).replace(r"\-", "-").replace(r"\&", "").replace(r"\e", "\\")


class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="memprofd-test-"))
        subprocess.run([ROOT / "deploy/man-pages.py", BUILD, folder], check=True)
        cls.pages = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}

    def lines_of_help(self, program, *command):
        text = subprocess.run([BUILD / program, *command, "--help"], check=True, capture_output=True, text=True).stdout
        return [line.strip() for line in text.splitlines() if line.startswith("  ")]

    def assert_says(self, page, lines):
        """Checks that the page contains each line; line breaks may differ between help and page."""
        said = " ".join(page.split())
        for line in lines:
            self.assertIn(" ".join(line.split()), said)

    def test_every_option_of_memprofd(self):
        lines = self.lines_of_help("memprofd")
        self.assertGreater(len(lines), 40)
        self.assert_says(plain(self.pages["memprofd.8"]), lines)

    def test_every_command_and_its_options(self):
        page = plain(self.pages["memprofctl.1"])
        for command in (["targets"], ["attach"], ["rate"], ["report"], ["trace", "start"], ["snapshot", "take"]):
            with self.subTest(" ".join(command)):
                begin = page.index(f'.SS "{" ".join(command)}"')
                part = page[begin:page.find(".SS", begin + 1)]
                options = [line for line in self.lines_of_help("memprofctl", *command) if line.startswith("--")]
                self.assertGreater(len(options), 0)
                self.assert_says(part, options)

    def test_man_knows_every_line_that_begins_with_a_point(self):
        for name, page in self.pages.items():
            self.assertTrue(page.startswith(r'.\"'), name)
            begins = {line.split(" ")[0] for line in page.splitlines() if line[:1] in (".", "'")}
            self.assertLessEqual(begins, REQUESTS, name)
            texts = [after for before, after in zip(page.splitlines(), page.splitlines()[2:]) if before == ".TP"]
            self.assertTrue(all(texts), f"{name}: an option without a text")


if __name__ == "__main__":
    unittest.main()
