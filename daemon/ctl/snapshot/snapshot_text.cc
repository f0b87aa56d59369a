// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/snapshot_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/ctl/render/text.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

template <typename Row>
using Rows = google::protobuf::RepeatedPtrField<Row>;

// Accepts any message with the fields of SampledBytes; returns "-" without a block.
template <typename Sum>
std::string sum_text(const Sum& sum) {
  if (sum.sampled_blocks() == 0) return "-";
  return format_estimate(sum.bytes(), sum.bytes_stderr());
}

std::string signed_size(std::int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + size_text(static_cast<std::uint64_t>(std::abs(bytes)));
}

std::string totals_table(const pb::HeapCensus& census, const HeapDumpView& view) {
  const pb::HeapClass& heap = census.heap();
  const std::uint64_t all = heap.reachable().bytes() + heap.garbage().bytes() +
                            heap.dead().bytes() + census.free().bytes();
  TextTable table(
      {{"BYTES", Align::kRight}, {"SHARE", Align::kRight}, {"BLOCKS", Align::kRight}, {"WHAT"}});
  const auto add = [&](const auto& count, const std::string& what) {
    table.add_row({size_text(count.bytes()), share_of(count.bytes(), all),
                   format_count(count.blocks()), what});
  };
  add(heap.reachable(), "reachable");
  add(heap.garbage(), census.snapshot().complete()
                          ? "floating garbage: unreachable, not collected yet"
                          : "garbage, or held by the missing part");
  add(heap.dead(), "dead: found by the collector, not swept yet");
  add(census.free(), census.free().bytes() == 0
                         ? "free"
                         : fmt::format("free, {} of it not in the largest block",
                                       format_share(census.free().fragmentation(), 1)));
  if (heap.young().blocks() != 0) add(heap.young(), "in minor heaps, counted above too");
  return with_title("Heap", table, view.style);
}

// For dead blocks only tag and size are known.
std::string census_table(const std::string& title, const Rows<pb::HeapClass>& rows,
                         std::uint64_t reachable, bool with_dead, const HeapDumpView& view) {
  std::vector<Column> columns{{"REACHABLE", Align::kRight},
                              {"SHARE", Align::kRight},
                              {"BLOCKS", Align::kRight},
                              {"GARBAGE", Align::kRight}};
  if (with_dead) columns.push_back({"DEAD", Align::kRight});
  columns.push_back({"WHAT"});
  TextTable table(std::move(columns));
  for (int i = 0; i < shown(rows.size(), view); ++i) {
    const pb::HeapClass& row = rows[i];
    std::vector<std::string> cells{
        size_text(row.reachable().bytes()), share_of(row.reachable().bytes(), reachable),
        format_count(row.reachable().blocks()), size_text(row.garbage().bytes())};
    if (with_dead) cells.push_back(size_text(row.dead().bytes()));
    cells.push_back(printable(row.name()));
    table.add_row(std::move(cells));
  }
  return with_title(title, table, view.style) + more_text(rows.size(), view);
}

// Memory outside of the heap, such as that of Bigarrays.
std::string outside_lines(const pb::HeapCensus& census) {
  const std::uint64_t reachable = census.heap().outside_bytes();
  const std::uint64_t garbage = census.heap().garbage_outside_bytes();
  if (reachable + garbage == 0) return "";
  std::string text = fmt::format(
      "Outside of the heap, in no number above: {} of reachable blocks, {} of garbage.\n",
      size_text(reachable), size_text(garbage));
  for (const pb::HeapClass& row : census.shapes()) {
    if (row.outside_bytes() + row.garbage_outside_bytes() == 0) continue;
    text += fmt::format("  {}: {} and {}\n", printable(row.name()), size_text(row.outside_bytes()),
                        size_text(row.garbage_outside_bytes()));
  }
  return text;
}

// The share of memory that has a type, and the number of contradictions.
std::string site_types_text(const pb::HeapTypes& types) {
  const std::uint64_t refused = types.sites_unfit() + types.sites_disagreed();
  if (types.by_site() + refused == 0) return "";
  std::string text = fmt::format(
      "  {} sampled block{} that no module reaches: the type is that of the allocating "
      "expression.\n",
      format_count(types.by_site()), types.by_site() == 1 ? "" : "s");
  if (refused == 0) return text;
  return text + fmt::format(
                    "  {} do not fit the expression there or fit several, {} have another type "
                    "through a module.\n",
                    format_count(types.sites_unfit()), format_count(types.sites_disagreed()));
}

