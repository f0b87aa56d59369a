# SPDX-License-Identifier: Apache-2.0
"""Injection of the agent into programs that are difficult or malicious."""

import ctypes
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import threading
import unittest

import harness
from containers import Contained, make_root
from harness import E2ETest, eventually, proc_status
from stepping import SteppedDaemon

# Runs a command without privileges.
NOBODY = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--no-new-privs"]
OWN_NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount"]


class FilesOfOthers(E2ETest):
    """A program that does not see the agent's file gets a copy in memory. As root, memprofd writes
    only to that copy, not to other files of that name."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.root = make_root(self.folder / "root", harness.TARGETS / "known_alloc")
        shutil.chown(self.root, 1000, 1000)

    def holder(self, file):
        """A program of uid 1000 with an O_PATH descriptor of the file under the copy's name."""
        command = [*NOBODY, *OWN_NAMESPACES, "/usr/bin/python3", harness.ROOT / "tests/kit/named_descriptor.py",
                   self.root, file]
        target = self.process(Contained(command, "/app/known_alloc"))
        links = [str(link.readlink()) for link in pathlib.Path(f"/proc/{target.pid}/fd").iterdir()]
        self.assertIn("/memfd:memprof_agent (deleted)", links)
        return target

    def check_left_alone(self, file):
        target = self.holder(file)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        self.sample_on_command(daemon, target)
        links = [str(link.readlink()) for link in pathlib.Path(f"/proc/{target.pid}/fd").iterdir()]
        self.assertEqual(1, links.count("/memfd:memprof_agent (deleted)"), links)
        target.exit()

    def test_an_empty_file_that_only_root_may_write(self):
        file = self.folder / "secret"
        file.touch(0o600)
        self.check_left_alone(file)
        self.assertEqual(0, file.stat().st_size)

    def test_a_pipe_that_only_root_may_open(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe, 0o600)
        self.check_left_alone(pipe)

    def test_a_disk(self):
        """A block device stands for a disk; stat() reports size 0."""
        image = self.folder / "image"
        image.write_bytes(b"\xa5" * (16 << 20))
        device = self.loop_device(image)
        self.check_left_alone(device)
        os.sync()
        self.assertEqual(b"\xa5" * (16 << 20), image.read_bytes())

    def loop_device(self, image):
        device = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True,
                                        check=True).stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "--detach", device], check=True)
        return device


SYS_TGKILL = 234
libc = ctypes.CDLL(None, use_errno=True)


def threads(pid):
    return [int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]


def has_pending(pid, number):
    """True if the signal is pending in the process or one of its threads."""
    masks = [proc_status(pid, "ShdPnd")] + [proc_status(f"{pid}/task/{tid}", "SigPnd") for tid in threads(pid)]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


class SignalsOfOthers(E2ETest):
    """SIGURG may come from sockets, runtimes, or any sender."""

    ROUNDS = 20 if harness.MATRIX else 6

    def flood(self, pid, stop):
        """Sends it to each thread repeatedly, like a runtime that preempts its threads."""
        while not stop.is_set():
            for tid in threads(pid) if os.path.exists(f"/proc/{pid}/task") else ():
                libc.syscall(SYS_TGKILL, pid, tid, signal.SIGURG)
            os.kill(pid, signal.SIGURG)

    def test_a_flood_of_it_while_the_agent_is_loaded(self):
        for _ in range(self.ROUNDS):
            target, expected = self.busy_target()
            stop = threading.Event()
            flood = threading.Thread(target=self.flood, args=(target.pid, stop))
            flood.start()
            try:
                daemon = self.daemon("--pid", target.pid, rate=1e-4)
                daemon.wait_state(target.pid, "sampling")
                self.assert_works_on(target)
                daemon.stop()
            finally:
                stop.set()
                flood.join()
            self.assert_same_output(target, expected)
            self.processes_end()


    PTRACE_CONT, PTRACE_SETREGS = 7, 13

    def calls(self, daemon, pid, *names):
        """Yields each of these calls of an attach to the process while it is held."""
        daemon.stop_at(1, *names)
        attach = self.process(daemon.attach_in_background(pid))
        while True:
            call = daemon.held(timeout=0.5)
            if call is not None:
                yield call
                daemon.stop_at(1, *names)  # no call slips through in between
                daemon.go()
            elif not attach.running() and daemon.state(pid) != "waiting":
                break
        daemon.off()

    def test_it_comes_when_dlopen_begins(self):
        """It is the first signal that the borrowed thread gets on its way into dlopen."""
        target, expected = self.busy_target()
        daemon = self.process(SteppedDaemon(self.folder))
        sent, previous = 0, None
        for _, request, tid, _ in self.calls(daemon, target.pid, "ptrace"):
            if request == self.PTRACE_CONT and previous == self.PTRACE_SETREGS:
                libc.syscall(SYS_TGKILL, target.pid, tid, signal.SIGURG)
                sent += 1
            previous = request
        self.assertGreater(sent, 0)
        daemon.wait_state(target.pid, "sampling")
        self.assert_same_output(target, expected)


