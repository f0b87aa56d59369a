# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs from Debian and npm: stripped, threaded, with their own workloads."""

import collections
import contextlib
import json
import signal
import statistics
import threading
import time
import unittest

import harness
from harness import EXPECTED_DROPS, MATRIX, NOT_PROFILABLE, E2ETest, eventually
from real_programs import Bsc, Coqc, Coqtop, Haxe, Ocamlopt, Ocsigenserver, Prefix, Unison, Wrk

LOOKS = 15 if MATRIX else 5  # inspections of a running program's memory
WITHIN = 0.02

only_in_matrix = unittest.skipUnless(MATRIX, "takes long, or needs packages that only make test-matrix installs")


class RealProgram(E2ETest):
    options = ()

    def check_sites(self, daemon, pid, *modules):
        """Sites are plausible: known functions, complete callstacks, no losses."""
        sites = daemon.sites(pid)
        functions = [frame["function"] for site in sites for frame in site["callstack"]]
        for module in modules:
            self.assertTrue([f for f in functions if module in f], f"no function of {module}")
        samples = sum(site["samples"] for site in sites)
        unknown = sum(site["samples"] for site in sites if site["function"] in ("", "(unknown)"))
        self.assertLessEqual(unknown, 0.005 * samples)
        self.assertLessEqual(daemon.targets()[pid]["dropped_events"], 0.005 * samples)
        drops = [s for name in ("memprofd_dropped_events_total", "memprofd_given_up_events_total")
                 for s in daemon.metrics().find(name)]
        wrong = {s.labels["reason"]: s.value for s in drops
                 if s.value > 0 and s.labels["reason"] not in EXPECTED_DROPS}
        self.assertEqual({}, wrong)

    def wait_samples(self, daemon, pid, count):
        return eventually(
            lambda: daemon.metrics().total("memprofd_samples_total", pid=pid, event="alloc") >= count,
            f"{count} samples of pid {pid}", timeout=60)

    def sampled(self, process, count, *modules, rate=1e-4, begin=lambda: None):
        """A memprofd that has taken `count` samples of the program, with sites of these modules.
        begin() starts the program's work."""
        daemon = self.daemon("--pid", process.pid, *self.options, rate=rate)
        daemon.wait_state(process.pid, "waiting", "sampling")
        begin()
        daemon.wait_state(process.pid, "sampling")
        self.assertEqual("agent", daemon.targets()[process.pid]["mode"], daemon.said())
        self.wait_samples(daemon, process.pid, count)
        if self.options:
            self.assertEqual(self.options[-1], daemon.targets()[process.pid]["capture"], daemon.said())
        self.check_sites(daemon, process.pid, *modules)
        return daemon

    def check_snapshot(self, daemon, program, *modules):
        """A snapshot of the distributed program while it works: modules and stacks hold its
        blocks."""
        path = self.folder / "program.heap"
        daemon.ctl("snapshot", "take", "--pid", program.pid, "--out", path, "--max-pause", "10s")
        retained = json.loads(daemon.ctl("snapshot", "retained", path, "-n", "0", "-o", "json").stdout)
        self.assertGreater(int(retained["reachable"]["blocks"]), 10_000)
        text = json.dumps(retained["roots"])
        for module in modules:
            self.assertIn(module, text)

    def check_batch(self, kind, count, *modules, **size):
        """A program that ends by itself has the same result with memprofd as without."""
        undisturbed = self.process(kind(self.folder / "work", **size))
        self.assertEqual(0, undisturbed.wait(timeout=300), undisturbed.stderr())
        expected = undisturbed.result.read_bytes()
        undisturbed.result.unlink()
        profiled = self.process(kind(self.folder / "work", **size, held=True))
        daemon = self.sampled(profiled, count, *modules, rate=1e-5, begin=profiled.begin)
        if MATRIX:  # it works long enough there
            self.check_snapshot(daemon, profiled, *modules)
        daemon.detach(profiled.pid)
        profiled.finish()
        self.assertEqual(0, profiled.wait(timeout=300), profiled.stderr())
        self.assertTrue(expected == profiled.result.read_bytes(), f"{profiled.result} is another than without memprofd")

    def prefix(self, name):
        prefix = Prefix(name)
        self.addCleanup(prefix.remove)
        return prefix


