# SPDX-License-Identifier: Apache-2.0
"""Assertions in the code (Memprof_check), checked by memprofctl check without privileges, and by
memprofd."""

import json
import re
import signal
import subprocess
import xml.etree.ElementTree

import api
import harness
from harness import E2ETest, TARGETS5, eventually, http_get
from test_run import RunCase, UNPRIVILEGED

RATE = 1e-3


class Check(RunCase):
    """The program reports what it asserts and what is true."""

    def check(self, text, *options, program=None):
        command = [*self.user, self.folder / "memprofctl", "check", "-q", "--sampling-rate", f"{RATE:g}", *options, "--",
                   *(program or [self.program("assertions")])]
        return subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True,
                              timeout=harness.TIMEOUT, check=False)

    def test_what_stays_is_named_with_its_path(self):
        done = self.check("leak 5\nfree 100\nexit\n")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^BROKEN  leaking session is unreachable: 5 values are reachable; 5 by global Assertions[,.]\S* .*(array|list|block|Hashtbl)")
        self.assertRegex(done.stderr, r"(?m)^ok      session is unreachable: no value is reachable too long$")

    def test_one_value_outlives_another(self):
        """Buffers that die before their sessions violate nothing; those that outlive them do."""
        done = self.check("order 7\ndisorder 3\ncollect\nexit\n")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^ok      buffer dies first: ")
        self.assertRegex(done.stderr, r"(?m)^BROKEN  late buffer dies first: 3 values are reachable after the other died; 3 by global Assertions")

    def test_garbage_violates_nothing(self):
        """Without a collection in between: floating garbage counts as dead."""
        done = self.check("order 7\nfree 7\ndisorder 3\nexit\n")
        self.assertRegex(done.stderr, r"(?m)^ok      buffer dies first: ")
        self.assertRegex(done.stderr, r"(?m)^ok      session is unreachable: ")
        self.assertRegex(done.stderr, r"(?m)^BROKEN  late buffer dies first: 3 values")

    def test_regions(self):
        done = self.check("region 8192 1024\nexit\n")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^BROKEN  load leaves <= 1.00 MiB: \S+ MiB ± \S+, certainly at least [678]\.\d+ MiB; [\d,]+ by global Assertions")
        done = self.check("region 8192 16384\nexit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^ok      load leaves <= 16.0 MiB: [789]\.\d+ MiB ± ")

    def test_no_false_alarm(self):
        done = self.check("rounds 200\nexit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(3, len(re.findall("(?m)^ok ", done.stderr)), done.stderr)

    def test_where_the_code_says(self):
        """A violation at a point of the code stays, even if the assertion is removed later."""
        done = self.check("leak 2\nverify\nforget\nleak 1\nforget\nexit\n")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, "(?m)^BROKEN  leaking session is unreachable: 2 values")
        self.assertEqual(0, self.check("leak 2\nforget\nverify\nexit\n").returncode)

    def test_what_is_not_known_is_not_checked(self):
        done = self.check("later 4\nexit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stderr, "(?m)^ok      patient session is unreachable: .*; not checked yet: 4 values that are not due$")
        done = self.check("constant\nexit\n")
        self.assertEqual(harness.NOT_PROFILABLE, done.returncode, done.stderr)
        self.assertRegex(done.stderr, "(?m)^UNKNOWN constant is unreachable: not checked: 1 marked values? ")
        done = self.check("leak 1\nquit\n")
        self.assertEqual(128 + signal.SIGKILL, done.returncode, done.stderr)
        self.assertRegex(done.stderr, "(?m)^UNKNOWN assertions of the program: not checked: the program ended without running at_exit")

    def test_results_for_ci(self):
        """Rules and assertions form one list."""
        junit = self.folder / "a.xml"
        done = self.check("leak 1\nexit\n", "--max-live", "1GiB", "--junit", junit)
        self.assertEqual(1, done.returncode, done.stderr)
        suite = xml.etree.ElementTree.parse(junit).getroot()
        self.assertEqual(("2", "1"), (suite.get("tests"), suite.get("failures")))
        self.assertEqual("7", str(self.check("leak 1\nexit 7\n").returncode), "the program's own failure comes first")

    def test_a_script_starts_the_program(self):
        done = self.check("leak 2\nexit\n", program=["sh", "-c", f"{self.program('assertions')}; exit $?"])
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, "(?m)^BROKEN  leaking session is unreachable: 2 values")

    def test_a_check_needs_a_rule_or_an_assertion(self):
        """check refuses a program without the library before it runs, and a script after it has
        ended."""
        for program in ([self.program("known_alloc")], ["sh", "-c", "true"]):
            done = self.check("", program=program)
            self.assertNotEqual(0, done.returncode, done.stderr)

    def test_without_memprofctl(self):
        """The program neither waits nor prints anything."""
        done = subprocess.run([str(self.program("assertions"))], input="leak 5\nrounds 10\nverify\nexit\n", capture_output=True, text=True,
                              timeout=harness.TIMEOUT, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))


