// SPDX-License-Identifier: Apache-2.0
// Assertions that a program makes about its heap (module Memprof_check), as they stood when a
// snapshot was taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace memprofd {

enum class AssertionKind : std::uint8_t {
  kUnreachable,  // marked values are unreachable once their time is over
  kDiesBefore,   // marked values are unreachable once another value is
  kRegion,       // a run leaves little of what is allocated meanwhile
};
inline constexpr int kAssertionKinds = 3;

struct HeapAssertion {
  AssertionKind kind = AssertionKind::kUnreachable;
  std::string name;             // valid UTF-8
  std::uint64_t not_due = 0;    // marked values whose time is not over
  std::uint64_t unchecked = 0;  // marked values that are no blocks of the heap, or one too many
  bool is_whole = true;         // false: some marks could not be read
  // Only for kRegion: bytes that may be left; ages of the start and the end of the run.
  std::uint64_t max_bytes = 0;
  std::uint64_t begin_age_ns = 0;
  std::uint64_t end_age_ns = 0;

  friend bool operator==(const HeapAssertion&, const HeapAssertion&) = default;
};

// A marked value. Those of kUnreachable whose time is not over are only counted (not_due).
struct AssertionMark {
  enum class Until : std::uint8_t {
    kNow,          // it may not be reachable
    kOther,        // likewise if the other value is unreachable
    kOtherIsGone,  // likewise: the collector has freed the other value
    kForever,      // the other value is a constant of the program
  };
  std::uint32_t assertion = 0;  // of HeapImage::assertions
  std::uint32_t block = 0;      // always a block of the image
  Until until = Until::kNow;
  std::uint32_t other = 0;  // of kOther: a block of the image
};

// Limits of one snapshot; values beyond are unchecked.
inline constexpr std::size_t kMaxAssertions = 512;
inline constexpr std::size_t kMaxAssertionMarks = 1'000'000;

}  // namespace memprofd
