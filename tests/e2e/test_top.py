# SPDX-License-Identifier: Apache-2.0
"""memprofctl top in a real terminal, on a real program; and its frames of text and JSON."""

import os
import re
import signal
import subprocess
import tempfile

import answers
import harness
from harness import E2ETest, eventually
from terminal import Terminal

RATE = 1e-3
SIZE = re.compile(r"([\d.]+) (B|KiB|MiB|GiB)")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SITES = ("site_small", "site_live", "site_major", "site_bytes", "site_promoted", "site_unmarshal")
FAST = ("-d", "0.2")


def sizes(line):
    """Bytes of all sizes in a line."""
    return [float(number) * UNITS[unit] for number, unit in SIZE.findall(line)]


def half_digits(line):
    """Largest rounding error of all sizes in a line, in bytes."""
    return [0.5 * 10 ** -len(number.partition(".")[2]) * UNITS[unit] for number, unit in SIZE.findall(line)]


def live_and_allocated(line):
    """Live and allocated bytes; AssertionError if the row is incomplete."""
    found = sizes(line)
    assert len(found) >= 2, line
    return found[:2]


class TopTest(E2ETest):
    def terminal(self, daemon, *arguments, **options):
        return self.open("--grpc.socket", daemon.socket, "top", *FAST, *arguments, **options)

    def open(self, *arguments, **options):
        terminal = Terminal([harness.BUILD / "memprofctl", *arguments], **options)
        self.addCleanup(terminal.kill)
        return terminal

    def assert_gave_back(self, terminal, code=harness.OK):
        """top has ended and restored the terminal."""
        self.assertEqual(code, terminal.wait(), terminal.text())
        eventually(terminal.restored, "the terminal is as it was")

    def sampled(self, name="known_alloc", *arguments):
        """A program under its own daemon."""
        program = self.target(name, *arguments)
        daemon = self.daemon("--pid", program.pid, rate=RATE)
        if name == "known_alloc":
            self.sample_on_command(daemon, program)
        else:
            daemon.wait_state(program.pid, "sampling")
        return program, daemon