class Check5(Check):
    targets = TARGETS5
    user = UNPRIVILEGED  # its libraries are in root's home folder


class Server(E2ETest):
    """memprofd checks the assertions in each snapshot that it reads."""

    def violations(self, daemon):
        found = re.findall(r'(?m)^memprofd_assertion_violations{[^}]*rule="([^"]*)"} (\d)', str(http_get(daemon.url + "/metrics")[1]))
        return {rule: int(value) for rule, value in found}

    def check_version(self, **options):
        heaps = self.folder / "heaps"
        heaps.mkdir(mode=0o700)
        target = self.target("assertions", **options)
        daemon = self.daemon("--pid", target.pid, "--snapshot.directory", heaps, "--web.enable-control", rate=RATE)
        eventually(lambda: target.command("rounds 50") and daemon.state(target.pid) == "sampling", "it is sampled")
        for command in ("leak 3", "free 10", "later 1"):
            target.command(command)
        file = self.folder / "a.heap"
        daemon.ctl("snapshot", "take", "--pid", target.pid, "--out", file)
        found = {one["name"]: one for one in json.loads(daemon.ctl("snapshot", "assertions", file, "-o", "json").stdout)["assertions"]}
        self.assertEqual(("broken", 3), (found["leaking session"]["verdict"], found["leaking session"]["violating_values"]))
        self.assertIn("global Assertions", found["leaking session"]["holders"][0]["path"])
        self.assertEqual(("ok", 0), (found["session"]["verdict"], found["session"]["violating_values"]))
        self.assertEqual(1, found["patient session"]["values_not_due"])
        self.assertRegex(daemon.ctl("snapshot", "assertions", file).stdout, "(?m)^BROKEN  leaking session is unreachable: 3 values are reachable; 3 by ")
        daemon.ctl("snapshot", "take", "--pid", target.pid, "--keep")
        expected = {"leaking session is unreachable": 1, "session is unreachable": 0, "buffer dies first": 0, "patient session is unreachable": 0}
        eventually(lambda: expected.items() <= self.violations(daemon).items(), "memprofd reads the snapshot")
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: assertions violates the assertion leaking session is unreachable: 3 values are reachable; 3 by global Assertions")
        [stored] = heaps.iterdir()
        status, text = api.post(daemon, "find_assertions", name=stored.name)
        self.assertEqual(200, status, text)
        self.assertEqual({name: one["verdict"] for name, one in found.items()},
                         {one["name"]: one["verdict"] for one in json.loads(text)["assertions"]})
        target.command("forget")
        daemon.ctl("snapshot", "take", "--pid", target.pid, "--keep")
        eventually(lambda: self.violations(daemon).get("leaking session is unreachable") == 0, "the next snapshot has none")

    def test_ocaml4(self):
        self.check_version()

    def test_ocaml5(self):
        self.check_version(folder=TARGETS5)
