# SPDX-License-Identifier: Apache-2.0
"""memprofd counts the calls of an unmodified program's functions exactly, and leaves the program unchanged."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import harness
from harness import BUILD, TARGETS, TARGETS5, E2ETest, eventually

MANY = 100_000_000  # hits per second; no program reaches this


def breakpoints_of(pid):
    """Number of code bytes of the program that differ from its file."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    exe = os.readlink(f"/proc/{pid}/exe")
    begin, end, offset = (int(n, 16) for n in re.search(rf"^(\w+)-(\w+) r-xp (\w+) .* {exe}$", maps, re.M).groups())
    with open(f"/proc/{pid}/mem", "rb") as memory, open(exe, "rb") as file:
        memory.seek(begin)
        file.seek(offset)
        return sum(a != b for a, b in zip(memory.read(end - begin), file.read(end - begin)))


class CallsTest(E2ETest):
    def start(self, daemon, target, pattern, *options, lines=True):
        """A memprofctl that has started to count."""
        tracer = subprocess.Popen([BUILD / "memprofctl", "--grpc.socket", daemon.socket, "trace-calls", pattern, "--pid",
                                   str(target.pid), "-d", "0.1", "-o", "json", *map(str, options)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.close, tracer)
        if lines:
            self.assertNotEqual("", tracer.stdout.readline(), tracer.poll() is not None and tracer.stderr.read())
        return tracer

    @staticmethod
    def close(tracer):
        tracer.kill()
        tracer.wait()
        tracer.stdout.close()
        tracer.stderr.close()

    def counts(self, message):
        found = {}
        for one in message["functions"]:
            found[one["function"]] = found.get(one["function"], 0) + int(one.get("calls", 0))
        return found

    def until(self, tracer, condition):
        """The first message that satisfies the condition."""
        last = None
        while line := tracer.stdout.readline():
            last = json.loads(line)
            if condition(last):
                return last
        self.fail(f"ended before: {last}")

    def counted_as(self, tracer, expected):
        """Waits until all counts are as expected, and checks that they stay so."""
        ours = lambda message: {name: self.counts(message).get(name) for name in expected}
        last = None
        end = time.monotonic() + harness.TIMEOUT  # older messages may still be unread
        while time.monotonic() < end:
            last = json.loads(tracer.stdout.readline())
            if ours(last) == expected:
                break
        self.assertEqual(expected, ours(last))
        again = self.until(tracer, lambda message: float(message["seconds"]) > float(last["seconds"]))
        self.assertEqual(expected, ours(again))
        return again


class Counts(CallsTest):
    def check_counts(self, folder, commands, name="traced", pattern="^Traced"):
        target = self.target(name, folder=folder)
        daemon = self.daemon()
        tracer = self.start(daemon, target, pattern, "--max-hits", MANY)
        for command in commands:
            said = target.command(command)["counts"]
            self.counted_as(tracer, said)
        self.assertEqual("", json.loads(tracer.stdout.readline())["why_ended"])

    def test_ocaml4(self):
        self.check_counts(TARGETS, ["go 300", "threads 200", "go 7"])

    def test_ocaml5(self):
        self.check_counts(TARGETS5, ["go 300", "threads 200", "go 7"])

    def test_fibers(self):
        self.check_counts(TARGETS5, ["go 40", "go 100"], "traced_fibers", "^Traced_fibers")

    def test_children_are_not_counted(self):
        self.check_counts(TARGETS, ["go 3", "fork", "go 3"])

    def test_a_loop_is_one_call(self):
        target = self.target("traced")
        daemon = self.daemon()
        tracer = self.start(daemon, target, r"Traced\.(count_)?turns", "--max-hits", MANY)
        said = target.command("go 50")["counts"]["Traced.turns"]
        self.counted_as(tracer, {"Traced.turns": said, "Traced.count_turns": said})

    def test_beside_profiling(self):
        target = self.target("traced")
        daemon = self.daemon("--pid", target.pid, "--sampling-rate", "1e-3")
        eventually(lambda: daemon.state(target.pid) in ("sampling", "waiting"), "attached")
        tracer = self.start(daemon, target, "^Traced", "--max-hits", MANY)
        self.counted_as(tracer, target.command("go 100")["counts"])


class Times(CallsTest):
    def times(self, message):
        return {one["function"]: one["times"] for one in message["functions"] if one.get("times")}

    def check_sums(self, message, names):
        """Checks that each call has exactly one end, and that the quantiles of times are consistent."""
        times = self.times(message)
        for name in names:
            calls, one = self.counts(message)[name], times[name]
            ends = {key: int(one[key]) for key in ("returned", "tail_calls", "raised", "running", "lost", "unmatched")}
            self.assertEqual(calls, sum(ends.values()) - ends["unmatched"], (name, ends))
            self.assertEqual((0, 0), (ends["lost"], ends["unmatched"]), name)
            if one.get("p50"):
                p50, p90, p99 = (one[quantile] for quantile in ("p50", "p90", "p99"))
                self.assertLessEqual(p50["low_seconds"], p90["low_seconds"])
                self.assertLessEqual(p90["low_seconds"], p99["low_seconds"])
                self.assertLessEqual(p50["high_seconds"], p50["low_seconds"] * 1.2501)
        return times

    def traced(self, folder, command, name="traced", pattern="^Traced"):
        target = self.target(name, folder=folder)
        tracer = self.start(self.daemon(), target, pattern, "--max-hits", MANY, "--time")
        said = target.command(command)
        message = self.counted_as(tracer, said["counts"])
        return said, message, self.check_sums(message, said["counts"])

    def check_times(self, folder):
        said, message, times = self.traced(folder, "go 200")
        number = lambda name, key: int(times[name][key])
        # deep, build and closed return; even and odd end with tail calls of each other, except for the last one.
        for name in ("Traced.deep", "Traced.build", "Traced.closed"):
            self.assertEqual(said["counts"][name], number(name, "returned"), name)
        calls = said["counts"]["Traced.even"] + said["counts"]["Traced.odd"]
        tails = number("Traced.even", "tail_calls") + number("Traced.odd", "tail_calls")
        returned = number("Traced.even", "returned") + number("Traced.odd", "returned")
        self.assertEqual((calls, 0), (tails + returned, number("Traced.even", "raised")))
        self.assertGreater(tails, returned)
        # Every fourth number raises an exception through its caller.
        raised = number("Traced.raiser", "raised")
        self.assertGreater(raised, 50)
        self.assertEqual(raised, number("Traced.passer", "raised"))
        self.assertEqual(0, number("Traced.catcher", "raised"))
        # A caller takes longer than its callee, and none takes longer than the program did.
        seconds = {name: float(one["seconds"]) for name, one in times.items()}
        self.assertLess(seconds["Traced.closed"], seconds["Traced.round"])
        self.assertLess(seconds["Traced.count_turns"], seconds["Traced.round"])
        self.assertLess(seconds["Traced.turns"], seconds["Traced.count_turns"])
        self.assertLess(seconds["Traced.round"], said["seconds"])

    def test_ocaml4(self):
        self.check_times(TARGETS)

    def test_ocaml5(self):
        self.check_times(TARGETS5)

    def test_words(self):
        """Counts the exact words of each call: in its first instructions, across collections, in the major heap."""
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder=folder):
                said, message, times = self.traced(folder, "allocate 20")
                for name, words in (("allocates", 301_001), ("pair", 3), ("paired", 3)):
                    one = times[f"Traced.{name}"]
                    self.assertEqual((20, 0, 20 * words),
                                     tuple(int(one[key]) for key in ("returned", "unsized", "words")), name)
                    low, high = (int(one["words_p50"][end]) for end in ("low", "high"))
                    self.assertTrue(low <= words < high, (name, low, high))

    def test_words_of_two_domains(self):
        """A call that moves to another domain has a time, but no words."""
        target = self.target("traced_fibers", folder=TARGETS5)
        tracer = self.start(self.daemon(), target, r"^Traced_fibers\.(waits|nothing)$", "--max-hits", MANY, "--time")
        target.command("hop 30")
        told = lambda message, name, *keys: [int(self.times(message)[f"Traced_fibers.{name}"][key]) for key in keys]
        message = self.until(tracer, lambda message: told(message, "waits", "returned") == [30])
        self.assertEqual([30, 0], told(message, "waits", "unsized", "words"))
        self.assertEqual([30, 0], told(message, "nothing", "returned", "unsized"))

    def test_threads(self):
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder=folder):
                said, message, times = self.traced(folder, "threads 300")
                self.assertEqual(900, int(times["Traced.threaded"]["returned"]))

    def test_fibers(self):
        """Calls that perform an effect resume in place; stacks grow during calls; a fiber ends by an exception."""
        target = self.target("traced_fibers", folder=TARGETS5)
        tracer = self.start(self.daemon(), target, r"^Traced_fibers\.(waits|runs|grows|ended)$", "--max-hits", MANY, "--time")
        said = target.command("go 60")["counts"]
        message = self.counted_as(tracer, said)
        times = self.check_sums(message, said)
        for name in ("waits", "grows"):
            self.assertEqual(said[f"Traced_fibers.{name}"], int(times[f"Traced_fibers.{name}"]["returned"]), name)
        self.assertEqual(0, int(times["Traced_fibers.ended"]["returned"]))

    def test_begun_before(self):
        """The call that waits for a command began before tracing, and ends during it."""
        target = self.target("traced")
        tracer = self.start(self.daemon(), target, r"^(Traced\.serve|Handshake\.command)$", "--max-hits", MANY, "--time")
        target.command("go 1")
        message = self.until(tracer, lambda message: int(self.times(message)["Handshake.command"]["unmatched"]) > 0)
        self.assertEqual(1, int(self.times(message)["Handshake.command"]["unmatched"]))


