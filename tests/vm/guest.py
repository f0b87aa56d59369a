# SPDX-License-Identifier: Apache-2.0
"""What memprofd does on the kernel that runs it: in the guests of tests/vm/kernels.py.

One that is no guest is tested by tests/run.py --module tests/vm/guest.py --report FILE.
"""

import os
import pathlib
import re
import subprocess
import unittest

import answers
import harness
from harness import OK, PRIVILEGES, TARGETS, TARGETS5, UNAVAILABLE, E2ETest, eventually

# What the kernel is able to, by its version and not by what memprofd says.
RELEASE = os.uname().release
WALKS = tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", RELEASE).groups()) >= (5, 17)
RATE = 1e-3
LOW_RATE = 1e-5
ENOUGH = 30  # samples
PTRACE_SCOPE = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
LOCKDOWN = pathlib.Path("/sys/kernel/security/lockdown")


class GuestTest(E2ETest):
    def busy(self):
        return self.busy_target(("busy_threads",))

    def refused(self, *arguments, words):
        """memprofd ends at once, and says why in one line."""
        daemon = self.daemon(*arguments, wait=False)
        self.assertEqual(PRIVILEGES, daemon.wait(), daemon.said())
        self.assert_one_line(daemon.stderr(), *words)

    def named_samples(self, daemon, target, source):
        """How many were seen whose site is a line of that source, none of all being lost."""
        def enough():
            named = [site for site in daemon.sites(target.pid) if site["file"].endswith(source) and site["line"] > 0]
            samples = sum(site["samples"] for site in named)
            return samples if samples >= ENOUGH else 0
        samples = eventually(enough, f"{ENOUGH} samples of {source}")
        self.assertEqual(0, daemon.targets()[target.pid]["dropped_events"])
        return samples

    def sampled(self, daemon, target, capture, source="busy_threads.ml"):
        daemon.wait_state(target.pid, "sampling")
        info = daemon.targets()[target.pid]
        self.assertEqual(("agent", capture), (info["mode"], info["capture"]), info)
        harness.NOTES.append(f"{self.named_samples(daemon, target, source)} samples by the {capture}'s capture")

    def findings(self, done):
        return {f["subject"]: f for f in answers.answer(done.stdout)["findings"]}

    def check_findings(self, findings, *problems):
        """Of the kernel; whether it walks is the only thing that these differ in."""
        self.assertEqual(f"Linux {RELEASE}", findings["kernel"]["detail"])
        walk = findings["BPF loop helper"]
        self.assertEqual("ok" if WALKS else "warning", walk["level"], walk)
        if not WALKS:
            self.assertIn("the runtime captures callstacks", walk["detail"])
            self.assertIn("5.17", walk["remedy"])
        wrong = {name for name, finding in findings.items() if finding["level"] == "problem"}
        self.assertEqual(set(problems), wrong, findings)


class Doctor(GuestTest):
    def test_without_memprofd(self):
        done = harness.memprofctl("--grpc.socket", self.folder / "none.sock", "doctor", "-o", "json", check=False)
        self.assertEqual(UNAVAILABLE, done.returncode, done.stderr)
        self.check_findings(self.findings(done), "daemon")

    def test_with_memprofd(self):
        target = self.target("busy_threads")
        done = self.daemon().ctl("doctor", "--pid", target.pid, "-o", "json", check=False)
        self.assertEqual(OK, done.returncode, done.stdout)
        findings = self.findings(done)
        self.check_findings(findings)
        self.assertEqual(WALKS, "capture probe" in findings)
        self.assertIn("agent, by injection", findings["mode"]["detail"])


