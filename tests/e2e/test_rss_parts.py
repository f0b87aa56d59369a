# SPDX-License-Identifier: Apache-2.0
"""Memory of the runtime beside the OCaml heap has one line per kind, with its number."""

import collections
import json
import os
import subprocess
import unittest

import harness
from harness import TARGETS5, E2ETest, eventually

OCAML4 = harness.BUILD / "targets"
CHANNEL = 65_536
KIB, MIB = 1 << 10, 1 << 20


class RssParts(E2ETest):
    def setUp(self):
        super().setUp()
        self.memprofd = self.daemon()

    def rss(self, target, *options):
        """The answer, and (resident, size, number) by kind; parts add up while the program
        rests."""
        harness.settled(lambda: harness.proc_status(target.pid, "voluntary_ctxt_switches"), "the program rests", quiet=1.2)
        answer = self.memprofd.ctl_json("rss", "--pid", target.pid, *options)
        kinds = collections.defaultdict(lambda: [0, 0, 0])
        for part in answer["parts"]:
            kind = kinds[part["kind"]]
            kind[0] += int(part["resident_bytes"])
            kind[1] += int(part["size_bytes"])
            kind[2] += int(part["number"])
        self.assertEqual(answer["rss_bytes"], answer["counted_bytes"])
        self.assertEqual(int(answer["counted_bytes"]), sum(kind[0] for kind in kinds.values()))
        return answer, kinds

    def test_channels(self):
        for folder, command in ((OCAML4, "unflushed"), (TARGETS5, "open")):
            with self.subTest(folder.name):
                target = self.target("rss_parts", folder=folder)
                few = self.rss(target)
                self.assertEqual(3, few[1]["channels"][2], "stdin, stdout, stderr")
                self.assertEqual(0, sum("channels" in hint for hint in few[0]["hints"]))
                target.command(f"{command} 500")
                answer, kinds = self.rss(target, "--owners")
                resident, size, number = kinds["channels"]
                self.assertEqual(503, number)
                self.assertLess(abs(size - 503 * (CHANNEL + 144)), 503 * 64)
                self.assertGreater(resident, 503 * 4096)
                self.assertLess(kinds["runtime_tables"][0], 2 * MIB)
                # Channels count once: those held by blocks belong to them, and none is "held by no
                # custom block".
                self.assertLess(int(answer["no_owner"]["bytes"]), 500 * CHANNEL)
                self.assertEqual(1, sum("channels" in hint for hint in answer["hints"]), answer["hints"])
                self.assertRegex(self.memprofd.ctl("rss", "--pid", target.pid).stdout, r"OCaml channels \(503\)")

    def test_tables_of_the_runtime(self):
        for folder in (OCAML4, TARGETS5):
            with self.subTest(folder.name):
                target = self.target("rss_parts", folder=folder)
                _, before = self.rss(target)
                self.assertGreater(before["frame_tables"][0], 4 * KIB)
                target.command("remember 30000")
                _, after = self.rss(target)
                self.assertGreaterEqual(after["remembered_sets"][0], 30_000 * 8)
                self.assertLess(after["remembered_sets"][0], 2 * MIB)

    def test_stacks_of_threads_are_one_line_with_their_number(self):
        for folder in (OCAML4, TARGETS5):
            with self.subTest(folder.name):
                target = self.target("rss_parts", folder=folder)
                target.command("threads 200", timeout=60)
                # The runtime's tick thread keeps running, so the sum may differ by a page.
                number = len(os.listdir(f"/proc/{target.pid}/task"))
                parts = [part for part in self.memprofd.ctl_json("rss", "--pid", target.pid)["parts"]
                         if part["kind"] == "thread_stacks"]
                self.assertEqual([number], [int(part["number"]) for part in parts])
                self.assertIn(f"thread stacks ({number})", self.memprofd.ctl("rss", "--pid", target.pid).stdout)

    def test_what_500_threads_keep_alive_is_one_row(self):
        for folder in (OCAML4, TARGETS5):
            with self.subTest(folder.name):
                target = self.target("rss_parts", folder=folder)
                daemon = self.daemon("--pid", target.pid, "--max-overhead", "none", rate=0.5)

                def samples():
                    target.command("remember 10")
                    return daemon.state(target.pid) == "sampling"
                eventually(samples, "it samples")
                target.command("threads 500", timeout=60)
                heap = self.folder / "a.heap"
                taking = self.process(harness.Process([
                    harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take", "--pid", target.pid,
                    "--max-pause", "10s", "--out", heap]))

                def taken():  # 500 threads that all wait at the same time are rare on a busy machine
                    target.command("remember 10")
                    return not taking.running()
                eventually(taken, "the snapshot is taken")
                self.assertEqual(harness.OK, taking.wait(), taking.stderr())
                roots = json.loads(harness.memprofctl("snapshot", "retained", heap, "-o", "json").stdout)["roots"]
                stacks = next(root for root in roots if root["name"] == "stacks")["children"]
                threads = next(row for row in stacks if row.get("name") == "500 threads")
                self.assertLess(len(stacks), 20)
                self.assertEqual(500 * (1 + 100) * 8, threads["bytes"])
                self.assertRegex(threads["children"][0]["name"], r"^Rss_parts\.watch ")
                why = harness.memprofctl("snapshot", "why", heap, "Rss_parts.watch").stdout
                self.assertIn("stack of 500 threads, Rss_parts.watch", why)
                heap.unlink()

    def test_a_deep_stack_of_ocaml5(self):
        target = self.target("rss_parts", folder=TARGETS5)
        target.command("deep 2000000", timeout=60)
        _, kinds = self.rss(target)
        self.assertGreater(kinds["fiber_stacks"][0], 2_000_000 * 8)
        self.assertLess(kinds["runtime_tables"][0], 2 * MIB)

    def test_fibers_that_are_large(self):
        target = self.target("big_fibers", "50", "40000", folder=TARGETS5)
        _, kinds = self.rss(target)
        self.assertGreater(kinds["fiber_stacks"][0], 50 * 40_000 * 8)
        self.assertLessEqual(50, kinds["fiber_stacks"][2])
        self.assertLess(kinds["malloc_used"][0] + kinds["malloc_mmapped"][0], 2 * MIB)

    def test_pools_that_could_not_be_unmapped(self):
        target = self.target("lost_pools", "64", folder=TARGETS5)
        answer, kinds = self.rss(target)
        lost = kinds["ocaml_heap_lost"]
        self.assertGreater(lost[0], 32 * MIB)
        self.assertEqual(lost[1], lost[2] * 32 * KIB)
        self.assertLess(kinds["other"][0], int(answer["rss_bytes"]) / 20, dict(kinds))
        self.assertEqual(1, sum("vm.max_map_count" in hint for hint in answer["hints"]), answer["hints"])

    def test_pools_of_a_program_that_works(self):
        """It moves them from one list to another while the lists are read; no compaction has lost any."""
        target = self.process(harness.Process([TARGETS5 / "growth", "cache", 100_000_000]))
        for _ in range(10):
            answer = self.memprofd.ctl_json("rss", "--pid", target.pid)
            lost = sum(int(part["number"]) for part in answer["parts"] if part["kind"] == "ocaml_heap_lost")
            self.assertLess(lost, 8, "pools that began or ended between the counts")

    def test_large_blocks_of_a_program_that_works(self):
        """OCaml 5 keeps them in lists, which change while they are read; malloc's memory is that of C code alone."""
        target = self.target("demo_server", "--self-load", "2", "--rate", "6000", folder=TARGETS5)
        read = lambda: self.memprofd.ctl_json("rss", "--pid", target.pid)
        eventually(lambda: int(read()["rss_bytes"]) > 100 * MIB, "it has grown")
        for _ in range(6):
            answer = read()
            kinds = collections.Counter()
            for part in answer["parts"]:
                kinds[part["kind"]] += int(part["resident_bytes"])
            self.assertLess(kinds["malloc_used"], 0.2 * int(answer["rss_bytes"]), kinds)

    def test_no_agent_comes_in_without_mappings(self):
        """memprofd reports the reason; the rest of the agent does not look like another build."""
        target = self.target("lost_pools", "8", folder=TARGETS5)
        target.command("fill")
        for _ in range(2):
            attach = self.process(harness.Process([harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket,
                                                   "attach", target.pid], stdin=subprocess.DEVNULL))

            def told():
                target.command("go")
                return "vm.max_map_count" in self.memprofd.stderr() + attach.stderr()
            eventually(told, "the reason is said")
            self.memprofd.detach(target.pid, check=False)
            attach.wait()
        self.assertNotIn("another build", self.memprofd.stderr() + attach.stderr())


if __name__ == "__main__":
    unittest.main()
