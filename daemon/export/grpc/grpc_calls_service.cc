// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_calls_service.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/grpc/grpc_status.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using std::chrono::steady_clock;

// Time within which a lost client or an exhausted budget is noticed.
constexpr std::chrono::milliseconds kCheck{50};

}  // namespace

// False: the stream is to end.
bool GrpcCallsService::wait(const grpc::ServerContext& context, std::chrono::nanoseconds time) {
  return !context.IsCancelled() && stop_.wait(time) && !context.IsCancelled();
}

grpc::Status GrpcCallsService::TraceCalls(grpc::ServerContext* context,
                                          const pb::TraceCallsRequest* request,
                                          grpc::ServerWriter<pb::TraceCallsResponse>* writer) {
  const auto slot = streams_.take(*context);
  if (!slot) return no_stream_left();
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const auto process = access_.process_for(caller, request->pid());
  auto stream = process.ok() ? CallsStream::open(service_, *request, *process) : process.status();
  audit(request->pid(), absl::StrCat("trace calls of '", printable(request->pattern()), "'"),
        caller.name, stream.status());
  if (!stream.ok()) return to_grpc(stream.status());
  auto due = steady_clock::now() + stream->interval();
  while (wait(*context, std::min<std::chrono::nanoseconds>(kCheck, stream->interval()))) {
    const pb::TraceCallsResponse message = stream->next();
    const bool ended = !message.why_ended().empty();
    if (!ended && steady_clock::now() < due) continue;
    due += stream->interval();
    if (!slot->write([&] { return writer->Write(message); }) || ended) break;
  }
  return grpc::Status::OK;
}

}  // namespace memprofd
