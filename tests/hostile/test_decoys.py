# SPDX-License-Identifier: Apache-2.0
"""Files with false names: of the agent's copy in memory, the only file ever written, and of files
mapped as code."""

import contextlib
import hashlib
import os
import pathlib
import pty
import socket
import subprocess
import unittest

from bombs import library_of_sections
from harness import eventually, undisturbed_output
from hostile_case import ATTACKER, StoppedAtTheEnd
from open_watch import OpenWatch

PATTERN = bytes(range(256)) * 4096  # 1 MiB


class Victims:
    """Files that only root may open: made(kind) is a path, state(kind) includes all that could
    change."""

    def __init__(self, folder, cleanup):
        self.folder, self.cleanup = folder, cleanup
        self.looks = {}

    def made(self, kind):
        return getattr(self, "_" + kind.replace(" ", "_"))(self.folder / kind.replace(" ", "_"))

    def state(self, path):
        return self.looks[path]()

    def _file(self, path, data):
        path.write_bytes(data)
        path.chmod(0o600)
        self.looks[path] = lambda: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        return path

    def _empty_file(self, path):
        return self._file(path, b"")

    def _full_file(self, path):
        return self._file(path, PATTERN)

    def _block_device(self, path):
        image = self._file(path.with_suffix(".image"), PATTERN * 16)
        device = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True,
                                check=True).stdout.strip()
        self.cleanup(subprocess.run, ["losetup", "--detach", device], check=True)

        def content():
            with open(device, "rb") as opened:
                return hashlib.sha256(opened.read()).hexdigest()
        self.looks[device] = lambda: (content(), self.looks[image]())
        return device

    def _terminal(self, _path):
        master, slave = pty.openpty()
        self.cleanup(os.close, master)
        self.cleanup(os.close, slave)
        os.set_blocking(master, False)
        path = pathlib.Path(os.ttyname(slave))
        path.chmod(0o600)
        self.looks[path] = lambda: self._waiting(master)
        return path

    def _fifo(self, path):
        os.mkfifo(path, 0o600)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.cleanup(os.close, reader)
        self.looks[path] = lambda: self._waiting(reader)
        return path

    def _fifo_without_a_reader(self, path):
        os.mkfifo(path, 0o600)
        self.looks[path] = lambda: None
        return path

    @staticmethod
    def _waiting(descriptor):
        with contextlib.suppress(BlockingIOError):
            return os.read(descriptor, 100)
        return b""

    def _socket(self, path):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        self.cleanup(listener.close)

        def connected():
            with contextlib.suppress(BlockingIOError):
                listener.accept()
                return True
            return False
        self.looks[path] = connected
        return path

    def _folder(self, path):
        path.mkdir(0o700)
        self.looks[path] = lambda: os.listdir(path)
        return path

    def _of_a_process(self, name):
        sleeper = subprocess.Popen(["sleep", "1000"])
        self.cleanup(sleeper.wait)
        self.cleanup(sleeper.kill)
        path = pathlib.Path(f"/proc/{sleeper.pid}/{name}")
        eventually(lambda: path.with_name("comm").read_text() == "sleep\n", "it is the program that it shall be")
        self.looks[path] = path.read_text
        return path

    def _name_of_a_process(self, _path):
        return self._of_a_process("comm")

    def _procfs_setting(self, _path):
        return self._of_a_process("oom_score_adj")


KINDS = ("empty file", "full file", "block device", "terminal", "fifo", "fifo without a reader", "socket", "folder",
         "name of a process", "procfs setting")


class Decoys(StoppedAtTheEnd):
    """A namespace of the program's own, in which a file of root's has the name of the agent's
    copy."""

    def attacked(self, attack, victim, victims):
        expected = undisturbed_output()
        before = victims.state(victim) if victim else None
        target = self.guest(attack=attack)
        attach = self.attach_in_background(target.pid)
        self.assert_answered(attach)
        eventually(lambda: self.memprofd.state(target.pid) in ("sampling", "failed", None), "the attach is over")
        if victim:
            self.assertEqual(before, victims.state(victim), "the host was changed")
        self.let_go(target)
        self.assert_nothing_left(target)
        self.assert_same_output(target, expected)

    def attacked_by_kind(self, attack, kind):
        victims = Victims(self.folder, self.addCleanup)
        victim = victims.made(kind)
        self.attacked(f"{attack} {victim}", victim, victims)
        self.assert_memprofd_is_well()

    def test_files_in_memory_that_are_not_ours(self):
        for kind in ("sealed", "unsealable", "mapped"):
            with self.subTest(kind):
                self.attacked(f"memfds {kind}", None, None)
            self.processes_end()
        self.assert_memprofd_is_well()

    def test_an_honest_program_in_such_a_root_is_profiled(self):
        target = self.guest(attack="other-root")
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        eventually(lambda: self.samples(target.pid) > 0, "its samples")
        self.memprofd.detach(target.pid)
        self.assert_same_output(target, undisturbed_output())


class ExchangedFolders(StoppedAtTheEnd):
    """The program's libraries are links to root's disk while their folders are exchanged."""

    LIBRARIES = 4000  # each is a separate file, because a file is read once, however often it is
                      # mapped
    ATTACHES = 3

    def folders(self, victim):
        """One with the libraries, one with links of the same names to the victim."""
        own = self.own_folder("own")
        for name in ("libraries", "links"):
            (own / name).mkdir()
            os.chown(own / name, ATTACKER, ATTACKER)
        for number in range(self.LIBRARIES):
            library_of_sections(own / "libraries" / str(number), 1)
            (own / "links" / str(number)).symlink_to(victim)
        return own / "libraries", own / "links"

    def attach_and_let_go(self, target):
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        before = self.samples(target.pid)
        eventually(lambda: self.samples(target.pid) > before, "its samples")
        self.let_go(target)
        self.assert_nothing_left(target)

    def test_the_device_is_not_opened(self):
        victims = Victims(self.folder, self.addCleanup)
        device = victims.made("block device")
        before = victims.state(device)
        libraries, links = self.folders(device)
        target = self.guest("steady", attack=f"map-all {libraries};exchange {libraries} {links}")
        watch = OpenWatch(device)
        self.addCleanup(watch.close)
        for _ in range(self.ATTACHES):
            self.attach_and_let_go(target)
        self.assertNotIn(self.memprofd.pid, watch.by_pid(), "memprofd has opened the device")
        self.assertEqual(before, victims.state(device))
        self.assertEqual(0, target.exit()["errors"])
        self.assert_memprofd_is_well()


def test_of(attack, kind):
    return lambda self: self.attacked_by_kind(attack, kind)


for attack, kinds in {"decoy": KINDS, "swap": ("empty file", "block device")}.items():
    for kind in kinds:
        setattr(Decoys, f"test_{attack}_{kind.replace(' ', '_')}", test_of(attack, kind))


if __name__ == "__main__":
    unittest.main()
