# SPDX-License-Identifier: Apache-2.0
"""`make deb`: the package's contents and dependencies, its installation and removal with dpkg."""

import gzip
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MEMPROFD_BUILD", ROOT / "build")).resolve()
FAST = dict(os.environ, DPKG_DEB_COMPRESSOR_TYPE="none")


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="memprofd-test-")))
        subprocess.run(["make", "--no-print-directory", f"BUILD={BUILD}", f"{BUILD}/man/memprofd.8",
                        f"{BUILD}/completions/memprofd"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        cls.package = output(ROOT / "deploy/deb.sh", BUILD, cls.folder, env=FAST).strip()
        cls.root = cls.folder / "root"
        (cls.root / "var/lib/dpkg/updates").mkdir(parents=True)
        (cls.root / "var/lib/dpkg/status").touch()

    def dpkg(self, *arguments):
        # The machine has the package's dependencies, but this root does not.
        return output("dpkg", f"--root={self.root}", "--force-depends", "--force-script-chrootless", *arguments)

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")
                if path.is_file() and "var/lib/dpkg" not in str(path)}

    def test_what_it_needs_is_what_runs_it(self):
        depends = output("dpkg-deb", "--field", self.package, "Depends")
        names = {part.split()[0] for part in depends.split(", ")}
        self.assertLessEqual({"libc6", "libbpf1", "libgrpc++1.51", "libprometheus-cpp-core1.0"}, names)
        self.assertNotIn("dev", {name.rpartition("-")[2] for name in names}, "nothing that only a build needs")
        source = self.folder / "control"
        source.write_text("Source: memprofd\n\nPackage: memprofd\nArchitecture: any\n")
        output("dpkg-checkbuilddeps", "-d", depends.strip(), "-c", "", source)  # fails if one is not installed

    def test_the_same_again(self):
        again = output(ROOT / "deploy/deb.sh", BUILD, self.folder / "again", env=FAST).strip()
        self.assertEqual(pathlib.Path(self.package).read_bytes(), pathlib.Path(again).read_bytes())

    def test_installed_and_purged(self):
        self.dpkg("--install", self.package)
        for program in ("sbin/memprofd", "bin/memprofctl"):
            self.assertEqual(output(BUILD / pathlib.Path(program).name, "--version"),
                             output(self.root / "usr" / program, "--version"))
        self.assertIn("ExecStart=/usr/sbin/memprofd ", (self.root / "usr/lib/systemd/system/memprofd.service").read_text())
        self.assertIn(b".TH MEMPROFD 8", gzip.decompress((self.root / "usr/share/man/man8/memprofd.8.gz").read_bytes()))
        settings = self.root / "etc/default/memprofd"
        settings.write_text('MEMPROFD_OPTIONS="--name shop-*"\n')
        kept = self.root / "var/lib/memprofd/targets"
        kept.parent.mkdir(parents=True)
        kept.touch()
        self.dpkg("--remove", "memprofd")
        self.assertEqual({"etc/default/memprofd", "var/lib/memprofd/targets"}, self.files())
        self.dpkg("--purge", "memprofd")
        self.assertEqual(set(), self.files())


class Image(unittest.TestCase):
    def test_the_deployment_names_the_image_that_is_built(self):
        version = output(BUILD / "memprofd", "--version").split()[1]
        self.assertIn(f"image: memprofd:{version}\n", (ROOT / "deploy/kubernetes/memprofd.yaml").read_text())


if __name__ == "__main__":
    unittest.main()