class SafePoint(GuestTest):
    def test_who_knocks_and_who_gets_the_signal(self):
        done = subprocess.run([harness.BUILD / "tests/kernel_tests", "--gtest_filter=SafePointTest.*"],
                              capture_output=True, text=True, timeout=harness.TIMEOUT, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        passed = int(re.search(r"PASSED  \] (\d+) test", done.stdout).group(1))
        self.assertGreaterEqual(passed, 8)  # one takes two processors


class Agent(GuestTest):
    def test_runtime_capture_detach_and_again(self):
        target, expected = self.busy()
        daemon = self.daemon("--pid", target.pid, "--capture", "runtime", rate=RATE)
        self.sampled(daemon, target, "runtime")
        daemon.detach(target.pid)
        self.assert_works_on(target)
        daemon.attach(target.pid, RATE / 2)
        self.sampled(daemon, target, "runtime")
        self.assertEqual(OK, daemon.stop())
        self.assert_works_on(target)
        self.assert_same_output(target, expected)

    def test_default_capture_at_a_low_rate(self):
        target, expected = self.busy()
        daemon = self.daemon("--pid", target.pid, rate=LOW_RATE)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual("runtime", daemon.targets()[target.pid]["capture"])
        self.assertEqual(OK, daemon.stop())
        self.assert_same_output(target, expected)

    @unittest.skipUnless(WALKS, "this kernel does not walk callstacks")
    def test_kernel_capture(self):
        target, expected = self.busy()
        daemon = self.daemon("--pid", target.pid, "--capture", "kernel", rate=RATE)
        self.sampled(daemon, target, "kernel")
        self.assertEqual(OK, daemon.stop())
        self.assert_same_output(target, expected)

    def test_domains_of_ocaml_5(self):
        target = self.target("domains", "0", "2", "1", folder=TARGETS5)
        daemon = self.daemon("--pid", target.pid, rate=RATE)
        self.sampled(daemon, target, "runtime", "domains.ml")
        self.assertEqual(OK, daemon.stop())
        self.assert_works_on(target)
        target.exit()

    def test_a_child_is_followed(self):
        target = self.target("forks")
        daemon = self.daemon("--pid", target.pid, "--follow-forks", rate=RATE)
        daemon.wait_state(target.pid, "sampling")
        child = target.command("fork")["pid"]
        daemon.wait_state(child, "sampling")
        self.assertEqual(OK, daemon.stop())
        target.exit()

    def test_budget(self):
        target, expected = self.busy()
        daemon = self.daemon("--pid", target.pid, "--max-overhead", "1%", rate=RATE)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual(OK, daemon.stop())
        self.assert_same_output(target, expected)

    def test_snapshot(self):
        target = self.target("known_alloc")
        daemon = self.daemon("--pid", target.pid, rate=RATE)
        self.sample_on_command(daemon, target)
        target.command("go 2")
        taking = self.process(harness.Process(
            [harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take", "--max-pause", "60s", "--out",
             self.folder / "heap"]))
        # It takes place at a safe point, which the program comes to when it collects.
        eventually(lambda: target.command("minor") and not taking.running(), "the snapshot is taken")
        self.assertEqual(OK, taking.wait(), taking.stderr())
        self.assertGreater((self.folder / "heap").stat().st_size, 0)
        self.assertEqual(OK, daemon.stop())
        target.exit()


class Observe(GuestTest):
    @unittest.skipUnless(WALKS, "this kernel does not walk callstacks")
    def test_sites_are_seen(self):
        for folder in (TARGETS, TARGETS5):
            target = self.target("known_alloc", folder=folder)
            daemon = self.daemon("--pid", target.pid, "--mode", "observe")
            daemon.wait_state(target.pid, "sampling")
            target.command("go 60")
            self.named_samples(daemon, target, "known_alloc.ml")
            self.assertEqual(OK, daemon.stop())
            target.exit()


@unittest.skipIf(WALKS, "this kernel walks callstacks")
class WithoutWalks(GuestTest):
    def test_what_needs_them_is_refused(self):
        self.refused("--capture", "kernel", words=("--capture kernel", "loop helper", "boot Linux 5.17"))
        self.refused("--mode", "observe", words=("--mode observe", "loop helper", "boot Linux 5.17"))

    def test_no_program_is_observed(self):
        target = self.target("known_alloc")
        daemon = self.daemon()
        done = daemon.ctl("attach", "--pid", target.pid, "--mode", "observe", check=False)
        self.assertEqual(PRIVILEGES, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, f"pid {target.pid} cannot be observed", "loop helper", "boot Linux 5.17")
        target.command("go 1")
        target.exit()


# The last ones in the order of their names: they leave a machine that has to be booted again.
@unittest.skipUnless(os.environ.get("MEMPROFD_GUEST") == "1", "changes the machine")
class YamaAndTypes(GuestTest):
    def doctor_alone(self):
        return self.findings(
            harness.memprofctl("--grpc.socket", self.folder / "none.sock", "doctor", "-o", "json", check=False))

    def test_1_no_types_of_the_kernel(self):
        empty = self.folder / "empty"
        empty.touch()
        types = "/sys/kernel/btf/vmlinux"
        subprocess.run(["/bin/busybox", "mount", "-o", "bind", empty, types], check=True)
        try:
            target, expected = self.busy()
            daemon = self.daemon("--pid", target.pid, rate=RATE)
            self.sampled(daemon, target, "runtime")
            finding = self.findings(daemon.ctl("doctor", "-o", "json", check=False))["kernel type information"]
            self.assertEqual("warning", finding["level"], finding)
            self.assertEqual(OK, daemon.stop())
            self.assert_same_output(target, expected)
        finally:
            subprocess.run(["/bin/busybox", "umount", types], check=True)

    def test_2_lockdown_of_integrity(self):
        LOCKDOWN.write_text("integrity")
        target, expected = self.busy()
        daemon = self.daemon("--pid", target.pid, rate=RATE)
        self.sampled(daemon, target, "runtime")
        finding = self.findings(daemon.ctl("doctor", "-o", "json", check=False))["kernel lockdown"]
        self.assertEqual(("ok", "integrity; uses nothing that it forbids"), (finding["level"], finding["detail"]))
        self.assertEqual(OK, daemon.stop())
        self.assert_same_output(target, expected)

    def test_3_lockdown_of_confidentiality(self):
        LOCKDOWN.write_text("confidentiality")
        self.refused(words=("kernel lockdown: confidentiality", "boot with lockdown=integrity or none"))
        self.check_findings(self.doctor_alone(), "daemon", "kernel lockdown")

    def test_4_ptrace_scope_3(self):
        PTRACE_SCOPE.write_text("3")
        self.refused(words=("ptrace scope: 3", "ptrace_scope", "2 or less"))
        self.check_findings(self.doctor_alone(), "daemon", "kernel lockdown", "ptrace scope")


if __name__ == "__main__":
    unittest.main()
