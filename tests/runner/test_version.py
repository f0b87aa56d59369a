# SPDX-License-Identifier: Apache-2.0
"""deploy/version.sh writes the text of `--version`; a new revision does not rebuild the library."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANGES = "# Changes\n\n## [Unreleased]\n\n## [1.2.3] - 2024-05-01\n\n## [1.2.2] - 2024-04-01\n"


class Version(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        (self.tree / "deploy").mkdir(parents=True)
        shutil.copy(ROOT / "deploy/version.sh", self.tree / "deploy")
        (self.tree / "CHANGELOG.md").write_text(CHANGES)
        self.header = self.tree / "build/gen/version_strings.h"

    def git(self, *arguments, folder=None):
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder or self.tree,
                              env=own, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, folder=None):
        self.git("init", "-q", folder=folder)
        self.git("add", ".", folder=folder)
        self.git("commit", "-q", "-m", "x", folder=folder)
        return self.git("rev-parse", "--short=12", "HEAD", folder=folder)

    def written(self):
        """(version, revision) in the header that the script writes."""
        subprocess.run(["deploy/version.sh", "build/gen/version_strings.h"], cwd=self.tree, check=True)
        return tuple(line.split('"')[1] for line in self.header.read_text().splitlines() if '"' in line)

    def test_without_git_it_is_that_of_the_changelog(self):
        self.assertEqual(("1.2.3", ""), self.written())

    def test_a_checkout_has_a_revision(self):
        (self.tree / ".gitignore").write_text("/build/\n")
        commit = self.commit()
        self.assertEqual(("1.2.3", commit), self.written())
        self.git("tag", "-a", "v1.2.3", "-m", "x")
        self.assertEqual(("1.2.3", "v1.2.3"), self.written())

    def test_a_changed_tree_says_so(self):
        commit = self.commit()
        (self.tree / "CHANGELOG.md").write_text(CHANGES.replace("1.2.3", "1.2.4"))
        self.assertEqual(("1.2.4", commit + "-dirty"), self.written())

    def test_a_copy_of_a_checkout_has_not_changed(self):
        """The copy's files have other inodes and times than the index, which git compares first."""
        commit = self.commit()
        copy = self.tree.with_name("copy")
        shutil.copytree(self.tree, copy)
        for path in copy.rglob("*"):
            if ".git" not in path.parts:
                os.utime(path, (1_600_000_000, 1_600_000_000))
        self.tree, self.header = copy, copy / "build/gen/version_strings.h"
        self.assertEqual(("1.2.3", commit), self.written())

    def test_an_archive_in_another_repository_has_no_revision(self):
        self.commit(self.tree.parent)
        self.assertEqual(("1.2.3", ""), self.written())

    def test_what_says_the_same_is_not_touched(self):
        self.written()
        os.utime(self.header, (1, 1))
        self.written()
        self.assertEqual(1, self.header.stat().st_mtime)

    def test_one_file_alone_includes_it(self):
        users = self.lines_with("version_strings.h", "daemon", "tests")
        self.assertEqual({"daemon/util/version.cc"}, users - {"tests/runner/test_version.py", "daemon/daemon.mk"})

    def lines_with(self, text, *folders):
        found = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
        return {str(path.relative_to(ROOT)) for path in found if text in path.read_bytes().decode(errors="replace")}


if __name__ == "__main__":
    unittest.main()
