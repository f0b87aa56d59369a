// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/snapshot_view.h"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/util/units.h"

namespace memprofd::ctl {

std::string words_text(std::uint64_t words) {
  return format_bytes(static_cast<double>(words) * kBytesPerWord);
}
std::string share_of(std::uint64_t part, std::uint64_t whole) {
  return format_share(static_cast<double>(part), static_cast<double>(whole));
}
std::string sum_text(const SampledSum& sum) {
  if (sum.blocks == 0) return "-";
  return format_estimate(sum.estimate.bytes(), sum.estimate.stderr_bytes());
}

std::string with_title(const std::string& title, const TextTable& table, const Style& style) {
  std::string out = "\n" + title + "\n";
  for (const std::string& line : table.lines(style.width)) out += line + "\n";
  return out;
}

std::size_t shown(std::size_t rows, const SnapshotView& view) {
  return view.limit == 0 ? rows : std::min(rows, view.limit);
}
std::string more_text(std::size_t rows, const SnapshotView& view) {
  const std::size_t more = rows - shown(rows, view);
  return more == 0 ? "" : fmt::format("… {} more (-n 0 shows all)\n", format_count(more));
}

}  // namespace memprofd::ctl
