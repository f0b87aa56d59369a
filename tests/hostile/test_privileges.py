# SPDX-License-Identifier: Apache-2.0
"""The shipped unit allows exactly what memprofd needs: each capability and system call, and no
more."""

import pathlib
import re
import shutil
import subprocess
import unittest

import yaml

import harness
from containers import make_root
from harness import OK, PRIVILEGES, E2ETest, Daemon, children, eventually
from hostile_case import ATTACKER, Guest, stage, unit_prefix

UNIT = pathlib.Path(harness.ROOT) / "deploy/memprofd.service.in"
POD = pathlib.Path(harness.ROOT) / "deploy/kubernetes/memprofd.yaml"
LEAST_SCORE = "35"  # tenths
SYS_RESOURCE = 24  # its number in linux/capability.h
# Findings about a program of another user if a capability is missing. One call needs
# CAP_SYS_RESOURCE, see below.
TOLD = {
    "CAP_SYS_PTRACE": "privilege to look into targets: missing (run as root or with CAP_SYS_PTRACE)",
    "CAP_DAC_OVERRIDE": "CAP_DAC_OVERRIDE",
    "CAP_SYS_ADMIN": "privilege to load BPF: missing",
}


def unit_option(name):
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.M)


def capabilities():
    return unit_option("CapabilityBoundingSet")[0].split()


def with_capabilities(names):
    bounding = ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in names)])
    return ["setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", bounding]


def expand(names):
    """The system calls of systemd's sets."""
    calls = set()
    for name in names:
        if not name.startswith("@"):
            calls.add(name)
            continue
        said = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True,
                              check=True).stdout
        calls |= expand(line.strip() for line in said.splitlines()[1:] if not line.strip().startswith("#"))
    return calls


class Privileges(E2ETest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)

    def memprofd(self, prefix, *arguments, **options):
        return self.process(Daemon(self.folder, *arguments, agent=stage() / "libmemprof_agent.so", prefix=prefix,
                                   rate=1e-3, **options))

    def guest(self, **options):
        return self.process(Guest("steady", uid=ATTACKER, **options))

    def private_copy(self):
        """A folder with the program that only its user may read."""
        folder = self.folder / "private"
        folder.mkdir()
        folder.chmod(0o755)
        shutil.copy(stage() / "steady", folder / "steady")
        shutil.chown(folder / "steady", ATTACKER, ATTACKER)
        (folder / "steady").chmod(0o700)
        return folder

    def test_the_set_is_enough(self):
        target = self.guest(folder=self.private_copy())
        daemon = self.memprofd(unit_prefix(), "--pid", target.pid, "--max-overhead", "50%", "--follow-forks")
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.assert_works_on(target)

    def test_a_snapshot_of_another_users_program(self):
        """The copy is that user's, too, and ends although memprofd may not signal it."""
        target = self.guest()
        daemon = self.memprofd(unit_prefix(), "--pid", target.pid)
        daemon.wait_state(target.pid, "sampling")
        for _ in range(3):
            daemon.ctl("snapshot", "take", "--pid", target.pid, "--max-pause", "10s", "--out", self.folder / "a.heap")
            eventually(lambda: not children(target.pid), "the copy has been collected")
        self.assertNotIn("cannot be killed", daemon.said())
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.assert_works_on(target)

    def test_each_one_is_needed_and_is_told_when_it_lacks(self):
        names = capabilities()
        self.assertEqual({*TOLD, "CAP_SYS_RESOURCE"}, set(names))
        for name, words in TOLD.items():
            with self.subTest(name):
                target = self.guest(folder=None)
                daemon = self.memprofd(with_capabilities(n for n in names if n != name), "--pid", target.pid,
                                       "--max-overhead", "50%", wait=False)
                self.assertEqual(PRIVILEGES, daemon.wait(), daemon.said())
                self.assertIn(words, daemon.stderr())
                self.assert_works_on(target)
                self.processes_end()

    def test_stack_limits_of_others_take_sys_resource(self):
        """prlimit() on another user's process, as in attach/inject/stack_room.cc."""
        if not int(harness.proc_status("self", "CapEff"), 16) >> SYS_RESOURCE & 1:
            self.skipTest("root has no CAP_SYS_RESOURCE here")
        target = self.guest()
        names = capabilities()
        ask = ["prlimit", "--pid", str(target.pid), "--stack"]
        self.assertEqual(0, subprocess.run([*with_capabilities(names), *ask], capture_output=True).returncode)
        names.remove("CAP_SYS_RESOURCE")
        self.assertNotEqual(0, subprocess.run([*with_capabilities(names), *ask], capture_output=True).returncode)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not there")
    def test_the_score(self):
        unit = self.folder / "memprofd.service"
        unit.write_text(UNIT.read_text().replace("@PREFIX@", "/usr"))
        done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold", LEAST_SCORE,
                               unit], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stdout[-400:])

    @unittest.skipUnless(shutil.which("systemd-analyze") and shutil.which("strace"), "systemd-analyze or strace is not there")
    def test_no_system_call_is_filtered(self):
        allowed = expand(unit_option("SystemCallFilter")[0].split())
        target = self.guest()
        calls = self.folder / "calls"
        daemon = self.memprofd([*unit_prefix(), "strace", "-D", "-f", "-qq", "-c", "-o", calls, "-S", "name"],
                               "--pid", target.pid, "--follow-forks", "--max-overhead", "50%", wait=False)
        eventually(lambda: daemon.running() and daemon.state(target.pid) == "sampling", "it is sampled", timeout=300)
        daemon.ctl("sites", "--pid", target.pid)
        daemon.detach(target.pid)
        self.assertEqual(0, daemon.stop(timeout=300))
        # -D: strace is a separate process that writes after memprofd has ended.
        said = eventually(lambda: calls.exists() and "total" in calls.read_text() and calls.read_text(),
                          "strace has counted", timeout=60)
        rows = [line.split() for line in said.splitlines() if re.match(r"\s*\d+\.\d+\s", line)]
        used = {row[-1] for row in rows} - {"total"}
        self.assertGreater(len(used), 40)
        self.assertIn("ptrace", used)
        self.assertEqual(set(), used - allowed)

    def test_read_only_file_systems(self):
        """ProtectSystem=strict and ProtectKernelTunables=yes, as systemd sets them up."""
        script = ("set -e; mount --make-rprivate /; mount -o bind / /; "
                  "mount -o bind /sys /sys; mount -o remount,bind,ro /sys; "
                  "mount -o bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; "
                  f"mount -o bind /dev/null /proc/kallsyms; mount -o bind {self.folder} {self.folder}; "
                  'exec "$0" "$@"')
        target = self.guest()
        daemon = self.memprofd(["unshare", "-m", "sh", "-c", script, *unit_prefix()], "--pid", target.pid)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual(OK, daemon.detach(target.pid).returncode)


