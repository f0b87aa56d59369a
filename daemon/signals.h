// SPDX-License-Identifier: Apache-2.0
// The signals that memprofd obeys: SIGINT and SIGTERM end it, SIGHUP reloads its files. Closing a
// terminal also sends SIGHUP, which then ends memprofd.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "daemon/util/fd.h"

namespace memprofd {

enum class Signal : std::uint8_t { kInterrupt, kTerminate, kReload, kTerminalClosed };

class Signals {
 public:
  // Taken by no thread that is started from here on. SIGPIPE is ignored.
  Signals();

  // The next one; none when the time has passed before it came.
  std::optional<Signal> wait(std::chrono::milliseconds time) const;

 private:
  Signal hangup() const;

  UniqueFd descriptor_;
  // The controlling one. Invalid where there is none, and under nohup, which asks to outlive it.
  UniqueFd terminal_;
};

}  // namespace memprofd
