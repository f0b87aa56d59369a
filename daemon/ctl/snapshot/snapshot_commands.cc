// SPDX-License-Identifier: Apache-2.0
// Commands about the file of a heap snapshot.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/ctl/command_line.h"
#include "daemon/ctl/heap_rules.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/ctl/snapshot/snapshot_text.h"
#include "daemon/ctl/snapshot/whole_image.h"
#include "daemon/ctl/snapshot/why_answer.h"
#include "daemon/export/heaps/heap_answers.h"
#include "daemon/export/heaps/largest_blocks.h"
#include "daemon/query/frame_filter.h"
#include "daemon/rules/rule_check.h"
#include "daemon/snapshot/answers/chrome_snapshot.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/util/one_of.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

// Sites are named by the frames that the options request.
absl::StatusOr<HeapImage> whole_image(const std::string& path, const std::vector<std::string>& cmt,
                                      const Options& options) {
  ASSIGN_OR_RETURN(HeapImage image, read_whole_image(path, cmt));
  image.site_frame = site_frame(options);
  return image;
}

absl::Status run_show(const Options& options, const HeapFileOptions& own) {
  ASSIGN_OR_RETURN(HeapImage image, read_heap_image(own.file));
  RETURN_IF_ERROR(add_types(image, own.cmt));
  image.site_frame = site_frame(options);
  const ShortestPaths paths(image);
  return write_answer(census_answer(image, paths), &census_text, options, own.limit);
}

absl::Status run_garbage(const Options& options, const HeapFileOptions& own) {
  ASSIGN_OR_RETURN(const HeapImage image, whole_image(own.file, own.cmt, options));
  return write_answer(garbage_answer(image, ShortestPaths(image)), &garbage_text, options,
                      own.limit);
}

absl::Status run_waste(const Options& options, const HeapFileOptions& own) {
  ASSIGN_OR_RETURN(const HeapImage image, whole_image(own.file, own.cmt, options));
  return write_answer(waste_answer(image, ShortestPaths(image)), &waste_text, options, own.limit);
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

absl::Status run_largest(const Options& options, const HeapFileOptions& own) {
  ASSIGN_OR_RETURN(HeapImage image, whole_image(own.file, own.cmt, options));
  join_threads(image);
  return write_answer(largest_answer(image, ShortestPaths(image), own.limit), &largest_text,
                      options, own.limit);
}

std::string assertions_text(const pb::HeapAssertions& answer, const HeapDumpView&) {
  std::vector<CheckResult> results;
  for (const pb::CheckedAssertion& one : answer.assertions()) {
    results.push_back({one.assertion(), verdict_named(one.verdict()), one.text()});
  }
  return results_text(results);
}

absl::Status run_assertions(const Options& options, const HeapFileOptions& own) {
  ASSIGN_OR_RETURN(HeapImage image, whole_image(own.file, own.cmt, options));
  if (image.assertions.empty()) {
    return absl::NotFoundError(own.file +
                               " has no assertions: its program makes none with Memprof_check, or "
                               "an older memprofd wrote the file");
  }
  join_threads(image);
  return write_answer(assertions_answer(image, ShortestPaths(image)), &assertions_text, options,
                      own.limit);
}

// A question without options of its own.
struct FileQuestion {
  const char* name;
  const char* help;
  absl::Status (*run)(const Options& options, const HeapFileOptions& own);
};
constexpr FileQuestion kFileQuestions[] = {
    {"show", "Show blocks by kind, shape, size and site, and how much memory is free", &run_show},
    {"largest", "Show the largest single blocks, and what keeps them alive", &run_largest},
    {"garbage", "Show floating garbage (unreachable, not yet collected) by site and age",
     &run_garbage},
    {"waste", "Show wasted memory", &run_waste},
    {"assertions", "Check the program's assertions (Memprof_check); show paths to violating blocks",
     &run_assertions},
};

struct RetainedOptions : HeapFileOptions {
  std::uint32_t depth = 3;
  std::string under;  // a pattern for names of roots
};

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

absl::Status run_snapshot_retained(const Options& options, const RetainedOptions& own) {
  ASSIGN_OR_RETURN(HeapImage image, whole_image(own.file, own.cmt, options));
  join_threads(image);
  const RetainedTable table = find_retained(image, {.depth = own.depth});
  ASSIGN_OR_RETURN(const std::vector<std::uint32_t> tops, roots_under(table, own.under));
  return write_answer(
      retained_answer(image.info, table, tops, snapshot_view(options, own.limit).tree()),
      &retained_text, options, own.limit);
}

struct SnapshotWhyOptions : HeapFileOptions {
  std::string site;      // a pattern; with outside it matches classes
  bool outside = false;  // of the heap
};

absl::Status answer_why_outside(const HeapImage& image, const Options& options,
                                const SnapshotWhyOptions& own) {
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("outside", {own.site}));
  const WhyOutside why(
      image, [&](const std::string& name) { return patterns.empty() || patterns.any_in(name); });
  if (why.classes().empty()) {
    const std::string of =
        own.site.empty() ? "" : ", of a class that matches \"" + own.site + "\",";
    return absl::NotFoundError("no block of " + own.file + of +
                               " holds memory outside of the heap; memprofctl snapshot show " +
                               own.file + " lists all classes");
  }
  return write_answer(outside_answer(image.info, why, snapshot_view(options, own.limit).tree()),
                      &outside_text, options, own.limit);
}

