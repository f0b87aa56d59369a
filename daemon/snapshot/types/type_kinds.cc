// SPDX-License-Identifier: Apache-2.0
// The kinds of blocks that values of a type have.
#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/types/source_types.h"
#include "daemon/snapshot/types/type_nodes.h"

namespace memprofd {
namespace {

// Built-in types whose blocks have one tag and no typed fields.
struct Plain {
  std::string_view type;
  int tag;
  std::uint64_t fields;
  std::string_view custom;
};
constexpr Plain kPlain[] = {
    {"string", kStringTag, BlockKind::kAnySize, ""},
    {"bytes", kStringTag, BlockKind::kAnySize, ""},
    {"float", kFloatTag, 1, ""},
    {"floatarray", kFloatArrayTag, BlockKind::kAnySize, ""},
    {"int32", kCustomTag, BlockKind::kAnySize, "_i"},
    {"int64", kCustomTag, BlockKind::kAnySize, "_j"},
    {"nativeint", kCustomTag, BlockKind::kAnySize, "_n"},
    {"extension_constructor", kObjectTag, 2, ""},
    {"continuation", kContinuationTag, BlockKind::kAnySize, ""},
    // An exception without arguments is its constructor; another one begins with its constructor.
    {"exn", 0, BlockKind::kAnySize, ""},
    {"exn", kObjectTag, 2, ""},
    {"eff", 0, BlockKind::kAnySize, ""},
    {"eff", kObjectTag, 2, ""},
};

}  // namespace

void SourceTypes::make_kinds(Type& type) {
  const std::string& text = type.text;
  constexpr std::uint64_t kAny = BlockKind::kAnySize;
  switch (type.what) {
    case What::kUnknown:
    case What::kItself:  // its kinds are those of the expanded type
      return;
    case What::kPredefined:
      return make_predefined(type);
    case What::kRecord:
      return make_record(type);
    case What::kVariant:
      return make_variant(type);
    case What::kOpen:
      add_kind(type, {.tag = 0, .fields = kAny, .name = text});
      return add_kind(type,
                      {.tag = kObjectTag, .fields = 2, .name = text, .has_other_names = true});
    case What::kAbstract:
      return add_kind(type, {.tag = BlockKind::kAnyTag, .fields = kAny, .name = text});
    case What::kTuple:
      return add_kind(
          type, {.tag = 0, .fields = type.arguments.size(), .name = text, .types = type.arguments});
    case What::kFunction:
      return add_kind(type,
                      {.tag = kClosureTag, .fields = kAny, .name = text, .is_function = true});
    case What::kPolymorphic:
      return add_kind(
          type, {.tag = 0, .fields = 2, .name = text, .types = {kUnknown, type.arguments[0]}});
    case What::kObject:
      return add_kind(type, {.tag = kObjectTag, .fields = kAny, .name = text});
    case What::kPackage:
      return add_kind(type, {.tag = 0, .fields = kAny, .name = text});
    case What::kModule:
      return make_module(type);
  }
}

void SourceTypes::make_predefined(Type& type) {
  const std::string& text = type.text;
  constexpr std::uint64_t kAny = BlockKind::kAnySize;
  for (const Plain& plain : kPlain) {
    if (type.head != plain.type) continue;
    add_kind(type, {.tag = plain.tag,
                    .fields = plain.fields,
                    .name = text,
                    .custom = std::string(plain.custom),
                    .has_other_names = plain.tag == kObjectTag});
  }
  if (type.arguments.size() != 1) return;
  const TypeId part = type.arguments[0];
  if (type.head == "list") {
    add_kind(type, {.tag = 0, .fields = 2, .name = text, .types = {part, type.number}});
  } else if (type.head == "option") {
    add_kind(type, {.tag = 0, .fields = 1, .name = text, .types = {part}});
  } else if (type.head == "Atomic.t") {
    add_kind(type, {.tag = 0, .fields = 1, .name = text, .types = {part}});
  } else if (type.head == "array" || type.head == "iarray") {
    if (types_[part].text != "float")
      add_kind(type, {.tag = 0, .fields = kAny, .name = text, .every = part, .is_array = true});
    if (types_[part].text == "float" || part == kUnknown || types_[part].what == What::kAbstract) {
      add_kind(type, {.tag = kFloatArrayTag, .fields = kAny, .name = text});
    }
  } else if (type.head == "lazy_t") {
    for (const unsigned tag : {kLazyTag, kForcingTag}) {
      add_kind(type, {.tag = static_cast<int>(tag), .fields = 1, .name = text});
    }
    add_kind(type, {.tag = kForwardTag, .fields = 1, .name = text, .types = {part}});
  }
}

void SourceTypes::add_labels(BlockKind& kind, MarshalValue labels, const Scope& scope) {
  for_each_in_list(labels, [&](MarshalValue label) {
    kind.types.push_back(convert(label_type(label), scope));
    kind.labels.emplace_back(ident_name(label.field(0)));
  });
  kind.fields = kind.types.size();
}

void SourceTypes::make_record(Type& type) {
  const Bound bound = bind(*type.declaration, type.arguments);
  const MarshalValue what = type.declaration->what.field(kDeclKind);
  const MarshalValue representation = what.field(1);
  BlockKind kind{.name = type.text};
  add_labels(kind, what.field(0), {type.declaration->module, &bound});
  const bool is_of_floats = !representation.is_block() && representation.integer() == 1;
  if (is_of_floats) {
    kind.tag = kFloatArrayTag;
    kind.types.clear();
  }
  add_kind(type, std::move(kind));
}

void SourceTypes::make_variant(Type& type) {
  int tag = 0;
  for_each_in_list(type.declaration->what.field(kDeclKind).field(0), [&](MarshalValue constructor) {
    const MarshalValue arguments = constructor.field(kConstructorArguments);
    if (!arguments.field(0).is_block()) return;  // no arguments: an integer
    add_constructor(type, constructor, tag++);
  });
}

void SourceTypes::add_constructor(Type& type, MarshalValue constructor, int tag) {
  const MarshalValue arguments = constructor.field(kConstructorArguments);
  const MarshalValue result =
      without_links(constructor.field(kConstructorResult).field(0)).field(0);
  Bound bound;
  if (result.is(kTypeConstructor)) {
    // A constructor of a GADT has its own variables; those that are not in its result may be
    // anything.
    for_each_in_list(result.field(1), [&, i = std::size_t{0}](MarshalValue argument) mutable {
      const TypeId known = i < type.arguments.size() ? type.arguments[i] : kUnknown;
      bound.emplace_back(without_links(argument).identity(), known);
      ++i;
    });
  } else {
    bound = bind(*type.declaration, type.arguments);
  }
  const Scope scope{type.declaration->module, &bound};
  BlockKind kind{.tag = tag,
                 .name = type.text + "." + std::string(ident_name(constructor.field(0)))};
  if (arguments.is(kRecordArguments)) {
    add_labels(kind, arguments.field(0), scope);
  } else {
    kind.types = convert_all(arguments.field(0), scope);
    kind.fields = kind.types.size();
  }
  add_kind(type, std::move(kind));
}

void SourceTypes::make_module(Type& type) {
  if (modules_.is_functor(type.module)) {
    return add_kind(type, {.tag = kClosureTag,
                           .fields = BlockKind::kAnySize,
                           .name = type.text,
                           .has_other_names = true});
  }
  BlockKind kind{.name = type.text, .has_other_names = true};
  for (const SourceModules::Field& field : modules_.fields_of(type.module)) {
    kind.types.push_back(of_field(type.module, field));
    kind.labels.push_back(field.name);
  }
  kind.fields = kind.types.size();
  add_kind(type, std::move(kind));
}

}  // namespace memprofd
