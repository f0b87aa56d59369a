// SPDX-License-Identifier: Apache-2.0
// Types of sampled blocks by the location of their allocation in the source: the type of the
// expression at exactly that location. A block gets no type if its tag, number of fields or
// identifier does not match, or if expressions of several matching types are there. C code may
// allocate more than its result, such as the pairs in a list of pairs. A block that could be a part
// of the result is therefore not taken for the result.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/source_expressions.h"
#include "daemon/snapshot/types/source_types.h"

namespace memprofd {

class SiteTypes {
 public:
  // All arguments must outlive this.
  SiteTypes(const HeapImage& image, SourceModules& modules, SourceTypes& types);

  bool empty() const { return found_.empty(); }

  struct Answer {
    TypeId type = SourceTypes::kUnknown;
    bool is_unfit = false;  // expressions exist there, but they do not identify this block
  };
  // The block has a place in the image.
  Answer of(const SampledBlock& sampled);

 private:
  static constexpr std::size_t kMaxParts = 256;

  bool is_made(std::uint32_t block, SourceExpression::Makes makes, TypeId type);
  bool may_be_part(std::uint32_t block, TypeId type);

  const HeapImage& image_;
  SourceTypes& types_;
  ExpressionsAt found_;
};

}  // namespace memprofd
