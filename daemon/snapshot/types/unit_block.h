// SPDX-License-Identifier: Apache-2.0
// The block of a compilation unit at run time, as ocamlopt (without flambda) creates it: first the
// exports of the interface, in order; then the other definitions of the structure; then the
// definitions of nested structures, which also have blocks of their own.
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

// Empty if there is no interface.
std::vector<UnitField> unit_block(SourceModules& modules, const std::string& unit);

}  // namespace memprofd
