# SPDX-License-Identifier: Apache-2.0
"""An initramfs: an archive in the "newc" form of cpio, with programs and the libraries that they need."""

import os
import pathlib
import re
import stat
import subprocess


class Initramfs:
    """Each file is written once, with the folders above it."""

    def __init__(self, out):
        self.out = out
        self.there = {"/"}

    def _entry(self, path, mode, size, write):
        if str(path) in self.there:
            return
        self.there.add(str(path))
        self.folder(path.parent)
        name = str(path).lstrip("/").encode() + b"\0"
        # inode, mode, user, group, links, time, size, device (2), its own (2), length of the name, sum
        numbers = (len(self.there), mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name), 0)
        self.out.write(b"070701" + b"".join(b"%08X" % number for number in numbers) + name)
        self._align(6 + 8 * len(numbers) + len(name))
        write()
        self._align(size)

    def _align(self, written):
        self.out.write(b"\0" * (-written % 4))

    def _bytes(self, path, mode, data):
        self._entry(path, mode, len(data), lambda: self.out.write(data))

    def folder(self, path):
        path = pathlib.Path(path)
        self._entry(path, stat.S_IFDIR | 0o755, 0, lambda: None)

    def link(self, path, target):
        self._bytes(pathlib.Path(path), stat.S_IFLNK | 0o777, str(target).encode())

    def text(self, path, text, mode=0o644):
        self._bytes(pathlib.Path(path), stat.S_IFREG | mode, text.encode())

    def file(self, source, path=None):
        """Under the same path as here, unless told otherwise."""
        source, path = pathlib.Path(source), pathlib.Path(path or source)
        if str(path) not in self.there:
            data = source.read_bytes()
            self._bytes(path, stat.S_IFREG | stat.S_IMODE(source.stat().st_mode) | 0o444, data)

    def program(self, source, path=None, strip_into=None):
        """With its libraries, which stay where they are. Without what debuggers need, by a copy in that folder."""
        there = pathlib.Path(path or source)
        if strip_into is None:
            self.file(source, there)
        else:
            stripped = pathlib.Path(strip_into) / there.name
            subprocess.run(["strip", "--strip-debug", "-o", stripped, source], check=True)
            self.file(stripped, there)
        for library in libraries(source):
            self.file(library)

    def tree(self, source, without=()):
        """All files below a folder, but for folders of these names."""
        for folder, names, files in os.walk(source):
            names[:] = [name for name in names if name not in without]
            for name in files:
                self.file(pathlib.Path(folder) / name)

    def close(self):
        self.there.discard("/TRAILER!!!")
        self._bytes(pathlib.Path("/TRAILER!!!"), 0, b"")


def libraries(program):
    """What a program's own dynamic linker loads for it, that itself among it; nothing for a static one."""
    headers = subprocess.run(["readelf", "-l", program], capture_output=True, text=True, check=True).stdout
    linker = re.search(r"interpreter: (\S+)\]", headers)
    if "DYNAMIC" not in headers:
        return []
    command = [linker.group(1) if linker else "/lib64/ld-linux-x86-64.so.2", "--list", program]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed) + ([linker.group(1)] if linker else [])
