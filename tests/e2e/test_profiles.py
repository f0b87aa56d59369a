# SPDX-License-Identifier: Apache-2.0
"""Profiles in formats of other tools, read by those tools: Go's pprof, speedscope's schema. The
profiled program allocates known amounts."""

import collections
import gzip
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import grpc
import jsonschema

import harness
import speedscope_schema
from harness import E2ETest, eventually
from messages import message_modules

RATE = 1e-2
TYPES = ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"]
ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE = range(4)
# Words with header of each site's blocks; tests/targets/known_alloc.ml.
BLOCK_WORDS = {"site_small": 4, "site_live": 5, "site_major": 1001, "site_bytes": 14, "site_promoted": 4,
               "site_unmarshal": 3}


def http_bytes(url, timeout=harness.TIMEOUT):
    """(status, body) of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


Sample = collections.namedtuple("Sample", "values frames labels")  # frames: leaf first
Frame = collections.namedtuple("Frame", "function file line")


class Profile:
    """A profile.proto, parsed by its definition in proto/pprof."""

    def __init__(self, module, data):
        self.pb = module.Profile.FromString(gzip.decompress(data))
        functions = {f.id: f for f in self.pb.function}
        self.lines = {location.id: [
            Frame(self.text(functions[line.function_id].name), self.text(functions[line.function_id].filename),
                  line.line) for line in location.line] for location in self.pb.location}
        self.types = [f"{self.text(t.type)}/{self.text(t.unit)}" for t in self.pb.sample_type]
        self.comments = [self.text(c) for c in self.pb.comment]
        self.samples = [
            Sample(list(s.value), [line for i in s.location_id for line in self.lines[i]],
                   {self.text(label.key): self.text(label.str) if label.str else label.num for label in s.label})
            for s in self.pb.sample]

    def text(self, index):
        return self.pb.string_table[index]

    def of(self, function):
        """Samples allocated by a function of this name in any module."""
        return [s for s in self.samples if any(re.search(rf"(^|[._]){function}$", frame.function)
                                               for frame in s.frames)]

    def total(self, value, samples=None):
        return sum(s.values[value] for s in (self.samples if samples is None else samples))


# ---------------------------------------------------------------- Go's tool


def go_pprof(folder, *arguments):
    """Output of `go tool pprof ...`, which fetches a URL itself."""
    environment = dict(os.environ, PPROF_TMPDIR=str(folder))
    done = subprocess.run(["go", "tool", "pprof", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False, env=environment, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise AssertionError(f"go tool pprof {arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout


Row = collections.namedtuple("Row", "flat cum")


def top_rows(text):
    """{function: Row in bytes} of -top -unit=B."""
    rows = {}
    for line in text.splitlines():
        match = re.match(r"\s*(-?[\d.]+)B?\s+\S+%\s+\S+%\s+(-?[\d.]+)B?\s+\S+%\s+(.*?)( \(inline\))?$", line)
        if match:
            rows[match.group(3)] = Row(float(match.group(1)), float(match.group(2)))
    return rows


def row_of(rows, function):
    found = [row for name, row in rows.items() if re.search(rf"(^|[._]){function}$", name)]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} rows of {function} in {sorted(rows)}")
    return found[0]


class WebView(harness.Process):
    """pprof's web server; `go` starts it as a child, so both are ended."""

    def __init__(self, folder, file):
        self.url = f"http://127.0.0.1:{harness.free_port()}/ui/"
        address = self.url.split("/")[2]
        super().__init__(["go", "tool", "pprof", f"-http={address}", "-no_browser", file],
                         env=dict(os.environ, PPROF_TMPDIR=str(folder)), stdin=subprocess.DEVNULL)

    def kill(self):
        if self.running():
            os.killpg(self.pid, signal.SIGKILL)  # its own session: see harness.Process
        super().kill()

    def page(self, name):
        status, body = http_bytes(self.url + name)
        if status != 200:
            raise AssertionError(f"{self.url}{name} answered {status}: {body[:500]}")
        return body.decode()


# ---------------------------------------------------------------- tests


