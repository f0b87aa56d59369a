// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/size_table.h"

#include <algorithm>
#include <tuple>

namespace memprofd {

std::uint64_t SizeTable::blocks(unsigned tag, std::uint64_t fields) const {
  if (fields < kFlatFields) return flat_[tag * kFlatFields + fields];
  const auto at = others_.find(fields << 8 | tag);
  return at == others_.end() ? 0 : at->second;
}

std::vector<SizeRow> SizeTable::rows() const {
  std::vector<SizeRow> rows;
  for (std::uint64_t i = 0; i < flat_.size(); ++i) {
    if (flat_[i] == 0) continue;
    rows.push_back({static_cast<unsigned>(i / kFlatFields), i % kFlatFields, flat_[i]});
  }
  for (const auto& [key, blocks] : others_) {
    rows.push_back({static_cast<unsigned>(key & 0xff), key >> 8, blocks});
  }
  std::sort(rows.begin(), rows.end(), [](const SizeRow& a, const SizeRow& b) {
    return std::tie(a.tag, a.fields) < std::tie(b.tag, b.fields);
  });
  return rows;
}

}  // namespace memprofd
