// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace memprofd::ctl {
namespace {

// Ends the wait when there is nothing left to interrupt; counts only from this process.
constexpr int kDone = SIGUSR1;

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, kDone);
  return set;
}

// Returns the next signal that asks to stop, or kDone.
int next_signal() {
  const sigset_t set = signals();
  while (true) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&set, &info);
    if (signal > 0 && (signal != kDone || info.si_pid == ::getpid())) return signal;
  }
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void Interrupt::on_signal(std::function<void()> stop, std::function<void()> stop_now) {
  thread_ = std::thread([stop = std::move(stop), stop_now = std::move(stop_now)] {
    for (const auto* action : {&stop, &stop_now}) {
      if (next_signal() == kDone) return;
      (*action)();
    }
  });
}

Interrupt::~Interrupt() {
  if (!thread_.joinable()) return;
  pthread_kill(thread_.native_handle(), kDone);
  thread_.join();
}

bool Waiting::wait_until(std::chrono::steady_clock::time_point time) {
  const MutexLock lock(mutex_);
  while (!is_interrupted_ && interrupted_.wait_until(mutex_, time)) {
  }
  return !is_interrupted_;
}

void Waiting::interrupt() {
  const MutexLock lock(mutex_);
  is_interrupted_ = true;
  interrupted_.notify_all();
}

}  // namespace memprofd::ctl
