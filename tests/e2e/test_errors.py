# SPDX-License-Identifier: Apache-2.0
"""Bad input gives one clear line and a documented exit code, and leaves the target unharmed."""

import contextlib
import errno
import os
import pathlib
import re
import signal
import socket
import subprocess
import unittest

import harness
from harness import AGENT, BUSY, NOT_PROFILABLE, NO_PROCESS, OK, PRIVILEGES, UNAVAILABLE, USAGE
from harness import E2ETest, Process, eventually, proc_status, start_ticks

PF_KTHREAD = 0x200000  # in the flags of /proc/PID/stat


def vanished_pid():
    """A pid that has just ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def kernel_thread():
    """Pid of a kernel thread; only the first pid namespace shows one."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[6]) & PF_KTHREAD:
                return int(stat.parent.name)
    raise unittest.SkipTest("no thread of the kernel is in this pid namespace")


def agent_with_a_dead_probe(folder):
    """A copy of the agent whose note puts memprof:batch where nothing ever runs.

    Attaching succeeds and nothing arrives, as on kernels that mishandle a probe.
    """
    source = harness.BUILD / "libmemprof_agent.so"
    notes = subprocess.run(["readelf", "-n", source], capture_output=True, text=True, check=True).stdout
    location = int(re.search(r"Location: 0x([0-9a-f]+)", notes).group(1), 16)
    base = int(re.search(r"Base: 0x([0-9a-f]+)", notes).group(1), 16)
    symbols = subprocess.run(["nm", "-D", source], capture_output=True, text=True, check=True).stdout
    elsewhere = int(re.search(r"([0-9a-f]+) T memprof_agent_keep", symbols).group(1), 16)
    data = source.read_bytes()
    note = location.to_bytes(8, "little") + base.to_bytes(8, "little")
    if data.count(note) != 1:
        raise AssertionError("the probe's note is not where it was expected")
    path = folder / "libmemprof_agent.so"
    path.write_bytes(data.replace(note, elsewhere.to_bytes(8, "little") + note[8:]))
    path.chmod(0o755)
    return path


class DaemonStart(E2ETest):
    """memprofd with an invalid option or target."""

    def refused(self, *arguments, code, words=(), **options):
        daemon = self.daemon(*arguments, wait=False, **options)
        self.assertEqual(code, daemon.wait(), daemon.said())
        complaints = [line for line in daemon.stderr().splitlines()
                      if all(str(w).lower() in line.lower() for w in words)]
        self.assertEqual(1, len(complaints), daemon.said())
        return daemon

    def test_rates_out_of_range(self):
        for rate in ("0", "-1", "1.5", "nan", "inf", "often"):
            with self.subTest(rate=rate):
                self.refused("--sampling-rate", rate, code=USAGE, words=["sampling-rate"])

    def test_pids_that_are_none(self):
        for pid in ("0", "-5", "abc", "99999999999"):
            with self.subTest(pid=pid):
                self.refused("--pid", pid, code=USAGE, words=["pid"])

    def test_unknown_option(self):
        self.refused("--no-such-option", code=USAGE, words=["no-such-option"])

    def test_history_leaves_memory_for_targets(self):
        self.refused("--memory.max", "128MiB", "--history.memory", "65MiB", code=USAGE, words=["--memory.max", "130 MiB"])

    def test_vanished_pid(self):
        pid = vanished_pid()
        self.refused("--pid", pid, code=NO_PROCESS, words=[pid, "no process"])

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused(port=port, code=UNAVAILABLE, words=[port, "in use"])

    def test_socket_in_use(self):
        first = self.daemon()
        second = self.process(Process(
            [harness.BUILD / "memprofd", "--grpc.socket", first.socket,
             "--web.listen-address", f"127.0.0.1:{harness.free_port()}"], stdin=subprocess.DEVNULL))
        self.assertEqual(UNAVAILABLE, second.wait(), second.stderr())
        self.assertIn(str(first.socket), second.stderr())
        self.assertEqual({}, first.targets())

    def test_stale_socket_file_is_no_obstacle(self):
        first = self.daemon()
        first.stop(signal.SIGKILL)
        self.assertTrue(first.socket.exists())
        second = self.daemon(port=first.port)
        self.assertEqual({}, second.targets())

    def test_agent_file_missing(self):
        target = self.target("known_alloc")
        missing = self.folder / "nowhere.so"
        self.refused("--pid", target.pid, agent=missing, code=AGENT, words=[missing])
        self.assertEqual(1, target.command("go 1")["rounds"])

    def test_agent_that_is_none(self):
        target = self.target("known_alloc")
        self.refused("--pid", target.pid, agent="/bin/true", code=AGENT, words=["/bin/true"])
        self.assertEqual(1, target.command("go 1")["rounds"])

    def test_agent_of_another_build(self):
        target = self.target("known_alloc")
        agent = harness.agent_of_another_build(self.folder)
        self.refused("--pid", target.pid, agent=agent, code=AGENT, words=["agent", "build"])
        self.assertEqual(1, target.command("go 1")["rounds"])

    def test_a_probe_that_never_fires_is_found_out(self):
        target = self.target("busy_threads")
        daemon = self.daemon("--pid", target.pid, agent=agent_with_a_dead_probe(self.folder))
        daemon.wait_state(target.pid, "failed")
        self.assertIn("probe does not fire on this kernel", daemon.targets()[target.pid]["message"])
        self.assertEqual(0, target.exit()["errors"])

    def test_a_probe_that_fires_for_others_is_no_fault_of_the_kernel(self):
        honest = self.target("busy_threads")
        daemon = self.daemon("--pid", honest.pid)
        daemon.wait_state(honest.pid, "sampling")
        eventually(lambda: daemon.metrics().total("memprofd_samples_total", pid=honest.pid, event="alloc") > 0,
                   "the probe has fired")
        other = self.target("busy_threads", env=dict(os.environ, LD_PRELOAD=str(agent_with_a_dead_probe(self.folder))))
        daemon.attach(other.pid, check=False)
        daemon.wait_state(other.pid, "failed")
        message = daemon.targets()[other.pid]["message"]
        self.assert_one_line(message, "the agent's probe fires in other programs but not in this one", "--mode observe")
        self.assertNotIn("kernel", message)
        self.assertEqual("sampling", daemon.state(honest.pid))
        self.assertEqual(0, other.exit()["errors"])

    def test_without_privileges(self):
        target = self.target("known_alloc")
        daemon = self.process(Process(
            ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", harness.BUILD / "memprofd",
             "--pid", str(target.pid), "--grpc.socket", self.folder / "p.sock",
             "--web.listen-address", f"127.0.0.1:{harness.free_port()}"], stdin=subprocess.DEVNULL))
        self.assertEqual(PRIVILEGES, daemon.wait(), daemon.stderr())
        self.assertRegex(daemon.stderr(), r"(?i)root|CAP_")
        self.assertEqual(1, target.command("go 1")["rounds"])