// Files of another build, whether certain or possible.
std::string build_text(const pb::HeapTypes& types) {
  std::string text;
  if (!types.other_builds().empty()) {
    text = fmt::format("  Ignored, files of another build: {}.\n",
                       names_text({types.other_builds().begin(), types.other_builds().end()}));
  }
  if (types.unverified()) text += "  It is unknown whether the files are of the program's build.\n";
  return text;
}

std::string types_text(const pb::HeapTypes& types) {
  if (types.modules() == 0 && types.by_site() == 0) return build_text(types);
  std::string text =
      fmt::format("Source types: {} of the reachable memory, from files of {} module{}",
                  share_of(types.typed().bytes(), types.reachable().bytes()),
                  format_count(types.modules()), types.modules() == 1 ? "" : "s");
  if (types.modules_without_files() != 0) {
    text += fmt::format("; {} have none", format_count(types.modules_without_files()));
  }
  text += ".\n" + build_text(types) + site_types_text(types);
  if (types.disagreed() == 0) return text;
  return text + fmt::format(
                    "  {} blocks did not match their type, or had two: the files may be of another "
                    "build.\n",
                    format_count(types.disagreed()));
}

std::string free_table(const pb::HeapFree& free, const HeapDumpView& view) {
  if (free.blocks() == 0) return "";
  TextTable table({{"FREE", Align::kRight},
                   {"BLOCKS", Align::kRight},
                   {"SHARE", Align::kRight},
                   {"CUMULATIVE", Align::kRight},
                   {"WORDS"}});
  std::uint64_t bytes = 0;
  for (const pb::HeapFreeSize& row : free.sizes()) {
    bytes += row.bytes();
    table.add_row({size_text(row.bytes()), format_count(row.blocks()),
                   share_of(row.bytes(), free.bytes()), share_of(bytes, free.bytes()),
                   "up to " + format_count(row.most_words())});
  }
  return with_title("Free blocks by size", table, view.style);
}

std::string sites_table(const Rows<pb::HeapSite>& sites, const HeapDumpView& view) {
  if (sites.empty()) return "";
  TextTable table({{"REACHABLE", Align::kRight},
                   {"GARBAGE", Align::kRight},
                   {"DEAD", Align::kRight},
                   {"SAMPLED BLOCKS", Align::kRight},
                   {"SITE"}});
  for (int i = 0; i < shown(sites.size(), view); ++i) {
    const pb::HeapSite& site = sites[i];
    const std::uint64_t blocks = std::uint64_t{site.reachable().sampled_blocks()} +
                                 site.garbage().sampled_blocks() + site.dead().sampled_blocks();
    table.add_row({sum_text(site.reachable()), sum_text(site.garbage()), sum_text(site.dead()),
                   format_count(blocks), printable(site.name())});
  }
  return with_title("Sites, estimated from sampled blocks", table, view.style) +
         more_text(sites.size(), view);
}

std::string diff_table(const std::string& title, const Rows<pb::HeapDiffRow>& rows,
                       const HeapDumpView& view) {
  if (rows.empty()) return "\n" + title + ": no difference\n";
  TextTable table({{"CHANGE", Align::kRight},
                   {"BASE", Align::kRight},
                   {"OTHER", Align::kRight},
                   {"BLOCKS", Align::kRight},
                   {"WHAT"}});
  for (int i = 0; i < shown(rows.size(), view); ++i) {
    const pb::HeapDiffRow& row = rows[i];
    const std::uint64_t b = row.base().blocks(), a = row.other().blocks();
    table.add_row({signed_size(row.change_bytes()), size_text(row.base().bytes()),
                   size_text(row.other().bytes()),
                   (a < b ? "-" : "+") + format_count(a < b ? b - a : a - b),
                   printable(row.name())});
  }
  return with_title(title, table, view.style) + more_text(rows.size(), view);
}

// The part that stayed is known only for the same process.
std::string site_diff_table(const pb::HeapDiff& diff, const HeapDumpView& view) {
  if (diff.sites().empty()) return "";
  std::vector<Column> columns{
      {"CHANGE", Align::kRight}, {"BASE", Align::kRight}, {"OTHER", Align::kRight}};
  if (diff.same_process()) columns.push_back({"STAYED", Align::kRight});
  columns.push_back({"SITE"});
  TextTable table(std::move(columns));
  for (int i = 0; i < shown(diff.sites_size(), view); ++i) {
    const pb::HeapSiteDiffRow& row = diff.sites(i);
    const double bytes = row.change_bytes();
    std::vector<std::string> cells{
        (bytes < 0 ? "-" : "+") + format_estimate(std::abs(bytes), row.change_bytes_stderr()),
        sum_text(row.base()), sum_text(row.other())};
    if (diff.same_process()) cells.push_back(sum_text(row.stayed()));
    cells.push_back(printable(row.name()));
    table.add_row(std::move(cells));
  }
  return with_title("Sites, reachable, estimated from sampled blocks", table, view.style) +
         more_text(diff.sites_size(), view);
}

