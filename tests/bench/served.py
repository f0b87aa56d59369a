# SPDX-License-Identifier: Apache-2.0
"""Servers for the section `servers`, each with its own load on persistent connections."""

import contextlib
import os
import shutil

import harness
import real_programs
from open_load import OpenLoad, Slice
from workloads import timed

ITEMS = 600  # items per order, which take 0.2 ms
BUSY = 0.5  # seconds of load during an attach or detach
COME_IN = 0.1


def keep_apart(server, load):
    """Gives server and load one processor each if possible: thread migrations cost more than the effect to measure."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        return
    for pid, processor in ((server, processors[-1]), (load, processors[0])):
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {processor})


class Served:
    """A server process and its load; so far it has answered only its first request."""

    def __init__(self, process, port, connections, request, files):
        self.process, self.pid = process, process.pid
        self.load = OpenLoad(port, connections, request, files)
        keep_apart(self.pid, self.load.pid)
        self.rate = None  # requests per second outside of measurements

    def offer(self, rate, seconds):
        cpu, _, found = timed(self.pid, lambda: self.load.open(rate, seconds))
        return Slice.of(cpu, found)

    @contextlib.contextmanager
    def busy(self):
        """Keeps the server running OCaml code, which an injection needs."""
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
    """A request that demo_server has to parse, from a known visitor."""
    body = "[" + ",".join(f'["article {i}",{i % 7 + 1},{i % 90}.50]' for i in range(ITEMS)) + "]\n"
    return (f"POST /order HTTP/1.1\r\nHost: localhost\r\nCookie: session=known\r\nContent-Length: {len(body)}\r\n\r\n"
            f"{body}").encode()


class Ocsigenserver:
    """Runs with one thread, and a few for files."""
    name, connections = "ocsigenserver", 16
    what = "ocsigenserver, OCaml 4.13"

    def missing(self):
        return "" if shutil.which("ocsigenserver.opt") else "ocsigenserver is not installed"

    @contextlib.contextmanager
    def prefix(self):
        yield None

    @contextlib.contextmanager
    def started(self, files):
        """Starts the server in its own folder."""
        with self.prefix() as prefix:
            process = real_programs.Ocsigenserver(prefix.folder if prefix else files, prefix)
            served = Served(process, process.port, self.connections, get("/index.html"), files)
            try:
                yield served
            finally:
                served.kill()


class Ocsigenserver5(Ocsigenserver):
    """The same server from Debian 13."""
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
    """demo_server with a thread for each connection; it parses orders and drops them."""
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
