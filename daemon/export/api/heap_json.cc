// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/heap_json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "daemon/snapshot/answers/tree_rows.h"

namespace memprofd {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::uint64_t bytes_of(std::uint64_t words) { return words * 8; }

Json info_json(const ImageInfo& info) {
  return {{"program", info.program},
          {"pid", info.pid},
          {"ocaml_version", info.ocaml_version},
          {"unix_ns", info.unix_ns},
          {"pause_seconds", static_cast<double>(info.pause_ns) / 1e9},
          {"sampling_rate", info.sampling_rate},
          {"complete", info.complete}};
}

Json count_json(const BlockCount& count) {
  return {{"blocks", count.blocks}, {"bytes", bytes_of(count.words)}};
}

void put_sum(Json& out, const SampledSum& sum, double rate) {
  const Limits limits = sum.estimate.limits_bytes(grain_words(rate));
  out["sampled_blocks"] = sum.blocks;
  out["bytes"] = sum.estimate.bytes();
  out["bytes_stderr"] = sum.estimate.stderr_bytes();
  out["bytes_lower"] = limits.lower;
  out["bytes_upper"] = limits.upper;
}
Json sum_json(const SampledSum& sum, double rate) {
  Json out;
  put_sum(out, sum, rate);
  return out;
}
void put_sums(Json& out, const SiteSums& sums, double rate) {
  out["reachable"] = sum_json(sums.reachable(), rate);
  out["garbage"] = sum_json(sums.garbage(), rate);
  out["dead"] = sum_json(sums.dead(), rate);
}

Json seconds_json(std::optional<std::uint64_t> ns) {
  return ns ? Json(static_cast<double>(*ns) / 1e9) : Json();
}

template <typename Rows, typename Put>
Json array_of(const Rows& rows, Put put) {
  Json out = Json::array();
  for (const auto& row : rows) out.push_back(put(row));
  return out;
}

void put_types(Json& out, const TypedCount& types) {
  const TypesFound& found = types.found;
  if (found.modules == 0 && found.by_site == 0 && found.other_builds.empty()) return;
  out["types"] = {{"modules", types.found.modules},
                  {"modules_without_files", types.found.modules_without_files},
                  {"disagreed", types.found.disagreed},
                  {"by_site", types.found.by_site},
                  {"sites_unfit", types.found.sites_unfit},
                  {"sites_disagreed", types.found.sites_disagreed},
                  {"other_builds", types.found.other_builds},
                  {"unverified", types.found.unverified},
                  {"reachable", count_json(types.typed)},
                  {"all_reachable", count_json(types.reachable)}};
}

Json census_row_json(const CensusRow& row) {
  return {{"name", row.name},
          {"reachable", count_json(row.reachable)},
          {"garbage", count_json(row.garbage)},
          {"dead", count_json(row.dead)},
          {"outside_bytes", row.outside_reachable_bytes},
          {"garbage_outside_bytes", row.outside_garbage_bytes}};
}

Json free_json(const ImageCensus& census) {
  Json out = count_json(census.free);
  out["largest_bytes"] = bytes_of(census.largest_free_words);
  out["fragmentation"] = census.fragmentation();
  out["sizes"] = array_of(census.free_sizes, [](const FreeRow& row) {
    Json size = count_json(row.count);
    size["most_words"] = row.most_words;
    return size;
  });
  return out;
}

Json diff_row_json(const DiffRow& row) {
  return {{"name", row.name},
          {"change_bytes", row.growth_words() * 8},
          {"base", count_json(row.before)},
          {"other", count_json(row.after)}};
}

// Lines of a tree, which know their depth, put into each other.
template <typename Put>
Json nested(const std::vector<TreeLine>& lines, Put put) {
  Json out = Json::array();
  std::vector<Json*> open{&out};  // lists by depth
  for (const TreeLine& line : lines) {
    open.resize(line.depth + 1);
    Json item = put(line);
    if (line.more == 0) item["children"] = Json::array();
    open.back()->push_back(std::move(item));
    if (line.more == 0) open.push_back(&open.back()->back()["children"]);
  }
  return out;
}

}  // namespace

std::string census_json(const ImageInfo& info, const ImageCensus& census,
                        const std::vector<SiteRow>& sites) {
  Json out{{"snapshot", info_json(info)}};
  put_types(out, census.types);
  out["heap"] = census_row_json(census.total);
  out["heap"].erase("name");
  out["heap"]["young"] = count_json(census.young);
  out["free"] = free_json(census);
  out["kinds"] = array_of(census.by_tag, census_row_json);
  out["shapes"] = array_of(census.by_class, census_row_json);
  out["sizes"] = array_of(census.by_size, census_row_json);
  out["sites"] = array_of(sites, [&](const SiteRow& row) {
    Json site{{"name", row.name}};
    put_sums(site, row.sums, info.sampling_rate);
    return site;
  });
  return dump(out);
}

