// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>

namespace memprofd::ctl {

// Shows the activity on stderr while it exists, if that is a terminal and the work takes more than
// a second.
class Progress {
 public:
  explicit Progress(std::string what);

 private:
  std::jthread thread_;
};

}  // namespace memprofd::ctl
