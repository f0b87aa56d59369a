# SPDX-License-Identifier: Apache-2.0
"""The agent alone, in programs that call Gc.Memprof.stop: it reports this and continues."""

import json
import os
import struct
import unittest

import agent_process as agent
from agent_process import BUILD, AgentProcess, eventually
from walked_program import OFFSETS, OFFSETS_FORM


class Stops(unittest.TestCase):
    RATE = 1e-3

    def start(self, folder="targets", offsets=None):
        target = AgentProcess("stops_memprof", folder=folder)
        self.addCleanup(lambda: target.process.kill() if target.process.poll() is None else None)
        if folder in OFFSETS:
            target.write(target.control + agent.OFFSETS, struct.pack(OFFSETS_FORM, *(offsets or OFFSETS[folder])))
        return target

    def sampled(self, target, generation=1):
        target.request(self.RATE, generation)
        target.watch(True)
        self.work_until(target, lambda head: (head["state"], head["generation"]) == (agent.SAMPLING, generation))
        return target.head()

    def work(self, target, command="go 20000"):
        return json.loads(target.ask(command))

    def work_until(self, target, reached):
        """Lets the program work step by step, independent of time. A step is 80,000 words and a minor collection."""
        for _ in range(200):
            self.work(target)
            if reached(target.head()):
                return target.head()
        raise AssertionError(target.head())

    def assert_samples(self, target):
        """The estimate of the words allocated from here on is correct."""
        words, samples = self.work(target)["words"], target.head()["last_sample_id"]
        for _ in range(5):
            self.work(target)
        words, samples = self.work(target)["words"] - words, target.head()["last_sample_id"] - samples
        # A triple has at least one sample, nearly always exactly one.
        self.assertLess(abs(samples / self.RATE - words), 6 * (words / self.RATE) ** 0.5 + 0.005 * words)

    def test_ocaml4_says_so_and_can_be_started_again(self):
        target = self.start()
        self.sampled(target)
        self.assertEqual(0, self.work(target, "stop")["failures"])
        head = self.work_until(target, lambda head: head["state"] == agent.STOPPED)
        self.assertEqual((1, 1, 1, 1), (head["generation"], head["starts"], head["stops"], head["program_stops"]))
        frozen = head["last_sample_id"]
        self.work(target)
        head = target.head()
        self.assertEqual((agent.STOPPED, frozen), (head["state"], head["last_sample_id"]))
        self.sampled(target, 2)
        self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml4_starts_again_when_asked_before_it_noticed(self):
        target = self.start()
        self.sampled(target)
        self.work(target, "stop")
        target.request(self.RATE, 2)
        head = self.work_until(target, lambda head: head["generation"] == 2)
        self.assertEqual((agent.SAMPLING, 1), (head["state"], head["program_stops"]))
        self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def assert_own_samples(self, target, before):
        """The program's own tracker has sampled correctly since the answer `before`."""
        after = self.work(target, "go 200000")
        words = after["words"] - before["words"]
        self.assertLess(abs(after["own_samples"] - before["own_samples"] - words / 100), 6 * (words / 100) ** 0.5)

    def test_ocaml4_makes_room_for_a_tracker_that_the_program_starts(self):
        """make targets-4.12 targets-4.14 adds these versions."""
        for folder in ("targets", "targets-4.12", "targets-4.14"):
            if os.path.exists(os.path.join(BUILD, folder, "stops_memprof")):
                with self.subTest(folder):
                    self.check_makes_room(folder)

    def check_makes_room(self, folder):
        target = self.start(folder)
        self.sampled(target)
        for starts in (1, 2):
            before = self.work(target, "start")
            self.assertEqual(starts - 1, before["failures"])
            head = target.head()
            self.assertEqual((agent.ASIDE, starts, starts), (head["state"], head["conflicts"], head["program_stops"]))
            self.assert_own_samples(target, before)
            self.assertEqual(starts, self.work(target, "start")["failures"], "its own tracker runs")
            self.assertEqual(starts, self.work(target, "stop")["failures"])
            self.assertEqual(agent.STOPPED, target.head()["state"])
            self.sampled(target, starts + 1)
            self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml4_a_start_with_a_wrong_rate_raises_what_it_would_without_us(self):
        target = self.start()
        self.sampled(target)
        self.assertEqual(1, self.work(target, "start 2")["failures"])
        self.assertEqual((agent.STOPPED, 0), (target.head()["state"], target.head()["conflicts"]))
        self.sampled(target, 2)
        self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml4_is_asked_for_another_session_while_the_program_samples(self):
        target = self.start()
        self.sampled(target)
        before = self.work(target, "start")
        target.request(self.RATE, 2)
        head = self.work_until(target, lambda head: head["generation"] == 2)
        self.assertEqual((agent.ASIDE, 2), (head["state"], head["conflicts"]))
        self.assert_own_samples(target, before)
        self.work(target, "stop")
        self.sampled(target, 3)
        self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml4_stops_when_the_program_samples_itself(self):
        target = self.start()
        self.sampled(target)
        self.work(target, "stop")
        before = self.work(target, "start")
        for _ in range(40):
            self.work(target)
        after = self.work(target)
        self.assertEqual(0, after["failures"])
        words = after["words"] - before["words"]
        self.assertLess(abs(after["own_samples"] - words / 100), 6 * (words / 100) ** 0.5)
        self.work(target, "stop")
        self.work_until(target, lambda head: head["state"] == agent.STOPPED)
        self.sampled(target, 2)
        self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml4_is_not_asked_while_callbacks_come(self):
        """The question raises an exception, whose allocation the program would notice."""
        target = self.start()
        self.sampled(target)
        for _ in range(50):
            self.work(target)
        head = target.head()
        self.assertEqual((agent.SAMPLING, 0, 1), (head["state"], head["program_stops"], head["starts"]))
        self.assertEqual(0, target.close()[0])

    def test_ocaml5_continues_in_the_same_session(self):
        target = self.start("targets-trixie")
        self.sampled(target)
        for stops in (1, 2):
            self.assertEqual(0, self.work(target, "stop")["failures"])
            head = self.work_until(target, lambda head: head["program_stops"] == stops)
            self.assertEqual((agent.SAMPLING, 1, 1, 0), (head["state"], head["generation"], head["starts"], head["stops"]))
            self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml5_stops_when_the_program_samples_itself(self):
        target = self.start("targets-trixie")
        self.sampled(target)
        target.command("stop")
        target.command("start")
        target.answer()
        before = json.loads(target.answer())
        self.assertEqual(0, before["failures"])
        for _ in range(20):
            self.work(target)
        after = self.work(target)
        words = after["words"] - before["words"]
        self.assertLess(abs(after["own_samples"] - words / 100), 6 * (words / 100) ** 0.5)
        self.work(target, "stop")
        self.assertEqual(0, target.close()[0])

    def test_ocaml5_continues_when_the_programs_tracker_stops(self):
        """The program's tracker replaces the session's profile; in OCaml 5.5 the runtime does this itself. make
        targets-forky adds 5.4."""
        for folder in ("targets-trixie", "targets-forky", "targets-experimental"):
            if os.path.exists(os.path.join(BUILD, folder, "stops_memprof")):
                with self.subTest(folder):
                    self.check_goes_on_after_a_tracker(folder)

    def check_goes_on_after_a_tracker(self, folder):
        target = self.start(folder)
        self.sampled(target)
        for starts in (1, 2):
            before = self.work(target, "start")
            self.assertEqual(0, before["failures"])
            head = self.work_until(target, lambda head: head["conflicts"] == starts)
            self.assertEqual((agent.SAMPLING, 0, 1), (head["state"], head["program_stops"], head["starts"]))
            after = self.work(target, "go 200000")
            words = after["words"] - before["words"]
            self.assertLess(abs(after["own_samples"] - before["own_samples"] - words / 100), 6 * (words / 100) ** 0.5)
            self.assertEqual(0, self.work(target, "stop")["failures"])
            self.work(target)
            self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml53_raises_what_it_would_without_us(self):
        """For a start while the program's own tracker runs, and for one with an invalid rate."""
        target = self.start("targets-trixie")
        self.sampled(target)
        self.assertEqual(1, self.work(target, "start 2")["failures"])
        self.assert_samples(target)
        self.assertEqual(1, self.work(target, "start")["failures"])
        self.assertEqual(2, self.work(target, "start")["failures"], "its own tracker runs")
        self.assertEqual(2, self.work(target, "stop")["failures"])
        self.work(target)
        self.assert_samples(target)
        self.assertEqual(0, target.close()[0])

    def test_ocaml53_refuses_where_the_agent_may_open_no_page(self):
        target = self.start("targets-trixie", (*OFFSETS["targets-trixie"][:-1], 0))
        self.sampled(target)
        answer = self.work(target, "start")
        self.assertEqual((1, 0), (answer["failures"], answer["own_samples"]))
        self.assert_samples(target)
        self.assertEqual(0, target.close()[0])


if __name__ == "__main__":
    unittest.main()
