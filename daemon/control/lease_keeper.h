// SPDX-License-Identifier: Apache-2.0
// Renews what agents sample under, in a thread that does nothing else: whatever keeps the other
// threads of memprofd from their work, the sessions go on. They end when memprofd does.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "daemon/util/threads/mutex.h"

namespace memprofd {

class LeaseKeeper {
 public:
  // Far below the length of a lease (AgentControl::kLeaseNs): a target whose memory does not
  // answer holds up the others' renewals for a tenth of a second each. Each renewal wakes the
  // process that has the target's memory.
  static constexpr std::chrono::milliseconds kInterval{3000};

  explicit LeaseKeeper(std::chrono::milliseconds interval = kInterval);
  ~LeaseKeeper();

  // Calls renew again and again until drop(), and maybe once more after it: it owns all that it
  // touches. In place of the one that was there. Any thread.
  void keep(int pid, std::function<void()> renew);
  void drop(int pid);

 private:
  void loop();
  void renew_all();

  const std::chrono::milliseconds interval_;
  Mutex mutex_;
  Condition stopped_;
  std::map<int, std::function<void()>> leases_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memprofd
