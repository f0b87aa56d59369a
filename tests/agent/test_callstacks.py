# SPDX-License-Identifier: Apache-2.0
"""Where the agent finds the callstack of a sample, and which memory it does not read (fake_callstacks.c)."""

import re
import unittest

import fake_runtime

PARTS = ("buffers.c", "share_ring.c", "share_reserve.c", "packed.c", "callstacks.c", *fake_runtime.WALK)
SLOTS = 7


class Callstacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.said = [(line.split(":")[0], *map(int, re.findall(r"=(\d+)", line)))
                    for line in fake_runtime.said_by("fake_callstacks.c", PARTS).splitlines()]

    def test_ocaml4_reads_all(self):
        self.assertEqual([("OCaml 4", SLOTS, SLOTS, 0)], self.said[:1])

    def test_ocaml53_reads_none_that_a_collection_has_left_behind(self):
        self.assertEqual([("right above", SLOTS, SLOTS, 0), ("of the major heap", SLOTS, SLOTS, 0),
                          ("left behind below", 0, 0, 1), ("left behind and moved", 0, 0, 2), ("none", 0, 0, 3)],
                         self.said[1:6])

    def test_ocaml54_reads_all(self):
        self.assertEqual([("5.4, below", SLOTS, SLOTS, 3), ("5.4, both moved", SLOTS, SLOTS, 3)], self.said[6:8])

    def test_other_words_are_not_followed(self):
        self.assertEqual([("no slot", SLOTS, 0, 4 + i) for i in range(5)], self.said[8:])


if __name__ == "__main__":
    unittest.main()
