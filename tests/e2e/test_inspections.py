# SPDX-License-Identifier: Apache-2.0
"""A program that takes long to inspect, because a file of its code is on a hung file system.

Other targets are served meanwhile, requests get an answer, and memprofd can end.
"""

import os
import signal
import subprocess
import unittest

import harness
from harness import BUILD, ROOT, UNAVAILABLE, E2ETest, Process, eventually, sum_sites
from stepping import SteppedDaemon

RATE = 1e-3
LOOK_BUDGET = 30  # daemon/control/inspection.h


class SlowFile(E2ETest):
    """A hung file system, and a library that maps its file as code."""

    FILE_SYSTEM = ("--async",)

    def setUp(self):
        super().setUp()
        self.other = self.target("known_alloc")
        self.file_system = self.mount()
        library = self.folder / "map_file.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, ROOT / "tests/e2e/programs/map_file.c"], check=True)
        self.map_env = dict(os.environ, MAP_FILE=str(self.folder / "mount/page"), LD_PRELOAD=str(library),
                            MAP_DONE=str(self.folder / "mapped"))

    def mount(self):
        """Clean-up ends it before all others, which frees what waits for it."""
        folder = self.folder / "mount"
        folder.mkdir()
        server = self.process(Process([ROOT / "tests/hostile/fuse_hang.py", *self.FILE_SYSTEM, folder]))
        self.assertRegex(server.read_line(), "^ready ")
        self.addCleanup(server.kill)
        return server

    def samples(self, target):
        return sum_sites(self.memprofd.sites(target.pid), "site_small")["samples"]

    def assert_fresh(self, target):
        before = self.samples(target)
        target.command("go 1")
        eventually(lambda: self.samples(target) > before, f"the numbers of pid {target.pid} go on")

    def profiled_other(self):
        self.memprofd = self.daemon(rate=RATE)
        self.memprofd.attach(self.other.pid)
        self.sample_on_command(self.memprofd, self.other)

    def assert_others_go_on(self):
        another = self.target("known_alloc")
        self.memprofd.attach(another.pid)
        self.sample_on_command(self.memprofd, another)
        self.assert_fresh(another)
        self.memprofd.set_rate(another.pid, 2 * RATE)
        self.sample_on_command(self.memprofd, another)
        self.memprofd.detach(another.pid)
        self.assert_fresh(self.other)


class SlowLooks(SlowFile):
    def slow_target(self):
        target = self.target("busy_threads", env=self.map_env)
        eventually((self.folder / "mapped").exists, "the file is mapped")
        return target

    def attach_in_background(self, target):
        attach = self.process(Process([BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket,
                                       "attach", "--pid", target.pid]))
        self.assertRegex(self.file_system.read_line(), "^read 0 ")
        return attach

    def assert_answer(self, attach, code, *words):
        self.assertEqual(code, attach.wait(timeout=2 * LOOK_BUDGET), attach.stderr())
        self.assert_one_line(attach.stderr(), *words)

    def test_others_go_on_until_it_is_given_up(self):
        self.profiled_other()
        slow = self.slow_target()
        attach = self.attach_in_background(slow)
        doctor = self.process(Process([BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket,
                                       "doctor", "--pid", slow.pid]))
        self.assert_others_go_on()
        self.assert_one_line(self.memprofd.attach(slow.pid, check=False).stderr, slow.pid, "already")
        self.assert_answer(attach, UNAVAILABLE, f"pid {slow.pid}", f"{LOOK_BUDGET} s", "took longer", "file system")
        self.assertEqual(harness.NOT_PROFILABLE, doctor.wait(timeout=2 * LOOK_BUDGET), doctor.stderr())
        eventually(lambda: f"pid {slow.pid}: the inspection of the program took longer than {LOOK_BUDGET} s, or"
                   in "".join(doctor.output), "the doctor says why")
        self.assert_others_go_on()
        self.assertNotIn("starting again", self.memprofd.said())
        self.file_system.send("answer")
        self.memprofd.attach(slow.pid)
        self.memprofd.wait_state(slow.pid, "sampling")

    def test_it_is_sampled_once_the_file_answers(self):
        self.profiled_other()
        slow = self.slow_target()
        attach = self.attach_in_background(slow)
        self.file_system.send("answer")
        self.assertEqual(harness.OK, attach.wait(), attach.stderr())
        self.memprofd.wait_state(slow.pid, "sampling")
        self.assert_works_on(slow)

    def test_detach_while_it_is_looked_at(self):
        self.profiled_other()
        slow = self.slow_target()
        attach = self.attach_in_background(slow)
        self.memprofd.detach(slow.pid)
        self.assert_answer(attach, harness.UNAVAILABLE, f"pid {slow.pid}", "detached")
        self.assertNotIn(slow.pid, self.memprofd.targets())
        self.assert_others_go_on()

    def test_memprofd_ends_meanwhile(self):
        self.profiled_other()
        attach = self.attach_in_background(self.slow_target())
        self.assertEqual(harness.OK, self.memprofd.stop())
        self.assert_answer(attach, harness.UNAVAILABLE, "stopping")
        self.other.command("go 1")

    def test_memprofd_ends_while_it_starts(self):
        slow = self.slow_target()
        self.memprofd = self.daemon("--pid", slow.pid, rate=RATE, wait=False)
        self.assertRegex(self.file_system.read_line(), "^read 0 ")
        self.assertEqual(harness.OK, self.memprofd.stop())
        self.assert_works_on(slow)


