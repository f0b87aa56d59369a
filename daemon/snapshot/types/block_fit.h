// SPDX-License-Identifier: Apache-2.0
// Checks whether a block can have a type of the source.
#pragma once

#include <cstdint>

#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/source_types.h"

namespace memprofd {

// Compares tag, number of fields and identifier.
inline bool fits(const HeapImage& image, std::uint32_t block, const BlockKind& kind) {
  const BlockShape& shape = image.shape(block);
  return (kind.tag == shape.tag || kind.tag == BlockKind::kAnyTag) &&
         (kind.fields == BlockKind::kAnySize || kind.fields == shape.words - 1) &&
         (kind.custom.empty() || kind.custom == image.texts[shape.name]);
}

// The first kind of that type that matches the block; null: there is none.
inline BlockKind* find_kind(const HeapImage& image, SourceTypes& types, std::uint32_t block,
                            TypeId type) {
  for (BlockKind& kind : types.kinds(type)) {
    if (fits(image, block, kind)) return &kind;
  }
  return nullptr;
}

}  // namespace memprofd
