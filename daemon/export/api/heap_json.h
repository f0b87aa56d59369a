// SPDX-License-Identifier: Apache-2.0
// Answers from a heap snapshot as JSON. Scripts rely on the names; fields may be added.
//
//   all       "snapshot": {program, pid, ocaml_version, unix_ns, pause_seconds, sampling_rate,
//             complete}
//   show, why
//             "types": {modules, modules_without_files, disagreed, by_site, sites_unfit,
//             sites_disagreed (sampled blocks), reachable: {blocks, bytes}, all_reachable: {..}},
//             where there are files
//   show      "heap", "kinds", "shapes", "sizes": rows of {name, reachable, garbage, dead}, each
//             {blocks, bytes}, outside_bytes, garbage_outside_bytes (of the heap); "free": {blocks,
//             bytes, ..}, "sites": rows of {name, reachable, ..}, each {sampled_blocks, bytes,
//             bytes_stderr, bytes_lower, bytes_upper}
//   retained  "roots": [{name, blocks, bytes, outside_bytes, children: [..]}]
//   why       "reachable", "garbage", "dead"; "paths": [{path, bytes, .., children: [..]}]
//             with --outside: "classes": [{name, reachable, garbage}], each {blocks, outside_bytes,
//             resident_bytes};
//             "paths": [{path, blocks, outside_bytes, children: [..]}]
//   diff      "heap", "roots", "shapes", "sites": rows of {name, change_bytes, base, other}
//   garbage   "garbage", "young", "dead": {blocks, bytes}, longest_wait_seconds; "sites": rows of
//             {name, sampled_blocks, bytes, .., young, ages: {p50_seconds, p90_seconds,
//             longest_seconds}, longest_wait_seconds}; null: not known
//   waste     "patterns": [{pattern, blocks, bytes, bytes_to_win, places: [{root, bytes_to_win}]}]
#pragma once

#include <string>
#include <vector>

#include "daemon/snapshot/answers/garbage.h"
#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/answers/image_diff.h"
#include "daemon/snapshot/answers/tree_rows.h"
#include "daemon/snapshot/answers/waste.h"
#include "daemon/snapshot/answers/why_outside.h"

namespace memprofd {

// All end in a newline. Tables are whole; trees have what the limits leave.
std::string census_json(const ImageInfo& info, const ImageCensus& census,
                        const std::vector<SiteRow>& sites);
std::string retained_json(const ImageInfo& info, const RetainedTable& table,
                          const std::vector<std::uint32_t>& tops, const TreeLimits& limits);
std::string why_json(const ImageInfo& info, const Why& why, const TreeLimits& limits);
std::string why_outside_json(const ImageInfo& info, const WhyOutside& why,
                             const TreeLimits& limits);
std::string image_diff_json(const ImageSummary& before, const ImageSummary& after,
                            const ImageDiff& diff);
std::string garbage_json(const ImageInfo& info, const Garbage& garbage);
std::string waste_json(const HeapImage& image, const std::vector<WasteRow>& rows);

}  // namespace memprofd
