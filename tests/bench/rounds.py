# SPDX-License-Identifier: Apache-2.0
"""Interleaves runs that are compared, so that other load on the machine affects all of them equally."""


def order(cases, index):
    """Order of the cases in round `index`: each case takes each place in turn, and every second round is reversed."""
    at = index // 2 % len(cases)
    turned = cases[at:] + cases[:at]
    return turned if index % 2 == 0 else turned[::-1]


def interleaved(cases, count, run):
    """Calls run(case) for every case in each of `count` rounds; returns {case: result} for each round."""
    return [{case: run(case) for case in order(cases, i)} for i in range(count)]
