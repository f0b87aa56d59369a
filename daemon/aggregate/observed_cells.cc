// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/observed_cells.h"

#include <algorithm>

namespace memprofd {

std::vector<std::pair<ObservedCells::Kind, std::uint64_t>> ObservedCells::sorted() const {
  std::vector<std::pair<Kind, std::uint64_t>> result(hits_.begin(), hits_.end());
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace memprofd
