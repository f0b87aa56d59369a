# SPDX-License-Identifier: Apache-2.0
"""Medians, quartiles and confidence limits of measured values, and ratios within rounds."""

import math
import statistics


def quantile(values, q):
    """The q-quantile, interpolated linearly between the two nearest values."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "p25": quantile(values, 0.25), "p75": quantile(values, 0.75), "n": len(values)}


def median_limits(values):
    """The 95 % confidence interval of the median: the k-th smallest and the k-th largest value, such that at most 2.5 %
    of samples of this size have fewer than k values on one side. For few values: the minimum and the maximum."""
    ordered, n = sorted(values), len(values)
    chance, k = 0.5 ** n, 0
    while chance <= 0.025 and k < n // 2:
        k += 1
        chance += math.comb(n, k) * 0.5 ** n
    return ordered[max(0, k - 1)], ordered[n - max(1, k)]


FEWEST = 6  # with fewer values, more than 5 % of samples lie on one side of the median, so it has no 95 % interval


def said_limits(values):
    """The median's interval as text; empty for few values."""
    if len(values) < FEWEST:
        return ""
    low, high = median_limits(values)
    return f"the median of {len(values)} rounds lies between {low:.4f} and {high:.4f} in 95 of 100 cases"


def smallest_told(values):
    """The smallest detectable effect on a ratio, in percent: half the width of the median's interval. None for few
    values."""
    if len(values) < FEWEST:
        return None
    low, high = median_limits(values)
    return 100 * (high - low) / 2


def ratios(numerators, denominators):
    """Ratios of two lists with one value per round; rounds with a denominator of zero are left out."""
    return [a / b for a, b in zip(numerators, denominators, strict=True) if b != 0]


def by_chance(values, middle=1.0):
    """The p-value of the sign test: how likely at least this many values are on one side of the middle by chance."""
    above, below = sum(v > middle for v in values), sum(v < middle for v in values)
    fewer, n = min(above, below), above + below
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n)


def significant(value, digits=3):
    """Formats with this many significant digits and grouped thousands: 0.00123, 1.23, 1,230."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - int(f"{value:e}".partition("e")[2]))
    return f"{value:,.{decimals}f}"


def shown(values, digits=3):
    """Median and quartiles: 1.02 [0.98..1.05]."""
    s = spread(values)
    if s["min"] == s["max"]:
        return significant(s["median"], digits)
    quartiles = "..".join(significant(s[key], digits) for key in ("p25", "p75"))
    return f"{significant(s['median'], digits)} [{quartiles}]"
