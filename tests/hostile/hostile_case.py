# SPDX-License-Identifier: Apache-2.0
"""Hostile programs of ordinary users, and a memprofd with the rights of its unit that must
withstand them.

Environment: MEMPROFD_HOSTILE_TRIES=1000 repeats attacks at random moments that many times.
"""

import atexit
import contextlib
import ctypes
import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import harness
from harness import BUILD, ROOT, Daemon, E2ETest, Process, Target, eventually

ATTACKER, BYSTANDER = 1000, 1001  # neither may affect the other's processes
TRIES = int(os.environ.get("MEMPROFD_HOSTILE_TRIES", "0"))
OWN_PROGRAMS = ("libhostile.so", "libfake_agent.so", "libother_list.so", "canary")
PROGRAMS = ("busy_threads", "forks", "known_alloc", "idle", "steady", "c_memory_library.so")
# Exit codes that are an answer; all others are failures of memprofd.
ANSWERS = {harness.OK, harness.NO_PROCESS, harness.NOT_PROFILABLE, harness.BUSY, harness.AGENT, harness.LIMIT}


@functools.cache
def stage():
    """A folder that every user may read, with copies of all programs, because the build may be
    root's."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memprofd-hostile-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    files = [BUILD / "libmemprof_agent.so", *(harness.TARGETS / name for name in PROGRAMS),
             *(BUILD / "tests/hostile" / name for name in OWN_PROGRAMS)]
    for file in files:
        shutil.copy(file, folder / file.name)
        (folder / file.name).chmod(0o755)
    return folder


@functools.cache
def unit_prefix():
    """A command that runs another with the rights that the shipped unit gives memprofd."""
    unit = (ROOT / "deploy/memprofd.service.in").read_text()
    names = re.search(r"^CapabilityBoundingSet=(.+)$", unit, re.M).group(1).split()
    if "NoNewPrivileges=yes" not in unit:
        raise AssertionError("the unit allows new privileges, which the tests do not expect")
    bounding = ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in names)])
    return ["setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", bounding]


def as_user(uid, new_privileges=False):
    """A command that runs another as the user; setuid has effect only with new_privileges."""
    user = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps", "-all"]
    return user if new_privileges else [*user, "--bounding-set", "-all", "--no-new-privs"]


class Guest(Target):
    """A program of tests/targets that an ordinary user runs, with attacks of
    tests/hostile/attacks."""

    def __init__(self, name, *arguments, attack="", uid=ATTACKER, folder=None, env=None, go=None, prefix=(),
                 new_privileges=False):
        words = dict(env or {})
        if attack:
            words |= {"HOSTILE": attack, "LD_PRELOAD": f"{stage()}/libhostile.so"}
        if go:
            words["HOSTILE_GO"] = str(go)
        program = [*as_user(uid, new_privileges), *prefix, "env", *(f"{k}={v}" for k, v in words.items()),
                   (folder or stage()) / name]
        Process.__init__(self, [*program, *arguments], cwd="/")
        self.program = name
        said = self.read_line().split()
        if said[0] != "ready":
            raise AssertionError(f"{name} said {said} instead of ready")

    def name(self):
        return self.program


# ---------------------------------------------------------------- what is looked at from outside


def thread_names(pid):
    names = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            names.add((task / "comm").read_text().strip())
    return names


def memory_bytes(pid):
    """Peak memory of the process."""
    return int(harness.proc_status(pid, "VmHWM").split()[0]) * 1024


def kernel_objects(pid):
    """Descriptors other than files: BPF programs and maps, probes, processes."""
    count = 0
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += os.readlink(link).startswith("anon_inode:")
        except OSError:
            pass
    return count


def read_memory(pid, address, size):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(size)


def mappings(pid):
    """(begin, end, rights, offset, path) of each mapping."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
        words = line.split(None, 5)
        begin, end = (int(word, 16) for word in words[0].split("-"))
        yield begin, end, words[1], int(words[2], 16), words[5] if len(words) > 5 else ""


def changed_code(pid):
    """Addresses where the program's code differs from its file: active or forgotten probes."""
    exe = os.readlink(f"/proc/{pid}/exe")
    with open(f"/proc/{pid}/exe", "rb") as file:
        for begin, end, rights, offset, path in mappings(pid):
            if path != exe or "x" not in rights:
                continue
            file.seek(offset)
            code = file.read(end - begin)
            if read_memory(pid, begin, len(code)) != code:
                return f"{begin:x}-{end:x} of {exe}"
    return None


@functools.cache
def lease_offset():
    """Offset of the lease's end in the agent's file; None until it is mapped."""
    symbols = subprocess.run(["nm", "-D", stage() / "libmemprof_agent.so"],
                             capture_output=True, text=True, check=True).stdout
    control = int(re.search(r"([0-9a-f]+) [A-Z] memprof_agent_control$", symbols, re.M).group(1), 16)
    return control + ctypes.c_ulong.in_dll(ctypes.CDLL(stage() / "libhostile.so"),
                                           "hostile_requested_until_offset").value


def lease_left_ns(pid):
    """Time until the agent of the process stops by itself; a lease lasts 15 s."""
    base = min(begin for begin, _, _, _, path in mappings(pid) if "memprof_agent" in path)
    until, = struct.unpack("<Q", read_memory(pid, base + lease_offset(), 8))
    left = until - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    if left > 16_000_000_000:
        raise AssertionError(f"{until} is not the end of a lease")
    return left


