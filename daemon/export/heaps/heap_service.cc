// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/heap_service.h"

#include <algorithm>
#include <vector>

#include "daemon/export/heaps/heap_garbage.h"
#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/answers/tree_rows.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

constexpr std::uint32_t kUsualRows = 20, kUsualDepth = 3, kMostDepth = 100;

void put(const CensusRow& row, pb::HeapClass& out) {
  out.set_name(valid_utf8(row.name));
  *out.mutable_reachable() = to_proto(row.reachable);
  *out.mutable_garbage() = to_proto(row.garbage);
  *out.mutable_dead() = to_proto(row.dead);
  out.set_outside_bytes(row.outside_reachable_bytes);
}

void put_sizes(const ImageCensus& census, pb::DescribeHeapResponse& out) {
  for (const CensusRow& row : census.by_size) put(row, *out.add_sizes());
  for (const FreeRow& row : census.free_sizes) {
    pb::HeapFreeSize& size = *out.add_free_sizes();
    size.set_most_bytes(row.most_words * kWordBytes);
    *size.mutable_free() = to_proto(row.count);
  }
  out.set_largest_free_bytes(census.largest_free_words * kWordBytes);
}

void put_census(const HeapImage& image, std::size_t limit, pb::DescribeHeapResponse& out) {
  const ShortestPaths paths(image);
  const ImageCensus census = count_image(image, paths);
  put(census.total, *out.mutable_all());
  out.mutable_all()->clear_name();
  *out.mutable_free() = to_proto(census.free);
  const std::size_t told = std::min(limit, census.by_class.size());
  for (std::size_t i = 0; i < told; ++i) put(census.by_class[i], *out.add_classes());
  put_sizes(census, out);
  out.set_more_classes(census.by_class.size() - told);
  *out.mutable_types() = to_proto(census.types);
  *out.mutable_garbage() = garbage_of(image, paths, limit);
}

// Lines of a tree, which know their depth, put into each other.
void put_holders(HeapImage& image, std::uint32_t depth, std::size_t limit,
                 pb::DescribeHeapResponse& out) {
  const RetainedTable table = find_retained(image, {.depth = depth});
  std::vector<google::protobuf::RepeatedPtrField<pb::HeapHolder>*> open{out.mutable_holders()};
  for (const TreeLine& line : retained_lines(table, table.children()[0], {.limit = limit})) {
    open.resize(line.depth + 1);
    pb::HeapHolder& holder = *open.back()->Add();
    open.push_back(holder.mutable_children());
    holder.set_more(line.more);
    holder.set_bytes((line.more != 0 ? line.more_words : table.rows[line.item].words) * kWordBytes);
    holder.set_outside_bytes(line.more != 0 ? line.more_outside_bytes
                                            : table.rows[line.item].outside_bytes);
    if (line.more != 0) continue;
    holder.set_name(valid_utf8(table.rows[line.item].name));
    holder.set_blocks(table.rows[line.item].blocks);
  }
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
  out.set_modules(types.found.modules);
  out.set_modules_without_files(types.found.modules_without_files);
  out.set_disagreed(types.found.disagreed);
  *out.mutable_typed() = to_proto(types.typed);
  *out.mutable_reachable() = to_proto(types.reachable);
  out.set_out_of_time(types.found.out_of_time);
  for (const std::string& unit : types.found.other_builds) out.add_other_builds(unit);
  out.set_unverified(types.found.unverified);
  return out;
}

pb::DescribeHeapResponse describe_heap(HeapImage& image, const pb::DescribeHeapRequest& request) {
  const std::uint32_t limit = request.limit() != 0 ? request.limit() : kUsualRows;
  const std::uint32_t depth = request.depth() != 0 ? request.depth() : kUsualDepth;
  pb::DescribeHeapResponse out;
  out.set_pause_seconds(static_cast<double>(image.info.pause_ns) * 1e-9);
  put_census(image, limit, out);
  put_holders(image, depth, limit, out);
  return out;
}

absl::StatusOr<pb::DescribeHeapResponse> describe_heap(InnerHeaps& heaps, ControlService& control,
                                                       const pb::DescribeHeapRequest& request,
                                                       const AskedProcess& process,
                                                       const std::function<bool()>& waits) {
  if (request.depth() > kMostDepth) {
    return absl::InvalidArgumentError("bad depth: it is 1 to 100, or 0 for the usual 3");
  }
  pb::TakeSnapshotRequest asked;
  asked.set_pid(request.pid());
  asked.set_max_pause_seconds(request.max_pause_seconds());
  pb::DescribeHeapResponse out;
  RETURN_IF_ERROR(heaps.look_at_taken(control, asked, process, waits, [&](HeapImage& image) {
    out = describe_heap(image, request);
    return absl::OkStatus();
  }));
  return out;
}

}  // namespace memprofd
