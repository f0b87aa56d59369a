// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/progress.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <utility>

namespace memprofd::ctl {
namespace {

void show_until(const std::stop_token& stop, const std::string& what) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  bool shown = false;
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    if (stop.stop_requested()) break;
    std::fputs(shown ? "." : (what + " ...").c_str(), stderr);
    shown = true;
  }
  if (shown) std::fputs("\n", stderr);
}

}  // namespace

Progress::Progress(std::string what) {
  if (::isatty(STDERR_FILENO) == 0) return;
  thread_ = std::jthread(
      [what = std::move(what)](const std::stop_token& stop) { show_until(stop, what); });
}

}  // namespace memprofd::ctl
