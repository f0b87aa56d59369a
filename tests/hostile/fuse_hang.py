#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A file system of one file whose reads are not answered: what a hung FUSE server or a dead
NFS server is to everybody who touches a page of it.

    fuse_hang.py [--async] [--ask-again] FOLDER [CONTENTS]

mounts itself over FOLDER, which then holds the file `page`: what is in the file CONTENTS, or
a page of zeros. With --async, as libfuse has it, who waits for a read can be killed; without it
the kernel holds the reader until the answer. With --ask-again the kernel keeps no attributes: it asks for them
at each stat; pages that it has read it keeps when the file is opened again. Prints "ready CONNECTION" once it
is there. Lines on standard input:

    answer    reads are answered from now on, those that wait too
    hold      reads wait from now on, which is how it begins
    delay MS  each read is answered so much later

For each read that comes, "read OFFSET SIZE" is printed. At the end of standard input, or of this
process however it ends, the kernel gives up the reads that wait. Speaks the protocol of
/dev/fuse itself (linux/fuse.h, 7.31); needs root to mount.
"""

import ctypes
import errno
import heapq
import os
import select
import stat
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT = 25, 26, 27, 28, 29, 34, 36
BATCH_FORGET = 42
NO_ANSWER = {FORGET, BATCH_FORGET, INTERRUPT}
EMPTY_ANSWER = {RELEASE, RELEASEDIR, FLUSH, ACCESS, READDIR}
ROOT_NODE, PAGE_NODE = 1, 2
MNT_DETACH = 2
FUSE_ASYNC_READ = 1
FOPEN_KEEP_CACHE = 2
BUFFER_BYTES = 1 << 21  # more than the kernel ever sends at once

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def unmount_at_the_end(folder):
    """A separate process unmounts it, which also notices if this one is killed."""
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, False)
    if os.fork() != 0:
        os.close(read_end)  # the other end stays open until this process ends
        return
    os.setsid()
    os.close(write_end)
    for descriptor in range(3):
        os.close(descriptor)
    os.read(read_end, 1)
    libc.umount2(folder.encode(), MNT_DETACH)
    os._exit(0)


class Server:
    def __init__(self, folder, contents, flags, attributes_s):
        self.folder, self.contents = os.path.realpath(folder), contents
        self.flags, self.attributes_s = flags, attributes_s
        self.open_flags = 0 if attributes_s else FOPEN_KEEP_CACHE
        self.answering, self.delay = False, 0.0
        self.announced = False
        self.held = []  # (unique, offset, size)
        self.delayed = []  # heap of (time, unique, offset, size)
        unmount_at_the_end(self.folder)
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        check(libc.mount(b"fuse_hang", self.folder.encode(), b"fuse", 6, options.encode()), "mount")

    def attributes(self, node):
        mode = stat.S_IFDIR | 0o755 if node == ROOT_NODE else stat.S_IFREG | 0o755
        size = 0 if node == ROOT_NODE else len(self.contents)
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0,
                           mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, unique, body=b"", error=0):
        try:
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)
        except OSError as gone:
            if gone.errno != errno.ENOENT:  # the reader was killed
                raise

    def answer_read(self, unique, offset, size):
        self.answer(unique, self.contents[offset:offset + size])

    def on_read(self, unique, offset, size):
        print(f"read {offset} {size}", flush=True)
        if self.answering:
            self.answer_read(unique, offset, size)
        elif self.delay:
            heapq.heappush(self.delayed, (time.monotonic() + self.delay, unique, offset, size))
        else:
            self.held.append((unique, offset, size))

    def on_request(self, request):
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        body = request[40:]
        if opcode == INIT:
            self.answer(unique, struct.pack("<4I2H2I2H8I", 7, 31, 0, self.flags, 16, 12, 65536, 1, 1, 0, *[0] * 8))
        elif opcode == LOOKUP and body.rstrip(b"\0") == b"page":
            self.answer(unique, struct.pack("<4Q2I", PAGE_NODE, 0, 3600, self.attributes_s, 0, 0) + self.attributes(PAGE_NODE))
        elif opcode == LOOKUP:
            self.answer(unique, error=errno.ENOENT)
        elif opcode == GETATTR:
            self.answer(unique, struct.pack("<Q2I", self.attributes_s, 0, 0) + self.attributes(node))
        elif opcode in (OPEN, OPENDIR):
            self.answer(unique, struct.pack("<Q2I", 0, self.open_flags, 0))
        elif opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.on_read(unique, offset, size)
        elif opcode in EMPTY_ANSWER:
            self.answer(unique)
        elif opcode not in NO_ANSWER:
            self.answer(unique, error=errno.ENOSYS)

    def on_command(self, words):
        if words[0] == "delay":
            self.answering, self.delay = False, float(words[1]) / 1000
        else:
            self.answering, self.delay = words[0] == "answer", 0.0
        if self.answering:
            for read in self.held + [entry[1:] for entry in self.delayed]:
                self.answer_read(*read)
            self.held, self.delayed = [], []

    def answer_delayed(self):
        """Seconds until the next delayed answer, or None."""
        while self.delayed and self.delayed[0][0] <= time.monotonic():
            self.answer_read(*heapq.heappop(self.delayed)[1:])
        return max(0.0, self.delayed[0][0] - time.monotonic()) if self.delayed else None

    def serve(self):
        commands = b""
        while True:
            ready, _, _ = select.select([self.device, 0], [], [], self.answer_delayed())
            if self.device in ready:
                self.on_request(os.read(self.device, BUFFER_BYTES))
                self.announce()
            if 0 in ready:
                more = os.read(0, 4096)
                if not more:
                    return
                *lines, commands = (commands + more).split(b"\n")
                for line in lines:
                    self.on_command(line.decode().split())

    def announce(self):
        if not self.announced:
            self.announced = True
            print(f"ready {self.connection()}", flush=True)

    def connection(self):
        """Its number below /sys/fs/fuse/connections, found without asking the file system."""
        for line in open("/proc/self/mountinfo", encoding="utf-8"):
            fields = line.split()
            if fields[4] == self.folder:
                return fields[2].split(":")[1]
        return "?"


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    contents = bytes(4096)
    if len(words) > 1:
        with open(words[1], "rb") as source:
            contents = source.read()
    server = Server(words[0], contents, FUSE_ASYNC_READ if "--async" in sys.argv else 0,
                    0 if "--ask-again" in sys.argv else 3600)
    try:
        server.serve()
    except OSError as gone:
        if gone.errno != errno.ENODEV:  # another process unmounted it
            raise


if __name__ == "__main__":
    main()
