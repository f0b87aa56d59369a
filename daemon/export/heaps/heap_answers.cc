// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/heap_answers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/rules/rule_check.h"
#include "daemon/snapshot/answers/assertion_check.h"
#include "daemon/snapshot/answers/garbage.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/waste.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// Adds the first rows with put(row, message); returns the number of rows that are left out.
template <typename Rows, typename Messages, typename Put>
std::uint64_t put_rows(const Rows& rows, std::size_t limit, Messages* out, Put put) {
  const std::size_t count = limit == 0 ? rows.size() : std::min(limit, rows.size());
  for (std::size_t i = 0; i < count; ++i) put(rows[i], *out->Add());
  return rows.size() - count;
}

// Fills any message that has the fields of SampledBytes.
template <typename Message>
void put_sum(const SampledSum& sum, double rate, Message& out) {
  const Limits limits = sum.estimate.limits_bytes(grain_words(rate));
  out.set_sampled_blocks(static_cast<std::uint32_t>(sum.blocks));
  out.set_bytes(sum.estimate.bytes());
  out.set_bytes_stderr(sum.estimate.stderr_bytes());
  out.set_bytes_lower(limits.lower);
  out.set_bytes_upper(limits.upper);
}

// Fills any message with estimates of reachable memory, garbage and dead memory.
template <typename Message>
void put_sums(const SiteSums& sums, double rate, Message& out) {
  put_sum(sums.reachable(), rate, *out.mutable_reachable());
  put_sum(sums.garbage(), rate, *out.mutable_garbage());
  put_sum(sums.dead(), rate, *out.mutable_dead());
}

void put(const CensusRow& row, pb::HeapClass& out) {
  out.set_name(valid_utf8(row.name));
  *out.mutable_reachable() = to_proto(row.reachable);
  *out.mutable_garbage() = to_proto(row.garbage);
  *out.mutable_dead() = to_proto(row.dead);
  out.set_outside_bytes(row.outside_reachable_bytes);
  out.set_garbage_outside_bytes(row.outside_garbage_bytes);
}

void put_free(const ImageCensus& census, pb::HeapFree& out) {
  out.set_blocks(census.free.blocks);
  out.set_bytes(census.free.words * kWordBytes);
  out.set_largest_bytes(census.largest_free_words * kWordBytes);
  out.set_fragmentation(census.fragmentation());
  for (const FreeRow& row : census.free_sizes) {
    pb::HeapFreeSize& size = *out.add_sizes();
    size.set_blocks(row.count.blocks);
    size.set_bytes(row.count.words * kWordBytes);
    size.set_most_words(row.most_words);
  }
}

// Nests the lines of a tree by their depth, with put(line, message).
template <typename Messages, typename Put>
void put_tree(const std::vector<TreeLine>& lines, Messages* out, Put put) {
  std::vector<Messages*> open{out};  // lists by depth
  for (const TreeLine& line : lines) {
    open.resize(line.depth + 1);
    auto& message = *open.back()->Add();
    open.push_back(message.mutable_children());
    put(line, message);
  }
}

void put(const OutsideCount& count, pb::OutsideCount& out) {
  out.set_blocks(count.blocks);
  out.set_outside_bytes(count.bytes);
  out.set_resident_bytes(count.resident);
}

void put(const DiffRow& row, pb::HeapDiffRow& out) {
  out.set_name(valid_utf8(row.name));
  *out.mutable_base() = to_proto(row.before);
  *out.mutable_other() = to_proto(row.after);
  out.set_change_bytes(row.growth_words() * static_cast<std::int64_t>(kWordBytes));
}

void put(const SampledAges& ages, pb::SampledAges& out) {
  if (const auto age = ages.quantile(0.5)) out.set_p50_seconds(seconds(*age));
  if (const auto age = ages.quantile(0.9)) out.set_p90_seconds(seconds(*age));
  if (const auto age = ages.longest()) out.set_longest_seconds(seconds(*age));
}

}  // namespace

pb::HeapCount to_proto(const BlockCount& count) {
  pb::HeapCount out;
  out.set_blocks(count.blocks);
  out.set_bytes(count.words * kWordBytes);
  return out;
}

pb::HeapTypes to_proto(const TypedCount& types) {
  pb::HeapTypes out;
  const TypingResult& found = types.found;
  out.set_modules(found.modules);
  out.set_modules_without_files(found.modules_without_files);
  out.set_disagreed(found.disagreed);
  *out.mutable_typed() = to_proto(types.typed);
  *out.mutable_reachable() = to_proto(types.reachable);
  out.set_out_of_time(found.out_of_time);
  for (const std::string& unit : found.other_builds) out.add_other_builds(valid_utf8(unit));
  out.set_unverified(found.unverified);
  out.set_by_site(found.by_site);
  out.set_sites_unfit(found.sites_unfit);
  out.set_sites_disagreed(found.sites_disagreed);
  return out;
}

