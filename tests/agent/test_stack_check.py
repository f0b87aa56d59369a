# SPDX-License-Identifier: Apache-2.0
"""Compares the agent's own walk of OCaml 4 stacks with the runtime's, sample by sample, slot by slot.

    make targets-bullseye                                           # adds OCaml 4.11; likewise 4.12 and 4.14
    MEMPROFD_STACKS=1000000 tests/run.py agent/test_stack_check     # 1,000,000 callstacks with each OCaml
"""

import os
import signal
import struct
import time
import unittest

import agent_process as agent
from agent_process import BUILD, AgentProcess, symbol

AGENT = os.path.abspath(os.path.join(BUILD, "tests/libmemprof_agent_checked.so"))
BY_RUNTIME = 1  # MEMPROF_CAPTURE_BY_RUNTIME
STACKS = int(os.environ.get("MEMPROFD_STACKS", "20000"))
# struct memprof_stack_checks, tests/agent/stack_check.h
CHECKS = struct.Struct("<7Q")
NAMES = ("equal", "different", "postponed", "too_deep", "walked", "verified", "unsupported")
# struct memprof_stack, agent-lib/walk/delta_walk.h: number of remembered stacks, and sizes of their parts.
REMEMBERED, HEAD_BYTES, SIZES_BYTES, SLOTS_BYTES = 8, 56, 16 * 1024, 16 * 16384
TAIL_BYTES = 8 + 3 * 4 + 2 * 16384 + 4
SLOT = struct.Struct("<QQ")
FRAME, BOTTOM = 0, 1


class Checked:
    """A program whose samples are compared."""

    def __init__(self, test, *arguments, rate=1e-2, **options):
        self.target = AgentProcess(*arguments, agent=AGENT, **options)
        test.addCleanup(lambda: self.target.process.kill() if self.target.process.poll() is None else None)
        self.at = self.target.base + symbol(AGENT, "memprof_stack_checks")
        self.target.write(self.target.control + agent.REQUESTED_CAPTURE, struct.pack("<I", BY_RUNTIME))
        self.want(True)
        self.target.request(rate, 1)
        self.target.watch(True)

    def want(self, check):
        self.target.write(self.target.base + symbol(AGENT, "memprof_stack_check_wanted"), struct.pack("<I", check))

    def now(self):
        return dict(zip(NAMES, CHECKS.unpack(self.target.read(self.at, CHECKS.size))))

    def until(self, reached, work):
        """Calls work(), in which the program samples, until reached(). Fails after a minute without a sample."""
        seen, deadline = -1, 0.0
        while not reached(now := self.now()):
            count = now["equal"] + now["different"] + now["too_deep"]
            if count > seen:
                seen, deadline = count, time.monotonic() + 60
            if time.monotonic() > deadline:
                raise AssertionError(f"no sample any more: {now}")
            work()
        return now

    def all_equal(self, test, stacks, work):
        now = self.until(lambda now: now["different"] or now["unsupported"] or now["equal"] >= stacks, work)
        test.assertEqual((0, 0), (now["different"], now["unsupported"]), now)
        return now


def wait_a_little():
    time.sleep(0.02)


