// SPDX-License-Identifier: Apache-2.0
// Length of tests without a natural end: damaged bytes, random input.
#pragma once

#include <cstdlib>
#include <string_view>

namespace memprofd {

// MEMPROFD_MATRIX=1 runs everything that takes long (make test-matrix).
inline bool full_length() {
  const char* matrix = std::getenv("MEMPROFD_MATRIX");
  return matrix != nullptr && std::string_view(matrix) == "1";
}

inline int rounds_of(int always, int at_full_length) {
  return full_length() ? at_full_length : always;
}

}  // namespace memprofd
