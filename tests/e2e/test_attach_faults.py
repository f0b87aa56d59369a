# SPDX-License-Identifier: Apache-2.0
"""Faults during the system calls of an attach: the call fails, or the target does something.

The target then ends as it would have undisturbed, memprofd survives and reports the truth, and
nothing is left behind. By default, each kind of call meets some events in turn; MEMPROFD_MATRIX=1
combines each kind, at several of its calls, with each event.
"""

import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

import harness
from harness import NO_PROCESS, NOT_PROFILABLE, OK, E2ETest, Process, eventually, proc_status
from injected_agent import altered_code
from stepping import CALLS, SteppedDaemon
from test_agent_stops import walks_any_depth, written_by_walk
from test_injection import SYS_TGKILL, has_pending, libc, threads

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "agent"))
from runtime_words import is_undone, slots_of_the_agent, written_by_the_agent  # noqa: E402

PTRACE_SEIZE = 0x4206
PTRACE_GETREGS = 12
BPF_LINK_CREATE = 28
PATIENCE = 0.3  # seconds for an event to take effect; memprofd may be holding the target
POSITIONS = 6 if harness.MATRIX else 1


def descriptors(pid):
    links = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        links.add((link.name, os.readlink(link)))
    return links


class Event:
    """An action of the target, or on it, while a call of memprofd is held."""

    ends = False  # the event ends the target or its program

    def __init__(self, target):
        self.target = target

    def begin(self):
        pass

    def finish(self):
        """Called after the attach has continued."""


class Signalled(Event):
    def begin(self):
        for tid in threads(self.target.pid):
            if int(proc_status(f"{self.target.pid}/task/{tid}", "SigBlk"), 16):
                continue  # the runtime's own variables would stay
            for number in (signal.SIGURG, signal.SIGWINCH, signal.SIGCHLD):
                libc.syscall(SYS_TGKILL, self.target.pid, tid, number)
        os.kill(self.target.pid, signal.SIGURG)


class Stopped(Event):
    def begin(self):
        os.kill(self.target.pid, signal.SIGSTOP)

    def finish(self):
        time.sleep(0.05)  # the fault
        os.kill(self.target.pid, signal.SIGCONT)


class Forks(Event):
    def begin(self):
        self.target.send("fork")

    def finish(self):
        self.target.read_line()


class Traced(Event):
    """A thread of the test traces the target; its end detaches it."""

    def begin(self):
        self.leave, there = threading.Event(), threading.Event()
        self.tracer = threading.Thread(target=self.trace, args=(there,))
        self.tracer.start()
        there.wait()

    def trace(self, there):
        for tid in threads(self.target.pid):
            libc.ptrace(PTRACE_SEIZE, tid, None, None)  # not the thread that memprofd has seized
        there.set()
        self.leave.wait()

    def finish(self):
        time.sleep(0.05)  # the fault
        self.leave.set()
        self.tracer.join()


class Killed(Event):
    ends = True

    def begin(self):
        self.target.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while self.target.running() and time.monotonic() < deadline:
            time.sleep(0.01)


class Exits(Event):
    ends = True

    def begin(self):
        self.target.send("exit")
        deadline = time.monotonic() + PATIENCE
        while self.target.running() and time.monotonic() < deadline:
            time.sleep(0.01)


class Executes(Event):
    ends = True

    def begin(self):
        self.target.send(f"exec {harness.TARGETS}/known_alloc")
        deadline = time.monotonic() + PATIENCE
        while "known_alloc" not in os.readlink(f"/proc/{self.target.pid}/exe") and time.monotonic() < deadline:
            time.sleep(0.01)


class Nothing(Event):
    """Only the call itself fails."""


def happen(event, memprofd, name):
    """Runs the event while memprofd is held at a call of that name; the call fails if the event
    does nothing."""
    event.begin()
    if isinstance(event, Nothing):
        memprofd.fail(getattr(errno, CALLS[name][1]))
    else:
        memprofd.go()
    event.finish()