class Profiles(E2ETest):
    """One program that allocates only on command, and one daemon."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.profile_pb2, cls.api = message_modules(cls.shared.name, "pprof/profile.proto",
                                                   "memprof/v1/profiler.proto")
        cls.program = harness.Target("known_alloc")
        cls.addClassCleanup(cls.program.kill)
        cls.pid = cls.program.pid
        cls.memprofd = harness.Daemon(cls.shared.name, "--pid", cls.pid, rate=RATE)
        cls.addClassCleanup(cls.memprofd.kill)

        def sampling():
            cls.program.command("minor")
            return cls.memprofd.state(cls.pid) == "sampling"
        eventually(sampling, "the program is sampled")
        cls.channel = grpc.insecure_channel(f"unix:{cls.memprofd.socket}")
        cls.addClassCleanup(cls.channel.close)
        cls.allocate("go 2")

    @classmethod
    def allocate(cls, command):
        """Words by site since the start; returns after the daemon has seen the last event."""
        truth = cls.program.command(command, timeout=120)["sites"]
        cls.program.command("full", timeout=60)
        cls.memprofd.settled_sites(cls.pid)
        return truth

    def truth(self):
        return self.program.command("stat")["sites"]

    def url(self, kind="heap", **parameters):
        query = "&".join(f"{k}={v}" for k, v in parameters.items())
        return f"{self.memprofd.url}/debug/pprof/{kind}" + (f"?{query}" if query else "")

    def get(self, kind="heap", timeout=harness.TIMEOUT, **parameters):
        status, body = http_bytes(self.url(kind, **parameters), timeout)
        self.assertEqual(200, status, body[:500])
        return Profile(self.profile_pb2, body)

    def save(self, name, kind="heap"):
        status, body = http_bytes(self.url(kind, pid=self.pid))
        self.assertEqual(200, status, body[:500])
        path = self.folder / name
        path.write_bytes(body)
        return path

    def get_profile(self, **request):
        call = self.channel.unary_unary(
            "/memprof.v1.Profiler/GetProfile",
            request_serializer=self.api.GetProfileRequest.SerializeToString,
            response_deserializer=self.api.GetProfileResponse.FromString)
        request = {key: getattr(self.api, value) if isinstance(value, str) else value
                   for key, value in request.items()}
        return call(self.api.GetProfileRequest(pids=[self.pid], **request), timeout=harness.TIMEOUT).data

    # ------------------------------------------------------------ the file

    def test_types_period_and_times(self):
        for kind, first in (("heap", "inuse_space"), ("allocs", "alloc_space")):
            profile = self.get(kind, pid=self.pid)
            self.assertEqual(TYPES, profile.types)
            self.assertEqual(first, profile.text(profile.pb.default_sample_type))
            self.assertEqual("space", profile.text(profile.pb.period_type.type))
            self.assertEqual(round(8 / RATE), profile.pb.period)
            self.assertEqual(0, profile.pb.duration_nanos, "as Go's: of a moment")
            self.assertLess(abs(profile.pb.time_nanos - time.time_ns()), 60e9)
            dropped = self.memprofd.targets()[self.pid]["dropped_events"]
            self.assertRegex("\n".join(profile.comments), rf"\bdropped_events={dropped}\b")
            self.assertTrue(profile.text(profile.pb.mapping[0].filename).endswith("/known_alloc"))

    def test_values_are_true(self):
        profile, truth = self.get(pid=self.pid), self.truth()
        for site, words in BLOCK_WORDS.items():
            with self.subTest(site=site):
                samples = profile.of(site)
                allocated = truth[site]["allocated_words"]
                self.assert_estimate("alloc_space", profile.total(ALLOC_SPACE, samples), allocated, RATE)
                self.assert_estimate("inuse_space", profile.total(INUSE_SPACE, samples),
                                     truth[site]["live_words"], RATE)
                blocks = allocated / words
                counted = profile.total(ALLOC_OBJECTS, samples)
                if words > 64:  # sizes are exact to 3.2 %
                    self.assertAlmostEqual(1, counted / blocks, delta=0.05)
                else:
                    self.assert_estimate("alloc_objects", counted * words * 8, allocated, RATE)

    def test_labels(self):
        profile = self.get(pid=self.pid)
        for sample in profile.samples:
            self.assertEqual(self.pid, sample.labels["pid"])
            self.assertEqual("known_alloc", sample.labels["comm"])
            self.assertEqual(self.pid, sample.labels.get("thread", self.pid), "it has one thread")
        heaps = {site: {s.labels["heap"] for s in profile.of(site)} for site in BLOCK_WORDS}
        self.assertEqual({"major"}, heaps["site_major"])
        self.assertEqual({"minor"}, heaps["site_live"])
        sources = {s.labels["source"] for s in profile.of("site_unmarshal")}
        self.assertIn("marshal", sources)

    def test_stacks_have_files_and_lines(self):
        source = (harness.ROOT / "tests/targets/known_alloc.ml").read_text().splitlines()
        samples = self.get(pid=self.pid).of("site_live")
        self.assertTrue(samples)
        for sample in samples:
            leaf, names = sample.frames[0], [frame.function for frame in sample.frames]
            self.assertTrue(leaf.file.endswith("known_alloc.ml"), leaf)
            self.assertIn("live.(i) <-", source[leaf.line - 1])
            self.assertTrue(any(name.endswith("round") for name in names[1:]), names)

    def test_without_pid_all_targets(self):
        other = self.target("known_alloc")
        self.memprofd.attach(other.pid)
        self.sample_on_command(self.memprofd, other)
        other.command("go 1", timeout=120)
        self.memprofd.settled_sites(other.pid)
        profile = self.get("allocs")
        self.assertEqual({self.pid, other.pid}, {s.labels["pid"] for s in profile.samples})
        text = go_pprof(self.folder, "-top", "-unit=B", f"-tagfocus=pid={other.pid}", self.url("allocs"))
        exact = other.command("stat")["sites"]["site_small"]["allocated_words"]
        self.assert_estimate("site_small", row_of(top_rows(text), "site_small").flat, exact, RATE)
        self.memprofd.detach(other.pid)

    def test_bad_requests_are_refused_with_a_reason(self):
        for parameters, status in (({"pid": 1}, 404), ({"pid": "x"}, 400), ({"seconds": "-1"}, 400),
                                   ({"seconds": "x"}, 400)):
            got, body = http_bytes(self.url(**parameters))
            self.assertEqual(status, got, (parameters, body))
            self.assert_one_line(body.decode())

    def test_delta_holds_what_happens_meanwhile(self):
        seconds = 3
        before = self.truth()["site_small"]["allocated_words"]
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(http_bytes(
            self.url("allocs", pid=self.pid, seconds=seconds), timeout=harness.TIMEOUT + seconds)))
        waiting.start()
        while waiting.is_alive():
            self.program.command("go 1", timeout=120)
        waiting.join()
        after = self.allocate("stat")["site_small"]["allocated_words"]
        (status, body), = answers
        self.assertEqual(200, status, body[:500])
        delta = Profile(self.profile_pb2, body)
        self.assertAlmostEqual(seconds, delta.pb.duration_nanos / 1e9, delta=2)
        small = delta.total(ALLOC_SPACE, delta.of("site_small"))
        self.assertGreater(small, 0)
        self.assertLess(small, (after - before) * 8 * 1.1)

    # ------------------------------------------------------------ Go's pprof

    def test_top_fetched_by_pprof(self):
        text = go_pprof(self.folder, "-top", "-unit=B", self.url(pid=self.pid))
        self.assertIn("File: known_alloc", text)
        self.assertIn("Type: inuse_space", text)
        truth = self.truth()
        self.assert_estimate("site_live", row_of(top_rows(text), "site_live").flat, truth["site_live"]["live_words"],
                             RATE)
        rows = top_rows(go_pprof(self.folder, "-top", "-unit=B", self.url("allocs", pid=self.pid)))
        for site in ("site_small", "site_live", "site_major", "site_promoted"):
            self.assert_estimate(site, row_of(rows, site).cum, truth[site]["allocated_words"], RATE)

    def test_peek(self):
        text = go_pprof(self.folder, "-peek=site_live$", "-unit=B", self.save("heap.pb.gz"))
        self.assertRegex(text, r"(?m)^\s*\d+B\s+100% \|\s+\S*round\b")
        self.assertRegex(text, r"(?m)%\s+\|\s+\S*site_live$")

    def test_diff_base(self):
        base, first = self.save("base.pb.gz", "allocs"), self.truth()
        second = self.allocate("go 1")
        now = self.save("now.pb.gz", "allocs")
        rows = top_rows(go_pprof(self.folder, "-top", "-unit=B", f"-diff_base={base}", now))
        for site in ("site_small", "site_live", "site_promoted"):
            words = second[site]["allocated_words"] - first[site]["allocated_words"]
            self.assertGreater(words, 0)
            self.assert_estimate(site, row_of(rows, site).cum, words, RATE)
        self.allocate("drop")
        dropped = self.save("dropped.pb.gz")
        rows = top_rows(go_pprof(self.folder, "-top", "-unit=B", "-sample_index=inuse_space",
                                 f"-diff_base={now}", dropped))
        self.assert_estimate("dropped", -row_of(rows, "site_live").flat, second["site_live"]["live_words"], RATE)
        self.allocate("go 1")

    def test_web_view(self):
        view = self.process(WebView(self.folder, self.save("heap.pb.gz")))

        def answers():
            try:
                return view.page("top")
            except OSError:
                return None
        self.assertIn("site_live", eventually(answers, "pprof's web view answers"))
        for page in ("", "flamegraph", "peek?f=site_live"):
            with self.subTest(page=page):
                self.assertIn("site_live", view.page(page))

    # ------------------------------------------------------------ other formats

    def test_formats_agree_with_each_other_and_the_metrics(self):
        """The program rests, so that all formats show the same counts."""
        pprof = Profile(self.profile_pb2, self.get_profile(format="PROFILE_FORMAT_PPROF"))
        metrics = self.memprofd.metrics()
        allocated = metrics.total("memprofd_allocated_bytes_total", pid=self.pid)
        live = metrics.total("memprofd_live_bytes", pid=self.pid)
        self.assertAlmostEqual(allocated, pprof.total(ALLOC_SPACE), delta=1)
        self.assertAlmostEqual(live, pprof.total(INUSE_SPACE), delta=1)

        for order, exact in (("MEASURE_ALLOCATED", allocated), ("MEASURE_LIVE", live)):
            lines = self.get_profile(format="PROFILE_FORMAT_COLLAPSED", measure=order).decode().splitlines()
            self.assertEqual(sorted(lines), lines)
            self.assertAlmostEqual(exact, sum(int(line.rsplit(" ", 1)[1]) for line in lines), delta=1)
            self.assertTrue(any(re.match(r"\S*;\S*round;\S*site_live \d+$", line) for line in lines), lines)

        speedscope = json.loads(self.get_profile(format="PROFILE_FORMAT_SPEEDSCOPE"))
        ends = {p["name"]: p["endValue"] for p in speedscope["profiles"]}
        self.assertAlmostEqual(allocated, ends["allocated"], delta=1)
        self.assertAlmostEqual(live, ends["live"], delta=1)

        flame = json.loads(self.get_profile(format="PROFILE_FORMAT_FLAME_JSON"))
        for key, exact in (("allocated", allocated), ("live", live)):
            self.assertAlmostEqual(exact, flame["totals"][key][0], delta=1)
            self.assertEqual(flame["totals"][key][0], sum(flame["self"][key]))
            self.assertEqual(flame["totals"][key][2], sum(flame["samples"][key]))

    def test_speedscope_file_fits_its_schema(self):
        file = json.loads(self.get_profile(format="PROFILE_FORMAT_SPEEDSCOPE"))
        jsonschema.validate(file, speedscope_schema.schema())
        frames = file["shared"]["frames"]
        for profile in file["profiles"]:
            self.assertEqual(profile["endValue"], sum(profile["weights"]))
            self.assertTrue(all(frame < len(frames) for sample in profile["samples"] for frame in sample))


class Scrapes(E2ETest):
    """Profiles for scrapers, of a program whose words are all sampled."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.profile_pb2, = message_modules(cls.shared.name, "pprof/profile.proto")
        cls.program = harness.Target("bursts")
        cls.addClassCleanup(cls.program.kill)
        cls.memprofd = harness.Daemon(cls.shared.name, "--pid", cls.program.pid, rate=1)
        cls.addClassCleanup(cls.memprofd.kill)

        def sampling():
            cls.program.command("minor")
            return cls.memprofd.state(cls.program.pid) == "sampling"
        eventually(sampling, "the program is sampled")

    def get(self, kind, **parameters):
        query = "&".join(f"{k}={v}" for k, v in parameters.items())
        status, body = http_bytes(f"{self.memprofd.url}/debug/pprof/{kind}?{query}", harness.TIMEOUT)
        self.assertEqual(200, status, body[:500])
        return Profile(self.profile_pb2, body)

    def bytes_of(self, profile, value):
        return profile.total(value, profile.of("block"))

    def test_cumulative_profiles_are_of_a_moment(self):
        before = time.time_ns()
        profile = self.get("allocs", pid=self.program.pid)
        self.assertEqual(0, profile.pb.duration_nanos)
        self.assertLessEqual(before, profile.pb.time_nanos)
        self.assertLessEqual(profile.pb.time_nanos, time.time_ns())

    def test_each_location_has_a_mapping_with_the_build_id(self):
        self.program.command("burst 3")
        profile = self.get("allocs", comm="bursts")
        self.assertTrue(all(0 < loc.mapping_id <= len(profile.pb.mapping) for loc in profile.pb.location))
        notes = subprocess.run(["readelf", "-n", harness.TARGETS / "bursts"], capture_output=True, text=True,
                               check=True).stdout
        self.assertEqual(re.search(r"Build ID: (\w+)", notes).group(1),
                         profile.text(profile.pb.mapping[0].build_id))
        addresses = {loc.address for loc in profile.pb.location}
        self.assertEqual(len(profile.pb.location), len(addresses))
        self.program.command("keep 1")
        again = {loc.address for loc in self.get("heap", comm="bursts").pb.location}
        self.assertTrue(addresses & again, "addresses stay")

    def test_a_delta_is_of_the_seconds_asked_for(self):
        self.program.command("keep 10")
        for kind, wait in (("allocs", 0.1), ("delta_heap", 0.35), ("heap", 0.6)):
            with self.subTest(kind=kind):
                self.program.command("burst 100")
                time.sleep(wait)  # at another position in a window each time
                self.program.command("burst 50")
                answers, begin = [], time.time_ns()
                waiting = threading.Thread(target=lambda kind=kind, answers=answers: answers.append(
                    self.get(kind, seconds=2)))
                waiting.start()
                time.sleep(1)
                self.program.command("burst 7")
                waiting.join()
                live = self.bytes_of(self.get("heap"), INUSE_SPACE)  # nothing has been collected
                self.program.command("burst 20")
                profile, = answers
                self.assertEqual(7 * 72, self.bytes_of(profile, ALLOC_SPACE))
                self.assertEqual(live if kind == "delta_heap" else 7 * 72, self.bytes_of(profile, INUSE_SPACE))
                self.assertGreater(live, 17 * 72)
                self.assertGreaterEqual(profile.pb.duration_nanos, 2e9 * 0.99)
                self.assertGreaterEqual(profile.pb.time_nanos, begin)
                self.assertLessEqual(profile.pb.time_nanos + profile.pb.duration_nanos, time.time_ns())
        self.program.command("minor")

    def test_a_delta_begins_when_it_is_asked_for(self):
        """A delta excludes blocks allocated just before the request, wherever the request falls in
        a window."""
        for _ in range(20):
            self.program.command("burst 50")
            self.assertEqual(0, self.bytes_of(self.get("allocs", seconds=0.05), ALLOC_SPACE))
        self.program.command("minor")

    def test_go_reads_it(self):
        self.program.command("burst 5")
        for url in ("allocs?comm=bursts", "delta_heap?last_seconds=60"):
            raw = go_pprof(self.folder, "-raw", f"{self.memprofd.url}/debug/pprof/{url}")
            self.assertIn("PeriodType: space bytes", raw)
            self.assertIn("block", raw)


