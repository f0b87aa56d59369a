// SPDX-License-Identifier: Apache-2.0
// Constructors and fields of the compiler's Ident, Path, Types and Typedtree: those that are read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/runtime/runtime_abi.h"
#include "daemon/snapshot/types/marshal_graph.h"

namespace memprofd {

// Types.type_desc.
inline constexpr int kTypeVariable = 0, kTypeFunction = 1, kTypeTuple = 2, kTypeConstructor = 3,
                     kTypeObject = 4, kTypeLink = 6, kTypePolymorphic = 8, kTypeForAll = 10,
                     kTypePackage = 11;
// Types.type_declaration.
inline constexpr std::uint64_t kDeclParameters = 0, kDeclKind = 2, kDeclManifest = 4;
// Types.constructor_declaration.
inline constexpr std::uint64_t kConstructorArguments = 1, kConstructorResult = 2;
inline constexpr int kTupleArguments = 0, kRecordArguments = 1;
// Types.row_desc.
inline constexpr std::uint64_t kRowFields = 0, kRowMore = 1;
inline constexpr int kRowPresent = 0;

// Layout of files of that format; an empty one for a format that is not supported.
inline const TypedTree& tree_of(int format) {
  static constexpr TypedTree kUnknown{};
  const TypedTree* const tree = typed_tree_of(format);
  return tree == nullptr ? kUnknown : *tree;
}

// Types.type_decl_kind.
inline int record_tag(int format) { return tree_of(format).has_reason ? 1 : 0; }
inline int variant_tag(int format) { return record_tag(format) + 1; }
inline int open_number(int format) { return tree_of(format).has_reason ? 0 : 1; }
// row_bound is gone since 4.14.
inline std::uint64_t row_closed_field(MarshalValue row) { return row.size() >= 6 ? 3 : 2; }

// Follows the links of a type variable to its type.
inline MarshalValue without_links(MarshalValue expression) {
  for (int n = 0; n < 1000 && expression.field(0).is(kTypeLink); ++n) {
    expression = expression.field(0).field(0);
  }
  return expression;
}
// Since 5.4 a part of a tuple may have a label: a pair, where a type has four fields.
inline MarshalValue tuple_part(MarshalValue part) {
  return part.size() == 2 ? part.field(1) : part;
}
// A label is of a record's field. Since 5.4 it says whether it is atomic, before that.
inline MarshalValue label_type(MarshalValue label) {
  return label.field(label.size() >= 7 ? 3 : 2);
}
// "M.t"; empty: not a path.
inline std::string path_name(MarshalValue path) {
  if (path.is(0)) return std::string(path.field(0).field(0).text());
  if (!path.is(1)) return "";
  const std::string_view last = path.field(1).text();
  const MarshalValue above = path.field(0);
  if (above.is(0)) return std::string(above.field(0).field(0).text()) + "." + std::string(last);
  return std::string(last);
}
inline std::string row_name(MarshalValue row) {
  return path_name(row.field(row.size() - 1).field(0).field(0));
}

// The type of the only part, which represents a value of an unboxed type.
inline MarshalValue only_part(MarshalValue kind, bool is_record) {
  const MarshalValue only = kind.field(0).field(0);
  if (is_record) return label_type(only);
  const MarshalValue arguments = only.field(kConstructorArguments);
  const MarshalValue first = arguments.field(0).field(0);
  return arguments.is(kRecordArguments) ? label_type(first) : first;
}
inline bool is_unboxed(MarshalValue declaration, MarshalValue kind, int format) {
  // Record_unboxed is the first representation of a record with an argument; since 4.13 a variant
  // says so itself.
  if (kind.is(record_tag(format))) return kind.field(1).is(0);
  if (!kind.is(variant_tag(format))) return false;
  if (kind.size() >= 2) return !kind.field(1).is_block() && kind.field(1).integer() == 1;
  const MarshalValue representation = declaration.field(12);  // { unboxed; default }
  return representation.field(0).integer() == 1;
}

}  // namespace memprofd

// Tags of the nodes that are needed to read modules.
namespace memprofd::nodes {

// Constructors that have arguments, by their tags.
enum Ident { kGlobal = 2, kPredefined = 3 };
enum Path { kIdent, kDot, kApply };
enum SignatureItem { kSigValue, kSigType, kSigExtension, kSigModule, kSigModuleType, kSigClass };
enum ModuleType { kTypeIdent, kSignature, kFunctorType, kAlias };
enum StructureItem { kStrModule = 6, kStrRecursive = 7, kStrOpen = 9, kStrInclude = 12 };
enum ModuleExpression { kExprIdent, kStructure, kFunctor, kApplied };

// Fields.
inline constexpr std::uint64_t kItems = 0, kStructureType = 1;    // Typedtree.structure
inline constexpr std::uint64_t kIncluded = 0, kIncludedType = 1;  // include_infos, open_infos
inline constexpr std::uint64_t kExpressionType = 2;               // Typedtree.module_expr

// Typedtree.Tmod_constraint.
inline int constraint_tag(int format) { return tree_of(format).has_unit_application ? 5 : 4; }

inline MarshalValue expression_of_binding(MarshalValue binding) {
  return binding.field(binding.size() >= 7 ? 4 : 3);  // since 5.2 there is mb_uid before it
}

}  // namespace memprofd::nodes
