// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/snapshot_stream.h"

#include <utility>

#include "daemon/export/api/request_checks.h"
#include "daemon/util/guard.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/start_thread.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

}  // namespace

absl::StatusOr<std::shared_ptr<HeapDumpStream>> HeapDumpStream::begin(
    ControlService& control, StopSignal& stop, const ::memprof::v1::TakeSnapshotRequest& request,
    std::function<void(const Summary&)> done) {
  std::shared_ptr<HeapDumpStream> stream(new HeapDumpStream);
  // The thread gets a plain pointer: an owner of the stream waits for the thread in the destructor.
  ASSIGN_OR_RETURN(stream->thread_, start_thread("to take a snapshot",
                                                 [self = stream.get(), &control, &stop, request,
                                                  done, user = ScopedUser::current()] {
                                                   const ScopedUser as_user(user);
                                                   guarded("to take a snapshot", [&] {
                                                     self->take(control, stop, request);
                                                     done(self->summary_);
                                                   });
                                                   self->ended_ = true;
                                                 }));
  stream->first_ = stream->next();
  if (!stream->first_ || stream->first_->empty()) {
    if (!stream->summary_.ok()) return stream->summary_.status();
  }
  return stream;
}

void HeapDumpStream::take(ControlService& control, StopSignal& stop,
                          const ::memprof::v1::TakeSnapshotRequest& request) {
  const HeapClient client{
      .take = [this](std::string_view bytes) { return pipe_.push(std::string(bytes)).ok(); },
      .waits = [&] { return !pipe_.closed() && stop.wait({}); }};
  summary_ = control.take_snapshot(request, process_in(request), client);
}

HeapDumpStream::~HeapDumpStream() {
  pipe_.close();
  if (thread_.joinable()) thread_.join();
}

std::optional<std::string> HeapDumpStream::next() {
  if (first_) return std::exchange(first_, std::nullopt);
  for (;;) {
    const bool ended = ended_;
    if (auto piece = pipe_.pop(ended ? std::chrono::milliseconds(0) : kPoll)) {
      if (!piece->empty()) return piece;
      continue;
    }
    if (!ended) continue;
    if (summary_.ok()) return "";
    return std::nullopt;
  }
}

}  // namespace memprofd
