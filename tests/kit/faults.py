# SPDX-License-Identifier: Apache-2.0
"""Controls memprofd's clock and failing calls from outside: tests/kit/faults.c."""

import contextlib
import mmap
import os
import struct

WORDS = ("clock_offset_seconds", "one_of", "calls", "failed", "threads_one_of", "threads", "threads_failed",
         "threads_left", "links_stay", "links_waited_for")


class Faults:
    """Writes the file that the preloaded library maps."""

    NEVER = 1 << 40  # one of this many calls

    def __init__(self, path, library):
        path.write_bytes(bytes(8 * len(WORDS)))
        self.environment = dict(os.environ, LD_PRELOAD=str(library), MEMPROFD_FAULTS=str(path))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8 * len(WORDS))

    def get(self, word):
        return struct.unpack_from("<q", self.memory, 8 * WORDS.index(word))[0]

    def set(self, word, value):
        struct.pack_into("<q", self.memory, 8 * WORDS.index(word), value)

    def step_clock(self, seconds):
        self.set("clock_offset_seconds", self.get("clock_offset_seconds") + seconds)

    @contextlib.contextmanager
    def one_of(self, word, number):
        self.set(word, number)
        try:
            yield
        finally:
            self.set(word, 0)

    def no_memory(self, one_of):
        """One of this many calls that allocate kernel memory fails."""
        return self.one_of("one_of", one_of)

    def no_threads(self, one_of):
        """One of this many threads cannot be started."""
        self.set("threads_left", 0)
        return self.one_of("threads_one_of", one_of)

    def few_threads(self, number):
        """Only that many more threads can be started. memprofd also starts threads by itself, to
        inspect programs that start meanwhile."""
        self.set("threads_left", number)
        return self.one_of("threads_one_of", 1)

    def links_that_stay(self):
        """Closing a BPF link waits until the block ends."""
        return self.one_of("links_stay", 1)
