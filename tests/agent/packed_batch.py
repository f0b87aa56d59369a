# SPDX-License-Identifier: Apache-2.0
"""Decodes callstacks of packed batches in an agent's memory (agent-lib/include/memprof_agent_abi.h)."""

import dataclasses
import struct

PACKED = 1  # MEMPROF_BATCH_PACKED
HEAD = struct.Struct("<QQQII")
ALLOC, THREAD = (1, 2), 6
WIDE, DEBUGINFO, CUT, DEEP = 1 << 3, 1 << 6, 1 << 7, 1 << 26
FAR = 0x80000000
COUNT = 0x1FF
INNERMOST_IS_DEBUGINFO = 1 << 63  # a bit of a frame, as in tests/e2e/truth/truth.h


@dataclasses.dataclass
class Sample:
    frames: list  # innermost first
    cut: bool
    source: int
    tid: int


class Reader:
    def __init__(self, words):
        self.words, self.at = words, 0

    def take(self):
        self.at += 1
        return self.words[self.at - 1]

    def more(self):
        return self.at < len(self.words)

    def frame(self, base):
        word = self.take()
        if word == FAR:
            low = self.take()
            return low | self.take() << 32
        return base + (word - (1 << 32) if word >= FAR else word)


def decode(head, words):
    """{sample id: Sample} of a batch's allocations."""
    _, base, last, step, _ = HEAD.unpack(head)
    reader, frames, tid, samples = Reader(words), [], 0, {}
    while reader.more():
        first, bits = reader.take(), reader.take()
        if bits & 7 == THREAD:
            tid = first
            continue
        if bits & 7 not in ALLOC:
            reader.at += 2 if bits & WIDE else 0
            continue
        reader.at += 3 if bits & WIDE else 2  # size, n_samples
        shared, new = (reader.take(), reader.take()) if bits & DEEP else (bits >> 8 & COUNT, bits >> 17 & COUNT)
        if shared > len(frames):
            raise AssertionError(f"{shared} frames shared of {len(frames)}, {len(samples)} samples into the batch")
        frames = frames[:shared] + [reader.frame(base) for _ in range(new)]
        last += step
        inward = frames[::-1]
        if bits & DEBUGINFO:
            inward[0] |= INNERMOST_IS_DEBUGINFO
        samples[last] = Sample(inward, bool(bits & CUT), bits >> 4 & 3, tid)
    if reader.at != len(words):
        raise AssertionError(f"a batch of {len(words)} words is read as {reader.at}")
    return samples


def samples_of(target):
    """{sample id: Sample} of the unflushed batches of a stopped program (AgentProcess)."""
    samples = {}
    for (_, count, _, _, words, batch_format), at in target.batches():
        if count != 0 and batch_format == PACKED:
            samples.update(decode(target.read(at, HEAD.size),
                                  struct.unpack(f"<{words}I", target.read(at + HEAD.size, 4 * words))))
    return samples