class Pod(E2ETest):
    """memprofd as in deploy/kubernetes: a read-only root of its own, the node's pids."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        (self.pod,) = (part for part in yaml.safe_load_all(POD.read_text()) if part["kind"] == "DaemonSet")
        self.spec = self.pod["spec"]["template"]["spec"]
        (self.container,) = self.spec["containers"]

    def inside(self):
        """A prefix that runs a command there: files keep their paths, and only the tests' folder is
        writable."""
        root = make_root(self.folder / "root", shutil.which("setpriv"), harness.BUILD / "memprofd")
        for file in (harness.BUILD / "memprofd", stage() / "libmemprof_agent.so"):
            (root / str(file.parent).lstrip("/")).mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, root / str(file).lstrip("/"))
        for folder in ("sys", str(self.folder).lstrip("/")):
            (root / folder).mkdir(parents=True, exist_ok=True)
        mounts = f"""mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --bind -o ro /sys "$0/sys" &&
            mount --bind {self.folder} "$0{self.folder}" && mount -o remount,bind,ro "$0" && exec chroot "$0" "$@" """
        names = self.container["securityContext"]["capabilities"]["add"]
        _, *options = with_capabilities(names)
        return ["unshare", "--mount", "sh", "-c", mounts, root, "/app/setpriv", *options]

    def test_it_has_the_rights_of_the_unit(self):
        context = self.container["securityContext"]
        self.assertEqual(set(capabilities()), {f"CAP_{name}" for name in context["capabilities"]["add"]})
        self.assertEqual(["ALL"], context["capabilities"]["drop"])
        self.assertIs(True, self.spec["hostPID"])
        help_text = subprocess.run([harness.BUILD / "memprofd", "--help"], capture_output=True, text=True, check=True).stdout
        for argument in self.container["args"]:
            self.assertIn(f"  {argument.partition('=')[0]} ", help_text)

    def test_a_program_of_the_node_is_profiled(self):
        target = self.process(Guest("steady", uid=ATTACKER))
        daemon = self.process(Daemon(self.folder, "--pid", target.pid, "--state.directory", self.folder / "state",
                                     agent=stage() / "libmemprof_agent.so", prefix=self.inside(), rate=1e-3))
        daemon.wait_state(target.pid, "sampling")
        eventually(lambda: any(frame["file"].endswith("steady.ml") for site in daemon.sites(target.pid)
                               for frame in site["callstack"]), "its own lines in callstacks")
        daemon.ctl("snapshot", "take", "--pid", target.pid, "--max-pause", "10s", "--out", self.folder / "a.heap")
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.assertEqual(OK, daemon.stop())
        self.assert_works_on(target)

if __name__ == "__main__":
    unittest.main()
