# SPDX-License-Identifier: Apache-2.0
"""Ranges of a target's history match what it did.

The program works in phases on command. Between two phases it rests until a window of the history
has ended, so that a phase is a range to the nanosecond.
"""

import json
import math
import re
import signal
import subprocess
import time
import unittest

import grpc

import harness
from api import Api
from harness import E2ETest, eventually, memprofctl, sum_sites
from test_outputs import make_messages

RATE = 1e-3
MEASURES = ("allocated", "promoted", "live", "died_young", "died_old")
# Words that a round allocates, header included; tests/targets/known_alloc.ml.
ROUND_WORDS = {"site_small": 1_000_000, "site_live": 1_000_000, "site_major": 1_001_000,
               "site_bytes": 1_120_000, "site_promoted": 400_000, "site_unmarshal": 300_000}
MAJOR_BLOCK_WORDS = 1_001
LIVE_WORDS = ROUND_WORDS["site_live"]
SECOND = 1_000_000_000
MEMORY_LIMIT = 64 << 10
LIMIT_OF_A_TEST = 60.0


class Phases:
    """A known_alloc under a daemon, and the moments between its commands."""

    def __init__(self, pb, daemon, program):
        self.daemon, self.program, self.pid = daemon, program, program.pid
        self.api = Api(pb, daemon)
        self.pb = pb

    def attach(self, rate=RATE):
        self.daemon.attach(self.pid, rate)
        self.wait_sampling()
        return self

    def wait_sampling(self):
        """Waits while the program works a little.

        In OCaml 4 only a sample ends a session. "quiet" would draw one too rarely: it writes, and so draws anew,
        between its collection and its few allocations.
        """
        def sampling():
            self.program.command("minor")
            return self.daemon.state(self.pid) == "sampling"
        eventually(sampling, "the program is sampled")

    def counts(self):
        target = self.api.ListSites(pid=self.pid, limit=1).target
        return target.alloc_events, target.promote_events, target.dealloc_events

    def history(self, points=1_000, **fields):
        return self.api.GetHistory(selection=self.pb.Selection(pid=self.pid, **fields), points=points)

    def record(self, path):
        """Records a trace until interrupted."""
        recording = harness.Process(
            [harness.BUILD / "memprofctl", "--grpc.socket", self.daemon.socket, "record", "--pid", self.pid,
             "--out", path], stdin=subprocess.DEVNULL)
        eventually(lambda: path.exists() and path.stat().st_size > 0, "the recording begins")
        return recording

    def moment(self):
        """A limit of windows at which the program rests and all earlier events are counted."""
        harness.settled(self.counts, "the daemon's counts", quiet=0.5)
        quiet_ns = self.api.ListSites(pid=self.pid, limit=1).time_unix_ns

        def limit_after():
            ended = list(self.history().points)[:-1]  # the last one is still running
            return [p.time_unix_ns for p in ended if p.time_unix_ns > quiet_ns]
        return eventually(limit_after, "a window ends")[0]

    def timed(self, *commands):
        """Sends the commands; returns their duration in seconds."""
        begun = time.monotonic()
        for command in commands:
            self.program.command(command, timeout=120)
        return time.monotonic() - begun

    def run(self, *commands):
        """Sends the commands; returns the moment afterwards."""
        self.timed(*commands)
        return self.moment()

    def range(self, begin_ns=0, end_ns=0):
        return self.pb.TimeRange(begin_unix_ns=begin_ns, end_unix_ns=end_ns)

    def sites(self, begin_ns=0, end_ns=0, pid=None, **conditions):
        """{name of a site_*: Site} of a range; conditions are fields of Filter."""
        answer = self.api.ListSites(pid=pid or self.pid, range=self.range(begin_ns, end_ns),
                                    filter=self.pb.Filter(**conditions), group_by=self.pb.GROUP_BY_FUNCTION, page_size=1000)
        self.answered = answer.range
        found = {site.function.split(".")[-1]: site for site in answer.sites}
        return {name: found.get(name, self.pb.Site()) for name in ROUND_WORDS}


