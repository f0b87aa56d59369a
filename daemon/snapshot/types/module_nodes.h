// SPDX-License-Identifier: Apache-2.0
// Constructors and fields of the compiler's Ident, Path, Types and Typedtree: those that
// modules are read by.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/snapshot/types/marshal_graph.h"
#include "daemon/snapshot/types/type_nodes.h"

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
