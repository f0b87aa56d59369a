# SPDX-License-Identifier: Apache-2.0
"""One thread of a process, stopped while the others run: what a thread that hangs is to them."""

import contextlib
import ctypes
import os
import pathlib

import harness

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def thread_named(pid, name):
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (thread / "comm").read_text().strip() == name:
            return int(thread.name)
    raise AssertionError(f"pid {pid} has no thread {name}")


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) != 0:
        raise AssertionError(f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def stopped_thread(pid, name):
    """Until the end of the block, in which the thread of that name does nothing."""
    thread = thread_named(pid, name)
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    harness.eventually(lambda: os.waitpid(thread, os.WNOHANG | WALL)[0] == thread, f"{name} stands still")
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, thread)
