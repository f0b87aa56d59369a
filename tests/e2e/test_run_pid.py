# SPDX-License-Identifier: Apache-2.0
"""memprofctl run --pid: processes that run already, profiled by their own user without any privilege."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import answers
import harness
from harness import Process, TARGETS5, eventually, memprofctl, sum_sites
from test_run import NOBODY, RATE, UNPRIVILEGED, RunCase

SITES = ("site_small", "site_live", "site_major", "site_promoted")


class PidCase(RunCase):
    def begin(self, name, *arguments, user=None):
        """A program of that user, after its "ready" line."""
        target = self.process(Process([*(user or self.user), self.program(name), *arguments]))
        self.assertEqual("ready", target.read_line().split()[0])
        return target

    def sleeping(self):
        """A program of nobody that is not OCaml's."""
        process = self.process(Process([*NOBODY, "sleep", "1000"]))
        eventually(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "setpriv has executed it")
        return process

    def pid_command(self, pid, *options, rate=RATE):
        return [str(word) for word in (*self.user, self.folder / "memprofctl", "run", "--pid", pid,
                                       "--sampling-rate", f"{rate:g}", *options)]

    def attach(self, target, *options, rate=RATE):
        return self.process(Process(self.pid_command(target.pid, *options, rate=rate)))

    def refused(self, pid, *options):
        return subprocess.run(self.pid_command(pid, *options), capture_output=True, text=True, timeout=harness.TIMEOUT,
                              check=False)

    def limit(self, target, limit):
        subprocess.run([*self.user, "prlimit", "--pid", str(target.pid), limit], check=True)

    def answer(self, target, command):
        target.send(command)
        line = target.read_line()
        return json.loads(line) if line.startswith("{") else line

    def wait_sampling(self, run, target=None, command="minor"):
        """Waits until it samples a program that works by itself, or when it is told to."""
        def sampling():
            self.assertTrue(run.running(), run.stderr())
            if target:
                self.answer(target, command)
            return "profiling pid" in run.stderr()
        eventually(sampling, "the program is sampled")

    def end(self, run):
        self.assertEqual(0, run.stop(signal.SIGINT), run.stderr())

    def shared_of(self, pid):
        """Memory of a process that it shares, and descriptors of such memory."""
        links = []
        for name in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                links.append(os.readlink(name))
        return [line for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() + links if "memprof-share" in line]

    def wait_nothing_shared(self, pid):
        """An idle agent takes its data back in a minor collection, which the program makes by itself."""
        eventually(lambda: not self.shared_of(pid), "nothing is left of the memory that was shared")

    def work(self, target):
        answer = self.answer(target, "stat")
        self.assertEqual(0, answer.get("errors", 0), answer)
        return answer["requests"] if "requests" in answer else sum(site["allocated_words"] for site in answer["sites"].values())

    def assert_goes_on(self, target, work=0):
        before = self.work(target)
        eventually(lambda: self.work(target) > before + work, "the program goes on")


    def assert_sampled(self, target, work):
        """Profiles it while it does that much of its work, of which there are samples."""
        run = self.attach(target, "--out", self.folder / "a.json")
        self.wait_sampling(run)
        self.assert_goes_on(target, work)
        self.end(run)
        self.assertGreater(len(self.sites("a.json")), 0)


