// SPDX-License-Identifier: Apache-2.0
// Log lines on stderr, one event a line.
#pragma once

#include <string>

namespace memprofd {

// level: debug, info, warn or error. format: logfmt or json.
void set_up_log(const std::string& level, const std::string& format);

}  // namespace memprofd
