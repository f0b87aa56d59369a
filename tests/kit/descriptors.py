# SPDX-License-Identifier: Apache-2.0
"""Limits the descriptors of a running process."""

import os
import resource


def leave_descriptors(pid, number):
    """Lets the process open that many more descriptors, until its limit changes again."""
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = 0
    while limit in used or number > 0:
        number -= limit not in used
        limit += 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
