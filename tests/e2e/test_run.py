# SPDX-License-Identifier: Apache-2.0
"""memprofctl run: programs from their first allocation to their end, by a user without
privileges."""

import gzip
import json
import math
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

import answers
import harness
from harness import E2ETest, Process, TARGETS, TARGETS5, eventually, memprofctl, sum_sites
from messages import message_modules

RATE = 1e-3
UNPRIVILEGED = ("setpriv", "--inh-caps", "-all", "--bounding-set", "-all", "--no-new-privs")
NOBODY = (*UNPRIVILEGED, "--reuid", "65534", "--regid", "65534", "--clear-groups")


# What container engines refuse without privileges: ptrace, process_vm_readv, process_vm_writev, perf_event_open, bpf, unshare,
# setns, mount, userfaultfd, keyctl, pidfd_open, pidfd_getfd, io_uring_setup, name_to_handle_at, personality.
REFUSED = (101, 310, 311, 298, 321, 272, 308, 165, 323, 250, 434, 438, 425, 303, 135)


class RunCase(E2ETest):
    targets = TARGETS
    user = NOBODY

    def setUp(self):
        super().setUp()
        # Every user may read and run files here; the build may be in a folder that only root can
        # enter.
        self.folder.chmod(0o777)
        for name in ("memprofctl", "libmemprof_agent.so"):
            shutil.copy2(harness.BUILD / name, self.folder / name)

    def program(self, name):
        copy = self.folder / name
        if not copy.exists():
            shutil.copy2(self.targets / name, copy)
        return copy

    def command(self, *program, options=(), rate=RATE):
        return [*self.user, self.folder / "memprofctl", "run", "--sampling-rate", f"{rate:g}", *options, "--", *program]

    def start(self, *program, options=(), rate=RATE, env=None):
        """memprofctl with the program, which gets memprofctl's standard input."""
        return self.process(Process(self.command(*program, options=options, rate=rate), env=env))

    def run_to_end(self, *program, options=(), rate=RATE, text="", env=None):
        command = [str(word) for word in self.command(*program, options=options, rate=rate)]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=harness.TIMEOUT, check=False,
                              env={**os.environ, **(env or {})})

    def ready(self, name, *arguments, **options):
        run = self.start(self.program(name), *arguments, **options)
        self.assertEqual("ready", run.read_line().split()[0])
        return run

    def sites(self, file):
        return {site["function"]: site for site in answers.answer((self.folder / file).read_text())["sites"]}


