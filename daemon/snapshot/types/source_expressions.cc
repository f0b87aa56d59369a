// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/source_expressions.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "daemon/snapshot/types/expression_nodes.h"

namespace memprofd {
namespace {

using namespace nodes;
using Makes = SourceExpression::Makes;

// These primitives make one block, their result, from their arguments.
constexpr std::string_view kMakeOneBlock[] = {
    "%makemutable",      "caml_make_vect",    "caml_array_make",     "caml_array_sub",
    "caml_array_append", "caml_array_concat", "caml_floatarray_make"};

// Limits at which debuginfo truncates columns.
constexpr std::int64_t kMaxStart = 0xFF, kMaxEnd = 0x3FF;

SourceRange place_of(MarshalValue place, int format) {
  const SourceLine begin = line_of(place.field(0)), end = line_of(place.field(1));
  std::int64_t start = begin.at - begin.begin, stop = end.at - begin.begin;
  if (!tree_of(format).has_all_columns) {
    start = std::min(start, kMaxStart);
    stop = std::min(stop, kMaxEnd);
  }
  return {begin.file, static_cast<std::uint32_t>(begin.line), static_cast<std::uint32_t>(start),
          static_cast<std::uint32_t>(stop)};
}

std::optional<Makes> made_by_call(MarshalValue function) {
  const std::string_view primitive = primitive_of(function);
  if (primitive.empty()) return std::nullopt;
  return std::ranges::count(kMakeOneBlock, primitive) != 0 ? Makes::kItself : Makes::kCall;
}

std::optional<Makes> made_by(MarshalValue what, int format) {
  if (what.is(kExpIdent) || what.is(kExpFunction)) return Makes::kFunction;
  if (what.is(kExpApply)) return made_by_call(what.field(0));
  for (const Description one :
       {kExpTuple, kExpConstruct, kExpVariant, kExpRecord, kExpField, kExpArray, kExpLazy}) {
    if (what.is(description_tag(one, format))) return Makes::kItself;
  }
  return std::nullopt;
}

// Walks all structures of a unit, each part once.
class Walk {
 public:
  Walk(ExpressionsAt& found, const std::map<SourceModules::ModuleId, MarshalValue>& structures,
       int format)
      : found_(found), format_(format) {
    for (const auto& [module, structure] : structures) structures_.insert(structure.identity());
  }

  void run(SourceModules::ModuleId scope, MarshalValue structure) {
    scope_ = scope;
    push_fields(structure);
    while (!open_.empty()) {
      const MarshalValue value = open_.back();
      open_.pop_back();
      if (structures_.contains(value.identity()) || !seen_.insert(value.identity()).second) {
        continue;
      }
      if (is_expression(value)) {
        use(value);
        push(value.field(kDescription));  // neither types nor all names that are known there
      } else {
        push_fields(value);
      }
    }
  }

 private:
  void push(MarshalValue value) {
    if (value.size() != 0) open_.push_back(value);
  }
  void push_fields(MarshalValue value) {
    for (std::uint64_t i = 0; i < value.size(); ++i) push(value.field(i));
  }

  void use(MarshalValue expression) {
    const MarshalValue what = expression.field(kDescription);
    const std::optional<Makes> makes = made_by(what, format_);
    if (!makes) return;
    const MarshalValue type = expression.field(kTypeOfExpression);
    add(expression, *makes, type);
    if (!what.is(kExpConstruct)) return;
    const MarshalValue argument = what.field(2).field(0);
    if (is_expression(argument) && is_inline_record(argument.field(kTypeOfExpression))) {
      add(argument, Makes::kItself, type);
    }
  }

  void add(MarshalValue at, Makes makes, MarshalValue type) {
    const auto wanted = found_.find(place_of(at.field(kPlace), format_));
    if (wanted != found_.end()) wanted->second.push_back({makes, scope_, type});
  }

  ExpressionsAt& found_;
  const int format_;
  SourceModules::ModuleId scope_ = 0;
  absl::flat_hash_set<std::uint64_t> structures_, seen_;
  std::vector<MarshalValue> open_;
};

}  // namespace

void find_expressions(SourceModules& modules, const std::string& unit, ExpressionsAt& found) {
  const auto structures = modules.structures_of(unit);
  if (structures.empty()) return;
  Walk walk(found, structures, modules.format_of(structures.begin()->first));
  for (const auto& [module, structure] : structures) walk.run(module, structure);
}

}  // namespace memprofd
