# SPDX-License-Identifier: Apache-2.0
"""Small root file systems and the programs that run in them, for tests."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import Process, Target, eventually


def libraries(program):
    """Files that the program loads, including its dynamic linker."""
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    linker = re.search(r"interpreter: (\S+)\]", headers).group(1)
    said = subprocess.run([linker, "--list", program], capture_output=True, text=True, check=True).stdout
    return {linker, *re.findall(r"(/\S+) \(0x", said)}


def make_root(folder, *programs):
    """Makes a root with these programs in /app, their libraries, and an empty /proc."""
    for name in ("app", "proc", "dev", "tmp"):
        (folder / name).mkdir(parents=True)
    for program in programs:
        shutil.copy2(program, folder / "app" / pathlib.Path(program).name)
        for library in libraries(program):
            place = folder / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy2(os.path.realpath(library), place)
    return folder


def files(root):
    """Every file below root with its size and times, without /proc."""
    found = {}
    for folder, names, file_names in os.walk(root):
        if folder == str(root) and "proc" in names:
            names.remove("proc")
        for name in names + file_names:
            info = os.lstat(os.path.join(folder, name))
            found[os.path.relpath(os.path.join(folder, name), root)] = (info.st_size, info.st_mtime_ns)
    return found


class Contained(Target):
    """A target behind a command that moves it elsewhere: unshare, chroot. pid is the host's."""

    def __init__(self, command, program, *arguments):
        Process.__init__(self, [*command, program, *arguments])
        words = self.read_line().split()
        if words[0] != "ready":
            raise AssertionError(f"{program} said {words} instead of ready")
        self.inner_pid = int(words[-1])
        self.host_pid = eventually(lambda: self._find(pathlib.Path(program).name), "the program is there")

    def _find(self, name):
        """The child process that runs the program."""
        waiting = [self.popen.pid]
        while waiting:
            pid = waiting.pop()
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name:
                return pid
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        return None

    @property
    def pid(self):
        return getattr(self, "host_pid", self.popen.pid)


UNSHARED = ["unshare", "--mount", "--pid", "--user", "--map-root-user", "--fork", "--kill-child"]


def unshared(root):
    """A command that runs another in the root, with its own namespaces and /proc."""
    return [*UNSHARED, f"--mount-proc={root}/proc", "chroot", root]


class ControlGroup:
    """A control group for one test, of version 1 if its hierarchy is mounted, else of version 2.
    Skips the test if neither is mounted, or if version 2 lacks the controller."""

    MOUNT = pathlib.Path("/sys/fs/cgroup")

    def __init__(self, hierarchy, controller=None, suffix=""):
        self.old = (self.MOUNT / hierarchy).is_dir()
        root = self.MOUNT / hierarchy if self.old else self.MOUNT
        if not (root / "cgroup.procs").exists():
            raise unittest.SkipTest(f"no control groups are mounted at {root}")
        if controller and not self.old:
            self._enable(root / "cgroup.subtree_control", controller)
        self.folder = root / f"memprofd-test-{os.getpid()}{suffix}"
        self.folder.mkdir()

    @staticmethod
    def _enable(control, controller):
        if controller in control.read_text().split():
            return
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            raise unittest.SkipTest(f"no controller {controller} in {control}: {error.strerror}") from None

    def put(self, pid):
        """Moves the process; memory that it took before stays counted in its old group."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        def removed():
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            return not self.folder.exists()
        eventually(removed, "the control group is empty")


class MemoryLimit(ControlGroup):
    """Limits the memory of its processes."""

    def __init__(self, mib):
        super().__init__("memory", "memory")
        self.set(mib << 20)

    def set(self, limit):
        (self.folder / ("memory.limit_in_bytes" if self.old else "memory.max")).write_text(str(limit))

    def usage(self):
        return int((self.folder / ("memory.usage_in_bytes" if self.old else "memory.current")).read_text())