class OnOneProgram(TopTest):
    """A program that works only on command."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.program = harness.Target("known_alloc")
        cls.addClassCleanup(cls.program.kill)
        cls.pid = cls.program.pid
        cls.memprofd = harness.Daemon(cls.shared.name, "--pid", cls.pid, rate=RATE)
        cls.addClassCleanup(cls.memprofd.kill)

        def sampling():
            cls.program.command("quiet")
            return cls.memprofd.state(cls.pid) == "sampling"
        eventually(sampling, "the program is sampled")
        cls.program.command("go 1", timeout=120)
        cls.memprofd.settled_sites(cls.pid)

    def top(self, *arguments, **options):
        terminal = self.terminal(self.memprofd, "--pid", self.pid, "--window", "all", *arguments, **options)
        terminal.wait_for("LIVE", "site_live", "q quit")
        return terminal

    def rows(self, terminal):
        """Names of the program's own sites, from the top."""
        return [m.group() for line in terminal.lines()
                if line[:2] in ("> ", "  ") and (m := re.search(r"\bsite_\w+", line))]

    def sorted_sites(self, order):
        sites = self.memprofd.ctl_json("sites", "--pid", self.pid, "-s", order)["sites"]
        return [m.group() for s in sites if (m := re.search(r"\bsite_\w+", s["function"]))]

    def wait_until_rows(self, terminal, rows):
        def same():
            self.assertEqual(rows, self.rows(terminal))
            return True
        eventually(same, "the rows come in that order")

    def wait_until_row(self, terminal, words, check):
        """Waits until a row is complete, because a frame arrives in pieces."""
        def whole():
            check(terminal.row_with(words))
            return True
        eventually(whole, f"the row of {words} is right")

    def standing(self, terminal):
        """The text once nothing changes any more."""
        seen = [terminal.text()]

        def same():
            seen.append(terminal.text())
            return seen[-1] == seen[-2]
        eventually(same, "the screen stands")
        return seen[-1]

    # ------------------------------------------------------------ what it shows

    def test_shows_the_program_and_gives_the_terminal_back(self):
        terminal = self.top(columns=180)
        text = terminal.wait_for(f"known_alloc (pid {self.pid})", "OCaml 4.1", "agent mode", "rate 0.001/word",
                                 "heap", "gc ", "dropped 0", "HISTORY: live", "LIVE*", "±", *SITES)
        self.assertIn("> ", text)
        self.wait_until_row(terminal, "site_live", lambda row: self.assertRegex(row, "[▁▂▃▄▅▆▇█]"))
        terminal.press("q")
        self.assert_gave_back(terminal)
        self.assertNotIn("site_live", terminal.after_screen())

    def test_numbers_are_those_of_sites(self):
        terminal = self.top(columns=200)
        for site in self.memprofd.ctl_json("sites", "--pid", self.pid)["sites"]:
            name = site["function"].split(".")[-1]
            if name not in SITES:
                continue

            def same(row):
                live, allocated = live_and_allocated(row)
                rounded = half_digits(row)
                self.assertAlmostEqual(site["live_bytes"], live, delta=1.001 * rounded[0])
                self.assertAlmostEqual(site["allocated_bytes"], allocated, delta=1.001 * rounded[1])
            self.wait_until_row(terminal, name, same)

    def test_sorts(self):
        terminal = self.top()
        for key, order, title in (("a", "allocated", "ALLOCATED*"), ("p", "promoted", "PROMOTED*"),
                                  ("o", "died-old", "DIED OLD*"), ("s", "samples", "SAMPLES*"),
                                  ("l", "live", " LIVE*")):
            with self.subTest(order):
                terminal.press(key)
                terminal.wait_for(title)
                self.wait_until_rows(terminal, self.sorted_sites(order))
        terminal.press(">")
        terminal.wait_for("ALLOCATED*")
        terminal.press("<")
        terminal.wait_for(" LIVE*")

    def test_groups(self):
        terminal = self.top()
        for group, words in (("functions by", "FUNCTION"), ("files by", "known_alloc.ml"),
                             ("modules by", "Known_alloc"), ("sites by", "site_live")):
            terminal.press("g")
            terminal.wait_for(group, words)

    def test_filters(self):
        terminal = self.top()
        terminal.press("/")
        terminal.wait_for("filter:")
        terminal.press("site_(major|small", "enter")
        terminal.wait_for("bad site pattern", "missing )")
        terminal.press(")", "enter")
        terminal.wait_for("filter --match site_(major|small)")
        self.wait_until_rows(terminal, [s for s in self.sorted_sites("live") if s in ("site_major", "site_small")])
        terminal.press("/")
        terminal.wait_for("filter: --match site_(major|small)")
        terminal.press(" --heap major", "enter")
        self.wait_until_rows(terminal, ["site_major"])
        terminal.press("/", "x", "escape")
        terminal.wait_for("q quit", "filter --match site_(major|small) --heap major")
        terminal.press("/", "\x15", "enter")
        terminal.wait_for(*SITES)

    def test_takes_the_options_of_the_command_line(self):
        terminal = self.terminal(self.memprofd, "--pid", self.pid, "--window", "all", "-m", "site_major", "-s", "allocated",
                                 "-g", "function")
        terminal.wait_for("functions by allocated: 1", "filter --match site_major")
        self.wait_until_rows(terminal, ["site_major"])
        few = self.terminal(self.memprofd, "--pid", self.pid, "--window", "all", "-m", "site_", "--limit", "2")
        few.wait_for("sites by live: 2 of 6")
        self.wait_until_rows(few, self.sorted_sites("live")[:2])

    def test_drills_into_callstacks_and_frames(self):
        terminal = self.top()
        def site():
            return re.search(r"\bsite_\w+|$", terminal.cursor_row()).group()
        while site() != "site_promoted":
            before = site()
            terminal.press("down")
            eventually(lambda: site() not in ("", before), "the cursor moves")
        terminal.press("enter")
        terminal.wait_for("callstacks by live", "of Known_alloc.site_promoted", "Known_alloc.round", "Esc back")
        terminal.wait_for("innermost first", "known_alloc.ml")
        terminal.press("enter")
        terminal.wait_for(" frames, innermost first")
        terminal.press("escape")
        terminal.wait_gone(" frames, innermost first")
        terminal.press("escape")
        terminal.wait_for("sites by live", "site_small")
        eventually(lambda: site() == "site_promoted", "the cursor is where it was")

    def test_shows_help(self):
        terminal = self.top()
        terminal.press("?")
        terminal.wait_for("Sort by", "space: pause", "median lifetime")
        terminal.press("escape")
        terminal.wait_for("site_live")

    # ------------------------------------------------------------ time

    def test_pauses_steps_back_and_goes_on(self):
        terminal = self.top(columns=160)

        def allocated():
            return live_and_allocated(terminal.row_with("site_small"))[1]

        def seen():
            return self.memprofd.ctl_json("sites", "--pid", self.pid, "-m", "site_small")["sites"][0]["allocated_bytes"]
        before = seen()
        self.program.command("go 1", timeout=120)
        self.memprofd.settled_sites(self.pid)
        eventually(lambda: allocated() > 1.2 * before, "the second round is shown")
        counted_ns = self.memprofd.ctl_json("sites", "--pid", self.pid)["time_unix_ns"]

        def in_history():
            points = self.memprofd.ctl_json("history", "--pid", self.pid, "--points", 1000)["points"]
            # The last point is still open; a pause is at one of the two before.
            return sum(int(p["time_unix_ns"]) > counted_ns for p in points[:-1]) >= 2
        eventually(in_history, "the second round is history")
        terminal.press(" ")
        terminal.wait_for("PAUSED at", " back")
        standing = self.standing(terminal)
        paused = allocated()
        self.assertGreater(paused, 1.2 * before)
        self.program.command("go 1", timeout=120)
        self.memprofd.settled_sites(self.pid)
        self.assertGreater(seen(), 1.2 * paused)
        self.assertEqual(standing, terminal.text())  # many intervals later

        def older():
            terminal.press("left")
            return allocated() < 0.8 * paused
        eventually(older, "steps back show what was before")
        self.assertIn("PAUSED at", terminal.text())
        terminal.press("a")  # sorts the paused data
        terminal.wait_for("ALLOCATED*", "PAUSED at")

        def newer():
            terminal.press("right")
            return allocated() > 1.2 * paused
        eventually(newer, "steps forth show what was after")
        terminal.press("L")
        terminal.wait_gone("PAUSED")
        eventually(lambda: abs(allocated() - seen()) < 0.01 * seen(), "the numbers are of now")

    def test_says_where_the_history_ends(self):
        terminal = self.top()
        terminal.press(" ")
        terminal.wait_for("PAUSED at")
        terminal.press("{", "{", "{", "{", "{", "{", "{", "{")
        terminal.wait_for("this is the oldest moment")
        terminal.press(" ")
        terminal.wait_gone("PAUSED")

    def test_windows(self):
        terminal = self.top(columns=160)
        terminal.wait_for("since the attach until")
        terminal.press("w")
        terminal.wait_for("ALLOCATED/S", "until")
        terminal.press("w")
        terminal.wait_for("in ", "ALLOCATED/S")

    # ------------------------------------------------------------ terminals

    def test_follows_the_size_of_the_terminal(self):
        terminal = self.top(columns=150, lines=40)
        for columns, lines in ((40, 10), (200, 50), (20, 4), (80, 24)):
            with self.subTest(columns=columns, lines=lines):
                terminal.resize(columns, lines)
                eventually(lambda: "q quit" in terminal.lines()[-1] and "LIVE" in terminal.lines()[0],
                           "the screen has that size")
                self.assertTrue(all(len(line) <= columns for line in terminal.lines()))
        terminal.press("q")
        self.assert_gave_back(terminal)

    def test_gives_the_terminal_back_on_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                terminal = self.top()
                os.kill(terminal.pid, number)
                self.assert_gave_back(terminal)

    def test_control_c_quits(self):
        terminal = self.top()
        terminal.press("\x03")
        self.assert_gave_back(terminal)

    def test_ends_after_so_many_frames(self):
        terminal = self.terminal(self.memprofd, "--pid", self.pid, "--iterations", "2")
        self.assert_gave_back(terminal)

    def test_ascii_where_the_locale_has_no_utf8(self):
        terminal = self.top(environment={"LC_ALL": "C"})
        terminal.wait_for("+-", "HISTORY")
        self.assertTrue(terminal.raw.isascii())
        self.wait_until_row(terminal, "site_live", lambda row: self.assertRegex(row, r"[_.:\-=+*#]{3}"))

    def test_plain_where_nothing_can_be_drawn(self):
        for kind in ("dumb", "nonsense", ""):
            with self.subTest(kind):
                terminal = self.open("--grpc.socket", self.memprofd.socket, "top", "--pid", self.pid, "--window",
                                     "all", "--once", columns=300, environment={"TERM": kind})
                self.assertEqual(harness.OK, terminal.wait())
                eventually(lambda: b"site_unmarshal" in terminal.raw, "the frame is there")
                self.assertNotIn(b"\x1b", terminal.raw)

    # ------------------------------------------------------------ pipes

    def test_frames_of_text(self):
        text = self.memprofd.ctl("top", "--pid", self.pid, "--window", "all", "--iterations", 3, "-d", 0.1).stdout
        frames = text.strip().split("\n\n")
        self.assertEqual(3, len(frames))
        for frame in frames:
            self.assertIn(f"known_alloc (pid {self.pid})", frame)
            for site in SITES:
                self.assertEqual(1, frame.count(site + " "))

    def test_frames_of_json(self):
        text = self.memprofd.ctl("top", "--pid", self.pid, "--window", "all", "-o", "json", "--iterations", 3,
                                 "-d", 0.1, "-s", "allocated").stdout
        frames = [answers.answer(line) for line in text.splitlines()]
        self.assertEqual(3, len(frames))
        theirs = {s["function"]: s for s in self.memprofd.ctl_json("sites", "--pid", self.pid)["sites"]}
        for frame in frames:
            self.assertEqual(self.pid, frame["target"]["pid"])
            self.assertEqual("v1", frame["api_version"])
            points = len(frame["history"]["points"])
            self.assertGreater(points, 0)
            self.assertEqual({s["function"] for s in frame["sites"]},
                             {s["group"]["function"] for s in frame["history"]["series"]})
            self.assertEqual(frame["groups"], len(frame["sites"]))
            for site in frame["sites"]:
                self.assertEqual([], site.pop("callstack"))
                if "site_" in site["function"]:
                    self.assert_same_site(theirs[site["function"]], site)
        self.assertLess(frames[0]["time_unix_ns"], frames[2]["time_unix_ns"])

    def assert_same_site(self, listed, framed):
        """`listed` is the site in `sites`, `framed` in a frame. Live blocks get older in between,
        so limits of lifetimes differ; all else is equal."""
        self.assertEqual(listed["lifetime_seconds"].keys(), framed["lifetime_seconds"].keys())
        still = lambda site: {key: value for key, value in site.items() if not key.startswith(("callstack", "lifetime"))}
        self.assertEqual(still(listed), still(framed))

    def test_a_closed_pipe_is_the_end(self):
        for options in (("--plain",), ("-o", "json")):
            with self.subTest(options):
                reading, writing = os.pipe()
                top = subprocess.Popen(
                    [harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket, "top", "--pid",
                     str(self.pid), "-d", "3600", *options], stdin=subprocess.DEVNULL, stdout=writing,
                    stderr=subprocess.PIPE)
                os.close(writing)
                self.assertTrue(os.read(reading, 100))
                os.close(reading)
                try:
                    _, said = top.communicate(timeout=harness.TIMEOUT)
                finally:
                    top.kill()
                self.assertEqual((0, b""), (top.returncode, said))

    def test_refuses_what_makes_no_sense(self):
        for arguments, words in ((("trace.ctf",), ("file", "report")), (("-w", "soon"), ("soon", "duration")),
                                 (("-w", "0"), ("window", "all")), ((f"{self.pid}@-5m..",), ("top", "sites")),
                                 (("--once", "-m", "("), ("pattern",))):
            with self.subTest(arguments):
                done = self.memprofd.ctl("top", *arguments, check=False)
                self.assertEqual(harness.USAGE, done.returncode)
                self.assert_one_line(done.stderr, *words)


