// SPDX-License-Identifier: Apache-2.0
// Heap snapshots of a running process of the same user, without memprofd and its privileges.
//
//   open()     the program loads the agent (running_process.h)
//   sample()   the agent samples the program
//   take()     the program is copied, by ptrace: a thread that waits makes the copy, or one that
//              the next sample brings to the agent (Injection::sample_point)
//
// The destructor ends the sampling; the program keeps the agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/model/control.h"
#include "daemon/run/run_program.h"
#include "daemon/run/run_target.h"
#include "daemon/run/running_process.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Owned by one thread.
class OwnHeap {
 public:
  // waits: polled; false cancels the current call with kCancelled.
  // rate: samples per word. Errors as for RunningProcess; kFailedPrecondition: the program did not
  // load the agent.
  static absl::StatusOr<std::unique_ptr<OwnHeap>> open(int pid, const AgentFile& agent, double rate,
                                                       std::function<bool()> waits);
  ~OwnHeap();
  OwnHeap(const OwnHeap&) = delete;
  OwnHeap& operator=(const OwnHeap&) = delete;

  // Waits until the program has been sampled for this time, and publishes what it was.
  // kFailedPrecondition, in one line: it cannot be sampled, or allocates nothing.
  absl::Status sample(std::chrono::nanoseconds time);
  // The sampled program, for use between sample() and take(); null until it allocates.
  RunTarget* sampled() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    return run_.get();
  }

  // Errors as for take_heap(). take: as for HeapClient.
  absl::StatusOr<HeapSummary> take(const HeapRequest& request,
                                   const std::function<bool(std::string_view)>& take);

 private:
  OwnHeap(std::unique_ptr<RunningProcess> process, double rate, std::function<bool()> waits)
      : process_(std::move(process)), rate_(rate), waits_(std::move(waits)) {}
  absl::Status update() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status wait();
  absl::Status ended() const;
  // The rest of a sentence that starts with the program; empty: it is sampled, or waits.
  std::string why_not_sampling() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status check_is_sampled() ABSL_LOCKS_EXCLUDED(mutex_);
  SampleSites sites_of(const std::vector<SampleId>& numbers) ABSL_LOCKS_EXCLUDED(mutex_);

  std::unique_ptr<RunningProcess> process_;
  const double rate_;
  const std::function<bool()> waits_;
  RunPrograms programs_;
  // Sites are asked for on another thread while the owner reads events.
  Mutex mutex_;
  std::unique_ptr<RunTarget> run_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t sampled_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // CLOCK_MONOTONIC; 0: not yet
};

}  // namespace memprofd
