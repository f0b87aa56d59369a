# SPDX-License-Identifier: Apache-2.0
"""The agent stops by itself when no memprofd listens, as seen in the target's memory."""

import os
import signal
import unittest

import harness
from harness import E2ETest, eventually, proc_status
from injected_agent import agent_head, agent_process, agent_state, in_agent
from runtime_words import WALK_ASKS, is_undone, written_by_the_agent, written_in_domains


def write_to_agent(pid, name, offset, data):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        os.pwrite(memory.fileno(), data, in_agent(pid, name) + offset)


def written_by_walk(pid):
    """The runtime's variables that the agent's walk has written; None without an agent."""
    control = in_agent(pid, "memprof_agent_control")
    if control is None:
        return None
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return written_in_domains(lambda at, size: os.pread(memory.fileno(), size, at), control)


def walks_any_depth(pid):
    """Makes stacks of any depth walked from now on; true if they already are."""
    if in_agent(pid, "memprof_agent_control") is None:
        return False
    write_to_agent(pid, "memprof_switch_frames", 0, bytes(4))
    return any(asks == WALK_ASKS for asks, _ in written_by_walk(pid))


class AgentStops(E2ETest):
    options = ()
    folder_of_targets = None

    def setUp(self):
        super().setUp()
        self.target_process = self.target("busy_threads", folder=self.folder_of_targets)
        self.pid = self.target_process.pid
        self.look_before()
        self.memprofd = self.daemon("--pid", self.pid, *self.options, rate=1e-3)
        self.memprofd.wait_state(self.pid, "sampling")

    def look_before(self):
        """Remembers the runtime's variables before the agent writes them."""

    def wait_agent(self, state):
        eventually(lambda: agent_state(self.pid) == state, f"agent state {state}", timeout=60)

    def test_after_memprofd_was_killed(self):
        self.assertEqual(agent_process.SAMPLING, agent_state(self.pid))
        self.memprofd.stop(signal.SIGKILL)
        self.wait_agent(agent_process.IDLE)
        self.assertEqual(0, self.target_process.exit()["errors"])

    def test_after_a_detach(self):
        self.memprofd.detach(self.pid)
        self.wait_agent(agent_process.IDLE)
        self.assertEqual(0, self.target_process.exit()["errors"])

    def test_while_memprofd_stands_still_and_starts_again_with_it(self):
        self.memprofd.send_signal(signal.SIGSTOP)
        self.wait_agent(agent_process.IDLE)  # the lease has run out
        self.memprofd.send_signal(signal.SIGCONT)
        self.wait_agent(agent_process.SAMPLING)
        self.memprofd.wait_state(self.pid, "sampling")
        before = self.memprofd.metrics().value("memprofd_samples_total", pid=self.pid, event="alloc")
        eventually(lambda: self.memprofd.metrics().value(
            "memprofd_samples_total", pid=self.pid, event="alloc") > before, "samples again")
        self.assertEqual(0, self.target_process.exit()["errors"])

    def test_a_target_that_stands_still_keeps_its_session(self):
        """An idle target is looked after rarely, but its lease is renewed."""
        quiet = self.target("known_alloc")
        self.memprofd.attach(quiet.pid, 1e-4)
        self.sample_on_command(self.memprofd, quiet)
        for _ in range(2):
            before = agent_head(quiet.pid)["requested_until_ns"]
            eventually(lambda: agent_head(quiet.pid)["requested_until_ns"] > before, "the lease is renewed")
        quiet.exit()

    def test_an_injected_agent_of_a_quiet_target_is_woken_again(self):
        quiet = self.target("known_alloc")
        self.memprofd.attach(quiet.pid, 1e-4)
        self.sample_on_command(self.memprofd, quiet)
        self.memprofd.send_signal(signal.SIGSTOP)
        eventually(lambda: quiet.command("go 1") and agent_state(quiet.pid) == agent_process.IDLE,
                   "the lease runs out", timeout=60)
        # The target allocates nothing, so its next session has to wait.
        self.memprofd.send_signal(signal.SIGCONT)
        self.memprofd.wait_state(quiet.pid, "waiting")
        self.assertEqual("0", proc_status(quiet.pid, "TracerPid"))
        self.sample_on_command(self.memprofd, quiet)
        self.assertEqual(agent_process.SAMPLING, agent_state(quiet.pid))
        quiet.exit()


class OfOwnWalk(AgentStops):
    """The agent's values in the runtime's variables are removed with its session."""
    options = ("--capture", "agent")
    test_an_injected_agent_of_a_quiet_target_is_woken_again = None
    test_a_target_that_stands_still_keeps_its_session = None

    def look_before(self):
        self.before = written_by_the_agent(self.pid)

    def wait_agent(self, state):
        super().wait_agent(state)
        if state == agent_process.IDLE:
            self.wait_undone()
        else:
            self.wait_walks()

    def wait_undone(self):
        self.assertEqual(self.before, written_by_the_agent(self.pid))

    def wait_walks(self):
        eventually(lambda: written_by_the_agent(self.pid) != self.before, "the agent walks stacks")

    def spoil(self):
        """Makes the walk begin where no innermost frame is."""
        write_to_agent(self.pid, "state_offsets", 4, b"\0\0\0\0")

    def test_where_its_walk_goes_wrong_the_runtime_captures(self):
        self.wait_walks()
        self.assertEqual("agent", self.memprofd.targets()[self.pid]["capture"])
        self.spoil()
        eventually(lambda: self.memprofd.targets()[self.pid]["capture"] == "runtime", "the runtime captures")
        self.memprofd.wait_state(self.pid, "sampling")
        self.assertIn("did not agree with the OCaml runtime's", self.memprofd.stderr())
        self.wait_undone()
        self.assertIn("callstack_cut", {drop["reason"] for drop in self.memprofd.targets()[self.pid]["drops"]})
        self.memprofd.set_rate(self.pid, 2e-3)
        self.memprofd.wait_state(self.pid, "sampling")
        self.assertEqual("runtime", self.memprofd.targets()[self.pid]["capture"])
        self.assertEqual(0, self.target_process.exit()["errors"])


class OfOwnWalk5(OfOwnWalk):
    folder_of_targets = harness.TARGETS5

    def look_before(self):
        pass

    def wait_undone(self):
        eventually(lambda: is_undone(written_by_walk(self.pid)), "all is as it was")

    def wait_walks(self):
        eventually(lambda: walks_any_depth(self.pid), "the agent walks stacks")

    def spoil(self):
        write_to_agent(self.pid, "memprof_callback_bytes", 0, bytes([48]))

    def setUp(self):
        super().setUp()
        self.wait_walks()


if __name__ == "__main__":
    unittest.main()
