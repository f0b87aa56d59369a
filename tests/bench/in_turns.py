# SPDX-License-Identifier: Apache-2.0
"""Compares servers with themselves: groups rounds of slices, and computes ratios.

A round is {case: {load: Slice}}. Two processes of one program differ by more than the effect to measure. So one is
never attached to, while memprofd attaches to the other and detaches in turn. Ratios are divided by the ratio of the
two processes before the agent was injected.
"""

import math

from open_load import Slice

BEYOND = 10  # minimum number of requests above a percentile
ALL = "all loads"


def rounds_for(percentile, requests):
    """Number of rounds with this many requests that a percentile needs."""
    return max(1, math.ceil(BEYOND / (1 - percentile / 100) / requests - 1e-9))


def together(rounds, size):
    """Merges consecutive rounds into the largest number of groups with at least `size` rounds each, at least one."""
    count = max(1, len(rounds) // size)
    bounds = [i * len(rounds) // count for i in range(count + 1)]
    return [_merged(rounds[a:b]) for a, b in zip(bounds, bounds[1:])]


def _merged(rounds):
    return {case: {load: Slice.together([one[case][load] for one in rounds]) for load in loads}
            for case, loads in rounds[0].items()}


def with_all_loads(rounds):
    """Adds to each case the sum of its loads as a further load."""
    return [{case: {**loads, ALL: Slice.together(list(loads.values()))} for case, loads in one.items()} for one in rounds]


def over(rounds, load, value, case, base):
    """value() of a case divided by that of the base, in each round."""
    return [value(one[case][load]) / value(one[base][load]) for one in rounds]


def corrected(values, before):
    """Ratios of two processes, divided by those of as many earlier rounds."""
    return [value / was for value, was in zip(values, before, strict=True)]