class StackCheck(unittest.TestCase):
    def test_recursion_exceptions_callbacks_threads_signals(self):
        checked = Checked(self, "stacks", "0")
        now = checked.all_equal(self, STACKS, wait_a_little)
        self.assertGreater(now["verified"], 4 * now["walked"], now)
        self.assertGreater(now["postponed"], 0, "what is allocated by C is not compared")
        self.assertEqual(0, checked.target.close()[0])

    def test_in_other_versions_that_have_been_built(self):
        for release in ("bullseye", "4.12", "4.14"):
            if os.path.exists(os.path.join(BUILD, f"targets-{release}", "stacks")):
                with self.subTest(release):
                    checked = Checked(self, "stacks", "0", folder=f"targets-{release}")
                    checked.all_equal(self, STACKS, wait_a_little)
                    self.assertEqual(0, checked.target.close()[0])

    def test_plugins_that_are_loaded_meanwhile(self):
        checked = Checked(self, "plugin_host", folder="targets/plugins")
        for name in ("early", "late"):
            path = os.path.abspath(os.path.join(BUILD, "targets/plugins", f"plugin_{name}.cmxs"))
            checked.target.ask(f"load {path}")
            checked.all_equal(self, checked.now()["equal"] + STACKS // 10, lambda: checked.target.ask("go 2000"))
        self.assertEqual(0, checked.target.close()[0])

    def test_values_that_are_replaced_all_the_time(self):
        """Each command is so short that it ends before the program compacts its heap."""
        checked = Checked(self, "values", rate=1e-1)
        checked.all_equal(self, STACKS, lambda: checked.target.ask("churn 0.2"))
        self.assertEqual(0, checked.target.close()[0])

    def test_minor_heaps_that_move(self):
        """Gc.set moves minor heaps; the place of a callstack shows whether its sample is of this moment."""
        checked = Checked(self, "minor_heaps", rate=1e-1)
        checked.all_equal(self, STACKS // 10, lambda: checked.target.ask("stat"))
        self.assertEqual(0, checked.target.close()[0])

    def test_code_without_debug_information(self):
        checked = Checked(self, "nog_target")
        checked.all_equal(self, STACKS // 10, lambda: checked.target.ask("go 1"))
        self.assertEqual(0, checked.target.close()[0])

    def test_nothing_is_compared_without_a_watcher(self):
        checked = Checked(self, "stacks", "0")
        checked.all_equal(self, 1000, wait_a_little)
        checked.target.watch(False)
        checked.target.state(agent.IDLE)
        before = checked.now()
        checked.target.ask("stat")  # the program takes thousands of samples between two commands
        checked.target.ask("stat")
        self.assertEqual(before, checked.now())
        self.assertEqual(0, checked.target.close()[0])

    def test_a_new_session_after_one_that_was_not_checked(self):
        checked = Checked(self, "stacks", "0")
        checked.all_equal(self, 1000, wait_a_little)
        checked.want(False)
        checked.target.request(1e-2, 2)
        checked.target.state(agent.SAMPLING, 2)
        before = checked.now()
        samples = checked.target.head()["last_sample_id"]
        agent.eventually(lambda: checked.target.head()["last_sample_id"] > samples + 1000, "samples of the second session")
        self.assertEqual(before, checked.now())
        checked.want(True)
        checked.target.request(1e-2, 3)
        checked.all_equal(self, before["equal"] + 1000, wait_a_little)
        self.assertEqual(0, checked.target.close()[0])

    def test_what_is_remembered_wrong_is_found(self):
        """Tries several times: a program stopped between two walks may replace the changed stacks unused."""
        for _ in range(20):
            checked = Checked(self, "stacks", "0")
            equal = checked.all_equal(self, 1000, wait_a_little)["equal"]
            self.hide_outermost_frames(checked.target)
            if checked.until(lambda now, equal=equal: now["different"] or now["equal"] > equal + 10_000,
                             wait_a_little)["different"]:
                break
            checked.target.process.kill()
        self.assertGreater(checked.now()["different"], 0)
        equal = checked.now()["equal"]
        now = checked.until(lambda now: now["equal"] > equal + 1000, wait_a_little)
        self.assertLessEqual(now["different"], REMEMBERED, "a stack that was wrong is walked anew")
        self.assertEqual(0, checked.target.close()[0])

    def hide_outermost_frames(self, target):
        """Turns the first frame of each remembered stack into the bottom of a chunk."""
        os.kill(target.pid, signal.SIGSTOP)
        at = target.base + symbol(AGENT, "stacks")
        for _ in range(REMEMBERED):
            slots = at + HEAD_BYTES + SIZES_BYTES
            for i in range(8):
                place, word = SLOT.unpack(target.read(slots + i * SLOT.size, SLOT.size))
                if word and place % 8 == FRAME:
                    target.write(slots + i * SLOT.size, SLOT.pack(place | BOTTOM, word))
                    break
            at = slots + SLOTS_BYTES + TAIL_BYTES
        os.kill(target.pid, signal.SIGCONT)


if __name__ == "__main__":
    unittest.main()
