// SPDX-License-Identifier: Apache-2.0
// What viewers may change of what a program says about itself: words of its registry that it only
// reads (memprof_values_abi.h), so for all viewers, and until it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

struct ReportControl {
  // What is meant has the pattern (RE2; empty: all) in its name, labels behind it, and all these
  // labels.
  std::string pattern;
  std::vector<std::pair<std::string, std::string>> labels;
  // What is not set stays as it is.
  std::optional<bool> enabled;
  std::optional<std::uint32_t> period_ms;  // of functions; 0: the program's own
};

// A day.
inline constexpr std::uint32_t kMaxPeriodMs = 86'400'000;

// address: of struct memprof_values. How many there are, changed now or so already.
// kInvalidArgument: a bad pattern or period, or nothing to change; kNotFound: there is none; else
// errors of read_report().
absl::StatusOr<std::uint32_t> control_report(const WritableMemory& memory, std::uint64_t address,
                                             const ReportControl& control);

}  // namespace memprofd
