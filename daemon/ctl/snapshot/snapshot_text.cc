// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/snapshot_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/ctl/render/text.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

std::string signed_words(std::int64_t words) {
  return (words < 0 ? "-" : "+") + words_text(static_cast<std::uint64_t>(std::abs(words)));
}

std::string totals_table(const ImageInfo& info, const ImageCensus& census,
                         const SnapshotView& view) {
  const CensusRow& total = census.total;
  const std::uint64_t all = total.all().words + census.free.words;
  TextTable table(
      {{"BYTES", Align::kRight}, {"SHARE", Align::kRight}, {"BLOCKS", Align::kRight}, {"WHAT"}});
  const auto add = [&](const BlockCount& count, const std::string& what) {
    table.add_row(
        {words_text(count.words), share_of(count.words, all), format_count(count.blocks), what});
  };
  add(total.reachable, "reachable");
  add(total.garbage, info.complete ? "floating garbage: unreachable, not collected yet"
                                   : "garbage, or held by the missing part");
  add(total.dead, "dead: found by the collector, not swept yet");
  add(census.free, census.free.words == 0 ? "free"
                                          : fmt::format("free, {} of it not in the largest block",
                                                        format_share(census.fragmentation(), 1)));
  if (census.young.blocks != 0) add(census.young, "in minor heaps, counted above too");
  return with_title("Heap", table, view.style);
}

// Dead blocks are known by tag and size only.
std::string census_table(const std::string& title, const std::vector<CensusRow>& rows,
                         std::uint64_t reachable_words, bool with_dead, const SnapshotView& view) {
  std::vector<Column> columns{{"REACHABLE", Align::kRight},
                              {"SHARE", Align::kRight},
                              {"BLOCKS", Align::kRight},
                              {"GARBAGE", Align::kRight}};
  if (with_dead) columns.push_back({"DEAD", Align::kRight});
  columns.push_back({"WHAT"});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < shown(rows.size(), view); ++i) {
    const CensusRow& row = rows[i];
    std::vector<std::string> cells{
        words_text(row.reachable.words), share_of(row.reachable.words, reachable_words),
        format_count(row.reachable.blocks), words_text(row.garbage.words)};
    if (with_dead) cells.push_back(words_text(row.dead.words));
    cells.push_back(printable(row.name));
    table.add_row(std::move(cells));
  }
  return with_title(title, table, view.style) + more_text(rows.size(), view);
}

// The use of a Bigarray is not in the heap.
std::string outside_text(const ImageCensus& census) {
  const double reachable = static_cast<double>(census.total.outside_reachable_bytes);
  const double garbage = static_cast<double>(census.total.outside_garbage_bytes);
  if (reachable + garbage == 0) return "";
  std::string text = fmt::format(
      "Outside of the heap, in no number above: {} of reachable blocks, {} of garbage.\n",
      format_bytes(reachable), format_bytes(garbage));
  for (const CensusRow& row : census.by_class) {
    if (row.outside_reachable_bytes + row.outside_garbage_bytes == 0) continue;
    text += fmt::format("  {}: {} and {}\n", printable(row.name),
                        format_bytes(static_cast<double>(row.outside_reachable_bytes)),
                        format_bytes(static_cast<double>(row.outside_garbage_bytes)));
  }
  return text;
}

// The share of memory that has a type, and the evidence against the files.
std::string site_types_text(const TypesFound& found) {
  const std::uint64_t refused = found.sites_unfit + found.sites_disagreed;
  if (found.by_site + refused == 0) return "";
  std::string text = fmt::format(
      "  {} sampled block{} that no module reaches: the type is that of the allocating "
      "expression.\n",
      format_count(found.by_site), found.by_site == 1 ? "" : "s");
  if (refused == 0) return text;
  return text + fmt::format(
                    "  {} do not fit the expression there or fit several, {} have another type "
                    "through a module.\n",
                    format_count(found.sites_unfit), format_count(found.sites_disagreed));
}

// Files of another build, certain or possible.
std::string build_text(const TypesFound& found) {
  std::string text;
  if (!found.other_builds.empty()) {
    text = fmt::format("  Ignored, files of another build: {}.\n", names_text(found.other_builds));
  }
  if (found.unverified) text += "  It is unknown whether the files are of the program's build.\n";
  return text;
}

