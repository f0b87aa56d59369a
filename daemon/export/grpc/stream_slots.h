// SPDX-License-Identifier: Apache-2.0
// Limits the number of streams: each occupies one of the gRPC server's threads, and some threads
// have to stay free for calls. A stream ends if its client accepts no data for too long. Its
// connection may still be read, so only the writing thread notices that (flow control).
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "daemon/export/api/server_stats.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/stop_signal.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/user_slots.h"

namespace memprofd {

// Time within which a stream notices that its client has gone.
inline constexpr std::chrono::milliseconds kCancelCheck{100};
// Waits until the next message of a stream is due; false when the stream should end.
bool wait_for_next(const grpc::ServerContext& context, StopSignal& stop,
                   std::chrono::steady_clock::time_point due);

// Thread-safe.
class StreamSlots {
 public:
  using Clock = std::chrono::steady_clock;

  explicit StreamSlots(std::shared_ptr<ServerStats> stats,
                       Clock::duration patience = std::chrono::seconds(30));
  ~StreamSlots();
  StreamSlots(const StreamSlots&) = delete;
  StreamSlots& operator=(const StreamSlots&) = delete;

  static constexpr int kSlots = 32;
  static constexpr int kSlotsOfUser = 21;  // for a user other than root, if no one else has any

 private:
  struct Stream {
    grpc::ServerContext& context;
    UserSlots::Slot slot;
    std::optional<Clock::time_point> writing_since = std::nullopt;
  };

 public:
  class Slot {
   public:
    Slot(Slot&& other) noexcept
        : slots_(std::exchange(other.slots_, nullptr)),
          stream_(other.stream_),
          user_(std::move(other.user_)) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (slots_ != nullptr) slots_->leave(stream_);
    }
    // Returns the result of write(), which another thread may interrupt.
    bool write(const std::function<bool()>& write) const {
      slots_->set_writing(*stream_, Clock::now());
      const bool written = write();
      slots_->set_writing(*stream_, std::nullopt);
      return written;
    }

   private:
    friend class StreamSlots;
    Slot(StreamSlots& slots, std::list<Stream>::iterator stream, const std::string& user)
        : slots_(&slots), stream_(stream), user_(std::make_unique<ScopedUser>(user)) {}

    StreamSlots* slots_;
    std::list<Stream>::iterator stream_;
    std::unique_ptr<ScopedUser> user_;  // its thread works for the stream's user
  };

  // Nothing if all places are taken, or all that the user may have. The places and the context must
  // outlive it. user: empty: one who may take all.
  std::optional<Slot> take(grpc::ServerContext& context, const std::string& user);
  std::optional<Slot> take(grpc::ServerContext& context) {
    return take(context, GrpcAccess::caller(context).user());
  }

 private:
  void leave(std::list<Stream>::iterator stream);
  void set_writing(Stream& stream, std::optional<Clock::time_point> since);
  void end_stalled_streams();

  const std::shared_ptr<ServerStats> stats_;  // counts those that are taken
  const Clock::duration patience_;
  UserSlots free_{kSlots, "streams are open"};
  Mutex mutex_;
  std::list<Stream> streams_ ABSL_GUARDED_BY(mutex_);
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