class WhenTheDaemonFails(TopTest):
    def test_without_a_daemon_there_is_no_screen(self):
        for pid in ((), ("--pid", "1")):
            terminal = self.open("--grpc.socket", self.folder / "none.sock", "top", *pid)
            self.assertEqual(harness.UNAVAILABLE, terminal.wait())
            eventually(lambda: b"does not answer" in terminal.raw, "it says why")
            self.assertNotIn(b"\x1b", terminal.raw)

    def test_a_pid_that_is_no_target_is_an_error(self):
        daemon = self.daemon()
        terminal = self.terminal(daemon, "--pid", os.getpid())
        self.assertEqual(harness.NO_PROCESS, terminal.wait())
        eventually(lambda: b"is not a target" in terminal.raw, "it says why")

    def test_reconnects_to_a_daemon_that_comes_back(self):
        program, daemon = self.sampled()
        program.command("go 1", timeout=120)
        terminal = self.terminal(daemon, "--pid", program.pid)
        terminal.wait_for("LIVE", "site_live")
        daemon.stop(signal.SIGKILL)
        terminal.wait_for("RECONNECTING, as of", "does not answer", "site_live")
        terminal.press("?")
        terminal.wait_for("Sort by")
        terminal.press("?")
        again = self.daemon("--pid", program.pid, rate=RATE, port=daemon.port)
        self.sample_on_command(again, program)
        program.command("go 1", timeout=120)
        terminal.wait_gone("RECONNECTING")
        terminal.wait_for("LIVE", "site_live")
        again.stop(signal.SIGKILL)
        terminal.wait_for("RECONNECTING")
        terminal.press("q")
        self.assert_gave_back(terminal, harness.UNAVAILABLE)
        eventually(lambda: "does not answer" in terminal.after_screen(), "what is wrong is said at the end")

    def test_a_daemon_that_stands_still_holds_up_no_key(self):
        program, daemon = self.sampled()
        program.command("go 1", timeout=120)
        terminal = self.terminal(daemon, "--pid", program.pid)
        terminal.wait_for("LIVE", "site_live")
        daemon.send_signal(signal.SIGSTOP)
        try:
            terminal.wait_for("WAITING for memprofd for")
            terminal.press("?")
            terminal.wait_for("Sort by")
            terminal.press("escape")
            terminal.wait_for("site_live")
            terminal.press("q")
            self.assert_gave_back(terminal)
        finally:
            daemon.send_signal(signal.SIGCONT)


