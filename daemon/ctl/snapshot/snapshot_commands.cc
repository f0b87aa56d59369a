// SPDX-License-Identifier: Apache-2.0
// Commands that ask the file of a heap snapshot.
#include <utility>
#include <vector>

#include "daemon/ctl/commands.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/snapshot/snapshot_json.h"
#include "daemon/ctl/snapshot/snapshot_text.h"
#include "daemon/query/frame_filter.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

SnapshotView view_of(const Options& options) {
  return {.limit = options.heap_limit, .style = options.out.empty() ? stdout_style() : Style{}};
}

// Roots come last in the file: without its end, all would seem to be garbage.
absl::StatusOr<HeapImage> read_whole_image(const std::string& path) {
  ASSIGN_OR_RETURN(HeapImage image, read_heap_image(path));
  if (image.info.complete) return image;
  return absl::InvalidArgumentError(
      path + " is cut off or damaged, and with its end the roots are lost; only memprofctl " +
      "snapshot show counts what is left; take another");
}

// By site, whether the pattern is found in one of its frames.
absl::StatusOr<std::vector<bool>> matching_sites(const HeapImage& image,
                                                 const std::string& pattern) {
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("site", {pattern}));
  std::vector<bool> by_location;
  for (const Location& location : image.locations) {
    by_location.push_back(patterns.found_in(location) == patterns.all());
  }
  std::vector<bool> matching;
  for (const auto& frames : image.sites) {
    bool is_found = patterns.empty();
    for (const std::uint32_t frame : frames) is_found = is_found || by_location[frame];
    matching.push_back(is_found);
  }
  return matching;
}

absl::Status no_such_site(const HeapImage& image, const Options& options) {
  if (image.sampled.empty()) {
    return absl::FailedPreconditionError(
        options.heap_file + " has no sampled block: what was allocated before sampling began has " +
        "no site, and nothing sampled since was alive; take another one later");
  }
  return absl::NotFoundError("no sampled block's callstack matches \"" + options.heap_site +
                             "\"; memprofctl snapshot show " + options.heap_file + " lists sites");
}

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

}  // namespace

absl::Status run_snapshot_show(const Options& options) {
  ASSIGN_OR_RETURN(const HeapImage image, read_heap_image(options.heap_file));
  const ShortestPaths paths(image);
  const ImageCensus census = count_image(image, paths);
  std::vector<SiteRow> sites;
  if (image.info.complete) sites = sum_sites(image, paths);  // else many of their blocks are lost
  return write_result(options.json() ? census_json(image.info, census, sites)
                                     : census_text(image.info, census, sites, view_of(options)),
                      options.out);
}

absl::Status run_snapshot_retained(const Options& options) {
  ASSIGN_OR_RETURN(HeapImage image, read_whole_image(options.heap_file));
  const RetainedTable table = find_retained(image, {.depth = options.heap_depth});
  ASSIGN_OR_RETURN(const std::vector<std::uint32_t> tops, roots_under(table, options.heap_under));
  return write_result(options.json() ? retained_json(image.info, table, tops, view_of(options))
                                     : retained_text(image.info, table, tops, view_of(options)),
                      options.out);
}

absl::Status run_snapshot_why(const Options& options) {
  ASSIGN_OR_RETURN(const HeapImage image, read_whole_image(options.heap_file));
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, matching_sites(image, options.heap_site));
  const Why why(image, wanted);
  if (why.sites().empty()) return no_such_site(image, options);
  return write_result(options.json() ? why_json(image.info, why, view_of(options))
                                     : why_text(image.info, why, view_of(options)),
                      options.out);
}

absl::Status run_snapshot_diff(const Options& options) {
  // One image at a time is in memory.
  const auto summary_of = [](const std::string& path) -> absl::StatusOr<ImageSummary> {
    ASSIGN_OR_RETURN(HeapImage image, read_whole_image(path));
    return summarize(image);
  };
  ASSIGN_OR_RETURN(const ImageSummary before, summary_of(options.heap_file));
  ASSIGN_OR_RETURN(const ImageSummary after, summary_of(options.other_heap_file));
  const ImageDiff diff = compare_images(before, after);
  return write_result(options.json() ? image_diff_json(before, after, diff)
                                     : image_diff_text(before, after, diff, view_of(options)),
                      options.out);
}

absl::Status run_snapshot_waste(const Options& options) {
  ASSIGN_OR_RETURN(const HeapImage image, read_whole_image(options.heap_file));
  const std::vector<WasteRow> rows = find_waste(image, ShortestPaths(image));
  return write_result(
      options.json() ? waste_json(image, rows) : waste_text(image, rows, view_of(options)),
      options.out);
}

}  // namespace memprofd::ctl