std::string retained_json(const ImageInfo& info, const RetainedTable& table,
                          const std::vector<std::uint32_t>& tops, const TreeLimits& limits) {
  Json out{{"snapshot", info_json(info)}};
  out["reachable"] = count_json({table.rows[0].blocks, table.rows[0].words});
  out["reachable"]["outside_bytes"] = table.rows[0].outside_bytes;
  out["roots"] = nested(retained_lines(table, tops, limits), [&](const TreeLine& line) -> Json {
    if (line.more != 0) {
      return {{"more", line.more},
              {"bytes", bytes_of(line.more_words)},
              {"outside_bytes", line.more_outside_bytes}};
    }
    const RetainedRow& row = table.rows[line.item];
    return {{"name", line.depth == 0 ? table.full_name(line.item) : row.name},
            {"blocks", row.blocks},
            {"bytes", bytes_of(row.words)},
            {"outside_bytes", row.outside_bytes}};
  });
  return dump(out);
}

std::string why_outside_json(const ImageInfo& info, const WhyOutside& why,
                             const TreeLimits& limits) {
  const auto put = [](const OutsideCount& count) -> Json {
    return {{"blocks", count.blocks},
            {"outside_bytes", count.bytes},
            {"resident_bytes", count.resident}};
  };
  Json out{{"snapshot", info_json(info)}};
  out["classes"] = array_of(why.classes(), [&](const OutsideRow& row) -> Json {
    return {{"name", row.name}, {"reachable", put(row.reachable)}, {"garbage", put(row.garbage)}};
  });
  out["paths"] = nested(path_lines(why.tree(), limits), [&](const TreeLine& line) -> Json {
    if (line.more != 0) return {{"more", line.more}};
    const SampledSum& through = why.tree().steps()[line.item].through;
    return {{"path", line.text},
            {"blocks", through.blocks},
            {"outside_bytes", static_cast<std::uint64_t>(through.estimate.bytes())}};
  });
  return dump(out);
}

std::string why_json(const ImageInfo& info, const Why& why, const TreeLimits& limits) {
  Json out{{"snapshot", info_json(info)}};
  put_types(out, why.types());
  out["sites"] = array_of(why.sites(), [](const SiteRow& row) { return row.name; });
  put_sums(out, why.sums(), info.sampling_rate);
  out["paths"] = nested(path_lines(why.tree(), limits), [&](const TreeLine& line) -> Json {
    if (line.more != 0) return {{"more", line.more}};
    Json path{{"path", line.text}};
    put_sum(path, why.tree().steps()[line.item].through, info.sampling_rate);
    return path;
  });
  return dump(out);
}

std::string image_diff_json(const ImageSummary& before, const ImageSummary& after,
                            const ImageDiff& diff) {
  Json out{{"base", info_json(before.info)},
           {"other", info_json(after.info)},
           {"same_process", diff.same_process}};
  out["heap"] = array_of(diff.totals, diff_row_json);
  out["roots"] = array_of(diff.roots, diff_row_json);
  out["shapes"] = array_of(diff.classes, diff_row_json);
  out["sites"] = array_of(diff.sites, [&](const SiteDiffRow& row) {
    Json site{{"name", row.name},
              {"change_bytes", row.growth_words() * kBytesPerWord},
              {"change_bytes_stderr", row.growth_stderr_bytes()},
              {"base", sum_json(row.before, before.info.sampling_rate)},
              {"other", sum_json(row.after, after.info.sampling_rate)}};
    if (diff.same_process) site["stayed"] = sum_json(row.stayed, after.info.sampling_rate);
    return site;
  });
  return dump(out);
}

std::string garbage_json(const ImageInfo& info, const Garbage& garbage) {
  Json out{{"snapshot", info_json(info)},
           {"garbage", count_json(garbage.all)},
           {"young", count_json(garbage.young)},
           {"dead", count_json(garbage.dead)}};
  const std::uint64_t longest = info.longest_wait_ns;
  out["longest_wait_seconds"] = seconds_json(longest == 0 ? std::nullopt : std::optional(longest));
  out["sites"] = array_of(garbage.sites, [&](const GarbageRow& row) {
    Json site{{"name", row.name}};
    put_sum(site, row.sum, info.sampling_rate);
    site["young"] = sum_json(row.young, info.sampling_rate);
    site["ages"] = {{"p50_seconds", seconds_json(row.ages.quantile(0.5))},
                    {"p90_seconds", seconds_json(row.ages.quantile(0.9))},
                    {"longest_seconds", seconds_json(row.ages.longest())}};
    site["longest_wait_seconds"] = seconds_json(row.longest_wait_ns);
    return site;
  });
  return dump(out);
}

std::string waste_json(const HeapImage& image, const std::vector<WasteRow>& rows) {
  Json out{{"snapshot", info_json(image.info)}};
  out["patterns"] = array_of(rows, [&](const WasteRow& row) {
    Json pattern{{"pattern", describe(row.pattern).what},
                 {"blocks", row.blocks},
                 {"bytes", bytes_of(row.words)},
                 {"bytes_to_win", bytes_of(row.words_to_win)}};
    pattern["places"] = array_of(row.places, [&](const WastePlace& place) -> Json {
      return {{"root", root_text(image.root_names[place.root_name])},
              {"bytes_to_win", bytes_of(place.words_to_win)}};
    });
    return pattern;
  });
  return dump(out);
}

}  // namespace memprofd
