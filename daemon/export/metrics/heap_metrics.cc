// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/heap_metrics.h"

#include <algorithm>
#include <map>
#include <string>

#include "daemon/snapshot/block_header.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr MetricName kBytes{"memprofd_heap_class_bytes",
                            "Reachable bytes in the last heap snapshot that memprofd has read, by "
                            "source type or, if unknown, by shape; other: all beyond the largest."};
constexpr MetricName kBlocks{"memprofd_heap_class_blocks", "Blocks of memprofd_heap_class_bytes."};
constexpr MetricName kTyped{
    "memprofd_heap_typed_bytes",
    "Bytes of memprofd_heap_class_bytes in blocks with a known source type."};
constexpr MetricName kGarbage{
    "memprofd_heap_garbage_bytes",
    "Bytes of floating garbage in that snapshot: unreachable, not collected yet."};
constexpr MetricName kCensusTaken{"memprofd_heap_census_timestamp_seconds",
                                  "Moment of that snapshot, Unix time."};

constexpr std::size_t kMaxNameBytes = 200;

double bytes_of(const BlockCount& count) { return static_cast<double>(count.words * kWordBytes); }

}  // namespace

void add_heap_metrics(const ShortCensus& census, MetricFamilies& out) {
  // Long names may become equal when they are truncated.
  std::map<std::string, BlockCount> series;
  BlockCount& other = series["other"];
  other.add(census.other);
  for (std::size_t i = 0; i < census.classes.size(); ++i) {
    const NamedCount& row = census.classes[i];
    const std::string name = valid_utf8(row.name.substr(0, kMaxNameBytes));
    (i < kHeapClassSeries ? series[name] : other).add(row.count);
  }
  for (const auto& [name, count] : series) {
    out.gauge(kBytes, {{"class", name}}, bytes_of(count));
    out.gauge(kBlocks, {{"class", name}}, static_cast<double>(count.blocks));
  }
  out.gauge(kTyped, {}, bytes_of(census.types.typed));
  out.gauge(kGarbage, {}, bytes_of(census.garbage));
  out.gauge(kCensusTaken, {}, static_cast<double>(census.info.unix_ns) / 1e9);
}

}  // namespace memprofd
