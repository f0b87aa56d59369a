// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/census_store.h"

#include <algorithm>

namespace memprofd {

ShortCensus shortened(const ImageInfo& info, const ImageCensus& census) {
  ShortCensus out{.info = info,
                  .types = census.types,
                  .garbage = census.total.garbage,
                  .classes = {},
                  .other = {}};
  for (const CensusRow& row : census.by_class) {
    if (row.reachable.blocks != 0) out.classes.push_back({row.name, row.reachable});
  }
  std::ranges::stable_sort(out.classes, [](const NamedCount& a, const NamedCount& b) {
    return a.count.words > b.count.words;
  });
  while (out.classes.size() > ShortCensus::kMaxClasses) {
    out.other.add(out.classes.back().count);
    out.classes.pop_back();
  }
  return out;
}

void CensusStore::add(ShortCensus census) {
  const Key key(census.info.unix_ns, census.info.pid);
  const MutexLock lock(mutex_);
  censuses_[key] = std::make_shared<const ShortCensus>(std::move(census));
  if (censuses_.size() > kMax) censuses_.erase(censuses_.begin());
}

ShortCensusPtr CensusStore::of(const ImageInfo& info) const {
  const MutexLock lock(mutex_);
  const auto known = censuses_.find({info.unix_ns, info.pid});
  return known == censuses_.end() ? nullptr : known->second;
}

ShortCensusPtr CensusStore::latest(std::uint32_t pid, std::int64_t since_unix_ns) const {
  const MutexLock lock(mutex_);
  for (auto at = censuses_.rbegin(); at != censuses_.rend(); ++at) {
    if (at->first.first < since_unix_ns) break;
    if (at->first.second == pid) return at->second;
  }
  return nullptr;
}

}  // namespace memprofd
