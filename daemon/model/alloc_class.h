// SPDX-License-Identifier: Apache-2.0
// The properties that blocks of one class share; such blocks are counted together.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "daemon/model/heap.h"
#include "daemon/model/size_bucket.h"
#include "daemon/util/estimate.h"
#include "daemon/util/ids.h"

namespace memprofd {

struct AllocClass {
  // The values for blocks whose class does not contain thread and domain.
  static constexpr std::uint32_t kAnyThread = 0;
  static constexpr std::uint16_t kAnyDomain = 0xffff;

  CallstackId callstack;
  std::uint32_t thread = kAnyThread;  // result of gettid() in the target
  std::uint16_t domain = 0;           // always 0 in OCaml 4, which has one domain
  SizeBucket size;
  Heap heap = Heap::kMinor;  // the heap in which the block was allocated
  Source source = Source::kNormal;
  // Base-2 logarithm of the number of blocks that one sampled block represents: itself and blocks
  // whose records were lost (ingest/lost_allocations.h).
  std::uint8_t stands_for_log2 = 0;

  HeapKind heap_kind() const { return heap_kind_of(heap, source); }  // the heap of the allocation
  // Words of one block that can be sampled. They include the header, which memory outside of the
  // heap does not have.
  double block_words() const { return size.middle_words() + header_words(); }
  // The same for the smallest and the largest size in the class; 0 to infinity if it is unknown.
  double smallest_block_words() const {
    return size.is_known() ? static_cast<double>(size.smallest_words()) + header_words() : 0;
  }
  double largest_block_words() const {
    return size.is_known() ? static_cast<double>(size.largest_words()) + header_words()
                           : std::numeric_limits<double>::infinity();
  }
  // The count of a block with n sampled words, and the weight of each unit.
  std::uint64_t counted(std::uint64_t n_samples) const { return size.fine() ? 1 : n_samples; }
  SampleWeight weight(double rate) const {
    const auto among = static_cast<double>(std::uint64_t{1} << stands_for_log2);
    if (size.fine()) return weight_of_block(block_words(), rate, among);
    return among == 1 ? weight_of_word(rate)
                      : weight_of_word(rate, among, size.is_known() ? block_words() : 1);
  }

  double header_words() const { return in_heap(heap_kind()) ? 1 : 0; }

  friend bool operator==(const AllocClass&, const AllocClass&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AllocClass& c) {
    // Two packed numbers hash faster than six fields, because each field costs the same.
    const std::uint64_t whose = std::uint64_t{c.callstack.value()} << 32 | c.thread;
    const std::uint64_t what = std::uint64_t{c.stands_for_log2} << 48 |
                               std::uint64_t{c.domain} << 32 | std::uint64_t{c.size.index()} << 16 |
                               static_cast<std::uint64_t>(c.heap) << 8 |
                               static_cast<std::uint64_t>(c.source);
    return H::combine(std::move(h), whose, what);
  }
};

// Dense index of a class within one target. Class 0 contains the blocks about which nothing is
// known.
using ClassId = Id<struct ClassIdTag, std::uint32_t>;

}  // namespace memprofd