class Numbers(PidCase):
    def words(self, target, command):
        sites = self.answer(target, command)["sites"]
        return {name: sites[name]["allocated_words"] for name in SITES}

    def test_known_allocations(self):
        """Each site has what it allocates from the begin to the end, in all files; the program goes on, and again."""
        target = self.begin("known_alloc")
        before = self.words(target, "go 1")
        for number in range(3):
            files = [self.folder / f"{number}.{ending}" for ending in ("json", "ctf", "html")]
            run = self.attach(target, *(f"--out={file}" for file in files))
            self.wait_sampling(run, target)
            begin, end = self.words(target, "minor"), self.words(target, "go 20")
            self.answer(target, "quiet")
            self.end(run)
            sites = self.sites(files[0].name)
            for name in SITES:
                found = sum_sites(sites.values(), name)["allocated_bytes"]
                self.assert_estimate(f"{number} {name}", found, end[name] - begin[name], RATE)
            traced = answers.answer(memprofctl("report", "-o", "json", files[1]).stdout)
            whole = answers.answer(files[0].read_text())
            self.assertEqual(whole["total"]["samples"], traced["total"]["samples"], "the trace has every sample")
            self.assertNotIn("lost", run.stderr())
            self.assertRegex(run.stderr(), r"memprofctl: known_alloc, pid \d+, OCaml [0-9.]+, profiled for ")
            # It works without a session.
            words = self.words(target, "go 1")
            self.assertGreater(words["site_small"], end["site_small"])
        self.assertGreater(words["site_small"], before["site_small"])
        target.send("exit")
        self.assertEqual(0, target.wait())

    def test_for_a_time(self):
        target = self.begin(*self.busy())
        run = self.attach(target, "--for", "1s", "--out", self.folder / "a.json")
        self.assertEqual(0, run.wait(), run.stderr())
        self.assertGreater(len(self.sites("a.json")), 0)
        self.assert_goes_on(target)

    def test_while_it_runs(self):
        target = self.begin(*self.busy())
        run = self.attach(target, "--live")
        eventually(lambda: re.search(r"\S  \S+\.ml:\d+$", run.stderr(), re.MULTILINE), "sites are shown")
        self.end(run)

    def busy(self):
        return ("busy_threads", "busy")


class Numbers5(Numbers):
    targets = TARGETS5
    user = UNPRIVILEGED  # their libraries are in the home folder of root

    def busy(self):
        return ("domains",)


