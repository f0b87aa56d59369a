# SPDX-License-Identifier: Apache-2.0
"""The agent takes back the memory that it shares whatever limit the process has reached meanwhile (fake_share.c)."""

import unittest

import fake_runtime

EXPECTED = """\
no limit: shared 3, then 0, data 42
address space: shared 3, then 0, data 42
mappings: shared 3, then 0, data 42
"""


class TakesMemoryBack(unittest.TestCase):
    def test_each_limit(self):
        self.assertEqual(EXPECTED.splitlines(), fake_runtime.said_by("fake_share.c", ("share_ring.c", "share_reserve.c")).splitlines())


if __name__ == "__main__":
    unittest.main()
