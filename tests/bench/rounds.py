# SPDX-License-Identifier: Apache-2.0
"""Runs that are compared, interleaved: what the machine does meanwhile meets all of them alike."""


def order(cases, index):
    """Each case has each place in turn; every other round goes the other way."""
    at = index // 2 % len(cases)
    turned = cases[at:] + cases[:at]
    return turned if index % 2 == 0 else turned[::-1]


def interleaved(cases, count, run):
    """run(case) of every case in each of `count` rounds: a dict for each round."""
    return [{case: run(case) for case in order(cases, i)} for i in range(count)]
