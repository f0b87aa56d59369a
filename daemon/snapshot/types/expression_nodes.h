// SPDX-License-Identifier: Apache-2.0
// Constructors and fields of the compiler's Typedtree.expression and of places in the source:
// those that are read.
#pragma once

#include <cctype>
#include <cstdint>
#include <string_view>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/types/type_nodes.h"

namespace memprofd::nodes {

// Typedtree.expression; a pattern has the same fields.
inline constexpr std::uint64_t kExpressionFields = 6, kDescription = 0, kPlace = 1,
                               kTypeOfExpression = 3;
// Typedtree.expression_desc, by the tags of the oldest release.
enum Description {
  kExpIdent = 0,
  kExpFunction = 3,
  kExpApply = 4,
  kExpTuple = 7,
  kExpConstruct = 8,
  kExpVariant = 9,
  kExpRecord = 10,
  kExpField = 11,
  kExpArray = 13,
  kExpLazy = 26
};
inline int description_tag(Description description, int format) {
  // One more stands before them, and two that stood there are gone.
  if (tree_of(format).has_struct_item && description > kExpArray) return description - 1;
  return description + (tree_of(format).has_atomic_loc && description > kExpRecord ? 1 : 0);
}

// Lexing.position, Location.t.
struct SourceLine {
  std::string_view file;
  std::int64_t line = 0, begin = 0, at = 0;  // begin: of the line, in the file
};
inline SourceLine line_of(MarshalValue position) {
  return {position.field(0).text(), position.field(1).integer(), position.field(2).integer(),
          position.field(3).integer()};
}
inline bool is_place(MarshalValue value) {
  const MarshalValue begin = value.field(0), end = value.field(1);
  return value.is(0) && value.size() == 3 && begin.size() == 4 && end.size() == 4 &&
         begin.field(0).is(kStringTag);
}
inline bool is_expression(MarshalValue value) {
  return value.is(0) && value.size() == kExpressionFields && is_place(value.field(kPlace)) &&
         value.field(kTypeOfExpression).size() == 4;
}

// Name of the C function or compiler primitive that is called; empty for a function written in
// OCaml, or an unknown one.
inline std::string_view primitive_of(MarshalValue function) {
  const MarshalValue what = function.field(kDescription);
  const MarshalValue kind = what.is(kExpIdent) ? what.field(2).field(1) : MarshalValue();
  return kind.is(0) ? kind.field(0).field(0).text() : std::string_view();
}

// True for the type of the braces in Constructor { field = 1 }: the block is the constructor's.
inline bool is_inline_record(MarshalValue type) {
  const MarshalValue what = without_links(type).field(0);
  if (!what.is(kTypeConstructor)) return false;
  const MarshalValue path = what.field(0);
  const std::string_view last = path.is(1) ? path.field(1).text() : std::string_view();
  return path.is(3) || (!last.empty() && std::isupper(static_cast<unsigned char>(last[0])) != 0);
}

}  // namespace memprofd::nodes