class Mappings(E2ETest):
    ASKS_FOR_MAPPINGS = 3  # MemoryRequest::kMaps, daemon/discover/memory/memory_server.h

    def asked(self, tid, message):
        """The request in a message to a target's memory process; None for other messages."""
        with open(f"/proc/{tid}/mem", "rb") as memory:
            def words(address, form):
                memory.seek(address)
                return struct.unpack(form, memory.read(struct.calcsize(form)))
            parts, count = words(message + 16, "QQ")  # of struct msghdr
            if count != 2:
                return None
            begin, size = words(parts, "QQ")
            return words(begin, "QQII")[3] if size == 24 else None

    def test_they_are_not_read_while_a_thread_stands_still(self):
        """There may be tens of thousands of mappings."""
        target = self.target("busy_threads")
        daemon = self.process(SteppedDaemon(self.folder))
        daemon.stop_at(1, "sendmsg")
        attach = self.process(daemon.attach_in_background(target.pid))
        running, stopped = 0, 0
        while attach.running():
            call = daemon.held(timeout=0.2)
            if call is None:
                continue
            _, _, message, tid = call
            if self.asked(tid, message) == self.ASKS_FOR_MAPPINGS:
                states = [proc_status(f"{target.pid}/task/{tid}", "State")[0] for tid in threads(target.pid)]
                running += "t" not in states
                stopped += "t" in states
            daemon.stop_at(1, "sendmsg")  # no call slips through in between
            daemon.go()
        daemon.off()
        daemon.wait_state(target.pid, "sampling")
        self.assertGreater(running, 0)
        self.assertEqual(0, stopped)


class BlockedSignal(E2ETest):
    def works(self, target):
        before = int(target.command("stat"))
        self.assertGreaterEqual(before, 0)
        eventually(lambda: int(target.command("stat")) > before, "it works on")

    def test_another_thread_is_borrowed(self):
        target = self.target("masks", "1")
        daemon = self.daemon("--pid", target.pid, rate=1e-4)
        daemon.wait_state(target.pid, "sampling")
        self.assertFalse(has_pending(target.pid, signal.SIGURG))
        self.works(target)

    def test_no_thread_can_be_borrowed(self):
        """memprofd reports the reason and leaves nothing behind; later the attach succeeds."""
        target = self.target("masks", "0")
        daemon = self.daemon("--pid", target.pid, rate=1e-4)
        eventually(lambda: "SIGURG" in daemon.targets()[target.pid]["message"], "the reason is told")
        self.assertEqual("waiting", daemon.state(target.pid))
        self.works(target)
        self.assertFalse(has_pending(target.pid, signal.SIGURG))
        self.assertIn("SIGURG", daemon.ctl("doctor", "--pid", target.pid, check=False).stdout)
        target.command("open")
        daemon.wait_state(target.pid, "sampling")
        self.works(target)


class Waiting(E2ETest):
    """While no thread passes the safe point, other tracers can use the program."""

    PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17

    def waiting(self, target):
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: "next allocation" in daemon.targets()[target.pid]["message"], "it waits")
        return daemon

    def wake(self, target, daemon):
        def sampling():
            target.command("wake")
            return daemon.state(target.pid) == "sampling"
        eventually(sampling, "the woken target is sampled")

    def test_signals_arrive_while_memprofd_is_frozen(self):
        target = self.target("idle")
        daemon = self.waiting(target)
        daemon.send_signal(signal.SIGSTOP)
        eventually(lambda: proc_status(daemon.pid, "State")[0] == "T", "memprofd is frozen")
        for number in (signal.SIGWINCH, signal.SIGURG, signal.SIGCHLD):
            os.kill(target.pid, number)
        eventually(lambda: not any(has_pending(target.pid, n) for n in (signal.SIGWINCH, signal.SIGURG)), "they arrive")
        self.assertEqual("S", proc_status(target.pid, "State")[0])
        # The thread passes, times out, and continues.
        self.assertEqual("awake", target.command("wake"))
        self.assertEqual("0", proc_status(target.pid, "TracerPid"))
        daemon.send_signal(signal.SIGCONT)
        self.wake(target, daemon)

    def test_a_debugger_may_come_and_go(self):
        target = self.target("idle")
        pid, fifo = target.pid, self.folder / "fifo"
        os.mkfifo(fifo)
        target.send(f"open {fifo}")  # memprofd can borrow no thread before the debugger has come
        daemon = self.waiting(target)
        self.assertEqual(0, libc.ptrace(self.PTRACE_SEIZE, pid, None, None), os.strerror(ctypes.get_errno()))
        fifo.write_text("")
        def told():
            target.command("wake")  # to pass once may be too short on a busy machine
            return "debugger" in daemon.targets()[pid]["message"]
        eventually(told, "the reason is told")
        self.assertEqual(str(os.getpid()), proc_status(pid, "TracerPid"))
        self.assertEqual(0, libc.ptrace(self.PTRACE_INTERRUPT, pid, None, None))
        os.waitpid(pid, 0)
        self.assertEqual(0, libc.ptrace(self.PTRACE_DETACH, pid, None, None))
        self.wake(target, daemon)


if __name__ == "__main__":
    unittest.main()