absl::Status run_snapshot_why(const Options& options, const SnapshotWhyOptions& own) {
  if (own.site.empty() && !own.outside) {
    return absl::InvalidArgumentError(
        "give a SITE pattern, or --outside; memprofctl snapshot show lists sites");
  }
  ASSIGN_OR_RETURN(HeapImage image, whole_image(own.file, own.cmt, options));
  join_threads(image);
  if (own.outside) return answer_why_outside(image, options, own);
  return answer_why(
      image,
      {.site = own.site, .source = own.file, .list_sites = "memprofctl snapshot show " + own.file},
      options, own.limit);
}

struct SnapshotDiffOptions : HeapFileOptions {
  std::string other;  // file
};

absl::Status run_snapshot_diff(const Options& options, const SnapshotDiffOptions& own) {
  // Only one image at a time is in memory.
  const auto summary_of = [&](const std::string& path) -> absl::StatusOr<ImageSummary> {
    ASSIGN_OR_RETURN(HeapImage image, whole_image(path, own.cmt, options));
    return summarize(image);
  };
  ASSIGN_OR_RETURN(const ImageSummary before, summary_of(own.file));
  ASSIGN_OR_RETURN(const ImageSummary after, summary_of(own.other));
  return write_answer(diff_answer(before, after), &diff_text, options, own.limit);
}

absl::Status run_snapshot_convert(const Options& options, const HeapFileOptions& own) {
  ASSIGN_OR_RETURN(const HeapImage image, whole_image(own.file, own.cmt, options));
  ASSIGN_OR_RETURN(NewFile file, NewFile::create(options.out));
  ASSIGN_OR_RETURN(
      const ChromeSnapshotSize size,
      write_chrome_snapshot(image, [&](std::string_view bytes) { return file.write(bytes); }));
  RETURN_IF_ERROR(file.finish());
  return print(fmt::format("{}: {} reachable blocks; {} unreachable ones are omitted\n",
                           options.out, format_count(size.blocks), format_count(size.left_out)));
}

// Adds a command that analyzes a snapshot file, with the common options.
template <typename Own>
Own& add_file_question(const CommandLine& line, CLI::App& app, const char* help,
                       absl::Status (*run)(const Options& options, const Own& own)) {
  Own& own = line.set_up(app, help, run);
  add_heap_file(app, own.file, own.cmt);
  add_heap_view(app, line.options(), own.limit);
  return own;
}

void add_retained(const CommandLine& line, CLI::App& app) {
  RetainedOptions& own =
      add_file_question(line, app, "Show how much memory modules, fields and stacks keep alive",
                        &run_snapshot_retained);
  app.add_option("--depth", own.depth, "Show at most N levels")
      ->check(in_range(1, 100))
      ->capture_default_str();
  app.add_option("--under", own.under,
                 "Show only roots whose name matches, such as 'Cache / field 2'")
      ->type_name("REGEX");
}

void add_snapshot_why(const CommandLine& line, CLI::App& app) {
  SnapshotWhyOptions& own = add_file_question(
      line, app, "Show what keeps the blocks of an allocation site alive", &run_snapshot_why);
  add_site(app, line.options(), own.site)->required(false);
  app.add_flag("--outside", own.outside,
               "Select blocks that own native memory, such as Bigarrays; SITE then matches "
               "their class, and may be omitted");
}

void add_snapshot_diff(const CommandLine& line, CLI::App& app) {
  SnapshotDiffOptions& own =
      add_file_question(line, app, "Compare two snapshots", &run_snapshot_diff);
  app.add_option("other", own.other, "Later snapshot")->type_name("OTHER")->required();
  add_frames(app, line.options().query);
}

void add_convert(const CommandLine& line, CLI::App& app) {
  HeapFileOptions& own = line.set_up(app, "Convert a snapshot for Chrome DevTools (.heapsnapshot)",
                                     &run_snapshot_convert);
  add_heap_file(app, own.file, own.cmt);
  add_out(app, line.options().out)->required();
}

}  // namespace

void add_snapshot(const CommandLine& line, CLI::App& app) {
  app.description("Take heap snapshots and analyze them");
  app.require_subcommand(1);
  add_snapshot_take(line, *app.add_subcommand("take"));
  add_snapshot_list(line, *app.add_subcommand("list"));
  for (const FileQuestion& question : kFileQuestions) {
    CLI::App& command = *app.add_subcommand(question.name);
    add_file_question(line, command, question.help, question.run);
    add_frames(command, line.options().query);
  }
  add_retained(line, *app.add_subcommand("retained"));
  add_snapshot_why(line, *app.add_subcommand("why"));
  add_snapshot_diff(line, *app.add_subcommand("diff"));
  add_snapshot_query(line, *app.add_subcommand("query"));
  add_convert(line, *app.add_subcommand("convert"));
}

}  // namespace memprofd::ctl
