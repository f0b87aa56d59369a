// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/kept_heaps.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/heaps/heap_garbage.h"
#include "daemon/export/heaps/heap_service.h"
#include "daemon/history/snapshot.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/answers/waste.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

constexpr std::uint32_t kUsualTableRows = 20, kUsualAreas = 10;

void put(const ImageInfo& info, pb::KeptHeap& out) {
  out.set_program(valid_utf8(info.program));
  out.set_pid(static_cast<std::int32_t>(info.pid));
  out.set_ocaml_version(valid_utf8(info.ocaml_version));
  out.set_unix_ns(info.unix_ns);
  out.set_pause_seconds(static_cast<double>(info.pause_ns) * 1e-9);
  out.set_sampling_rate(info.sampling_rate);
  out.set_heap_bytes(info.heap_words * kWordBytes);
}

void put(const KeptHeap& kept, pb::KeptHeap& out) {
  put(kept.info, out);
  out.set_name(valid_utf8(kept.name));
  out.set_file_bytes(kept.file_bytes);
}

void put(const DiffRow& row, pb::HeapDiffRow& out) {
  out.set_name(valid_utf8(row.name));
  *out.mutable_base() = to_proto(row.before);
  *out.mutable_other() = to_proto(row.after);
  out.set_change_bytes(row.growth_words() * static_cast<std::int64_t>(kWordBytes));
}

// The first rows; how many there are beyond.
template <typename Rows>
std::uint64_t put_rows(const std::vector<DiffRow>& rows, std::size_t limit, Rows* out) {
  const std::size_t told = std::min(limit, rows.size());
  for (std::size_t i = 0; i < told; ++i) put(rows[i], *out->Add());
  return rows.size() - told;
}

void put_sites(const ImageDiff& diff, double base_rate, double other_rate, std::size_t limit,
               pb::CompareHeapsResponse& out) {
  const double base_grain = grain_words(base_rate), other_grain = grain_words(other_rate);
  const std::size_t told = std::min(limit, diff.sites.size());
  for (std::size_t i = 0; i < told; ++i) {
    const SiteDiffRow& row = diff.sites[i];
    pb::HeapSiteDiffRow& site = *out.add_sites();
    site.set_name(valid_utf8(row.name));
    *site.mutable_base() = to_proto(row.before.estimate, base_grain);
    *site.mutable_other() = to_proto(row.after.estimate, other_grain);
    if (diff.same_process) *site.mutable_stayed() = to_proto(row.stayed.estimate, other_grain);
    site.set_change_bytes(row.growth_words() * kBytesPerWord);
    site.set_change_stderr(row.growth_stderr_bytes());
  }
  out.set_more_sites(diff.sites.size() - told);
}

// Those with the most memory in all censuses together.
std::vector<std::string> largest_classes(const std::vector<ShortCensusPtr>& censuses,
                                         std::size_t limit) {
  std::map<std::string, std::uint64_t> words;
  for (const ShortCensusPtr& census : censuses) {
    for (const NamedCount& row : census->classes) words[row.name] += row.count.words;
  }
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [name, sum] : words) order.emplace_back(~sum, name);
  std::ranges::sort(order);
  if (order.size() > limit) order.resize(limit);
  std::vector<std::string> names;
  for (auto& [unused, name] : order) names.push_back(std::move(name));
  return names;
}

void put_classes(const std::vector<ShortCensusPtr>& censuses, std::size_t limit,
                 pb::ListCensusesResponse& out) {
  std::map<std::string, pb::CensusClass*> rows;
  for (const std::string& name : largest_classes(censuses, limit)) {
    rows[name] = out.add_classes();
    rows[name]->set_name(valid_utf8(name));
  }
  for (const ShortCensusPtr& census : censuses) {
    BlockCount other = census->other;
    for (auto& [unused, row] : rows) row->add_counts();
    for (const NamedCount& one : census->classes) {
      const auto row = rows.find(one.name);
      if (row == rows.end()) {
        other.add(one.count);
      } else {
        *row->second->mutable_counts()->rbegin() = to_proto(one.count);
      }
    }
    *out.add_other() = to_proto(other);
  }
}

}  // namespace

pb::CompareHeapsResponse compared(const ImageSummary& base, const ImageSummary& other,
                                  std::uint32_t limit) {
  if (limit == 0) limit = kUsualTableRows;
  const ImageDiff diff = compare_images(base, other);
  pb::CompareHeapsResponse out;
  put(base.info, *out.mutable_base());
  put(other.info, *out.mutable_other());
  out.set_same_process(diff.same_process);
  put_rows(diff.totals, diff.totals.size(), out.mutable_totals());
  out.set_more_roots(put_rows(diff.roots, limit, out.mutable_roots()));
  out.set_more_classes(put_rows(diff.classes, limit, out.mutable_classes()));
  *out.mutable_base_types() = to_proto(base.types);
  *out.mutable_other_types() = to_proto(other.types);
  put_sites(diff, base.info.sampling_rate, other.info.sampling_rate, limit, out);
  return out;
}

