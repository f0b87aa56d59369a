# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of make bench: medians, quartiles, ratios, and the order of runs."""

import unittest


import real_programs
from rounds import interleaved, order
from spread import by_chance, quantile, ratios, shown, significant, spread


class Spread(unittest.TestCase):
    def test_quartiles_are_between_neighbours(self):
        self.assertEqual((2, 3, 4), tuple(quantile([5, 1, 4, 2, 3], q) for q in (0.25, 0.5, 0.75)))
        self.assertEqual(1.25, quantile([1, 2], 0.25))
        self.assertEqual(7, quantile([7], 0.99))

    def test_spread(self):
        self.assertEqual({"median": 2.5, "min": 1, "max": 4, "p25": 1.75, "p75": 3.25, "n": 4}, spread([4, 1, 3, 2]))

    def test_ratios_are_of_the_same_round(self):
        self.assertEqual([2, 0.5], ratios([4, 1], [2, 2]))
        self.assertEqual([2], ratios([4, 1], [2, 0]))
        with self.assertRaises(ValueError):
            ratios([1], [1, 2])

    def test_sign_test(self):
        self.assertEqual(2 / 2**6, by_chance([2] * 6))
        self.assertEqual(2 * (1 + 9) / 2**9, by_chance([0.5] * 8 + [3]))
        self.assertEqual(1, by_chance([1, 1]))
        self.assertEqual(1, by_chance([0.5, 2]))

    def test_significant_digits(self):
        for text, value in (("0", 0), ("1.23", 1.2345), ("0.00123", 0.0012345), ("12,346", 12345.6), ("-1.50", -1.5)):
            self.assertEqual(text, significant(value))

    def test_shown(self):
        self.assertEqual("2.00 [1.50..2.50]", shown([1, 2, 3]))
        self.assertEqual("2.00", shown([2]))


class Rounds(unittest.TestCase):
    def test_each_case_has_each_place(self):
        cases = ["a", "b", "c"]
        for place in range(3):
            self.assertEqual(set(cases), {order(cases, i)[place] for i in range(6)})

    def test_of_two_cases_either_comes_first_equally_often(self):
        firsts = [order(["base", "here"], i)[0] for i in range(8)]
        self.assertEqual(4, firsts.count("base"))

    def test_every_case_runs_once_a_round(self):
        ran = []
        done = interleaved(["a", "b"], 3, lambda case: ran.append(case) or len(ran))
        self.assertEqual([{"a", "b"}] * 3, [set(ran[i:i + 2]) for i in (0, 2, 4)])
        self.assertEqual([1, 2, 3, 4, 5, 6], sorted(value for one in done for value in one.values()))


class Wrk(unittest.TestCase):
    def test_latencies_in_milliseconds(self):
        said = "  Latency Distribution\n     50%  980.00us\n     90%    2.40ms\n     99%    1.02s\n  12 requests in 1s\n"
        self.assertEqual({"50": 0.98, "90": 2.4, "99": 1020}, real_programs.latencies(said))


if __name__ == "__main__":
    unittest.main()
