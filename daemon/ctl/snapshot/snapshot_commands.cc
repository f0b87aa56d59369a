// SPDX-License-Identifier: Apache-2.0
// Commands about the file of a heap snapshot.
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/ctl/commands.h"
#include "daemon/ctl/heap_rules.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/snapshot/snapshot_text.h"
#include "daemon/ctl/snapshot/whole_image.h"
#include "daemon/ctl/snapshot/why_answer.h"
#include "daemon/ctl/snapshot_command_line.h"
#include "daemon/export/heaps/heap_answers.h"
#include "daemon/export/heaps/largest_blocks.h"
#include "daemon/query/frame_filter.h"
#include "daemon/rules/rule_check.h"
#include "daemon/snapshot/answers/chrome_snapshot.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

absl::StatusOr<std::vector<std::uint32_t>> roots_under(const RetainedTable& table,
                                                       const std::string& pattern) {
  if (pattern.empty()) return table.children()[0];
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("under", {pattern}));
  std::vector<std::uint32_t> roots =
      table.roots_named([&](const std::string& name) { return patterns.any_in(name); });
  if (!roots.empty()) return roots;
  return absl::NotFoundError("no root's name matches \"" + pattern +
                             "\"; without --under all are shown");
}

absl::Status answer_why_outside(const HeapImage& image, const Options& options) {
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("outside", {options.heap_site}));
  const WhyOutside why(
      image, [&](const std::string& name) { return patterns.empty() || patterns.any_in(name); });
  if (why.classes().empty()) {
    const std::string of =
        options.heap_site.empty() ? "" : ", of a class that matches \"" + options.heap_site + "\",";
    return absl::NotFoundError("no block of " + options.heap_file + of +
                               " holds memory outside of the heap; memprofctl snapshot show " +
                               options.heap_file + " lists all classes");
  }
  return write_answer(outside_answer(image.info, why, snapshot_view(options).tree()), &outside_text,
                      options);
}

// Sites are named by the frames that the options request.
absl::StatusOr<HeapImage> whole_image(const std::string& path, const Options& options) {
  ASSIGN_OR_RETURN(HeapImage image, read_whole_image(path, options.heap_cmt));
  image.site_frame = site_frame(options);
  return image;
}

absl::Status run_show(const Options& options) {
  ASSIGN_OR_RETURN(HeapImage image, read_heap_image(options.heap_file));
  RETURN_IF_ERROR(add_types(image, options.heap_cmt));
  image.site_frame = site_frame(options);
  const ShortestPaths paths(image);
  return write_answer(census_answer(image, paths), &census_text, options);
}

absl::Status run_garbage(const Options& options) {
  ASSIGN_OR_RETURN(const HeapImage image, whole_image(options.heap_file, options));
  return write_answer(garbage_answer(image, ShortestPaths(image)), &garbage_text, options);
}

absl::Status run_waste(const Options& options) {
  ASSIGN_OR_RETURN(const HeapImage image, whole_image(options.heap_file, options));
  return write_answer(waste_answer(image, ShortestPaths(image)), &waste_text, options);
}

// Paths are not truncated at a terminal's width, because their ends show what holds a block.
std::string largest_text(const pb::HeapLargest& largest, const HeapDumpView& view) {
  TextTable table({{"BYTES", Align::kRight},
                   {"OUTSIDE", Align::kRight},
                   {"WHAT"},
                   {"ALLOCATED BY"},
                   {"PATH FROM A GC ROOT"}});
  for (int i = 0; i < shown(largest.blocks_size(), view); ++i) {
    const pb::LargestBlock& block = largest.blocks(i);
    table.add_row({size_text(block.bytes()),
                   block.outside_bytes() == 0 ? "-" : size_text(block.outside_bytes()),
                   printable(block.class_name()),
                   block.site().empty() ? "-" : printable(block.site()),
                   block.path().empty() ? "none: floating garbage" : printable(block.path())});
  }
  return snapshot_head_text(largest.snapshot()) +
         with_title("The largest blocks; OUTSIDE: what they hold outside of the heap", table, {});
}

