// SPDX-License-Identifier: Apache-2.0
// Tables of sampled blocks and their callstacks.
#include "absl/strings/str_cat.h"
#include "daemon/snapshot/answers/garbage.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/sql/cells.h"
#include "daemon/snapshot/sql/heap_tables.h"

namespace memprofd {
namespace {

const char* state_text(SampledState state) {
  switch (state) {
    case SampledState::kReachable:
      return "reachable";
    case SampledState::kGarbage:
      return "garbage";
    case SampledState::kDead:
      break;
  }
  return "dead";
}

SqlCell seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

void HeapTables::add_samples() {
  tables_.push_back(
      {.name = "samples",
       .columns = "block INTEGER, site INTEGER, samples INTEGER, state TEXT, bytes REAL, "
                  "bytes_stderr REAL, sample_id INTEGER, age_seconds REAL, "
                  "longest_wait_seconds REAL",
       .rows = [this] { return sampled_.size(); },
       .cell = [this](std::uint64_t row, int column) { return sample_cell(sampled_[row], column); },
       .with_key = [this](std::int64_t key) { return rows_of_block(sampled_, key); }});
}

SqlCell HeapTables::sample_cell(const SampledBlock& sampled, int column) {
  switch (column) {
    case 0:
      return sampled.block == HeapImage::kNoBlock ? SqlCell{} : number(sampled.block);
    case 1:
      return number(sampled.site);
    case 2:
      return number(sampled.samples);
    case 3:
      return std::string_view(state_text(state_of(paths(), sampled)));
    case 4:
      return sum_of(image_, sampled).estimate.bytes();
    case 5:
      return sum_of(image_, sampled).estimate.stderr_bytes();
    case 6:
      return number(sampled.sample_id);
    case 7:
      return sampled.age_ns == SampledBlock::kNoAge ? SqlCell{} : seconds(sampled.age_ns);
    default: {
      if (state_of(paths(), sampled) != SampledState::kGarbage) return {};
      const auto wait = longest_wait_ns(image_, sampled);
      return wait ? seconds(*wait) : SqlCell{};
    }
  }
}

std::string HeapTables::callstack_text(std::uint32_t site) const {
  std::string text;
  for (const std::uint32_t frame : image_.sites[site]) {
    absl::StrAppend(&text, text.empty() ? "" : " < ", place_text(image_.locations[frame]));
  }
  return text;
}

void HeapTables::add_sites() {
  const auto cell = [this](std::uint64_t row, int column) -> SqlCell {
    const auto site = static_cast<std::uint32_t>(row);
    if (column == 0) return number(site);
    if (column == 4) return callstack_text(site);
    if (image_.sites[site].empty()) return {};
    const Location& place = image_.locations[image_.sites[site][0]];
    if (column == 1) return text_or_null(place.function);
    return column == 2 ? text_or_null(place.file) : line_or_null(place.line);
  };
  tables_.push_back(
      {.name = "sites",
       .columns = "site INTEGER, function TEXT, file TEXT, line INTEGER, callstack TEXT",
       .rows = [this] { return image_.sites.size(); },
       .cell = cell,
       .with_key = [this](std::int64_t key) -> SqlRows {
         if (key < 0 || static_cast<std::uint64_t>(key) >= image_.sites.size()) return {};
         return {static_cast<std::uint64_t>(key), static_cast<std::uint64_t>(key) + 1};
       }});
}

}  // namespace memprofd
