# SPDX-License-Identifier: Apache-2.0
"""One query model: command line, HTTP and gRPC give the same answer to every question, and refuse
the same ones."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import grpc
from google.protobuf import json_format

import answers
import harness
from api import Api
from harness import E2ETest, eventually, memprofctl
from test_outputs import make_messages

RATE = 1e-3
GROUPS = ("site", "function", "file", "module", "library", "callstack", "thread", "domain")
ORDERS = ("live", "allocated", "promoted", "samples", "lifetime", "died-young", "died-old", "allocated-objects",
          "live-objects")
# Command-line options, the same as fields of Filter, and what the answer must or must not contain.
FILTERS = (
    (("-m", "site_(live|small)"), {"pattern": "site_(live|small)"}, {"site_live", "site_small"}),
    (("-m", r"known_alloc\.ml"), {"pattern": r"known_alloc\.ml"}, None),
    (("--require", "site_major", "--require", "round"), {"require": ["site_major", "round"]}, {"site_major"}),
    (("--forbid", "round"), {"forbid": ["round"]}, set()),
    (("--forbid", "site_[a-l]", "--forbid", "CamlinternalFormat|Printf"),
     {"forbid": ["site_[a-l]", "CamlinternalFormat|Printf"]},
     {"site_small", "site_major", "site_promoted", "site_unmarshal"}),
    (("--hide", "site_"), {"hide": ["site_"]}, set()),
    (("--frames", "application"), {"frames": "FRAMES_APPLICATION"}, None),
    (("--frames", "all"), {"frames": "FRAMES_ALL"}, None),
    (("--min-size", "1KiB"), {"min_size_bytes": 1024}, {"site_major"}),
    (("--max-size", "24"), {"max_size_bytes": 24}, {"site_small", "site_promoted", "site_unmarshal"}),
    (("--min-size", "100", "--max-size", "110"), {"min_size_bytes": 100, "max_size_bytes": 110}, {"site_bytes"}),
    (("--heap", "major"), {"heap": "BLOCK_HEAP_MAJOR"}, {"site_major", "site_unmarshal"}),
    (("--heap", "minor"), {"heap": "BLOCK_HEAP_MINOR"}, {"site_small", "site_live", "site_bytes", "site_promoted"}),
    (("--source", "marshal"), {"source": "BLOCK_SOURCE_MARSHAL"}, {"site_unmarshal"}),
    (("--source", "custom"), {"source": "BLOCK_SOURCE_CUSTOM"}, set()),
    (("--domain", "0"), {"domains": [0]}, None),
    (("--thread", "1", "--domain", "0"), {"threads": [1], "domains": [0]}, set()),
    (("--fate", "alive"), {"fate": "FATE_ALIVE"}, {"site_live"}),
    (("--fate", "dead", "--max-lifetime", "1h"), {"fate": "FATE_DEAD", "max_lifetime_seconds": 3600}, None),
    (("--min-lifetime", "1h"), {"min_lifetime_seconds": 3600}, set()),
    (("--new",), {"allocated_in_range": True}, None),
    (("-m", "site_live", "--new", "--fate", "alive", "--heap", "minor"),
     {"pattern": "site_live", "allocated_in_range": True, "fate": "FATE_ALIVE", "heap": "BLOCK_HEAP_MINOR"},
     {"site_live"}),
)


def name_of(site, group):
    """Identity of a group; frames for callstacks."""
    if group == "callstack":
        return tuple((f["function"], f["file"], f["line"], f["start_column"]) for f in site["callstack"])
    return tuple(site[key] for key in ("function", "file", "line", "module", "library", "thread", "domain"))


def of_message(message):
    """Converts a Site of gRPC or HTTP's JSON to the command line's form."""
    if not isinstance(message, dict):
        message = json_format.MessageToDict(message, preserving_proto_field_name=True,
                                            including_default_value_fields=True)
    return answers.answer(json.dumps(message))


def rounded(value):
    """Rounds to nine digits, because JSON writers differ in the last ones."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class QueryTest(E2ETest):
    @classmethod
    def setUpClass(cls):
        make_messages(cls)

    @classmethod
    def profile(cls, name, *arguments):
        """A sampled program and its daemon, for all tests of the class."""
        cls.program = harness.Target(name, *arguments)
        cls.addClassCleanup(cls.program.kill)
        cls.pid = cls.program.pid
        cls.memprofd = harness.Daemon(cls.shared.name, "--pid", cls.pid, rate=RATE)
        cls.addClassCleanup(cls.memprofd.kill)
        cls.api = Api(cls.pb, cls.memprofd)
        cls.addClassCleanup(cls.api.close)


