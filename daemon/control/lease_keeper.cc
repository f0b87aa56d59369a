// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/lease_keeper.h"

#include <pthread.h>

#include <utility>

#include "daemon/util/guard.h"

namespace memprofd {

LeaseKeeper::LeaseKeeper(std::chrono::milliseconds interval) : interval_(interval) {
  thread_ = std::thread([this] { loop(); });
}

LeaseKeeper::~LeaseKeeper() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void LeaseKeeper::keep(int pid, std::function<void()> renew) {
  std::lock_guard lock(mutex_);
  leases_[pid] = std::move(renew);
}

void LeaseKeeper::drop(int pid) {
  std::lock_guard lock(mutex_);
  leases_.erase(pid);
}

// Renewing may wait for a target, so it is done without the lock.
void LeaseKeeper::renew_all() {
  std::map<int, std::function<void()>> leases;
  {
    const std::lock_guard lock(mutex_);
    leases = leases_;
  }
  for (const auto& [pid, renew] : leases) renew();
}

void LeaseKeeper::loop() {
  ::pthread_setname_np(::pthread_self(), "memprofd-lease");
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, interval_, [this] { return stop_; })) {
    lock.unlock();
    guarded("to renew leases", [this] { renew_all(); });
    lock.lock();
  }
}

}  // namespace memprofd
