// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace memprofd {

// Makes path ready for a server to bind: creates its folder (mode 0755) and
// removes a socket on which nobody listens any more. kUnavailable when somebody
// does, kInvalidArgument when the path cannot be that of a socket.
absl::Status prepare_socket_path(const std::string& path);

}  // namespace memprofd
