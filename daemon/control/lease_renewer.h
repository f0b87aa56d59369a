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

class LeaseRenewer {
 public:
  // Far below the length of a lease (AgentControl::kLeaseNs): a target whose memory does not
  // answer holds up the others' renewals for a tenth of a second each. Each renewal wakes the
  // process that has the target's memory.
  static constexpr std::chrono::milliseconds kInterval{3000};

  explicit LeaseRenewer(std::chrono::milliseconds interval = kInterval);
  ~LeaseRenewer();

  // Calls renew periodically until drop(), and possibly once more after it, so it must own
  // everything that it uses. Replaces the previous function of this pid. Any thread.
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
