// SPDX-License-Identifier: Apache-2.0
// Decides which assertions of a program hold in a snapshot. The graph of the heap decides: an
// unreachable value that the collector has not freed yet violates nothing.
//
//   kUnreachable   a due value is reachable                           a violation
//   kDiesBefore    a value is reachable, and its other one is not     a violation
//   kRegion        sampled blocks that were allocated in its last run and are reachable stand for
//                  certainly more than it may leave                   a violation
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

enum class AssertionVerdict { kHolds, kViolated, kNotChecked };

struct AssertionOutcome {
  // A path that keeps some of the values alive.
  struct Holder {
    std::string path;  // "global Cache, field 2 (all) → list [*]"
    std::uint64_t values = 0;
  };

  HeapAssertion assertion;
  AssertionVerdict verdict = AssertionVerdict::kHolds;
  std::uint64_t violating = 0;  // marked values; of kRegion sampled blocks that are left
  double bytes = 0;             // of kRegion: left behind
  double bytes_stderr = 0;
  double at_least = 0;          // lower limit of bytes
  std::vector<Holder> holders;  // of the violating values; the largest first, at most kMaxHolders
  std::string why_not_checked;  // one line

  static constexpr std::size_t kMaxHolders = 3;
};

// Returns the outcomes in the order of the image. quantile: of the normal distribution, for the
// lower limit of what a region leaves behind. Types of the source make paths readable
// (assign_types.h).
std::vector<AssertionOutcome> check_assertions(const HeapImage& image, const ShortestPaths& paths,
                                               double quantile);

// "session is unreachable", "buffer dies first", "load leaves <= 1.00 MiB".
std::string assertion_text(const HeapAssertion& assertion);
// "3 values are reachable; 3 by global Session, field 4 → block(2)"
std::string outcome_text(const AssertionOutcome& outcome);

}  // namespace memprofd
