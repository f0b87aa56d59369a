# SPDX-License-Identifier: Apache-2.0
"""`make install` installs all files, and `make uninstall` removes all of them."""

import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = "/opt/mem prof"


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        self.addCleanup(folder.cleanup)
        self.build, self.root = pathlib.Path(folder.name) / "build", pathlib.Path(folder.name) / "root"
        for part in ("findlib/memprof-agent", "man", "completions"):
            (self.build / part).mkdir(parents=True)
        for name in ("memprofd", "memprofctl", "libmemprof_agent.so", "findlib/memprof-agent/META", "man/memprofd.8",
                     "man/memprofctl.1", "completions/memprofd", "completions/memprofctl"):
            (self.build / name).write_text(name)
        self.there = self.root / PREFIX.lstrip("/")

    def run_script(self, what):
        subprocess.run([ROOT / "deploy/install.sh", what, self.build, PREFIX, self.root], cwd=ROOT, check=True)

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def test_what_the_unit_names_is_there(self):
        self.run_script("install")
        unit = (self.there / "lib/systemd/system/memprofd.service").read_text()
        self.assertNotIn("@PREFIX@", unit)
        self.assertIn(f"ExecStart={PREFIX}/sbin/memprofd ", unit)
        (document,) = re.findall(r"^Documentation=file:(.*)$", unit, re.M)
        self.assertTrue((self.root / document.lstrip("/")).is_file(), document)

    def test_documents_link_to_what_is_there(self):
        self.run_script("install")
        place = self.there / "share/doc/memprofd"
        for document in [place / "README.md", *(place / "docs").glob("*.md")]:
            for link in re.findall(r"\]\(([^)#:\s]+\.(?:md|png))", document.read_text()):
                self.assertTrue((document.parent / link).exists(), f"{document}: {link}")

    def test_uninstall_leaves_what_is_not_its_own(self):
        other = self.there / "share/doc/memprofd/notes"
        self.run_script("install")
        self.assertGreater(len(self.files()), 30)
        other.write_text("mine")
        self.run_script("uninstall")
        self.assertEqual({str(other.relative_to(self.root))}, self.files())
        other.unlink()
        self.run_script("install")
        self.run_script("uninstall")
        self.assertEqual(set(), self.files())
        self.assertEqual([], [path for path in self.there.rglob("*mem*rof*")])

    def test_no_text_is_left_with_another_prefix(self):
        self.run_script("install")
        for path in (self.there / "share/memprofd").rglob("*.y*ml"):
            self.assertNotIn("/usr/local", path.read_text(), path)


if __name__ == "__main__":
    unittest.main()
