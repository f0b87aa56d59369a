# SPDX-License-Identifier: Apache-2.0
"""memprofd without descriptors or memory of the kernel's: it names the limit and the remedy, and goes on."""

import os
import resource
import signal
import tempfile
import unittest

import grpc

import faults
import harness
from api import Api
from harness import E2ETest, eventually
from test_profiles import message_modules


def descriptors(pid):
    return {int(number) for number in os.listdir(f"/proc/{pid}/fd")}


class Descriptors(E2ETest):
    # More than an attach takes.
    MOST = 120

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.pb, = message_modules(folder.name, "memprof/v1/profiler.proto")

    def setUp(self):
        super().setUp()
        self.memprofd = self.daemon(rate=1e-3)
        self.before = resource.prlimit(self.memprofd.pid, resource.RLIMIT_NOFILE)

    def leave(self, number):
        """So many more may be opened; None: as before."""
        used, limit = descriptors(self.memprofd.pid), 0
        while number is not None and (limit in used or number > 0):
            number -= limit not in used
            limit += 1
        soft = self.before[0] if number is None else limit
        resource.prlimit(self.memprofd.pid, resource.RLIMIT_NOFILE, (soft, self.before[1]))

    def assert_names_the_limit(self, message, number):
        self.assert_one_line(message, "too many files open", "LimitNOFILE=", "ulimit -n")
        self.assertRegex(message, r"\bpid \d+\b", f"{number} descriptors left")

    def test_at_each_step_of_an_attach(self):
        """The limit is reached ever later."""
        api = Api(self.pb, self.memprofd)
        self.addCleanup(api.close)
        api.ListTargets()  # connected
        refused = 0
        for number in range(self.MOST):
            target = self.target("busy_threads")
            self.leave(number)
            try:
                api.Attach(pid=target.pid)
                told = eventually(lambda: next(t for t in api.ListTargets().targets if t.pid == target.pid and
                                               t.state != self.pb.TARGET_STATE_WAITING), "it is sampled or has failed")
                message = f"pid {told.pid}: {told.message}" if told.state == self.pb.TARGET_STATE_FAILED else ""
            except grpc.RpcError as error:
                message = error.details()
            self.leave(None)
            if not message:
                break
            refused += 1
            self.assert_names_the_limit(message, number)
            self.assertEqual(0, target.exit()["errors"])
        harness.NOTES.append(f"{refused} descriptors")
        self.assertGreater(refused, 10)
        self.assertLess(refused, self.MOST - 1)

    def test_children_that_cannot_be_followed_are_told_of_once(self):
        target = self.target("forks", folder=harness.TARGETS)
        self.memprofd.ctl("attach", "--pid", target.pid, "--follow-forks")
        self.memprofd.wait_state(target.pid, "sampling")
        self.leave(0)
        for _ in range(5):
            child = target.command("fork")["pid"]
            self.addCleanup(os.kill, child, signal.SIGKILL)
            os.kill(child, signal.SIGSTOP)  # it stays when its parent ends
        target.send("exit")
        eventually(lambda: "4 more of its children were left alone" in self.memprofd.said(), "the others are counted")
        self.leave(None)
        said = [line for line in self.memprofd.said().splitlines()
                if "too many files open" in line and ": plugin " not in line]
        self.assertEqual(1, len(said), said)
        self.assert_names_the_limit(said[0], 0)


class NoMemory(E2ETest):
    CALLS = 12  # libbpf's first questions are among them

    def test_what_the_kernel_once_had_no_memory_for_is_tried_again(self):
        """libbpf keeps what it has found out about the kernel, which must not be found out then."""
        made = faults.Faults(self.folder / "faults", harness.BUILD / "tests/libfaults.so")
        target = self.target("busy_threads")
        for number in range(self.CALLS):
            daemon = self.daemon(rate=1e-3, env=made.environment)
            made.set("calls", made.NEVER - number)
            with made.no_memory(made.NEVER):  # but for the call of that number
                daemon.attach(target.pid, check=False)
            self.assertEqual(number + 1, made.get("failed"))
            daemon.ctl("detach", "--pid", target.pid, check=False)
            daemon.attach(target.pid)
            daemon.wait_state(target.pid, "sampling")
            daemon.stop()
        target.exit()


if __name__ == "__main__":
    unittest.main()
