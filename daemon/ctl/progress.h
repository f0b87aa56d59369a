// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>

namespace memprofd::ctl {

// Shows on stderr the activity if it takes more than a second and stderr is a terminal. Exists as
// long as the work.
class Progress {
 public:
  explicit Progress(std::string what);

 private:
  std::jthread thread_;
};

}  // namespace memprofd::ctl
