// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/reading_order.h"

#include <algorithm>
#include <numeric>

namespace memprofd {

std::vector<std::size_t> reading_order(const std::vector<ModuleBlocks::Module>& modules) {
  std::vector<std::size_t> order(modules.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return modules[i].author; });
  return order;
}

}  // namespace memprofd