std::string types_text(const TypedCount& types) {
  const TypesFound& found = types.found;
  if (found.modules == 0 && found.by_site == 0) return build_text(found);
  std::string text =
      fmt::format("Source types: {} of the reachable memory, from files of {} module{}",
                  share_of(types.typed.words, types.reachable.words), format_count(found.modules),
                  found.modules == 1 ? "" : "s");
  if (found.modules_without_files != 0) {
    text += fmt::format("; {} have none", format_count(found.modules_without_files));
  }
  text += ".\n" + build_text(found) + site_types_text(found);
  if (found.disagreed == 0) return text;
  return text + fmt::format(
                    "  {} blocks did not match their type, or had two: the files may be of another "
                    "build.\n",
                    format_count(found.disagreed));
}

std::string free_table(const ImageCensus& census, const SnapshotView& view) {
  if (census.free.blocks == 0) return "";
  TextTable table({{"FREE", Align::kRight},
                   {"BLOCKS", Align::kRight},
                   {"SHARE", Align::kRight},
                   {"CUMULATIVE", Align::kRight},
                   {"WORDS"}});
  std::uint64_t words = 0;
  for (const FreeRow& row : census.free_sizes) {
    words += row.count.words;
    table.add_row({words_text(row.count.words), format_count(row.count.blocks),
                   share_of(row.count.words, census.free.words), share_of(words, census.free.words),
                   "up to " + format_count(row.most_words)});
  }
  return with_title("Free blocks by size", table, view.style);
}

std::string sites_table(const std::vector<SiteRow>& sites, const SnapshotView& view) {
  if (sites.empty()) return "";
  TextTable table({{"REACHABLE", Align::kRight},
                   {"GARBAGE", Align::kRight},
                   {"DEAD", Align::kRight},
                   {"SAMPLED BLOCKS", Align::kRight},
                   {"SITE"}});
  for (std::size_t i = 0; i < shown(sites.size(), view); ++i) {
    const SiteSums& sums = sites[i].sums;
    table.add_row({sum_text(sums.reachable()), sum_text(sums.garbage()), sum_text(sums.dead()),
                   format_count(sums.all().blocks), printable(sites[i].name)});
  }
  return with_title("Sites, estimated from sampled blocks", table, view.style) +
         more_text(sites.size(), view);
}

std::string diff_table(const std::string& title, const std::vector<DiffRow>& rows,
                       const SnapshotView& view) {
  if (rows.empty()) return "\n" + title + ": no difference\n";
  TextTable table({{"CHANGE", Align::kRight},
                   {"BASE", Align::kRight},
                   {"OTHER", Align::kRight},
                   {"BLOCKS", Align::kRight},
                   {"WHAT"}});
  for (std::size_t i = 0; i < shown(rows.size(), view); ++i) {
    const DiffRow& row = rows[i];
    const std::uint64_t b = row.before.blocks, a = row.after.blocks;
    table.add_row({signed_words(row.growth_words()), words_text(row.before.words),
                   words_text(row.after.words),
                   (a < b ? "-" : "+") + format_count(a < b ? b - a : a - b), printable(row.name)});
  }
  return with_title(title, table, view.style) + more_text(rows.size(), view);
}

// The part that stayed is known for the same process only.
std::string site_diff_table(const ImageDiff& diff, const SnapshotView& view) {
  if (diff.sites.empty()) return "";
  std::vector<Column> columns{
      {"CHANGE", Align::kRight}, {"BASE", Align::kRight}, {"OTHER", Align::kRight}};
  if (diff.same_process) columns.push_back({"STAYED", Align::kRight});
  columns.push_back({"SITE"});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < shown(diff.sites.size(), view); ++i) {
    const SiteDiffRow& row = diff.sites[i];
    const double bytes = row.growth_words() * kBytesPerWord;
    std::vector<std::string> cells{
        (bytes < 0 ? "-" : "+") + format_estimate(std::abs(bytes), row.growth_stderr_bytes()),
        sum_text(row.before), sum_text(row.after)};
    if (diff.same_process) cells.push_back(sum_text(row.stayed));
    cells.push_back(printable(row.name));
    table.add_row(std::move(cells));
  }
  return with_title("Sites, reachable, estimated from sampled blocks", table, view.style) +
         more_text(diff.sites.size(), view);
}

std::string states_table(const Why& why, const SnapshotView& view) {
  const SiteSums& sums = why.sums();
  TextTable table({{"BYTES", Align::kRight}, {"SAMPLED BLOCKS", Align::kRight}, {"WHAT"}});
  const auto add = [&](const SampledSum& sum, const char* what) {
    table.add_row({sum_text(sum), format_count(sum.blocks), what});
  };
  add(sums.reachable(), "reachable");
  add(sums.garbage(), "floating garbage: unreachable, not collected yet");
  if (sums.dead().blocks != 0) add(sums.dead(), "dead: found by the collector");
  return with_title(sites_title(why), table, view.style);
}

