# SPDX-License-Identifier: Apache-2.0
"""Traces of a real target: recorded over gRPC, by memprofctl and by the daemon."""

import collections
import pathlib
import re
import signal
import stat
import subprocess
import threading
import time

import grpc

import answers
import harness
from harness import E2ETest, eventually, memprofctl
from test_outputs import make_messages

SITE_KEYS = ("samples", "allocated_bytes", "promoted_bytes", "live_bytes")
SMALLEST_FILE = 256 << 10


def lines_by_kind(path):
    """Number of events of a trace file by kind, as `memprofctl dump` prints them."""
    done = memprofctl("dump", path)
    kinds = collections.Counter(line.split()[1] for line in done.stdout.splitlines()
                                if line.startswith("+"))
    return kinds, done


def by_site(sites, pattern=r"\.site_\w+$"):
    """Sums over the lines of a function, which two versions of a site do not share."""
    total = collections.defaultdict(collections.Counter)
    for site in sites:
        if re.search(pattern, site["function"]):
            for key in SITE_KEYS:
                total[site["function"]][key] += round(site[key])
    return {function: dict(counts) for function, counts in total.items()}


class Recorded:
    """A Record stream, read in the background into a file."""

    def __init__(self, pb, channel, path, **options):
        self.path = pathlib.Path(path)
        call = channel.unary_stream(
            "/memprof.v1.Trace/Record",
            request_serializer=pb.RecordRequest.SerializeToString,
            response_deserializer=pb.RecordResponse.FromString)
        self.call = call(pb.RecordRequest(options=pb.TraceOptions(**options)), timeout=300)
        self.stats = None
        self.ended = None
        self.finished = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        eventually(lambda: self.stats is not None or self.finished.is_set(), "the recording begins")

    def _read(self):
        try:
            with open(self.path, "wb") as file:
                for message in self.call:
                    file.write(message.data)
                    file.flush()
                    self.stats = message.stats
                    self.ended = message.ended or self.ended
        except grpc.RpcError:
            pass  # code() returns the status
        self.finished.set()

    def code(self):
        self.finished.wait(harness.TIMEOUT)
        return self.call.code()