# ---------------------------------------------------------------- the tests' frame


class UnitDaemon(Daemon):
    """memprofd as the unit runs it."""

    def __init__(self, folder, *arguments, **options):
        super().__init__(folder, *arguments, agent=stage() / "libmemprof_agent.so", prefix=unit_prefix(), **options)


class HostileTest(E2ETest):
    """One memprofd for all tests of a class, which also profiles a program of another user."""

    OPTIONS = ()
    RATE = 1e-3  # for the other program
    # A daemon with a target and its rings takes 40 MB, and the unit allows 2 GB.
    MAX_MEMORY_BYTES = 512 << 20

    @classmethod
    def setUpClass(cls):
        cls.class_folder = pathlib.Path(tempfile.mkdtemp(prefix="memprofd-hostile-class-"))
        cls.shared = []
        cls.addClassCleanup(cls.end_shared)
        cls.bystander = Guest("steady", uid=BYSTANDER)
        cls.shared.append(cls.bystander)
        cls.memprofd = UnitDaemon(cls.class_folder, "--pid", cls.bystander.pid, *cls.OPTIONS, rate=cls.RATE)
        cls.shared.append(cls.memprofd)
        cls.memprofd.wait_state(cls.bystander.pid, "sampling")

    @classmethod
    def end_shared(cls):
        for process in reversed(cls.shared):
            process.kill()
            process.log.close()
            process.popen.stdout.close()
        shutil.rmtree(cls.class_folder, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.go_file = self.folder / "go"
        self.objects = kernel_objects(self.memprofd.pid)

    def _show_logs(self):
        super()._show_logs()
        print(f"--- memprofd said:\n{self.memprofd.stderr()[-6000:]}", file=sys.stderr)

    def own_folder(self, name):
        """A folder that the attacker owns."""
        folder = self.folder / name
        folder.mkdir()
        os.chown(folder, ATTACKER, ATTACKER)
        return folder

    def guest(self, name="busy_threads", *arguments, **options):
        return self.process(Guest(name, *arguments, go=self.go_file, **options))

    def attach_in_background(self, pid, *options):
        return self.process(Process([BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket,
                                     "attach", "--pid", pid, *options]))

    def go(self):
        self.go_file.touch()

    def samples(self, pid):
        return self.memprofd.metrics().total("memprofd_samples_total", pid=pid)

    def assert_others_are_cared_for(self):
        """The bystander's numbers are fresh, and memprofd renews the lease of its agent."""
        before = self.samples(self.bystander.pid)
        eventually(lambda: self.samples(self.bystander.pid) > before, "the other program is sampled on")
        self.assertEqual("sampling", self.memprofd.state(self.bystander.pid))
        self.assertGreater(lease_left_ns(self.bystander.pid), 0)
        self.assertNotRegex(self.memprofd.stderr(), f"pid {self.bystander.pid}: .*did not renew its lease")
        self.bystander.work_done()

    def assert_memprofd_is_well(self):
        self.assertTrue(self.memprofd.running(), self.memprofd.stderr())
        self.assertLess(memory_bytes(self.memprofd.pid), self.MAX_MEMORY_BYTES)
        self.assertRegex(self.memprofd.said(), r"\A[\n\x20-\x7e\u00a0-\uffff]*\Z", "control characters")
        self.assert_others_are_cared_for()

    def assert_nothing_left(self, target=None):
        """No probes, BPF objects or tracer are left; also checks a target that memprofd has
        detached."""
        eventually(lambda: kernel_objects(self.memprofd.pid) <= self.objects, "no BPF object is left over")
        if target is not None and target.running():
            self.assertNotEqual(str(self.memprofd.pid), harness.proc_status(target.pid, "TracerPid"))
            self.assertIsNone(changed_code(target.pid))

    def let_go(self, target):
        """Detaches if needed; memprofd may give up a target at any moment."""
        told = self.memprofd.detach(target.pid, check=False)
        self.assertIn(told.returncode, (harness.OK, harness.NO_PROCESS), told.stderr)
        self.assertNotIn(self.memprofd.state(target.pid), ("sampling", "waiting"))

    def assert_answered(self, attach, codes=ANSWERS):
        """Waits for attach_in_background(): it ends with a documented code and one line."""
        code = attach.wait()
        while attach.lines.get(timeout=harness.TIMEOUT) is not None:
            pass  # its output then has everything
        said = attach.stderr() + "".join(attach.output)
        self.assertIn(code, codes, said)
        self.assert_one_line(said)
        self.assertRegex(said.strip(), r"\A[\x20-\x7e\u00a0-\uffff]*\Z")
        return code


class StoppedAtTheEnd(HostileTest):
    """Base of classes whose last test is that memprofd ends properly."""

    @classmethod
    def tearDownClass(cls):
        code = cls.memprofd.stop()
        if code != harness.OK:
            raise AssertionError(f"memprofd ended with {code}: {cls.memprofd.stderr()}")
        cls.bystander.work_done()
        if changed_code(cls.bystander.pid):
            raise AssertionError("a probe was left behind in the other program")
