// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/callstack.h"

#include <algorithm>

namespace memprofd {

std::vector<std::uint64_t> Callstack::expand(std::size_t max_frames) const {
  std::vector<std::uint64_t> frames;
  for_each_run([&](std::uint64_t address, std::uint64_t repeats) {
    const std::size_t room = max_frames - frames.size();
    frames.insert(frames.end(), std::min<std::uint64_t>(repeats, room), address);
  });
  return frames;
}

}  // namespace memprofd
