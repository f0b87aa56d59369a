# SPDX-License-Identifier: Apache-2.0
"""`make test-kernels`: the files that it builds for guests, and its reading of their results. No guest boots here."""

import io
import json
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/vm"))

import initramfs  # noqa: E402
import kernels  # noqa: E402


def entries(archive):
    """{name: (mode, data)} of an archive in the "newc" format, read as the kernel does."""
    found, at = {}, 0
    while True:
        assert archive[at:at + 6] == b"070701", at
        numbers = [int(archive[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_bytes = numbers[1], numbers[6], numbers[11]
        name = archive[at + 110:at + 110 + name_bytes - 1].decode()
        at = (at + 110 + name_bytes + 3) & ~3
        if name == "TRAILER!!!":
            return found
        assert name not in found, name
        found[name] = (mode, archive[at:at + size])
        at = (at + size + 3) & ~3


class Sources(unittest.TestCase):
    def test_the_runner_needs_no_other_file(self):
        with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder:
            for name in kernels.SOURCES:
                place = pathlib.Path(folder) / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, place)
            subprocess.run([sys.executable, pathlib.Path(folder) / "tests/run.py", "--help"], check=True,
                           stdout=subprocess.DEVNULL)


class Archive(unittest.TestCase):
    def written(self, fill):
        out = io.BytesIO()
        archive = initramfs.Initramfs(out)
        fill(archive)
        archive.close()
        return entries(out.getvalue())

    def test_files_folders_and_links(self):
        def fill(archive):
            archive.text("/a/b/odd", "12345", 0o755)
            archive.link("/a/link", "b/odd")
            archive.folder("/a")
        found = self.written(fill)
        self.assertEqual([("a", stat.S_IFDIR | 0o755), ("a/b", stat.S_IFDIR | 0o755), ("a/b/odd", stat.S_IFREG | 0o755),
                          ("a/link", stat.S_IFLNK | 0o777)], [(name, mode) for name, (mode, _) in sorted(found.items())])
        self.assertEqual((b"12345", b"b/odd"), (found["a/b/odd"][1], found["a/link"][1]))

    def test_a_folder_stands_before_what_is_in_it(self):
        names = list(self.written(lambda archive: archive.text("/x/y/z", "")))
        self.assertEqual(["x", "x/y", "x/y/z"], names)

    def test_a_program_has_its_libraries(self):
        program = pathlib.Path(sys.executable).resolve()
        found = self.written(lambda archive: archive.program(program, "/opt/python"))
        self.assertEqual(program.read_bytes(), found["opt/python"][1])
        self.assertTrue(any("/ld-linux" in name for name in found), sorted(found))
        self.assertTrue(any(pathlib.Path(name).name == "libc.so.6" for name in found), sorted(found))


class Outcome(unittest.TestCase):
    GOOD = json.dumps({"passed": 3, "failed": 0, "skipped": ["a: b"], "notes": ["n"], "cpu_seconds": 1.5})

    def outcome(self, report=GOOD, log="", console=""):
        return kernels.outcome_of({"report": report, "kernel-log": log, "console": console, "tests": ""})

    def test_what_the_guest_reports(self):
        outcome = self.outcome(log="[ 1.0] Linux version 6.1\n")
        self.assertEqual((3, 0, ["a: b"], ["n"]), (outcome.passed, outcome.failed, outcome.skipped, outcome.notes))

    def test_a_guest_without_a_report_has_failed(self):
        for report in ("", self.GOOD[:20], "[]", '{"passing": 3}'):
            self.assertEqual(1, self.outcome(report).failed, report)

    def test_a_kernel_that_complains_has_failed(self):
        for line in ("WARNING: CPU: 0 PID: 97 at kernel/bpf/verifier.c:9", "BUG: unable to handle page fault", "Oops: 0002 [#1]"):
            for where in ("log", "console"):
                self.assertEqual(1, self.outcome(**{where: f"[ 9.0] {line}\n"}).failed, line)


class Documents(unittest.TestCase):
    def test_the_table_has_every_kernel(self):
        text = (ROOT / "docs/compatibility.md").read_text()
        for suite in kernels.SUITES:
            self.assertIn(f"({suite})", text)


if __name__ == "__main__":
    unittest.main()
