# SPDX-License-Identifier: Apache-2.0
"""Attacks of a program on itself while it is attached to, sampled and detached: one row each.

In each case memprofd answers in one line, serves the other program, keeps within its memory, leaves
nothing behind, and does not change the program's results.
"""

import dataclasses
import pathlib
import signal
import sys
import unittest

from harness import eventually, undisturbed_output
from hostile_case import ANSWERS, StoppedAtTheEnd, stage, thread_names

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "agent"))
from runtime_words import slots_of_the_agent  # noqa: E402

SAMPLED = ("sampling",)
ANY_END = ("sampling", "waiting", "failed", "exited", None)
URG, TRAP, PROF = int(signal.SIGURG), int(signal.SIGTRAP), int(signal.SIGPROF)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    attack: str  # words of tests/hostile/attacks; {stage} is the folder of programs that all users
                 # may read
    states: tuple = SAMPLED  # possible states after the attach
    says: str = ""  # part of the answer or of the target's message
    rounds: int = 1  # for attacks that depend on the moment
    prefix: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    ends: bool = False  # the program ends by itself
    thread: str = ""  # the thread of the attack, which ends when its file is removed


MOMENTS = ("at-once", "seized", "agent", "go+20000", "go+90000")

ROWS = [
    # Signals. Their sender is not the one that memprofd waits for.
    *(Row(f"SIGURG once, {moment}", f"signal {moment} {URG}") for moment in MOMENTS),
    Row("SIGURG without end", f"signals at-once {URG}"),
    Row("SIGURG as soon as the agent is mapped, without end", f"signals agent {URG}", rounds=2),
    Row("real-time signals", "signals at-once 34 40 64"),
    Row("SIGPROF and SIGUSR1", f"signals at-once {PROF} {int(signal.SIGUSR1)}"),
    Row("SIGTRAP", f"signals at-once {TRAP}"),
    Row("SIGTRAP and SIGURG while held", f"signals seized {TRAP} {URG}", rounds=2),
    Row("stopped and continued without end", "stop-storm"),
    Row("stopped in the middle", "stop go+30000 400000", rounds=2),
    Row("SIGURG blocked by all threads", f"block-signals {URG}", states=ANY_END, says="SIGURG"),
    Row("all signals blocked by all threads", "block-signals", states=ANY_END, says="SIGURG"),
    # Processes.
    Row("forks without end", "fork-storm"),
    Row("forks that run other programs without end", "fork-storm exec"),
    Row("another process shares the memory", "shared-memory"),
    Row("traced by its child for moments", "tracer", states=ANY_END),
    *(Row(f"ends, {moment}", f"exit {moment}", states=ANY_END, ends=True) for moment in MOMENTS[1:]),
    # Names.
    Row("escapes, quotes and a newline in its name", "hostile-name"),
    # Memory.
    Row("60,000 mappings", "mappings 60000"),
    Row("a file mapped 5,000 times", "map-file {stage}/libhostile.so 5000"),
    Row("maps and unmaps without end", "churn-mappings {stage}/libhostile.so"),
    Row("its stack is read-only below", "protect-stack seized", states=ANY_END),
    # Limits.
    Row("no descriptors", "limit nofile 0 go", states=ANY_END),
    Row("no processes", "limit nproc 0 go"),
    Row("no data", "limit data now go", states=ANY_END),
    Row("no file size", "limit fsize 0 go"),
    Row("no descriptors, another root", "other-root;limit nofile 0 go", states=ANY_END, says="open files"),
    Row("no file size, another root", "other-root;limit fsize 0 go", states=ANY_END),
    Row("small stacks", "", prefix=("prlimit", "--stack=65536:65536"), states=ANY_END),
]


# Attacks on the slots through which files call malloc and similar functions.
SLOT_ROWS = [
    Row("a word that the linker has filled is written meanwhile", "own-slot"),
    Row("what the linker has closed is open, and written to", "open-relro at-once"),
    Row("what the linker has closed is opened meanwhile", "open-relro go+50000", rounds=3),
    Row("tables of a file that nobody may read", "hide-tables {stage}/c_memory_library.so"),
    Row("a list of files of its own", "", env={"LD_PRELOAD": "{stage}/libother_list.so"}),
    Row("children that ask the linker", "fork-and-look go", thread="fork-and-look", rounds=3),
    Row("signals meanwhile, C memory followed", f"signals at-once {URG} 34 64"),
    Row("stopped and continued without end, C memory followed", "stop-storm"),
    Row("forks without end, C memory followed", "fork-storm"),
    Row("60,000 mappings, C memory followed", "mappings 60000"),
    Row("no data, C memory followed", "limit data now go", states=ANY_END),
]


class Attacked(StoppedAtTheEnd):
    def settled(self, target, row):
        """The state after the attach; a waiting target must report a good reason."""
        def came():
            info = self.memprofd.targets().get(target.pid, {})
            state = info.get("state")
            if state not in row.states or (state == "waiting" and row.says not in info["message"]):
                return None
            return info or {"state": "none"}
        return eventually(came, f"pid {target.pid} comes to one of {row.states}")

    def attacked(self, row):
        expected = undisturbed_output()
        env = {name: value.format(stage=stage()) for name, value in row.env.items()}
        target = self.guest(attack=row.attack.format(stage=stage()), prefix=row.prefix, env=env)
        attach = self.attach_in_background(target.pid)
        self.go()
        self.assert_answered(attach, ANSWERS)
        said = attach.stderr() + "".join(attach.output)
        info = self.settled(target, row)
        if info["state"] in ("failed", "none"):
            self.assertIn(row.says, said + info.get("message", ""))
        if info["state"] == "sampling":
            # A program that ends by itself may end before it allocates.
            eventually(lambda: self.samples(target.pid) > 0 or (row.ends and not target.running()), "its samples")
        self.assert_others_are_cared_for()
        if row.ends:
            self.assertEqual(7, target.wait())
        self.let_go(target)
        self.assert_nothing_left(target)
        if self.OPTIONS and target.running():
            eventually(lambda: slots_of_the_agent(target.pid, stage() / "libmemprof_agent.so") == [], "slots are put back")
        self.go_file.unlink()
        if row.thread:
            eventually(lambda: row.thread not in thread_names(target.pid), "the attack ends")
        if not row.ends:
            self.assert_same_output(target, expected)
        self.processes_end()


def test_of(row):
    def test(self):
        for attempt in range(row.rounds):
            with self.subTest(attempt=attempt):
                self.attacked(row)
        self.assert_memprofd_is_well()
    return test


class Attacks(Attacked):
    pass


class AttacksOnSlots(Attacked):
    OPTIONS = ("--c-heap-interval", "4096")


for case, rows in ((Attacks, ROWS), (AttacksOnSlots, SLOT_ROWS)):
    for number, row in enumerate(rows):
        name = "".join(c if c.isalnum() else "_" for c in row.name)
        setattr(case, f"test_{number:02}_{name}", test_of(row))


if __name__ == "__main__":
    unittest.main()
