// SPDX-License-Identifier: Apache-2.0
// Prints the Gc.Memprof events of a program that memprofd profiles, as they
// happen; the same as watch_events.py in C++.
//
//   watch_events --pid PID [--socket PATH] [--pattern RE2] [--limit N]
//                [--cursor LOG:NEXT] [--json]
//
// Needs grpc++ and what protoc makes of memprof/v1/profiler.proto. Ends with the
// program or at --limit, and then prints a cursor: --cursor resumes there
// without a gap.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "memprof/v1/profiler.grpc.pb.h"

namespace {

namespace pb = memprof::v1;

struct Options {
  pb::StreamEventsRequest request;
  std::string socket = "/run/memprofd/memprofd.sock";
  long limit = 0;  // events; 0: no end
  bool json = false;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "watch_events: %s\n", why.c_str());
  std::exit(1);
}

void set_cursor(const char* text, pb::EventCursor& cursor) {
  char* end = nullptr;
  cursor.set_log(std::strtoull(text, &end, 10));
  if (*end != ':') fail("a cursor is LOG:NEXT");
  cursor.set_next_event(std::strtoull(end + 1, nullptr, 10));
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) fail(name + " needs a value");
    const char* value = argv[++i];
    if (name == "--pid")
      options.request.set_pid(std::atoi(value));
    else if (name == "--socket")
      options.socket = value;
    else if (name == "--pattern")
      options.request.mutable_filter()->set_pattern(value);
    else if (name == "--limit")
      options.limit = std::atol(value);
    else if (name == "--cursor")
      set_cursor(value, *options.request.mutable_cursor());
    else
      fail("unknown option " + name);
  }
  if (options.request.pid() == 0) fail("--pid is missing");
  return options;
}

void print_json(const pb::StreamEventsResponse& message) {
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  std::string text;
  if (google::protobuf::util::MessageToJsonString(message, &text, print).ok()) {
    std::printf("%s\n", text.c_str());
  }
}

// By callstack id, of this stream so far; each is sent once.
using Sites = std::map<std::uint64_t, pb::Location>;

void print(const pb::StreamEventsResponse& message, Sites& sites) {
  if (message.dropped_events() > 0) {
    std::printf("-- %llu events lost: this reader was too slow\n",
                static_cast<unsigned long long>(message.dropped_events()));
  }
  for (const pb::EventCallstack& stack : message.callstacks())
    sites[stack.id()] = stack.locations(0);
  for (const pb::SampleEvent& event : message.events()) {
    const pb::Location& site = sites[event.callstack_id()];  // 0, unknown: an empty one
    std::printf("%-24s block %-8llu %8llu words %3u samples  %s %s:%u\n",
                pb::EventKind_Name(event.kind()).c_str(),
                static_cast<unsigned long long>(event.block()),
                static_cast<unsigned long long>(event.size_words()), event.n_samples(),
                site.function().c_str(), site.file().c_str(), site.line());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto channel =
      grpc::CreateChannel("unix:" + options.socket, grpc::InsecureChannelCredentials());
  const auto stub = pb::Profiler::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->StreamEvents(&context, options.request);

  Sites sites;
  pb::StreamEventsResponse message;
  pb::EventCursor cursor = options.request.cursor();
  long events = 0;
  while (stream->Read(&message)) {
    options.json ? print_json(message) : print(message, sites);
    std::fflush(stdout);
    cursor = message.cursor();
    events += message.events_size();
    if (options.limit > 0 && events >= options.limit) {
      context.TryCancel();
      break;
    }
  }
  const grpc::Status status = stream->Finish();
  if (!status.ok() && status.error_code() != grpc::StatusCode::CANCELLED) {
    fail(status.error_message());
  }
  std::fprintf(stderr, "cursor %llu:%llu\n", static_cast<unsigned long long>(cursor.log()),
               static_cast<unsigned long long>(cursor.next_event()));
  return 0;
}