pb::FindWasteResponse waste_of(const HeapImage& image, std::uint32_t limit) {
  if (limit == 0) limit = kUsualTableRows;
  pb::FindWasteResponse out;
  put(image.info, *out.mutable_heap());
  const ShortestPaths paths(image);
  *out.mutable_types() = to_proto(count_typed(image, paths));
  for (const WasteRow& row : find_waste(image, paths)) {
    const WasteText text = describe(row.pattern);
    pb::WastePattern& pattern = *out.add_patterns();
    pattern.set_pattern(text.what);
    pattern.set_instead(text.remedy);
    pattern.set_blocks(row.blocks);
    pattern.set_bytes(row.words * kWordBytes);
    pattern.set_bytes_to_win(row.words_to_win * kWordBytes);
    const std::size_t told = std::min<std::size_t>(limit, row.places.size());
    for (std::size_t i = 0; i < told; ++i) {
      pb::WastePlace& place = *pattern.add_places();
      place.set_root(valid_utf8(root_text(image.root_names[row.places[i].root_name])));
      place.set_bytes_to_win(row.places[i].words_to_win * kWordBytes);
    }
    pattern.set_more_places(row.places.size() - told);
  }
  return out;
}

pb::ListHeapsResponse KeptHeaps::list(const pb::ListHeapsRequest& request) const {
  pb::ListHeapsResponse out;
  out.set_directory(valid_utf8(heaps_.kept().directory()));
  for (const KeptHeap& kept : heaps_.kept().list()) {
    if (request.pid() != 0 && kept.info.pid != static_cast<std::uint32_t>(request.pid())) continue;
    put(kept, *out.add_heaps());
  }
  return out;
}

absl::StatusOr<pb::ListCensusesResponse> KeptHeaps::censuses(
    const pb::ListCensusesRequest& request) const {
  if (request.limit() > ShortCensus::kMostClasses) {
    return absl::InvalidArgumentError("bad limit: it is 1 to 100 classes, or 0 for the usual 10");
  }
  pb::ListCensusesResponse out;
  std::vector<ShortCensusPtr> counted;
  std::vector<KeptHeap> heaps = heaps_.kept().list();
  std::ranges::reverse(heaps);
  for (const KeptHeap& kept : heaps) {
    if (request.pid() != 0 && kept.info.pid != static_cast<std::uint32_t>(request.pid())) continue;
    ShortCensusPtr census = heaps_.censuses()->of(kept.info);
    if (census == nullptr) {
      out.set_uncounted(out.uncounted() + 1);
      continue;
    }
    put(kept, *out.add_heaps());
    *out.add_types() = to_proto(census->types);
    counted.push_back(std::move(census));
  }
  put_classes(counted, request.limit() == 0 ? kUsualAreas : request.limit(), out);
  return out;
}

absl::StatusOr<pb::KeepHeapResponse> KeptHeaps::keep(const pb::KeepHeapRequest& request,
                                                     const std::function<bool()>& waits) {
  ASSIGN_OR_RETURN(const TargetSnapshotPtr target, service_.snapshot(request.pid()));
  ASSIGN_OR_RETURN(HeapFiles::File file,
                   heaps_.kept().create(target->info.comm, request.pid(), std::time(nullptr)));
  pb::TakeSnapshotRequest asked;
  asked.set_pid(request.pid());
  asked.set_max_pause_seconds(request.max_pause_seconds());
  pb::SnapshotSummary summary;
  RETURN_IF_ERROR(file.fill(waits, [&](const HeapClient& client) -> absl::Status {
    ASSIGN_OR_RETURN(summary, ControlService(service_).take_snapshot(asked, request.pid(), client));
    return absl::OkStatus();
  }));
  pb::KeepHeapResponse out;
  ASSIGN_OR_RETURN(ImageInfo info, read_heap_info(file.path()));
  put(KeptHeap{std::filesystem::path(file.path()).filename(), summary.file_bytes(),
               std::move(info)},
      *out.mutable_heap());
  return out;
}

absl::StatusOr<pb::CompareHeapsResponse> KeptHeaps::compare(
    const pb::CompareHeapsRequest& request) {
  std::vector<ImageSummary> both;
  RETURN_IF_ERROR(heaps_.look_at_kept({request.base(), request.other()}, [&](HeapImage& image) {
    both.push_back(summarize(image));
    return absl::OkStatus();
  }));
  pb::CompareHeapsResponse out = compared(both[0], both[1], request.limit());
  out.mutable_base()->set_name(request.base());
  out.mutable_other()->set_name(request.other());
  return out;
}

absl::StatusOr<pb::FindWasteResponse> KeptHeaps::find_waste(const pb::FindWasteRequest& request) {
  pb::FindWasteResponse out;
  RETURN_IF_ERROR(heaps_.look_at_kept({request.name()}, [&](HeapImage& image) {
    out = waste_of(image, request.limit());
    return absl::OkStatus();
  }));
  out.mutable_heap()->set_name(request.name());
  return out;
}

absl::StatusOr<pb::FindGarbageResponse> KeptHeaps::find_garbage(
    const pb::FindGarbageRequest& request) {
  const std::uint32_t limit = request.limit() == 0 ? kUsualTableRows : request.limit();
  pb::FindGarbageResponse out;
  RETURN_IF_ERROR(heaps_.look_at_kept({request.name()}, [&](HeapImage& image) {
    put(image.info, *out.mutable_heap());
    *out.mutable_garbage() = garbage_of(image, ShortestPaths(image), limit);
    return absl::OkStatus();
  }));
  out.mutable_heap()->set_name(request.name());
  return out;
}

}  // namespace memprofd