class Traces(E2ETest):
    RATE = 1e-3

    @classmethod
    def setUpClass(cls):
        make_messages(cls)

    def attached(self, *arguments, rate=RATE):
        """A sampled known_alloc whose events have all been counted."""
        self.known = self.target("known_alloc")
        self.pid = self.known.pid
        self.memprofd = self.daemon("--pid", self.pid, *arguments, rate=rate)
        self.sample_on_command(self.memprofd, self.known)
        self.channel = grpc.insecure_channel(f"unix:{self.memprofd.socket}")
        self.addCleanup(self.channel.close)
        self.settled_counts()

    def call(self, method, request, response, service="Trace"):
        stub = self.channel.unary_unary(f"/memprof.v1.{service}/{method}",
                                        request_serializer=type(request).SerializeToString,
                                        response_deserializer=response.FromString)
        return stub(request, timeout=harness.TIMEOUT)

    def counts(self):
        """The daemon's counts: allocations, promotions, deallocations."""
        target = self.call("ListTargets", self.pb.ListTargetsRequest(),
                           self.pb.ListTargetsResponse, "Profiler").targets[0]
        return (target.alloc_events, target.promote_events, target.dealloc_events)

    def settled_counts(self):
        return harness.settled(self.counts, "the daemon's counts", quiet=0.7)

    def record(self, name="a.ctf", **options):
        return Recorded(self.pb, self.channel, self.folder / name, pid=self.pid, **options)

    def all_recorded(self, stream, before):
        """Waits until the stream has everything since `before`; returns the counts."""
        counts = tuple(b - a for a, b in zip(before, self.settled_counts()))
        eventually(lambda: stream.stats.events + stream.stats.unfollowed_events >= sum(counts),
                   "all events are recorded")
        return counts

    def start(self, **options):
        return self.call("StartTrace", self.pb.StartTraceRequest(
            options=self.pb.TraceOptions(pid=self.pid, **options)), self.pb.StartTraceResponse).trace

    def stop(self, trace):
        return self.call("StopTrace", self.pb.StopTraceRequest(id=trace.id),
                         self.pb.StopTraceResponse).trace

    def work(self, rounds=1):
        self.known.command(f"go {rounds}", timeout=120)
        for command in ("full", "drop", "full", "full"):
            self.known.command(command)

    def file_sites(self, path):
        return answers.answer(memprofctl("sites", path, "-n", 0, "-o", "json").stdout)["sites"]

    def assert_file_has(self, path, stats, counts=None):
        """The file is complete, agrees with the stats, and no event is missing."""
        kinds, dump = lines_by_kind(path)
        self.assertEqual("", dump.stderr)
        self.assertEqual(stats.events, sum(kinds.values()))
        self.assertEqual(stats.samples, kinds["alloc"])
        if counts is None:
            return
        self.assertEqual(0, stats.dropped_events)
        self.assertEqual(counts[0], kinds["alloc"])
        self.assertEqual(sum(counts), sum(kinds.values()) + stats.unfollowed_events)

    # ------------------------------------------------------------ streamed

    def test_a_recording_says_what_the_daemon_counted(self):
        self.attached()
        before = self.settled_counts()
        stream = self.record()
        self.work(2)
        counts = self.all_recorded(stream, before)
        stream.call.cancel()
        self.assertEqual(grpc.StatusCode.CANCELLED, stream.code())
        self.assert_file_has(stream.path, stream.stats, counts)
        self.assertEqual(stream.stats.bytes, stream.path.stat().st_size)
        sites = by_site(self.memprofd.sites(self.pid))
        self.assertEqual(6, len(sites), sites)
        self.assertEqual(sites, by_site(self.file_sites(stream.path)))

    def test_live_blocks_are_live_in_the_file(self):
        self.attached()
        stream = self.record(max_seconds=60)
        self.known.command("go 1", timeout=120)
        self.known.command("full")
        self.settled_counts()
        self.known.kill()
        self.assertEqual(grpc.StatusCode.OK, stream.code())
        self.assertIn(f"pid {self.pid}: the program ended", stream.ended)
        sites = self.file_sites(stream.path)
        self.assertEqual(by_site(self.memprofd.sites(self.pid)), by_site(sites))
        live = harness.sum_sites(sites, "site_live")["live_bytes"]
        self.assert_estimate("site_live", live, 200_000 * 5, self.RATE)

    def test_a_target_that_is_killed_leaves_a_whole_file(self):
        self.attached()
        before = self.settled_counts()
        stream = self.record()
        self.known.send("go 1000")
        eventually(lambda: stream.stats.samples > 5_000, "events arrive")
        self.known.popen.send_signal(signal.SIGKILL)
        self.known.wait()
        self.assertEqual(grpc.StatusCode.OK, stream.code())
        self.assertIn("the program ended", stream.ended)
        self.memprofd.wait_state(self.pid, "exited")
        counts = tuple(b - a for a, b in zip(before, self.settled_counts()))
        self.assert_file_has(stream.path, stream.stats, counts)
        self.assertEqual(by_site(self.memprofd.sites(self.pid)),
                         by_site(self.file_sites(stream.path)))

    def test_a_change_of_the_rate_ends_the_stream(self):
        self.attached()
        stream = self.record()
        self.work()
        changer = threading.Thread(target=self.memprofd.set_rate, args=(self.pid, 1e-2))
        changer.start()  # returns when the target samples at the new rate
        eventually(lambda: self.known.command("minor") and stream.finished.is_set(),
                   "the recording ends")
        changer.join(harness.TIMEOUT)
        self.assertEqual(grpc.StatusCode.OK, stream.code())
        self.assertIn("sampling rate changed", stream.ended)
        self.assert_file_has(stream.path, stream.stats)

    def test_the_daemon_ends_its_recordings_when_it_stops(self):
        traces = self.folder / "traces"
        traces.mkdir()
        self.attached("--trace.directory", traces)
        stream = self.record()
        trace = self.start()
        self.work()
        counts = self.settled_counts()
        self.assertEqual(0, self.memprofd.stop())
        self.assertEqual("memprofd stops", stream.ended)
        self.assert_file_has(stream.path, stream.stats)
        kinds, dump = lines_by_kind(trace.files[0])
        self.assertEqual("", dump.stderr)
        self.assertGreater(kinds["alloc"], counts[0] // 2)
        self.assertEqual(kinds, lines_by_kind(stream.path)[0])

    # ------------------------------------------------------------ in the daemon's directory

    def test_traces_of_the_daemon_rotate(self):
        traces = self.folder / "traces"
        traces.mkdir()
        self.attached("--trace.directory", traces, rate=1e-2)
        trace = self.start(max_bytes=SMALLEST_FILE, max_files=2)
        self.assertEqual(stat.S_IMODE(pathlib.Path(trace.files[0]).stat().st_mode), 0o600)
        before = self.settled_counts()
        def rotated():
            self.work()
            # The third may have replaced it already.
            return any(int(path.suffixes[-2][1:]) >= 2 for path in traces.glob("*.*.ctf"))
        eventually(rotated, "the third file begins", timeout=120)
        counts = tuple(b - a for a, b in zip(before, self.settled_counts()))
        ended = self.stop(trace)
        self.assertEqual("stopped by request", ended.ended)
        self.assertEqual(0, ended.stats.dropped_events)
        self.assertEqual(counts[0], ended.stats.samples)
        self.assertEqual(sum(counts), ended.stats.events + ended.stats.unfollowed_events)
        self.assertEqual(sorted(ended.files), sorted(str(p) for p in traces.iterdir()))
        self.assertEqual(2, len(ended.files))
        for path in ended.files:
            self.assertLessEqual(pathlib.Path(path).stat().st_size, SMALLEST_FILE)
            kinds, dump = lines_by_kind(path)
            self.assertEqual("", dump.stderr)
            self.assertGreater(kinds["alloc"], 0)
        listed = self.call("ListTraces", self.pb.ListTracesRequest(), self.pb.ListTracesResponse)
        self.assertEqual([trace.id], [t.id for t in listed.traces])
        self.assertGreaterEqual(listed.traces[0].ended_unix_ns, listed.traces[0].started_unix_ns)

    def test_without_a_directory_the_daemon_writes_nothing(self):
        self.attached()
        with self.assertRaises(grpc.RpcError) as raised:
            self.start()
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, raised.exception.code())
        self.assertIn("--trace.directory", raised.exception.details())

    def test_a_directory_that_is_none_is_said_at_once(self):
        daemon = self.daemon("--trace.directory", self.folder / "none" / "traces", wait=False)
        self.assertEqual(harness.USAGE, daemon.wait())
        self.assertIn("No such file or directory", daemon.stderr())
        self.assertIn("--trace.directory", daemon.stderr())

    # ------------------------------------------------------------ memprofctl

    def test_memprofctl_records_reports_and_dumps(self):
        self.attached()
        before = self.settled_counts()
        path = self.folder / "b.ctf"
        done = []
        recording = threading.Thread(target=lambda: done.append(
            self.memprofd.ctl("record", "--pid", self.pid, "--out", path, "--duration", "3s")))
        began = time.monotonic()
        recording.start()
        eventually(lambda: path.exists() and path.stat().st_size > 0, "the recording begins")
        self.known.command("go 1", timeout=120)
        counts = tuple(b - a for a, b in zip(before, self.settled_counts()))
        recording.join(harness.TIMEOUT)
        self.assertGreaterEqual(time.monotonic() - began, 3)
        self.assertIn("time limit of 3.0 s", done[0].stdout)
        kinds, dump = lines_by_kind(path)
        self.assertEqual("", dump.stderr)
        self.assertEqual(counts[0], kinds["alloc"])
        self.assertIn(f"pid {self.pid}", dump.stdout.splitlines()[0])
        self.assertIn("site_promoted@", dump.stdout)
        report = memprofctl("report", path)
        self.assertEqual("", report.stderr)
        for words in ("site_live", "±", "known_alloc"):
            self.assertIn(words, report.stdout)
        self.assertEqual(by_site(self.memprofd.sites(self.pid)), by_site(self.file_sites(path)))

    def test_times_before_now_are_before_its_end(self):
        """The file was written long ago, and -1ms is the begin of its last millisecond."""
        path = harness.ROOT / "tests/golden/reference_v2.ctf"
        last = memprofctl("sites", path, "--last", "1ms").stdout
        self.assertNotEqual(memprofctl("sites", path).stdout, last)
        self.assertEqual(last, memprofctl("sites", f"{path}@-1ms..").stdout)
        self.assertEqual(last, memprofctl("sites", path, "--range", "-1ms..").stdout)

    def test_a_truncated_file_is_reported_with_its_loss(self):
        self.attached()
        before = self.settled_counts()
        stream = self.record(max_seconds=60)
        self.work()
        self.all_recorded(stream, before)
        stream.call.cancel()
        stream.code()
        whole = stream.path.read_bytes()
        part = self.folder / "part.ctf"
        part.write_bytes(whole[:len(whole) * 2 // 3])
        report = memprofctl("report", part)
        self.assert_one_line(report.stderr, "part.ctf", "truncated")
        self.assertIn("±", report.stdout)
        self.assertIn("truncated", lines_by_kind(part)[1].stderr)

    def test_an_interrupted_recording_is_a_whole_file(self):
        self.attached()
        path = self.folder / "c.ctf"
        recording = self.process(harness.Process(
            [harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket, "record",
             "--pid", self.pid, "--out", path], stdin=subprocess.DEVNULL))
        eventually(lambda: path.exists() and path.stat().st_size > 0, "the recording begins")
        self.work()
        eventually(lambda: lines_by_kind(path)[0]["alloc"] > 1_000, "events are in the file")
        recording.stop(signal.SIGINT)
        self.assertEqual("", lines_by_kind(path)[1].stderr)

    def test_an_interrupted_recording_has_what_came_last(self):
        """The file has all events that memprofd has counted, not only those sent before."""
        self.attached()
        for i in range(3):
            with self.subTest(i):
                path = self.folder / f"last{i}.ctf"
                before = self.settled_counts()
                recording = self.process(harness.Process(
                    [harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket, "record",
                     "--pid", self.pid, "--out", path], stdin=subprocess.DEVNULL))
                eventually(lambda: path.exists() and path.stat().st_size > 0, "the recording begins")
                self.work()
                recording.stop(signal.SIGINT)
                self.assertIn("stopped by request", recording.read_line())
                allocations = self.settled_counts()[0] - before[0]
                self.assertEqual(allocations, lines_by_kind(path)[0]["alloc"])


if __name__ == "__main__":
    import unittest
    unittest.main()
