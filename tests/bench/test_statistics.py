# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of make bench: medians, quartiles, ratios, and the order of runs."""

import unittest

import in_turns
import real_programs
from open_load import Slice
from rounds import interleaved, order
from spread import by_chance, median_limits, quantile, ratios, said_limits, shown, significant, smallest_told, spread


class Spread(unittest.TestCase):
    def test_quartiles_are_between_neighbours(self):
        self.assertEqual((2, 3, 4), tuple(quantile([5, 1, 4, 2, 3], q) for q in (0.25, 0.5, 0.75)))
        self.assertEqual(1.25, quantile([1, 2], 0.25))
        self.assertEqual(7, quantile([7], 0.99))

    def test_spread(self):
        self.assertEqual({"median": 2.5, "min": 1, "max": 4, "p25": 1.75, "p75": 3.25, "n": 4}, spread([4, 1, 3, 2]))

    def test_limits_of_a_median(self):
        # Ranks from tables of the sign test, for example 2 and 9 of 10 values, or 40 and 61 of 100.
        for n, ranks in ((3, (1, 3)), (10, (2, 9)), (20, (6, 15)), (100, (40, 61))):
            self.assertEqual(ranks, median_limits(range(n, 0, -1)))

    def test_smallest_detectable_effect(self):
        self.assertAlmostEqual(2.5, smallest_told([1.0, 1.01, 1.02, 1.03, 1.04, 1.05]))
        self.assertAlmostEqual(3.5, smallest_told([1 + i / 100 for i in range(10)]))  # from the 2nd and the 9th
        self.assertIsNone(smallest_told([1, 1, 1, 1, 1]))
        self.assertEqual("", said_limits([1, 1, 1, 1, 1]))
        self.assertIn("of 6 rounds lies between 1.0000 and 6.0000", said_limits([1, 2, 3, 4, 5, 6]))

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

    def test_every_case_runs_once_per_round(self):
        ran = []
        done = interleaved(["a", "b"], 3, lambda case: ran.append(case) or len(ran))
        self.assertEqual([{"a", "b"}] * 3, [set(ran[i:i + 2]) for i in (0, 2, 4)])
        self.assertEqual([1, 2, 3, 4, 5, 6], sorted(value for one in done for value in one.values()))


def slice_of(cpu, *latencies_ms):
    return Slice(cpu, len(latencies_ms), 0, [ms * 1e6 for ms in latencies_ms], 1.0, 0.1, 0)


class InTurns(unittest.TestCase):
    def test_a_slice(self):
        one = slice_of(0.002, 1, 2, 3, 4)
        self.assertAlmostEqual(500, one.cpu_us())
        self.assertAlmostEqual(2.5, one.latency_ms(50))
        with self.assertRaisesRegex(AssertionError, "none of 3 requests"):
            Slice.of(0.1, {"requests": 3, "failed": 3, "latencies_ns": []})

    def test_percentiles_are_of_as_many_rounds_as_they_need(self):
        self.assertEqual(1, in_turns.rounds_for(50, 20))
        self.assertEqual(10, in_turns.rounds_for(99, 100))
        self.assertEqual(1, in_turns.rounds_for(99, 1_000))
        self.assertEqual(4, in_turns.rounds_for(99, 280))
        self.assertEqual(10, in_turns.rounds_for(99.9, 1_000))

    def test_rounds_together(self):
        rounds = [{"bare": {0.2: slice_of(i, i, i)}} for i in range(1, 8)]
        self.assertEqual(rounds, in_turns.together(rounds, 1))
        three, four = (one["bare"][0.2] for one in in_turns.together(rounds, 3))
        self.assertEqual((1 + 2 + 3, 6, 4 + 5 + 6 + 7, 8), (three.cpu, three.requests, four.cpu, four.requests))
        self.assertEqual([1, 1, 2, 2, 3, 3], [ns / 1e6 for ns in three.latencies_ns])
        self.assertEqual(1, len(in_turns.together(rounds, 100)))

    def test_all_loads_count_by_their_requests(self):
        [one] = in_turns.with_all_loads([{"bare": {0.2: slice_of(1, 1), 0.5: slice_of(5, 1, 1, 1)}}])
        self.assertAlmostEqual(6e6 / 4, one["bare"][in_turns.ALL].cpu_us())

    def test_how_two_processes_differed_is_divided_out(self):
        def rounds(case, *ratios):
            return [{"bare": {0.2: slice_of(1, 1)}, case: {0.2: slice_of(ratio, 1)}} for ratio in ratios]

        def over(of, case):
            return in_turns.over(of, 0.2, Slice.cpu_us, case, "bare")
        before, after = over(rounds("later", 1.1, 1.2), "later"), over(rounds("idle", 1.1, 1.32), "idle")
        for found, expected in zip(in_turns.corrected(after, before), (1, 1.1), strict=True):
            self.assertAlmostEqual(expected, found)
        with self.assertRaises(ValueError):
            in_turns.corrected(after, before[:1])


class Wrk(unittest.TestCase):
    def test_latencies_in_milliseconds(self):
        said = "  Latency Distribution\n     50%  980.00us\n     90%    2.40ms\n     99%    1.02s\n  12 requests in 1s\n"
        self.assertEqual({"50": 0.98, "90": 2.4, "99": 1020}, real_programs.latencies(said))


if __name__ == "__main__":
    unittest.main()
