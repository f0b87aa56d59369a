// SPDX-License-Identifier: Apache-2.0
// The block that a compilation unit has at run time, as ocamlopt (without flambda) makes it: what
// the interface exports, in its order; then what else the structure defines; then what structures
// in it define, which they have in blocks of their own as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/types/source_modules.h"

namespace memprofd {

struct UnitField {
  enum class Sure : std::uint8_t { kExported, kDefined, kNested };
  Sure sure = Sure::kExported;
  SourceModules::ModuleId module = 0;  // where its type is written
  SourceModules::Field field;
};

// Empty when there is no interface.
std::vector<UnitField> unit_block(SourceModules& modules, const std::string& unit);

}  // namespace memprofd
