// SPDX-License-Identifier: Apache-2.0
// Assigns the types of the program's source to the blocks of an image. The compiler's files give
// types to the fields of modules' blocks. A block to which a field of a typed block points gets the
// field's type, breadth first. Tags distinguish constructors, because an image has no integers.
//
// A block that does not match its type (tag, fields, a custom block's identifier) gets none and is
// counted. A block that is reached with two different types keeps the first. Blocks whose type is
// only partly known (_ list) come after those with a complete type. The files must belong to the
// program's own build: digests are compared when they are found (source_files.h). If the program
// has none, only such mismatches reveal another build.
#pragma once

#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/source_modules.h"

namespace memprofd {

// most_items: limit for the items of modules, of some 300 bytes each.
void assign_types(HeapImage& image, const FindUnit& find,
                  std::size_t most_items = SourceModules::kMaxItems);

}  // namespace memprofd