class Servers(RealProgram):
    def check_server(self, server, *modules):
        load = self.process(Wrk(server.url, paced=not MATRIX))
        daemon = self.sampled(server, 3_000 if MATRIX else 1_000, *modules)
        self.check_snapshot(daemon, server, *modules)
        daemon.detach(server.pid)
        self.assertEqual(harness.OK, daemon.stop())
        counts = load.finish()
        self.assertGreater(counts["requests"], 0)
        self.assertEqual((0, ""), (counts["bad_answers"], counts["socket_errors"]))

    def test_ocsigenserver(self):
        self.check_server(self.process(Ocsigenserver(self.folder)), "Cohttp", "Ocsigen", "Lwt")

    def test_ocsigenserver_of_ocaml_5(self):
        prefix = self.prefix("trixie-ocsigenserver")
        server = self.process(Ocsigenserver(prefix.folder, prefix))
        self.check_server(server, "Cohttp", "Ocsigen", "Lwt")

    @only_in_matrix
    def test_haxe(self):
        server = self.process(Haxe(self.folder))
        expected = server.compile()
        stop = threading.Event()
        results = []

        def clients():
            while not stop.is_set():
                results.append(server.compile())
        load = threading.Thread(target=clients)
        load.start()
        try:
            daemon = self.sampled(server, 2_000, "Typer")
            daemon.detach(server.pid)
        finally:
            stop.set()
            load.join()
        self.assertEqual({expected}, set(results))
        self.assertEqual(expected, server.compile())

    @only_in_matrix
    def test_unison(self):
        process = self.process(Unison(self.folder))
        daemon = self.sampled(process, 1_000, "Update")
        (process.left / "d1/f_new").write_text("new\n")
        eventually(process.same, "both sides are the same")
        daemon.detach(process.pid)
        (process.left / "d2/f_newer").write_text("newer\n")
        eventually(process.same, "both sides are the same again")
        self.assertTrue(process.running())


class Batch(RealProgram):
    def test_ocamlopt(self):
        self.check_batch(Ocamlopt, 500, "Typecore", "Ctype", functions=3_000 if MATRIX else 1_500)

    @only_in_matrix
    def test_coqc(self):
        # Callstacks pass through plugins, and are truncated only briefly after each is loaded.
        self.check_batch(Coqc, 1_000, "Vernac", "CClosure")


class Typed(RealProgram):
    @only_in_matrix
    def test_coqtop_with_its_libraries(self):
        """The .cmt files of libcoq-core-ocaml-dev give most of its memory source types."""
        coq = self.process(Coqtop(self.folder))
        daemon = self.daemon("--pid", coq.pid, rate=1e-5)

        def sampling():
            coq.step()
            return daemon.state(coq.pid) == "sampling"
        eventually(sampling, "it is sampled", timeout=60)
        path = self.folder / "coq.heap"
        take = ["--grpc.socket", daemon.socket, "snapshot", "take", "--pid", coq.pid, "--out", path, "--max-pause", "10s"]
        taker = self.process(harness.Process([harness.BUILD / "memprofctl", *take]))
        while taker.running():
            coq.step()
        self.assertEqual(0, taker.wait(), taker.stderr())
        shown = json.loads(daemon.ctl("snapshot", "show", path, "-n", "0", "-o", "json", timeout=300).stdout)
        types, reachable = shown["types"], shown["heap"]["reachable"]["bytes"]
        share = types["typed"]["bytes"] / reachable
        harness.NOTES.append(f"coqtop: {share:.1%} of {reachable / 2**20:.0f} MiB typed, {types}")
        self.assertGreater(reachable, 50 << 20)
        self.assertGreaterEqual(share, 0.7)
        self.assertLess(types["disagreed"], 1e-3 * types["typed"]["blocks"])


class ServersOfOwnWalk(Servers):
    """The agent walks their stacks, and finds the same innermost frames as the runtime."""
    options = ("--capture", "agent")
    test_ocsigenserver_of_ocaml_5 = None


@only_in_matrix
class BatchOfOwnWalk(Batch):
    options = ("--capture", "agent")