def variance_words2(name, words, rate):
    """Variance of a site's words; large blocks count by their size."""
    if name != "site_major":
        return words / rate
    missed = (1 - rate) ** MAJOR_BLOCK_WORDS
    return words * MAJOR_BLOCK_WORDS * missed / (1 - missed)


def seconds(time_ns):
    """The time in seconds for the command line, exact to a microsecond."""
    return f"@{time_ns // SECOND}.{time_ns % SECOND:09d}"


class HistoryTest(E2ETest):
    @classmethod
    def setUpClass(cls):
        make_messages(cls)

    def phases(self, *arguments, rate=RATE):
        phases = Phases(self.pb, self.daemon(*arguments, rate=rate), self.target("known_alloc"))
        self.addCleanup(phases.api.close)
        return phases.attach()

    def assert_rounds(self, sites, rounds, rate=RATE):
        for name, words in ROUND_WORDS.items():
            self.assert_estimate(f"{name} allocated", sites[name].allocated.bytes, rounds * words, rate)
        self.assert_estimate("site_live promoted", sites["site_live"].promoted.bytes,
                             rounds * LIVE_WORDS, rate)

    def assert_live(self, sites, words, rate=RATE):
        self.assert_estimate("site_live live", sites["site_live"].live.bytes, words, rate)
        for name in set(ROUND_WORDS) - {"site_live"}:
            self.assertEqual(0, sites[name].live.bytes, name)


