# SPDX-License-Identifier: Apache-2.0
"""memprofctl leaks names each leak with its line and the variable that keeps it, by default
settings, and reports none in a healthy program."""

import itertools
import json

import harness
from harness import E2ETest, TARGETS, eventually

# By kind of leak: function of the leaking site, and the variable that keeps the memory.
LEAKS = {
    "cache": (("Leaks.Catalog.page",), "Leaks.Catalog.pages"),
    "timeouts": (("Leaks.Sessions.create",), "Leaks.Sessions.pending"),
    "buffer": (("Leaks.Audit.log",), "Leaks.Audit.buffer"),
    "promises": (("Leaks.Poll.turn", "Leaks.Promise.on"), "Leaks.Poll.stop"),
}


class LeakTest(E2ETest):
    folder_of_targets = TARGETS
    types = TARGETS / "obj"  # with the .cmt files

    def profile(self, kind):
        program = self.process(harness.Target("leaks", kind, folder=self.folder_of_targets))
        daemon = self.process(harness.Daemon(self.folder, "--pid", program.pid, usual_budget=True))
        daemon.wait_state(program.pid, "sampling")
        return program.pid, daemon

    def verdict(self, daemon, *arguments):
        return daemon.ctl_json("leaks", *arguments)

    def named(self, answer):
        leaks = answer["leaks"] + [group["leak"] for group in answer["rolled_up"]]
        return {leak["site"]["function"] for leak in leaks}


class Found(LeakTest):
    def assert_found(self, kind):
        functions, variable = LEAKS[kind]
        pid, daemon = self.profile(kind)
        sites = ("--frames", "application")

        def found():
            answer = self.verdict(daemon, *sites)
            return self.named(answer) & set(functions) and answer
        answer = eventually(found, f"the leak of {kind} is named", timeout=180)
        self.assertIn(answer["verdict"], ("LEAK_VERDICT_SITES", "LEAK_VERDICT_GROUPS", "LEAK_VERDICT_MEMORY"))

        seconds = itertools.chain((8, 16), itertools.repeat(32))  # a buffer doubles ever more rarely, and not between answers

        def variable_grew():
            answer = self.verdict(daemon, *sites, "--for", f"{next(seconds)}s", "--max-pause", "10s", "--cmt", self.types)
            grown = [c for c in answer["containers"] if variable in c["root"]]
            return grown and grown[0]
        grown = eventually(variable_grew, f"{variable} has grown", timeout=300)
        self.assertGreater(int(grown["change_bytes"]), 0)

        def told():  # of another span of time than the answer before, which may not show it yet
            text = daemon.ctl("leaks", "--pid", pid).stdout
            self.assertTrue(any(function in text for function in functions), text)
            return True
        eventually(told, "the text names it", timeout=180)
        # Hidden frames change the name of a leak, but not the verdict.
        hidden = self.verdict(daemon, "--hide", functions[0].replace(".", r"\."))
        self.assertNotEqual("LEAK_VERDICT_NONE", hidden["verdict"])
        eventually(lambda: daemon.ctl("leaks", "--exit-code", check=False).returncode == 1, "it says so to scripts",
                   timeout=180)

    def test_a_cache_without_eviction(self):
        self.assert_found("cache")

    def test_a_table_that_is_not_emptied_on_a_time_out(self):
        self.assert_found("timeouts")

    def test_a_buffer_that_doubles(self):
        self.assert_found("buffer")

    def test_promises_that_never_come(self):
        self.assert_found("promises")

    def test_threads_that_never_end(self):
        """Threads that never end keep stacks outside of the heap, which the kernel counts, and
        blocks in it, which are sampled."""
        _, daemon = self.profile("threads")

        def found():
            answer = self.verdict(daemon, "--frames", "application")
            native = [area for area in answer["memory"] if area["area"] == "MEMORY_AREA_NATIVE"]
            return native and native[0]["grows"] and "Leaks.Watch.watch" in self.named(answer) and native[0]
        native = eventually(found, "threads are named", timeout=180)
        self.assertGreater(native["confidence"], 0.99)
        self.assertGreater(native["end_bytes"], native["begin_bytes"])


class Healthy(LeakTest):
    def test_nothing_is_named(self):
        _, daemon = self.profile("healthy")
        answers = []

        def known():
            answer = self.verdict(daemon)
            if answer["verdict"] != "LEAK_VERDICT_UNKNOWN" and answer["compared_seconds"] > 5:
                answers.append(answer)
            return len(answers) >= 20
        eventually(known, "there are answers", timeout=180)
        # One of a hundred names a site by chance, and so may the next ones, which share its samples.
        leaking = [answer for answer in answers if answer["verdict"] != "LEAK_VERDICT_NONE"]
        self.assertLessEqual(len(leaking), 2, leaking)
        self.assertFalse([area for answer in answers for area in answer["memory"] if area["grows"]])
        done = daemon.ctl("leaks", "--exit-code", "-o", "json", check=False)
        codes = {"LEAK_VERDICT_NONE": 0, "LEAK_VERDICT_UNKNOWN": harness.LIMIT}
        self.assertEqual(codes.get(json.loads(done.stdout)["verdict"], 1), done.returncode)
        text = daemon.ctl("leaks").stdout
        self.assertIn("OCaml heap with garbage", text)


class Found5(Found):
    folder_of_targets = harness.TARGETS5
    types = harness.TARGETS5 / "leaks-types"


class Healthy5(Healthy):
    folder_of_targets = harness.TARGETS5
