# SPDX-License-Identifier: Apache-2.0
"""Servers for the section of the same name, each with a load of its own on connections that stay open."""

import contextlib
import os
import shutil

import harness
import real_programs
from open_load import OpenLoad, Slice
from workloads import timed

ITEMS = 600  # of an order: a fifth of a millisecond
BUSY = 0.5  # seconds of load while a server is attached to and let go
COME_IN = 0.1


def keep_apart(server, load):
    """Where there are two processors, each has one: that a thread changes its processor varies by more than what is looked for."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        return
    for pid, processor in ((server, processors[-1]), (load, processors[0])):
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {processor})


class Served:
    """One process, warmed by no more than its first request."""

    def __init__(self, process, port, connections, request, files):
        self.process, self.pid = process, process.pid
        self.load = OpenLoad(port, connections, request, files)
        keep_apart(self.pid, self.load.pid)
        self.rate = None  # requests a second while it is not measured

    def offer(self, rate, seconds):
        cpu, _, found = timed(self.pid, lambda: self.load.open(rate, seconds))
        return Slice.of(cpu, found)

    @contextlib.contextmanager
    def busy(self):
        """Runs OCaml code meanwhile, through which an agent comes in."""
        self.load.begin(self.rate, BUSY)
        try:
            yield
        finally:
            self.load.found(BUSY)

    def busy_until(self, condition, what):
        harness.eventually(lambda: condition() or (self.load.open(self.rate, COME_IN) and condition()), what)

    def kill(self):
        self.load.kill()
        self.process.kill()


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def order():
    """Something to parse for demo_server, of a visitor whom it knows."""
    body = "[" + ",".join(f'["article {i}",{i % 7 + 1},{i % 90}.50]' for i in range(ITEMS)) + "]\n"
    return (f"POST /order HTTP/1.1\r\nHost: localhost\r\nCookie: session=known\r\nContent-Length: {len(body)}\r\n\r\n"
            f"{body}").encode()


class Ocsigenserver:
    """One thread and a few for files."""
    name, connections = "ocsigenserver", 16
    what = "ocsigenserver, OCaml 4.13"

    def missing(self):
        return "" if shutil.which("ocsigenserver.opt") else "ocsigenserver is not installed"

    @contextlib.contextmanager
    def prefix(self):
        yield None

    @contextlib.contextmanager
    def started(self, files):
        """In a folder of its own."""
        with self.prefix() as prefix:
            process = real_programs.Ocsigenserver(prefix.folder if prefix else files, prefix)
            served = Served(process, process.port, self.connections, get("/index.html"), files)
            try:
                yield served
            finally:
                served.kill()


class Ocsigenserver5(Ocsigenserver):
    """The same of Debian 13."""
    name, what = "ocsigenserver_5", "ocsigenserver, OCaml 5.3"

    def missing(self):
        try:
            with self.prefix():
                return ""
        except AssertionError as error:
            return str(error)

    @contextlib.contextmanager
    def prefix(self):
        prefix = real_programs.Prefix("trixie-ocsigenserver")
        try:
            yield prefix
        finally:
            prefix.remove()


class ManyThreads:
    """Our demo, a thread for each connection; its orders are parsed and forgotten."""
    name, connections = "demo_server", 64
    what = "demo_server, 64 threads, OCaml 4.13"

    def missing(self):
        return ""

    @contextlib.contextmanager
    def started(self, files):
        process = harness.Target("demo_server")
        served = Served(process, process.port, self.connections, order(), files)
        try:
            yield served
        finally:
            served.kill()


PROGRAMS = [Ocsigenserver(), Ocsigenserver5(), ManyThreads()]
