# SPDX-License-Identifier: Apache-2.0
"""The load program for servers: latencies count from the due times, and failed requests do not count as answered."""

import contextlib
import pathlib
import socket
import tempfile
import threading
import time
import unittest

import harness
from open_load import OpenLoad

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", b"\r\n5\r\nhel", b"lo\r\n3;x=y\r\nabc\r\n0\r\n", b"\r\n")


class FakeServer:
    """Answers one request after another by calling `answer(number, connection)`."""

    def __init__(self, answer):
        self.answer, self.number, self.closed = answer, 0, 0
        self.turn = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # sends each piece separately
            while connection.recv(len(REQUEST), socket.MSG_WAITALL) == REQUEST and self._answered(connection):
                pass
        self.closed += 1

    def _answered(self, connection):
        with self.turn:
            self.number += 1
            return self.answer(self.number, connection)

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self.socket.close()


class Load(unittest.TestCase):
    def load(self, answer, connections=4):
        self.server = FakeServer(answer)
        self.addCleanup(self.server.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        load = OpenLoad(self.server.port, connections, REQUEST, pathlib.Path(folder.name))
        self.addCleanup(load.kill)
        return load

    def test_a_stall_of_the_server_shows_in_all_requests_due_meanwhile(self):
        still = []

        def answer(number, connection):
            if number == 2:
                still.append(time.monotonic_ns())
                time.sleep(0.2)  # simulates a stall
                still.append(time.monotonic_ns())
            connection.sendall(ANSWER)
            return True
        found = self.load(answer).open(1_000, 1)
        self.assertEqual((1_000, 0, 1_000), (found["requests"], found["failed"], len(found["latencies_ns"])))
        begin, end = still
        due = [found["begun_ns"] + i * 1_000_000 for i in range(1_000)]
        meanwhile = [i for i in range(1_000) if begin <= due[i] <= end]
        self.assertGreater(len(meanwhile), 10 * 4)  # 10 per connection
        for i in meanwhile:
            self.assertGreaterEqual(found["latencies_ns"][i], end - due[i])

    def test_answers_in_chunks_and_in_pieces(self):
        def answer(number, connection):
            for piece in CHUNKS if number % 2 else (ANSWER[:20], ANSWER[20:-1], ANSWER[-1:]):
                connection.sendall(piece)
            return True
        found = self.load(answer, connections=1).open(2_000, 0.1)
        self.assertEqual((200, 0, 200), (found["requests"], found["failed"], len(found["latencies_ns"])))

    def test_failures_are_counted_and_the_rest_is_answered(self):
        """Failures: another status, a closed connection, an answer without an end, an answer that is too long."""
        def answer(number, connection):
            if number == 10:
                connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
            elif number == 20:
                return False
            elif number == 30:
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            elif number == 40:
                connection.sendall(ANSWER + b"x")
            else:
                connection.sendall(ANSWER)
            return True
        found = self.load(answer).open(1_000, 0.1)
        self.assertEqual((100, 4, 96), (found["requests"], found["failed"], len(found["latencies_ns"])))

    def test_connections_take_turns_and_are_kept(self):
        seen = []

        def answer(_number, connection):
            seen.append(connection.getpeername()[1])
            connection.sendall(ANSWER)
            return True
        load = self.load(answer)
        load.open(1_000, 0.1)
        load.open(1_000, 0.1)
        self.assertEqual(4, len(set(seen)))
        self.assertGreater(min(seen.count(port) for port in set(seen)), 10)

    def test_a_connection_that_was_closed_between_loads_is_opened_again(self):
        def answer(number, connection):
            connection.sendall(ANSWER)
            return number != 100  # closes the connection after the last request of the first load
        load = self.load(answer)
        load.open(1_000, 0.1)
        harness.eventually(lambda: self.server.closed == 1, "the server closes it")
        self.assertEqual(0, load.open(1_000, 0.1)["failed"])

    def test_a_closed_load_is_what_the_server_can_do(self):
        def answer(_number, connection):
            time.sleep(0.001)  # limits the server to less than a thousand per second
            connection.sendall(ANSWER)
            return True
        capacity = self.load(answer).capacity(0.2)
        self.assertGreater(capacity, 0)
        self.assertLess(capacity, 1_000)

    def test_other_input_is_refused(self):
        for command in ("open 10", "open 0 1", "open 1e9 1", "closed", "closed -1", "faster"):
            load = self.load(lambda *_: False)
            load.send(command)
            self.assertEqual(1, load.wait())
            self.assertIn("is no load", load.stderr())

    def test_no_server(self):
        server = FakeServer(lambda *_: False)
        server.close()
        with tempfile.TemporaryDirectory() as folder:
            load = OpenLoad(server.port, 1, REQUEST, pathlib.Path(folder))
            self.assertEqual(1, load.wait())
            self.assertIn("no connection to port", load.stderr())


if __name__ == "__main__":
    unittest.main()
