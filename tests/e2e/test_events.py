# SPDX-License-Identifier: Apache-2.0
"""The event stream of a real target, and the example clients that read it."""

import collections
import json
import os
import subprocess
import threading
import unittest

import grpc

import harness
from harness import E2ETest, eventually, sum_sites
from test_outputs import make_messages

CURSOR_OF_NOBODY = "12345:678"


class Stream:
    """Reads a stream in the background; pause() makes it a reader that does not."""

    def __init__(self, pb, channel, request):
        call = channel.unary_stream(
            "/memprof.v1.Profiler/StreamEvents",
            request_serializer=pb.StreamEventsRequest.SerializeToString,
            response_deserializer=pb.StreamEventsResponse.FromString)
        self.call = call(request, timeout=300)
        self.messages = []
        self.ended = threading.Event()
        self.reading = threading.Event()
        self.reading.set()
        threading.Thread(target=self._read, daemon=True).start()
        eventually(lambda: self.messages or self.ended.is_set(), "the stream begins")

    def _read(self):
        try:
            for message in self.call:
                self.messages.append(message)
                self.reading.wait()
        except grpc.RpcError:
            pass  # code() returns the status
        self.ended.set()

    def pause(self):
        self.reading.clear()

    def resume(self):
        self.reading.set()

    def cancel(self):
        self.call.cancel()
        self.ended.wait(harness.TIMEOUT)

    def code(self):
        self.ended.wait(harness.TIMEOUT)
        return self.call.code()

    def events(self):
        return [event for message in list(self.messages) for event in message.events]

    def size(self):
        return sum(len(message.events) for message in list(self.messages))

    def dropped(self):
        return sum(message.dropped_events for message in list(self.messages))

    def cursor(self):
        return self.messages[-1].cursor

    def site(self, callstack_id):
        """Function and line of a callstack."""
        for message in list(self.messages):
            for callstack in message.callstacks:
                if callstack.id == callstack_id:
                    return callstack.locations[0]
        raise AssertionError(f"callstack {callstack_id} was never sent")


def essence(event):
    """Fields of an event that are equal in two streams; each has its own Unix time."""
    return (event.kind, event.block, event.size_words, event.n_samples, event.source, event.thread,
            event.callstack_id, event.lifetime_seconds)


