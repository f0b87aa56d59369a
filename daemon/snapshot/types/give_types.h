// SPDX-License-Identifier: Apache-2.0
// Gives the blocks of an image the types of the program's source. The fields of modules' blocks
// have types, in the files of the compiler; what a field of a typed block points to has the field's
// type, breadth first. Constructors are told by tags: an image has no integers.
//
// A block that is not as its type says (tag, fields, a custom block's identifier) keeps none, and
// counts; what is held in two ways that have different types keeps the first. What only has part of
// its type known (_ list) is looked at after all that is known wholly. The files must be of the
// program's own build: who finds them compares digests (source_files.h); where the program has
// none, only such disagreements tell.
#pragma once

#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/source_modules.h"

namespace memprofd {

// most_items: of modules, each some 300 bytes.
void give_types(HeapImage& image, const FindUnit& find,
                std::size_t most_items = SourceModules::kMostItems);

}  // namespace memprofd
