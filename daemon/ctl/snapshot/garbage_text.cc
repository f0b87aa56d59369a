// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <optional>
#include <string>

#include "daemon/ctl/snapshot/snapshot_text.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

std::string age_text(std::optional<std::uint64_t> ns) {
  return ns ? format_duration(static_cast<double>(*ns) / 1e9) : "-";
}
std::string wait_text(std::optional<std::uint64_t> ns) { return ns ? "≤ " + age_text(ns) : "-"; }

std::string waits_text(const ImageInfo& info) {
  const std::string text = "waits for a major collection to find it";
  if (info.longest_wait_ns != 0) return text + ", " + age_text(info.longest_wait_ns) + " at most";
  return text + "; the time is known after two have ended since the attach";
}

std::string totals_text(const ImageInfo& info, const Garbage& garbage, const SnapshotView& view) {
  TextTable table({{"BYTES", Align::kRight}, {"BLOCKS", Align::kRight}, {"WHAT"}});
  const auto add = [&](const BlockCount& count, const std::string& what) {
    table.add_row({words_text(count.words), format_count(count.blocks), what});
  };
  const BlockCount old{garbage.all.blocks - garbage.young.blocks,
                       garbage.all.words - garbage.young.words};
  add(old, waits_text(info));
  add(garbage.young, "in minor heaps: waits for a minor collection");
  add(garbage.dead, "dead: found by the collector, not swept yet");
  return with_title("Floating garbage: unreachable, not collected yet", table, view.style);
}

}  // namespace

std::string garbage_text(const ImageInfo& info, const Garbage& garbage, const SnapshotView& view) {
  std::string out = snapshot_head_text(info) + totals_text(info, garbage, view);
  if (garbage.sites.empty()) return out + "\nNo sampled block is garbage.\n";
  TextTable table({{"GARBAGE", Align::kRight},
                   {"YOUNG", Align::kRight},
                   {"SAMPLED BLOCKS", Align::kRight},
                   {"AGE P50", Align::kRight},
                   {"AGE P90", Align::kRight},
                   {"WAITS", Align::kRight},
                   {"SITE"}});
  for (std::size_t i = 0; i < shown(garbage.sites.size(), view); ++i) {
    const GarbageRow& row = garbage.sites[i];
    table.add_row({sum_text(row.sum), sum_text(row.young), format_count(row.sum.blocks),
                   age_text(row.ages.quantile(0.5)), age_text(row.ages.quantile(0.9)),
                   wait_text(row.longest_wait_ns), printable(row.name)});
  }
  return out +
         with_title("Sites, estimated from sampled blocks; ages since they were allocated", table,
                    view.style) +
         more_text(garbage.sites.size(), view);
}

}  // namespace memprofd::ctl