class HeldLooks(SlowLooks):
    """A file system on which the kernel holds the inspection's thread, even against SIGKILL."""

    FILE_SYSTEM = ()

    def memprofd_ends_when_the_file_answers(self):
        """memprofd first undoes all changes to targets."""
        self.memprofd.send_signal(signal.SIGTERM)
        eventually(lambda: f"pid {self.other.pid}: memprofd stops" in self.memprofd.said(), "it detaches")
        self.file_system.send("answer")
        self.assertEqual(harness.OK, self.memprofd.wait())

    def test_memprofd_ends_meanwhile(self):
        self.profiled_other()
        attach = self.attach_in_background(self.slow_target())
        self.memprofd_ends_when_the_file_answers()
        self.assert_answer(attach, harness.UNAVAILABLE, "stopping")

    def test_memprofd_ends_while_it_starts(self):
        slow = self.slow_target()
        self.memprofd = self.daemon("--pid", self.other.pid, "--pid", slow.pid, rate=RATE, wait=False)
        self.assertRegex(self.file_system.read_line(), "^read 0 ")
        self.memprofd_ends_when_the_file_answers()


class OneLook(E2ETest):
    """An attach inspects the program once in every mode. Each inspection opens a pidfd."""

    def assert_one_look(self, name, mode, *options, folder=None):
        target = self.target(*name.split(), folder=folder)
        daemon = self.process(SteppedDaemon(self.folder, *options, rate=RATE))
        daemon.stop_at(1_000_000, "pidfd_open")  # counted, never held
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual({"pidfd_open": 1}, daemon.off())
        self.assertEqual(mode, daemon.targets()[target.pid]["mode"])
        target.exit()

    def test_with_an_agent(self):
        self.assert_one_look("busy_threads", "agent")

    def test_observe_mode_on_request(self):
        self.assert_one_look("busy_threads", "observe", "--mode", "observe")

    def test_observe_mode_as_no_agent_can_be_there(self):
        self.assert_one_look("busy_threads", "observe", "--no-inject")
        self.assert_one_look("seccomp kills 101", "observe")  # it has a filter itself

    def test_observe_mode_as_the_agent_cannot_sample(self):
        self.assert_one_look("uses_memprof", "observe")
        self.assert_one_look("uses_memprof", "observe", folder=harness.TARGETS5)


class SlowLooksAtChildren(SlowFile):
    """A target maps the file after the attach. Inspections of its children then hang one by one,
    without delaying others."""

    GIVEN_UP = 2  # ForkFamily::kMaxGivenUp, daemon/control/forked_children.h

    def child_of(self, target):
        pid = target.command("fork")["pid"]
        self.addCleanup(harness.kill, pid)
        return pid

    def attached(self, **options):
        target = self.target("forks", **options)
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        return target

    def slow_target(self):
        target = self.attached(env=dict(self.map_env, MAP_FILE=str(self.folder / "appears")))
        (self.folder / "appears").symlink_to(self.folder / "mount/page")
        eventually((self.folder / "mapped").exists, "the file is mapped")
        return target

    def test_children_of_others_are_followed(self):
        self.memprofd = self.daemon("--follow-forks", rate=RATE)
        other = self.attached()
        slow = self.slow_target()
        children = [self.child_of(slow) for _ in range(self.GIVEN_UP + 2)]
        self.assertRegex(self.file_system.read_line(), "^read 0 ")
        self.memprofd.wait_state(self.child_of(other), "sampling")
        self.assertNotIn("inspections of", self.memprofd.said())
        eventually(lambda: "not followed, inspections" in self.memprofd.said(), "its children are left alone",
                   timeout=(self.GIVEN_UP + 1) * LOOK_BUDGET)
        self.memprofd.wait_state(self.child_of(other), "sampling")
        self.assertFalse(set(children) & set(self.memprofd.targets()))
        slow.kill()


