# SPDX-License-Identifier: Apache-2.0
"""Medians and quartiles of what was measured, and ratios within rounds."""

import math
import statistics


def quantile(values, q):
    """Between the two nearest values, in proportion."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "p25": quantile(values, 0.25), "p75": quantile(values, 0.75), "n": len(values)}


def median_limits(values):
    """Between which the median of what such values are drawn from lies in 95 of 100 cases: the k-th value from below and from
    above, so that no more than 2.5 % of such rows have fewer than k on one side (of few values: the least and the largest)."""
    ordered, n = sorted(values), len(values)
    chance, k = 0.5 ** n, 0
    while chance <= 0.025 and k < n // 2:
        k += 1
        chance += math.comb(n, k) * 0.5 ** n
    return ordered[max(0, k - 1)], ordered[n - max(1, k)]


FEWEST = 6  # values from which the limits of their median mean something: of fewer, more than 5 of 100 rows lie on one side of it


def said_limits(values):
    """Nothing of few values."""
    if len(values) < FEWEST:
        return ""
    low, high = median_limits(values)
    return f"the median of {len(values)} rounds lies between {low:.4f} and {high:.4f} in 95 of 100 cases"


def smallest_told(values):
    """The smallest effect on a ratio, in percent, that such values tell from none: half of what lies between the limits of their
    median. Nothing of few values."""
    if len(values) < FEWEST:
        return None
    low, high = median_limits(values)
    return 100 * (high - low) / 2


def ratios(numerators, denominators):
    """Of two lists that have a value for each round; rounds without a ratio are left out."""
    return [a / b for a, b in zip(numerators, denominators, strict=True) if b != 0]


def by_chance(values, middle=1.0):
    """How likely so many values, or more, are on one side of the middle when either is as likely (sign test)."""
    above, below = sum(v > middle for v in values), sum(v < middle for v in values)
    fewer, n = min(above, below), above + below
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n)


def significant(value, digits=3):
    """With so many significant digits, thousands in groups: 0.00123, 1.23, 1,230."""
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