// Its lines are not cut at a terminal's width: what holds a block is at their ends. blocks: what
// the tree's are.
std::string ways_table(const PathTree& tree, const char* blocks, const SnapshotView& view) {
  const Estimate& all = tree.steps()[0].through.estimate;
  TextTable table({{"SHARE", Align::kRight},
                   {"BYTES", Align::kRight},
                   {blocks, Align::kRight},
                   {"PATH FROM A GC ROOT"}});
  for (const TreeLine& line : path_lines(tree, view.tree())) {
    const std::string indent(2 * line.depth, ' ');
    if (line.more != 0) {
      table.add_row({"", "", "", fmt::format("{}… {} more", indent, format_count(line.more))});
      continue;
    }
    const SampledSum& sum = tree.steps()[line.item].through;
    const Estimate& part = sum.estimate;
    table.add_row(
        {format_share_estimate(part.bytes(), part.stderr_bytes(), all.bytes(), all.stderr_bytes()),
         sum_text(sum), format_count(sum.blocks), indent + printable(line.text)});
  }
  return with_title("Shortest paths to the reachable blocks", table, {});
}

// Minimum share of the heap for a pattern to be shown.
constexpr double kLeastWaste = 0.001;

bool is_small(std::uint64_t part, std::uint64_t whole, double least, const SnapshotView& view) {
  return view.limit != 0 && static_cast<double>(part) < static_cast<double>(whole) * least;
}

// Its places are in their order: the largest first.
void add_waste(const HeapImage& image, const WasteRow& row, const SnapshotView& view,
               TextTable& table) {
  const WasteText text = describe(row.pattern);
  table.add_row({words_text(row.words_to_win), words_text(row.words), format_count(row.blocks),
                 fmt::format("{}; instead: {}", text.what, text.remedy)});
  std::size_t n = 0;
  for (; n < shown(row.places.size(), view); ++n) {
    const WastePlace& place = row.places[n];
    if (is_small(place.words_to_win, row.words_to_win, view.min_share, view)) break;
    table.add_row({words_text(place.words_to_win), "", "",
                   "  " + printable(root_text(image.root_names[place.root_name]))});
  }
  if (const std::size_t more = row.places.size() - n; more != 0) {
    table.add_row({"", "", "", fmt::format("  … {} more", format_count(more))});
  }
}

}  // namespace

std::string snapshot_head_text(const ImageInfo& info) {
  std::string out = fmt::format("{}, pid {}, OCaml {}, {}, stopped for {}", printable(info.program),
                                info.pid, printable(info.ocaml_version), utc_text(info.unix_ns),
                                format_duration(static_cast<double>(info.pause_ns) / 1e9));
  if (info.sampling_rate > 0) out += ", sampled at " + format_rate(info.sampling_rate);
  if (!info.complete)
    out += "\nThe file is truncated or damaged: the following covers a part of the heap.";
  return out + "\n";
}

std::string census_text(const ImageInfo& info, const ImageCensus& census,
                        const std::vector<SiteRow>& sites, const SnapshotView& view) {
  const std::uint64_t reachable = census.total.reachable.words;
  SnapshotView all = view;
  all.limit = 0;  // there are as many as powers of two
  return snapshot_head_text(info) + totals_table(info, census, view) +
         census_table("Kinds of blocks", census.by_tag, reachable, true, view) +
         census_table(census.types.found.modules == 0
                          ? "Shapes: block(fields, tag)"
                          : "Types, and shapes of the rest: block(fields, tag)",
                      census.by_class, reachable, false, view) +
         types_text(census.types) + outside_text(census) +
         census_table("Sizes, headers included", census.by_size, reachable, true, all) +
         free_table(census, view) + sites_table(sites, view);
}

