// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/heap_garbage.h"

#include <algorithm>
#include <optional>

#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/heaps/heap_service.h"
#include "daemon/snapshot/answers/garbage.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

void put(const GarbageRow& row, double grain, pb::GarbageSite& out) {
  out.set_name(valid_utf8(row.name));
  out.set_sampled_blocks(row.sum.blocks);
  *out.mutable_garbage() = to_proto(row.sum.estimate, grain);
  *out.mutable_young() = to_proto(row.young.estimate, grain);
  if (const auto age = row.ages.quantile(0.5)) out.set_age_p50_seconds(seconds(*age));
  if (const auto age = row.ages.quantile(0.9)) out.set_age_p90_seconds(seconds(*age));
  if (const auto age = row.ages.longest()) out.set_longest_age_seconds(seconds(*age));
  if (row.longest_wait_ns) out.set_longest_wait_seconds(seconds(*row.longest_wait_ns));
}

}  // namespace

pb::HeapGarbage garbage_of(const HeapImage& image, const ShortestPaths& paths, std::size_t limit) {
  const Garbage garbage = find_garbage(image, paths);
  pb::HeapGarbage out;
  *out.mutable_all() = to_proto(garbage.all);
  *out.mutable_young() = to_proto(garbage.young);
  *out.mutable_dead() = to_proto(garbage.dead);
  if (image.info.longest_wait_ns != 0) {
    out.set_longest_wait_seconds(seconds(image.info.longest_wait_ns));
  }
  const std::size_t told = std::min(limit, garbage.sites.size());
  const double grain = grain_words(image.info.sampling_rate);
  for (std::size_t i = 0; i < told; ++i) put(garbage.sites[i], grain, *out.add_sites());
  out.set_more_sites(garbage.sites.size() - told);
  return out;
}

}  // namespace memprofd
