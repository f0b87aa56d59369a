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

#include "daemon/export/heaps/heap_answers.h"
#include "daemon/history/snapshot.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

constexpr std::uint32_t kUsualAreas = 10;

void put(const KeptHeap& kept, pb::KeptHeap& out) {
  out = to_proto(kept.info);
  out.set_name(valid_utf8(kept.name));
  out.set_file_bytes(kept.file_bytes);
}

// The classes with the most memory, over all censuses.
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
  if (request.limit() > ShortCensus::kMaxClasses) {
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
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, service_.snapshot(request.pid()));
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

absl::StatusOr<pb::HeapDiff> KeptHeaps::compare(const pb::CompareHeapsRequest& request) {
  std::vector<ImageSummary> both;
  RETURN_IF_ERROR(heaps_.analyse_kept({request.base(), request.other()}, [&](HeapImage& image) {
    both.push_back(summarize(image));
    return absl::OkStatus();
  }));
  pb::HeapDiff out = diff_answer(both[0], both[1], rows_of(request.limit()));
  out.mutable_base()->set_name(request.base());
  out.mutable_other()->set_name(request.other());
  return out;
}

}  // namespace memprofd
