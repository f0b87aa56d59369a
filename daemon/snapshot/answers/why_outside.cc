// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/why_outside.h"

#include <algorithm>

#include "daemon/util/estimate.h"

namespace memprofd {

WhyOutside::WhyOutside(const HeapImage& image,
                       const std::function<bool(const std::string&)>& wanted)
    : classes_(image), paths_(image), tree_(image, classes_, paths_) {
  std::vector<OutsideRow> by_class(classes_.size());
  std::vector<bool> is_wanted(classes_.size());
  for (std::uint32_t i = 0; i < by_class.size(); ++i) {
    by_class[i].name = classes_.text(i);
    is_wanted[i] = wanted(by_class[i].name);
  }
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    const std::uint64_t bytes = image.outside_bytes(block);
    const std::uint32_t of = classes_.without_fields_of(block);
    if (bytes == 0 || !is_wanted[of]) continue;
    const bool is_reachable = paths_.is_reachable(block);
    OutsideCount& count = is_reachable ? by_class[of].reachable : by_class[of].garbage;
    ++count.blocks;
    count.bytes += bytes;
    count.resident += image.chunks_of(block).resident;
    if (!is_reachable) continue;
    SampledSum sum{.blocks = 1};
    sum.estimate.words = static_cast<double>(bytes) / kBytesPerWord;
    tree_.add(block, sum);
  }
  tree_.sum_up();
  std::erase_if(by_class, [](const OutsideRow& row) {
    return row.reachable.blocks + row.garbage.blocks == 0;
  });
  rows_ = std::move(by_class);
  std::ranges::stable_sort(rows_, std::ranges::greater{}, [](const OutsideRow& row) {
    return row.reachable.bytes + row.garbage.bytes;
  });
}

}  // namespace memprofd
