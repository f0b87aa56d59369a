// SPDX-License-Identifier: Apache-2.0
// Names and types, from the source, of the fields of a compilation unit's block.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/snapshot/types/source_types.h"

namespace memprofd {

struct FieldName {
  std::string name;  // "Cache.table"; empty: not known
  std::string type;  // "(int, string) Hashtbl.t"
};

// fields: number of the block's fields. Exports of the interface are at their place. Other names
// are assigned only if the block has exactly the fields of the source, and no two fields share a
// name. Empty if there are no files.
std::vector<FieldName> block_names(SourceModules& modules, SourceTypes& types,
                                   const std::string& unit, std::size_t fields);

}  // namespace memprofd
