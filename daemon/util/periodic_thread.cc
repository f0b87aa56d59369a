// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/periodic_thread.h"

#include <pthread.h>

#include <utility>

#include "daemon/util/guard.h"

namespace memprofd {
namespace {

constexpr std::chrono::seconds kAfterError{1};  // a first turn that throws

}  // namespace

PeriodicThread::PeriodicThread(const Options& options, Job job)
    : job_(std::move(job)), thread_([this, options] { run(options); }) {}

void PeriodicThread::stop() {
  stop_.stop();
  if (thread_.joinable()) thread_.join();
}

void PeriodicThread::run(const Options& options) {
  ::pthread_setname_np(::pthread_self(), options.name);
  std::chrono::nanoseconds next = kAfterError;
  if (!stop_.wait(options.first)) return;
  do {
    guarded(options.what, [&] { next = job_(); });
  } while (stop_.wait(next));
}

}  // namespace memprofd
