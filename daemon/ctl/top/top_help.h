// SPDX-License-Identifier: Apache-2.0
// What `top` says about its keys.
#pragma once

#include <string>
#include <vector>

namespace memprofd::ctl {

// Lines of the help screen.
std::vector<std::string> top_help();

}  // namespace memprofd::ctl
