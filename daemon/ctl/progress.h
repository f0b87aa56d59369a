// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>

namespace memprofd::ctl {

// Says on stderr what is going on when it takes more than a second, if that is
// a terminal. Lives as long as the work.
class Progress {
 public:
  explicit Progress(std::string what);

 private:
  std::jthread thread_;
};

}  // namespace memprofd::ctl
