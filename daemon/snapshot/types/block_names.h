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

// fields: how many the block has. What the interface exports stands at its place; the rest is named
// only where the block has just what the source says, and no name of two fields is one. Empty when
// there are no files.
std::vector<FieldName> block_names(SourceModules& modules, SourceTypes& types,
                                   const std::string& unit, std::size_t fields);

}  // namespace memprofd
