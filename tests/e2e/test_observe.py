# SPDX-License-Identifier: Apache-2.0
"""Observe mode: allocation sites of programs that must not be entered.

Programs of OCaml 4 and 5 report their allocations. The tests compare the observed ones with that,
with the agent's results for the same program, and check that the program is not changed.
"""

import gzip
import json
import math
import pathlib
import re
import signal
import subprocess
import unittest

import harness
from harness import NOT_PROFILABLE, E2ETest, eventually, proc_status, sum_sites
from injected_agent import altered_code

WORD = 8
ROUNDS = 120
# Blocks of more than 256 words are not observed: site_major; site_unmarshal is one large block.
SMALL_SITES = ("site_small", "site_live", "site_bytes", "site_promoted")
FOLDERS = {"4.13": harness.BUILD / "targets", "5.3": harness.TARGETS5}
# Offset of stat_minor_words on OCaml 5.
STAT_WORDS = {"targets-trixie": 384, "targets-forky": 416, "targets-experimental": 424}[harness.TARGETS5.name]


def maps(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text()


def mapped_files(pid):
    return {line.split()[-1] for line in maps(pid).splitlines() if "/" in line}


class ObserveTest(E2ETest):
    def observed(self, daemon, pid):
        daemon.wait_state(pid, "sampling")
        target = daemon.targets()[pid]
        self.assertEqual(("observe", "kernel"), (target["mode"], target["capture"]), target)
        self.assertTrue(target["message"].startswith("observe mode: "), target)
        return target

    def settled_sites(self, daemon, pid):
        harness.settled(lambda: daemon.metrics().total("memprofd_samples_total", pid=pid), "hits")
        return daemon.sites(pid)

    def run_observed(self, folder, rounds=ROUNDS):
        """A daemon, a target that ran the rounds, and its own counts."""
        target = self.target("known_alloc", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--no-inject")
        self.observed(daemon, target.pid)
        truth = target.command(f"go {rounds}", timeout=120)
        return daemon, target, truth

    def assert_within(self, true, estimate, error, what, sigmas=5):
        self.assertLess(abs(estimate - true), sigmas * error,
                        f"{what}: {estimate:.0f} ± {error:.0f}, truth {true}")


class Estimates(ObserveTest):
    def check_sites(self, folder):
        daemon, target, truth = self.run_observed(folder)
        sites = self.settled_sites(daemon, target.pid)
        for name in SMALL_SITES:
            found = sum_sites_allocated(sites, name)
            true = truth["sites"][name]["allocated_words"] * WORD
            self.assertGreater(found["samples"], 20, name)
            self.assert_within(true, found["bytes"], found["stderr"], name)
            # The error is small enough to be useful.
            self.assertLess(found["stderr"], 0.25 * true, name)
        return daemon, target, truth

    def check_total(self, daemon, target, truth):
        """All words of the minor heap are in the total, whichever hits occurred."""
        total = daemon.targets()[target.pid]["allocated_bytes"]
        true = minor_words(truth) * WORD
        self.assertAlmostEqual(1, total / true, delta=0.02)

    def test_sites_and_total_4(self):
        daemon, target, truth = self.check_sites(FOLDERS["4.13"])
        self.check_total(daemon, target, truth)

    def test_sites_and_total_5(self):
        daemon, target, truth = self.check_sites(FOLDERS["5.3"])
        self.check_total(daemon, target, truth)

    def check_threads(self, folder):
        """The runtime takes control every 50 ms, which makes the next allocation a hit."""
        target = self.target("waking_threads", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--no-inject")
        self.observed(daemon, target.pid)
        truth = target.command("go 1500", timeout=120)["sites"]
        sites = self.settled_sites(daemon, target.pid)
        true = {name: truth[name]["allocated_words"] * WORD for name in truth}
        found = sum_sites_allocated(sites, "site_bursts")
        self.assertGreater(found["samples"], 50)
        self.assert_within(true["site_bursts"], found["bytes"], found["stderr"], "site_bursts")
        self.assertLess(sum_sites_allocated(sites, "site_wakes")["bytes"], 0.05 * true["site_bursts"], sites)
        total = daemon.targets()[target.pid]["allocated_bytes"]
        self.assertAlmostEqual(1, total / sum(true.values()), delta=0.05)

    def test_threads_4(self):
        self.check_threads(FOLDERS["4.13"])

    def test_threads_5(self):
        self.check_threads(FOLDERS["5.3"])

    def test_history_adds_up(self):
        daemon, target, _ = self.run_observed(FOLDERS["4.13"], rounds=30)
        self.settled_sites(daemon, target.pid)
        whole = daemon.ctl_json("sites", "--pid", target.pid, "-s", "allocated")["total"]
        recent = daemon.ctl_json("sites", "--pid", target.pid, "--last", "1h", "-s", "allocated")["total"]
        self.assertAlmostEqual(1, recent["allocated_bytes"] / whole["allocated_bytes"], delta=1e-6)
        self.assertEqual(whole["samples"], recent["samples"])

    def test_the_agent_finds_the_same(self):
        """Runs the same program each way and compares sites."""
        for version, folder in FOLDERS.items():
            with self.subTest(version=version):
                daemon, target, truth = self.run_observed(folder)
                seen = self.settled_sites(daemon, target.pid)
                target.exit()
                other = self.target("known_alloc", folder=folder)
                agent = self.daemon("--pid", other.pid, rate=1e-4)
                self.sample_on_command(agent, other)
                other.command(f"go {ROUNDS}", timeout=120)
                sampled = agent.settled_sites(other.pid)
                for name in SMALL_SITES:
                    one, two = sum_sites_allocated(seen, name), sum_sites_allocated(sampled, name)
                    show(version, name, truth["sites"][name]["allocated_words"] * WORD, one, two)
                    self.assert_within(two["bytes"], one["bytes"],
                                       math.hypot(one["stderr"], two["stderr"]), name)
                other.exit()

    def test_callstacks_are_whole(self):
        daemon, target, _ = self.run_observed(FOLDERS["5.3"], rounds=20)
        for site in self.settled_sites(daemon, target.pid):
            if "site_small" not in site["function"]:
                continue
            functions = [frame["function"] for frame in site["callstack"]]
            self.assertRegex(functions[1], r"Known_alloc\.round")
            return
        self.fail("site_small was not seen")


class Harmless(ObserveTest):
    def test_nothing_is_done_to_the_target(self):
        for version, folder in FOLDERS.items():
            with self.subTest(version=version):
                target = self.target("known_alloc", folder=folder)
                target.command("go 1")
                files = mapped_files(target.pid)
                daemon = self.daemon("--pid", target.pid, "--no-inject")
                self.observed(daemon, target.pid)
                target.command("go 5")
                eventually(lambda: daemon.sites(target.pid), "sites")
                # [uprobes] is the kernel's page for single-stepped instructions.
                self.assertEqual(files, mapped_files(target.pid))
                self.assertEqual("0", proc_status(target.pid, "TracerPid"))
                self.assertEqual(0, daemon.targets()[target.pid]["paused_seconds"])
                self.assertNotIn("memprof_agent", maps(target.pid))
                daemon.detach(target.pid)
                self.assertEqual("detached", daemon.state(target.pid))
                before = daemon.targets()[target.pid]["samples"]
                target.command("go 5")
                self.assertEqual(before, daemon.targets()[target.pid]["samples"])
                self.assertEqual(11, target.command("stat")["rounds"])
                target.exit()

    def test_detach_leaves_no_probe(self):
        target = self.target("known_alloc")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        self.observed(daemon, target.pid)
        target.command("go 1")
        self.assertNotEqual([], altered_code(target.pid))
        daemon.detach(target.pid)
        self.assertEqual([], altered_code(target.pid), "probes are out when the answer comes")
        daemon.attach(target.pid)
        self.observed(daemon, target.pid)

    def test_killed_daemon_leaves_the_target_running(self):
        target = self.target("known_alloc")
        code = code_of(target, "caml_alloc_small_dispatch")
        daemon = self.daemon("--pid", target.pid, "--no-inject")
        self.observed(daemon, target.pid)
        target.command("go 1")
        daemon.stop(signal.SIGKILL)
        self.assertEqual(2, target.command("go 1")["rounds"])
        eventually(lambda: code == code_of(target, "caml_alloc_small_dispatch"), "the code is as it was")
        again = self.daemon("--pid", target.pid, "--no-inject")
        self.observed(again, target.pid)
        target.command("go 5")
        eventually(lambda: again.sites(target.pid), "sites")

    def test_the_end_of_a_target_is_noticed(self):
        target = self.target("known_alloc")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        self.observed(daemon, target.pid)
        target.command("go 5")
        target.exit()
        daemon.wait_state(target.pid, "exited")
        self.assertGreater(daemon.targets()[target.pid]["samples"], 0)


class Programs(ObserveTest):
    def test_static_with_symbols(self):
        target = self.target("static_symbols", folder=FOLDERS["4.13"])
        daemon = self.daemon("--pid", target.pid)
        said = self.observed(daemon, target.pid)
        self.assertIn("no shared GNU C library", said["message"])
        target.command("go 40", timeout=120)
        names = {site["function"] for site in self.settled_sites(daemon, target.pid)}
        self.assertIn("Known_alloc.site_small", names)

    def test_programs_that_use_memprof_themselves(self):
        for version, folder in FOLDERS.items():
            with self.subTest(version=version):
                target = self.target("uses_memprof", folder=folder)
                daemon = self.daemon("--pid", target.pid)
                said = self.observed(daemon, target.pid)
                self.assertIn("uses Gc.Memprof itself", said["message"])
                eventually(lambda: any("allocate" in site["function"] for site in daemon.sites(target.pid)),
                           "its site is seen")
                own = target.exit()
                self.assertAlmostEqual(1e-4, own["samples"] / own["words"], delta=5e-6)

    def test_domains(self):
        target = self.target("domains", folder=FOLDERS["5.3"])
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        self.observed(daemon, target.pid)

        def seen():
            groups = daemon.ctl_json("sites", "--pid", target.pid, "-g", "domain")["sites"]
            return len({group["domain"] for group in groups}) >= 3
        eventually(seen, "several domains are seen")

    def modified_runtime(self):
        """An OCaml 5 program whose runtime keeps a counter 8 bytes later."""
        code = bytearray((FOLDERS["5.3"] / "domains").read_bytes())
        listed = subprocess.run(["objdump", "-dF", "--disassemble=caml_gc_minor_words_unboxed",
                                 FOLDERS["5.3"] / "domains"], capture_output=True, text=True, check=True).stdout
        start = int(re.search(r"File Offset: 0x([0-9a-f]+)", listed)[1], 16)
        place = code.index(STAT_WORDS.to_bytes(4, "little"), start, start + 64)
        code[place:place + 4] = (STAT_WORDS + 8).to_bytes(4, "little")
        program = self.folder / "modified"
        program.write_bytes(code)
        program.chmod(0o755)
        return program.name

    def test_a_modified_runtime_is_not_observed_either(self):
        target = self.target(self.modified_runtime(), folder=self.folder)
        done = self.daemon().attach(target.pid, check=False)
        self.assertEqual(NOT_PROFILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, target.pid, "is a modified build", f"stat_minor_words at {STAT_WORDS + 8}")

    def test_mode_agent_refuses_instead(self):
        daemon = self.daemon("--mode", "agent", "--no-inject")
        target = self.target("known_alloc")
        done = daemon.attach(target.pid, check=False)
        self.assertEqual(NOT_PROFILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, target.pid, "injection is forbidden")
        done = daemon.ctl("attach", "--pid", target.pid, "--mode", "observe")
        self.assertIn("observe mode: asked for", done.stdout)
        self.observed(daemon, target.pid)


class Unknown(ObserveTest):
    """Unknown values are never shown as numbers."""

    def setUp(self):
        super().setUp()
        self.program = self.target("known_alloc", folder=FOLDERS["4.13"])
        self.memprofd = self.daemon("--pid", self.program.pid, "--no-inject")
        self.observed(self.memprofd, self.program.pid)
        self.program.command("go 10")
        eventually(lambda: self.memprofd.sites(self.program.pid), "sites")

    def test_metrics(self):
        metrics = self.memprofd.metrics()
        pid = self.program.pid
        self.assertEqual("observe", metrics.find("memprofd_target_info", pid=pid)[0].labels["mode"])
        for name in ("memprofd_live_bytes", "memprofd_promoted_bytes_total", "memprofd_live_samples",
                     "memprofd_deallocated_bytes_total", "memprofd_sampling_rate",
                     "memprofd_site_live_bytes", "memprofd_site_promoted_bytes_total",
                     "memprofd_site_lifetime_seconds_count", "memprofd_ocaml_gc_pause_seconds_count"):
            self.assertEqual([], metrics.find(name, pid=pid), name)
        self.assertGreater(metrics.total("memprofd_allocated_bytes_total", pid=pid), 1e6)
        self.assertGreater(metrics.total("memprofd_site_allocated_bytes_total", pid=pid), 1e6)
        self.assertGreater(metrics.value("memprofd_ocaml_minor_collections_total", pid=pid), 0)
        self.assertGreater(metrics.value("memprofd_ocaml_heap_bytes", pid=pid), 0)

    def test_tables_and_report(self):
        for line in self.memprofd.ctl("targets").stdout.splitlines():
            if line.split()[0] == str(self.program.pid):
                self.assertIn("observe mode: ", line)
                self.assertRegex(line, r"sampling +kernel +- ")
        sites = self.memprofd.ctl("sites", "--pid", self.program.pid).stdout.splitlines()
        self.assertRegex(sites[1], r"^ *- ")
        report = self.memprofd.ctl("report", "--pid", self.program.pid).stdout
        self.assertIn("observe mode", report)
        self.assertIn("sorted by allocated", report)
        self.assertNotRegex(report, r"\d live ")
        document = self.memprofd.ctl_json("sites", "--pid", self.program.pid)
        for key in ("live_bytes", "promoted_bytes", "lifetime_seconds"):
            self.assertNotIn(key, document["sites"][0])
            self.assertNotIn(key, document["target"])

    def test_questions_that_need_more(self):
        pid = self.program.pid
        for command in (["report", "--pid", pid, "--leaks"], ["report", "--pid", pid, "-o", "pprof"],
                        ["history", "--pid", pid], ["sites", "--pid", pid, "--min-lifetime", "1s"],
                        ["events", "--pid", pid], ["callers", "round", "--pid", pid]):
            with self.subTest(command=command[0]):
                done = self.memprofd.ctl(*command, "--out", "/dev/null", check=False) \
                    if "pprof" in command else self.memprofd.ctl(*command, check=False)
                self.assertEqual(NOT_PROFILABLE, done.returncode, done.stderr + done.stdout)
                self.assert_one_line(done.stderr, pid, "observe mode", "unknown")
        done = self.memprofd.set_rate(pid, 1e-4, check=False)
        self.assertEqual(NOT_PROFILABLE, done.returncode)
        self.assert_one_line(done.stderr, pid, "no sampling rate")

    def test_questions_that_can_be_answered(self):
        pid = self.program.pid
        history = self.memprofd.ctl_json("history", "--pid", pid, "-s", "allocated")
        self.assertTrue(history)
        self.memprofd.ctl("callers", "round", "--pid", pid, "-s", "allocated")
        collapsed = self.memprofd.ctl("report", "--pid", pid, "-o", "collapsed", "-s", "allocated").stdout
        self.assertIn("Known_alloc.site_small", collapsed)
        self.memprofd.ctl("report", "--pid", pid, "-o", "pprof", "-s", "allocated",
                          "--out", self.folder / "allocs.pb.gz")
        text = gzip.decompress((self.folder / "allocs.pb.gz").read_bytes())
        self.assertIn(b"Known_alloc.site_small", text)
        for form in ("speedscope", "html"):
            path = self.folder / f"allocs.{form}"
            self.memprofd.ctl("report", "--pid", pid, "-o", form, "--out", path)
            self.assertIn("Known_alloc.site_small", path.read_text())
        profiles = json.loads((self.folder / "allocs.speedscope").read_text())["profiles"]
        self.assertEqual(["allocated"], [profile["name"] for profile in profiles])
        status, text = harness.http_get(self.memprofd.url + f"/debug/pprof/heap?pid={pid}")
        self.assertNotEqual(200, status)
        self.assertIn("observe mode", text)


def show(version, name, true, *estimates):
    """Prints a line of the table in docs/internals/sampling.md."""
    cells = [f"{e['bytes'] / true - 1:+.1%} ± {e['stderr'] / true:.1%}" for e in estimates]
    print(f"{version} {name}: {true / 2**20:.0f} MiB;", "; ".join(cells), flush=True)


def minor_words(truth):
    """Words that the rounds allocated in the minor heap."""
    sites = truth["sites"]
    return sum(sites[name]["allocated_words"] for name in SMALL_SITES)


def sum_sites_allocated(sites, function):
    chosen = [s for s in sites if s["function"].split(".")[-1] == function or
              any(f["function"].endswith("." + function) for f in s["callstack"][:3])]
    return {"samples": sum(s["samples"] for s in chosen),
            "bytes": sum(s["allocated_bytes"] for s in chosen),
            "stderr": math.sqrt(sum(s["allocated_bytes_stderr"] ** 2 for s in chosen))}


def code_of(target, symbol):
    """The first bytes of a function in the process."""
    program = pathlib.Path(f"/proc/{target.pid}/exe").resolve()
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(f" T {symbol}"))
    base = next(int(line.split("-")[0], 16) for line in maps(target.pid).splitlines()
                if line.endswith(str(program)))
    with open(f"/proc/{target.pid}/mem", "rb") as memory:
        memory.seek(base + address)
        return memory.read(16)


if __name__ == "__main__":
    unittest.main()
