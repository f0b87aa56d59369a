# SPDX-License-Identifier: Apache-2.0
"""Watches which processes open a file or a device (fanotify), by pid."""

import collections
import ctypes
import os
import struct

import harness

FAN_CLOEXEC, FAN_NONBLOCK, FAN_UNLIMITED_QUEUE = 0x1, 0x2, 0x10
FAN_REPORT_FID = 0x200  # without it the kernel reports only regular files and folders
FAN_MARK_ADD, FAN_OPEN = 0x1, 0x20
AT_FDCWD = -100
EVENT = struct.Struct("=IBBHQii")  # struct fanotify_event_metadata
libc = ctypes.CDLL(None, use_errno=True)
libc.fanotify_mark.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]


class OpenWatch:
    """Counts from its creation on; the kernel may merge equal pending events."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self.opens = collections.Counter()
        flags = FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE | FAN_REPORT_FID
        self.queue = self._checked(libc.fanotify_init(flags, os.O_RDONLY))
        self._checked(libc.fanotify_mark(self.queue, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, self.path.encode()))

    def _checked(self, result):
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"fanotify: {os.strerror(number)}", self.path)
        return result

    def _take_in(self):
        while True:
            try:
                events = os.read(self.queue, 1 << 16)
            except BlockingIOError:
                return
            while events:
                size, *_, pid = EVENT.unpack_from(events)
                self.opens[pid] += 1
                events = events[size:]

    def by_pid(self):
        """Number of opens by each other process. Events are ordered: our own open shows that all
        earlier ones have arrived."""
        own = self.opens[os.getpid()]
        os.close(os.open(self.path, os.O_RDONLY))

        def come():
            self._take_in()
            return self.opens[os.getpid()] > own
        harness.eventually(come, f"the kernel tells of an open of {self.path}")
        return {pid: count for pid, count in self.opens.items() if pid != os.getpid()}

    def close(self):
        os.close(self.queue)