class Numbers(RunCase):
    def test_known_allocations(self):
        """All files show each site's words as the program counts them; exit code and output are the
        program's."""
        files = ("a.json", "a.ctf", "a.pb.gz", "a.html", "a.folded", "a.speedscope.json")
        options = [f"--out={self.folder / file}" for file in files]
        done = self.run_to_end(self.program("known_alloc"), options=options, text="go 20\nexit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        first, truth = done.stdout.splitlines()[0], json.loads(done.stdout.splitlines()[1])["sites"]
        self.assertEqual("ready", first.split()[0])
        sites = self.sites("a.json")
        for name in ("site_small", "site_live", "site_major", "site_promoted"):
            found = sum_sites(sites.values(), name)["allocated_bytes"]
            self.assert_estimate(name, found, truth[name]["allocated_words"], RATE)
        traced = answers.answer(memprofctl("report", "-o", "json", self.folder / "a.ctf").stdout)
        whole = answers.answer((self.folder / "a.json").read_text())
        self.assertEqual(whole["total"]["samples"], traced["total"]["samples"], "the trace has every sample")
        for word in ("live at the peak", "Known_alloc.site_live", "allocated"):
            self.assertIn(word, done.stderr)
        for file in files:
            self.assertGreater((self.folder / file).stat().st_size, 100, file)
        self.assertEqual([], [path.name for path in self.folder.iterdir() if path.name.startswith("a.") and path.name not in files])

    def test_runs_have_samples_of_their_own(self):
        """The runtime's generator has the same seed in every process; without a seed of its own,
        equal runs would have equal errors."""
        found = []
        for file in ("a.json", "b.json"):
            done = self.run_to_end(self.program("known_alloc"), options=["--out", self.folder / file], text="go 20\nexit\n")
            self.assertEqual(0, done.returncode, done.stderr)
            found.append({name: int(site["samples"]) for name, site in self.sites(file).items() if "Known_alloc.site" in name})
        self.assertGreater(sum(found[0].values()), 100)
        self.assertNotEqual(*found)

    def test_length(self):
        """All outputs last until the end of a program that is idle then."""
        files = [self.folder / f"a.{ending}" for ending in ("json", "ctf", "pb.gz")]
        began = time.time_ns()
        run = self.ready("ends", options=[f"--out={file}" for file in files], rate=1e-2)
        run.send("hold 1")
        self.assertEqual("held", run.read_line())
        idle = time.time_ns()
        eventually(lambda: time.time_ns() - idle > 2 * (idle - began), "it has been idle for longer than it has worked")
        (child,) = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        self.assertEqual(128 + signal.SIGKILL, run.wait(), run.stderr())
        begin, end = (int(answers.answer(files[0].read_text())["range"][f"{name}_unix_ns"]) for name in ("begin", "end"))
        self.assertGreater(end, idle + 2 * (idle - began))
        traced = answers.answer(memprofctl("report", "-o", "json", files[1]).stdout)
        self.assertAlmostEqual(end, int(traced["range"]["end_unix_ns"]), delta=(end - idle) / 20)
        pprof, = message_modules(self.folder, "pprof/profile.proto")
        profile = pprof.Profile.FromString(gzip.decompress(files[2].read_bytes()))
        self.assertEqual((begin, end), (profile.time_nanos, profile.time_nanos + profile.duration_nanos))
        ((count, unit),) = re.findall(r"ran for ([\d.]+) (ms|s|min);", run.stderr())
        seconds = float(count) * {"ms": 1e-3, "s": 1, "min": 60}[unit]
        self.assertAlmostEqual((end - begin) / 1e9, seconds, delta=seconds / 20)

    def test_no_sample(self):
        """The report says so, and what to do."""
        done = self.run_to_end(self.program("ends"), rate=1e-9, text="hold 1\nexit 0\n")
        self.assertEqual(0, done.returncode, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "nothing was sampled" in line]
        self.assertEqual(1, len(lines), done.stderr)
        self.assertRegex(lines[0], r"^memprofctl: nothing was sampled.* at 1e-09/word .*; give a higher --sampling-rate")

    def test_every_block(self):
        """At rate 1 nothing is missing, not even the standard library's allocations before the
        program's first line."""
        done = self.run_to_end(self.program("ends"), options=["--out", self.folder / "a.json"], rate=1, text="exit 0\n")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue(any("Stdlib" in name for name in self.sites("a.json")), self.sites("a.json").keys())

    def test_live_at_the_peak(self):
        """Blocks freed later are live at the peak; kept ones are live at the end."""
        done = self.run_to_end(self.program("ends"), options=["--out", self.folder / "a.ctf"], text="hold 20\nexit 0\n")
        self.assertEqual(0, done.returncode, done.stderr)
        found = re.search(r"live at the peak +([\d.]+) MiB", done.stderr)
        self.assertIsNotNone(found, done.stderr)
        self.assertGreater(float(found[1]), 15)


    def test_while_it_runs(self):
        run = self.ready("ends", options=["--live"])
        run.send("hold 20")
        self.assertEqual("held", run.read_line())
        eventually(lambda: "Ends.hold" in run.stderr(), "what is held is shown")
        self.assertNotIn("live at the end", run.stderr())
        run.send("exit 0")
        self.assertEqual(0, run.wait(), run.stderr())
        self.assertIn("live at the end", run.stderr())


class OwnTracker(RunCase):
    def test_its_start_succeeds(self):
        """systhreads, which is initialised after the session has begun, replaces the agent's hooks."""
        done = self.run_to_end(self.program("stops_memprof"), text="go 100000\nstart\ngo 100000\nstop\nexit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        _, before, *_, after = [json.loads(line) if line.startswith("{") else line for line in done.stdout.splitlines()]
        self.assertEqual(0, after["failures"], done.stdout)
        expected = (after["words"] - before["words"]) * 1e-2
        self.assertLess(abs(after["own_samples"] - expected), 6 * expected ** 0.5 + 1)
        self.assertIn("allocations are missing from the time in which the program used Gc.Memprof itself", done.stderr)


    def test_one_that_starts_at_once(self):
        """Before any sample and any collection."""
        done = self.run_to_end(self.program("uses_memprof"), text="exit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        own = json.loads(done.stdout.splitlines()[-1])
        expected = own["words"] * 1e-4
        self.assertLess(abs(own["samples"] - expected), 6 * expected ** 0.5 + 1)


class OwnTracker5(OwnTracker):
    targets = TARGETS5
    user = UNPRIVILEGED  # their libraries are in root's home folder


class Numbers5(Numbers):
    targets = TARGETS5
    user = UNPRIVILEGED  # their libraries are in root's home folder

    def test_versions_of_the_trace(self):
        """Tools that read one domain only can be given a trace of OCaml 5."""
        for options, version in (([], 3), (["--format-version", "2"], 2)):
            out = self.folder / "a.ctf"
            done = self.run_to_end(self.program("known_alloc"), options=["--out", out, *options], text="go 3\nexit\n")
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(version, int.from_bytes(out.read_bytes()[28:30], "little"))
            self.assertIn("Known_alloc.site_live", memprofctl("report", out).stdout)

    def test_domains_and_threads(self):
        target = self.ready("domains", options=["--out", self.folder / "a.json"])
        target.send("stat")
        self.assertIn("{", target.read_line())
        eventually(lambda: self.work_of(target) > 2_000_000, "it works")
        target.send("exit")
        self.assertEqual(0, target.wait())
        self.assertGreater(len(self.sites("a.json")), 0)

    def work_of(self, target):
        target.send("stat")
        answer = json.loads(target.read_line())
        return sum(site["allocated_words"] for site in answer["sites"].values())


class Ends(RunCase):
    """However the program ends, its last block is reported, and memprofctl has its exit code."""

    ENDS = {"exit": ("exit 0", 0), "code": ("exit 3", 3), "exception": ("raise", 2)}

    def test_by_itself(self):
        for name, (command, code) in self.ENDS.items():
            with self.subTest(name):
                out = self.folder / f"{name}.json"
                done = self.run_to_end(self.program("ends"), options=["--out", out], rate=1, text=f"hold 1\n{command}\n")
                self.assertEqual(code, done.returncode, done.stderr)
                self.assertGreaterEqual(self.sites(out.name)["Ends.hold"]["samples"], 1024)

    def test_by_a_signal(self):
        for sent in (signal.SIGKILL, signal.SIGABRT, signal.SIGTERM):
            with self.subTest(sent.name):
                out = self.folder / f"{sent.name}.json"
                run = self.ready("ends", options=["--out", out], rate=1)
                run.send("hold 1")
                self.assertEqual("held", run.read_line())
                # SIGTERM is sent to memprofctl, which passes it on.
                os.kill(run.pid if sent == signal.SIGTERM else self.child_of(run.pid), sent)
                self.assertEqual(128 + sent, run.wait(), run.stderr())
                self.assertGreaterEqual(self.sites(out.name)["Ends.hold"]["samples"], 1024)

    def child_of(self, pid):
        (child,) = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def test_by_exec(self):
        """Earlier allocations are reported; the new program runs as usual."""
        out = self.folder / "a.json"
        run = self.ready("execer", options=["--out", out])
        run.send(f"exec {self.program('ends')}")
        self.assertEqual("ready", run.read_line().split()[0])
        run.send("exit 5")
        self.assertEqual(5, run.wait(), run.stderr())
        self.assertGreater(self.sites("a.json")["Execer.allocate"]["samples"], 0)

    def test_children_are_not_counted(self):
        out = self.folder / "a.json"
        run = self.ready("forks", options=["--out", out], rate=1e-2)
        run.send("burst 5")
        run.read_line()
        run.send("exit")
        self.assertEqual(0, run.wait(), run.stderr())
        self.assertNotIn("Forks.child_work", self.sites("a.json"))


class Children(RunCase):
    """Each OCaml process of a run has its own counts, which are summed by program or reported."""

    CHILD_WORDS = 400_000  # of forks.ml's child_work
    CHILD_RATE = 1e-2

    def run_forks(self, children, times, *options):
        done = self.run_to_end(self.program("forks"), options=["--out", self.folder / "a.json", *options],
                               rate=self.CHILD_RATE, text=f"work {children} {times}\nexit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("Forks.child_work", self.sites("a.json"), "a child is not its parent")
        return done

    def assert_child_work(self, file, loops, children=1):
        """Forked children have the same random numbers, so their errors add up."""
        self.assert_estimate(file, sum_sites(self.sites(file).values(), "child_work")["allocated_bytes"],
                             loops * self.CHILD_WORDS, self.CHILD_RATE, sigmas=4 * math.sqrt(children))

    def files(self):
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith("a."))

    def test_forked_children_are_summed(self):
        done = self.run_forks(3, 4)
        self.assertRegex(done.stderr, r"memprofctl: forks, OCaml [0-9.]+, 3 other processes; ")
        self.assertIn("Forks.child_work", done.stderr)
        self.assert_child_work("a.forks.json", 12, children=3)
        allocated = self.sites("a.forks.json")["Forks.child_work"]["allocated"]
        independent = math.sqrt(int(allocated["samples"])) / self.CHILD_RATE * 8
        self.assertGreater(allocated["bytes_stderr"], 1.6 * independent, "the error of three that are alike")
        self.assertEqual(["a.forks.json", "a.json"], self.files())

    def test_in_containers(self):
        """Without privileges, in namespaces of their own, and with system calls that are refused."""
        namespaces = ("unshare", "-U", "--pid", "--fork", "--mount-proc", "--net", "--ipc", "--uts")
        if self.user == NOBODY:  # root without capabilities may not map itself
            namespaces = (*namespaces, "--map-root-user")
        for confinement in (namespaces, (sys.executable, "-c", harness.under_a_filter(REFUSED), shutil.which("env"))):
            with self.subTest(confinement[0]):
                self.user = (*type(self).user, *confinement)
                done = self.run_forks(3, 4)
                self.assertNotIn("not profiled", done.stderr)
                self.assert_child_work("a.forks.json", 12, children=3)

    def test_each_child(self):
        done = self.run_forks(3, 4, "--children", "each", "--out", self.folder / "a.ctf")
        pids = re.findall(r"memprofctl: forks, pid (\d+), OCaml", done.stderr)
        self.assertEqual(3, len(set(pids)), done.stderr)
        self.assertEqual(sorted(["a.json", "a.ctf", *(f"a.forks.{pid}.{ending}" for pid in pids for ending in ("json", "ctf"))]),
                         self.files())
        for pid in pids:
            self.assert_child_work(f"a.forks.{pid}.json", 4)
            traced = answers.answer(memprofctl("report", "-o", "json", self.folder / f"a.forks.{pid}.ctf").stdout)
            whole = answers.answer((self.folder / f"a.forks.{pid}.json").read_text())
            self.assertEqual(whole["total"]["samples"], traced["total"]["samples"], "the trace has every sample")

    def test_no_child(self):
        done = self.run_forks(3, 4, "--children", "no")
        self.assertNotIn("other process", done.stderr)
        self.assertEqual(["a.json"], self.files())

    def test_started_children_are_summed(self):
        """The first process has its own report, later ones share one sum; others are named."""
        program = self.program("known_alloc")
        script = self.folder / "script"
        script.write_text("#!/bin/sh\n/bin/true\n" + f"printf 'go 20\\nexit\\n' | {program}\n" * 3)
        script.chmod(0o755)
        done = self.run_to_end(script, options=["--out", self.folder / "a.json"])
        self.assertEqual(0, done.returncode, done.stderr)
        truths = [json.loads(line)["sites"] for line in done.stdout.splitlines() if line.startswith("{") and "sites" in line]
        self.assertEqual(3, len(truths), done.stdout)
        for file, times in (("a.json", 1), ("a.known_alloc.json", 2)):
            sites = self.sites(file)
            for name in ("site_small", "site_live", "site_major", "site_promoted"):
                found = sum_sites(sites.values(), name)["allocated_bytes"]
                self.assert_estimate(f"{file} {name}", found, times * truths[0][name]["allocated_words"], RATE)
        self.assertIn("known_alloc, OCaml", done.stderr)
        self.assertIn("2 other processes", done.stderr)
        self.assertRegex(done.stderr, r"(?m)^memprofctl: not profiled: .*true.*: has no OCaml runtime")

    def test_from_the_first_allocation(self):
        """A program that a script starts is sampled from its begin, however late memprofctl detects
        it."""
        script = self.folder / "script"
        script.write_text(f"""#!/bin/sh
kill -STOP $PPID
printf 'go 1\nexit\n' | {self.program('known_alloc')} &
p=$!
is() {{ grep -qs "^State:.[$1]" /proc/$p/status; }}
while is RSD && ! grep -qs memfd:memprof /proc/$p/maps; do :; done
while is R; do :; done
kill -CONT $PPID
wait
""")
        script.chmod(0o755)
        done = self.run_to_end(script, options=["--out", self.folder / "a.json"], rate=self.CHILD_RATE)
        self.assertEqual(0, done.returncode, done.stderr)
        truth, = (json.loads(line)["sites"] for line in done.stdout.splitlines() if line.startswith("{"))
        sites = self.sites("a.json")
        for name in ("site_small", "site_live", "site_major", "site_promoted"):
            found = sum_sites(sites.values(), name)["allocated_bytes"]
            self.assert_estimate(name, found, truth[name]["allocated_words"], self.CHILD_RATE)

    def test_exec(self):
        """A program started by exec is a separate process."""
        run = self.ready("execer", options=["--out", self.folder / "a.json"])
        run.send(f"exec {self.program('ends')}")
        self.assertEqual("ready", run.read_line().split()[0])
        run.send("hold 20")
        self.assertEqual("held", run.read_line())
        run.send("exit 5")
        self.assertEqual(5, run.wait(), run.stderr())
        self.assertIn("Execer.allocate", self.sites("a.json"))
        self.assertIn("Ends.hold", self.sites("a.ends.json"))

    def test_many(self):
        """Children beyond the limit run normally, and are counted."""
        done = self.run_forks(400, 1)
        self.assertIn('{"pid":400}', done.stdout)
        profiled = re.search(r"forks, OCaml [0-9.]+, (\d+) other processes", done.stderr)
        refused = re.findall(r"not profiled: forks(?: \((\d+) processes\))?: ", done.stderr)
        self.assertEqual(400, int(profiled[1]) + sum(int(times or 1) for times in refused), done.stderr)

    def test_killed(self):
        """If any process is killed, the others continue, and nothing is left behind."""
        for victim in ("memprofctl", "program", "child"):
            with self.subTest(victim):
                run = self.ready("forks", rate=self.CHILD_RATE)
                (program,) = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
                (socket,) = re.findall(r"memprof-run-\w+", pathlib.Path(f"/proc/{program}/environ").read_text())
                run.send("fork")
                child = json.loads(run.read_line())["pid"]
                eventually(lambda: self.is_profiled(child, program), "its agent has memory of its own")  # pylint: disable=cell-var-from-loop
                os.kill({"memprofctl": run.pid, "program": int(program), "child": child}[victim], signal.SIGKILL)
                if victim == "child":
                    run.send("exit")
                self.assertEqual({"memprofctl": -signal.SIGKILL, "program": 128 + signal.SIGKILL, "child": 0}[victim], run.wait())
                if victim == "memprofctl":
                    run.send("work 1 1")
                    self.assertEqual(1, json.loads(run.read_line())["pid"], "the program goes on")
                    run.send("exit")
                else:
                    self.assertIn("1 other process;", run.stderr())
                for pid in (program, child):
                    eventually(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "it ends")  # pylint: disable=cell-var-from-loop
                self.assertNotIn(socket, pathlib.Path("/proc/net/unix").read_text())

    def is_profiled(self, child, program):
        """It has memory that is not its parent's, and rests after its first work."""
        own = self.shared_memory(child)
        return own and not own & self.shared_memory(program) and \
            pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    def shared_memory(self, pid):
        lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        return {line.split()[4] for line in lines if "memfd:memprof-share" in line}


class Children5(Children):
    targets = TARGETS5
    user = UNPRIVILEGED  # their libraries are in root's home folder


class Ends5(Ends):
    targets = TARGETS5
    user = UNPRIVILEGED  # their libraries are in root's home folder


class Check(RunCase):
    """memprofctl check: limits of the heap, for tests and CI."""

    def check(self, *options, text="hold 20\nexit 0\n", program="ends", rate=RATE):
        command = [*self.user, self.folder / "memprofctl", "check", "--sampling-rate", f"{rate:g}", *options, "--", self.program(program)]
        return subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True,
                              timeout=harness.TIMEOUT, check=False)

    def test_limits(self):
        """20 MiB are held: limits above pass, limits below fail with the site's name."""
        for rule in ("--max-live", "--max-peak", "--max-allocated"):
            with self.subTest(rule):
                done = self.check(rule, "40MiB")
                self.assertEqual(0, done.returncode, done.stderr)
                done = self.check("-q", rule, r"Ends\.hold=10MiB", rule, "Elsewhere=0")
                self.assertEqual(1, done.returncode, done.stderr)
                self.assertRegex(done.stderr, r"(?m)^BROKEN  .* <= 10.0 MiB of Ends\\.hold: .*most of it: Ends\.hold  ")
                self.assertRegex(done.stderr, r"(?m)^ok      .* <= 0 B of Elsewhere")

    def test_files(self):
        junit, markdown = self.folder / "a.xml", self.folder / "a.md"
        done = self.check("--max-live", "1MiB", "--max-peak", "1GiB", "--junit", junit, "--markdown", markdown)
        self.assertEqual(1, done.returncode, done.stderr)
        suite = xml.etree.ElementTree.parse(junit).getroot()
        self.assertEqual(("2", "1"), (suite.get("tests"), suite.get("failures")))
        self.assertEqual(1, len(suite.findall("testcase/failure")))
        self.assertIn("| **broken** |", markdown.read_text())

    def test_files_of_a_check_that_failed(self):
        """They have the failure, and nothing of an earlier check."""
        junit, markdown = self.folder / "a.xml", self.folder / "a.md"
        files = ("--junit", junit, "--markdown", markdown)

        def error_of(code, *options, **how):
            done = self.check(*options, *files, **how)
            self.assertEqual(code, done.returncode, done.stderr)
            suite = xml.etree.ElementTree.parse(junit).getroot()
            wrong = suite.findall("testcase/failure") + suite.findall("testcase/error")
            self.assertEqual(1, len(wrong), junit.read_text())
            return wrong[0].get("message"), markdown.read_text()

        self.assertEqual(0, self.check("--max-live", "1GiB", *files).returncode)
        message, summary = error_of(7, "--max-live", "1GiB", text="hold 20\nexit 7\n")
        self.assertEqual("the program ended: exit code 7", message)
        self.assertIn("| ok |", summary)
        message, summary = error_of(harness.NOT_PROFILABLE, "--max-live", "1GiB", program="static_target", text="exit\n")
        self.assertIn("no OCaml program has loaded the agent", message)
        self.assertNotIn("| ok |", summary)
        message, summary = error_of(harness.NOT_PROFILABLE, "--max-live", "1KiB", rate=1e-7)
        self.assertIn("a sample stands for 76.3 MiB", message)
        message, summary = error_of(harness.USAGE, "--baseline", self.folder / "nowhere.json")
        self.assertIn("cannot be read", message)
        done = self.check("--max-live", "1GiB", "--junit", self.folder / "nowhere" / "a.xml")
        self.assertEqual(harness.USAGE, done.returncode, done.stderr)
        self.assertEqual("", done.stdout, "the program was not started")

    def test_summary_of_github(self):
        """Each step appends to it."""
        summary = self.folder / "summary.md"
        summary.write_text("hello\n")
        summary.chmod(0o666)
        command = [*self.user, "env", f"GITHUB_STEP_SUMMARY={summary}", self.folder / "memprofctl", "check",
                   "--max-live", "1GiB", "--markdown", summary, "--", self.program("ends")]
        for _ in range(2):
            subprocess.run([str(word) for word in command], input="exit 0\n", capture_output=True, text=True, check=True,
                           timeout=harness.TIMEOUT)
        self.assertTrue(summary.read_text().startswith("hello\n"))
        self.assertEqual(2, summary.read_text().count("### Heap of"))

    def test_rules_of_other_programs(self):
        rules = self.folder / "rules.yaml"
        rules.write_text("rules:\n  - max-live: 40MiB\n    program: nothere\n")
        done = self.check("-q", "--rules", rules)
        self.assertEqual(harness.NOT_PROFILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, "nothing was checked: 1 rule is not for ends but for: nothere")
        done = self.check("-q", "--rules", rules, "--max-live", "40MiB")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("1 rule is not for ends but for: nothere", done.stderr)

    def test_a_program_in_the_current_folder(self):
        self.program("ends")
        done = subprocess.run([*self.user, str(self.folder / "memprofctl"), "check", "--max-live", "1GiB", "--", "ends"], cwd=self.folder,
                              capture_output=True, text=True, check=False, timeout=harness.TIMEOUT)
        self.assertEqual(harness.NO_PROCESS, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, "write ./ends")

    def test_baseline(self):
        baseline = self.folder / "main.json"
        self.assertEqual(0, self.run_to_end(self.program("ends"), options=["--out", baseline], text="hold 20\nexit 0\n").returncode)
        self.assertEqual(0, self.check("--baseline", baseline).returncode)
        self.assertEqual(1, self.check("--baseline", baseline, text="hold 30\nexit 0\n").returncode)
        self.assertEqual(0, self.check("--baseline", baseline, "--tolerance", "90%", text="hold 30\nexit 0\n").returncode)

    def test_file_of_rules(self):
        rules = self.folder / "rules.yaml"
        rules.write_text("rules:\n  - max-live: 40MiB\n  - max-live: 10MiB\n    of: Ends\\.hold\n")
        done = self.check("-q", "--rules", rules)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^ok      live at the end <= 40.0 MiB: .*\nBROKEN  live at the end <= 10.0 MiB of Ends\\.hold: ")
        rules.write_text("rules:\n  - max-life: 40MiB\n")
        done = self.check("--rules", rules)
        self.assertEqual(harness.USAGE, done.returncode, done.stderr)
        self.assertIn("line 2: unexpected max-life", done.stderr)

    def test_lifetimes_and_ages(self):
        done = self.check("-q", "--max-age", "1ms", "--max-age", "1h", "--max-lifetime", "1h", "--max-lifetime", "Elsewhere=0")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^BROKEN  age <= 1.0 ms: .*; the oldest: ")
        self.assertEqual(3, len(re.findall("(?m)^ok  ", done.stderr)), done.stderr)

    def test_what_is_not_checked_is_no_success(self):
        """The program's own failure comes first."""
        self.assertEqual(7, self.check("--max-live", "1KiB", text="hold 20\nexit 7\n").returncode)
        static = self.check("--max-live", "1MiB", program="static_target", text="exit\n")
        self.assertEqual(harness.NOT_PROFILABLE, static.returncode, static.stderr)
        self.assertEqual(harness.USAGE, self.check().returncode)


class FalseAlarms(RunCase):
    """Limits that a program exactly reaches: chance breaks each in one of 1,000 runs."""

    # Allocated in one round of known_alloc; site_major's blocks are large.
    LIMITS = {"site_small": 250_000 * 4 * 8, "site_live": 200_000 * 5 * 8, "site_bytes": 80_000 * 14 * 8,
              "site_promoted": 100_000 * 4 * 8, "site_major": 1_000 * 1_001 * 8}
    CHANCE = 1e-3

    def test_in_many_runs(self):
        runs = 1_000 if harness.MATRIX else 20
        limits = [word for site, limit in self.LIMITS.items() for word in ("--max-allocated", f"Known_alloc\\.{site}={limit}B")]
        broken = 0
        for number in range(runs):
            command = [*self.user, self.folder / "memprofctl", "check", "-q", "--sampling-rate", "1e-3" if number % 2 else "1e-4",
                       *limits, "--", self.program("known_alloc")]
            done = subprocess.run([str(word) for word in command], input="go 1\nexit\n", capture_output=True, text=True,
                                  timeout=harness.TIMEOUT, check=False)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            broken += len(re.findall("(?m)^BROKEN ", done.stderr))
            self.assertEqual(len(self.LIMITS), len(re.findall("(?m)^(BROKEN|ok) ", done.stderr)), done.stderr)
        checks = runs * len(self.LIMITS)
        harness.NOTES.append(f"{broken} false alarms in {checks:,} checks")
        expected = checks * self.CHANCE
        self.assertLessEqual(broken, expected + 4 * math.sqrt(expected) + 1)


class Growth(RunCase):
    """memprofctl check --max-growth, which counts the runtime's collections."""

    def check_growth(self, what, *options, rounds=400):
        command = [*self.user, self.folder / "memprofctl", "check", "-q", "--sampling-rate", f"{RATE:g}", *options,
                   "--", self.program("growth"), what, rounds]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=harness.TIMEOUT, check=False)

    def test_growth(self):
        """A full cache does not grow, even with much garbage; a leak of 50 kB per round does."""
        done = self.check_growth("cache", "--max-growth", "0")
        self.assertEqual(0, done.returncode, done.stderr)
        done = self.check_growth("leak", "--max-growth", "0", "--max-growth", r"Growth\.replace=0")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^BROKEN  growth <= 0 B: .*most of it: Growth\.keep")
        # Its garbage grows with the heap.
        self.assertRegex(done.stderr, r"(?m)^ok      growth <= 0 B of Growth\\.replace: ")
        # 300 rounds of 100 blocks of 520 bytes with a list cell of 24, because the first quarter warms up, less what
        # was allocated before the first major collection of the rest and after the last one.
        found = float(re.search(r"growth <= 0 B: ([0-9.]+) MiB", done.stderr)[1])
        self.assertGreater(found, 300 * 100 * 544 / 2**20 / 2, done.stderr)
        self.assertLess(found, 400 * 100 * 544 / 2**20, done.stderr)

    def test_growth_needs_major_collections(self):
        done = self.check_growth("cache", "--max-growth", "0", rounds=1)
        self.assertEqual(harness.NOT_PROFILABLE, done.returncode, done.stderr)
        self.assertIn("major collections", done.stderr)


class Growth5(Growth):
    targets = TARGETS5
    user = UNPRIVILEGED  # their libraries are in root's home folder


class Program(RunCase):
    """The program runs as it would without memprofctl."""

    def test_environment(self):
        """The environment stays unchanged unless children are followed, and for them too, whatever
        LD_PRELOAD was."""
        library = self.folder / "libother.so"
        subprocess.run(["cc", "-shared", "-o", library, "-x", "c", os.devnull], check=True)
        for before in (None, str(library)):
            with self.subTest(before):
                env = {} if before is None else {"LD_PRELOAD": before}
                script = self.folder / "env.ml"
                script.write_text('let () = exit (Sys.command "env")\n')
                subprocess.run(["ocamlfind", "ocamlopt", script, "-o", self.folder / "env"], check=True, cwd=self.folder)
                alone = subprocess.run([*NOBODY, self.folder / "env"], capture_output=True, text=True, check=True,
                                       env={**os.environ, **env})
                done = self.run_to_end(self.folder / "env", options=["--children", "no"], env=env)
                self.assertEqual((0, alone.stdout), (done.returncode, done.stdout), done.stderr)
                done = self.run_to_end(self.folder / "env", env=env)
                others = [line for line in done.stdout.splitlines() if not line.startswith(("LD_PRELOAD=", "MEMPROF_SHARE_"))]
                self.assertEqual([line for line in alone.stdout.splitlines() if not line.startswith("LD_PRELOAD=")], others)

    def test_its_own_options(self):
        """The program's options are not taken as memprofctl's, with or without --."""
        for options in ([], ["-q"], ["--out", self.folder / "a.json"], ["--sampling-interval", "1KiB"]):
            with self.subTest(options):
                command = [*self.user, self.folder / "memprofctl", "run", *options, "--", "/bin/echo", "-q", "--out", "--", "-x"]
                done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
                self.assertEqual((0, "-q --out -- -x\n"), (done.returncode, done.stdout), done.stderr)

    def test_a_script_starts_it(self):
        script = self.folder / "script"
        script.write_text(f"#!/bin/sh\ntrue\n{self.program('ends')}\nexit $?\n")
        script.chmod(0o755)
        done = self.run_to_end(script, options=["--out", self.folder / "a.json"], rate=1, text="hold 1\nexit 4\n")
        self.assertEqual(4, done.returncode, done.stderr)
        self.assertGreaterEqual(self.sites("a.json")["Ends.hold"]["samples"], 1024)

    def test_linked_agent(self):
        done = self.run_to_end(self.program("linked_agent"), options=["--out", self.folder / "a.json"], text="go 4\nexit\n")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("Known_alloc.site_small", self.sites("a.json"))

    def test_others_run_unprofiled(self):
        """Programs that cannot be profiled run normally, and are named."""
        setuid = self.folder / "setuid"
        shutil.copy2(self.targets / "ends", setuid)
        setuid.chmod(0o4755)
        for program, text, code in (("/bin/false", "", 1), (self.targets / "static_target", "exit\n", 0),
                                    (self.targets / "bytecode_target", "go 2\nexit\n", 0)):
            with self.subTest(program):
                done = self.run_to_end(program, text=text)
                self.assertEqual(code, done.returncode, done.stderr)
                self.assert_one_line(done.stderr, "not profiled", str(program))

    def test_refusals(self):
        """Errors before the program starts look like a shell's."""
        marker = self.folder / "started"
        cases = [(["/no/such"], [], harness.NO_PROCESS, ("cannot run /no/such", "No such file")),
                 ([self.folder], [], harness.PRIVILEGES, ("cannot run", "Permission denied")),
                 (["touch", marker], ["--out", "/no/such/a.json"], harness.USAGE, ("/no/such/a.json",)),
                 (["touch", marker], ["--out", "a.xyz"], harness.USAGE, ("a.xyz", ".ctf", ".html")),
                 (["touch", marker], ["--agent", "/bin/true"], harness.AGENT, ("/bin/true", "not a memprofd agent")),
                 (["touch", marker], ["--sampling-interval", "1KiB"], harness.USAGE, ("both",))]
        for program, options, code, words in cases:
            with self.subTest(program=program, options=options):
                done = self.run_to_end(*program, options=options)
                self.assertEqual(code, done.returncode, done.stderr)
                self.assert_one_line(done.stderr, *words)
        self.assertFalse(marker.exists())

    def test_interrupt(self):
        """Ctrl-C reaches both: the program decides, and the report is complete."""
        script = self.folder / "wait.ml"
        script.write_text("let () = Sys.set_signal Sys.sigint (Sys.Signal_handle (fun _ -> print_endline \"handled\"; exit 9));\n"
                          "  print_endline \"ready\"; while true do ignore (Sys.opaque_identity (ref 1)) done\n")
        subprocess.run(["ocamlfind", "ocamlopt", script, "-o", self.folder / "wait"], check=True, cwd=self.folder)
        popen = subprocess.Popen([str(word) for word in self.command(self.folder / "wait")], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(popen.kill)
        self.assertEqual("ready\n", popen.stdout.readline())
        os.killpg(popen.pid, signal.SIGINT)
        out, err = popen.communicate(timeout=harness.TIMEOUT)
        self.assertEqual((9, "handled\n"), (popen.returncode, out), err)
        self.assertIn("live at the end", err)


class Shell(RunCase):
    """What a shell notices of the program."""

    def as_job(self, script):
        """A session leader that runs memprofctl in the foreground of a terminal of its own."""
        pid, terminal = pty.fork()
        if pid == 0:
            words = [str(word) for word in self.command("/bin/sh", "-c", script, options=["-q"])]
            os.execvp(words[0], words)
        self.addCleanup(os.close, terminal)
        return pid

    def state_of(self, pid):
        """The status of a child that has stopped or ended."""
        return harness.eventually(lambda: [status for found, status in [os.waitpid(pid, os.WNOHANG | os.WUNTRACED)] if found],
                                  "it stops or ends")[0]

    def test_the_program_stops_itself(self):
        """The shell sees a stopped job, and resumes both."""
        pid = self.as_job("kill -STOP $$; kill -STOP $$; exit 7")
        for _ in range(2):
            status = self.state_of(pid)
            self.assertTrue(os.WIFSTOPPED(status), status)
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(7, os.waitstatus_to_exitcode(self.state_of(pid)))

    def test_another_one_resumes_it(self):
        """Without a terminal no shell would notice that memprofctl stops."""
        marker = self.folder / "stopped"
        run = self.start("/bin/sh", "-c", f"echo $$ > {marker}.new; mv {marker}.new {marker}; kill -STOP $$; exit 7")
        eventually(marker.exists, "it stops soon")
        program = int(marker.read_text())
        eventually(lambda: harness.proc_status(program, "State")[0] == "T", "it is stopped")
        os.kill(program, signal.SIGCONT)
        self.assertEqual(7, run.wait(), run.stderr())

    def test_ignored_ends_of_children(self):
        """A parent that ignores SIGCHLD, which is inherited."""
        words = [str(word) for word in self.command("grep", "SigIgn", "/proc/self/status", "/no/such")]
        done = subprocess.run(["env", "--ignore-signal=CHLD", *words], capture_output=True, text=True, check=False,
                              timeout=harness.TIMEOUT)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertTrue(int(done.stdout.split()[-1], 16) >> signal.SIGCHLD - 1 & 1, "the program ignores it, too")

    def test_no_room_for_shared_memory(self):
        words = [str(word) for word in self.command(self.program("ends"))]
        done = subprocess.run(["prlimit", "--fsize=4096", *words], capture_output=True, text=True, check=False)
        self.assertEqual(harness.LIMIT, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, "cannot make memory to share", "File too large", "ulimit -f")

    def test_no_room_for_a_file(self):
        """The program runs to its end, the report is shown, and the trace has what came first."""
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        done = self.run_to_end(self.program("ends"), options=["--out", disk / "a.ctf"], text="hold 20\nexit 4\n", rate=1)
        self.assertEqual(4, done.returncode, done.stderr)
        self.assertIn("Ends.hold", done.stderr)
        self.assertIn(f"cannot write {disk}/a.ctf: No space left on device; the trace ends where that happened\n", done.stderr)
        report = memprofctl("report", disk / "a.ctf")
        self.assertIn("Ends.hold", report.stdout)
        self.assertIn("1 truncated packet", report.stderr)


class Reader(RunCase):
    """The program does not depend on memprofctl's reading."""

    def test_killed(self):
        run = self.ready("ends", rate=1e-2)
        (child,) = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        run.send("hold 1")
        self.assertEqual("held", run.read_line(), "the program goes on")
        run.send("exit 0")
        eventually(lambda: not pathlib.Path(f"/proc/{child}").exists(), "it ends by itself")

    def test_stopped(self):
        """Events that do not fit the ring are counted and reported; the program does not wait."""
        out = self.folder / "a.json"
        run = self.ready("known_alloc", options=["--out", out], rate=1)
        os.kill(run.pid, signal.SIGSTOP)
        run.send("go 2")
        self.assertIn("rounds", run.read_line())
        os.kill(run.pid, signal.SIGCONT)
        run.send("exit")
        self.assertEqual(0, run.wait(), run.stderr())
        self.assertIn("memprofctl: lost", run.stderr())


if __name__ == "__main__":
    unittest.main()
