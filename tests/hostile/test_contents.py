# SPDX-License-Identifier: Apache-2.0
"""Contents of strings leave a program only on request, which then shows duplicates."""

import json
import threading
import unittest

import grpc

import harness
from api import PAGE, ask as ask_http
from harness import OK, TARGETS4, TARGETS5
from heap_copies import KEPT, Snapshot
from messages import message_modules
from heap_copies import Snapshot
from messages import message_modules

SECRET = "secret-OF THE PROGRAM-"
KEPT = 1_000  # different strings, each twice
BUFFERS, STRINGS = "mostly unused Buffers", "duplicate strings"  # names of patterns


class Contents(Snapshot):
    programs = TARGETS4

    def ticking(self, *options):
        target, daemon = self.attached("secrets", *options)
        self.stepping(target, daemon, "tick")
        return target, daemon

    def ask(self, *command):
        return json.loads(harness.memprofctl("snapshot", *command, "-o", "json", "-n", "0").stdout)

    def query(self, path, sql):
        return json.loads(harness.memprofctl("snapshot", "query", path, sql, "-o", "json").stdout)["rows"]

    def taken(self, target, daemon, *options):
        """The file, and the program's own numbers."""
        taker = self.process(harness.Process([*self.take_command(daemon, "a.heap"), *options]))
        told = target.command("tick")
        while taker.running():
            told = target.command("tick")
        self.assertEqual(OK, taker.wait(), taker.stderr())
        path = self.folder / "a.heap"
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        return path, told

    def has_secrets(self, path):
        return b"secret-" in path.read_bytes()

    def words_to_win(self, path):
        return {row["pattern"]: row["bytes_to_win"] // 8 for row in self.ask("waste", path)["patterns"]}

    def check_waste(self, path, told):
        won = self.words_to_win(path)
        self.assertEqual(told["unused_words"], won[BUFFERS])
        # The program's libraries have a few strings.
        self.assertGreaterEqual(won[STRINGS], told["equal_words"])
        self.assertLess(won[STRINGS], told["equal_words"] + 500)

    def test_they_are_kept_when_asked_for(self):
        target, daemon = self.ticking()
        path, told = self.taken(target, daemon, "--contents")
        self.assertTrue(self.has_secrets(path))
        self.assertEqual([[f"{SECRET}000007", 2]],
                         self.query(path, f"SELECT value, count(*) FROM contents WHERE value = '{SECRET}000007' GROUP BY 1"))
        [[length, kept]] = self.query(path, f"SELECT length, kept FROM contents WHERE value LIKE '{SECRET}%' AND length > 1000")
        self.assertEqual((5_000 * len(f"{SECRET}000000"), 65_536), (length, kept))
        [[floats]] = self.query(path, "SELECT value FROM contents WHERE value LIKE '[12345.5,%'")
        self.assertEqual([12345.5 + i for i in range(100)], json.loads(floats))
        self.assertEqual([[60_000, 20]], self.query(path, "SELECT used, count(*) FROM buffers WHERE used > 10000 GROUP BY 1"))
        self.check_waste(path, told)
        self.assertRegex(daemon.said(), "snapshot with contents by user 0, process .*: done")

    def test_fingerprints_tell_what_is_equal_and_nothing_else(self):
        target, daemon = self.ticking()
        path, told = self.taken(target, daemon, "--fingerprints")
        self.assertFalse(self.has_secrets(path))
        self.assertEqual([[0]], self.query(path, "SELECT count(*) FROM contents"))
        [[twice]] = self.query(path, "SELECT count(*) FROM (SELECT 1 FROM fingerprints GROUP BY fingerprint HAVING count(*) = 2)")
        self.assertGreaterEqual(twice, KEPT)
        self.check_waste(path, told)
        self.assertRegex(daemon.said(), "snapshot with fingerprints by user 0, process .*: done")
        before = set(map(tuple, self.query(path, "SELECT DISTINCT fingerprint FROM fingerprints")))
        path, _ = self.taken(target, daemon, "--fingerprints")
        self.assertFalse(before & set(map(tuple, self.query(path, "SELECT DISTINCT fingerprint FROM fingerprints"))),
                         "each snapshot has a key of its own")

    def test_nobody_else_gets_any(self):
        """No other way to take a snapshot includes contents."""
        kept = self.folder / "kept"
        kept.mkdir()
        target, daemon = self.ticking("--snapshot.directory", kept)
        path, _ = self.taken(target, daemon)
        self.assertEqual([[0, 0, 0]], self.query(path, "SELECT (SELECT count(*) FROM contents), (SELECT count(*) FROM fingerprints), "
                                                       "(SELECT count(*) FROM buffers)"))
        self.assertEqual(set(), {BUFFERS, STRINGS} & set(self.words_to_win(path)))
        taker = self.process(harness.Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take",
                                              "--keep", "--max-pause", "10s"]))
        while taker.running():
            target.command("tick")
        self.assertEqual(OK, taker.wait(), taker.stderr())
        pb, ask = self.heaps(daemon)
        heap = ask("DescribeHeap", pb.DescribeHeapRequest(pid=target.pid, max_pause_seconds=10, limit=10_000),
                   pb.DescribeHeapResponse, lambda: target.command("tick"))
        self.assertFalse(b"secret-" in heap.SerializeToString())
        files = [file for file in kept.rglob("*") if file.is_file()]
        self.assertEqual(1, len([file for file in files if file.suffix == ".heap"]), files)
        for file in [path, *files]:
            self.assertFalse(self.has_secrets(file), file)
        self.assertNotIn("with contents", daemon.said())

    def test_nor_does_who_asks_over_http(self):
        target, daemon = self.ticking("--web.enable-control")

        def ask(path, **more):
            answers = []
            asking = threading.Thread(target=lambda: answers.append(
                ask_http(daemon, "POST", path, {"pid": target.pid, "max_pause_seconds": 10, **more}, PAGE)))
            asking.start()
            while asking.is_alive():
                target.command("tick")
            return answers[0]
        for path in ("/api/v1/snapshot", "/api/v1/heap"):
            status, body = ask(path)
            self.assertEqual((path, 200), (path, status), body)
            self.assertEqual(path == "/api/v1/snapshot", body.startswith(b"MPRFHEAP"))
            self.assertFalse(b"secret-" in body)
            status, body = ask(path, contents=2)  # the field of gRPC's request
            self.assertIn(status, (200, 400), body)
            self.assertFalse(b"secret-" in body)
        self.assertNotIn("with contents", daemon.said())

    def test_nor_does_memprofd_by_itself(self):
        kept = self.folder / "kept"
        kept.mkdir()
        target, daemon = self.ticking("--snapshot.directory", kept, "--snapshot.when", "live>1B", "--snapshot.max-pause", "10s")

        def taken():
            target.command("tick")
            return list(kept.glob("*.heap"))
        [path] = harness.eventually(taken, "one is taken")
        self.assertFalse(self.has_secrets(path))
        self.assertEqual([[0, 0]], self.query(path, "SELECT (SELECT count(*) FROM contents), (SELECT count(*) FROM fingerprints)"))
        self.assertRegex(daemon.said(), r"snapshot \(live>1B\) by memprofd itself: done")

    def test_what_is_no_request(self):
        target, daemon = self.ticking()
        for options in (("--contents", "--fingerprints"), ("--contents", "--keep"), ("--fingerprints", "--keep")):
            done = daemon.ctl("snapshot", "take", *options, check=False)
            self.assertEqual(harness.USAGE, done.returncode)
            for option in options:
                self.assertIn(option, done.stderr.splitlines()[0])
        profiler, pb = message_modules(self.folder, "memprof/v1/profiler.proto", "memprof/v1/heaps.proto")
        request = pb.TakeHeapRequest(snapshot=profiler.TakeSnapshotRequest(pid=target.pid), contents=17)
        with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
            call = channel.unary_stream("/memprof.v1.Heaps/TakeHeap", request_serializer=pb.TakeHeapRequest.SerializeToString,
                                        response_deserializer=profiler.TakeSnapshotResponse.FromString)
            with self.assertRaises(grpc.RpcError) as refused:
                list(call(request, timeout=harness.TIMEOUT))
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, refused.exception.code())


class Contents5(Contents):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
