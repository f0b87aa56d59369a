// SPDX-License-Identifier: Apache-2.0
// Reads certificate and key files.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace memprofd {

// Reads a PEM file of up to 1 MiB. Returns kInvalidArgument, with the display name, if it cannot be
// read, is larger or contains no PEM.
absl::StatusOr<std::string> read_pem(const std::string& path, const std::string& display_name);

}  // namespace memprofd
