// SPDX-License-Identifier: Apache-2.0
// Memprofd's end of the socket to a memory server (memory_server.h). No call waits longer than its
// caller allows, and all calls together wait at most for a share of the time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/discover/memory/memory_server.h"
#include "daemon/discover/wait_budget.h"
#include "daemon/util/fd.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

class MemoryChannel {
 public:
  explicit MemoryChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  // Abandons a server that hangs: it ends when its file system responds.
  ~MemoryChannel();
  MemoryChannel(const MemoryChannel&) = delete;
  MemoryChannel& operator=(const MemoryChannel&) = delete;

  enum class Outcome {
    kAnswered,
    kLate,  // it may be done at a later time; `out` is not touched any more
    kNoServer,
  };
  // Performs the request and assigns its number. in: bytes to write. out: receives the bytes that
  // were read. Waits for the answers to earlier requests first. Any thread.
  Outcome call(MemoryRequest request, std::span<const std::byte> in, std::span<std::byte> out,
               MemoryAnswer& answer, std::chrono::nanoseconds patience);

  // Time for which a request has been waiting for its answer; 0 if none is waiting, or an answer
  // has arrived but was not fetched. Any thread; does not wait.
  std::chrono::nanoseconds silent_for() const;

  // After kNoServer: the errno that explains why there is no server; 0: it has ended.
  int why_no_server() const { return why_no_server_; }

  // Number of hung servers of destroyed channels, and its limit.
  static std::size_t abandoned();
  static constexpr std::size_t kMaxAbandoned = 64;
  // CPU time of all servers until their last answers that were fetched.
  static std::uint64_t servers_cpu_ns();

 private:
  Outcome await(MemoryAnswer& answer, std::span<std::byte> out, std::uint64_t patience_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool send(const MemoryRequest& request, std::span<const std::byte> in)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool wait_readable(std::uint64_t patience_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool receive(MemoryAnswer& answer, std::span<std::byte> out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Total for all targets: a burst of 3 s, then 2 % of the time.
  static constexpr std::uint64_t kFullWaitNs = 3'000'000'000;
  static constexpr std::uint64_t kOneIn = 50;

  std::atomic<std::uint64_t> waiting_since_ns_{0};  // 0: it is not

  UniqueFd socket_;  // the same until the end

  TimedMutex mutex_;
  std::uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;      // number of the last request
  std::uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;  // number of the last that was answered
  std::atomic<bool> dead_{false};
  std::atomic<int> why_no_server_{0};
  std::uint64_t server_cpu_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t spent_ns_ ABSL_GUARDED_BY(mutex_) =
      0;  // of the budget, on the request that is not answered yet
  WaitBudget budget_ ABSL_GUARDED_BY(mutex_){kFullWaitNs, kOneIn};
};

}  // namespace memprofd
