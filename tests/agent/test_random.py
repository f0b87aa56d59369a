# SPDX-License-Identifier: Apache-2.0
"""The agent seeds the runtime's sampling generator if it is certain of the generator's place (fake_generator.c)."""

import unittest

import fake_runtime

EXPECTED = """\
the program samples: kept
OCaml 4: seeded
unused: 0
its next session: seeded
an unknown layout: kept
a domain whose generator has been used: kept
a domain whose generator has not: seeded
the one before, as the place is proven: seeded
alike: 0
"""


class SeedOfSamples(unittest.TestCase):
    def test_each_step(self):
        self.assertEqual(EXPECTED.splitlines(), fake_runtime.said_by("fake_generator.c", ("random.c",)).splitlines())


if __name__ == "__main__":
    unittest.main()