pb::KeptHeap to_proto(const ImageInfo& info) {
  pb::KeptHeap out;
  out.set_program(valid_utf8(info.program));
  out.set_pid(static_cast<std::int32_t>(info.pid));
  out.set_ocaml_version(valid_utf8(info.ocaml_version));
  out.set_unix_ns(info.unix_ns);
  out.set_pause_seconds(seconds(info.pause_ns));
  out.set_sampling_rate(info.sampling_rate);
  out.set_heap_bytes(info.heap_words * kWordBytes);
  out.set_complete(info.complete);
  return out;
}

pb::HeapCensus census_answer(const HeapImage& image, const ShortestPaths& paths, std::size_t rows) {
  const ImageCensus census = count_image(image, paths);
  const auto put_class = [](const CensusRow& row, pb::HeapClass& out) { put(row, out); };
  pb::HeapCensus out;
  *out.mutable_snapshot() = to_proto(image.info);
  *out.mutable_types() = to_proto(census.types);
  put(census.total, *out.mutable_heap());
  out.mutable_heap()->clear_name();
  *out.mutable_heap()->mutable_young() = to_proto(census.young);
  put_free(census, *out.mutable_free());
  put_rows(census.by_tag, 0, out.mutable_kinds(), put_class);
  out.set_more_shapes(put_rows(census.by_class, rows, out.mutable_shapes(), put_class));
  put_rows(census.by_size, 0, out.mutable_sizes(), put_class);
  if (!image.info.complete) return out;  // many blocks of the sites are missing
  out.set_more_sites(put_rows(sum_sites(image, paths), rows, out.mutable_sites(),
                              [&](const SiteRow& row, pb::HeapSite& site) {
                                site.set_name(valid_utf8(row.name));
                                put_sums(row.sums, image.info.sampling_rate, site);
                              }));
  return out;
}

pb::HeapRetained retained_answer(const ImageInfo& info, const RetainedTable& table,
                                 const std::vector<std::uint32_t>& tops, const TreeLimits& limits) {
  pb::HeapRetained out;
  *out.mutable_snapshot() = to_proto(info);
  out.mutable_reachable()->set_blocks(table.rows[0].blocks);
  out.mutable_reachable()->set_bytes(table.rows[0].words * kWordBytes);
  out.mutable_reachable()->set_outside_bytes(table.rows[0].outside_bytes);
  put_tree(retained_lines(table, tops, limits), out.mutable_roots(),
           [&](const TreeLine& line, pb::HeapHolder& holder) {
             if (line.more != 0) {
               holder.set_more(line.more);
               holder.set_bytes(line.more_words * kWordBytes);
               holder.set_outside_bytes(line.more_outside_bytes);
               return;
             }
             const RetainedRow& row = table.rows[line.item];
             holder.set_name(valid_utf8(line.depth == 0 ? table.full_name(line.item) : row.name));
             holder.set_blocks(row.blocks);
             holder.set_bytes(row.words * kWordBytes);
             holder.set_outside_bytes(row.outside_bytes);
           });
  return out;
}

pb::HeapWhy why_answer(const ImageInfo& info, const Why& why, const TreeLimits& limits) {
  pb::HeapWhy out;
  *out.mutable_snapshot() = to_proto(info);
  *out.mutable_types() = to_proto(why.types());
  for (const SiteRow& row : why.sites()) out.add_sites(valid_utf8(row.name));
  put_sums(why.sums(), info.sampling_rate, out);
  put_tree(path_lines(why.tree(), limits), out.mutable_paths(),
           [&](const TreeLine& line, pb::HeapPath& path) {
             if (line.more != 0) {
               path.set_more(static_cast<std::uint32_t>(line.more));
               return;
             }
             path.set_path(valid_utf8(line.text));
             put_sum(why.tree().steps()[line.item].through, info.sampling_rate, path);
           });
  return out;
}

pb::HeapOutside outside_answer(const ImageInfo& info, const WhyOutside& why,
                               const TreeLimits& limits) {
  pb::HeapOutside out;
  *out.mutable_snapshot() = to_proto(info);
  for (const OutsideRow& row : why.classes()) {
    pb::OutsideClass& one = *out.add_classes();
    one.set_name(valid_utf8(row.name));
    put(row.reachable, *one.mutable_reachable());
    put(row.garbage, *one.mutable_garbage());
  }
  put_tree(path_lines(why.tree(), limits), out.mutable_paths(),
           [&](const TreeLine& line, pb::OutsidePath& path) {
             if (line.more != 0) {
               path.set_more(static_cast<std::uint32_t>(line.more));
               return;
             }
             const SampledSum& through = why.tree().steps()[line.item].through;
             path.set_path(valid_utf8(line.text));
             path.set_blocks(through.blocks);
             path.set_outside_bytes(static_cast<std::uint64_t>(through.estimate.bytes()));
           });
  return out;
}

