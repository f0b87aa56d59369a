# SPDX-License-Identifier: Apache-2.0
"""A target whose memory does not answer, because a page belongs to a file on a hung file system.

Everything but that target continues, and memprofd can end in any way.
"""

import os
import pathlib
import signal
import subprocess
import unittest

import harness
from harness import BUILD, ROOT, E2ETest, Process, eventually

HERE = pathlib.Path(__file__).resolve().parent
RATE = 1e-3


def session_of(pid):
    """Processes of the session that pid began, as (pid, state)."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == pid:
            found.append((int(entry.name), fields[0]))
    return found


class HungMemory(E2ETest):
    def setUp(self):
        super().setUp()
        library = self.folder / "remap.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "programs/remap.c"], check=True)
        self.order = self.folder / "order"
        self.hung = self.target("busy_threads", env=dict(
            os.environ, REMAP=str(self.order), LD_PRELOAD=f"{BUILD / 'libmemprof_agent.so'}:{library}"))
        self.other = self.target("known_alloc")
        self.memprofd = self.daemon(rate=RATE)
        self.memprofd.attach(self.hung.pid)
        self.memprofd.attach(self.other.pid)
        self.memprofd.wait_state(self.hung.pid, "sampling")
        self.sample_on_command(self.memprofd, self.other)
        self.file_system = self.mount()

    def mount(self):
        """Started last, because clean-up ends it first, which frees all that waits for it."""
        folder, contents = self.folder / "mount", self.folder / "contents"
        folder.mkdir()
        address = int(pathlib.Path(f"{self.order}.address").read_text())
        with open(f"/proc/{self.hung.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            contents.write_bytes(memory.read(4096))
        server = self.process(Process([ROOT / "tests/hostile/fuse_hang.py", folder, contents]))
        self.assertRegex(server.read_line(), "^ready ")
        return server

    def hang(self):
        """Waits until memprofd reads the page from the hung file system."""
        part = self.folder / "order.part"
        part.write_text(str(self.folder / "mount/page"))
        part.rename(self.order)
        self.assertRegex(self.file_system.read_line(), "^read 0 ")
        eventually(self.servers_in_the_kernel, "memprofd's reader stands still")

    def servers_in_the_kernel(self):
        return [pid for pid, state in session_of(self.memprofd.pid) if state == "D"]

    def assert_fresh(self):
        """The answers show the present work of the other target."""
        before = harness.sum_sites(self.memprofd.sites(self.other.pid), "site_small")["samples"]
        self.other.command("go 1")
        eventually(lambda: harness.sum_sites(self.memprofd.sites(self.other.pid), "site_small")["samples"] > before,
                   "the other target's numbers go on")

    def assert_others_go_on(self):
        self.assert_fresh()
        self.memprofd.set_rate(self.other.pid, 2 * RATE)
        self.sample_on_command(self.memprofd, self.other)
        self.memprofd.detach(self.other.pid)
        self.memprofd.attach(self.other.pid, rate=RATE)
        self.sample_on_command(self.memprofd, self.other)
        self.assert_fresh()

    def assert_little_is_left(self):
        """Only processes stuck in the kernel remain, and they hold nothing of memprofd's but its
        socket."""
        def only_the_reader():
            left = [(pid, state) for pid, state in session_of(self.memprofd.pid)]
            return all(state == "D" for _, state in left) and len(left) == 1 and left
        (reader, _), = eventually(only_the_reader, "all but the reader has ended")
        files = sorted(os.readlink(link).split(":")[0] for link in pathlib.Path(f"/proc/{reader}/fd").iterdir())
        self.assertEqual(sorted([f"/proc/{self.hung.pid}/{name}" for name in ("maps", "mem")] + ["socket"]),
                         files)

    def test_others_go_on_and_it_is_given_up(self):
        self.hang()
        self.assert_others_go_on()
        self.memprofd.wait_state(self.hung.pid, "failed", timeout=60)
        self.assertIn("does not answer", self.memprofd.targets()[self.hung.pid]["message"])
        eventually(lambda: self.memprofd.metrics().value("memprofd_abandoned_memory_servers") == 1, "its reader is left")
        self.assert_others_go_on()
        self.assertEqual(0, self.memprofd.stop(signal.SIGTERM))
        self.assert_little_is_left()

    def test_sigterm_while_it_hangs(self):
        self.hang()
        self.assertEqual(0, self.memprofd.stop(signal.SIGTERM))
        self.assert_little_is_left()

    def test_sigkill_while_it_hangs(self):
        self.hang()
        self.assertEqual(-signal.SIGKILL, self.memprofd.stop(signal.SIGKILL))
        self.assert_little_is_left()
        self.memprofd = self.daemon(rate=RATE)
        self.memprofd.attach(self.other.pid)
        self.sample_on_command(self.memprofd, self.other)
        self.assert_fresh()

    def test_it_recovers(self):
        self.hang()
        self.assert_fresh()
        self.file_system.send("answer")
        eventually(lambda: not self.servers_in_the_kernel(), "the page has come")
        self.assert_works_on(self.hung)
        before = self.memprofd.metrics().total("memprofd_samples_total", pid=self.hung.pid, event="alloc")
        eventually(lambda: self.memprofd.metrics().total("memprofd_samples_total", pid=self.hung.pid, event="alloc")
                   > before, "it is sampled on")
        self.assertEqual("sampling", self.memprofd.state(self.hung.pid))


if __name__ == "__main__":
    unittest.main()
