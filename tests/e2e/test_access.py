# SPDX-License-Identifier: Apache-2.0
"""Users of the socket's group see only what the kernel lets them see, even if a pid is reused or
calls exec."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import harness
from harness import E2ETest, Process, eventually
from stepping import SteppedDaemon

USER = 1000
AS_USER = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--inh-caps", "-all")
SECRET = "key-of-root"


class AccessCase(E2ETest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)

    def reachable(self, daemon):
        os.chown(daemon.socket, 0, USER)
        return daemon

    def asking(self, daemon, *command):
        return self.process(Process([*AS_USER, harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, *command],
                                    stdin=subprocess.DEVNULL))

    def ask(self, daemon, *command):
        """(exit code, all output) of the user's memprofctl."""
        asking = self.asking(daemon, *command)
        code = asking.wait()
        while asking.lines.get(timeout=harness.TIMEOUT) is not None:
            pass
        return code, "".join(asking.output) + asking.stderr()

    def started(self, *command):
        """A program of tests/targets that is ready for commands."""
        process = self.process(Process(command))
        self.assertEqual("ready", process.read_line().split()[0])
        return process

    def command(self, program, line):
        program.send(line)
        return program.read_line()

    def say(self, daemon, program, line):
        """A line of its log, which memprofd records while a client watches."""
        def is_kept():
            daemon.ctl("values", "--pid", program.pid)
            self.command(program, f"log {line}")
            return line in daemon.ctl("value-history", "--log", program.pid).stdout
        eventually(is_kept, "root is told")

    def of_user(self, program):
        return self.started(*self.with_libraries(), *AS_USER, program)

    def with_libraries(self):
        """Binds libraries of another release, which are in root's home, where every user can read
        them."""
        if self.targets != harness.TARGETS5:
            return ()
        cache, home = pathlib.Path.home() / ".cache/memprofd", self.folder / "home"
        (home / ".cache/memprofd").mkdir(parents=True, exist_ok=True)
        return ("unshare", "--mount", "sh", "-ec",
                'mount --bind "$1" "$2/.cache/memprofd"; mount --rbind "$2" "$HOME"; shift 2; exec "$@"', "sh", cache, home)

    def copy(self, program, mode=0o755):
        """A copy of a program of tests/targets; setuid with another mode."""
        copy = self.folder / f"{program}-{mode:o}"
        shutil.copy(self.targets / program, copy)
        copy.chmod(mode)
        return copy

    def refused(self, answer, pid):
        code, said = answer
        self.assertEqual(harness.PRIVILEGES, code, said)
        self.assertIn(f"not a program of user {USER}", said)
        self.assertNotIn(SECRET, said)
        self.assertIn(f"pid {pid}", said)


