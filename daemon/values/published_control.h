// SPDX-License-Identifier: Apache-2.0
// Switches that viewers may change in published values: words of the registry that the program only
// reads (memprof_values_abi.h), so they apply to all viewers, until the program ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

struct PublishedControl {
  // Selects values with the pattern (RE2; empty: all) in the name, labels included, and with all
  // these labels.
  std::string pattern;
  std::vector<std::pair<std::string, std::string>> labels;
  // Unset fields stay unchanged.
  std::optional<bool> enabled;
  std::optional<std::uint32_t> period_ms;  // for functions; 0: the program's own period
};

// One day.
inline constexpr std::uint32_t kMaxPeriodMs = 86'400'000;

// Returns the number of selected values, including those that had these settings already. address:
// of struct memprof_values. kInvalidArgument: a bad pattern or period, or nothing to change;
// kNotFound: no value is selected; otherwise the errors of read_publication().
absl::StatusOr<std::uint32_t> control_report(const WritableMemory& memory, std::uint64_t address,
                                             const PublishedControl& control);

}  // namespace memprofd
