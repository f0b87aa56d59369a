// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/lease_keeper.h"

#include <pthread.h>

#include <utility>

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
void LeaseKeeper::loop() {
  ::pthread_setname_np(::pthread_self(), "memprofd-lease");
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, interval_, [this] { return stop_; })) {
    const auto leases = leases_;
    lock.unlock();
    for (const auto& [pid, renew] : leases) renew();
    lock.lock();
  }
}

}  // namespace memprofd