absl::Status run_largest(const Options& options) {
  ASSIGN_OR_RETURN(HeapImage image, whole_image(options.heap_file, options));
  join_threads(image);
  return write_answer(largest_answer(image, ShortestPaths(image), options.heap_limit),
                      &largest_text, options);
}

std::string assertions_text(const pb::HeapAssertions& answer, const HeapDumpView&) {
  std::vector<CheckResult> results;
  for (const pb::CheckedAssertion& one : answer.assertions()) {
    results.push_back({one.assertion(), verdict_named(one.verdict()), one.text()});
  }
  return results_text(results);
}

absl::Status run_assertions(const Options& options) {
  ASSIGN_OR_RETURN(HeapImage image, whole_image(options.heap_file, options));
  if (image.assertions.empty()) {
    return absl::NotFoundError(options.heap_file +
                               " has no assertions: its program makes none with Memprof_check, or "
                               "an older memprofd wrote the file");
  }
  join_threads(image);
  return write_answer(assertions_answer(image, ShortestPaths(image)), &assertions_text, options);
}

}  // namespace

std::vector<FileQuestion> file_questions() {
  return {
      {"show", "Count blocks by kind, shape, size and site, and free memory", &run_show},
      {"largest", "Show the largest single blocks, and what keeps them alive", &run_largest},
      {"garbage", "Show floating garbage (unreachable, not yet collected) by site and age",
       &run_garbage},
      {"waste", "Show wasted memory", &run_waste},
      {"assertions", "Check the assertions of the program (Memprof_check), with paths",
       &run_assertions},
  };
}

absl::Status run_snapshot_retained(const Options& options) {
  ASSIGN_OR_RETURN(HeapImage image, whole_image(options.heap_file, options));
  join_threads(image);
  const RetainedTable table = find_retained(image, {.depth = options.heap_depth});
  ASSIGN_OR_RETURN(const std::vector<std::uint32_t> tops, roots_under(table, options.heap_under));
  return write_answer(retained_answer(image.info, table, tops, snapshot_view(options).tree()),
                      &retained_text, options);
}

absl::Status run_snapshot_why(const Options& options) {
  if (options.heap_site.empty() && !options.heap_outside) {
    return absl::InvalidArgumentError(
        "give a SITE pattern, or --outside; memprofctl snapshot show lists sites");
  }
  ASSIGN_OR_RETURN(HeapImage image, whole_image(options.heap_file, options));
  join_threads(image);
  if (options.heap_outside) return answer_why_outside(image, options);
  return answer_why(image, options, options.heap_file,
                    "memprofctl snapshot show " + options.heap_file);
}

absl::Status run_snapshot_diff(const Options& options) {
  // Only one image at a time is in memory.
  const auto summary_of = [&](const std::string& path) -> absl::StatusOr<ImageSummary> {
    ASSIGN_OR_RETURN(HeapImage image, whole_image(path, options));
    return summarize(image);
  };
  ASSIGN_OR_RETURN(const ImageSummary before, summary_of(options.heap_file));
  ASSIGN_OR_RETURN(const ImageSummary after, summary_of(options.other_heap_file));
  return write_answer(diff_answer(before, after), &diff_text, options);
}

absl::Status run_snapshot_convert(const Options& options) {
  ASSIGN_OR_RETURN(const HeapImage image, whole_image(options.heap_file, options));
  ASSIGN_OR_RETURN(NewFile file, NewFile::create(options.out));
  ASSIGN_OR_RETURN(
      const ChromeSnapshotSize size,
      write_chrome_snapshot(image, [&](std::string_view bytes) { return file.write(bytes); }));
  RETURN_IF_ERROR(file.finish());
  return print(fmt::format("{}: {} reachable blocks; {} unreachable ones are omitted\n",
                           options.out, format_count(size.blocks), format_count(size.left_out)));
}

}  // namespace memprofd::ctl