// "Cache.add cache.ml:41", "3 sites, Cache.add cache.ml:41 and others".
std::string sites_title(const Rows<std::string>& sites) {
  if (sites.empty()) return "no sampled block";
  const std::string first = printable(sites[0]);
  if (sites.size() == 1) return first;
  return fmt::format("{} sites, {} and others", sites.size(), first);
}

std::string states_table(const pb::HeapWhy& why, const HeapDumpView& view) {
  TextTable table({{"BYTES", Align::kRight}, {"SAMPLED BLOCKS", Align::kRight}, {"WHAT"}});
  const auto add = [&](const pb::SampledBytes& sum, const char* what) {
    table.add_row({sum_text(sum), format_count(sum.sampled_blocks()), what});
  };
  add(why.reachable(), "reachable");
  add(why.garbage(), "floating garbage: unreachable, not collected yet");
  if (why.dead().sampled_blocks() != 0) add(why.dead(), "dead: found by the collector");
  return with_title(sites_title(why.sites()), table, view.style);
}

struct PathSum {
  std::uint64_t blocks = 0;
  double bytes = 0;
  double bytes_stderr = 0;
};
PathSum sum_of(const pb::HeapPath& path) {
  return {path.sampled_blocks(), path.bytes(), path.bytes_stderr()};
}
PathSum sum_of(const pb::OutsidePath& path) {
  return {path.blocks(), static_cast<double>(path.outside_bytes()), 0};
}

template <typename Path>
void add_paths(const Rows<Path>& paths, std::size_t depth, const PathSum& all, TextTable& table) {
  const std::string indent(2 * depth, ' ');
  for (const Path& path : paths) {
    if (path.more() != 0) {
      table.add_row({"", "", "", fmt::format("{}… {} more", indent, format_count(path.more()))});
      continue;
    }
    const PathSum sum = sum_of(path);
    table.add_row({format_share_estimate(sum.bytes, sum.bytes_stderr, all.bytes, all.bytes_stderr),
                   sum.blocks == 0 ? "-" : format_estimate(sum.bytes, sum.bytes_stderr),
                   format_count(sum.blocks), indent + printable(path.path())});
    add_paths(path.children(), depth + 1, all, table);
  }
}

// Lines are not truncated at a terminal's width, because their ends show what holds a block.
// blocks: the kind of the tree's blocks. all: the total of all paths.
template <typename Path>
std::string paths_table(const Rows<Path>& paths, const PathSum& all, const char* blocks) {
  TextTable table({{"SHARE", Align::kRight},
                   {"BYTES", Align::kRight},
                   {blocks, Align::kRight},
                   {"PATH FROM A GC ROOT"}});
  add_paths(paths, 0, all, table);
  return with_title("Shortest paths to the reachable blocks", table, {});
}

// Minimum share of the heap for a pattern to be shown.
constexpr double kMinWaste = 0.001;

bool is_small(std::uint64_t part, std::uint64_t whole, double least, const HeapDumpView& view) {
  return view.limit != 0 && static_cast<double>(part) < static_cast<double>(whole) * least;
}

// The places keep their order, the largest first.
void add_waste(const pb::WastePattern& pattern, const HeapDumpView& view, TextTable& table) {
  table.add_row({size_text(pattern.bytes_to_win()), size_text(pattern.bytes()),
                 format_count(pattern.blocks()),
                 fmt::format("{}; instead: {}", pattern.pattern(), pattern.instead())});
  int n = 0;
  for (; n < shown(pattern.places_size(), view); ++n) {
    const pb::WastePlace& place = pattern.places(n);
    if (is_small(place.bytes_to_win(), pattern.bytes_to_win(), view.min_share, view)) break;
    table.add_row({size_text(place.bytes_to_win()), "", "", "  " + printable(place.root())});
  }
  if (const int more = pattern.places_size() - n; more != 0) {
    table.add_row({"", "", "", fmt::format("  … {} more", format_count(more))});
  }
}

