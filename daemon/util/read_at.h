// SPDX-License-Identifier: Apache-2.0
// Reads of files that may change meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace memprofd {

// All of out from that offset on, or an error; kOutOfRange: the file ends before.
absl::Status read_at(int fd, std::uint64_t offset, std::span<std::byte> out);

}  // namespace memprofd
