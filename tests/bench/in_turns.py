# SPDX-License-Identifier: Apache-2.0
"""Servers that are compared with themselves: what is counted together, and what ratios there are, of rounds of slices.

A round is {case: {load: Slice}}. Two processes of one program differ by more than what is looked for. So one is never
touched, and the other attached to and let go in turn; how they differed before the agent came is divided out.
"""

import math

from open_load import Slice

BEYOND = 10  # requests that a percentile is to have above it
ALL = "all loads"


def rounds_for(percentile, requests):
    """How many rounds of so many requests have to be taken together for a percentile."""
    return max(1, math.ceil(BEYOND / (1 - percentile / 100) / requests - 1e-9))


def together(rounds, size):
    """As many groups as there can be of at least so many rounds that follow each other; one at least."""
    count = max(1, len(rounds) // size)
    bounds = [i * len(rounds) // count for i in range(count + 1)]
    return [_merged(rounds[a:b]) for a, b in zip(bounds, bounds[1:])]


def _merged(rounds):
    return {case: {load: Slice.together([one[case][load] for one in rounds]) for load in loads}
            for case, loads in rounds[0].items()}


def with_all_loads(rounds):
    """Each case with all its loads as one more."""
    return [{case: {**loads, ALL: Slice.together(list(loads.values()))} for case, loads in one.items()} for one in rounds]


def over(rounds, load, value, case, base):
    """value() of a case over that of another, in each round."""
    return [value(one[case][load]) / value(one[base][load]) for one in rounds]


def corrected(values, before):
    """Ratios of two processes, over what they were before in as many rounds."""
    return [value / was for value, was in zip(values, before, strict=True)]
