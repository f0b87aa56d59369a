#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that holds another user's file under the name of the agent's copy.

named_descriptor.py ROOT FILE PROGRAM [ARGUMENT...]

Run it in a user and a mount namespace of its own. A program without rights can do all of this: a
bind mount gives any file any name, and O_PATH opens it without permission to read or write. ROOT
becomes the root, in which PROGRAM is.
"""

import ctypes
import os
import pathlib
import sys

NAME = "memfd:memprof_agent (deleted)"
MS_BIND, MS_REC = 4096, 16384
SYS_PIVOT_ROOT = 155

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def bind(source, place):
    checked(libc.mount(str(source).encode(), str(place).encode(), None, MS_BIND | MS_REC, None), f"bind {place}")


def main():
    root, file, *command = sys.argv[1:]
    root = pathlib.Path(root)
    bind(root, root)
    bind("/proc", root / "proc")
    (root / NAME).touch()
    (root / "old").mkdir()
    bind(file, root / NAME)
    os.set_inheritable(os.open(root / NAME, os.O_PATH), True)
    os.chdir(root)
    checked(libc.syscall(SYS_PIVOT_ROOT, b".", b"old"), "pivot_root")
    os.chroot(".")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
