// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/stream_slots.h"

#include <algorithm>
#include <utility>

#include "daemon/util/guard.h"
#include "daemon/util/log.h"

namespace memprofd {
namespace {

constexpr std::chrono::seconds kPatienceCheck{1};

}  // namespace

bool wait_for_next(const grpc::ServerContext& context, StopSignal& stop,
                   std::chrono::steady_clock::time_point due) {
  while (!context.IsCancelled()) {
    const auto now = std::chrono::steady_clock::now();
    if (!stop.wait(std::clamp<std::chrono::nanoseconds>(due - now, {}, kCancelCheck))) return false;
    if (now >= due) return true;
  }
  return false;
}

StreamSlots::StreamSlots(std::shared_ptr<ServerStats> stats, Clock::duration patience)
    : stats_(std::move(stats)), patience_(patience), thread_([this] {
        while (stop_.wait(std::min<Clock::duration>(kPatienceCheck, patience_)))
          guarded("to find clients that do not read", [this] { end_stalled_streams(); });
      }) {}

StreamSlots::~StreamSlots() {
  stop_.stop();
  thread_.join();
}

std::optional<StreamSlots::Slot> StreamSlots::take(grpc::ServerContext& context,
                                                   const std::string& user) {
  auto slot = free_.take(user);
  if (!slot.ok()) return std::nullopt;
  const MutexLock lock(mutex_);
  ++stats_->grpc_streams;
  return Slot(*this, streams_.insert(streams_.end(), Stream{context, *std::move(slot)}), user);
}

void StreamSlots::leave(std::list<Stream>::iterator stream) {
  const MutexLock lock(mutex_);
  streams_.erase(stream);
  --stats_->grpc_streams;
}

void StreamSlots::set_writing(Stream& stream, std::optional<Clock::time_point> since) {
  const MutexLock lock(mutex_);
  stream.writing_since = since;
}

void StreamSlots::end_stalled_streams() {
  const MutexLock lock(mutex_);
  const auto now = Clock::now();
  for (Stream& stream : streams_) {
    if (!stream.writing_since || now - *stream.writing_since < patience_) continue;
    stream.writing_since.reset();  // so that it is reported once
    stream.context.TryCancel();
    ++stats_->grpc_cut_off;
    log_warning("gRPC: ended a stream of {}, which has not read for {} s", stream.context.peer(),
                std::chrono::duration_cast<std::chrono::seconds>(patience_).count());
  }
}

}  // namespace memprofd
