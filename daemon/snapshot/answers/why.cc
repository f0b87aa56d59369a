// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/why.h"

namespace memprofd {

Why::Why(const HeapImage& image, const std::vector<bool>& wanted)
    : classes_(image),
      paths_(image),
      tree_(image, classes_, paths_),
      sites_(sum_sites(image, paths_, wanted)),
      types_(count_typed(image, paths_)) {
  for (const SampledBlock& sampled : image.sampled) {
    if (!wanted[sampled.site]) continue;
    const SampledSum sum = sum_of(image, sampled);
    const SampledState state = state_of(paths_, sampled);
    sums_.add(state, sum);
    if (state == SampledState::kReachable) tree_.add(sampled.block, sum);
  }
  tree_.sum_up();
}

}  // namespace memprofd
