// SPDX-License-Identifier: Apache-2.0
// Renews the leases under which agents sample, in a thread that does nothing else, so that sessions
// continue while other threads of memprofd are blocked. The sessions end with memprofd.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "daemon/util/threads/mutex.h"

namespace memprofd {

class LeaseRenewer {
 public:
  // Far below the duration of a lease (AgentControl::kLeaseNs), because each target whose memory
  // does not respond delays the other renewals by a tenth of a second. Each renewal wakes the
  // memory server of its target.
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
