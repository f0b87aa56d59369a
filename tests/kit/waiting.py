# SPDX-License-Identifier: Apache-2.0
"""How every test waits: for a condition, never for a time."""

import os
import time

# Seconds; generous: only a failing test ever waits that long. An emulated machine takes ten times as long.
TIMEOUT = float(os.environ.get("MEMPROFD_TIMEOUT", 90))


def eventually(condition, what, timeout=TIMEOUT, first_pause=0.02):
    """Polls until condition() is truthy and returns its value.

    An AssertionError from condition() means "not yet"; the last one is shown
    when the deadline passes. The longer it takes, the rarer it asks: a wait takes a tenth longer than it
    has to, and asking leaves the processors to who is waited for.
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
