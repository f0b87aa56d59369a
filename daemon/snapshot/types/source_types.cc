// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/source_types.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/types/type_nodes.h"

namespace memprofd {
namespace {

std::string key_of(const std::string& what, std::uint64_t part,
                   const std::vector<TypeId>& arguments) {
  std::string key = absl::StrCat(what, " ", part);
  for (const TypeId argument : arguments) absl::StrAppend(&key, " ", argument);
  return key;
}

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

TypeId SourceTypes::intern(Type type, const std::string& key) {
  const auto next = static_cast<TypeId>(types_.size());
  if (next >= kMaxTypes) return kUnknown;
  const auto [at, is_new] = known_.try_emplace(key, next);
  if (!is_new) return at->second;
  type.is_vague = (type.declaration != nullptr && modules_.is_generic(type.declaration->module)) ||
                  std::ranges::any_of(type.arguments, [&](TypeId part) { return is_vague(part); });
  if (type.text.size() > kMaxText) {
    type.text.resize(kMaxText);
    type.text += "…";
  }
  type.number = next;
  types_.push_back(std::move(type));
  return next;
}

TypeId SourceTypes::of_expression(MarshalValue expression, ModuleId scope) {
  parts_left_ = kMaxParts;
  return convert(expression, {.module = scope});
}

TypeId SourceTypes::of_module(ModuleId module) {
  if (module == SourceModules::kNoModule) return kUnknown;
  Type type{.what = What::kModule, .text = "module " + modules_.name_of(module), .module = module};
  return intern(std::move(type), key_of("module", module, {}));
}

TypeId SourceTypes::of_field(ModuleId module, const SourceModules::Field& field) {
  switch (field.what) {
    case SourceModules::Field::What::kValue:
      return of_expression(field.type, module);
    case SourceModules::Field::What::kModule:
      return of_module(modules_.module_in(module, field));
    case SourceModules::Field::What::kException:
      return predefined("extension_constructor", {});
    case SourceModules::Field::What::kOther:
      break;
  }
  return kUnknown;
}

TypeId SourceTypes::convert(MarshalValue expression, const Scope& scope) {
  expression = without_links(expression);
  const MarshalValue what = expression.field(0);
  if (scope.depth > kMaxDepth || --parts_left_ < 0) {
    ++cuts_;
    return kUnknown;
  }
  const Scope inner{scope.module, scope.bound, scope.depth + 1};
  switch (what.tag()) {
    case kTypeVariable:
      return variable(expression, scope);
    case kTypeFunction:
      return function(what, inner);
    case kTypeTuple:
      return tuple(what.field(0), inner);
    case kTypeConstructor:
      return of_path(what, inner);
    case kTypeObject:
      return object(what);
    case kTypePolymorphic:
      return polymorphic(what.field(0), inner);
    case kTypeForAll:
      return convert(what.field(0), inner);
    case kTypePackage:
      return intern({.what = What::kPackage, .text = "module"}, "package");
    default:
      return kUnknown;
  }
}

TypeId SourceTypes::variable(MarshalValue expression, const Scope& scope) const {
  if (scope.bound == nullptr) return kUnknown;
  for (const auto& [variable, type] : *scope.bound) {
    if (variable == expression.identity()) return type;
  }
  return kUnknown;
}

TypeId SourceTypes::function(MarshalValue arrow, const Scope& scope) {
  const std::vector<TypeId> parts{convert(arrow.field(1), scope), convert(arrow.field(2), scope)};
  const bool takes_function = types_[parts[0]].what == What::kFunction;
  const std::string from = takes_function ? "(" + text(parts[0]) + ")" : text(parts[0]);
  return intern({.what = What::kFunction,
                 .text = absl::StrCat(from, " -> ", text(parts[1])),
                 .arguments = parts},
                key_of("function", 0, parts));
}

TypeId SourceTypes::tuple(MarshalValue list, const Scope& scope) {
  const std::vector<TypeId> parts = convert_all(list, scope);
  std::string all;
  for (const TypeId part : parts) absl::StrAppend(&all, all.empty() ? "" : " * ", part_text(part));
  return intern({.what = What::kTuple, .text = all, .arguments = parts}, key_of("tuple", 0, parts));
}

// An object is identified by the class of its type, if any.
TypeId SourceTypes::object(MarshalValue what) {
  const std::string name = path_name(what.field(1).field(0).field(0).field(0));
  return intern({.what = What::kObject, .text = name.empty() ? "object" : "object " + name},
                "object " + name);
}

std::vector<TypeId> SourceTypes::convert_all(MarshalValue list, const Scope& scope) {
  std::vector<TypeId> types;
  for_each_in_list(list,
                   [&](MarshalValue one) { types.push_back(convert(tuple_part(one), scope)); });
  return types;
}

TypeId SourceTypes::of_path(MarshalValue constructor, const Scope& scope) {
  const MarshalValue path = constructor.field(0);
  std::vector<TypeId> arguments = convert_all(constructor.field(1), scope);
  if (path.is(nodes::kIdent) && is_predefined(path.field(0))) {
    return predefined(std::string(ident_name(path.field(0))), std::move(arguments));
  }
  const Declaration* found = modules_.type_at(path, scope.module);
  return found == nullptr ? kUnknown : declared(*found, std::move(arguments), scope.depth);
}

std::string SourceTypes::full_name(const Declaration& declaration) const {
  const std::string& module = modules_.name_of(declaration.module);
  return module.empty() ? declaration.name : absl::StrCat(module, ".", declaration.name);
}

std::string SourceTypes::part_text(TypeId type) const {
  const What what = types_[type].what;
  const bool is_loose = what == What::kFunction || what == What::kTuple;
  return is_loose ? absl::StrCat("(", text(type), ")") : text(type);
}

std::string SourceTypes::arguments_text(const std::vector<TypeId>& arguments) const {
  if (arguments.empty()) return "";
  if (arguments.size() == 1) return part_text(arguments[0]) + " ";
  std::string all;
  for (const TypeId argument : arguments) {
    absl::StrAppend(&all, all.empty() ? "(" : ", ", text(argument));
  }
  return all + ") ";
}

TypeId SourceTypes::predefined(const std::string& name, std::vector<TypeId> arguments) {
  const std::string key = key_of(absl::StrCat("predefined ", name), 0, arguments);
  Type type{
      .what = What::kPredefined,
      .text = absl::StrCat(arguments_text(arguments), name == "lazy_t" ? "lazy" : name.c_str()),
      .head = name};
  if (name == "lazy_t" && arguments.size() == 1) type.instead = arguments[0];
  type.arguments = std::move(arguments);
  return intern(std::move(type), key);
}

SourceTypes::Bound SourceTypes::bind(const Declaration& declaration,
                                     const std::vector<TypeId>& arguments) const {
  Bound bound;
  for_each_in_list(declaration.what.field(kDeclParameters), [&](MarshalValue parameter) {
    const TypeId type = bound.size() < arguments.size() ? arguments[bound.size()] : kUnknown;
    bound.emplace_back(without_links(parameter).identity(), type);
  });
  return bound;
}

TypeId SourceTypes::declared(const Declaration& declaration, std::vector<TypeId> arguments,
                             int depth) {
  const int format = modules_.format_of(declaration.module);
  const MarshalValue kind = declaration.what.field(kDeclKind);
  const MarshalValue manifest = declaration.what.field(kDeclManifest).field(0);
  const bool is_record = kind.is(record_tag(format)), is_variant = kind.is(variant_tag(format));
  const bool is_open = !kind.is_block() && kind.integer() == open_number(format);
  const Bound bound = bind(declaration, arguments);
  const Scope scope{declaration.module, &bound, depth + 1};
  if (manifest.is_block()) {
    // type t = M.t = { ... } is M.t, if M.t is known.
    const TypeId same = expanded(declaration, arguments, manifest, scope);
    const What of_same = types_[same].what;
    const bool is_better =
        of_same == What::kRecord || of_same == What::kVariant || of_same == What::kOpen;
    if (is_better || !(is_record || is_variant || is_open)) return same;
  }
  if (!is_record && !is_variant && !is_open)
    return abstract(declaration, std::move(arguments), depth);
  if (is_unboxed(declaration.what, kind, format)) {
    return convert(only_part(kind, is_record), scope);
  }
  const What what = is_record ? What::kRecord : is_variant ? What::kVariant : What::kOpen;
  const std::string key =
      key_of("declared", reinterpret_cast<std::uintptr_t>(&declaration), arguments);
  return intern({.what = what,
                 .text = arguments_text(arguments) + full_name(declaration),
                 .arguments = std::move(arguments),
                 .declaration = &declaration},
                key);
}

// With -rectypes an abbreviation may occur in its own expansion: type term = term list. A truncated
// expansion is repeated when it is needed elsewhere.
TypeId SourceTypes::expanded(const Declaration& declaration, const std::vector<TypeId>& arguments,
                             MarshalValue manifest, const Scope& scope) {
  const std::string key =
      key_of("abbreviation", reinterpret_cast<std::uintptr_t>(&declaration), arguments);
  const auto [at, is_new] = expansions_.try_emplace(key);
  if (!is_new && at->second.is_done) return at->second.type;
  if (!is_new) {
    if (at->second.itself == kUnknown) {
      Type itself{.what = What::kItself,
                  .text = arguments_text(arguments) + full_name(declaration),
                  .arguments = arguments};
      at->second.itself = intern(std::move(itself), key);
    }
    return at->second.itself;
  }
  const int cuts = cuts_;
  const TypeId type = convert(manifest, scope);
  Expansion& expansion = expansions_[key];
  const TypeId itself = expansion.itself;
  if (itself != kUnknown) types_[itself].instead = known_by(type);
  if (itself != kUnknown || (cuts_ == cuts && expansions_.size() < kMaxTypes)) {
    expansion = {.is_done = true, .type = type, .itself = itself};
  } else {
    expansions_.erase(key);
  }
  return type;
}

// Values of an abstract type have that type, whatever their representation is.
TypeId SourceTypes::abstract(const Declaration& declaration, std::vector<TypeId> arguments,
                             int depth) {
  const Declaration* behind = modules_.behind(declaration);
  if (behind != nullptr && depth < kMaxDepth)
    return declared(*behind, std::move(arguments), depth + 1);
  const std::string name = full_name(declaration);
  if (name == "Obj.t") return kUnknown;  // any value can be converted to it
  if (name == "Atomic.t") return predefined("Atomic.t", std::move(arguments));
  const std::string key =
      key_of("declared", reinterpret_cast<std::uintptr_t>(&declaration), arguments);
  return intern({.what = What::kAbstract,
                 .text = arguments_text(arguments) + name,
                 .arguments = std::move(arguments)},
                key);
}

// A hash in the value selects the tag, and the image lacks it. So the argument is known only if all
// tags have the same type.
TypeId SourceTypes::polymorphic(MarshalValue row, const Scope& scope) {
  std::map<std::string, MarshalValue> tags;
  const std::string name = row_name(row);
  // A row may continue in another one.
  for (int n = 0; n < kMaxDepth; ++n) {
    for_each_in_list(row.field(kRowFields),
                     [&](MarshalValue tag) { tags.emplace(tag.field(0).text(), tag.field(1)); });
    const MarshalValue more = without_links(row.field(kRowMore)).field(0);
    if (!more.is(kTypePolymorphic)) break;
    row = more.field(0);
  }
  std::vector<TypeId> arguments;
  std::string all;
  bool is_known = row.field(row_closed_field(row)).integer() != 0;
  for (const auto& [tag, what] : tags) {
    absl::StrAppend(&all, all.empty() ? "[ `" : " | `", tag);
    is_known = is_known && (what.is(kRowPresent) || !what.is_block());
    if (!what.is(kRowPresent) || !what.field(0).is_block()) continue;
    arguments.push_back(convert(what.field(0).field(0), scope));
    absl::StrAppend(&all, " of ", text(arguments.back()));
  }
  const bool is_one = !arguments.empty() && std::ranges::all_of(arguments, [&](TypeId argument) {
    return argument == arguments[0];
  });
  arguments = {is_one && is_known ? arguments[0] : kUnknown};
  const std::string shown = name.empty() ? all + " ]" : name;
  Type type{.what = What::kPolymorphic, .text = shown, .arguments = arguments};
  return intern(std::move(type), absl::StrCat("row ", shown, " ", arguments[0]));
}

std::deque<BlockKind>& SourceTypes::kinds(TypeId type) {
  type = known_by(type);
  if (!types_[type].has_kinds) {
    types_[type].has_kinds = true;
    parts_left_ = kMaxParts;
    make_kinds(types_[type]);
  }
  return types_[type].kinds;
}

// ------------------------------------------------------------- kinds of blocks

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
