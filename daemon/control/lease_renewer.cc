// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/lease_renewer.h"

#include <pthread.h>

#include <utility>

#include "daemon/util/guard.h"

namespace memprofd {

LeaseRenewer::LeaseRenewer(std::chrono::milliseconds interval) : interval_(interval) {
  thread_ = std::thread([this] { loop(); });
}

LeaseRenewer::~LeaseRenewer() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void LeaseRenewer::keep(int pid, std::function<void()> renew) {
  const MutexLock lock(mutex_);
  leases_[pid] = std::move(renew);
}

void LeaseRenewer::drop(int pid) {
  const MutexLock lock(mutex_);
  leases_.erase(pid);
}

// Renews without holding the lock, because renewing may wait for a target.
void LeaseRenewer::renew_all() {
  std::map<int, std::function<void()>> leases;
  {
    const MutexLock lock(mutex_);
    leases = leases_;
  }
  for (const auto& [pid, renew] : leases) renew();
}

void LeaseRenewer::loop() {
  ::pthread_setname_np(::pthread_self(), "memprofd-lease");
  MutexLock lock(mutex_);
  for (;;) {
    const auto until = std::chrono::steady_clock::now() + interval_;
    while (!stop_ && stopped_.wait_until(mutex_, until)) {
    }
    if (stop_) return;
    lock.unlock();
    guarded("to renew leases", [this] { renew_all(); });
    lock.lock();
  }
}

}  // namespace memprofd