class DeepStacks(E2ETest):
    def test_pprof_reads_deep_recursion(self):
        """Each depth of a recursion 10,000 deep is a callstack of its own."""
        program = self.target("stacks", "0")
        daemon = self.daemon("--pid", program.pid, "--capture", "kernel", "--max-frames", "20000",
                             rate=1e-3)
        daemon.wait_state(program.pid, "sampling")
        eventually(lambda: [s for s in daemon.sites(program.pid) if s["function"].endswith("Recursion.deep")],
                   "samples of the recursion")
        url = f"{daemon.url}/debug/pprof/allocs?pid={program.pid}"
        rows = top_rows(go_pprof(self.folder, "-top", "-unit=B", "-nodecount=1000", url))
        deep, run = row_of(rows, "deep"), row_of(rows, "Recursion.run")
        self.assertGreater(deep.flat, 0)
        self.assertGreaterEqual(run.cum, deep.cum, "no stack has lost its outer frames")


class Files(unittest.TestCase):
    def test_golden_speedscope_file_fits_the_schema(self):
        schema = speedscope_schema.schema()
        file = json.loads((harness.ROOT / "tests/golden/profile.speedscope.json").read_text())
        jsonschema.validate(file, schema)
        self.assertTrue(file["profiles"])
        file["profiles"][0]["unit"] = "bananas"  # proves that the schema can refuse
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(file, schema)


if __name__ == "__main__":
    unittest.main()