class WhenTargetsComeAndGo(TopTest):
    def test_lets_choose_among_targets(self):
        programs = [self.target("known_alloc") for _ in range(2)]
        daemon = self.daemon(*[a for p in programs for a in ("--pid", p.pid)], rate=RATE)
        for program in programs:
            self.sample_on_command(daemon, program)
            program.command("go 1", timeout=120)
        first, second = sorted(p.pid for p in programs)
        terminal = self.terminal(daemon)
        terminal.wait_for("targets of this memprofd", str(first), str(second), "Enter choose")
        terminal.press("down", "enter")
        terminal.wait_for(f"known_alloc (pid {second})", "site_live")
        terminal.press("tab")
        terminal.wait_for("targets of this memprofd", "Esc back")
        terminal.press("escape")
        terminal.wait_for(f"known_alloc (pid {second})")
        terminal.press("tab")
        terminal.wait_for("targets of this memprofd")
        terminal.press("enter")
        terminal.wait_for(f"known_alloc (pid {first})", "site_live")

    def test_waits_for_a_target_and_sees_it_end(self):
        daemon = self.daemon(rate=RATE)
        terminal = self.terminal(daemon)
        terminal.wait_for("memprofctl attach PID")
        program = self.target("known_alloc")
        daemon.attach(program.pid)
        terminal.wait_for(f"known_alloc (pid {program.pid})")
        self.sample_on_command(daemon, program)
        program.command("go 1", timeout=120)
        terminal.wait_for("LIVE", "site_live")
        program.exit()
        terminal.wait_for("EXITED", "site_live")
        terminal.press("q")
        self.assert_gave_back(terminal)
