// SPDX-License-Identifier: Apache-2.0
// Types of sampled blocks by where the source allocates them: the type of the expression that
// stands just there. A block whose tag, number of fields or identifier is not of that type has
// none, nor has one where expressions of several types stand that it could be of. C code may make
// more than its result, for a result of lists of pairs the pairs: what could be a part of the
// result is not taken for it.
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
  // All of which must outlive this.
  SiteTypes(const HeapImage& image, SourceModules& modules, SourceTypes& types);

  bool empty() const { return found_.empty(); }

  struct Answer {
    TypeId type = SourceTypes::kUnknown;
    bool is_unfit = false;  // something stands there, but not this block alone
  };
  // The block has a place in the image.
  Answer of(const SampledBlock& sampled);

 private:
  static constexpr std::size_t kMostParts = 256;

  bool is_made(std::uint32_t block, SourceExpression::Makes makes, TypeId type);
  bool may_be_part(std::uint32_t block, TypeId type);

  const HeapImage& image_;
  SourceTypes& types_;
  ExpressionsAt found_;
};

}  // namespace memprofd
