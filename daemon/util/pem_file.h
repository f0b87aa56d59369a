// SPDX-License-Identifier: Apache-2.0
// Files of certificates and keys.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace memprofd {

// The text of a PEM file of up to 1 MiB. kInvalidArgument, with the display name, when it cannot be
// read, is larger or holds no PEM.
absl::StatusOr<std::string> read_pem(const std::string& path, const std::string& display_name);

}  // namespace memprofd
