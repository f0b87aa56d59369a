// SPDX-License-Identifier: Apache-2.0
// Finds the type of the block that an expression at a place of the source makes, by the .cmt file:
//
//     Hashtbl.add all id { id; name }        at columns 19 to 31 a block of type session
//
// The typed source is walked as marshalled data: every value with the form of an expression (a
// place as its second field, a type as its fourth) counts as one. So only the few compiler types
// that make blocks need to be known.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/types/source_modules.h"

namespace memprofd {

struct SourceExpression {
  enum class Makes : std::uint8_t {
    kFunction,  // its closure
    kItself,    // a block of its type
    kCall       // what C code makes for its result, or parts of that
  };
  Makes makes = Makes::kItself;
  SourceModules::ModuleId scope = 0;  // where its type is written
  MarshalValue type;                  // Types.type_expr
};

// File, line, columns from to, counted from the beginning of that line: as a program's debuginfo
// has it, which up to OCaml 5.1 has no columns beyond some.
using SourceRange = std::tuple<std::string_view, std::uint32_t, std::uint32_t, std::uint32_t>;
// The texts belong to their owner.
using ExpressionsAt = absl::flat_hash_map<SourceRange, std::vector<SourceExpression>>;

// Adds to each location in found the block-making expressions of the unit at that location.
void find_expressions(SourceModules& modules, const std::string& unit, ExpressionsAt& found);

}  // namespace memprofd
