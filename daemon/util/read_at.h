// SPDX-License-Identifier: Apache-2.0
// Reads files that may change at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace memprofd {

// Fills out from that offset on, or returns an error; kOutOfRange: the file ends earlier.
absl::Status read_at(int fd, std::uint64_t offset, std::span<std::byte> out);

}  // namespace memprofd
