// SPDX-License-Identifier: Apache-2.0
// Gives the blocks of an image the types of the program's source. The fields of modules' blocks
// have types, in the files of the compiler; what a field of a typed block points to has the field's
// type, breadth first. Constructors are told by tags: an image has no integers.
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

// most_items: of modules, each some 300 bytes.
void give_types(HeapImage& image, const FindUnit& find,
                std::size_t most_items = SourceModules::kMostItems);

}  // namespace memprofd
