// SPDX-License-Identifier: Apache-2.0
// What a target may claim about its minor heap.
#pragma once

#include <cstdint>

namespace memprofd {

// More is no minor heap: the runtime takes at most 2^28 words (Minor_heap_max).
inline constexpr std::uint64_t kMaxMinorHeapBytes = 1ull << 40;

}  // namespace memprofd
