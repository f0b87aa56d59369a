// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/heap_stream.h"

#include <string_view>

#include "daemon/export/api/audit.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

const char* what_text(HeapContents contents) {
  switch (contents) {
    case HeapContents::kContents:
      return "snapshot with contents";
    case HeapContents::kFingerprints:
      return "snapshot with fingerprints";
    case HeapContents::kNone:
      break;
  }
  return "snapshot";
}

absl::StatusOr<HeapContents> contents_of(pb::HeapContents contents) {
  switch (contents) {
    case pb::HEAP_CONTENTS_UNSPECIFIED:
      return HeapContents::kNone;
    case pb::HEAP_CONTENTS_FINGERPRINTS:
      return HeapContents::kFingerprints;
    case pb::HEAP_CONTENTS_ALL:
      return HeapContents::kContents;
    default:
      return absl::InvalidArgumentError("unknown kind of contents");
  }
}

}  // namespace

grpc::Status HeapStream::send(grpc::ServerContext& context, const pb::TakeHeapRequest& request,
                              grpc::ServerWriter<pb::TakeSnapshotResponse>& writer) {
  const auto contents = contents_of(request.contents());
  if (!contents.ok()) return to_grpc(contents.status());
  return send(context, request.snapshot(), *contents, writer);
}

grpc::Status HeapStream::send(grpc::ServerContext& context, const pb::TakeSnapshotRequest& request,
                              HeapContents contents,
                              grpc::ServerWriter<pb::TakeSnapshotResponse>& writer) {
  const auto slot = streams_.take(context);
  if (!slot) return no_stream_left();
  const GrpcCaller caller = GrpcAccess::caller(context);
  const HeapClient client{.take =
                              [&](std::string_view bytes) {
                                pb::TakeSnapshotResponse message;
                                message.set_data(bytes.data(), bytes.size());
                                return slot->write([&] { return writer.Write(message); });
                              },
                          .waits = [&] { return !context.IsCancelled() && stop_.wait({}); }};
  const auto process = access_.process_for(caller, request.pid(), request.process_start_ticks());
  const auto summary =
      process.ok() ? control_.take_snapshot(request, *process, client, contents) : process.status();
  audit(request.pid(), what_text(contents), caller.name, summary.status(),
        summary.ok() ? cost_of(*summary) : "");
  if (!summary.ok()) return to_grpc(summary.status());
  pb::TakeSnapshotResponse last;
  *last.mutable_summary() = *summary;
  slot->write([&] { return writer.Write(last); });
  return grpc::Status::OK;
}

}  // namespace memprofd