pb::HeapDiff diff_answer(const ImageSummary& base, const ImageSummary& other, std::size_t rows) {
  const ImageDiff diff = compare_images(base, other);
  const auto put_row = [](const DiffRow& row, pb::HeapDiffRow& out) { put(row, out); };
  pb::HeapDiff out;
  *out.mutable_base() = to_proto(base.info);
  *out.mutable_other() = to_proto(other.info);
  out.set_same_process(diff.same_process);
  put_rows(diff.totals, 0, out.mutable_heap(), put_row);
  out.set_more_roots(put_rows(diff.roots, rows, out.mutable_roots(), put_row));
  out.set_more_shapes(put_rows(diff.classes, rows, out.mutable_shapes(), put_row));
  out.set_more_sites(put_rows(diff.sites, rows, out.mutable_sites(),
                              [&](const SiteDiffRow& row, pb::HeapSiteDiffRow& site) {
                                const double rate = other.info.sampling_rate;
                                site.set_name(valid_utf8(row.name));
                                site.set_change_bytes(row.growth_words() * kBytesPerWord);
                                site.set_change_bytes_stderr(row.growth_stderr_bytes());
                                put_sum(row.before, base.info.sampling_rate, *site.mutable_base());
                                put_sum(row.after, rate, *site.mutable_other());
                                if (diff.same_process)
                                  put_sum(row.stayed, rate, *site.mutable_stayed());
                              }));
  *out.mutable_base_types() = to_proto(base.types);
  *out.mutable_other_types() = to_proto(other.types);
  return out;
}

pb::HeapGarbage garbage_answer(const HeapImage& image, const ShortestPaths& paths,
                               std::size_t rows) {
  const Garbage garbage = find_garbage(image, paths);
  const double rate = image.info.sampling_rate;
  pb::HeapGarbage out;
  *out.mutable_snapshot() = to_proto(image.info);
  *out.mutable_garbage() = to_proto(garbage.all);
  *out.mutable_young() = to_proto(garbage.young);
  *out.mutable_dead() = to_proto(garbage.dead);
  const std::uint64_t longest_wait_ns = image.info.longest_wait_ns;
  if (longest_wait_ns != 0) out.set_longest_wait_seconds(seconds(longest_wait_ns));
  out.set_more_sites(put_rows(garbage.sites, rows, out.mutable_sites(),
                              [&](const GarbageRow& row, pb::GarbageSite& site) {
                                site.set_name(valid_utf8(row.name));
                                put_sum(row.sum, rate, site);
                                put_sum(row.young, rate, *site.mutable_young());
                                put(row.ages, *site.mutable_ages());
                                if (row.longest_wait_ns) {
                                  site.set_longest_wait_seconds(seconds(*row.longest_wait_ns));
                                }
                              }));
  return out;
}

pb::HeapWaste waste_answer(const HeapImage& image, const ShortestPaths& paths, std::size_t rows) {
  pb::HeapWaste out;
  *out.mutable_snapshot() = to_proto(image.info);
  for (const WasteRow& row : find_waste(image, paths)) {
    const WasteText text = describe(row.pattern);
    pb::WastePattern& pattern = *out.add_patterns();
    pattern.set_pattern(text.what);
    pattern.set_instead(text.remedy);
    pattern.set_blocks(row.blocks);
    pattern.set_bytes(row.words * kWordBytes);
    pattern.set_bytes_to_win(row.words_to_win * kWordBytes);
    pattern.set_more_places(put_rows(row.places, rows, pattern.mutable_places(),
                                     [&](const WasteRoot& from, pb::WastePlace& place) {
                                       place.set_root(
                                           valid_utf8(root_text(image.root_names[from.root_name])));
                                       place.set_bytes_to_win(from.words_to_win * kWordBytes);
                                     }));
  }
  *out.mutable_types() = to_proto(count_typed(image, paths));
  return out;
}

pb::HeapAssertions assertions_answer(const HeapImage& image, const ShortestPaths& paths,
                                     std::size_t rows) {
  pb::HeapAssertions out;
  *out.mutable_snapshot() = to_proto(image.info);
  const std::vector<AssertionOutcome> outcomes =
      check_assertions(image, paths, quantile_of_chance(RuleCheck().chance));
  out.set_more_assertions(
      put_rows(outcomes, rows, out.mutable_assertions(),
               [](const AssertionOutcome& outcome, pb::CheckedAssertion& one) {
                 const CheckResult result = result_of(outcome);
                 one.set_name(valid_utf8(outcome.assertion.name));
                 one.set_assertion(valid_utf8(result.name));
                 one.set_verdict(verdict_name(result.verdict));
                 one.set_text(valid_utf8(result.text));
                 one.set_violating_values(outcome.violating);
                 one.set_values_not_due(outcome.assertion.not_due);
                 one.set_values_not_checked(outcome.assertion.unchecked);
                 put_rows(outcome.holders, 0, one.mutable_holders(),
                          [](const AssertionOutcome::Holder& holder, pb::AssertionHolder& path) {
                            path.set_path(valid_utf8(holder.path));
                            path.set_values(holder.values);
                          });
               }));
  return out;
}

}  // namespace memprofd
