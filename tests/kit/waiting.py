# SPDX-License-Identifier: Apache-2.0
"""Waits for conditions: every test does it in this way, and none for a time."""

import os
import time

# Seconds; generous, because only a failing test waits that long. An emulated machine is ten times
# slower.
TIMEOUT = float(os.environ.get("MEMPROFD_TIMEOUT", 90))


def eventually(condition, what, timeout=TIMEOUT, first_pause=0.02):
    """Polls until condition() is truthy and returns its value.

    An AssertionError from condition() means "not yet"; the last one is shown when the deadline
    passes. The polling interval grows to a tenth of the time waited, which leaves the processors to
    other processes.
    """
    began = time.monotonic()
    deadline = began + timeout
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout:g} s; last: {last}")
        time.sleep(min(1, max(first_pause, (time.monotonic() - began) / 10)))
