# SPDX-License-Identifier: Apache-2.0
"""The agent's protocol for domains, step by step, with a simulated runtime (fake_domains.c)."""

import re
import unittest

import fake_runtime

PARTS = ("session.c", "pauses.c", "tracked_entries.c", "domains.c", "profiles.c", "random.c", "sections.c", "domain_words.c", "buffers.c", "share_ring.c",
         "share_reserve.c", "batch.c", "packed.c", "callstacks.c", "snapshot_domains.c", *fake_runtime.WALK)


def steps():
    """The output of fake_domains: (step, numbers) for each line."""
    said = fake_runtime.said_by("fake_domains.c", PARTS)
    return [(line.split(":")[0], {key: int(n) for key, n in re.findall(r"(\w+)=(-?\d+)", line)} or line.split(": ")[-1])
            for line in said.splitlines()]


class Protocol(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        told = steps()
        sessions = [step for step, _ in told].index("as the watcher asks for them")
        copies = [step for step, _ in told].index("copies")
        cls.steps, cls.sessions, cls.copies = told[:sessions], dict(told[sessions + 1:copies]), told[copies + 1:]

    def numbers(self, *keys):
        return [(step, *(said[key] for key in keys)) for step, said in self.steps
                if isinstance(said, dict) and keys[0] in said]

    def test_the_place_of_a_profile_is_tried_before_it_is_used(self):
        self.assertEqual([("right place", "1"), ("another place", "0")], self.steps[:2])

    def test_profiles_are_discarded_once_every_domain_has_passed(self):
        self.assertEqual(
            [("hook 0", 1, 0, 1), ("hook 1", 2, 0, 1), ("hook 2", 3, 0, 1),
             # The third domain is then in a blocking section, and so not in a sampling function.
             ("stop", 3, 0, 0), ("hook 0", 3, 0, 0), ("hook 1", 3, 3, 1)],
            self.numbers("starts", "discards", "cleared")[:6])

    def test_a_profile_that_the_program_has_stopped_is_followed_by_another(self):
        self.assertEqual(
            [("hook 0", 4, 0), ("hook 1", 5, 0), ("hook 2", 6, 0), ("hook 1", 7, 1), ("hook 1", 7, 1)],
            self.numbers("starts", "program_stops")[6:11])

    def test_what_the_program_starts_itself_is_left_alone(self):
        """It is reported once. When the program stops its own profile too, sampling of the domain continues."""
        self.assertEqual([("hook 2", 8, 1, 1), ("hook 2", 8, 1, 1), ("hook 2", 9, 1, 1)],
                         self.numbers("starts", "program_stops", "conflicts")[11:14])

    def test_a_stop_waits_for_no_domain_that_blocks_or_has_ended(self):
        self.assertEqual([("stop", 0), ("hook 0", 0), ("blocks 1", 0), ("ends 2", 1)], self.numbers("cleared")[14:18])

    def test_profiles_are_kept_while_another_session_is_due(self):
        """The followed sessions keep their profiles; older ones are discarded when the next session begins."""
        steps = self.numbers("discards", "cleared")[17:]
        _, before, _ = steps[0]
        begun = [(step, discards - before) for step, discards, _ in steps if step.startswith("since")]
        followed = 16
        first = int(begun[0][0].split()[-1])
        self.assertEqual([(f"since {max(first, n - followed + 1)} of {n}", 3 * max(0, n - first - followed + 1))
                          for n in range(first, first + followed + 2)], begun)
        stop = [i for i, (step, *_) in enumerate(steps) if step == "stop"][-1]
        self.assertEqual([("stop", 1)], [(step, cleared) for step, _, cleared in steps[stop:stop + 1]],
                         "it may begin at once")

    def test_profiles_that_no_session_is_due_for_are_discarded(self):
        due, first, second = (discards for _, discards in self.numbers("discards")[-3:])
        self.assertEqual((3 * 16, 0), (first - due, second - first))
        self.assertRegex(self.steps[-1][0], r"^since (\d+) of \1$")

    def session(self, step):
        said = self.sessions[step]
        return tuple(said[key] for key in ("sampling", "since", "of")) if isinstance(said, dict) else int(said)

    def test_a_session_follows_what_was_sampled_before_it(self):
        sampling, since, of = self.session("first")
        self.assertEqual((1, of), (sampling, since))
        self.assertEqual(1, self.session("told while one is over"))
        self.assertEqual((1, since, of + 1), self.session("second"))

    def test_what_is_allocated_between_sessions_is_counted(self):
        """It counts a domain that had stopped and did not sample yet when the next session began, but not while no
        session was requested."""
        self.assertEqual([("first", 0), ("second", 0), ("all have joined", 1000), ("none wanted", 1000),
                          ("third", 1000), ("all have joined it", 1000)],
                         [(step, said["unsampled"]) for step, said in self.sessions.items() if isinstance(said, dict)])

    def test_a_session_follows_nothing_after_an_unreported_death(self):
        """For a moment no session was requested, and deaths in it had no record."""
        self.assertEqual(0, self.session("none wanted")[0])
        self.assertEqual(0, self.session("told while none is wanted"))
        self.assertEqual(1, self.session("told while one is due"), "it has not been forgotten yet")
        sampling, since, of = self.session("third")
        self.assertEqual((1, of), (sampling, since))

    def test_a_copy_is_made_of_all_domains_or_of_none(self):
        """A domain that has left the sections but still counts as running may be giving away its heap. If all domains
        arrive too late, there is no copy (ETIME)."""
        self.assertEqual([("copy of all", 4242, 3, 1), ("copy too late", -62, 0, 1), ("copy while one ends", 4242, 3, 3),
                          ("copy of one", 4242, 1, 0)],
                         [(step, *(said[key] for key in ("child", "domains", "sections"))) for step, said in self.copies])


if __name__ == "__main__":
    unittest.main()
