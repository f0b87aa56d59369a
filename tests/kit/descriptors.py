# SPDX-License-Identifier: Apache-2.0
"""A process that has few descriptors left."""

import os
import resource


def leave_descriptors(pid, number):
    """So many more may be opened from now on, until its limit is another."""
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = 0
    while limit in used or number > 0:
        number -= limit not in used
        limit += 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
