#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the Gc.Memprof events of a program that memprofd profiles, as they happen.

  protoc -Iproto --python_out=/tmp/gen memprof/v1/profiler.proto
  PYTHONPATH=/tmp/gen proto/examples/watch_events.py --pid PID

Needs python3-grpcio and python3-protobuf. Ends with the program, at --limit or
at Ctrl-C, and then prints a cursor: --cursor resumes there without a gap.
"""

import argparse
import sys
import time

import grpc
from google.protobuf import json_format
from memprof.v1 import profiler_pb2 as pb


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--socket", default="/run/memprofd/memprofd.sock")
    parser.add_argument("--pattern", default="", help="RE2 of the site's function or file")
    parser.add_argument("--limit", type=int, default=0, help="end after so many events; 0: never")
    parser.add_argument("--cursor", help="go on there: LOG:NEXT, as printed at the end")
    parser.add_argument("--json", action="store_true", help="one message a line")
    return parser.parse_args()


def request(options):
    message = pb.StreamEventsRequest(pid=options.pid, filter=pb.Filter(pattern=options.pattern))
    if options.cursor:
        log, next_event = options.cursor.split(":")
        message.cursor.log, message.cursor.next_event = int(log), int(next_event)
    return message


def print_message(message, sites):
    """sites: by callstack id, of this stream so far; each is sent once."""
    if message.dropped_events:
        print(f"-- {message.dropped_events} events lost: this reader was too slow")
    for callstack in message.callstacks:
        sites[callstack.id] = callstack.locations[0]
    for event in message.events:
        site = sites.get(event.callstack_id, pb.Location(function="(unknown)"))
        clock = time.strftime("%H:%M:%S", time.localtime(event.time_unix_ns // 10**9))
        kind = pb.EventKind.Name(event.kind).removeprefix("EVENT_KIND_").lower()
        print(f"{clock} {kind:13} block {event.block:<8} {event.size_words:>8} words "
              f"{event.n_samples:>3} samples  {site.function} {site.file}:{site.line}")


def watch(options, stream):
    sites, events = {}, 0
    for message in stream:
        if options.json:
            print(json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None))
        else:
            print_message(message, sites)
        sys.stdout.flush()
        options.cursor = f"{message.cursor.log}:{message.cursor.next_event}"
        events += len(message.events)
        if options.limit and events >= options.limit:
            stream.cancel()
            return


def main():
    options = arguments()
    with grpc.insecure_channel(f"unix:{options.socket}") as channel:
        # What protoc's gRPC plugin would generate.
        stream_events = channel.unary_stream(
            "/memprof.v1.Profiler/StreamEvents",
            request_serializer=pb.StreamEventsRequest.SerializeToString,
            response_deserializer=pb.StreamEventsResponse.FromString)
        try:
            watch(options, stream_events(request(options)))
        except grpc.RpcError as error:
            sys.exit(f"watch_events: {error.details()}")
        except KeyboardInterrupt:
            pass
    print(f"cursor {options.cursor}", file=sys.stderr)


if __name__ == "__main__":
    main()
