// SPDX-License-Identifier: Apache-2.0
// The signals that memprofd obeys: SIGINT and SIGTERM end it, SIGHUP has it read its files anew.
#pragma once

#include <chrono>
#include <optional>

#include "daemon/util/fd.h"

namespace memprofd {

class Signals {
 public:
  // Taken by no thread that is started from here on. SIGPIPE is ignored.
  Signals();

  // The next one; none when the time has passed before it came.
  std::optional<int> wait(std::chrono::milliseconds time) const;

 private:
  UniqueFd descriptor_;
};

}  // namespace memprofd