class SlowPluginLooks(SlowFile):
    """A sampled target maps the file and then loads a plugin, which causes another inspection."""

    FOLDER = harness.TARGETS / "plugins"

    def slow_target(self):
        return self.target("plugin_host", env=dict(self.map_env, MAP_FILE=str(self.folder / "appears")),
                           folder=self.FOLDER)

    def look_again(self, target):
        """Waits until the inspection for plugins hangs."""
        self.memprofd.attach(target.pid)
        self.sample_on_command(self.memprofd, target)
        (self.folder / "appears").symlink_to(self.folder / "mount/page")
        eventually((self.folder / "mapped").exists, "the file is mapped")
        target.command(f"load {self.FOLDER / 'plugin_late.cmxs'}")
        self.assertRegex(self.file_system.read_line(), "^read 0 ")

    def test_others_go_on_until_it_is_given_up(self):
        self.profiled_other()
        slow = self.slow_target()
        self.look_again(slow)
        self.assert_others_go_on()
        eventually(lambda: "search for plugins took longer" in self.memprofd.said(), "it is given up",
                   timeout=2 * LOOK_BUDGET)
        self.assertNotIn("starting again", self.memprofd.said())
        self.assertEqual("sampling", self.memprofd.state(slow.pid))

    def test_it_is_sampled_once_the_file_answers(self):
        self.profiled_other()
        slow = self.slow_target()
        self.look_again(slow)
        self.assertNotIn("plugin_late.cmxs has", self.memprofd.said())
        self.file_system.send("answer")
        eventually(lambda: "plugin_late.cmxs has" in self.memprofd.said(), "the plugin is known")

    def test_detach_while_it_is_looked_at(self):
        self.profiled_other()
        slow = self.slow_target()
        self.look_again(slow)
        self.memprofd.detach(slow.pid)
        self.assertEqual("detached", self.memprofd.state(slow.pid))
        self.assert_others_go_on()

    def test_memprofd_ends_meanwhile(self):
        self.profiled_other()
        self.look_again(self.slow_target())
        self.assertEqual(harness.OK, self.memprofd.stop())


class ProgramOnAFileSystemThatHangs(SlowFile):
    """The file of a sampled program is on the file system; the kernel caches its pages, but not its
    attributes."""

    FOLDER = harness.TARGETS / "plugins"
    FILE_SYSTEM = ("--async", "--ask-again")

    def mount(self):
        self.file_of_it = self.folder / "mount/page"
        folder = self.file_of_it.parent
        folder.mkdir()
        server = self.process(Process([ROOT / "tests/hostile/fuse_hang.py", *self.FILE_SYSTEM, folder,
                                       self.FOLDER / "plugin_host"]))
        self.assertRegex(server.read_line(), "^ready ")
        server.send("answer")
        self.addCleanup(server.kill)
        return server

    def sampled_target(self):
        (self.folder / "plugin_host").symlink_to(self.file_of_it)
        target = self.target("plugin_host", self.FOLDER / "plugin_early.cmxs", folder=self.folder)
        self.memprofd.attach(target.pid)
        self.sample_on_command(self.memprofd, target)
        self.file_of_it.read_bytes()  # all its pages are kept
        return target

    def test_others_go_on_and_memprofd_ends(self):
        self.profiled_other()
        target = self.sampled_target()
        self.file_system.send_signal(signal.SIGSTOP)
        self.addCleanup(self.file_system.send_signal, signal.SIGCONT)
        target.send(f"load {self.FOLDER / 'plugin_late.cmxs'}")
        eventually(lambda: "plugin_late.cmxs has" in self.memprofd.said(), "the plugin is known")
        self.memprofd.set_rate(target.pid, 2 * RATE)
        self.assert_others_go_on()
        self.memprofd.send_signal(signal.SIGTERM)
        for pid in (target.pid, self.other.pid):
            eventually(lambda: f"pid {pid}: memprofd stops" in self.memprofd.said(), "it is let go")
        # The kernel closes the program's file for it, which asks the file system.
        self.file_system.send_signal(signal.SIGCONT)
        self.assertEqual(harness.OK, self.memprofd.wait())


if __name__ == "__main__":
    unittest.main()
