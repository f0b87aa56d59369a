// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "daemon/util/stop_signal.h"

namespace memprofd::ctl {
namespace {

void show_until(const std::stop_token& stop, const std::string& what) {
  StopSignal signal;
  const std::stop_callback end(stop, [&signal] { signal.stop(); });
  bool shown = false;
  while (signal.wait(std::chrono::seconds(1))) {
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
