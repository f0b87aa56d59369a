# SPDX-License-Identifier: Apache-2.0
"""`make dist`: the release's contents and requirements, its installation and removal.

tests/e2e/test_dist.py runs it on other systems.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MEMPROFD_BUILD", ROOT / "build")).resolve()
PREFIX = "/opt/mem prof"


def run(*command, check=True, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done


def needed(program):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", program).stdout))


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="memprofd-test-")))
        run("make", "--no-print-directory", f"BUILD={BUILD}", "dist-files", cwd=ROOT)
        cls.archive = pathlib.Path(run(ROOT / "deploy/dist.sh", BUILD, cls.folder).stdout.strip())
        run("tar", "-xf", cls.archive, "-C", cls.folder)
        cls.release = cls.folder / cls.archive.name.removesuffix(".tar.gz")
        cls.root = cls.folder / "root"

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir()}

    def install(self, *arguments, check=True, **environment):
        return run(self.release / "install.sh", *arguments, check=check, env=dict(os.environ, **environment))

    def refusal(self, command, answer, *arguments):
        """The error message of install.sh on a machine where a command has this output."""
        commands = self.folder / "commands"
        commands.mkdir(exist_ok=True)
        (commands / command).write_text(f"#!/bin/sh\n{answer}\n")
        (commands / command).chmod(0o755)
        prefix = self.folder / "refused"
        done = self.install(*(arguments or [prefix]), check=False, PATH=f"{commands}:{os.environ['PATH']}")
        (commands / command).unlink()
        self.assertEqual((1, False), (done.returncode, prefix.exists()), done)
        (line,) = done.stderr.splitlines()
        self.assertTrue(line.startswith("install.sh: "), line)
        return line

    def test_all_of_it_is_there(self):
        version = run(BUILD / "memprofd", "--version").stdout.split()[1]
        self.assertEqual(f"memprofd-{version}-linux-x86_64.tar.gz", self.archive.name)
        for name in ("install.sh", "README.md", "LICENSE", "sbin/memprofd", "bin/memprofctl", "lib/memprofd/libmemprof_agent.so",
                     "lib/memprofd/libmemprof_agent.a", "lib/ocaml/memprof-agent/META", "lib/systemd/system/memprofd.service",
                     "share/man/man8/memprofd.8", "share/bash-completion/completions/memprofctl",
                     "share/memprofd/grafana", "share/memprofd/prometheus/alerts.yml",
                     "share/memprofd/proto/memprof/v1/profiler.proto", "share/doc/memprofd/memprofd.default",
                     "share/doc/memprofd/docs/service.md"):
            self.assertTrue((self.release / name).exists(), name)
        licences = {path.name for path in (self.release / "share/doc/memprofd/licences").iterdir()}
        self.assertLessEqual({"libgrpc++-dev", "libgnutls28-dev", "libspdlog-dev", "libp11-kit0", "nlohmann-json3-dev"}, licences)

    def test_it_needs_glibc_2_34_and_nothing_else(self):
        glibc = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
        for name in ("sbin/memprofd", "bin/memprofctl"):
            self.assertEqual(glibc | {"libp11-kit.so.0"}, needed(self.release / name), name)
            versions = re.findall(r"Name: GLIBC_(\S+)", run("readelf", "--version-info", self.release / name).stdout)
            self.assertEqual((2, 34), max(tuple(map(int, version.split("."))) for version in versions), name)

    def test_it_is_the_programs_with_their_own_libraries(self):
        """A wrong option throws an exception, whose unwinding needs the stand-in for a function of glibc 2.35."""
        for place, name in (("sbin", "memprofd"), ("bin", "memprofctl")):
            self.assertEqual(run(BUILD / name, "--version").stdout, run(self.release / place / name, "--version").stdout)
            self.assertEqual(2, run(self.release / place / name, "--no-such-option", check=False).returncode)
        for library in re.findall(r"(?:p11-kit|ffi)\S+ => (\S+)", run("ldd", self.release / "sbin/memprofd").stdout):
            self.assertEqual(self.release / "lib/memprofd", pathlib.Path(os.path.realpath(library)).parent)
        # Crash reports need the names of functions.
        symbols = run("nm", self.release / "sbin/memprofd").stdout.split()
        self.assertTrue({"main", "MHD_start_daemon", "grpc_init"} <= set(symbols), len(symbols))

    def test_no_compiler_puts_the_path_of_the_build_into_what_it_makes(self):
        plan = run("make", "--dry-run", "--always-make", "V=1", f"BUILD={BUILD}", "all", "dist-files", cwd=ROOT).stdout
        commands = [line for line in plan.splitlines() if re.search(r"\b(gcc|g\+\+|clang) .* -c ", line)]
        self.assertGreater(len(commands), 50)
        self.assertEqual([], [line for line in commands if f"-ffile-prefix-map={ROOT}=." not in line])
        compiled = list((self.release / "lib/ocaml").rglob("*.[ac]*"))  # ocamlopt's output
        self.assertGreater(len(compiled), 5)
        self.assertEqual([], [path for path in compiled if os.fsencode(ROOT) in path.read_bytes()])

    def test_the_same_again(self):
        before = self.archive.read_bytes()
        again = run("sh", "-c", f"umask 077; exec {ROOT}/deploy/dist.sh {BUILD} {self.folder}/again", cwd="/").stdout.strip()
        self.assertEqual(before, pathlib.Path(again).read_bytes())

    def test_installed_and_removed(self):
        done = self.install(PREFIX, DESTDIR=str(self.root))
        there = self.root / PREFIX.lstrip("/")
        self.assertEqual({str(path.relative_to(self.release)) for folder in ("bin", "sbin", "lib", "include", "share")
                          for path in (self.release / folder).rglob("*") if path.is_file()},
                         {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()})
        unit = (there / "lib/systemd/system/memprofd.service").read_text()
        self.assertIn(f"ExecStart={PREFIX}/sbin/memprofd ", unit)
        for path in [*there.rglob("*.yml"), *there.rglob("*.service")]:
            self.assertNotIn("/usr/local", path.read_text(), path)
        self.assertEqual(run(BUILD / "memprofd", "--version").stdout, run(there / "sbin/memprofd", "--version").stdout)
        removal = re.search(r"^remove it: +sudo (.*)/install.sh --uninstall (.*)$", done.stdout, re.M)
        self.assertEqual((str(self.release), PREFIX), removal.groups())
        self.install("--uninstall", PREFIX, DESTDIR=str(self.root))
        self.assertEqual([self.root / "opt"], list(self.root.rglob("*")))

    def test_removal_leaves_what_is_not_its_own(self):
        self.install(DESTDIR=str(self.root))
        mine = self.root / "usr/local/share/memprofd/grafana/mine.json"
        mine.write_text("{}")
        self.install("--uninstall", DESTDIR=str(self.root))
        self.assertEqual({str(mine.relative_to(self.root))}, self.files())
        mine.unlink()
        self.install(DESTDIR=str(self.root))
        self.install("--uninstall", DESTDIR=str(self.root))
        self.assertEqual(set(), self.files())

    def test_it_refuses_machines_that_cannot_run_it(self):
        for command, answer, *words in [("getconf", "echo glibc 2.31", "glibc 2.31 is too old", "2.34 or later"),
                                        ("getconf", "exit 1", "no glibc"),
                                        ("uname", 'case $1 in -r) echo 5.4.0-150-generic ;; *) /bin/uname "$@" ;; esac',
                                         "Linux 5.4.0-150-generic is too old", "5.8 or later"),
                                        ("uname", 'case $1 in -m) echo aarch64 ;; *) /bin/uname "$@" ;; esac', "Linux aarch64"),
                                        ("id", "echo 1000", "only root", "sudo")]:
            line = self.refusal(command, answer)
            for word in words:
                self.assertIn(word, line)
        self.assertIn("--frobnicate", self.refusal("unused", "", "--frobnicate"))
        self.assertIn("absolute", self.refusal("unused", "", "refused"))

    def test_it_takes_the_oldest_that_it_names(self):
        """Versions are compared as numbers: 2.4 is older than 2.34, and 5.10 is newer than 5.8."""
        self.assertIn("glibc 2.4 is too old", self.refusal("getconf", "echo glibc 2.4"))
        commands = self.folder / "oldest"
        commands.mkdir()
        (commands / "getconf").write_text("#!/bin/sh\necho glibc 2.34\n")
        (commands / "uname").write_text('#!/bin/sh\ncase $1 in -r) echo 5.10.0-9-amd64 ;; *) /bin/uname "$@" ;; esac\n')
        for path in commands.iterdir():
            path.chmod(0o755)
        prefix = self.folder / "oldest-prefix"
        self.install(prefix, PATH=f"{commands}:{os.environ['PATH']}")
        self.install("--uninstall", prefix)
        self.assertFalse(prefix.exists())


class Check(unittest.TestCase):
    """deploy/dist/check.sh, the last step of make dist."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="memprofd-test-")))
        (self.folder / "bin").mkdir()

    def compile(self, text, *options):
        run("gcc", "-x", "c", "-", "-o", self.folder / "bin/program", *options, input=text)

    def check(self):
        done = run(ROOT / "deploy/dist/check.sh", self.folder, check=False)
        return done.returncode, done.stderr

    def test_a_symbol_that_is_too_new(self):
        self.compile("#include <stdlib.h>\nint main(void) { return arc4random() & 1; }")
        self.assertEqual((1, "bin/program: arc4random is of glibc 2.36\n"), self.check())

    def test_a_library_of_the_distribution(self):
        self.compile("#include <zlib.h>\nint main(void) { return zlibVersion()[0]; }", "-lz")
        self.assertEqual((1, "bin/program: libz.so.1 is neither of glibc nor in the release\n"), self.check())
        (self.folder / "libz.so.1").touch()
        self.assertEqual((0, ""), self.check())

    def test_relocations_that_are_too_new(self):
        self.compile("int main(void) { return 0; }", "-pie", "-Wl,-z,pack-relative-relocs")
        self.assertEqual((1, "bin/program: GLIBC_ABI_DT_RELR is later than glibc 2.34\n"), self.check())