std::string retained_text(const ImageInfo& info, const RetainedTable& table,
                          const std::vector<std::uint32_t>& tops, const SnapshotView& view) {
  const std::uint64_t words = table.rows[0].words;
  const bool has_outside = table.rows[0].outside_bytes != 0;
  std::vector<Column> columns{{"RETAINED", Align::kRight}};
  if (has_outside) columns.push_back({"OUTSIDE", Align::kRight});
  columns.insert(columns.end(), {{"SHARE", Align::kRight}, {"BLOCKS", Align::kRight}, {"WHAT"}});
  TextTable lines(std::move(columns));
  const auto add = [&](std::uint64_t of_words, std::uint64_t outside, std::string blocks,
                       std::string what) {
    std::vector<std::string> cells{words_text(of_words)};
    if (has_outside) cells.push_back(format_bytes(static_cast<double>(outside)));
    const std::uint64_t bytes = of_words * 8 + outside;
    cells.insert(cells.end(),
                 {share_of(bytes, table.rows[0].all_bytes()), std::move(blocks), std::move(what)});
    lines.add_row(std::move(cells));
  };
  for (const TreeLine& line : retained_lines(table, tops, view.tree())) {
    const std::string indent(2 * line.depth, ' ');
    if (line.more != 0) {
      add(line.more_words, line.more_outside_bytes, "",
          fmt::format("{}… {} more", indent, format_count(line.more)));
      continue;
    }
    const RetainedRow& row = table.rows[line.item];
    add(row.words, row.outside_bytes, format_count(row.blocks),
        indent + printable(line.depth == 0 ? table.full_name(line.item) : row.name));
  }
  std::string out = snapshot_head_text(info);
  std::string title = "What roots keep alive, of " + words_text(words) + " that is reachable";
  if (has_outside) {
    title += fmt::format(", and {} outside of the heap",
                         format_bytes(static_cast<double>(table.rows[0].outside_bytes)));
  }
  out += with_title(title, lines, view.style);
  return out;
}

std::string why_text(const ImageInfo& info, const Why& why, const SnapshotView& view) {
  std::string out = snapshot_head_text(info) + states_table(why, view);
  if (why.sums().reachable().blocks != 0) out += ways_table(why.tree(), "SAMPLED BLOCKS", view);
  return out;
}

std::string why_outside_text(const ImageInfo& info, const WhyOutside& why,
                             const SnapshotView& view) {
  TextTable table({{"REACHABLE", Align::kRight},
                   {"RESIDENT", Align::kRight},
                   {"BLOCKS", Align::kRight},
                   {"GARBAGE", Align::kRight},
                   {"HELD BY"}});
  const auto& classes = why.classes();
  for (std::size_t i = 0; i < shown(classes.size(), view); ++i) {
    const OutsideRow& row = classes[i];
    table.add_row({format_bytes(static_cast<double>(row.reachable.bytes)),
                   format_bytes(static_cast<double>(row.reachable.resident)),
                   format_count(row.reachable.blocks),
                   format_bytes(static_cast<double>(row.garbage.bytes)), printable(row.name)});
  }
  std::string out = snapshot_head_text(info) +
                    with_title("Memory outside of the heap", table, view.style) +
                    more_text(classes.size(), view);
  if (why.tree().steps()[0].through.blocks != 0) out += ways_table(why.tree(), "BLOCKS", view);
  return out;
}

std::string image_diff_text(const ImageSummary& before, const ImageSummary& after,
                            const ImageDiff& diff, const SnapshotView& view) {
  std::string out = "base   " + snapshot_head_text(before.info);
  out += "other  " + snapshot_head_text(after.info);
  SnapshotView all = view;
  all.limit = 0;
  if (!diff.same_process) out += "They are of different processes: no block can be recognized.\n";
  return out + diff_table("Heap", diff.totals, all) +
         diff_table("Roots and what they retain", diff.roots, view) +
         diff_table("Shapes, reachable: block(fields, tag)", diff.classes, view) +
         site_diff_table(diff, view);
}

std::string waste_text(const HeapImage& image, const std::vector<WasteRow>& rows,
                       const SnapshotView& view) {
  std::string out = snapshot_head_text(image.info);
  if (rows.empty()) return out + "\nNo waste found.\n";
  TextTable table(
      {{"TO WIN", Align::kRight}, {"TAKEN", Align::kRight}, {"COUNT", Align::kRight}, {"WHAT"}});
  std::uint64_t small = 0, small_words = 0;
  for (const WasteRow& row : rows) {
    if (is_small(row.words_to_win, image.info.heap_words, kLeastWaste, view)) {
      ++small;
      small_words += row.words_to_win;
      continue;
    }
    add_waste(image, row, view, table);
  }
  if (small != 0) {
    table.add_row({words_text(small_words), "", "",
                   fmt::format("… {} more, of less than 0.1 % of the heap each", small)});
  }
  return out + with_title("Waste, by the nearest roots", table, view.style);
}

}  // namespace memprofd::ctl