class Ends(PidCase):
    def test_a_program_that_waits_has_the_agent_at_once(self):
        """A thread that waits loads it, so that the first work is not spent on that."""
        target = self.begin("known_alloc")
        run = self.attach(target)
        eventually(lambda: "libmemprof_agent" in pathlib.Path(f"/proc/{target.pid}/maps").read_text(), "it has loaded the agent")
        self.assertTrue(run.running(), run.stderr())
        self.wait_sampling(run, target)
        self.end(run)

    def test_at_a_rate_that_has_no_sample(self):
        """Its session ends nevertheless, and the next run can begin at once."""
        target = self.begin("busy_threads", "busy")
        run = self.attach(target, rate=1e-9)
        self.wait_sampling(run)
        self.end(run)
        self.wait_nothing_shared(target.pid)
        self.assert_sampled(target, 500)

    def test_no_sample(self):
        """The report says how much the program has allocated, how many samples that gives, and what to do."""
        target = self.begin("known_alloc")
        run = self.attach(target, rate=1e-9)
        self.wait_sampling(run, target)
        before = self.work(target)
        self.answer(target, "go 1")
        words = self.work(target) - before
        self.end(run)
        found = re.search(r"memprofctl: nothing was sampled: the program has allocated at least ([\d.]+) (.)iB, for which (\S+) "
                          r"samples are expected at 1e-09/word .*; give a higher --sampling-rate, such as 0\.\d", run.stderr())
        self.assertTrue(found, run.stderr())
        bytes_ = float(found[1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[2]]
        self.assertGreater(bytes_, 8 * words * 0.8)  # the runtime counts some words of the major heap at the next slice only
        self.assertLess(bytes_, 8 * words * 4)
        self.assertAlmostEqual(float(found[3]), bytes_ / 8 * 1e-9, delta=bytes_ / 8 * 1e-10)

    def test_length(self):
        """It ends when memprofctl ends the session, although the agent of an idle program takes longer to answer."""
        target = self.begin("ends")
        run = self.attach(target, "--out", self.folder / "a.json", "--out", self.folder / "a.ctf")
        self.wait_sampling(run, target, "hold 1")
        told = time.time_ns()
        self.end(run)
        took = time.time_ns() - told
        for answer in ((self.folder / "a.json").read_text(), memprofctl("report", "-o", "json", self.folder / "a.ctf").stdout):
            self.assertLess(int(answers.answer(answer)["range"]["end_unix_ns"]) - told, took / 2)

    def test_a_file_that_cannot_be_written(self):
        """The report and the other files come nevertheless."""
        folder = self.folder / "lost"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        target = self.begin("busy_threads", "busy")
        run = self.attach(target, "--out", folder / "a.ctf", "--out", self.folder / "a.json")
        self.wait_sampling(run)
        shutil.rmtree(folder)
        self.assert_goes_on(target, 500)
        self.assertNotEqual(0, run.stop(signal.SIGINT))
        self.assertRegex(run.stderr(), r"pid \d+, OCaml [0-9.]+, profiled for ")
        self.assertRegex(run.stderr(), r"memprofctl: cannot .*a\.ctf")
        self.assertGreater(len(self.sites("a.json")), 0)

    def test_signals_of_others(self):
        """SIGUSR1 is nothing to it, and SIGHUP ends it as Ctrl-C does."""
        target = self.begin("busy_threads", "busy")
        run = self.attach(target)
        self.wait_sampling(run)
        os.kill(run.pid, signal.SIGUSR1)
        self.assert_goes_on(target)
        self.assertEqual(0, run.stop(signal.SIGHUP), run.stderr())
        self.assertIn("profiled for", run.stderr())

    def test_program_ends(self):
        """Everything before its end is reported, whatever ends it."""
        for name, sent in (("exit", None), ("killed", signal.SIGKILL)):
            with self.subTest(name):
                target = self.begin("ends")
                out = self.folder / f"{name}.json"
                run = self.attach(target, "--out", out, rate=1)
                self.wait_sampling(run, target, "hold 1")
                self.answer(target, "hold 2")
                if sent:
                    os.kill(target.pid, sent)
                else:
                    target.send("exit 0")
                self.assertEqual(0, run.wait(), run.stderr())
                self.assertGreaterEqual(self.sites(out.name)["Ends.hold"]["samples"], 2048)

    def test_program_stops_memprof(self):
        """The numbers until then are reported, and why there are no later ones."""
        for command, word in (("stop", "Gc.Memprof.stop"), ("start", "a Gc.Memprof tracker of its own")):
            with self.subTest(command):
                target = self.begin("stops_memprof")
                run = self.attach(target, "--out", self.folder / "a.json")
                self.wait_sampling(run, target, "go 1000")
                self.answer(target, "go 100000")
                self.answer(target, command)
                eventually(lambda: self.answer(target, "go 100000") and not run.running(), "the run has ended")  # pylint: disable=cell-var-from-loop
                self.assertEqual(0, run.wait(), run.stderr())
                self.assertRegex(run.stderr(), rf"memprofctl: pid {target.pid} has .*{word}; sampling ended after ")
                self.assertGreater(self.sites("a.json")["Stops_memprof.site_triple"]["samples"], 0)
                answer = self.answer(target, "go 1000")
                self.assertEqual(0, answer["failures"], answer)
                target.send("exit")
                self.assertEqual(0, target.wait())

    def test_run_is_stopped(self):
        """The agent ends a session whose reader does not renew its lease; the reader says so."""
        target = self.begin("busy_threads", "busy")
        run = self.attach(target, "--out", self.folder / "a.json")
        self.wait_sampling(run)
        os.kill(run.pid, signal.SIGSTOP)
        self.wait_nothing_shared(target.pid)
        ended = time.time_ns()
        self.assert_goes_on(target)
        os.kill(run.pid, signal.SIGCONT)
        self.assertEqual(0, run.wait(), run.stderr())
        self.assertIn("memprofctl was stopped for more than 15 s; sampling ended after ", run.stderr())
        (after,), (lasted,) = (re.findall(rf"{words} ([^;\n]+)", run.stderr()) for words in ("sampling ended after", "profiled for"))
        self.assertEqual(after, lasted)
        self.assertLess(int(answers.answer((self.folder / "a.json").read_text())["range"]["end_unix_ns"]), ended)

    def test_exec(self):
        target = self.begin("execer")
        run = self.attach(target, "--out", self.folder / "a.json", rate=1)
        self.wait_sampling(run)
        target.send(f"exec {self.program('ends')}")
        self.assertEqual(0, run.wait(), run.stderr())
        self.assertGreater(self.sites("a.json")["Execer.allocate"]["samples"], 0)
        while target.read_line().split()[0] != "ready":
            pass
        target.send("exit 5")
        self.assertEqual(5, target.wait())

    def test_limit_of_address_space(self):
        """Lowered below what the program has during a session: neither a child nor the program itself shares memory after
        the end, and the next run works."""
        target = self.begin("forks")
        run = self.attach(target)
        self.wait_sampling(run, target, "work 1 1")
        self.limit(target, "--as=1:")
        child = self.answer(target, "fork")["pid"]
        self.wait_nothing_shared(child)
        self.end(run)
        self.wait_nothing_shared(target.pid)
        self.limit(target, "--as=unlimited:")
        run = self.attach(target, "--out", self.folder / "a.json", rate=1e-2)
        self.wait_sampling(run, target, "work 1 1")
        self.end(run)
        self.assertIn("Forks.parent_work", self.sites("a.json"))
        target.send("exit")
        self.assertEqual(0, target.wait())

    def test_children_are_not_followed(self):
        """A forked child has memory of its own, and its work is not counted."""
        target = self.begin("forks")
        run = self.attach(target, "--out", self.folder / "a.json", rate=1e-2)
        target.send("work 1 1")
        target.read_line()
        self.wait_sampling(run, target, "work 1 1")
        self.answer(target, "work 3 4")
        self.end(run)
        self.assertNotIn("Forks.child_work", self.sites("a.json"))
        target.send("exit")
        self.assertEqual(0, target.wait())


class Killed(PidCase):
    """memprofctl may die at any moment: the program goes on, and another run works."""

    MOMENTS = 24
    BUSY = ("busy_threads", "busy")
    SAMPLED_WORK = 500  # requests: of that much there are samples

    def test_killed(self):
        target = self.begin(*self.BUSY)
        expected = harness.undisturbed_output(self.BUSY, folder=self.targets)
        run = self.attach(target)
        began = time.monotonic()
        self.wait_sampling(run)
        span = time.monotonic() - began
        self.end(run)
        for moment in range(self.MOMENTS):
            run = self.attach(target)
            time.sleep(1.5 * span * moment / self.MOMENTS)
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            self.assert_goes_on(target)
        self.assert_sampled(target, self.SAMPLED_WORK)
        self.wait_nothing_shared(target.pid)
        self.assert_output(target, expected)

    def test_killed_before_the_session(self):
        """The order is a lease: nothing stays shared after it, although no further run comes."""
        target = self.begin(*self.BUSY)
        run = self.attach(target)
        eventually(lambda: self.shared_of(target.pid), "it has been ordered")
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        self.wait_nothing_shared(target.pid)
        self.assert_goes_on(target)

    def test_killed_while_the_agent_is_loaded(self):
        """Each time in a program of its own."""
        for moment in range(self.MOMENTS // 4):
            target = self.begin(*self.BUSY)
            run = self.attach(target)
            mapped = "libmemprof_agent" if moment % 2 else "memprof-share"
            eventually(lambda: mapped in pathlib.Path(f"/proc/{target.pid}/maps").read_text(), "it is there")  # pylint: disable=cell-var-from-loop
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            self.assert_goes_on(target)
            self.assert_sampled(target, self.SAMPLED_WORK)
            target.kill()

    def test_memory_is_given_back(self):
        """After its end nothing is shared any more, however often. With arenas, malloc would map more at times."""
        target = self.begin(*self.BUSY, user=(*self.user, "env", "MALLOC_ARENA_MAX=1"))

        def run_once():
            run = self.attach(target)
            self.wait_sampling(run)
            self.end(run)
            self.wait_nothing_shared(target.pid)
        run_once()
        mappings, descriptors = len(harness.mappings(target.pid)), len(os.listdir(f"/proc/{target.pid}/fd"))
        for _ in range(6):
            run_once()
        self.assertEqual(descriptors, len(os.listdir(f"/proc/{target.pid}/fd")))
        # The program maps and unmaps memory itself: domains that begin and end.
        eventually(lambda: len(harness.mappings(target.pid)) < mappings + 6, "no run has left a mapping")
        self.assert_goes_on(target)

    def assert_output(self, target, expected):
        eventually(lambda: self.answer(target, "stat")["checksums"], "it has computed something")
        answer = self.answer(target, "exit")
        self.assertEqual((0, expected), (answer.get("errors", 0), answer["checksums"]))


class Killed5(Killed):
    targets = TARGETS5
    user = UNPRIVILEGED
    BUSY = ("domains",)
    SAMPLED_WORK = 200_000  # words


class Others(PidCase):
    def test_one_at_a_time(self):
        target = self.begin("busy_threads", "busy")
        run = self.attach(target)
        self.wait_sampling(run)
        done = self.refused(target.pid)
        self.assertEqual(harness.BUSY, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, f"pid {target.pid} is already profiled", run.pid)
        daemon = self.daemon(rate=RATE)
        done = daemon.attach(target.pid, check=False)
        self.assertEqual(harness.BUSY, done.returncode, done.stderr)
        self.end(run)
        # And the other way round.
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling")
        eventually(lambda: daemon.sites(target.pid), "its samples come by the probe")
        done = self.refused(target.pid)
        self.assertEqual(harness.BUSY, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, f"pid {target.pid} is already profiled", daemon.pid)
        daemon.detach(target.pid)
        self.assert_sampled(target, 500)

    def test_daemon_after_a_reader_that_died(self):
        """The agent leaves memory without a reader, and hits its probe again."""
        target = self.begin("busy_threads", "busy")
        run = self.attach(target)
        self.wait_sampling(run)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        daemon = self.daemon(rate=RATE)
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling")
        eventually(lambda: daemon.sites(target.pid), "its samples come by the probe")
        self.assert_goes_on(target)

    def test_a_run_profiles_it(self):
        run = self.ready("ends")
        (child,) = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        done = self.refused(int(child))
        self.assertEqual(harness.BUSY, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, f"pid {child} is already profiled", run.pid)
        # A program that was started with it can be profiled once it has died.
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        again = self.process(Process(self.pid_command(child, "--out", self.folder / "a.json", rate=1)))
        eventually(lambda: run.send("hold 1") or "profiling pid" in again.stderr(), "the program is sampled")
        run.send("hold 4")
        eventually(lambda: run.output.count("held\n") > 0, "it allocates")
        run.send("exit 0")
        self.assertEqual(0, again.wait(), again.stderr())
        self.assertIn("Ends.hold", self.sites("a.json"))

    def test_user_namespace(self):
        """As in a container without privileges: from inside of it, and from outside, by the user that has made it."""
        target = self.begin("known_alloc", user=(*NOBODY, "unshare", "-Ur"))
        inside = ("nsenter", "--user", "--preserve-credentials", "--target", target.pid)
        for enter in ((), inside):
            with self.subTest(bool(enter)):
                command = self.pid_command(target.pid, "--out", self.folder / "a.json")
                run = self.process(Process([*NOBODY, *map(str, enter), *command[len(self.user):]]))
                self.wait_sampling(run, target)
                self.answer(target, "go 4")
                self.end(run)
                self.assertIn("Known_alloc.site_small", self.sites("a.json"))

    def test_mount_namespace(self):
        """A program that sees other files does not see the agent's."""
        target = self.process(Process(["unshare", "--mount", "sh", "-c",
                                       'mount -t tmpfs none "$1"; exec "$2"', "sh", self.folder, self.targets / "ends"]))
        self.assertEqual("ready", target.read_line().split()[0])
        done = subprocess.run([self.folder / "memprofctl", "run", "--pid", str(target.pid)], capture_output=True, text=True,
                              timeout=harness.TIMEOUT, check=False)
        self.assertEqual(harness.NOT_PROFILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, f"pid {target.pid} does not see", "libmemprof_agent.so", "run memprofctl in its container")

    def test_linked_agent(self):
        target = self.begin("linked_agent")
        run = self.attach(target, "--out", self.folder / "a.json")
        self.wait_sampling(run, target)
        self.answer(target, "go 4")
        self.end(run)
        self.assertIn("Known_alloc.site_small", self.sites("a.json"))


# Runs a command under a filter that allows everything.
class Values(PidCase):
    """memprofctl values --no-daemon: read by the program's own user."""

    def read(self, pid, *arguments, user=None):
        command = [*(user or self.user), self.folder / "memprofctl", "values", "--no-daemon", "--pid", pid, *arguments]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=harness.TIMEOUT,
                              check=False)

    def values(self, pid, *arguments):
        done = self.read(pid, "-o", "json", *arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_as_memprofd_reads_them(self):
        for targets in (self.targets, TARGETS5):
            with self.subTest(targets.name):
                self.targets = targets
                self.user = UNPRIVILEGED if targets == TARGETS5 else NOBODY  # their libraries are in root's home
                (self.folder / "values").unlink(missing_ok=True)
                target = self.begin("values")
                self.assertEqual({}, self.answer(target, "set 1234"))
                own = self.values(target.pid)
                daemon = self.daemon("--pid", target.pid)
                asked = json.loads(daemon.ctl("values", "--pid", target.pid, "-o", "json").stdout)
                self.assertGreater(len(own["values"]), 10)
                self.assertEqual(asked["values"], own["values"])
                # While memprofd profiles it, and after.
                self.assertEqual(own["values"], self.values(target.pid)["values"])
                daemon.detach(target.pid)
                self.assertEqual(own["values"], self.values(target.pid)["values"])

    def test_for_people(self):
        target = self.begin("values")
        done = self.read(target.pid, "^Values")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ *Values")

    def test_watched(self):
        target = self.begin("reports")
        command = [*self.user, self.folder / "memprofctl", "values", "watch", "--no-daemon", "--pid", target.pid, "-d", "0.1", "count"]
        watching = self.process(Process([str(word) for word in command]))
        for number in ("1235", "1236"):
            self.answer(target, f"set {number}")
            eventually(lambda: number in watching.read_line(), "the change is shown")  # pylint: disable=cell-var-from-loop
        watching.stop(signal.SIGTERM)

    def test_published_ones(self):
        """Also functions, which the program evaluates for who asks, after its next collection."""
        target = self.begin("reports")
        self.answer(target, "hit 1000")
        self.answer(target, "set 1235")

        def reported():
            self.answer(target, "minor")
            return {one["name"]: one for one in self.values(target.pid)["reported"]}
        found = reported()
        self.assertEqual("1235", found["count"]["value"]["integer"])
        self.assertIn("requests", found)
        eventually(lambda: not reported()["twice"]["value"]["why_unread"], "functions are evaluated")

    def test_while_run_profiles_it(self):
        target = self.begin("busy_threads", "busy")
        run = self.attach(target)
        self.wait_sampling(run)
        self.assertGreater(len(self.values(target.pid, "--constants")["values"]), 10)
        self.end(run)
        self.assert_goes_on(target)

    def test_what_is_refused(self):
        other = self.begin("values", user=("env",))
        gone = subprocess.Popen(["true"])
        gone.wait()
        sleeping = self.sleeping()
        for arguments, code, words in (
                ((other.pid,), harness.PRIVILEGES, ("not allowed to read the memory of pid", "run memprofctl as that user")),
                ((gone.pid,), harness.NO_PROCESS, ("no process has the pid",)),
                ((sleeping.pid,), harness.NOT_PROFILABLE, ("not an OCaml program",)),
                ((0,), harness.USAGE, ("--no-daemon requires --pid",))):
            with self.subTest(words):
                done = self.read(*arguments)
                self.assertEqual(code, done.returncode, done.stderr)
                self.assert_one_line(done.stderr, *words)


class Refusals(PidCase):
    def assert_refused(self, pid, code, *words):
        done = self.refused(pid)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, *words)

    def test_processes(self):
        sleeping = self.sleeping()
        self.assert_refused(sleeping.pid, harness.NOT_PROFILABLE, f"pid {sleeping.pid}", "not an OCaml program")
        static = self.begin("static_target")
        self.assert_refused(static.pid, harness.NOT_PROFILABLE, f"pid {static.pid}", "static_target", "symbol")
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assert_refused(gone.pid, harness.NO_PROCESS, gone.pid)
        other = self.begin("ends", user=("env",))
        self.assert_refused(other.pid, harness.PRIVILEGES, f"pid {other.pid}", "user 0", "run memprofctl as that user")
        setuid = self.folder / "setuid"
        shutil.copy2(self.targets / "ends", setuid)
        os.chown(setuid, 1234, 1234)
        setuid.chmod(0o4755)
        changed = self.process(Process(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", setuid]))
        self.assertEqual("ready", changed.read_line().split()[0])
        self.assert_refused(changed.pid, harness.PRIVILEGES, f"pid {changed.pid}")

    def test_seccomp_filters(self):
        """Of one thread alone, too, and for a memprofctl that has another filter itself."""
        for kind in ("kills", "kills-a-thread"):
            with self.subTest(kind):
                target = self.begin("seccomp", kind, 319)
                self.assert_refused(target.pid, harness.NOT_PROFILABLE, f"pid {target.pid}", "seccomp filter")
                self.assertEqual("awake", self.answer(target, "wake up"))
        command = self.pid_command(target.pid)
        at = len(self.user)
        done = subprocess.run([*command[:at], sys.executable, "-c", harness.UNDER_A_FILTER, *command[at:]], capture_output=True, text=True, check=False)
        self.assertEqual(harness.NOT_PROFILABLE, done.returncode, done.stderr)
        self.assertEqual("awake", self.answer(target, "wake up"))

    def test_an_agent_whose_file_was_replaced(self):
        """Only root can read it; a second one must not come beside it."""
        target = self.begin("busy_threads", "busy")
        agent = self.folder / "libmemprof_agent.so"
        run = self.attach(target)
        self.wait_sampling(run)
        self.end(run)
        new = self.folder / "new.so"
        shutil.copy2(agent, new)
        new.replace(agent)
        self.assert_refused(target.pid, harness.NOT_PROFILABLE, f"pid {target.pid}", "whose file is gone", "restart the program")
        self.assert_goes_on(target)

    def test_stopped(self):
        target = self.begin("busy_threads", "busy")
        os.kill(target.pid, signal.SIGSTOP)
        run = self.attach(target, "-q", "--for", "1s")
        self.assertEqual(harness.NOT_PROFILABLE, run.wait(), run.stderr())
        self.assert_one_line(run.stderr(), f"pid {target.pid} is stopped", "SIGCONT")
        os.kill(target.pid, signal.SIGCONT)
        self.assert_goes_on(target)

    def test_own_tracker(self):
        target = self.begin("uses_memprof")
        run = self.attach(target)
        eventually(lambda: target.send("minor") or not run.running(), "it is refused")
        self.assertEqual(harness.NOT_PROFILABLE, run.wait(), run.stderr())
        self.assertIn("Gc.Memprof", run.stderr())

    def test_idle(self):
        """One that allocates nothing has nothing to be sampled."""
        target = self.begin("ends")
        run = self.attach(target, "-q", "--for", "300ms")
        self.assertEqual(harness.NOT_PROFILABLE, run.wait(), run.stderr())
        self.assert_one_line(run.stderr(), f"pid {target.pid}", "has not allocated")
        self.assertEqual("held", self.answer(target, "hold 1"))

    def test_limits(self):
        """A file size that would send the program a signal, and no descriptor left."""
        for limit in ("--fsize=1000000", "--nofile=3"):
            with self.subTest(limit):
                target = self.begin("busy_threads", "busy")
                self.limit(target, limit)
                run = self.attach(target)
                self.assertIn(run.wait(), (harness.LIMIT, harness.AGENT), run.stderr())
                self.assert_one_line(run.stderr(), f"pid {target.pid}")
                self.assert_goes_on(target)

    def test_options(self):
        for options, word in (([], "--pid"), (["--pid", "1", "--", "true"], "--pid"), (["--for", "1s", "--", "true"], "--pid"),
                              (["--pid", "1", "--children", "no"], "--pid"), (["--pid", "0"], "--pid"), (["--pid", str(os.getpid()), "--for", "0s"], "--for"),
                              (["--pid", str(os.getpid()), "--for", ""], "duration")):
            with self.subTest(options):
                done = subprocess.run([self.folder / "memprofctl", "run", *options], capture_output=True, text=True, check=False)
                self.assertEqual(harness.USAGE, done.returncode, done.stderr)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