class Ranges(HistoryTest):
    """Read-only tests that share one run of one program."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.known = harness.Target("known_alloc")
        cls.addClassCleanup(cls.known.kill)
        cls.memprofd = harness.Daemon(cls.shared.name, rate=RATE)
        cls.addClassCleanup(cls.memprofd.kill)
        cls.phase = Phases(cls.pb, cls.memprofd, cls.known).attach()
        cls.addClassCleanup(cls.phase.api.close)
        cls.pid = cls.known.pid
        # Times after which nothing, one round, a collection, three rounds, the drop happened.
        cls.start = cls.phase.moment()
        round_took = cls.phase.timed("go 1", "full")
        kept_since = time.monotonic()
        cls.one = cls.phase.moment()
        cls.same = cls.phase.run("full")
        # Lifetimes show which blocks are new; they are exact to a window, so this window stays
        # idle.
        cls.phase.moment()
        # Kept blocks live longer than those that three rounds replace.
        eventually(lambda: time.monotonic() - kept_since > 12 * round_took, "they have lived long")
        cls.brief_seconds = max(1, 2 ** math.ceil(math.log2(cls.phase.timed("go 3", "full", "full"))))
        cls.three = cls.phase.moment()
        cls.dropped = cls.phase.run("drop", "full", "full")

    def ctl_json(self, command, *arguments):
        return self.memprofd.ctl_json(command, "--pid", self.pid, *arguments)

    def between(self, begin_ns, end_ns):
        return ("--range", f"{seconds(begin_ns)}..{seconds(end_ns)}")

    # ------------------------------------------------------------ ranges

    def test_each_phase_allocated_what_it_did(self):
        for begin, end, rounds in ((self.start, self.one, 1), (self.same, self.three, 3)):
            with self.subTest(rounds=rounds):
                self.assert_rounds(self.phase.sites(begin, end), rounds)
                self.assertEqual((begin, end), (self.phase.answered.begin_unix_ns, self.phase.answered.end_unix_ns))
        for begin, end in ((0, self.start), (self.one, self.same), (self.three, self.dropped)):
            for name, site in self.phase.sites(begin, end).items():
                self.assertEqual(0, site.allocated.samples, name)

    def test_phases_sum_up_to_the_whole(self):
        limits = (0, self.start, self.one, self.same, self.three, self.dropped, 0)
        parts = [self.phase.sites(*span) for span in zip(limits, limits[1:])]
        whole = self.phase.sites()
        for name, site in whole.items():
            for measure in ("allocated", "promoted", "died_young", "died_old"):
                with self.subTest(site=name, measure=measure):
                    of_parts = [getattr(part[name], measure) for part in parts]
                    self.assertEqual(getattr(site, measure).samples, sum(e.samples for e in of_parts))
                    self.assertAlmostEqual(getattr(site, measure).bytes, sum(e.bytes for e in of_parts), delta=1e-3)
                    self.assertAlmostEqual(getattr(site, measure).bytes_stderr,
                                           math.hypot(*(e.bytes_stderr for e in of_parts)), delta=1e-3)
            self.assertEqual(site.lifetime.samples, sum(part[name].lifetime.samples for part in parts))

    def test_live_at_a_time_of_the_past(self):
        for time, words in ((self.start, 0), (self.one, LIVE_WORDS), (self.same, LIVE_WORDS),
                            (self.three, LIVE_WORDS), (self.dropped, 0), (0, 0)):
            with self.subTest(words=words):
                self.assert_live(self.phase.sites(0, time), words)
        # Live memory at the end does not depend on the begin of the range.
        self.assertEqual(self.phase.sites(0, self.three)["site_live"].live,
                         self.phase.sites(self.same, self.three)["site_live"].live)

    def test_died_in_a_phase(self):
        sites = self.phase.sites(self.three, self.dropped)
        self.assert_estimate("dropped", sites["site_live"].died_old.bytes, LIVE_WORDS, RATE)
        self.assertEqual(0, sites["site_live"].died_young.samples)
        self.assertGreater(sites["site_live"].lifetime.p50_seconds, 0.5)
        small = self.phase.sites(self.same, self.three)["site_small"]
        self.assertGreater(small.died_young.samples, small.allocated.samples * 0.9)

    def test_command_line_ranges(self):
        sites = self.ctl_json("sites", *self.between(self.same, self.three))["sites"]
        exact = self.phase.sites(self.same, self.three)
        for name in ROUND_WORDS:
            seen = sum_sites(sites, name)
            self.assertEqual(exact[name].allocated.samples, seen["samples"])
            self.assertAlmostEqual(exact[name].live.bytes, seen["live_bytes"], delta=1e-3)
        text = self.memprofd.ctl("report", "--pid", self.pid, *self.between(self.same, self.three)).stdout
        self.assertIn(" only:", text)
        of_range = self.memprofd.ctl("report", f"{self.pid}@{seconds(self.same)}..{seconds(self.three)}",
                                     "-o", "collapsed", "-s", "allocated").stdout
        total = sum(int(line.rsplit(" ", 1)[1]) for line in of_range.splitlines())
        self.assertAlmostEqual(sum(s["allocated_bytes"] for s in sites), total, delta=1)

    def test_last_seconds(self):
        status, text = self.phase.api.get("/api/v1/sites", pid=self.pid, last_seconds=1)
        self.assertEqual(200, status, text)
        answer = json.loads(text)
        self.assertEqual(0, answer["total"]["allocated"]["bytes"])
        span = int(answer["range"]["end_unix_ns"]) - int(answer["range"]["begin_unix_ns"])
        self.assertLess(abs(span - SECOND), 0.6 * SECOND)

        def same():  # what lives grows older between two questions
            self.assertEqual(self.memprofd.sites(self.pid), self.ctl_json("sites", "--last", "10m")["sites"])
            return True
        eventually(same, "ten minutes are all there is")

    # ------------------------------------------------------------ the peak

    def assert_kept_or_replaced(self, live_bytes):
        """The maximum may occur within a round, while replaced blocks are not collected yet."""
        self.assert_estimate("site_live", min(live_bytes, 8 * LIVE_WORDS), LIVE_WORDS, RATE)
        self.assert_estimate("site_live, twice", max(live_bytes, 16 * LIVE_WORDS), 2 * LIVE_WORDS, RATE)

    def test_peak_is_kept_after_all_was_freed(self):
        self.assertEqual(0, sum_sites(self.memprofd.sites(self.pid), "site_live")["live_bytes"])
        at_peak = sum_sites(self.ctl_json("sites", "--peak")["sites"], "site_live")
        history = self.phase.history()
        self.assertTrue(self.start < history.peak_unix_ns < self.dropped)
        self.assert_kept_or_replaced(at_peak["live_bytes"])
        then = self.phase.sites(0, history.peak_unix_ns)["site_live"].live.bytes
        self.assertAlmostEqual(then, at_peak["live_bytes"], delta=1e-3)
        self.assertGreaterEqual(history.peak_live_bytes, at_peak["live_bytes"])
        answer = self.phase.api.ListSites(pid=self.pid, range=self.pb.TimeRange(until_peak=True))
        self.assertTrue(answer.range.until_peak)
        self.assertEqual(history.peak_unix_ns, answer.range.end_unix_ns)
        self.assertAlmostEqual(history.peak_live_bytes, answer.total.live.bytes, delta=1e-3)
        chance = 4 * history.peak_live_bytes_stderr
        self.assertGreater(chance, 0)
        self.assertGreater(history.peak_live_bytes + chance, max(p.live_bytes for p in history.points[:-1]))

    # ------------------------------------------------------------ what became of blocks

    def test_new_blocks_only(self):
        for begin, end, words in ((self.start, self.one, LIVE_WORDS), (self.one, self.same, 0),
                                  (self.same, self.three, LIVE_WORDS), (self.three, self.dropped, 0)):
            sites = self.phase.sites(begin, end, allocated_in_range=True)
            self.assert_estimate("new and live", sites["site_live"].live.bytes, words, RATE)
        at_same = self.phase.sites(self.one, self.same)["site_live"].live.bytes
        self.assert_estimate("live, and not new", at_same, LIVE_WORDS, RATE)
        seen = sum_sites(self.ctl_json("sites", "--new", *self.between(self.start, self.one))["sites"], "site_live")
        self.assert_estimate("new and live", seen["live_bytes"], LIVE_WORDS, RATE)

    def test_fates_are_all_there_is(self):
        span = (self.same, self.three)
        everything = self.phase.sites(*span)
        dead, alive = (self.phase.sites(*span, fate=fate) for fate in (self.pb.FATE_DEAD, self.pb.FATE_ALIVE))
        for name, site in everything.items():
            with self.subTest(site=name):
                self.assertEqual(0, dead[name].live.samples)
                self.assertEqual(0, alive[name].died_young.samples + alive[name].died_old.samples)
                self.assertEqual(site.live.samples, alive[name].live.samples)
                self.assertEqual(site.died_young.samples, dead[name].died_young.samples)
                self.assertEqual(site.died_old.samples, dead[name].died_old.samples)
                self.assertEqual(site.lifetime.samples, dead[name].lifetime.samples)

    def test_lifetimes(self):
        """A third of the blocks that site_live lost in three rounds lived for seconds."""
        span = (self.same, self.three)
        old = self.phase.sites(*span, fate=self.pb.FATE_DEAD, min_lifetime_seconds=self.brief_seconds)
        self.assert_estimate("lived long", old["site_live"].died_old.bytes, LIVE_WORDS, RATE)
        short = self.phase.sites(*span, fate=self.pb.FATE_DEAD, max_lifetime_seconds=self.brief_seconds)
        self.assert_estimate("lived briefly", short["site_live"].died_old.bytes, 2 * LIVE_WORDS, RATE)
        self.assert_estimate("site_small", short["site_small"].allocated.bytes, 3 * ROUND_WORDS["site_small"], RATE)
        self.assertEqual(0, old["site_small"].allocated.samples)
        never = self.phase.sites(*span, min_lifetime_seconds=3600)
        self.assertEqual([0] * len(ROUND_WORDS), [site.allocated.samples for site in never.values()])
        # Survivors of the first round, after the next collection.
        survived = self.phase.sites(0, self.same, fate=self.pb.FATE_ALIVE, min_lifetime_seconds=0.5)
        self.assert_estimate("survived", survived["site_live"].live.bytes, LIVE_WORDS, RATE)
        lived_long = self.ctl_json("sites", *self.between(*span), "--fate", "dead", "--min-lifetime",
                                   f"{self.brief_seconds}s")
        seen = sum_sites(lived_long["sites"], "site_live")
        self.assertAlmostEqual(old["site_live"].died_old.bytes, seen["allocated_bytes"], delta=1e-3)

    # ------------------------------------------------------------ differences

    def diff(self, base, other, *options):
        """Changes by function name, and the whole answer."""
        done = self.memprofd.ctl("diff", base, other, "-g", "function", "-o", "json", *options)
        answer = json.loads(done.stdout)
        named = {}
        for diff in answer["diffs"]:
            side = diff["other"] if diff["other"]["function"] else diff["base"]
            named[side["function"].split(".")[-1]] = diff
        return named, answer

    def assert_changes(self, changes, rounds):
        """rounds: other minus base; the standard error includes both sides."""
        for name, words in ROUND_WORDS.items():
            change = changes[name]
            self.assertAlmostEqual(change["other"]["allocated"]["bytes"] - change["base"]["allocated"]["bytes"],
                                   change["change"], delta=1e-3)
            self.assertAlmostEqual(math.hypot(change["other"]["allocated"]["bytes_stderr"],
                                              change["base"]["allocated"]["bytes_stderr"]),
                                   change["change_stderr"], delta=1e-3)
            self.assertLessEqual(abs(change["change"] - rounds * words * 8), 4 * change["change_stderr"], name)

    def test_diff_of_two_ranges(self):
        base, other = (f"@{seconds(a)}..{seconds(b)}" for a, b in ((self.start, self.one), (self.same, self.three)))
        changes, answer = self.diff(base, f"{self.pid}{other}", "-s", "allocated")
        self.assert_changes(changes, 2)
        self.assertEqual([str(self.start), str(self.one), str(self.same), str(self.three)],
                         [answer[r][k] for r in ("base_range", "other_range")
                          for k in ("begin_unix_ns", "end_unix_ns")])
        rates, _ = self.diff(base, other, "-s", "allocated", "--per-second")
        small = rates["site_small"]
        spans = ((self.one - self.start) / SECOND, (self.three - self.same) / SECOND)
        self.assertAlmostEqual(small["other"]["allocated"]["bytes"] / spans[1]
                               - small["base"]["allocated"]["bytes"] / spans[0], small["change"], delta=1)
        live, _ = self.diff(f"@..{seconds(self.three)}", f"@..{seconds(self.dropped)}", "-s", "live")
        self.assert_estimate("freed", -live["site_live"]["change"], LIVE_WORDS, RATE)

    def test_diff_of_two_programs(self):
        other = Phases(self.pb, self.memprofd, self.target("known_alloc")).attach()
        self.addCleanup(other.api.close)
        other.run("go 6")
        changes, _ = self.diff(self.pid, other.pid, "-s", "allocated")
        self.assert_changes(changes, 2)  # 6 rounds here, 4 there
        swapped, _ = self.diff(other.pid, self.pid, "-s", "allocated")
        self.assertEqual({name: -change["change"] for name, change in changes.items()},
                         {name: change["change"] for name, change in swapped.items()})
        other.program.exit()
        self.memprofd.wait_state(other.pid, "exited")

    def test_diff_of_a_file_with_the_program(self):
        phase = Phases(self.pb, self.memprofd, self.target("known_alloc")).attach()
        self.addCleanup(phase.api.close)
        path = self.folder / "two.ctf"
        recording = self.process(phase.record(path))
        phase.run("go 2")
        recording.stop(signal.SIGINT)
        phase.run("go 3")
        for options in ((), ("-m", "site_live")):
            changes, answer = self.diff(path, phase.pid, "-s", "allocated", *options)
            names = set(ROUND_WORDS) if not options else {"site_live"}
            self.assertEqual(names, set(changes) & set(ROUND_WORDS))
            for name in names:
                change = changes[name]["other"]["allocated"]["bytes"] - changes[name]["base"]["allocated"]["bytes"]
                self.assert_estimate(name, change, 3 * ROUND_WORDS[name], RATE)
                self.assertAlmostEqual(change, changes[name]["change"], delta=1e-3)
            total = answer["total"]
            self.assertAlmostEqual(sum(d["change"] for d in answer["diffs"]), total["change"], delta=1)
        same = json.loads(memprofctl("diff", path, path, "-o", "json").stdout)
        self.assertTrue(same["diffs"])
        self.assertEqual({0}, {d["change"] for d in same["diffs"]})
        phase.program.exit()
        self.memprofd.wait_state(phase.pid, "exited")

    # ------------------------------------------------------------ series

    def test_series_of_flows_sum_up_to_the_range(self):
        answer = self.ctl_json("history", *self.between(self.start, self.three), "-s", "allocated", "-g", "function",
                               "--points", 1000, "-n", 0)
        steps = [point["step_seconds"] for point in answer["points"]]
        self.assertAlmostEqual((self.three - self.start) / SECOND, sum(steps), delta=1e-6)
        exact = self.phase.sites(self.start, self.three)
        seen = {}
        for series in answer["series"]:
            self.assertEqual(len(steps), len(series["values"]))
            name = series["group"]["function"].split(".")[-1]
            seen[name] = sum(value * step for value, step in zip(series["values"], steps))
        for name, site in exact.items():
            self.assertAlmostEqual(site.allocated.bytes, seen[name], delta=1)
        coarse = self.ctl_json("history", *self.between(self.start, self.three), "-s", "allocated", "--points", 3)
        self.assertLessEqual(len(coarse["points"]), 3)
        total = sum(v * p["step_seconds"] for s in [*coarse["series"], coarse["other"]]
                    for v, p in zip(s["values"], coarse["points"]))
        fine = self.phase.api.ListSites(pid=self.pid, range=self.phase.range(self.start, self.three)).total
        self.assertAlmostEqual(fine.allocated.bytes, total, delta=1)

    def test_series_of_live_bytes(self):
        answer = self.ctl_json("history", "-m", "site_live", "--points", 1000, "-g", "function")
        self.assertEqual(1, len(answer["series"]))
        at = dict(zip((int(p["time_unix_ns"]) for p in answer["points"]), answer["series"][0]["values"]))
        for time in (self.start, self.one, self.same, self.three, self.dropped):
            self.assertAlmostEqual(self.phase.sites(0, time)["site_live"].live.bytes, at[time], delta=1e-3)
        for name in ("minor_collections", "major_collections"):
            counts = [int(point[name]) for point in answer["points"]]
            self.assertEqual(sorted(counts), counts)
            self.assertGreater(counts[-1], counts[0])
        self.assertEqual(int(answer["range"]["begin_unix_ns"]), int(answer["oldest_unix_ns"]))

    def test_series_by_other_groups(self):
        modules = self.ctl_json("history", "-g", "module", "-s", "allocated", "-n", 1)["series"]
        self.assertEqual(["Known_alloc"], [series["group"]["module"] for series in modules])
        threads = self.ctl_json("history", "-g", "thread")["series"]
        self.assertIn(self.pid, [series["group"]["thread"] for series in threads])

    def test_history_for_people(self):
        text = self.memprofd.ctl("history", "--pid", self.pid).stdout
        self.assertRegex(text, r"most live: [\d.]+ MiB ± [\d.]+ at ")
        row = re.search(r"(?m)^\s*0 B\s+([\d.]+) MiB ± [\d.]+\s+[▁-█]+\s+Known_alloc\.site_live ", text)
        self.assertIsNotNone(row, text)
        self.assert_kept_or_replaced(float(row[1]) * 2**20)


class Changes(HistoryTest):
    def test_a_change_of_the_rate_keeps_estimates_right(self):
        phase = self.phases(rate=1e-4)
        self.assertEqual(RATE, self.daemon_rate(phase))  # attach() requested it
        start = phase.moment()
        first = phase.run("go 2", "full")
        self.memprofd_rate(phase, 4e-3)
        second = phase.run("go 2", "full")
        self.assert_rounds(phase.sites(start, first), 2, RATE)
        self.assert_rounds(phase.sites(first, second), 2, 4e-3)
        whole = phase.sites(start, second)
        for name, words in ROUND_WORDS.items():
            error = math.sqrt(sum(2 * variance_words2(name, words, rate) for rate in (RATE, 4e-3))) * 8
            self.assertLessEqual(abs(whole[name].allocated.bytes - 4 * words * 8), 4 * error, name)
            self.assertAlmostEqual(1, whole[name].allocated.bytes_stderr / error, delta=0.1)
        # Blocks sampled at the old rate are no longer followed, but they were live.
        self.assert_live(phase.sites(0, first), LIVE_WORDS, RATE)
        self.assert_live(phase.sites(0, second), LIVE_WORDS, 4e-3)
        # They were born in the range nevertheless, and were dropped deliberately.
        fresh = phase.sites(start, second, allocated_in_range=True)
        for name in ROUND_WORDS:
            self.assertAlmostEqual(whole[name].allocated.bytes, fresh[name].allocated.bytes, delta=1e-3)
        self.assertEqual(0, phase.daemon.targets()[phase.pid]["dropped_events"])
        report = phase.daemon.ctl("report", "--pid", phase.pid).stdout
        self.assertRegex(report, r"(?m)^ +losses +none$")
        self.assertRegex(report, r"(?m)^ +given up +[\d,]+ events \(.*follow/session_end ")

    def daemon_rate(self, phase):
        return phase.daemon.targets()[phase.pid]["sampling_rate"]

    def memprofd_rate(self, phase, rate):
        phase.daemon.set_rate(phase.pid, rate)
        phase.wait_sampling()
        self.assertEqual(rate, self.daemon_rate(phase))

    def test_a_killed_program_stays_readable(self):
        phase = self.phases()
        start = phase.moment()
        one = phase.run("go 1", "full")
        before = phase.daemon.sites(phase.pid)
        phase.program.send("go 1000")
        eventually(lambda: sum_sites(phase.daemon.sites(phase.pid), "site_small")["samples"] > 3_000, "it works")
        phase.program.send_signal(signal.SIGKILL)
        phase.program.wait()
        phase.daemon.wait_state(phase.pid, "exited")
        last = harness.settled(lambda: phase.daemon.sites(phase.pid), "the last counts", quiet=1.5)
        for name in ROUND_WORDS:
            self.assertGreater(sum_sites(last, name)["samples"], sum_sites(before, name)["samples"], name)
        self.assertGreater(sum_sites(last, "site_live")["live_bytes"], 0, "what was live when it was killed")
        self.assert_rounds(phase.sites(start, one), 1)
        self.assert_live(phase.sites(start, one), LIVE_WORDS)
        history = phase.history()
        self.assertGreater(history.points[-1].live_bytes, 0)
        end = history.points[-1].time_unix_ns
        until_end = phase.daemon.ctl_json("sites", "--pid", phase.pid, "--range", f"..{seconds(end)}")
        self.assertEqual(last, until_end["sites"])
        self.assertIn("exited", phase.daemon.ctl("report", "--pid", phase.pid, "--leaks").stdout
                      + phase.daemon.ctl("report", "--pid", phase.pid).stdout)
        self.assertEqual(0, history.points[-1].dropped_events)

    def test_a_program_that_ended_is_forgotten_in_time(self):
        phase = self.phases("--history.retention", "1s")
        phase.run("go 1")
        self.assertTrue(phase.daemon.metrics().find("memprofd_live_bytes", pid=phase.pid))
        phase.program.send_signal(signal.SIGKILL)
        phase.program.wait()
        eventually(lambda: phase.pid not in phase.daemon.targets(), "the target is forgotten")
        with self.assertRaises(grpc.RpcError) as raised:
            phase.sites()
        self.assertEqual(grpc.StatusCode.NOT_FOUND, raised.exception.code())
        self.assertFalse(phase.daemon.metrics().find("memprofd_live_bytes", pid=phase.pid))
        self.assertEqual(0, phase.daemon.metrics().value("memprofd_history_bytes"))


class Memory(HistoryTest):
    def test_the_limit_is_kept(self):
        program = self.target("many_sites")
        daemon = self.daemon("--pid", program.pid, "--history.memory", "64KiB", "--max-frames", "64", rate=RATE)
        api = Api(self.pb, daemon)
        self.addCleanup(api.close)
        largest = 0

        def shed():
            nonlocal largest
            program.command("go 4")
            largest = max(largest, daemon.metrics().value("memprofd_history_bytes"))
            history = api.GetHistory(selection=self.pb.Selection(pid=program.pid), points=1_000)
            attached = api.ListTargets().targets[0].attached_unix_ns
            # Windows are dropped, but all counts since the attach remain.
            return history.oldest_unix_ns > attached + 5 * SECOND
        eventually(shed, "the oldest windows go", timeout=LIMIT_OF_A_TEST)
        self.assertGreater(largest, MEMORY_LIMIT / 4)
        self.assertLessEqual(largest, MEMORY_LIMIT)
        answer = api.ListSites(pid=program.pid, limit=1)
        self.assertEqual(answer.target.allocated.samples, answer.total.allocated.samples)
        program.exit()



class WindowsHoldTheirOwn(HistoryTest):
    def test_at_each_limit_all_is_counted_that_had_happened(self):
        """Each word is sampled, and the program neither waits for the end of a window nor becomes
        idle."""
        program = self.target("bursts")
        daemon = self.daemon("--pid", program.pid, rate=1)
        self.sample_on_command(daemon, program)
        before = program.command("burst 0")["words"]
        told = [(0, 0, before)]  # time of the command, time of its answer, words until then
        while len(told) < 150:
            sent = time.time_ns()
            words = program.command(f"burst {len(told) % 7 + 1}")["words"]
            told.append((sent, time.time_ns(), words))
            if len(told) % 3 == 0:
                program.command("minor")  # the agent flushes a batch and keeps what follows
            time.sleep(0.04)
        api = Api(self.pb, daemon)
        self.addCleanup(api.close)
        history = api.GetHistory(selection=api.pb.Selection(pid=program.pid), points=1_000)
        limits = [p.time_unix_ns for p in history.points if told[1][0] < p.time_unix_ns < told[-1][1]]
        self.assertGreater(len(limits), 3)
        for limit in limits:
            answer = api.ListSites(pid=program.pid, limit=1, range=api.pb.TimeRange(end_unix_ns=limit),
                                   filter=api.pb.Filter(pattern="block"))
            least = max(words for _, answered, words in told if answered < limit - SECOND // 500)
            most = max(words for sent, _, words in told if sent < limit + SECOND // 500)
            counted = round(answer.total.allocated.bytes / 8)
            self.assertGreaterEqual(counted, least, "a part came late")
            self.assertLessEqual(counted, most)
        program.exit()


if __name__ == "__main__":
    unittest.main()