class EventStream(E2ETest):
    RATE = 1e-3

    @classmethod
    def setUpClass(cls):
        make_messages(cls)

    def attached(self, rate=RATE, *options):
        """A sampled known_alloc whose events have all been counted."""
        self.known = self.target("known_alloc")
        self.memprofd = self.daemon("--pid", self.known.pid, *options, rate=rate)
        self.sample_on_command(self.memprofd, self.known)
        self.channel = grpc.insecure_channel(f"unix:{self.memprofd.socket}")
        self.addCleanup(self.channel.close)
        self.settled_counts()

    def stream(self, **fields):
        request = self.pb.StreamEventsRequest(pid=self.known.pid, **fields)
        return Stream(self.pb, self.channel, request)

    def counts(self):
        """The daemon's counts: allocations, promotions, deallocations."""
        list_targets = self.channel.unary_unary(
            "/memprof.v1.Profiler/ListTargets",
            request_serializer=self.pb.ListTargetsRequest.SerializeToString,
            response_deserializer=self.pb.ListTargetsResponse.FromString)
        target = list_targets(self.pb.ListTargetsRequest(), timeout=harness.TIMEOUT).targets[0]
        return (target.alloc_events, target.promote_events, target.dealloc_events,
                target.allocated.samples)

    def settled_counts(self):
        return harness.settled(self.counts, "the daemon's counts", quiet=0.7)

    def work(self, rounds=2):
        """Makes events of every kind; returns the daemon's counts of them."""
        before = self.settled_counts()
        self.known.command(f"go {rounds}", timeout=120)
        for command in ("full", "drop", "full", "full"):
            self.known.command(command)
        return tuple(b - a for a, b in zip(before, self.settled_counts()))

    def by_kind(self, events):
        kinds = collections.Counter(self.pb.EventKind.Name(event.kind)[11:] for event in events)
        return (kinds["ALLOC_MINOR"] + kinds["ALLOC_MAJOR"], kinds["PROMOTE"],
                kinds["DEALLOC_MINOR"] + kinds["DEALLOC_MAJOR"],
                # Large blocks count once.
                sum(1 if e.size_words >= 512 else e.n_samples for e in events if self.is_alloc(e)))

    def is_alloc(self, event):
        return event.kind in (self.pb.EVENT_KIND_ALLOC_MINOR, self.pb.EVENT_KIND_ALLOC_MAJOR)

    def is_dealloc(self, event):
        return event.kind in (self.pb.EVENT_KIND_DEALLOC_MINOR, self.pb.EVENT_KIND_DEALLOC_MAJOR)

    def wait_for(self, stream, counts):
        eventually(lambda: stream.size() + stream.dropped() >= sum(counts[:3]), "all events arrive")

    # ------------------------------------------------------------ what arrives

    def test_every_event_arrives_once(self):
        self.attached()
        stream = self.stream()
        counts = self.work()
        self.wait_for(stream, counts)
        events = stream.events()
        self.assertEqual(counts, self.by_kind(events))
        self.assertEqual(0, stream.dropped())
        self.assertEqual(5, len({event.kind for event in events}), "all five kinds")
        self.assertEqual({self.RATE}, {m.sampling_rate for m in stream.messages if m.events})
        self.assertEqual(len(events), len({(event.block, event.kind) for event in events}))

    def test_events_tell_the_life_of_a_block(self):
        self.attached()
        stream = self.stream()
        self.wait_for(stream, self.work())
        born = {}
        for event in stream.events():
            self.assertEqual(self.known.pid, event.thread)
            if self.is_alloc(event):
                born[event.block] = event
            elif event.block in born:
                first = born[event.block]
                self.assertEqual(first.callstack_id, event.callstack_id)
                self.assertAlmostEqual(1, event.size_words / first.size_words, delta=0.033)
                if self.is_dealloc(event):
                    self.assertAlmostEqual((event.time_unix_ns - first.time_unix_ns) / 1e9,
                                           event.lifetime_seconds, delta=1e-6)
        major = [e for e in born.values() if stream.site(e.callstack_id).function.endswith("site_major")]
        self.assertTrue(major)
        for event in major:
            self.assertEqual(self.pb.EVENT_KIND_ALLOC_MAJOR, event.kind)
            self.assertEqual(1_000, event.size_words)

    def test_filters(self):
        self.attached()
        everything = self.stream(full_callstacks=True)
        major = self.stream(kinds=[self.pb.EVENT_KIND_ALLOC_MAJOR],
                            filter=self.pb.Filter(pattern="site_major", min_size_bytes=4_000))
        self.wait_for(everything, self.work())
        wanted = [essence(e) for e in everything.events()
                  if e.kind == self.pb.EVENT_KIND_ALLOC_MAJOR
                  and everything.site(e.callstack_id).function.endswith("site_major")]
        self.assertTrue(wanted)
        eventually(lambda: major.size() >= len(wanted), "the filtered events arrive")
        self.assertEqual(wanted, [essence(e) for e in major.events()])
        stacks = [c for m in everything.messages for c in m.callstacks]
        self.assertTrue([c for c in stacks if len(c.locations) > 1], "full callstacks")

    # ------------------------------------------------------------ its life

    def test_a_cursor_goes_on_without_a_gap(self):
        self.attached()
        whole, part = self.stream(), self.stream()
        first = self.work(1)
        self.wait_for(part, first)
        part.cancel()
        self.assertEqual(grpc.StatusCode.CANCELLED, part.code())
        middle = part.messages[len(part.messages) // 2]
        second = self.work(1)
        rest = self.stream(cursor=middle.cursor)
        self.wait_for(whole, [a + b for a, b in zip(first, second)])
        before = part.messages[:len(part.messages) // 2 + 1]
        seen = [e for m in before for e in m.events]
        eventually(lambda: len(seen) + rest.size() >= whole.size(), "the rest arrives")
        self.assertEqual([essence(e) for e in whole.events()],
                         [essence(e) for e in seen + rest.events()])
        self.assertEqual(0, rest.dropped())

    def test_the_stream_ends_with_its_target(self):
        self.attached()
        stream = self.stream()
        before = self.counts()
        self.known.command("go 1")
        self.known.exit()
        self.assertEqual(grpc.StatusCode.OK, stream.code())
        after = self.counts()
        self.assertEqual(tuple(b - a for a, b in zip(before, after)), self.by_kind(stream.events()))

    def test_the_daemon_stops_under_a_stream(self):
        self.attached()
        stream = self.stream()
        self.assertEqual(harness.OK, self.memprofd.stop(timeout=10))
        self.assertIn(stream.code(), (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE,
                                      grpc.StatusCode.CANCELLED))
        self.known.command("go 1")

    def test_a_reader_that_does_not_read_is_told_and_holds_up_nobody(self):
        rate = 0.02
        self.attached(rate)
        slow = self.stream()
        slow.pause()
        promotions = self.stream(kinds=[self.pb.EVENT_KIND_PROMOTE])
        # More than the log's 262,144 events, in parts that fit the rings.
        counts = [sum(parts) for parts in zip(*(self.work(1) for _ in range(4)))]
        self.assertGreater(sum(counts[:3]), 350_000)
        eventually(lambda: promotions.size() >= counts[1], "the other reader's events arrive")
        self.assertEqual((counts[1], 0), (promotions.size(), promotions.dropped()))
        self.assertEqual(0, self.memprofd.targets()[self.known.pid]["dropped_events"])
        site = sum_sites(self.memprofd.sites(self.known.pid), "site_small")
        self.assert_estimate("site_small", site["allocated_bytes"], 4 * 250_000 * 4, rate)

        slow.resume()
        self.wait_for(slow, counts)
        self.assertGreater(slow.dropped(), 0)
        self.assertEqual(sum(counts[:3]), slow.size() + slow.dropped())
        notices = [m for m in slow.messages if m.dropped_events]
        self.assertTrue(all(m.cursor.next_event for m in notices))

    def test_records_that_never_came_are_told(self):
        self.attached(self.RATE, "--ring-bytes", "256KiB")
        stream = self.stream()
        with harness.standing_still(self.memprofd):
            self.known.command("go 30")
        self.work(1)
        drops = {drop["reason"]: drop["count"] for drop in self.memprofd.targets()[self.known.pid]["drops"]}
        self.assertGreater(drops["lost_records"], 0)
        told = lambda: sum(message.lost_records for message in list(stream.messages))
        eventually(lambda: told() >= drops["lost_records"], "the losses are told")
        self.assertEqual((drops["lost_records"], 0), (told(), stream.dropped()))

    # ------------------------------------------------------------ clients

    def client(self, command, *options, check=True):
        env = dict(os.environ, PYTHONPATH=self.shared.name)
        done = subprocess.run([*map(str, command), "--pid", str(self.known.pid), "--socket",
                               str(self.memprofd.socket), *map(str, options)],
                              capture_output=True, text=True, env=env, timeout=60, check=False)
        if check:
            self.assertEqual(0, done.returncode, done.stderr)
        return done

    def clients(self):
        return {"python": ["/usr/bin/python3", harness.ROOT / "proto/examples/watch_events.py"],
                "c++": [harness.BUILD / "tests/watch_events"]}

    def test_clients_see_the_same(self):
        self.attached()
        stream = self.stream()
        start = stream.cursor()
        self.wait_for(stream, self.work(1))
        options = ("--cursor", f"{start.log}:{start.next_event}", "--limit", stream.size())
        seen = {}
        for name, command in self.clients().items():
            done = self.client(command, "--json", *options)
            events = [event for line in done.stdout.splitlines()
                      for event in json.loads(line).get("events", [])]
            for event in events:
                del event["time_unix_ns"]
            seen[name] = events
            self.assertEqual(f"cursor {stream.cursor().log}:{stream.cursor().next_event}\n", done.stderr)
        self.assertEqual(seen["python"], seen["c++"])
        self.assertEqual([e.block for e in stream.events()], [int(e["block"]) for e in seen["c++"]])

    def test_clients_print_sites(self):
        self.attached()
        stream = self.stream()
        start = stream.cursor()
        self.wait_for(stream, self.work(1))
        for name, command in self.clients().items():
            with self.subTest(client=name):
                text = self.client(command, "--cursor", f"{start.log}:{start.next_event}",
                                   "--pattern", "site_small$", "--limit", 100).stdout
                self.assertGreaterEqual(len(text.splitlines()), 100)
                self.assertRegex(text, r"(?i)alloc_minor +block \d+ +3 words +\d+ samples  "
                                       r"\S*site_small \S*known_alloc\.ml:\d+")
                self.assertNotIn("site_live", text)

    def test_clients_say_what_is_wrong(self):
        self.attached()
        for name, command in self.clients().items():
            with self.subTest(client=name):
                done = self.client(command, "--cursor", CURSOR_OF_NOBODY, check=False)
                self.assertEqual(1, done.returncode)
                self.assert_one_line(done.stderr, "cursor", CURSOR_OF_NOBODY, "without a cursor")


if __name__ == "__main__":
    unittest.main()
