# SPDX-License-Identifier: Apache-2.0
"""The agent reads and repairs the runtime's tables of sampled blocks only where it is certain (fake_entries.c)."""

import unittest

import fake_runtime

EXPECTED = """\
mended in a callback: promoted moved dead promoted moved; 0 uncertain
mended in the next collection: promoted moved dead promoted moved; 0 uncertain
a collection later nothing is known: dead dead promoted moved; 0 uncertain
overwritten: dead dead promoted moved; 2 uncertain
no address: dead dead promoted moved; 0 uncertain
another block's entry: dead dead promoted moved; 0 uncertain
another's profile: dead dead promoted moved; 0 uncertain
unknown layout: dead dead promoted moved; 0 uncertain
alone: dead dead promoted moved; 0 uncertain
lives: 1
to be called back for its death: 1
afterwards: promoted moved dead promoted moved; 0 uncertain
lives: 0
to be called back for its death: 0
afterwards: promoted moved dead promoted moved; 0 uncertain
told: domain 3, block 101, kind 4
a domain that waits: promoted moved dead deleted promoted moved; 0 uncertain
evict 1
once: promoted moved dead deleted promoted moved; 0 uncertain
while a callback runs: promoted moved promoted promoted moved; 0 uncertain
told: domain 3, block 101, kind 3
told: domain 3, block 101, kind 5
then: promoted moved promoted deleted promoted moved; 0 uncertain
"""


class TrackedEntries(unittest.TestCase):
    def test_each_step(self):
        self.assertEqual(EXPECTED.splitlines(), fake_runtime.said_by("fake_entries.c", ("tracked_entries.c",)).splitlines())


if __name__ == "__main__":
    unittest.main()
