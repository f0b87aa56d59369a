// SPDX-License-Identifier: Apache-2.0
// Distinct types for numbers that are easily confused.
#pragma once

#include <cstdint>
#include <functional>

namespace memprofd {

// A number of one kind. Compares, hashes and prints through value().
template <typename Tag, typename Rep>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Id& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Rep value_{};
};

// The number that the agent assigns to a sampled block; unique within one process.
using SampleId = Id<struct SampleIdTag, std::uint64_t>;
// The kernel's 64-bit hash of a captured stack; never 0.
using StackHash = Id<struct StackHashTag, std::uint64_t>;
// Dense index of an interned callstack within one target; 0 is the unknown callstack.
using CallstackId = Id<struct CallstackIdTag, std::uint32_t>;

}  // namespace memprofd