@only_in_matrix
class Refused(RealProgram):
    """Programs that cannot be profiled are reported as such, and continue."""

    def refused(self, pid, *words):
        daemon = self.daemon()
        done = daemon.attach(pid, check=False)
        self.assertEqual(NOT_PROFILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, pid, *words)

    def test_unison_without_memprof(self):
        prefix = self.prefix("trixie-unison")
        process = self.process(Unison(prefix.folder, prefix=prefix))
        eventually(process.same, "both sides are the same")
        daemon = self.daemon()
        done = daemon.attach(process.pid)
        self.assert_one_line(done.stdout, process.pid, "OCaml 5.2", "observe mode: Gc.Memprof does not work in OCaml 5.2")
        (process.left / "d1/f_new").write_text("new\n")
        eventually(process.same, "both sides are the same again")
        def found_at_work():
            """Another inspection of an unchanged process allocates almost nothing."""
            for i in range(50):
                (process.left / f"d{i}/f{i}").write_text(f"at {time.monotonic()}\n")
            return [s for s in daemon.sites(process.pid) if s["function"].startswith(("Update.", "Umarshal."))]
        eventually(found_at_work, "sites of unison")
        self.assertNotIn("problem", daemon.ctl("doctor", "--pid", process.pid).stdout)

    def test_rescript(self):
        process = self.process(Bsc(self.folder))
        self.refused(process.pid, "stripped", "keep its symbol table")
        self.assertTrue(process.running())


class RealMemory(RealProgram):
    """Resident memory: parts add up while the programs run, and to the byte while they rest."""

    def setUp(self):
        super().setUp()
        self.memprofd = self.daemon()

    def rss(self, pid):
        """RSS by the kernel, its excess of the parts, and the parts by kind, in bytes. The program
        is no target."""
        answer = self.memprofd.ctl_json("rss", "--pid", pid)
        kinds = collections.Counter()
        for part in answer["parts"]:
            kinds[part["kind"]] += int(part["resident_bytes"])
        self.assertEqual(int(answer["counted_bytes"]), kinds.total())
        return int(answer["rss_bytes"]), int(answer["counted_bytes"]) - int(answer["rss_bytes"]), kinds, answer["notes"]

    def look_again(self, pid):
        time.sleep(1.05)  # memprofd repeats an answer of the last second
        return self.rss(pid)

    @contextlib.contextmanager
    def standing_still(self, process):
        process.popen.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: harness.proc_status(process.pid, "State").startswith("T"), "it stands still")
            yield
        finally:
            process.popen.send_signal(signal.SIGCONT)

    def check(self, process, name, heap=True):
        """heap: the program has a known heap and uses it."""
        looks = [self.look_again(process.pid)[:2] for _ in range(LOOKS)]
        off = [abs(more) / rss for rss, more in looks]
        self.assertLess(statistics.median(off), WITHIN, looks)
        with self.standing_still(process):
            rss, more, kinds, notes = eventually(lambda: found if (found := self.rss(process.pid))[1] == 0 else None,
                                                 "a look at it once it stands still")
        self.assertEqual(0, more)
        self.assertEqual([], notes)
        if heap:
            self.assertGreater(kinds["ocaml_heap_used"], 0.02 * rss, kinds)
        harness.NOTES.append(f"{name}: {rss / 2**20:.1f} MiB, parts off by {statistics.median(off):.2%} at the median and "
                             f"{max(off):.2%} at most of {LOOKS} looks, {more} B when it stands still; "
                             f"not known: {kinds['other'] / rss:.2%}, malloc not walked: {kinds['malloc_unwalked'] / rss:.2%}")

    def under_load(self, server, name):
        load = self.process(Wrk(server.url, paced=not MATRIX))
        self.check(server, name)
        counts = load.finish()
        self.assertEqual((0, ""), (counts["bad_answers"], counts["socket_errors"]))

    def test_ocsigenserver(self):
        self.under_load(self.process(Ocsigenserver(self.folder)), "ocsigenserver")

    def test_ocsigenserver_of_ocaml_5(self):
        prefix = self.prefix("trixie-ocsigenserver")
        self.under_load(self.process(Ocsigenserver(prefix.folder, prefix)), "ocsigenserver of OCaml 5")

    def test_ocamlopt(self):
        self.check(self.process(Ocamlopt(self.folder / "work", functions=20_000)), "ocamlopt")

    @only_in_matrix
    def test_coqc(self):
        process = self.process(Coqc(self.folder / "work", goals=5_000))
        eventually(process.has_plugins, "it is at work")
        self.check(process, "coqc")

    @only_in_matrix
    def test_haxe(self):
        server = self.process(Haxe(self.folder))
        server.compile()
        self.check(server, "haxe")

    @only_in_matrix
    def test_unison(self):
        self.check(self.process(Unison(self.folder)), "unison")


if __name__ == "__main__":
    unittest.main()