class Attach(E2ETest):
    """A running memprofd that profiles one program while it refuses others."""

    def setUp(self):
        super().setUp()
        self.bystander = self.target("busy_threads")
        self.memprofd = self.daemon("--pid", self.bystander.pid, rate=1e-4)
        self.memprofd.wait_state(self.bystander.pid, "sampling")

    def tearDown(self):
        """The other target is still sampled and works correctly."""
        def samples():
            return self.memprofd.metrics().total("memprofd_samples_total",
                                                 pid=self.bystander.pid, event="alloc")
        before = samples()
        eventually(lambda: samples() > before, "the other target is sampled on")
        self.assertEqual(0, self.bystander.command("stat")["errors"])

    def refused(self, pid, code, *words):
        done = self.memprofd.attach(pid, check=False)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, *words)
        self.assertEqual("", done.stdout)

    def test_vanished_pid(self):
        pid = vanished_pid()
        self.refused(pid, NO_PROCESS, pid, "no process")

    def test_not_ocaml(self):
        sleeper = self.process(Process(["sleep", "600"]))
        self.refused(sleeper.pid, NOT_PROFILABLE, sleeper.pid, "not an OCaml program", "caml_frametable")
        self.assertTrue(sleeper.running())

    def test_kernel_thread(self):
        pid = kernel_thread()
        self.refused(pid, NOT_PROFILABLE, pid)

    def test_zombie(self):
        child = self.process(Process(["true"]))
        eventually(lambda: proc_status(child.pid, "State").startswith("Z"), "the child is a zombie")
        done = self.memprofd.attach(child.pid, check=False)
        self.assertIn(done.returncode, (NO_PROCESS, NOT_PROFILABLE), done.stderr)
        self.assert_one_line(done.stderr, child.pid)

    def test_32_bit(self):
        """On a kernel that runs 32-bit programs; Discover.ThirtyTwoBit needs only the file."""
        try:
            target = self.process(Process([harness.BUILD / "targets/tiny32"]))
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            self.skipTest("this kernel runs no 32-bit programs (CONFIG_IA32_EMULATION)")
        self.assertEqual("ready 0", target.read_line())
        self.refused(target.pid, NOT_PROFILABLE, target.pid, "32-bit")
        self.assertTrue(target.running())

    def test_stripped_static(self):
        target = self.target("static_target")
        self.refused(target.pid, NOT_PROFILABLE, target.pid)
        self.assertEqual(1, target.command("go 1")["rounds"])

    def test_bytecode(self):
        target = self.target("bytecode_target")
        self.refused(target.pid, NOT_PROFILABLE, target.pid)
        self.assertEqual(1, target.command("go 1")["rounds"])

    def test_profiled_already_by_this_daemon(self):
        self.refused(self.bystander.pid, BUSY, self.bystander.pid, "already")

    def test_attach_if_needed(self):
        pid, before = self.bystander.pid, self.memprofd.targets()[self.bystander.pid]["sampling_rate"]
        attach = ("attach", "--pid", pid, "--if-needed", "--sampling-rate", 0.5)
        self.assertRegex(self.memprofd.ctl(*attach).stdout, rf"^profiled already, pid {pid} .*: sampling at 0.0001/word")
        answer = self.memprofd.ctl_json(*attach)
        self.assertIs(True, answer["already_profiled"])
        target = answer["target"]
        self.assertEqual(before, target["sampling_rate"])
        self.assertEqual("TARGET_MODE_AGENT", target["target_mode"])
        self.assertEqual(start_ticks(pid), target["process_start_ticks"])

    def test_profiled_already_by_another_daemon(self):
        target = self.target("busy_threads")
        other = self.daemon("--pid", target.pid)
        other.wait_state(target.pid, "sampling")
        self.refused(target.pid, BUSY, target.pid, "already")
        self.assertEqual("sampling", other.state(target.pid))
        self.assertEqual(0, target.exit()["errors"])

    def test_program_that_uses_memprof_itself(self):
        target = self.target("uses_memprof")
        said = self.memprofd.refusal(target.pid, "--mode", "agent", codes=(BUSY, NOT_PROFILABLE))
        self.assert_one_line(said, target.pid, "Memprof")
        own = target.exit()
        self.assertAlmostEqual(1e-4, own["samples"] / own["words"], delta=2e-6)

    def test_traced_by_gdb(self):
        target = self.target("busy_threads")
        gdb = self.process(Process(["gdb", "-q", "-nx", "-p", str(target.pid)]))
        eventually(lambda: proc_status(target.pid, "TracerPid") == str(gdb.pid), "gdb traces the target")
        self.refused(target.pid, NOT_PROFILABLE, target.pid, "traced", gdb.pid)
        gdb.send("detach")
        gdb.send("quit")
        gdb.wait()
        self.assertEqual(OK, self.memprofd.attach(target.pid).returncode)
        self.memprofd.wait_state(target.pid, "sampling")
        self.assertEqual(0, target.exit()["errors"])

    def test_stopped_target_waits_and_says_so(self):
        target = self.target("busy_threads")
        target.send_signal(signal.SIGSTOP)
        eventually(lambda: proc_status(target.pid, "State").startswith("T"), "the target is stopped")
        self.memprofd.attach(target.pid)
        self.assertEqual("waiting", self.memprofd.state(target.pid))
        self.assertTrue(proc_status(target.pid, "State").startswith("T"))
        target.send_signal(signal.SIGCONT)
        self.memprofd.wait_state(target.pid, "sampling")
        self.assertEqual(0, target.exit()["errors"])

    def test_bad_rates(self):
        for rate in (0, -1, 1.5):
            with self.subTest(rate=rate):
                self.assertEqual(USAGE, self.memprofd.set_rate(self.bystander.pid, rate, check=False).returncode)
        self.assertEqual(1e-4, self.memprofd.targets()[self.bystander.pid]["sampling_rate"])

    def test_commands_on_a_pid_that_is_no_target(self):
        pid = os.getpid()
        for command in (["detach", "--pid", pid], ["sites", "--pid", pid], ["report", "--pid", pid]):
            with self.subTest(command=command[0]):
                done = self.memprofd.ctl(*command, check=False)
                self.assertEqual(NO_PROCESS, done.returncode, done.stderr)
                self.assert_one_line(done.stderr, pid)
        self.assertEqual(NO_PROCESS, self.memprofd.set_rate(pid, 1e-4, check=False).returncode)


class Memprofctl(E2ETest):
    def test_no_daemon(self):
        path = self.folder / "nobody.sock"
        done = harness.memprofctl("--grpc.socket", path, "targets", check=False)
        self.assertEqual(UNAVAILABLE, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, path)

    def test_unknown_command(self):
        done = harness.memprofctl("frobnicate", check=False)
        self.assertEqual(USAGE, done.returncode, done.stderr)

    def test_help_names_the_exit_codes(self):
        for program, option in (("memprofd", "--help"), ("memprofctl", "--help-all")):
            text = subprocess.run([harness.BUILD / program, option], capture_output=True, text=True,
                                  timeout=harness.TIMEOUT, check=True).stdout
            self.assertIn("Exit codes", text)

    def test_doctor_names_what_is_wrong_with_a_program(self):
        daemon = self.daemon()
        sleeper = self.process(Process(["sleep", "600"]))
        done = daemon.ctl("doctor", "--pid", sleeper.pid, check=False)
        self.assertIn("not an OCaml program", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
