// SPDX-License-Identifier: Apache-2.0
// The kinds of blocks that the runtime tells apart.
#pragma once

namespace memprofd {

// Which heap a block was allocated in, or, for deallocations, died in.
enum class Heap { kMinor = 0, kMajor = 1 };
inline constexpr int kHeaps = 2;

// Gc.Memprof.allocation_source.
enum class Source { kNormal = 0, kMarshal = 1, kCustom = 2 };
inline constexpr int kSources = 3;

}  // namespace memprofd