class Ends(CallsTest):
    def assert_untouched(self, target):
        eventually(lambda: breakpoints_of(target.pid) == 0, "no breakpoint is left")

    def test_too_many_hits(self):
        target = self.target("traced")
        tracer = self.start(self.daemon(), target, r"Traced\.deep", "--max-hits", 1000)
        target.send("spin")
        message = self.until(tracer, lambda message: message.get("why_ended"))
        self.assertRegex(message["why_ended"], "more than 1000 hits in a second: .* --max-hits")
        self.assertGreaterEqual(int(message["hits"]), 1000)
        self.assertEqual(int(message["hits"]), self.counts(message)["Traced.deep"])
        self.assertEqual(0, tracer.wait(harness.TIMEOUT))
        self.assert_untouched(target)
        self.assertGreater(target.command("stop")["counts"]["Traced.deep"], 1000)

    def test_the_client_goes(self):
        for end in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(end=end):
                target = self.target("traced")
                daemon = self.daemon()
                tracer = self.start(daemon, target, "^Traced", "--max-hits", MANY)
                self.assertGreater(breakpoints_of(target.pid), 10)
                tracer.send_signal(end)
                tracer.wait(harness.TIMEOUT)
                self.assert_untouched(target)
                eventually(lambda: daemon.ctl("trace-calls", "^Traced", "--pid", target.pid, "--duration", "0.1s",
                                              check=False).returncode == 0, "its place is free")

    def test_memprofd_goes(self):
        for end in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(end=end):
                target = self.target("traced")
                daemon = self.daemon()
                self.start(daemon, target, "^Traced", "--max-hits", MANY)
                daemon.stop(end)
                self.assert_untouched(target)
                self.assertIn("counts", target.command("go 10"))

    def test_the_program_ends(self):
        target = self.target("traced")
        tracer = self.start(self.daemon(), target, "^Traced", "--max-hits", MANY)
        said = target.command("go 10")["counts"]
        self.counted_as(tracer, said)
        target.kill()
        message = self.until(tracer, lambda message: message.get("why_ended"))
        self.assertEqual(f"pid {target.pid} has ended", message["why_ended"])
        self.assertEqual(said, {name: self.counts(message)[name] for name in said})

    def test_the_program_becomes_itself_again(self):
        target = self.target("traced")
        tracer = self.start(self.daemon(), target, "^Traced", "--max-hits", MANY)
        said = target.command("go 10")["counts"]
        target.send("exec")
        message = self.until(tracer, lambda message: message.get("why_ended"))
        self.assertIn("replaced itself (exec)", message["why_ended"])
        self.assertEqual(said, {name: self.counts(message)[name] for name in said})

    def test_the_time_is_over(self):
        target = self.target("traced")
        message = json.loads(self.daemon().ctl("trace-calls", "^Traced", "--pid", target.pid, "--duration", "0.3s",
                                               "-o", "json").stdout.splitlines()[-1])
        self.assertEqual("the duration has elapsed", message["why_ended"])
        self.assertGreaterEqual(float(message["seconds"]), 0.3)


