# SPDX-License-Identifier: Apache-2.0
"""Cost of a sample by capture mode and stack depth; OCaml 4.13 and 5.3, without a daemon."""

import dataclasses
import os
import pathlib
import struct

import agent_process
import harness
from bench_context import rate_text, say
from rounds import interleaved
from spread import ratios
from workloads import BUNDLED, OF_OCAML5, timed

FRAMES = (10, 90, 400, 2000)  # stack depths for the program "depths"
FRAMES_OF_OCAML5 = (10, 20, 30, 90, 400, 2000)
# struct memprof_runtime_offsets of OCaml 5.3
OFFSETS = struct.pack("<6I", 256, 464, 64, 384, 280, 0)
C_HEAVY = "c_heavy"  # a program whose C code allocates on short stacks
WORDS_A_ROUND = 200   # words per round of c_heavy
RATES = (1e-3, 1e-2)
SAMPLES = 300_000  # per run
BARE, RUNTIME, AGENT, TRACKER = "bare", "runtime", "agent", "plain tracker"
ENGINE = "engine alone"  # Gc.Memprof with empty callbacks and callstacks of one frame
MEMTRACE, MEMTRACE_BARE = "Memtrace", "bare, with Memtrace asleep"
CAPTURES = {RUNTIME: 1, AGENT: 2}  # enum memprof_capture_by
SAME_COLLECTIONS = 1.005


@dataclasses.dataclass
class Done:
    cpu: float
    samples: int
    minor: int  # minor collections


def go(process):
    """(CPU seconds of one command, minor collections of the process so far)"""
    cpu, _, answer = timed(process.pid, lambda: process.ask("go"))
    return cpu, int(answer.split()[3])


class Program(agent_process.AgentProcess):
    """One process for all capture modes, which differ only in the session."""

    def __init__(self, command, rate, folder):
        super().__init__(command[0], *command[1:], folder=folder.resolve())
        self.rate, self.generation = rate, 0
        if folder == OF_OCAML5:
            self.write(self.control + agent_process.OFFSETS, OFFSETS)

    def session(self, capture):
        """Switches to a session, or to none, and waits until it holds. Returns the minor collections so far."""
        self.watch(capture is not None)
        wanted = (agent_process.IDLE, 0)
        if capture is not None:
            self.generation += 1
            self.write(self.control + agent_process.REQUESTED_CAPTURE, struct.pack("<I", capture))
            self.request(self.rate, self.generation)
            wanted = (agent_process.SAMPLING, self.generation)
        minor = go(self)[1]
        while (self.head()["state"], self.head()["generation"]) != wanted:
            minor = go(self)[1]
        return minor

    def run(self, capture):
        minor = self.session(capture)
        samples = self.head()["last_sample_id"]
        cpu, now = go(self)
        return Done(cpu, self.head()["last_sample_id"] - samples, now - minor)


class Tracked(harness.Target):
    """The same program with its own tracker; the number of its samples is unknown until its end."""

    def __init__(self, command, folder, **env):
        super().__init__(*command, env={**os.environ, **env}, folder=folder)

    def ask(self, line):
        return self.command(line, timeout=300)


def tracked(context, command, rate, folder):
    """The processes without the agent, by case."""
    files = pathlib.Path(context.files)
    found = {TRACKER: Tracked(command, folder, PLAIN_TRACKER=f"{rate:g} {files / 'tracker.events'}"),
             ENGINE: Tracked(command, folder, PLAIN_TRACKER=f"{rate:g}")}
    if context.memtrace and folder == BUNDLED:
        found[MEMTRACE] = Tracked(command, context.memtrace, MEMTRACE=str(files / "memtrace.ctf"), MEMTRACE_RATE=f"{rate:g}")
        found[MEMTRACE_BARE] = Tracked(command, context.memtrace)
    return found


def run(context, section):
    for rate in [rate for rate in context.rates if rate in RATES]:
        words = int(SAMPLES * context.scale / rate)
        for folder, prefix, depths in ((BUNDLED, "", FRAMES), (OF_OCAML5, "5.3: ", FRAMES_OF_OCAML5)):
            for frames in depths:
                command = ["depths", str(words), str(frames)]
                measure(context, section, f"{prefix}{frames} frames", command, rate, folder)
            measure(context, section, prefix + C_HEAVY, [C_HEAVY, str(words // WORDS_A_ROUND)], rate, folder)


def measure(context, section, row, command, rate, folder):
    program = Program(command, rate, folder)
    others = tracked(context, command, rate, folder)
    minor = {case: go(other)[1] for case, other in others.items()}

    def one(case):
        if case not in others:
            return program.run(CAPTURES.get(case))
        cpu, now = go(others[case])
        before, minor[case] = minor[case], now
        return Done(cpu, 0, now - before)
    rounds = interleaved([BARE, RUNTIME, AGENT, *others], context.pairs, one)
    program.close()
    for other in others.values():
        other.exit()
    tell(section, row, rate, rounds)
    say(f"  {row} at {rate_text(rate)}: {len(rounds)} rounds")


def cost(done, case):
    """Nanoseconds of CPU per sample beyond bare. Programs that sample themselves have as many samples as the agent."""
    samples = done[case].samples or done[AGENT].samples
    bare = done[MEMTRACE_BARE if case == MEMTRACE else BARE]
    return (done[case].cpu - bare.cpu) / samples * 1e9


def tell(section, row, rate, rounds):
    row = f"{row}, {rate_text(rate)}"
    told = [case for case in (RUNTIME, AGENT, TRACKER, ENGINE, MEMTRACE) if case in rounds[0]]
    costs = {case: [cost(done, case) for done in rounds] for case in told}
    for case, values in costs.items():
        section.add("CPU of a sample over bare", "ns", values, row, case)
    for case in told:
        if case != AGENT:
            section.add("the agent's CPU of a sample over that of the other", "", ratios(costs[AGENT], costs[case]), row, case)
    for case in (RUNTIME, AGENT, TRACKER):
        minor = ratios([done[case].minor for done in rounds], [done[BARE].minor for done in rounds])
        at_most = SAME_COLLECTIONS if case == AGENT and rate == 1e-3 else None
        section.add("minor collections over bare", "", minor, row, case, at_most=at_most)