EVENTS = [Nothing, Signalled, Stopped, Forks, Traced, Killed, Exits, Executes]


def events_of(turn):
    """Events for the call of that number: one of the events in turn, and nothing at each second
    call. All with MEMPROFD_MATRIX=1."""
    return EVENTS if harness.MATRIX else [EVENTS[1 + turn % (len(EVENTS) - 1)], Nothing][:2 - turn % 2]


class Faults(E2ETest):
    options = ()
    folder_of_targets = None

    def setUp(self):
        super().setUp()
        self.expected = harness.undisturbed_output(folder=self.folder_of_targets)
        self.memprofd = self.process(SteppedDaemon(self.folder, *self.options))

    def counts(self):
        """Number of calls of each kind in an undisturbed attach."""
        target = self.target("busy_threads", folder=self.folder_of_targets)
        self.memprofd.stop_at(1_000_000_000, *CALLS)
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        counts = self.memprofd.off()
        self.memprofd.detach(target.pid)
        target.exit()
        return counts

    def hold(self, attach, name, position):
        """True if memprofd reaches that call before the attach ends."""
        self.memprofd.stop_at(position, name)
        while True:
            running = attach.running()
            if self.memprofd.held(timeout=0.05):
                return True
            if not running:
                return False

    def attach(self, target, name, position, event):
        attach = self.process(self.memprofd.attach_in_background(target.pid))
        self.reached = self.hold(attach, name, position)
        if self.reached:
            happen(event, self.memprofd, name)
        self.memprofd.off()
        return attach

    def check_ended(self, target, event, attach):
        code = attach.wait()
        if isinstance(event, Executes):
            self.check_new_program(target, code, attach)
            return
        self.assertIn(code, (OK, NO_PROCESS), attach.stderr())
        if isinstance(event, Exits):
            self.assertEqual(0, target.wait(), target.stderr())
        eventually(lambda: self.memprofd.state(target.pid) in ("exited", "failed", None), "its end is told")

    def check_new_program(self, target, code, attach):
        """After an exec the new program is either untouched or sampled like any other."""
        # During the exec the process was neither of the two.
        self.assertIn(code, (OK, NO_PROCESS, NOT_PROFILABLE), attach.stderr())
        while not target.read_line().startswith("ready"):
            pass
        def told():
            self.assertGreater(target.command("go 1")["rounds"], 0)
            return self.memprofd.state(target.pid) in ("exited", "failed", "sampling", None)
        eventually(told, "the end of the old program or the life of the new one is told")
        if self.memprofd.state(target.pid) == "sampling":
            self.memprofd.detach(target.pid, check=False)  # it may just have ended
        self.check_nothing_left(target)

    def check_lives(self, target, attach):
        """The target is sampled, by this attach or the next, and detached without a trace."""
        code = attach.wait()
        if code != OK:
            self.assert_one_line(attach.stderr())
        if not self.comes_to_sample(target, code):
            self.memprofd.attach(target.pid)
            self.memprofd.wait_state(target.pid, "sampling")
        self.assert_works_on(target)
        self.memprofd.detach(target.pid)
        self.check_nothing_left(target)
        self.assert_same_output(target, self.expected)

    def comes_to_sample(self, target, code):
        over = ["sampling", "failed"] + ([None] if code != OK else [])
        return eventually(lambda: self.memprofd.state(target.pid) in over and [self.memprofd.state(target.pid)],
                          "the attach is over") == ["sampling"]

    def check_nothing_left(self, target):
        pid = target.pid
        self.assertEqual([], altered_code(pid), "a breakpoint is left")
        for tid in threads(pid):
            self.assertEqual("0", proc_status(f"{pid}/task/{tid}", "TracerPid"))
            self.assertNotIn(proc_status(f"{pid}/task/{tid}", "State")[0], "tT")
        eventually(lambda: not has_pending(pid, signal.SIGURG), "no signal is left pending")
        self.assertFalse([link for _, link in descriptors(pid) if "memprof_agent" in link])
        self.check_variables(pid)

    def trial(self, name, position, kind):
        target = self.target("busy_threads", folder=self.folder_of_targets)
        eventually(lambda: target.command("stat")["checksums"], "it has computed something")
        self.before_attach(target.pid)
        event = kind(target)
        with self.subTest(call=name, position=position, event=kind.__name__):
            attach = self.attach(target, name, position, event)
            if event.ends and (self.reached or not target.running()):
                self.check_ended(target, event, attach)
            else:
                self.check_lives(target, attach)
        target.kill()
        self.processes = [self.memprofd]

    def before_attach(self, pid):
        pass

    def check_variables(self, pid):
        """The agent has restored the runtime's variables."""

    def trials(self, counts):
        for turn, (name, count) in enumerate(counts.items()):
            positions = sorted({1 + i * (count - 1) // max(1, POSITIONS - 1) for i in range(POSITIONS)})
            if not harness.MATRIX:
                positions = [1 + turn * 7 % count]
            for position in positions:
                for kind in events_of(turn):
                    yield name, position, kind

    def test_an_exec_while_its_file_is_read_is_told(self):
        """An exec removes the memory that memprofd is about to read; that is no fault of the
        program."""
        for position in range(1, self.counts()["pread64"], 5 if harness.MATRIX else 15):
            self.trial("pread64", position, Executes)

    def test_a_thread_that_is_lost_is_not_the_end_of_its_program(self):
        for position in range(2, self.counts()["ptrace"], 4):
            self.trial("ptrace", position, Nothing)

    def attach_losing(self, target, name, request, position):
        """Attaches while the kernel once denies that the thread exists. Returns the number of such
        calls until then."""
        self.memprofd.stop_at(1, name)
        attach = self.process(self.memprofd.attach_in_background(target.pid))
        seen = 0
        while seen < position and (attach.running() or self.memprofd.state(target.pid) == "waiting"):
            held = self.memprofd.held(timeout=0.5)
            if not held:
                continue
            seen += held[1] == request
            self.memprofd.stop_at(1, name)
            if held[1] == request and seen == position:
                self.memprofd.fail(errno.ESRCH)
            else:
                self.memprofd.go()
        self.memprofd.off()
        self.assertEqual(OK, attach.wait(), attach.stderr())
        self.memprofd.wait_state(target.pid, "sampling")
        return seen

    def test_what_is_lost_before_anything_is_borrowed_is_tried_again(self):
        target = self.target("busy_threads")
        links = self.attach_losing(target, "bpf", BPF_LINK_CREATE, position=1_000)
        self.memprofd.detach(target.pid)
        for name, request, position in (("bpf", BPF_LINK_CREATE, links), ("ptrace", PTRACE_GETREGS, 1),
                                        ("ptrace", PTRACE_GETREGS, 2)):
            target = self.target("busy_threads")
            with self.subTest(call=name, position=position):
                self.assertEqual(position, self.attach_losing(target, name, request, position))
                self.assert_works_on(target)
                self.memprofd.detach(target.pid)
                self.check_nothing_left(target)
                self.assert_same_output(target, self.expected)

    def test_others_are_cared_for_while_a_thread_is_borrowed(self):
        """While the injector is held, only the detach of its target waits; other targets are
        served."""
        other = self.target("steady")
        self.memprofd.attach(other.pid)
        self.memprofd.wait_state(other.pid, "sampling")
        target = self.target("busy_threads")
        self.memprofd.stop_at(6, "ptrace")
        attach = self.process(self.memprofd.attach_in_background(target.pid))
        self.assertTrue(self.memprofd.held(timeout=harness.TIMEOUT))
        detach = self.process(Process([harness.BUILD / "memprofctl", "--grpc.socket", self.memprofd.socket,
                                       "detach", "--pid", str(target.pid)], stdin=subprocess.DEVNULL))
        eventually(lambda: not attach.running() or self.memprofd.state(target.pid) == "waiting", "it is asked for")
        for _ in range(5):
            self.memprofd.set_rate(other.pid, 2e-4)
            self.memprofd.set_rate(other.pid, 1e-4)
        self.assertTrue(detach.running(), "it has not let go of the program")
        self.memprofd.off()
        self.memprofd.go()
        self.assertEqual(OK, detach.wait(), detach.stderr())
        attach.wait()
        self.check_nothing_left(target)
        self.assert_free_for_another(target)
        self.assert_same_output(target, self.expected)

    def assert_free_for_another(self, target):
        """Its agent can be claimed again, although the memprofd that claimed it still runs."""
        another = self.daemon(rate=1e-4)
        another.attach(target.pid)
        another.wait_state(target.pid, "sampling")
        self.assert_works_on(target)
        another.detach(target.pid)

    def test_each_kind_of_call(self):
        counts = self.counts()
        for name, position, kind in self.trials(counts):
            self.trial(name, position, kind)
            self.assertTrue(self.memprofd.running(), self.memprofd.stderr())
        harness.NOTES.append(f"{sum(counts.values())} calls of {len(counts)} kinds")


class WhatIsWritten:
    """For Faults with an option that makes the agent write more into the program."""
    written_in = 0
    test_an_exec_while_its_file_is_read_is_told = None
    test_a_thread_that_is_lost_is_not_the_end_of_its_program = None
    test_what_is_lost_before_anything_is_borrowed_is_tried_again = None
    test_others_are_cared_for_while_a_thread_is_borrowed = None

    def before_attach(self, pid):
        self.exe = os.readlink(f"/proc/{pid}/exe")

    def comes_to_sample(self, target, code):
        sampling = super().comes_to_sample(target, code)
        # A process that the agent cannot enter is observed.
        if sampling and self.is_to_write(self.memprofd.targets()[target.pid]):
            self.written_in += 1
            eventually(lambda: self.has_written(target.pid), self.what)
        return sampling

    def test_each_kind_of_call(self):
        super().test_each_kind_of_call()
        self.assertGreater(self.written_in, 10)


class FaultsOfOwnWalk(WhatIsWritten, Faults):
    """The agent writes into the runtime's variables, and restores them."""
    options = ("--capture", "agent")
    what = "the agent walks stacks"

    def before_attach(self, pid):
        super().before_attach(pid)
        self.before = written_by_the_agent(pid)

    def check_variables(self, pid):
        if os.readlink(f"/proc/{pid}/exe") == self.exe:
            eventually(lambda: written_by_the_agent(pid) == self.before, "the runtime's variables are as they were")

    def is_to_write(self, told):
        return told["capture"] == "agent"

    def has_written(self, pid):
        return written_by_the_agent(pid) != self.before


class FaultsOfOwnWalk5(FaultsOfOwnWalk):
    folder_of_targets = harness.TARGETS5

    def before_attach(self, pid):
        WhatIsWritten.before_attach(self, pid)

    def check_variables(self, pid):
        if os.readlink(f"/proc/{pid}/exe") == self.exe and written_by_walk(pid):
            eventually(lambda: is_undone(written_by_walk(pid)), "the runtime's variables are as they were")

    def has_written(self, pid):
        return walks_any_depth(pid)


class FaultsOfCHeap(WhatIsWritten, Faults):
    """The agent replaces malloc in slots of all files and in hooks of the runtime, and restores
    them on a detach."""
    options = ("--c-heap-interval", "4096")
    what = "C's memory is followed"

    def slots(self, pid):
        return slots_of_the_agent(pid, harness.BUILD / "libmemprof_agent.so")

    def is_to_write(self, told):
        return told["mode"] != "observe"

    def has_written(self, pid):
        return bool(self.slots(pid))

    def check_nothing_left(self, target):
        super().check_nothing_left(target)
        if os.readlink(f"/proc/{target.pid}/exe") == self.exe:
            eventually(lambda: self.slots(target.pid) == [], "slots are put back")


class FaultsOfCHeap5(FaultsOfCHeap):
    """The same with the hooks of blocking sections."""
    folder_of_targets = harness.TARGETS5


if __name__ == "__main__":
    unittest.main()
