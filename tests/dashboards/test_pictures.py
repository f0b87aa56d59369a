# SPDX-License-Identifier: Apache-2.0
"""make pictures covers every picture of the page in the documents, each with an existing test."""

import unittest

import pictures


class Pictures(unittest.TestCase):
    def test_each_picture_of_a_document_is_made(self):
        self.assertEqual(pictures.shown_in_documents(), set(pictures.TESTS))

    def test_each_is_made_by_a_test_that_exists(self):
        for name, test in pictures.TESTS.items():
            with self.subTest(name):
                loader = unittest.TestLoader()
                self.assertEqual(1, loader.loadTestsFromName(test).countTestCases())
                self.assertEqual([], loader.errors)


if __name__ == "__main__":
    unittest.main()
