# SPDX-License-Identifier: Apache-2.0
"""Targets in other mount, pid and user namespaces, and in a chroot."""

import os
import pathlib
import random
import resource
import signal
import time
import unittest

import harness
from containers import Contained, files, make_root, unshared
from descriptors import leave_descriptors
from harness import NOT_PROFILABLE, E2ETest, children, eventually, proc_status, sum_sites


class Container(E2ETest):
    RATE = 1e-3

    def setUp(self):
        super().setUp()
        self.root = make_root(self.folder / "root", *map(self.program, ("known_alloc", "busy_threads", "seccomp")))

    def program(self, name):
        return harness.TARGETS / name

    def contained(self, command, name="known_alloc", *arguments):
        return self.process(Contained(command, f"/app/{name}", *arguments))

    def check_sampled(self, daemon, target):
        """Its sites exist with the expected sizes."""
        self.sample_on_command(daemon, target)
        before = target.command("stat")["sites"]["site_small"]["allocated_words"]
        truth = target.command("go 4")["sites"]["site_small"]["allocated_words"] - before
        sites = daemon.settled_sites(target.pid)
        self.assert_estimate("site_small", sum_sites(sites, "site_small")["allocated_bytes"], truth, self.RATE)
        found = [s for s in sites if s["function"].endswith("site_small")]
        self.assertTrue(found[0]["file"].endswith("known_alloc.ml"), found)

    def check_nothing_left(self, target, before):
        self.assertEqual(before, files(self.root))
        fds = [p.readlink() for p in pathlib.Path(f"/proc/{target.pid}/fd").iterdir()]
        self.assertFalse([str(fd) for fd in fds if "memprof" in str(fd)])
        self.assertEqual("0", proc_status(target.pid, "TracerPid"))

    def test_other_mount_pid_and_user_namespace(self):
        target = self.contained(unshared(self.root))
        self.assertNotEqual(target.pid, target.inner_pid)
        before = files(self.root)
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        self.check_sampled(daemon, target)
        self.check_nothing_left(target, before)
        self.assertEqual([], daemon.targets()[target.pid]["drops"])
        self.assertEqual(target.inner_pid, daemon.targets()[target.pid]["container_pid"])
        self.assertIn(f"{target.pid} ({target.inner_pid})", daemon.ctl("targets").stdout)
        maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
        self.assertIn("/memfd:memprof_agent (deleted)", maps)
        daemon.detach(target.pid)
        target.command("go 1")
        self.check_nothing_left(target, before)
        target.exit()

    def test_a_filter_of_seccomp_that_lets_the_agent_in(self):
        target = self.contained(unshared(self.root), "seccomp", "kills", "101")
        daemon = self.daemon("--pid", target.pid, "--mode", "agent", rate=1e-2)
        eventually(lambda: target.command("wake") and daemon.state(target.pid) == "sampling", "it is sampled")
        self.assertIn("/memfd:memprof_agent (deleted)", pathlib.Path(f"/proc/{target.pid}/maps").read_text())
        daemon.detach(target.pid)
        self.assertEqual("awake", target.command("wake"))
        target.exit()

    def test_a_snapshot(self):
        """Takes a snapshot of a program with another pid, root and user than memprofd."""
        target = self.contained(unshared(self.root), "busy_threads")
        before = files(self.root)
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        daemon.wait_state(target.pid, "sampling")
        for _ in range(3):
            path = self.folder / "a.heap"
            daemon.ctl("snapshot", "take", "--pid", target.pid, "--max-pause", "10s", "--out", path)
            retained = daemon.ctl("snapshot", "retained", path, "-n", 0).stdout
            self.assertIn("Busy_threads", retained)
            self.assertIn("thread 8", retained)
            eventually(lambda: not children(target.pid), "the copy has been collected")
        self.assertEqual(harness.OK, daemon.detach(target.pid).returncode)
        self.check_nothing_left(target, before)
        self.assert_works_on(target)

    def test_attached_again_uses_the_agent_that_is_there(self):
        target = self.contained(unshared(self.root))
        for _ in range(3):
            daemon = self.daemon("--pid", target.pid, rate=self.RATE)
            self.check_sampled(daemon, target)
            lost = {d["reason"] for d in daemon.targets()[target.pid]["drops"]}
            self.assertLessEqual(lost, harness.DROPS_OF_BEFORE)
            daemon.stop()
        maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
        copies = {line.split()[4] for line in maps.splitlines() if "memprof_agent" in line}
        self.assertEqual(1, len(copies), maps)
        target.exit()

    def test_the_copy_is_small(self):
        """The copy is written during a pause, and stays in memory, so it is small."""
        target = self.contained(unshared(self.root))
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        self.sample_on_command(daemon, target)
        copies = {os.stat(f"/proc/{target.pid}/map_files/{line.split()[0]}").st_size
                  for line in harness.mappings(target.pid) if "/memfd:memprof_agent" in line}
        self.assertEqual(1, len(copies))
        self.assertLess(max(copies), 256 << 10)
        target.exit()

    def test_an_upgrade_loads_another_copy(self):
        target = self.contained(unshared(self.root))
        for build in (4, 5, None):
            daemon = self.daemon("--pid", target.pid, rate=self.RATE)
            self.check_sampled(daemon, target)
            daemon.stop()
            if build is not None:
                self.assertEqual(1, harness.make_agent_old(target.pid, build))
        copies = {line.split()[4] for line in harness.mappings(target.pid) if "memprof_agent" in line}
        self.assertEqual(3, len(copies))
        target.exit()

    def test_without_descriptors_for_the_copy(self):
        """Needs one descriptor for the copy and one for the dynamic linker."""
        target = self.contained(unshared(self.root), "busy_threads")
        before = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
        daemon = self.daemon(rate=self.RATE)
        for free in (0, 1):
            leave_descriptors(target.pid, free)
            why = daemon.refusal(target.pid, "--mode", "agent")
            self.assert_one_line(why, target.pid, "descriptor" if free else "Too many open files", "prlimit --nofile")
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, before)
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual(0, target.exit()["errors"])

    def test_mount_namespace_alone(self):
        """With the same root, the agent's own file is visible and used."""
        target = self.process(Contained(["unshare", "--mount", "--fork", "--kill-child"], self.program("known_alloc")))
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        self.check_sampled(daemon, target)
        self.assertEqual(0, daemon.targets()[target.pid]["container_pid"])
        self.assertNotIn("/memfd:", pathlib.Path(f"/proc/{target.pid}/maps").read_text())
        target.exit()

    def test_chroot_without_proc_is_observed_and_the_remedy_said(self):
        target = self.process(Contained(["chroot", self.root], "/app/known_alloc"))
        daemon = self.daemon()
        done = daemon.ctl("attach", "--pid", target.pid, "--mode", "agent", check=False)
        self.assertEqual(NOT_PROFILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, target.pid, "/proc", "preload")
        done = daemon.attach(target.pid)
        self.assert_one_line(done.stdout, target.pid, "observe mode", "/proc", "preload")
        self.assertEqual(1, target.command("go 1")["rounds"])

    def test_chroot_with_proc(self):
        command = ["unshare", "--mount", "--fork", "--kill-child", f"--mount-proc={self.root}/proc", "chroot", self.root]
        target = self.process(Contained(command, "/app/known_alloc"))
        before = files(self.root)
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        self.check_sampled(daemon, target)
        self.check_nothing_left(target, before)
        target.exit()

    def test_threads_under_load_and_daemons_that_die(self):
        """memprofd killed at any step leaves the program working; the next one attaches."""
        target = self.contained(unshared(self.root), "busy_threads")
        for seed in range(12):
            first = self.daemon("--pid", target.pid, rate=1e-3, wait=False)
            time.sleep(random.Random(seed).uniform(0, 0.6))  # the fault, not a wait
            first.stop(signal.SIGKILL)
            before = target.command("stat")["requests"]
            eventually(lambda: target.command("stat")["requests"] > before + 100, f"seed {seed}: it works on")
            self.assertEqual(0, target.command("stat")["errors"])
        last = self.daemon("--pid", target.pid, rate=1e-3)
        last.wait_state(target.pid, "sampling")
        eventually(lambda: last.sites(target.pid), "samples")
        self.assertEqual(0, target.exit()["errors"])


class ContainerOfOtherLibc(Container):
    """OCaml 5.3 with its own C library."""

    def program(self, name):
        return harness.TARGETS5 / name

    def test_an_upgrade_loads_another_copy(self):
        """Not on OCaml 5, where the program is observed."""
        target = self.contained(unshared(self.root))
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        self.check_sampled(daemon, target)
        daemon.stop()
        self.assertEqual(1, harness.make_agent_old(target.pid, 4))
        daemon = self.daemon("--pid", target.pid, rate=self.RATE)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual("observe", daemon.targets()[target.pid]["mode"])
        target.exit()


if __name__ == "__main__":
    unittest.main()