class OneModel(QueryTest):
    """A resting program, so that all answers show the same counts."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile("known_alloc")

        def sampling():
            cls.program.command("quiet")
            return cls.memprofd.state(cls.pid) == "sampling"
        eventually(sampling, "the program is sampled")
        cls.file = pathlib.Path(cls.shared.name) / "run.ctf"
        recording = harness.Process(
            [harness.BUILD / "memprofctl", "--grpc.socket", cls.memprofd.socket, "record", "--pid", cls.pid,
             "--out", cls.file], stdin=subprocess.DEVNULL)
        cls.addClassCleanup(recording.kill)
        eventually(lambda: cls.file.exists() and cls.file.stat().st_size > 0, "the recording begins")
        cls.program.command("go 2", timeout=120)
        cls.program.command("full")
        cls.memprofd.settled_sites(cls.pid)
        cls.settled_ns = time.time_ns()
        recording.stop(signal.SIGINT)

    def stored_end(self):
        """Time of the latest stored point of the history (the last point is now) that includes
        everything."""
        def stored():
            end = int(self.api.json("history", pid=self.pid)["points"][-2]["time_unix_ns"])
            return end if end >= self.settled_ns else 0
        return eventually(stored, "the history has stored a point of the program at rest")

    def ask_three(self, options, group="site", order="live", limit=0, **conditions):
        """Answers of command line, HTTP and gRPC, in the command line's form."""
        ctl = self.memprofd.ctl_json("sites", "--pid", self.pid, "-g", group, "-s", order, "-n", limit, *options)
        filter_ = {k: getattr(self.pb, v) if isinstance(v, str) and v.isupper() else v for k, v in conditions.items()}
        words = {"order": order.replace("-", "_"), "group_by": group, "limit": limit, "page_size": 1000,
                 "with_callstacks": "true"}
        http = self.api.json("sites", pid=self.pid, **words,
                             **{f"filter.{k}": str(v).lower() if isinstance(v, bool) else v
                                for k, v in conditions.items()})
        grpc_ = self.api.ListSites(
            pid=self.pid, limit=limit, page_size=1000, with_callstacks=True, filter=self.pb.Filter(**filter_),
            order=getattr(self.pb, "MEASURE_" + order.replace("-", "_").upper()),
            group_by=getattr(self.pb, "GROUP_BY_" + group.upper()))
        return [(ctl["sites"], ctl["total"], ctl["groups"]),
                ([of_message(s) for s in http["sites"]], of_message(http["total"]), http["groups"]),
                ([of_message(s) for s in grpc_.sites], of_message(grpc_.total), grpc_.groups)]

    def assert_same_answers(self, *arguments, **conditions):
        """Sites on which all answers agree, if no second passes between the questions, because ages
        of live blocks change."""
        def same():
            ctl, http, grpc_ = rounded(self.ask_three(*arguments, **conditions))
            self.assertEqual(grpc_, ctl, "command line and gRPC")
            self.assertEqual(grpc_, http, "HTTP and gRPC")
            return (ctl[0],)
        return eventually(same, "all three agree")[0]

    def site_functions(self, sites):
        return {m[1] for s in sites if (m := re.search(r"\.(site_\w+)$", s["function"]))}

    # ------------------------------------------------------------ every condition

    def test_filters(self):
        all_names = {"site_small", "site_live", "site_major", "site_bytes", "site_promoted", "site_unmarshal"}
        for options, conditions, wanted in FILTERS:
            with self.subTest(" ".join(options)):
                sites = self.assert_same_answers(options, **conditions)
                self.assertEqual(all_names if wanted is None else wanted, self.site_functions(sites))

    def test_thread(self):
        everything = self.memprofd.sites(self.pid)
        sites = self.assert_same_answers(("--thread", self.pid, "--thread", 1), threads=[self.pid, 1])
        self.assertEqual(len(everything), len(sites))

    def test_filters_of_a_trace_file(self):
        for options, _, wanted in FILTERS:
            if "--source" in options:
                continue  # Memtrace's format knows the heap instead
            with self.subTest(" ".join(options)):
                sites = answers.answer(memprofctl("sites", self.file, "-o", "json", *options).stdout)["sites"]
                if wanted is not None:
                    self.assertEqual(wanted, self.site_functions(sites))

    def test_hidden_frames_leave_their_blocks_to_the_caller(self):
        sites = self.assert_same_answers(("--hide", "site_"), hide=["site_"])
        caller = [s for s in sites if s["function"].endswith(".round")]
        total = sum(s["allocated_bytes"] for s in self.memprofd.sites(self.pid) if ".site_" in s["function"])
        self.assertAlmostEqual(total, sum(s["allocated_bytes"] for s in caller), delta=1)
        self.assertFalse([f for s in sites for f in s["callstack"] if "site_" in f["function"]])

    def test_tables_name_sites_by_the_application(self):
        """Printf prints the answers; its blocks are few, so that it is sampled only by chance."""
        everything = {s["function"] for s in self.memprofd.sites(self.pid)}
        application = {s["function"] for s in self.memprofd.ctl_json("sites", "--pid", self.pid, "--frames", "application")["sites"]}
        library = [f for f in everything if f.startswith(("Stdlib", "Camlinternal"))]
        self.assertFalse([f for f in application if f.startswith(("Stdlib", "Camlinternal"))], application)
        table = self.memprofd.ctl("sites", "--pid", self.pid, "-n", "0").stdout
        self.assertNotRegex(table, "Stdlib|Camlinternal")
        self.assertIn("Known_alloc.site_live", table)
        everywhere = self.memprofd.ctl("sites", "--pid", self.pid, "-n", "0", "--frames", "all").stdout
        for function in library:
            self.assertIn(function, everywhere)

    # ------------------------------------------------------------ groups, orders, limits

    def test_groups(self):
        totals = set()
        for group in GROUPS:
            with self.subTest(group):
                sites = self.assert_same_answers((), group)
                totals.add(round(sum(s["allocated_bytes"] for s in sites)))
                self.assertEqual(len(sites), len({name_of(site, group) for site in sites}), "each once")
                text = self.memprofd.ctl("sites", "--pid", self.pid, "-g", group, "-n", 0, "--frames", "all").stdout
                self.assertEqual(len(sites), len(text.splitlines()) - 1, text)
        self.assertEqual(1, len(totals), "every grouping has all blocks")
        keys = {"module": "Known_alloc", "library": "known_alloc", "thread": float(self.pid), "domain": 0.0,
                "file": "tests/targets/known_alloc.ml"}
        for group, value in keys.items():
            first = self.assert_same_answers((), group, "allocated", 1)[0]
            self.assertEqual(value, first[group], group)

    def test_orders_and_limits(self):
        def median(site):
            of = site["lifetime_seconds"]
            return of["watched"] if of["p50"] is None else of["p50"]

        keys = {"lifetime": median, "samples": lambda s: s["samples"],
                "allocated-objects": lambda s: s["allocated_objects"], "live-objects": lambda s: s["live_objects"]}
        for order in ORDERS:
            with self.subTest(order):
                sites = self.assert_same_answers((), "site", order, 4)
                self.assertEqual(4, len(sites))
                values = list(map(keys.get(order, lambda s: s[order.replace("-", "_") + "_bytes"]), sites))
                self.assertEqual(sorted(values, reverse=True), values)
                self.assertGreater(values[0], 0)

    # ------------------------------------------------------------ the other questions

    def assert_same_json(self, command, path, **parameters):
        """The command prints HTTP's answer. Both have their own "now", within the same second."""
        def same():
            done = self.memprofd.ctl(*command, "-o", "json")
            both = [json.loads(done.stdout), self.api.json(path, **parameters)]
            self.assertEqual("v1", both[0].pop("api_version"))
            for answer in both:
                for key in ("range", "base_range", "other_range", "time_unix_ns", "target"):
                    answer.pop(key, None)
            self.assertEqual(rounded(both[0]), rounded(both[1]))
            return both[0]
        return eventually(same, "both agree")

    def test_sites_are_those_of_http(self):
        for command, path in (("sites", "sites"), ("report", "sites")):
            with self.subTest(command):
                limit = {"limit": 20} if command == "report" else {}
                answer = self.assert_same_json(
                    (command, "--pid", self.pid, "-s", "allocated", "--fate", "dead"), path, pid=self.pid,
                    order="allocated", fate="dead", page_size=1000, with_callstacks="true", **limit)
                self.assertIn("bytes_stderr", answer["sites"][0]["allocated"])

    def test_callers(self):
        answer = self.assert_same_json(
            ("callers", r"\.round$", "--pid", self.pid, "-s", "allocated", "--forbid", "major"), "callers",
            function=r"\.round$", pid=self.pid, order="allocated", forbid="major")
        grpc_ = self.api.ListCallers(selection=self.pb.Selection(pid=self.pid, filter=self.pb.Filter(forbid=["major"])),
                                     function=r"\.round$", order=self.pb.MEASURE_ALLOCATED)
        self.assertEqual(["Known_alloc.serve"], [s.function for s in grpc_.callers])
        self.assertEqual({"site_small", "site_live", "site_bytes", "site_promoted", "site_unmarshal"},
                         self.site_functions(answer["callees"]))
        self.assertEqual(answer["total"]["allocated"]["bytes"], grpc_.total.allocated.bytes)
        self.assertAlmostEqual(answer["total"]["allocated"]["bytes"], answer["self"]["allocated"]["bytes"]
                               + sum(s["allocated"]["bytes"] for s in answer["callees"]), delta=1)
        text = self.memprofd.ctl("callers", "site_live$", "--pid", self.pid).stdout
        self.assertRegex(text, r"(?m)100 %\s+caller\s+Known_alloc\.round\b")

    def test_diff(self):
        answer = self.assert_same_json(
            ("diff", self.pid, f"{self.pid}", "-m", "site_", "-s", "allocated"), "diff",
            **{"base.pid": self.pid, "other.pid": self.pid, "base.filter.pattern": "site_",
               "other.filter.pattern": "site_", "order": "allocated",
               "page_size": 1000, "with_callstacks": "true"})
        self.assertEqual(6, answer["groups"])
        self.assertEqual({0}, {diff["change"] for diff in answer["diffs"]})

    def test_pages(self):
        """Pages of two sites join to the whole answer; a token is valid only for its question."""
        question = {"pid": self.pid, "group_by": "function", "order": "allocated"}
        whole = self.api.json("sites", **question, page_size=1000)
        self.assertEqual("", whole["next_page_token"])
        self.assertEqual(len(whole["sites"]), whole["total_rows"])
        self.assertEqual([[]] * len(whole["sites"]), [site["callstack"] for site in whole["sites"]])
        pages = [self.api.json("sites", **question, page_size=2)]
        while token := pages[-1]["next_page_token"]:
            pages.append(self.api.json("sites", **question, page_size=2, page_token=token))
        self.assertEqual({whole["total_rows"]}, {page["total_rows"] for page in pages})
        self.assertEqual({pages[0]["time_unix_ns"]}, {page["time_unix_ns"] for page in pages}, "one instant")
        self.assertEqual({2}, {len(page["sites"]) for page in pages[:-1]})
        self.assertEqual([site["function"] for site in whole["sites"]],
                         [site["function"] for page in pages for site in page["sites"]])
        for changes, status in (({"order": "live"}, 400), ({"page_token": "nonsense"}, 400), ({"page_size": 1001}, 400),
                                ({"page_token": "1111111111111111-2"}, 410)):
            got, text = self.api.get("/api/v1/sites", **{**question, "page_token": pages[0]["next_page_token"], **changes})
            self.assertEqual(status, got, text)
            self.assert_one_line(text, "page")
        selections = {"base": self.pb.Selection(pid=self.pid), "other": self.pb.Selection(pid=self.pid)}
        first = self.api.DiffSites(**selections, page_size=2)
        second = self.api.DiffSites(**selections, page_size=2, page_token=first.next_page_token)
        self.assertEqual(2, len(second.diffs))
        self.assertNotEqual(first.diffs[0].other.function, second.diffs[0].other.function)

    def test_leaks(self):
        end = self.stored_end()
        span = f"@1..@{end // 10**9}.{end % 10**9:09d}"
        answer = self.assert_same_json(("report", "--leaks", "--pid", self.pid, "-n", 3, "--range", span), "leaks",
                                       pid=self.pid, limit=3, begin_unix_ns=10**9, end_unix_ns=end)
        self.assertEqual("Known_alloc.site_live", answer["leaks"][0]["site"]["function"])
        by_function = self.memprofd.ctl("report", "--leaks", "--pid", self.pid, "-g", "function", "-n", 1).stdout
        self.assertRegex(by_function, r"1\. \S+ \w+( ± [\d.]+)?  Known_alloc\.site_live\b")
        why = f"memprofctl why --pid {self.pid} 'Known_alloc\\.site_live' --grpc.socket {self.memprofd.socket}\n"
        self.assertTrue(by_function.endswith(why), by_function)

    def test_profiles(self):
        for kind in ("collapsed", "speedscope", "html"):
            with self.subTest(kind):
                options = ("-m", "site_live|site_small", "-s", "allocated")
                conditions = {"pattern": "site_live|site_small"}
                ctl = self.memprofd.ctl("report", "--pid", self.pid, "-o", kind, *options).stdout
                status, http = self.api.get("/api/v1/profile", pids=self.pid, format=kind, measure="allocated",
                                            **conditions)
                self.assertEqual(200, status)
                grpc_ = self.api.GetProfile(pids=[self.pid], filter=self.pb.Filter(**conditions),
                                            format=getattr(self.pb, "PROFILE_FORMAT_" + kind.upper()),
                                            measure=self.pb.MEASURE_ALLOCATED).data.decode()
                # The end of the covered time advances.
                without_time = [re.sub(r'"end_unix_ms":\d+', "", text) for text in (ctl, http, grpc_)]
                self.assertEqual(without_time[2], without_time[0])
                self.assertEqual(without_time[2], without_time[1])
                self.assertIn("site_live", ctl)
                self.assertNotIn("site_major", ctl)

    def test_top_takes_the_filters(self):
        text = self.memprofd.ctl("top", "--pid", self.pid, "--once", "--window", "all", "--require", "site_major",
                                 "--heap", "major").stdout
        self.assertIn("site_major", text)
        self.assertNotIn("site_live", text)

    # ------------------------------------------------------------ where answers go

    def test_no_escape_codes_in_pipes(self):
        for command in (("sites",), ("report",), ("report", "--leaks"), ("history",), ("callers", "round"),
                        ("diff", self.pid, self.pid), ("targets",), ("top", "--once"), ("doctor",)):
            with self.subTest(command[0]):
                target = () if command[0] in ("targets", "diff") else ("--pid", self.pid)
                done = self.memprofd.ctl(*command, *target, check=command[0] != "doctor")
                self.assertTrue(done.stdout)
                self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_out_writes_what_would_be_printed(self):
        second = self.memprofd.targets()[self.pid]["attached_unix_ns"] // 10**9 + 1
        eventually(lambda: time.time() > second + 1, "counts end later than the range")
        past = f"@{second}"
        for number, command in enumerate((
                ("sites", "--pid", self.pid, "-m", "site_"), ("report", "--pid", self.pid, "-o", "collapsed"),
                ("report", "--pid", self.pid, "--leaks", "-o", "json", "--range", "..@1"),
                ("diff", f"{self.pid}@..{past}", f"{self.pid}@..{past}", "-o", "json"),
                ("history", "--pid", self.pid, "-o", "json", "--range", "..@1"),
                ("callers", "round", "--pid", self.pid, "-o", "json", "--range", f"..{past}"),
                ("report", self.file, "-o", "json"))):
            with self.subTest(command=command):
                path = self.folder / f"{number}.out"
                self.assertEqual("", self.memprofd.ctl(*command, "--out", path).stdout)
                self.assertTrue(path.read_text())
                if command[0] != "history":  # its last point is now
                    self.assertEqual(self.memprofd.ctl(*command).stdout, path.read_text())
        done = self.memprofd.ctl("sites", "--out", self.folder / "none" / "x", check=False)
        self.assertEqual(harness.USAGE, done.returncode)
        self.assert_one_line(done.stderr, "cannot write", "none/x", "No such file")

    def on_a_terminal(self, *arguments, **environment):
        """(exit code, text) of a command whose standard output is a terminal."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([str(a) for a in (harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket,
                                                *arguments)],
                              stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment}) as process:
            os.close(theirs)
            text = b""
            while select.select([ours], [], [], harness.TIMEOUT)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                text += part
            code = process.wait(harness.TIMEOUT)
        os.close(ours)
        return code, text.decode(errors="replace").replace("\r\n", "\n")

    def test_a_terminal_is_no_place_for_profiles(self):
        code, text = self.on_a_terminal("report", "--pid", self.pid, "-o", "pprof")
        self.assertEqual(harness.USAGE, code)
        self.assert_one_line(text, "terminal", f"--out known_alloc-{self.pid}.pb.gz")
        path = self.folder / "heap.pb.gz"
        code, text = self.on_a_terminal("report", "--pid", self.pid, "-o", "pprof", "--out", path)
        self.assertEqual((0, ""), (code, text))
        self.assertEqual(b"\x1f\x8b", path.read_bytes()[:2])
        code, text = self.on_a_terminal("report", "--pid", self.pid, "-o", "collapsed", "-m", "site_live")
        self.assertEqual(0, code)
        self.assertIn("site_live", text)
        code, text = self.on_a_terminal("sites", "--pid", self.pid)
        self.assertIn("\x1b[1m", text, "a terminal has bold letters")

    def test_a_terminal_without_colours(self):
        """On a terminal without colours, or if the user disables them, no command prints escape
        codes."""
        for environment in ({"TERM": "dumb"}, {"TERM": ""}, {"NO_COLOR": "1"}):
            for command in (("sites",), ("report",), ("report", "--leaks"), ("history",), ("callers", "round"),
                            ("diff", self.pid, self.pid), ("targets",), ("doctor",), ("info",), ("rss",),
                            ("top", "--once", "--plain"), ("values",), ("trace", "list")):
                with self.subTest(command=command, **environment):
                    target = () if command[0] in ("targets", "diff", "info", "trace") else ("--pid", self.pid)
                    _, text = self.on_a_terminal(*command, *target, **environment)
                    self.assertNotEqual("", text)
                    self.assertNotIn("\x1b", text)

    # ------------------------------------------------------------ what is refused

    def test_refused_by_all(self):
        future = 4_000_000_000_000_000_000
        for options, parameters, status, words in (
                (("-m", "("), {"pattern": "("}, 400, ("pattern", '"("')),
                (("--require", "[z-a]"), {"require": "[z-a]"}, 400, ("[z-a]",)),
                (("--hide", "a{2,1}"), {"hide": "a{2,1}"}, 400, ("a{2,1}",)),
                (("--range", f"@{future // 10**9}.."), {"begin_unix_ns": future}, 400, ("bad range", "begins")),
                (("--min-size", "2KiB", "--max-size", "1KiB"), {"min_size_bytes": 2048, "max_size_bytes": 1024}, 400,
                 ("size",)),
                (("--min-lifetime", "2s", "--max-lifetime", "1s"),
                 {"min_lifetime_seconds": 2, "max_lifetime_seconds": 1}, 400, ("lifetime",)),
                (("--pid", "1"), {"pid": 1}, 404, ("pid 1", "not a target"))):
            with self.subTest(options):
                target = () if "--pid" in options else ("--pid", self.pid)
                done = self.memprofd.ctl("sites", *target, *options, check=False)
                self.assertEqual(harness.USAGE if status == 400 else harness.NO_PROCESS, done.returncode, done.stdout)
                self.assertEqual("", done.stdout)
                self.assert_one_line(done.stderr, "memprofctl: ", *words)
                got, text = self.api.get("/api/v1/sites", **{"pid": self.pid, **parameters})
                self.assertEqual(status, got, text)
                self.assert_one_line(text, *words)
                told = done.stderr.replace(f" --grpc.socket {self.memprofd.socket}", "")  # completed by memprofctl
                self.assertEqual(told, "memprofctl: " + text, "one message for all")

    def test_refused_by_the_command_line(self):
        for command, words in (
                (("sites", "--range", "5m"), ("bad range", "FROM..TO")),
                (("sites", "--range", "x..y"), ("bad time", '"x"', "UTC")),
                (("sites", "--last", "soon"), ("soon",)),
                (("sites", "--min-size", "big"), ("big",)),
                (("sites", "--min-lifetime", "1 parsec"), ("parsec",)),
                (("history", "-s", "lifetime"), ("lifetime",)),
                (("report", "-o", "collapsed", "-s", "lifetime"), ("lifetime",)),
                (("callers", "("), ('"("',)),
                (("sites", "--range", "..-1s", "--pid", "0"), ("bad pid 0",))):
            with self.subTest(command):
                target = () if "--pid" in command else ("--pid", self.pid)
                done = self.memprofd.ctl(*command, *target, check=False)
                self.assertIn(done.returncode, (harness.USAGE, harness.NO_PROCESS), done.stdout)
                self.assert_one_line(done.stderr, "memprofctl: ", *words)
        for command, words in ((("sites", "--range", "-2s..", "--last", "1s"), ("--range", "--last")),
                               (("sites", "--peak", "--last", "1s"), ("--peak", "--last")),
                               (("sites", "-g", "colour"), ("--group-by", "colour", "callstack,domain,file")),
                               (("sites", "-n", "-3"), ("--limit", "-3", "0 to 1000000000")),
                               (("report", "-o", "jpeg"), ("--output", "jpeg", "collapsed"))):
            with self.subTest(command):
                done = self.memprofd.ctl(*command, check=False)
                self.assertEqual(harness.USAGE, done.returncode)
                self.assert_one_line(done.stderr, "memprofctl: ", "--help", *words)
                self.assertLess(len(done.stderr), 300)

    def test_refused_files(self):
        for path, code in ((self.folder / "none.ctf", harness.NO_PROCESS), (__file__, None), (self.folder, None)):
            with self.subTest(path):
                done = memprofctl("report", path, check=False)
                self.assertNotEqual(0, done.returncode)
                self.assert_one_line(done.stderr, "memprofctl: ", pathlib.Path(path).name)
                if code is not None:
                    self.assertEqual(code, done.returncode)

    def test_refused_by_http(self):
        for path, parameters, status, words in (
                ("sites", {"pid": self.pid, "colour": 1}, 400, ("unknown parameter", "colour")),
                ("sites", {"pid": self.pid, "filter.colour": 1}, 400, ("unknown parameter", "colour")),
                ("sites", {"pid": self.pid, "filter": 1}, 400, ("filter",)),
                ("sites", {"pid": "x"}, 400, ("pid", '"x"')),
                ("sites", {"pid": self.pid, "limit": -1}, 400, ("limit",)),
                ("sites", {"pid": self.pid, "order": "colour"}, 400, ("order", "colour")),
                ("sites", {"pid": self.pid, "last_seconds": "nan"}, 400, ("range",)),
                ("sites", {"pid": self.pid, "last_seconds": 1, "begin_unix_ns": 1}, 400, ("range",)),
                ("sites", {}, 404, ("not a target",)),
                ("diff", {"pid": self.pid}, 400, ("base.pid", "other.pid")),
                ("diff", {"base.pid": self.pid, "other.pid": 1}, 404, ("pid 1",)),
                ("callers", {"pid": self.pid, "function": "["}, 400, ("[",)),
                ("history", {"pid": 1}, 404, ("pid 1",)),
                ("leaks", {"pid": 1}, 404, ("pid 1",)),
                ("profile", {"pids": 1}, 404, ("pid 1",)),
                ("profile", {"pids": self.pid, "format": "jpeg"}, 400, ("format", "jpeg")),
                ("profile", {"pids": self.pid, "format": "collapsed", "measure": "lifetime"}, 400, ("lifetime",))):
            with self.subTest(path=path, **parameters):
                got, text = self.api.get(f"/api/v1/{path}", **parameters)
                self.assertEqual(status, got, text)
                self.assert_one_line(text, *words)
        self.assertEqual(404, self.api.get("/api/v1/nonsense")[0])

    def test_refused_by_grpc(self):
        for request, code in (({"pid": 1}, grpc.StatusCode.NOT_FOUND),
                              ({"pid": self.pid, "order": 99}, grpc.StatusCode.INVALID_ARGUMENT),
                              ({"pid": self.pid, "group_by": 99}, grpc.StatusCode.INVALID_ARGUMENT),
                              ({"pid": self.pid, "pattern": "("}, grpc.StatusCode.INVALID_ARGUMENT),
                              ({"pid": self.pid, "filter": self.pb.Filter(heap=9)}, grpc.StatusCode.INVALID_ARGUMENT)):
            with self.subTest(**request), self.assertRaises(grpc.RpcError) as raised:
                self.api.ListSites(**request)
            self.assertEqual(code, raised.exception.code())
            self.assert_one_line(raised.exception.details())


class Leaks(QueryTest):
    """A server that keeps every session, beside a cache that is soon full."""

    def test_the_leak_is_found_live_and_in_a_trace(self):
        self.profile("demo_server", "--self-load", "4")
        self.memprofd.wait_state(self.pid, "sampling")
        path = self.folder / "server.ctf"
        recording = self.process(harness.Process(
            [harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket, "record", "--pid", self.pid,
             "--out", path], stdin=subprocess.DEVNULL))

        def leaks(*arguments):
            """Functions of the suspects, the most suspect first, and the whole answer."""
            answer = json.loads(memprofctl("--grpc.socket", self.memprofd.socket, "report", *arguments, "--leaks",
                                           "-o", "json").stdout)
            return [leak["site"]["function"] for leak in answer["leaks"]], answer

        def sessions_lead(*arguments, ahead=1.0):
            """The first suspect, if it is the leak and has grown `ahead` times as much as the
            next."""
            functions, answer = leaks(*arguments)
            self.assertTrue(functions)
            self.assertIn("Sessions", functions[0])
            first, *others = answer["leaks"]
            self.assertGreater(first["steadiness"], 0.7)
            self.assertTrue(all(first["growth_bytes"] > ahead * other["growth_bytes"] for other in others), answer)
            return first
        # Several major collections must end and several steps rise; by then the cache is full.
        first = eventually(lambda: sessions_lead("--pid", self.pid, "--last", "20s", ahead=2.0), "Sessions leads",
                           timeout=120)
        self.assertGreater(first["confidence"], 0.99)
        self.assertGreater(first["growth_bytes_per_second"], 0)
        self.assertGreater(first["median_age_seconds"], 0)
        self.assertGreater(first["growth_bytes"], 2 * first["growth_bytes_stderr"])
        # The report omits the first half since the attach, while caches fill.
        eventually(lambda: "Sessions" in self.memprofd.ctl("report", "--pid", self.pid, "--leaks").stdout,
                   "the text names the leak, too", timeout=120)
        recording.stop(signal.SIGINT)
        # The file lacks earlier blocks: there the cache fills from empty, and may grow more.
        functions, answer = leaks(path)
        in_file = [leak for leak in answer["leaks"] if "Sessions" in leak["site"]["function"]]
        self.assertTrue(in_file, functions)
        self.assertGreater(in_file[0]["confidence"], 0.99)
        self.assertGreater(in_file[0]["steadiness"], 0.7)
        self.assertIn("Sessions", memprofctl("report", path, "--leaks").stdout)
        # A rate change forgets all blocks, so that growth before and after is summed.
        rate = self.memprofd.targets()[self.pid]["sampling_rate"]
        self.memprofd.set_rate(self.pid, rate / 2)
        changed = time.time_ns()
        eventually(lambda: "within each sampling session" in self.memprofd.ctl(
            "report", "--pid", self.pid, "--leaks").stdout, "the session is compared by itself", timeout=120)
        first = eventually(lambda: sessions_lead("--pid", self.pid, "--last",
                                                 f"{(time.time_ns() - changed) / 1e9 + 6:.0f}s"),
                           "Sessions leads again", timeout=120)
        self.assertGreater(first["confidence"], 0.99)


if __name__ == "__main__":
    unittest.main()