void add_holders(const Rows<pb::HeapHolder>& holders, std::size_t depth, const pb::HeapSize& all,
                 TextTable& table) {
  const std::string indent(2 * depth, ' ');
  for (const pb::HeapHolder& holder : holders) {
    const bool is_more = holder.more() != 0;
    std::vector<std::string> cells{size_text(holder.bytes())};
    if (all.outside_bytes() != 0) cells.push_back(size_text(holder.outside_bytes()));
    cells.push_back(
        share_of(holder.bytes() + holder.outside_bytes(), all.bytes() + all.outside_bytes()));
    cells.push_back(is_more ? "" : format_count(holder.blocks()));
    cells.push_back(indent + (is_more ? fmt::format("… {} more", format_count(holder.more()))
                                      : printable(holder.name())));
    table.add_row(std::move(cells));
    add_holders(holder.children(), depth + 1, all, table);
  }
}

std::string seconds_text(bool is_known, double seconds) {
  return is_known ? format_duration(seconds) : "-";
}

std::string waits_text(const pb::HeapGarbage& garbage) {
  const std::string text = "waits for a major collection to find it";
  if (garbage.has_longest_wait_seconds()) {
    return text + ", " + format_duration(garbage.longest_wait_seconds()) + " at most";
  }
  return text + "; the time is known after two have ended since the attach";
}

std::string garbage_table(const pb::HeapGarbage& garbage, const HeapDumpView& view) {
  TextTable table({{"BYTES", Align::kRight}, {"BLOCKS", Align::kRight}, {"WHAT"}});
  const auto add = [&](std::uint64_t bytes, std::uint64_t blocks, const std::string& what) {
    table.add_row({size_text(bytes), format_count(blocks), what});
  };
  const pb::HeapCount &all = garbage.garbage(), &young = garbage.young(), &dead = garbage.dead();
  add(all.bytes() - young.bytes(), all.blocks() - young.blocks(), waits_text(garbage));
  add(young.bytes(), young.blocks(), "in minor heaps: waits for a minor collection");
  add(dead.bytes(), dead.blocks(), "dead: found by the collector, not swept yet");
  return with_title("Floating garbage: unreachable, not collected yet", table, view.style);
}

}  // namespace

std::string snapshot_head_text(const pb::KeptHeap& snapshot) {
  std::string out =
      fmt::format("{}, pid {}, OCaml {}, {}, stopped for {}", printable(snapshot.program()),
                  snapshot.pid(), printable(snapshot.ocaml_version()), utc_text(snapshot.unix_ns()),
                  format_duration(snapshot.pause_seconds()));
  if (snapshot.sampling_rate() > 0) out += ", sampled at " + format_rate(snapshot.sampling_rate());
  if (!snapshot.complete())
    out += "\nThe file is truncated or damaged: the following covers a part of the heap.";
  return out + "\n";
}

std::string census_text(const pb::HeapCensus& census, const HeapDumpView& view) {
  const std::uint64_t reachable = census.heap().reachable().bytes();
  HeapDumpView all = view;
  all.limit = 0;  // at most one row per power of two
  return snapshot_head_text(census.snapshot()) + totals_table(census, view) +
         census_table("Kinds of blocks", census.kinds(), reachable, true, view) +
         census_table(census.types().modules() == 0
                          ? "Shapes: block(fields, tag)"
                          : "Types, and shapes of the rest: block(fields, tag)",
                      census.shapes(), reachable, false, view) +
         types_text(census.types()) + outside_lines(census) +
         census_table("Sizes, headers included", census.sizes(), reachable, true, all) +
         free_table(census.free(), view) + sites_table(census.sites(), view);
}

std::string retained_text(const pb::HeapRetained& retained, const HeapDumpView& view) {
  const pb::HeapSize& all = retained.reachable();
  const bool has_outside = all.outside_bytes() != 0;
  std::vector<Column> columns{{"RETAINED", Align::kRight}};
  if (has_outside) columns.push_back({"OUTSIDE", Align::kRight});
  columns.insert(columns.end(), {{"SHARE", Align::kRight}, {"BLOCKS", Align::kRight}, {"WHAT"}});
  TextTable table(std::move(columns));
  add_holders(retained.roots(), 0, all, table);
  std::string title = "What roots keep alive, of " + size_text(all.bytes()) + " that is reachable";
  if (has_outside) {
    title += fmt::format(", and {} outside of the heap", size_text(all.outside_bytes()));
  }
  return snapshot_head_text(retained.snapshot()) + with_title(title, table, view.style);
}

