# SPDX-License-Identifier: Apache-2.0
"""Copies of programs and their snapshots, taken by the tools of the tests and by users' commands."""

import json
import os
import subprocess
import time

import grpc

import harness
from harness import TARGETS4, E2ETest, Process, children, eventually, proc_status
from messages import message_modules

# OCaml 5.5's slices sweep what they have marked, so that at times there is no garbage.
SWEPT_AT_ONCE = harness.BUILD / "targets-experimental"
COPY = harness.BUILD / "tests" / "heap_copy"
# Blocks that heap_shapes keeps: (tag, fields) and count.
KEPT = {(33, 3): 1_000, (34, 40): 500, (35, 100): 300, (36, 300): 50, (37, 100_000): 3, (38, 5): 100}
YOUNG = (38, 5)
OLD = {key: blocks for key, blocks in KEPT.items() if key != YOUNG}
AGENT = harness.BUILD / "libmemprof_agent.so"
COPIES = 200 if harness.MATRIX else 10
KILLS = 50 if harness.MATRIX else 8
LONGEST = 1.2  # seconds that a copy takes, mostly before it touches the program
IMAGE = harness.BUILD / "tests" / "heap_image"


def image(path):
    """Contents of a snapshot file."""
    found = json.loads(subprocess.run([IMAGE, path], capture_output=True, text=True, check=True).stdout)
    found["rows"] = {(tag, fields): blocks for tag, fields, blocks in found["rows"]}
    return found


def is_gone(pid):
    """True if it has ended, even if it is a zombie."""
    try:
        return proc_status(pid, "State")[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def undisturbed_output():
    """Output of busy_threads, the same for all compilers."""
    return harness.undisturbed_output(("busy_threads",), TARGETS4)


class HeapCopy(E2ETest):
    programs = TARGETS4  # of OCaml 5 in subclasses

    def program(self, name="busy_threads"):
        return self.target(name, folder=self.programs, env={**os.environ, "LD_PRELOAD": str(AGENT)})

    def copy(self, target, *options):
        return self.process(Process([COPY, target.pid, *options]))

    def answer(self, copier):
        answer = json.loads(copier.read_line())
        self.assertEqual(0, copier.wait(), copier.stderr())
        return answer

    def held(self, target):
        """The process that holds a copy of it, and the copy's number."""
        copier = self.copy(target, "hold")
        word, pid = copier.read_line().split()
        self.assertEqual("held", word)
        self.assertEqual([pid], children(target.pid))
        return copier, int(pid)

    def refusal(self, copier):
        self.assertEqual(1, copier.wait())
        self.assert_one_line(copier.stderr(), "heap_copy:")
        return copier.stderr()

    def check_unharmed(self, target):
        self.assertEqual("0", proc_status(target.pid, "TracerPid"))
        self.assertNotIn(proc_status(target.pid, "State")[0], "tTZX")
        self.assert_works_on(target)
        eventually(lambda: not children(target.pid), "the copy has been collected")


class Snapshot(HeapCopy):
    """The users' command, on unprepared programs."""

    def attached(self, name="busy_threads", *options, **daemon_options):
        target = self.target(name, folder=self.programs)
        daemon = self.daemon("--pid", target.pid, *options, rate=1e-3, **daemon_options)
        return target, daemon

    def take(self, daemon, *options, name="a.heap", **rest):
        path = self.folder / name
        done = daemon.ctl("snapshot", "take", "--out", path, "--max-pause", "10s", *options, **rest)
        return path, done

    def take_command(self, daemon, name):
        return [harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take", "--out",
                self.folder / name, "--max-pause", "10s"]

    def taker(self, daemon, name):
        return self.process(Process(self.take_command(daemon, name)))

    def heaps(self, daemon):
        """gRPC's Heaps: the messages, and a function to ask while `meanwhile` runs."""
        _, pb = message_modules(self.folder, "memprof/v1/profiler.proto", "memprof/v1/heaps.proto")

        def ask(method, request, answer, meanwhile=lambda: time.sleep(0.01)):
            with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
                call = channel.unary_unary(f"/memprof.v1.Heaps/{method}", request_serializer=type(request).SerializeToString,
                                           response_deserializer=answer.FromString).future(request, timeout=harness.TIMEOUT)
                while not call.done():
                    meanwhile()
                return call.result()
        return pb, ask

    def stepping(self, target, daemon, command=""):
        """Gives an idle program work until it is sampled."""
        def sampling():
            target.command(command or f"step {self.folder / 'own'}")
            return daemon.state(target.pid) == "sampling"
        eventually(sampling, "it is sampled")

    def take_while(self, daemon, work):
        """The finished taker; the program works meanwhile."""
        taker = self.taker(daemon, "a.heap")
        work()
        while taker.running():
            work()
        return taker

    def take_while_stepping(self, target, daemon):
        taker = self.taker(daemon, "a.heap")
        told = target.command(f"step {self.folder / 'own'}")
        while taker.running():
            told = target.command(f"step {self.folder / 'own'}")
        self.assertEqual(0, taker.wait(), taker.stderr())
        return told, image(self.folder / "a.heap")

    def check_same_garbage(self, told, garbage):
        """The command and gRPC report the same; times are exact to the resolution of the command's
        text."""
        def known(row, name):
            return round(getattr(row, name), 9) if row.HasField(name) else None
        for name, count in (("garbage", garbage.garbage), ("young", garbage.young), ("dead", garbage.dead)):
            self.assertEqual((told[name]["blocks"], told[name]["bytes"]), (count.blocks, count.bytes))
        self.assertEqual(told["longest_wait_seconds"], known(garbage, "longest_wait_seconds"))
        self.assertEqual([(row["name"], row["sampled_blocks"], row["bytes"], row["young"]["bytes"], row["ages"]["p50_seconds"],
                           row["ages"]["p90_seconds"], row["ages"]["longest_seconds"], row["longest_wait_seconds"])
                          for row in told["sites"]],
                         [(row.name, row.sampled_blocks, row.bytes, row.young.bytes, known(row.ages, "p50_seconds"),
                           known(row.ages, "p90_seconds"), known(row.ages, "longest_seconds"), known(row, "longest_wait_seconds"))
                          for row in garbage.sites])