STAND_INS = r"""
#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*find)(void*, struct dl_find_object*);

int main(void) {
  find theirs = (find)dlsym(RTLD_DEFAULT, "_dl_find_object");
  assert(theirs != NULL && theirs != _dl_find_object);
  void* const later = dlsym(dlopen("libz.so.1", RTLD_NOW), "zlibVersion");
  static int data;
  void* const code[] = {(void*)main, (void*)printf, (void*)theirs, later, (char*)later + 1, &data, malloc(1), NULL};
  int found = 0;
  for (unsigned i = 0; i < sizeof code / sizeof *code; ++i) {
    struct dl_find_object a = {0}, b = {0};
    const int ours = _dl_find_object(code[i], &a);
    assert(ours == theirs(code[i], &b));
    if (ours != 0) continue;
    ++found;
    assert(a.dlfo_eh_frame == b.dlfo_eh_frame && a.dlfo_eh_frame != NULL);
    assert((char*)a.dlfo_map_start <= (char*)code[i] && (char*)code[i] < (char*)a.dlfo_map_end);
  }
  assert(found == 6);

  volatile double three = 3, huge = 1e300;
  assert(hypot(three, 4) == 5 && hypot(huge, huge) < HUGE_VAL);

  unsigned char seen[600] = {0}, bytes[600];
  for (int round = 0; round < 20; ++round) {
    memset(bytes, 0, sizeof bytes);
    arc4random_buf(bytes + 1, sizeof bytes - 2);
    assert(bytes[0] == 0 && bytes[599] == 0);
    for (int i = 0; i < 600; ++i) seen[i] |= bytes[i];
  }
  for (int i = 1; i < 599; ++i) assert(seen[i] != 0);
  assert(arc4random() != arc4random() || arc4random() != arc4random());
  puts("ok");
}
"""


class StandIns(unittest.TestCase):
    def test_they_do_what_glibc_does(self):
        """Compares deploy/dist/older_glibc.c with the installed glibc, which has these functions."""
        with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder:
            source, program = pathlib.Path(folder) / "test.c", pathlib.Path(folder) / "test"
            source.write_text(STAND_INS)
            run("gcc", "-O1", "-fvisibility=hidden", source, ROOT / "deploy/dist/older_glibc.c", "-lm", "-o", program)
            self.assertEqual("ok\n", run(program).stdout)
            self.assertNotRegex(run("objdump", "--dynamic-syms", program).stdout, r"GLIBC_2\.3[56]")


if __name__ == "__main__":
    unittest.main()
