# SPDX-License-Identifier: Apache-2.0
"""Processes that fork, become daemons, exec, rest, or end at once."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
import unittest

import harness
from containers import MemoryLimit
from harness import NO_PROCESS, NOT_PROFILABLE, OK, E2ETest, Process, eventually, proc_status, sum_sites

FOLLOWED = 64  # ForkFamily::kMaxFollowed, daemon/control/forked_children.h


def kernel_objects(pid):
    """Descriptors other than files: BPF programs and maps, probes, processes. The program of an
    ended target stays open for its names."""
    count = 0
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            count += os.readlink(link).startswith("anon_inode:")
    return count


class Forks(E2ETest):
    FOLDER = harness.TARGETS
    DROPS = {"unused_capture", "session_end"}

    def attached(self, *options):
        target = self.target("forks", folder=self.FOLDER)
        daemon = self.daemon("--pid", target.pid, *options, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        return target, daemon

    def child(self, target, command="fork"):
        pid = target.command(command)["pid"]
        self.addCleanup(harness.kill, pid)
        return pid

    def samples(self, daemon, pid, site):
        return sum_sites(daemon.sites(pid), site)["samples"]

    def check_grows(self, daemon, pid, site):
        before = self.samples(daemon, pid, site)
        eventually(lambda: self.samples(daemon, pid, site) > before, f"{site} of {pid} is sampled on")

    def test_a_child_is_a_target_of_its_own(self):
        target, daemon = self.attached("--follow-forks")
        child = self.child(target)
        daemon.wait_state(child, "sampling")
        self.check_grows(daemon, child, "child_work")
        self.check_grows(daemon, target.pid, "parent_work")
        self.assertEqual(0, self.samples(daemon, child, "parent_work"))
        self.assertEqual(0, self.samples(daemon, target.pid, "child_work"))
        info = daemon.targets()
        self.assertEqual((target.pid, 0), (info[child]["forked_from"], info[target.pid]["forked_from"]))
        self.assertIn(f"{child} < {target.pid}", daemon.ctl("targets").stdout)
        lost = {d["reason"] for t in info.values() for d in t["drops"]}
        self.assertLessEqual(lost, self.DROPS)
        os.kill(child, signal.SIGKILL)
        daemon.wait_state(child, "exited")
        self.assertEqual("sampling", daemon.state(target.pid))
        target.exit()

    def test_children_are_left_alone_by_default(self):
        target, daemon = self.attached()
        child = self.child(target)
        self.check_grows(daemon, target.pid, "parent_work")
        self.assertEqual([target.pid], list(daemon.targets()))
        self.assertEqual("0", proc_status(child, "TracerPid"))
        # A manual attach still works.
        daemon.attach(child)
        daemon.wait_state(child, "sampling")
        self.check_grows(daemon, child, "child_work")
        target.exit()

    def test_a_hundred_children_that_end_at_once(self):
        target, daemon = self.attached("--follow-forks")
        objects = kernel_objects(daemon.pid)
        for _ in range(3):
            self.assertEqual(100, target.command("burst 100")["pid"])
        child = self.child(target)  # comes after all of them
        daemon.wait_state(child, "sampling")
        self.check_grows(daemon, target.pid, "parent_work")
        os.kill(child, signal.SIGKILL)
        daemon.wait_state(child, "exited")
        eventually(lambda: kernel_objects(daemon.pid) <= objects, "no BPF object is left over")
        target.exit()

    def test_a_program_that_becomes_a_daemon(self):
        target, daemon = self.attached("--follow-forks")
        server = self.child(target, "daemon")
        self.assertEqual(OK, target.wait())
        daemon.wait_state(server, "sampling")
        self.check_grows(daemon, server, "child_work")
        daemon.wait_state(target.pid, "exited")

    def test_a_child_that_runs_another_program(self):
        target, daemon = self.attached("--follow-forks")
        child = self.child(target, "execs /bin/sleep")
        eventually(lambda: os.readlink(f"/proc/{child}/exe").endswith("sleep"), "the child runs sleep")
        later = self.child(target)
        daemon.wait_state(later, "sampling")
        self.assertNotIn(daemon.state(child), ("sampling", "waiting", "failed"))
        self.assertEqual("S", proc_status(child, "State")[0])
        os.kill(child, signal.SIGKILL)  # it holds the target's standard output
        target.exit()


    def test_a_crowd_of_children_takes_nothing_from_other_targets(self):
        target, daemon = self.attached("--follow-forks")
        self.assertEqual(FOLLOWED + 1, target.command(f"crowd {FOLLOWED + 1}")["pid"])
        eventually(lambda: f"not followed, {FOLLOWED} forked children" in daemon.said(), "its share is taken",
                   timeout=60)
        other = self.target("forks", folder=self.FOLDER)
        daemon.attach(other.pid)
        daemon.wait_state(other.pid, "sampling")
        child = self.child(other)
        daemon.wait_state(child, "sampling")
        self.check_grows(daemon, child, "child_work")
        followed = [t["forked_from"] for t in daemon.targets().values() if t["state"] in ("waiting", "sampling")]
        self.assertEqual((FOLLOWED, 1), (followed.count(target.pid), followed.count(other.pid)))
        target.exit()
        other.exit()


class ForksOfOcaml5(Forks):
    FOLDER = harness.TARGETS5
    DROPS = harness.DROPS_OF_BEFORE


class ShortLives(E2ETest):
    def test_programs_that_live_for_milliseconds(self):
        """An attach meets each at some point of its life; the answer is always clear."""
        bystander = self.target("busy_threads")
        daemon = self.daemon("--pid", bystander.pid, rate=1e-4)
        daemon.wait_state(bystander.pid, "sampling")
        objects = kernel_objects(daemon.pid)
        codes = set()
        for _ in range(25):
            program = subprocess.Popen([harness.TARGETS / "churn"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)
            done = daemon.attach(program.pid, check=False)
            codes.add(done.returncode)
            self.assertIn(done.returncode, (OK, NO_PROCESS, NOT_PROFILABLE), done.stderr)
            if done.returncode != OK:
                self.assert_one_line(done.stderr, program.pid)
            program.wait()
        self.assertIn(NO_PROCESS, codes)
        eventually(lambda: kernel_objects(daemon.pid) <= objects, "no BPF object is left over")
        self.assertEqual("sampling", daemon.state(bystander.pid))
        self.assertEqual(0, bystander.exit()["errors"])

    def test_a_pid_that_is_used_again(self):
        target = self.target("known_alloc")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        self.sample_on_command(daemon, target)
        truth = target.command("go 2")["sites"]["site_small"]["allocated_words"]
        daemon.settled_sites(target.pid)
        pid = target.pid
        target.exit()
        again = self.process_with_pid(pid, harness.TARGETS / "busy_threads")
        daemon.wait_state(pid, "exited")
        seen = sum_sites(daemon.sites(pid), "site_small")
        self.assert_estimate("site_small", seen["allocated_bytes"], truth, 1e-3)
        daemon.attach(pid)
        daemon.wait_state(pid, "sampling")
        eventually(lambda: [s for s in daemon.sites(pid) if "Busy_threads" in s["function"]], "its samples")
        self.assertFalse([s for s in daemon.sites(pid) if "Known_alloc" in s["function"]])


class Ends(E2ETest):
    """The end of a program and its last live memory are kept and shown."""

    def sampled(self, daemon):
        target = self.target("ends")
        daemon.attach(target.pid, rate=1e-3)
        def sampling():
            target.send("hold 1")
            return target.read_line() == "held" and daemon.state(target.pid) == "sampling"
        eventually(sampling, f"pid {target.pid} is sampled")
        return target

    def check(self, daemon, target, text, cause, code):
        daemon.wait_state(target.pid, "exited")
        shown = daemon.targets()[target.pid]
        self.assertEqual(f"the program ended: {text}", shown["message"])
        self.assertEqual(1, daemon.metrics().value("memprofd_target_end", pid=target.pid, cause=cause, code=code))
        # Alerts compare this with the present.
        now, taken = time.time(), daemon.metrics().value("memprofd_snapshot_timestamp_seconds", pid=target.pid)
        self.assertTrue(taken <= now < taken + harness.TIMEOUT, (taken, now))
        self.assertEqual(taken, daemon.metrics().value("memprofd_snapshot_timestamp_seconds", pid=target.pid))
        (line,) = [l for l in daemon.ctl("targets", "--ended").stdout.splitlines() if str(target.pid) in l.split()]
        self.assertIn(text, line)
        self.assertRegex(line, r" m?s ago|min ago")
        return shown

    def test_by_itself(self):
        daemon = self.daemon()
        for command, text, code in (("exit 0", "exit code 0", "0"), ("exit 3", "exit code 3", "3"),
                                    ("raise", "exit code 2", "2")):
            with self.subTest(command):
                target = self.sampled(daemon)
                target.send(command)
                target.wait()
                self.check(daemon, target, text, "exit", code)

    def test_by_a_signal(self):
        daemon = self.daemon()
        for name in ("SIGABRT", "SIGTERM", "SIGKILL"):
            with self.subTest(name):
                target = self.sampled(daemon)
                target.send_signal(signal.Signals[name])
                target.wait()
                self.check(daemon, target, f"killed by {name}", "signal", name)
        self.assertEqual(3, len(daemon.ctl("targets", "--ended").stdout.splitlines()) - 1)
        running = self.sampled(daemon)
        self.assertNotIn(str(running.pid), daemon.ctl("targets", "--ended").stdout)

    def check_out_of_memory(self, daemon, target):
        target.send("hold 400")
        self.assertEqual(-signal.SIGKILL, target.wait())
        shown = self.check(daemon, target, "out of memory, killed by the kernel (OOM)", "out_of_memory", "SIGKILL")
        self.assertGreater(shown["live_bytes"], 40 << 20)
        self.assertLess(shown["live_bytes"], 110 << 20)
        self.assertGreater(self.held(daemon, target), 0.9 * shown["live_bytes"])

    def held(self, daemon, target):
        """Live bytes allocated by `hold`."""
        return sum(site["live_bytes"] for site in daemon.sites(target.pid)
                   if any("Ends.hold" in frame["function"] for frame in site["callstack"]))

    def test_out_of_memory_of_a_control_group(self):
        daemon = self.daemon("--state.directory", self.folder / "state")
        target = self.sampled(daemon)
        limit = MemoryLimit(100)
        self.addCleanup(limit.remove)
        limit.put(target.pid)
        self.check_out_of_memory(daemon, target)
        daemon.stop()
        again = self.daemon("--state.directory", self.folder / "state")
        self.check(again, target, "out of memory, killed by the kernel (OOM)", "out_of_memory", "SIGKILL")
        self.assertGreater(self.held(again, target), 40 << 20)

    def test_observed_from_outside(self):
        daemon = self.daemon("--mode", "observe")
        target = self.target("ends")
        daemon.attach(target.pid)
        target.send("exit 7")
        target.wait()
        self.check(daemon, target, "exit code 7", "exit", "7")


class HardTargets(E2ETest):
    """Programs that rest or are disturbed in many ways."""

    def test_stopped_while_sampled(self):
        target = self.target("busy_threads")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        target.send_signal(signal.SIGSTOP)
        eventually(lambda: proc_status(target.pid, "State").startswith("T"), "the target is stopped")
        daemon.set_rate(target.pid, 1e-4)
        self.assertEqual("waiting", daemon.state(target.pid))
        self.assertTrue(proc_status(target.pid, "State").startswith("T"))
        daemon.detach(target.pid)
        self.assertTrue(proc_status(target.pid, "State").startswith("T"))
        daemon.attach(target.pid)
        self.assertEqual("waiting", daemon.state(target.pid))
        target.send_signal(signal.SIGCONT)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual(0, target.exit()["errors"])

    def test_heavy_signal_load(self):
        target = self.target("signals")
        sender = self.process(Process(["sh", "-c", f"while kill -USR1 {target.pid} 2>/dev/null; do :; done"]))
        daemon = self.daemon(rate=1e-3)
        for _ in range(10):
            daemon.attach(target.pid)
            daemon.wait_state(target.pid, "sampling")
            before = sum(s["samples"] for s in daemon.sites(target.pid))
            eventually(lambda: sum(s["samples"] for s in daemon.sites(target.pid)) > before, "samples")
            daemon.detach(target.pid)
        sender.kill()
        answer = target.exit()
        self.assertEqual(0, answer["errors"])
        self.assertGreater(answer["timer"], 100)
        self.assertGreater(answer["usr1"], 100)

    def test_small_stack_limit(self):
        """With room for the dynamic linker the attach succeeds, without it waits; the program
        always continues."""
        for limit, state in ((64, "waiting"), (128, "sampling")):
            with self.subTest(kib=limit):
                target = self.process(Process(["env", "-i", "sh", "-c", f"ulimit -s {limit}; "
                                               f"exec {harness.TARGETS}/known_alloc"]))
                self.assertEqual(f"ready {target.pid}", target.read_line())
                daemon = self.daemon("--pid", target.pid, rate=1e-3)
                def reached():
                    target.send("go 1")
                    target.read_line()
                    return daemon.state(target.pid) == state
                eventually(reached, f"pid {target.pid} is {state}")
                if state == "waiting":
                    eventually(lambda: reached() and "stack" in daemon.targets()[target.pid]["message"],
                               "the reason is said")
                daemon.stop()
                target.send("exit")
                self.assertEqual(0, target.wait())

    def filtered(self, *arguments, **options):
        target = self.target("seccomp", *arguments, **options)
        self.assertEqual("2", proc_status(target.pid, "Seccomp"))
        return target

    def sampled_under_its_filter(self, target):
        """The seccomp filter allows only known calls, and would kill the program for any other that
        memprofd causes."""
        daemon = self.daemon("--pid", target.pid, "--mode", "agent", rate=1e-2)
        eventually(lambda: target.command("wake") and daemon.state(target.pid) == "sampling", "it is sampled")
        eventually(lambda: target.command("wake") and daemon.sites(target.pid), "samples")
        daemon.ctl("rate", "--pid", target.pid, "--sampling-rate", "1e-3")
        take = self.process(Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take",
                                     "--pid", target.pid, "--out", self.folder / "heap", "--max-pause", "10s"]))
        eventually(lambda: target.command("wake") and take.popen.poll() is not None, "the snapshot is taken")
        self.assertEqual(OK, take.wait(), take.stderr())
        daemon.ctl("detach", "--pid", target.pid)
        self.assertEqual("awake", target.command("wake"))
        target.exit()

    def test_seccomp_filter_that_lets_the_agent_in(self):
        self.sampled_under_its_filter(self.filtered("kills", "101"))

    def test_seccomp_filter_that_lets_in_nothing_but_the_agent(self):
        """The filter allows kAgentCalls and kCopyCalls of inject/seccomp_filter.cc by number, and
        the program's own calls."""
        agents = {319, 257, 0, 17, 5, 262, 9, 10, 11, 24, 25, 28, 3, 12, 202, 14, 39, 186, 234, 228, 15}
        copies = {14, 56, 436, 257, 1, 3, 157, 9, 202, 35, 61, 231, 39, 186, 234, 228, 15}
        own = {1, 8, 13, 131, 219}  # write, lseek, rt_sigaction, sigaltstack, restart_syscall
        for folder in harness.TARGETS, harness.TARGETS5:
            with self.subTest(folder=folder.name):
                self.sampled_under_its_filter(
                    self.filtered("allows", *sorted(map(str, agents | copies | own)), folder=folder))

    def test_seccomp_filter_that_forbids_the_agent(self):
        target = self.filtered("kills", "17")
        daemon = self.daemon(rate=1e-2)
        daemon.ctl("attach", "--pid", target.pid, "--mode", "agent", check=False)
        eventually(lambda: target.command("wake") and daemon.state(target.pid) == "failed", "it is refused")
        self.assert_one_line(daemon.targets()[target.pid]["message"], target.pid, "seccomp", "pread64", "LD_PRELOAD")
        daemon.attach(target.pid)
        eventually(lambda: target.command("wake") and daemon.state(target.pid) == "sampling", "it is observed")
        self.assertEqual("observe", daemon.targets()[target.pid]["mode"])
        self.assert_one_line(daemon.targets()[target.pid]["message"], "observe mode", "seccomp", "pread64", "LD_PRELOAD")
        self.assertEqual("0", proc_status(target.pid, "TracerPid"))
        target.exit()

    def test_seccomp_filter_that_memprofd_may_not_read(self):
        """The kernel shows a filter only to processes without one."""
        target = self.filtered("kills", "101")
        daemon = self.daemon(prefix=("python3", "-c", harness.UNDER_A_FILTER))
        done = daemon.ctl("attach", "--pid", target.pid, "--mode", "agent", check=False)
        self.assertEqual(NOT_PROFILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, target.pid, "seccomp", "memprofd has a filter itself", "LD_PRELOAD")
        self.assert_one_line(daemon.attach(target.pid).stdout, target.pid, "observe mode", "seccomp", "LD_PRELOAD")
        self.assertEqual("0", proc_status(target.pid, "TracerPid"))
        self.assertEqual("awake", target.command("wake"))
        target.exit()

    def test_seccomp_filter_with_the_agent_preloaded(self):
        env = dict(os.environ, LD_PRELOAD=str(harness.BUILD / "libmemprof_agent.so"))
        target = self.filtered("kills", "101", env=env)
        daemon = self.daemon("--pid", target.pid, rate=1e-2)
        eventually(lambda: target.command("wake") and daemon.state(target.pid) == "sampling", "it is sampled")
        eventually(lambda: target.command("wake") and daemon.sites(target.pid), "samples")
        target.exit()


if __name__ == "__main__":
    unittest.main()