class Ocaml4(AccessCase):
    targets = harness.TARGETS

    # Calls that need the right to look into a process; the pid follows them.
    CALLS = (
        ("attach",), ("rate", "1e-3"), ("rss",), ("trace-calls", ".", "--duration", "1s"), ("snapshot", "take", "--out", "-"),
        ("snapshot", "take", "--contents", "--out", "-"),
        ("values", "--contents"), ("watch", ".", "-n", "1"), ("adjust", "--off"), ("resume",), ("ask", "sum"), ("doctor",),
        ("value-history", "--log"), ("trace", "start"), ("detach",),
    )

    def started_as(self, *ids):
        """A program that was root's and has then dropped its rights."""
        return self.started("env", f"LD_PRELOAD={harness.BUILD}/tests/libchange_user.so",
                            "CHANGE_USER=" + " ".join(map(str, ids)), self.targets / "reports")

    def kept_from_the_user(self, target):
        self.assertEqual(USER, os.stat(f"/proc/{target.pid}").st_uid, "it seems to be his")
        daemon = self.reachable(self.daemon(rate=1e-4))
        self.refused(self.ask(daemon, "attach", "--pid", target.pid), target.pid)
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling", "waiting")
        self.say(daemon, target, SECRET)
        for call in self.CALLS:
            with self.subTest(call[0]):
                pid = (target.pid,) if call[0] == "value-history" else ("--pid", target.pid)
                self.refused(self.ask(daemon, *call, *pid), target.pid)
        self.assertIn(daemon.state(target.pid), ("sampling", "waiting"))

    def test_a_server_that_has_been_roots(self):
        self.kept_from_the_user(self.started_as(USER, USER, USER, USER, USER, USER))

    def test_a_process_of_root_with_his_effective_user(self):
        self.kept_from_the_user(self.started_as(0, USER, 0, USER, USER, USER))

    def test_his_own_program(self):
        own = self.of_user(self.copy("reports"))
        daemon = self.reachable(self.daemon(rate=1e-4))
        self.assertEqual(0, self.ask(daemon, "attach", "--pid", own.pid)[0])
        daemon.wait_state(own.pid, "sampling", "waiting")
        for call in (("values", "--contents", "--pid"), ("rss",), ("doctor",), ("adjust", "--on", "--pid"), ("rate", "1e-3", "--pid")):
            with self.subTest(call[0]):
                code, said = self.ask(daemon, *call, own.pid)
                self.assertEqual(0, code, said)
        self.say(daemon, own, "hello")
        self.assertIn("hello", self.ask(daemon, "value-history", "--log", own.pid)[1], "his lines are told to him")
        own.kill()
        daemon.wait_state(own.pid, "exited")
        code, said = self.ask(daemon, "value-history", "--log", own.pid)
        self.assertEqual(0, code, said)
        self.assertIn("hello", said, "after its end too")

    def test_he_finds_his_own_programs_only(self):
        daemon = self.reachable(self.daemon())
        own, roots = self.of_user(self.copy("known_alloc")), self.started(self.targets / "known_alloc")
        found = lambda text: {one["pid"] for one in json.loads(text)["discovered"]}
        eventually(lambda: {own.pid, roots.pid} <= found(daemon.ctl("targets", "--all", "-o", "json").stdout), "both are found")
        code, said = self.ask(daemon, "targets", "--all", "-o", "json")
        self.assertEqual(0, code, said)
        self.assertIn(own.pid, found(said))
        self.assertNotIn(roots.pid, found(said))

    def test_a_watch_ends_with_its_program(self):
        """The program execs a setuid program of root's, to which root has attached before the next
        look."""
        own, roots = self.copy("reports"), self.copy("reports", 0o4755)
        target = self.of_user(own)
        daemon = self.reachable(self.daemon(rate=1e-4))
        self.assertEqual(0, self.ask(daemon, "attach", "--pid", target.pid)[0])
        watch = self.asking(daemon, "watch", ".", "-d", "5", "--pid", target.pid)
        watch.read_line()
        target.send(f"exec {roots}")
        eventually(lambda: target.read_line().startswith("ready"), "it is the other program")
        self.assertEqual("0", harness.proc_status(target.pid, "Uid").split()[1])
        eventually(lambda: daemon.attach(target.pid, check=False).returncode == 0, "root attaches")
        self.say(daemon, target, SECRET)
        self.assertEqual(harness.NO_PROCESS, watch.wait(), watch.stderr())
        self.refused(self.ask(daemon, "watch", ".", "-n", "1", "--pid", target.pid), target.pid)
        self.assertNotIn(SECRET, "".join(watch.output))

    def test_a_watch_does_not_go_on_with_who_gets_the_pid(self):
        target = self.of_user(self.copy("reports"))
        daemon = self.reachable(self.daemon(rate=1e-4))
        self.assertEqual(0, self.ask(daemon, "attach", "--pid", target.pid)[0])
        watch = self.asking(daemon, "watch", ".", "-d", "5", "--pid", target.pid)
        watch.read_line()
        target.kill()
        roots = self.process_with_pid(target.pid, self.targets / "reports")
        roots.read_line()
        eventually(lambda: daemon.attach(roots.pid, check=False).returncode == 0, "root attaches")
        self.say(daemon, roots, SECRET)
        self.assertEqual(harness.NO_PROCESS, watch.wait(), watch.stderr())
        self.assertNotIn(SECRET, "".join(watch.output))

    def test_lines_of_an_ended_program(self):
        """A process that reuses the pid does not get them, nor do they come back after a restart of
        memprofd."""
        state = ("--state.directory", self.folder / "state")
        daemon = self.reachable(self.daemon(*state, rate=1e-4))
        roots, own = self.target("reports", folder=self.targets), self.of_user(self.copy("reports"))
        for target, line in ((roots, SECRET), (own, "hello")):
            daemon.attach(target.pid)
            daemon.wait_state(target.pid, "sampling", "waiting")
            self.say(daemon, target, line)
        for target in (roots, own):
            target.kill()
            daemon.wait_state(target.pid, "exited")
        self.process_with_pid(roots.pid, *AS_USER, "sleep", "1000")
        eventually(lambda: harness.proc_status(roots.pid, "Uid").split()[1] == str(USER), "the pid is his")
        for again in (False, True):
            with self.subTest(again=again):
                self.refused(self.ask(daemon, "value-history", "--log", roots.pid), roots.pid)
                code, said = self.ask(daemon, "value-history", "--log", own.pid)
                self.assertEqual(0, code, said)
                self.assertIn("hello", said)
            if not again:
                daemon.stop()
                daemon = self.reachable(self.daemon(*state, rate=1e-4))

    def becomes_roots(self, *command):
        """A request for the user's program, which execs a setuid program of root's before the
        inspection."""
        target = self.of_user(self.copy("execer"))
        program = self.copy("busy_threads", 0o4755)
        daemon = self.reachable(self.process(SteppedDaemon(self.folder)))
        daemon.stop_at(1, "pidfd_open")
        asking = self.asking(daemon, *command, "--pid", target.pid)
        self.assertTrue(daemon.held(timeout=harness.TIMEOUT))
        target.send(f"exec {program}")
        eventually(lambda: harness.proc_status(target.pid, "Uid").split()[1] == "0", "it is root's")
        self.assertEqual("ready", target.read_line().split()[0])
        daemon.go()
        self.assertEqual(harness.PRIVILEGES, asking.wait(), asking.stderr())
        self.assert_one_line(asking.stderr(), target.pid, f"not a program of user {USER}")
        daemon.off()
        self.assertNotIn("memprof_agent", "".join(harness.mappings(target.pid)))

    def test_an_attach_to_what_becomes_a_setuid_program(self):
        self.becomes_roots("attach")

    def test_traced_calls_of_what_becomes_a_setuid_program(self):
        self.becomes_roots("trace-calls", ".", "--duration", "1s")


class Ocaml5(Ocaml4):
    targets = harness.TARGETS5

    def setUp(self):
        super().setUp()
        if harness.TARGETS5 == harness.TARGETS:
            self.skipTest("the other class has tried them")

    def copy(self, program, mode=0o755):
        return super().copy({"execer": "reports", "busy_threads": "reports"}.get(program, program), mode)


if __name__ == "__main__":
    unittest.main()