class Refused(CallsTest):
    def refusal(self, daemon, pid, pattern, *options):
        done = daemon.ctl("trace-calls", pattern, "--pid", pid, *options, check=False)
        self.code = done.returncode
        self.assertNotEqual(0, self.code)
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)
        return done.stderr

    def stripped(self, name):
        path = pathlib.Path(self.folder) / "stripped"
        subprocess.run(["strip", "-o", path, TARGETS / name], check=True)
        return self.target(path.name, folder=path.parent)

    def test_in_one_line(self):
        target, stripped = self.target("traced"), self.stripped("traced")
        daemon = self.daemon()
        none = self.refusal(daemon, target.pid, "No_such")
        self.assertIn("no OCaml function of", none)
        self.assertIn(f"as `memprofctl sites --grpc.socket {daemon.socket}` shows them", none)
        self.assertIn("it is a regular expression", self.refusal(daemon, target.pid, "("))
        self.assertIn("is stripped, so its functions cannot be found", self.refusal(daemon, stripped.pid, "Traced"))
        self.assertIn("2,000 is the limit", self.refusal(daemon, self.target("many_sites", folder=BUILD / "targets").pid, ".").replace("2000", "2,000"))
        self.assertIn("would count nothing", self.refusal(daemon, target.pid, "Traced", "--duration", "0"))

    def test_a_second_one(self):
        target = self.target("traced")
        daemon = self.daemon()
        self.start(daemon, target, "^Traced")
        self.assertIn("are being traced already", self.refusal(daemon, target.pid, "^Traced"))
        self.assertEqual(harness.LIMIT, self.code)
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: trace calls of '\^Traced' by user 0.*: done")
