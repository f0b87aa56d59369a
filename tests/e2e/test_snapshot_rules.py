# SPDX-License-Identifier: Apache-2.0
"""Snapshots that memprofd takes by its rules, and those that it keeps."""

import json
import unittest

import grpc

import harness
from harness import OK, TARGETS5, Process, eventually
from heap_copies import OLD, image, Snapshot


class ByItself(Snapshot):
    """memprofd takes snapshots by its rules."""

    def watched(self, name, *rules):
        self.taken = self.folder / "auto"
        self.taken.mkdir()
        options = [word for rule in rules for word in ("--snapshot.when", rule)]
        return self.attached(name, "--snapshot.directory", self.taken, "--snapshot.max-pause", "10s", *options)

    def files(self):
        return sorted(self.taken.glob("*.heap"), key=lambda path: path.stat().st_mtime_ns)

    def outcomes(self, daemon, outcome):
        return daemon.metrics().value("memprofd_heap_snapshots_total", outcome=outcome)

    def test_after_major_collections_and_at_the_programs_end(self):
        target, daemon = self.watched("heap_shapes", "majors=2", "end")
        self.stepping(target, daemon)

        def taken():
            target.command(f"step {self.folder / 'own'}")
            return self.files()
        [first] = eventually(taken, "one is taken after major collections")
        self.assertRegex(first.name, rf"^auto-heap_shapes-{target.pid}-\d+T\d+Z\.heap$")
        self.assertEqual(0o600, first.stat().st_mode & 0o777)
        target.send("end")
        self.assertEqual(0, target.wait(), target.stderr())
        eventually(lambda: len(self.files()) == 2, "one is taken at its end")
        for path in self.files():
            found = image(path)
            self.assertTrue(found["complete"])
            self.assertEqual(OLD, {key: found["rows"].get(key) for key in OLD})
        self.assertRegex(daemon.said(), r"snapshot \(majors=2\) by memprofd itself: done, paused for .*, in .*auto-heap_shapes")
        self.assertRegex(daemon.said(), r"snapshot \(end\) by memprofd itself: done")
        self.assertEqual(2, self.outcomes(daemon, "taken"))
        self.assertEqual(2, daemon.metrics().value("memprofd_target_heap_snapshots_total", pid=str(target.pid)))
        self.assertEqual(2, daemon.metrics().value("memprofd_heap_snapshot_duration_seconds_count"))
        pauses = daemon.metrics().value("memprofd_heap_snapshot_pause_seconds_sum")
        self.assertLess(0, pauses)
        self.assertLess(pauses, daemon.metrics().value("memprofd_heap_snapshot_duration_seconds_sum"))
        self.check_kept(daemon, target.pid)

    def check_kept(self, daemon, pid):
        """gRPC and memprofctl agree about the stored snapshots."""
        last, first = [path.name for path in reversed(self.files())]
        pb, ask = self.heaps(daemon)
        heaps = ask("ListHeaps", pb.ListHeapsRequest(pid=pid), pb.ListHeapsResponse)
        self.assertEqual((str(self.taken), [last, first]), (heaps.directory, [heap.name for heap in heaps.heaps]))
        self.assertEqual({path.name: path.stat().st_size for path in self.files()},
                         {heap.name: heap.file_bytes for heap in heaps.heaps})
        diff = ask("CompareHeaps", pb.CompareHeapsRequest(base=first, other=last, limit=1000), pb.HeapDiff)
        told = json.loads(harness.memprofctl("snapshot", "diff", self.taken / first, self.taken / last, "-o", "json").stdout)
        for table, rows in (("heap", diff.heap), ("roots", diff.roots)):
            self.assertEqual([(row["name"], row["change_bytes"], row["other"]["blocks"]) for row in told[table]],
                             [(row.name, row.change_bytes, row.other.blocks) for row in rows])
        self.assertEqual([(row["name"], row["other"]["bytes"], row["stayed"]["bytes"]) for row in told["sites"]],
                         [(row.name, row.other.bytes, row.stayed.bytes) for row in diff.sites])
        waste = ask("FindWaste", pb.FindWasteRequest(name=last, limit=1000), pb.HeapWaste)
        told = json.loads(harness.memprofctl("snapshot", "waste", self.taken / last, "-o", "json").stdout)
        self.assertEqual([(row["pattern"], row["bytes_to_win"], len(row["places"])) for row in told["patterns"]],
                         [(row.pattern, row.bytes_to_win, len(row.places)) for row in waste.patterns])
        largest = ask("FindLargest", pb.FindLargestRequest(name=last, limit=5), pb.HeapLargest)
        told = json.loads(harness.memprofctl("snapshot", "largest", self.taken / last, "-n", "5", "-o", "json").stdout)
        self.assertEqual([(row["class_name"], row["bytes"], row["path"]) for row in told["blocks"]],
                         [(row.class_name, row.bytes, row.path) for row in largest.blocks])
        garbage = ask("FindGarbage", pb.FindGarbageRequest(name=last, limit=1000), pb.HeapGarbage)
        self.assertEqual(last, garbage.snapshot.name)
        told = json.loads(harness.memprofctl("snapshot", "garbage", self.taken / last, "-o", "json").stdout)
        self.check_same_garbage(told, garbage)

    def test_when_it_is_asked_for(self):
        """Without a rule only requested snapshots are taken, and all are kept."""
        target, daemon = self.watched("heap_shapes")
        self.stepping(target, daemon)
        pb, ask = self.heaps(daemon)
        kept = ask("KeepHeap", pb.KeepHeapRequest(pid=target.pid, max_pause_seconds=10), pb.KeepHeapResponse,
                   lambda: target.command(f"step {self.folder / 'own'}")).heap
        [path] = self.files()
        self.assertEqual((path.name, target.pid, path.stat().st_size), (kept.name, kept.pid, kept.file_bytes))
        self.assertEqual(OLD, {key: image(path)["rows"].get(key) for key in OLD})
        self.assertRegex(daemon.said(), "snapshot to keep by user 0, process .*: done")
        with self.assertRaises(grpc.RpcError) as refused:
            ask("FindWaste", pb.FindWasteRequest(name=f"../auto/{path.name}"), pb.HeapWaste)
        self.assertEqual(grpc.StatusCode.NOT_FOUND, refused.exception.code())

    def test_when_the_command_asks_for_it(self):
        target, daemon = self.watched("heap_shapes")
        self.assertIn("no snapshots are stored in", daemon.ctl("snapshot", "list").stdout)
        self.stepping(target, daemon)
        taker = self.process(Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take",
                                      "--keep", "--max-pause", "10s"]))
        while taker.running():
            target.command(f"step {self.folder / 'own'}")
        self.assertEqual(0, taker.wait(), taker.stderr())
        [path] = self.files()
        listed = json.loads(daemon.ctl("snapshot", "list", "--pid", target.pid, "-o", "json").stdout)
        self.assertEqual((str(self.taken), [path.name]), (listed["directory"], [heap["name"] for heap in listed["heaps"]]))
        self.assertIn(path.name, daemon.ctl("snapshot", "list").stdout)
        self.assertEqual([], json.loads(daemon.ctl("snapshot", "list", "--pid", 1, "-o", "json").stdout)["heaps"])


class ByItself5(ByItself):
    programs = TARGETS5


class Points(ByItself):
    """Snapshots at points of the program's code; the agent's library is linked in."""

    test_after_major_collections_and_at_the_programs_end = None
    test_when_it_is_asked_for = None
    test_when_the_command_asks_for_it = None

    def test_at_a_point_of_the_program(self):
        target, daemon = self.watched("points", "point")
        self.stepping(target, daemon, "work")
        eventually(lambda: target.command("point after-load")["taken"], "it waits for its snapshot")
        [path] = self.files()
        found = image(path)
        self.assertTrue(found["complete"])
        self.assertLessEqual(1000, found["rows"][0, 3], "what is there at the point alone")
        self.assertRegex(daemon.said(), r"snapshot \(point after-load\) by memprofd itself: done")
        self.assertFalse(target.command("point again")["taken"], "too soon")
        self.assertEqual(1, self.outcomes(daemon, "too_soon"))
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.assertEqual(0, daemon.stop())
        self.assertFalse(target.command("point alone")["taken"], "nobody is there")


class Points5(Points):
    programs = TARGETS5


if __name__ == "__main__":
    unittest.main()
