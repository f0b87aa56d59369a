# SPDX-License-Identifier: Apache-2.0
"""Holds memprofd at chosen system calls (step_calls.c), so that a test can act in between."""

import queue
import subprocess

import harness
from harness import Daemon, Process

# Calls of an attach, each with an error that it may return.
CALLS = {
    "ptrace": (101, "ESRCH"), "perf_event_open": (298, "EMFILE"), "bpf": (321, "ENOMEM"), "openat": (257, "EMFILE"),
    "pread64": (17, "EIO"), "pwrite64": (18, "ENOSPC"), "mmap": (9, "ENOMEM"), "process_vm_readv": (310, "EFAULT"),
    "process_vm_writev": (311, "EFAULT"), "fcntl": (72, "EPERM"), "ioctl": (16, "ENOMEM"), "newfstatat": (262, "EACCES"),
    "fstat": (5, "EIO"), "fstatfs": (138, "EIO"), "readlink": (89, "EACCES"), "wait4": (61, "EINTR"),
    "clone3": (435, "EAGAIN"), "eventfd2": (290, "EMFILE"), "getdents64": (217, "ENOENT"), "prlimit64": (302, "EPERM"),
    "sched_setscheduler": (144, "EPERM"), "pidfd_open": (434, "EMFILE"), "pidfd_getfd": (438, "EPERM"),
    "epoll_create1": (291, "EMFILE"),
}
NUMBERS = {name: number for name, (number, _) in CALLS.items()} | {"sendmsg": 46}


class SteppedDaemon(Daemon):
    """A memprofd whose calls can be held; a held call is (number, argument 1, argument 2,
    thread)."""

    def __init__(self, folder, *arguments, rate=1e-4):
        self.port = harness.free_port()
        self.socket = folder / f"memprofd-{self.port}.sock"
        self.url = f"http://127.0.0.1:{self.port}"
        Process.__init__(self, [
            harness.BUILD / "tests/step_calls", harness.BUILD / "memprofd", "--web.listen-address",
            f"127.0.0.1:{self.port}", "--grpc.socket", self.socket, "--log.level", "info", "--agent",
            harness.BUILD / "libmemprof_agent.so", "--sampling-rate", f"{rate:g}", *arguments])
        self.memprofd_pid = int(self.read_line().split()[1])
        self.wait_ready()

    def stop_at(self, count, *names):
        """Holds the count-th of these calls from now on. No earlier held call may be unread."""
        self.send(f"stop {count} {','.join(str(NUMBERS[name]) for name in names)}")
        while self.read_line() != "stopping":
            pass  # was held before that, and has continued

    def held(self, timeout):
        """The call that memprofd is held at; None if there is none within that time."""
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            return None
        if line is None:
            raise AssertionError(f"memprofd ended with {self.popen.wait()}: {self.stderr()}")
        return tuple(map(int, line.split()[1:]))

    def go(self):
        self.send("go")

    def fail(self, error):
        self.send(f"fail {error}")

    def off(self):
        """Holds no further call. Returns the counts of each chosen call."""
        self.send("off")
        while (words := self.read_line().split())[0] != "seen":
            pass  # was held meanwhile
        counts = dict(map(int, word.split(":")) for word in words[1:])
        return {name: counts[number] for name, number in NUMBERS.items() if number in counts}

    def attach_in_background(self, pid):
        return Process([harness.BUILD / "memprofctl", "--grpc.socket", self.socket, "attach", "--pid", str(pid)],
                       stdin=subprocess.DEVNULL)
