// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/published_control.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"
#include "daemon/values/publication.h"

namespace memprofd {
namespace {

absl::Status check(const PublishedControl& control) {
  if (!control.enabled && !control.period_ms) {
    return absl::InvalidArgumentError("nothing to change: give enabled or period_ms");
  }
  if (control.period_ms.value_or(0) > kMaxPeriodMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad period ", *control.period_ms, " ms: it is at most ", kMaxPeriodMs));
  }
  return absl::OkStatus();
}

bool has_all(const PublishedValue& one, const PublishedControl& control) {
  return std::all_of(control.labels.begin(), control.labels.end(), [&](const auto& label) {
    return std::find(one.labels.begin(), one.labels.end(), label) != one.labels.end();
  });
}

std::uint32_t changed(std::uint32_t word, const PublishedControl& control) {
  std::uint32_t off = word & MEMPROF_CONTROL_OFF;
  std::uint32_t period_ms = word & MEMPROF_CONTROL_PERIOD_MS;
  if (control.enabled) off = *control.enabled ? 0 : MEMPROF_CONTROL_OFF;
  if (control.period_ms) period_ms = *control.period_ms;
  return off | period_ms;
}

}  // namespace

absl::StatusOr<std::uint32_t> control_report(const WritableMemory& memory, std::uint64_t address,
                                             const PublishedControl& control) {
  RETURN_IF_ERROR(check(control));
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("name", {control.pattern}));
  ASSIGN_OR_RETURN(const Publication report, read_publication(memory, address, tick_now()));
  std::uint32_t count = 0;
  for (const PublishedValue& one : report.all) {
    if (!has_all(one, control)) continue;
    if (!patterns.empty() && !patterns.any_in(one.full_name())) continue;
    ++count;
    const std::uint32_t word = changed(one.control, control);
    if (word == one.control) continue;
    RETURN_IF_ERROR(memory.write_value(address + offsetof(memprof_values, slots) +
                                           one.slot * sizeof(memprof_slot) +
                                           offsetof(memprof_slot, control),
                                       word));
  }
  if (count == 0) return absl::NotFoundError("no published value has that name and these labels");
  return count;
}

}  // namespace memprofd