std::string why_text(const pb::HeapWhy& why, const HeapDumpView& view) {
  std::string out = snapshot_head_text(why.snapshot()) + states_table(why, view);
  const pb::SampledBytes& all = why.reachable();
  if (all.sampled_blocks() == 0) return out;
  return out + paths_table(why.paths(), {all.sampled_blocks(), all.bytes(), all.bytes_stderr()},
                           "SAMPLED BLOCKS");
}

std::string outside_text(const pb::HeapOutside& outside, const HeapDumpView& view) {
  TextTable table({{"REACHABLE", Align::kRight},
                   {"RESIDENT", Align::kRight},
                   {"BLOCKS", Align::kRight},
                   {"GARBAGE", Align::kRight},
                   {"HELD BY"}});
  for (int i = 0; i < shown(outside.classes_size(), view); ++i) {
    const pb::OutsideClass& row = outside.classes(i);
    table.add_row({size_text(row.reachable().outside_bytes()),
                   size_text(row.reachable().resident_bytes()),
                   format_count(row.reachable().blocks()), size_text(row.garbage().outside_bytes()),
                   printable(row.name())});
  }
  PathSum all;
  for (const pb::OutsideClass& row : outside.classes()) {
    all.blocks += row.reachable().blocks();
    all.bytes += static_cast<double>(row.reachable().outside_bytes());
  }
  std::string out = snapshot_head_text(outside.snapshot()) +
                    with_title("Memory outside of the heap", table, view.style) +
                    more_text(outside.classes_size(), view);
  if (all.blocks != 0) out += paths_table(outside.paths(), all, "BLOCKS");
  return out;
}

std::string diff_text(const pb::HeapDiff& diff, const HeapDumpView& view) {
  std::string out = "base   " + snapshot_head_text(diff.base());
  out += "other  " + snapshot_head_text(diff.other());
  HeapDumpView all = view;
  all.limit = 0;
  if (!diff.same_process()) out += "They are of different processes: no block can be recognized.\n";
  return out + diff_table("Heap", diff.heap(), all) +
         diff_table("Roots and what they retain", diff.roots(), view) +
         diff_table("Shapes, reachable: block(fields, tag)", diff.shapes(), view) +
         site_diff_table(diff, view);
}

std::string garbage_text(const pb::HeapGarbage& garbage, const HeapDumpView& view) {
  std::string out = snapshot_head_text(garbage.snapshot()) + garbage_table(garbage, view);
  if (garbage.sites().empty()) return out + "\nNo sampled block is garbage.\n";
  TextTable table({{"GARBAGE", Align::kRight},
                   {"YOUNG", Align::kRight},
                   {"SAMPLED BLOCKS", Align::kRight},
                   {"AGE P50", Align::kRight},
                   {"AGE P90", Align::kRight},
                   {"WAITS", Align::kRight},
                   {"SITE"}});
  for (int i = 0; i < shown(garbage.sites_size(), view); ++i) {
    const pb::GarbageSite& site = garbage.sites(i);
    const pb::SampledAges& ages = site.ages();
    const std::string waits =
        seconds_text(site.has_longest_wait_seconds(), site.longest_wait_seconds());
    table.add_row({sum_text(site), sum_text(site.young()), format_count(site.sampled_blocks()),
                   seconds_text(ages.has_p50_seconds(), ages.p50_seconds()),
                   seconds_text(ages.has_p90_seconds(), ages.p90_seconds()),
                   site.has_longest_wait_seconds() ? "≤ " + waits : waits, printable(site.name())});
  }
  return out +
         with_title("Sites, estimated from sampled blocks; ages since they were allocated", table,
                    view.style) +
         more_text(garbage.sites_size(), view);
}

std::string waste_text(const pb::HeapWaste& waste, const HeapDumpView& view) {
  std::string out = snapshot_head_text(waste.snapshot());
  if (waste.patterns().empty()) return out + "\nNo waste found.\n";
  TextTable table(
      {{"TO WIN", Align::kRight}, {"TAKEN", Align::kRight}, {"COUNT", Align::kRight}, {"WHAT"}});
  std::uint64_t small = 0, small_bytes = 0;
  for (const pb::WastePattern& pattern : waste.patterns()) {
    if (is_small(pattern.bytes_to_win(), waste.snapshot().heap_bytes(), kMinWaste, view)) {
      ++small;
      small_bytes += pattern.bytes_to_win();
      continue;
    }
    add_waste(pattern, view, table);
  }
  if (small != 0) {
    table.add_row({size_text(small_bytes), "", "",
                   fmt::format("… {} more, of less than 0.1 % of the heap each", small)});
  }
  return out + with_title("Waste, by the nearest roots", table, view.style);
}

}  // namespace memprofd::ctl
