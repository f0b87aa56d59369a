// SPDX-License-Identifier: Apache-2.0
// The help text of `top`, with its keys.
#pragma once

#include <string>
#include <vector>

namespace memprofd::ctl {

// Lines of the help screen.
std::vector<std::string> top_help();

}  // namespace memprofd::ctl
