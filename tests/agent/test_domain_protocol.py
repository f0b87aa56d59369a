# SPDX-License-Identifier: Apache-2.0
"""The agent's protocol of domains, step by step, against a runtime that does what it is told to (fake_domains.c)."""

import pathlib
import re
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
AGENT = HERE.parents[1] / "agent-lib"
PARTS = ("domains.c", "profiles.c", "sections.c", "domain_words.c", "buffers.c", "batch.c",
         "packed.c", "snapshot_domains.c")


def steps():
    """What fake_domains says: (step, numbers) for each line."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "fake_domains"
        stubs = pathlib.Path(folder) / "stubs.S"
        # The probe and its semaphore only: nothing of OCaml is linked.
        source = (AGENT / "stubs_x86_64.S").read_text()
        stubs.write_text(re.sub(r"(?m)^\tOCAML5?_TO_C memprof_\w+, memprof_on_\w+$", "", source))
        sources = [HERE / "fake_domains.c", *(AGENT / part for part in PARTS), stubs]
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-g", f"-I{AGENT}", f"-I{AGENT / 'include'}", *map(str, sources),
                        "-o", str(program)], check=True)
        said = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60).stdout
    return [(line.split(":")[0], {key: int(n) for key, n in re.findall(r"(\w+)=(-?\d+)", line)} or line.split(": ")[-1])
            for line in said.splitlines()]


class Protocol(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.steps = steps()

    def numbers(self, *keys):
        return [(step, *(said[key] for key in keys)) for step, said in self.steps
                if isinstance(said, dict) and keys[0] in said]

    def test_the_place_of_a_profile_is_tried_before_it_is_used(self):
        self.assertEqual([("right place", "1"), ("another place", "0")], self.steps[:2])

    def test_profiles_are_discarded_once_every_domain_has_passed(self):
        self.assertEqual(
            [("hook 0", 1, 0, 1), ("hook 1", 2, 0, 1), ("hook 2", 3, 0, 1),
             # The third is in a blocking section then, and so in no sampling function.
             ("stop", 3, 0, 0), ("hook 0", 3, 0, 0), ("hook 1", 3, 3, 1)],
            self.numbers("starts", "discards", "cleared")[:6])

    def test_a_profile_that_the_program_has_stopped_is_followed_by_another(self):
        self.assertEqual(
            [("hook 0", 4, 0), ("hook 1", 5, 0), ("hook 2", 6, 0), ("hook 1", 7, 1), ("hook 1", 7, 1)],
            self.numbers("starts", "program_stops")[6:11])

    def test_what_the_program_starts_itself_is_left_alone(self):
        """It is told of once; when the program stops that too, the domain is sampled on."""
        self.assertEqual([("hook 2", 8, 2, 1), ("hook 2", 8, 2, 1), ("hook 2", 9, 2, 1)],
                         self.numbers("starts", "program_stops", "conflicts")[11:14])

    def test_a_stop_waits_for_no_domain_that_blocks_or_has_ended(self):
        self.assertEqual([("stop", 0), ("hook 0", 0), ("blocks 1", 0), ("ends 2", 1)], self.numbers("cleared")[14:])

    def test_a_copy_is_made_of_all_domains_or_of_none(self):
        """One that has left the sections, and still counts as running, may be giving away its heap."""
        self.assertEqual([("copy of all", 4242, 3, 1), ("copy while one ends", 4242, 3, 3), ("copy of one", 4242, 1, 0)],
                         self.numbers("child", "domains", "sections"))


if __name__ == "__main__":
    unittest.main()
