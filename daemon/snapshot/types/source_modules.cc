// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/source_modules.h"

#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/snapshot/types/type_nodes.h"

namespace memprofd {
namespace {

using namespace nodes;

class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace

std::string_view ident_name(MarshalValue ident) { return ident.field(0).text(); }
std::int64_t ident_stamp(MarshalValue ident) {
  return ident.is(kGlobal) ? 0 : ident.field(1).integer();
}
bool is_predefined(MarshalValue ident) { return ident.is(kPredefined); }

std::string SourceModules::unit_text(const std::string& unit) {
  if (unit == "Stdlib") return "";
  for (const std::string_view prefix : {"Stdlib__", "Dune__exe__"}) {
    if (unit.starts_with(prefix)) return unit_text(unit.substr(prefix.size()));
  }
  std::string text = absl::StrReplaceAll(unit, {{"__", "."}});
  // The library of 4.11 has Stdlib__hashtbl.
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string SourceModules::name_below(ModuleId module, std::string_view name) const {
  const std::string& above = modules_[module].name;
  return above.empty() ? std::string(name) : absl::StrCat(above, ".", std::string(name));
}

SourceUnit SourceModules::find(const std::string& unit) {
  SourceUnit files = find_(unit);
  if (files.is_of_other_build) other_builds_.insert(unit_text(unit));
  has_unverified_ = has_unverified_ || files.is_unverified;
  return files;
}

SourceModules::ModuleId SourceModules::unit(const std::string& name) {
  const auto [at, is_new] = units_.try_emplace(name, kNoModule);
  if (!is_new) return at->second;
  const SourceUnit files = find(name);
  const MarshalValue structure =
      files.implementation == nullptr ? MarshalValue() : files.implementation->structure();
  if (!structure.is_block()) return units_[name] = interface_of(name);
  const ModuleId module = new_module(kNoModule, unit_text(name), files.implementation->format);
  units_[name] = module;
  add_structure(module, structure);
  return module;
}

SourceModules::ModuleId SourceModules::interface_of(const std::string& name) {
  if (const auto known = interfaces_.find(name); known != interfaces_.end()) return known->second;
  const SourceUnit files = find(name);
  ModuleId module = kNoModule;
  if (files.interface != nullptr && files.interface->signature().is_block()) {
    module = new_module(kNoModule, unit_text(name), files.interface->format);
    add_signature(module, files.interface->signature());
  }
  interfaces_[name] = module;
  if (module != kNoModule && files.implementation != nullptr) {
    const ModuleId implementation = unit(name);
    if (implementation != module) modules_[module].behind = implementation;
  }
  return module;
}

SourceModules::ModuleId SourceModules::new_module(ModuleId parent, std::string name, int format) {
  const auto module = static_cast<ModuleId>(modules_.size());
  modules_.emplace_back();
  modules_[module].parent = parent;
  modules_[module].name = std::move(name);
  modules_[module].format = format;
  modules_[module].is_generic = modules_[parent].is_generic;
  return module;
}

SourceModules::ModuleId SourceModules::of_expression(MarshalValue expression, ModuleId scope,
                                                     const std::string& name) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxDepth || modules_.size() > kMaxModules) return kNoModule;
  const MarshalValue what = expression.field(0);
  const int format = modules_[scope].format;
  ModuleId found = kNoModule;
  if (what.is(kExprIdent)) {
    found = module_at(what.field(0), scope);
  } else if (what.is(kStructure)) {
    found = of_structure(what.field(0), scope, name);
  } else if (what.is(kFunctor)) {
    found = functor(what.field(0), what.field(1), false, scope, name);
  } else if (what.is(kApplied)) {
    const ModuleId applied = of_expression(what.field(0), scope, name);
    found = apply(applied, of_expression(what.field(1), scope, "struct"));
  } else if (what.is(constraint_tag(format))) {
    found = of_expression(what.field(0), scope, name);
  }
  if (found != kNoModule) return found;
  return of_type(expression.field(kExpressionType), scope, name, kNoModule);
}

SourceModules::ModuleId SourceModules::of_type(MarshalValue type, ModuleId scope,
                                               const std::string& name, ModuleId behind) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxDepth || modules_.size() > kMaxModules) return kNoModule;
  switch (type.tag()) {
    case kTypeIdent: {
      const Item* named = item_at(Kind::kModuleType, type.field(0), scope);
      return named == nullptr ? kNoModule : of_type(named->declared, named->scope, name, behind);
    }
    case kSignature:
      return of_signature(type.field(0), scope, name, behind);
    case kFunctorType:
      return functor(type.field(0), type.field(1), true, scope, name);
    case kAlias:
      return module_at(type.field(0), scope);
    default:
      return kNoModule;
  }
}

SourceModules::ModuleId SourceModules::of_structure(MarshalValue structure, ModuleId scope,
                                                    const std::string& name) {
  const Key key{structure.identity(), scope};
  if (const auto known = structures_.find(key); known != structures_.end()) return known->second;
  const ModuleId module = new_module(scope, name, modules_[scope].format);
  structures_[key] = module;
  add_structure(module, structure);
  return module;
}

SourceModules::ModuleId SourceModules::of_signature(MarshalValue signature, ModuleId scope,
                                                    const std::string& name, ModuleId behind) {
  const std::pair<Key, ModuleId> key{{signature.identity(), scope}, behind};
  if (const auto known = signatures_.find(key); known != signatures_.end()) return known->second;
  const ModuleId module = new_module(scope, name, modules_[scope].format);
  signatures_[key] = module;
  modules_[module].behind = behind;
  add_signature(module, signature);
  return module;
}

SourceModules::ModuleId SourceModules::functor(MarshalValue parameter, MarshalValue body,
                                               bool body_is_type, ModuleId scope,
                                               const std::string& name) {
  const Key key{body.identity(), scope};
  if (const auto known = structures_.find(key); known != structures_.end()) return known->second;
  const ModuleId module = new_module(scope, name, modules_[scope].format);
  structures_[key] = module;
  modules_[module].is_functor = true;
  modules_[module].body_is_type = body_is_type;
  modules_[module].parameter = parameter.field(0).field(0);  // Named (Some ident, ...)
  modules_[module].body = body;
  return module;
}

SourceModules::ModuleId SourceModules::apply(ModuleId functor, ModuleId argument) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxDepth || !modules_[functor].is_functor) return kNoModule;
  const auto [at, is_new] = applications_.try_emplace(Key{functor, argument}, kNoModule);
  if (!is_new) return at->second;
  const std::string name = absl::StrCat(modules_[functor].name, "(", modules_[argument].name, ")");
  const ModuleId scope = new_module(modules_[functor].parent, name, modules_[functor].format);
  if (modules_[functor].parameter.is_block()) {
    Item& item = add_item(scope, Kind::kModule, modules_[functor].parameter);
    item.is_made = true;
    item.module = argument;
  }
  const MarshalValue body = modules_[functor].body;
  const ModuleId module = modules_[functor].body_is_type ? of_type(body, scope, name, kNoModule)
                                                         : of_expression(body, scope, name);
  return applications_[Key{functor, argument}] = module;
}

SourceModules::ModuleId SourceModules::module_of(Item& item) {
  if (item.is_made || item.is_being_made) return item.module;
  item.is_being_made = true;
  const std::string name = name_below(item.scope, item.name);
  if (item.expression.is_block()) {
    item.module = of_expression(item.expression, item.scope, name);
  } else if (item.included.is_block()) {
    Item* found =
        item_named(Kind::kModule, of_expression(item.included, item.scope, name), item.name);
    if (found != nullptr) item.module = module_of(*found);
  }
  if (item.module == kNoModule) item.module = of_type(item.declared, item.scope, name, kNoModule);
  item.is_made = true;
  return item.module;
}

std::map<SourceModules::ModuleId, MarshalValue> SourceModules::structures_of(
    const std::string& name) {
  std::map<ModuleId, MarshalValue> found;
  const ModuleId module = unit(name);
  const SourceUnit files = find(name);
  if (module == kNoModule || files.implementation == nullptr) return found;
  const MarshalValue structure = files.implementation->structure();
  if (!structure.is_block()) return found;
  found.emplace(module, structure);
  add_structures_in(module, found);
  return found;
}

void SourceModules::add_structures_in(ModuleId module, std::map<ModuleId, MarshalValue>& found) {
  for (const auto& [stamp, item] : modules_[module].by_stamp) {
    if (!item->expression.is_block()) continue;
    add_structures(item->expression, item->scope, name_below(item->scope, item->name), found);
  }
}

void SourceModules::add_structures(MarshalValue expression, ModuleId scope, const std::string& name,
                                   std::map<ModuleId, MarshalValue>& found) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxDepth || modules_.size() > kMaxModules) return;
  const MarshalValue what = expression.field(0);
  const int format = modules_[scope].format;
  if (what.is(constraint_tag(format))) {
    add_structures(what.field(0), scope, name, found);
  } else if (what.is(kFunctor)) {
    const ModuleId body = new_module(scope, name + "(_)", format);
    modules_[body].is_generic = true;
    add_structures(what.field(1), body, name + "(_)", found);
  } else if (what.is(kStructure)) {
    const ModuleId module = of_structure(what.field(0), scope, name);
    if (found.emplace(module, what.field(0)).second) add_structures_in(module, found);
  }
}

SourceModules::ModuleId SourceModules::module_at(MarshalValue path, ModuleId from) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxDepth) return kNoModule;
  if (path.is(kApply)) return apply(module_at(path.field(0), from), module_at(path.field(1), from));
  if (path.is(kIdent) && path.field(0).is(kGlobal)) {
    return unit(std::string(ident_name(path.field(0))));
  }
  Item* item = item_at(Kind::kModule, path, from);
  return item == nullptr ? kNoModule : module_of(*item);
}

SourceModules::Item* SourceModules::item_at(Kind kind, MarshalValue path, ModuleId from) {
  if (path.is(kIdent)) return item_by_stamp(path.field(0), from);
  if (!path.is(kDot)) return nullptr;
  return item_named(kind, module_at(path.field(0), from), std::string(path.field(1).text()));
}

SourceModules::Item* SourceModules::item_by_stamp(MarshalValue ident, ModuleId from) {
  const std::int64_t stamp = ident_stamp(ident);
  if (stamp == 0 || is_predefined(ident)) return nullptr;
  for (; from != kNoModule; from = modules_[from].parent) {
    const auto found = modules_[from].by_stamp.find(stamp);
    if (found == modules_[from].by_stamp.end()) continue;
    // A signature's own declaration of its item is less precise than the implementation.
    Item& item = *found->second;
    const Kind kind = item.declaration.what.is_block() ? Kind::kType : Kind::kModule;
    Item* behind = modules_[from].behind == kNoModule
                       ? nullptr
                       : item_named(kind, modules_[from].behind, item.name);
    return behind != nullptr ? behind : &item;
  }
  return nullptr;
}

SourceModules::Item* SourceModules::item_named(Kind kind, ModuleId module,
                                               const std::string& name) {
  if (module == kNoModule) return nullptr;
  ModuleId behind = modules_[module].behind;
  for (int n = 0; behind != kNoModule && n < kMaxDepth; behind = modules_[behind].behind, ++n) {
    const auto found = modules_[behind].by_name.find({kind, name});
    if (found != modules_[behind].by_name.end()) return found->second;
  }
  const auto found = modules_[module].by_name.find({kind, name});
  return found == modules_[module].by_name.end() ? nullptr : found->second;
}

const SourceModules::Declaration* SourceModules::type_at(MarshalValue path, ModuleId from) {
  Item* item = item_at(Kind::kType, path, from);
  return item != nullptr && item->declaration.what.is_block() ? &item->declaration : nullptr;
}

const SourceModules::Declaration* SourceModules::type_named(ModuleId module,
                                                            const std::string& name) {
  Item* item = item_named(Kind::kType, module, name);
  return item == nullptr ? nullptr : &item->declaration;
}

// A type from an include is declared where the included module takes it from.
const SourceModules::Declaration* SourceModules::behind(const Declaration& declaration) {
  const auto found = modules_[declaration.module].by_name.find({Kind::kType, declaration.name});
  const auto by_stamp = [&]() -> Item* {
    for (const auto& [stamp, item] : modules_[declaration.module].by_stamp) {
      if (&item->declaration == &declaration) return item;
    }
    return nullptr;
  };
  Item* item = found != modules_[declaration.module].by_name.end() &&
                       &found->second->declaration == &declaration
                   ? found->second
                   : by_stamp();
  if (item == nullptr || !item->included.is_block()) return nullptr;
  const ModuleId from = of_expression(item->included, item->scope, modules_[item->scope].name);
  const Declaration* better = type_named(from, declaration.name);
  return better != &declaration ? better : nullptr;
}

// -------------------------------------------------------- contents of a module

SourceModules::Item& SourceModules::add_item(ModuleId module, Kind kind, MarshalValue ident) {
  Item& item = items_.emplace_back();
  item.name = ident_name(ident);
  item.stamp = ident_stamp(ident);
  item.scope = module;
  modules_[module].by_name[{kind, item.name}] = &item;
  if (item.stamp != 0) modules_[module].by_stamp[item.stamp] = &item;
  return item;
}

void SourceModules::add_signature(ModuleId module, MarshalValue signature) {
  modules_[module].signature = signature;
  for_each_in_list(signature, [&](MarshalValue item) {
    const MarshalValue ident = item.field(0);
    if (items_.size() >= most_items_) return;
    if (item.is(kSigType)) {
      Item& added = add_item(module, Kind::kType, ident);
      added.declared = item.field(1);
      added.declaration = {added.name, module, added.declared};
    } else if (item.is(kSigModule)) {
      add_item(module, Kind::kModule, ident).declared = item.field(2).field(0);
    } else if (item.is(kSigModuleType)) {
      add_item(module, Kind::kModuleType, ident).declared = item.field(1).field(0).field(0);
    }
  });
}

void SourceModules::add_structure(ModuleId module, MarshalValue structure) {
  add_signature(module, structure.field(kStructureType));
  for_each_in_list(structure.field(kItems), [&](MarshalValue item) {
    const MarshalValue what = item.field(0);
    if (what.is(kStrModule)) add_expression(module, what.field(0));
    if (what.is(kStrRecursive)) {
      for_each_in_list(what.field(0),
                       [&](MarshalValue binding) { add_expression(module, binding); });
    }
    if (what.is(kStrOpen) || what.is(kStrInclude)) add_included(module, what.field(0));
  });
}

void SourceModules::add_expression(ModuleId module, MarshalValue binding) {
  const MarshalValue ident = binding.field(0).field(0);  // of an option
  if (!ident.is_block()) return;
  const auto known = modules_[module].by_stamp.find(ident_stamp(ident));
  Item& item = known != modules_[module].by_stamp.end() ? *known->second
                                                        : add_item(module, Kind::kModule, ident);
  item.expression = expression_of_binding(binding);
}

void SourceModules::add_included(ModuleId module, MarshalValue include) {
  for_each_in_list(include.field(kIncludedType), [&](MarshalValue one) {
    const MarshalValue ident = one.field(0);
    const bool is_type = one.is(kSigType);
    if (items_.size() >= most_items_ || (!is_type && !one.is(kSigModule))) return;
    const auto known = modules_[module].by_stamp.find(ident_stamp(ident));
    if (known != modules_[module].by_stamp.end()) {
      known->second->included = include.field(kIncluded);
      return;
    }
    // An open brings names that the module itself does not have.
    Item& item = items_.emplace_back();
    item.name = ident_name(ident);
    item.stamp = ident_stamp(ident);
    item.scope = module;
    item.included = include.field(kIncluded);
    item.declared = is_type ? one.field(1) : one.field(2).field(0);
    if (is_type) item.declaration = {item.name, module, item.declared};
    modules_[module].by_stamp[item.stamp] = &item;
  });
}

std::vector<SourceModules::Field> SourceModules::fields_of(ModuleId module) {
  std::vector<Field> fields;
  for_each_in_list(modules_[module].signature, [&](MarshalValue item) {
    Field field{.name = std::string(ident_name(item.field(0))),
                .stamp = ident_stamp(item.field(0))};
    if (item.is(kSigValue) && !item.field(1).field(1).is_block()) {
      field.what = Field::What::kValue;
      field.type = item.field(1).field(0);
    } else if (item.is(kSigModule) && item.field(1).integer() == 0) {
      field.what = Field::What::kModule;
      field.type = item.field(2).field(0);
    } else if (item.is(kSigExtension)) {
      field.what = Field::What::kException;
    } else if (!item.is(kSigClass)) {
      return;
    }
    fields.push_back(std::move(field));
  });
  return fields;
}

std::vector<SourceModules::NestedField> SourceModules::nested_fields_of(ModuleId module) {
  std::vector<NestedField> fields;
  for (const Field& field : fields_of(module)) add_nested_in(module, field, fields);
  return fields;
}

void SourceModules::add_nested_in(ModuleId module, const Field& field,
                                  std::vector<NestedField>& fields) {
  const auto found = modules_[module].by_stamp.find(field.stamp);
  if (found == modules_[module].by_stamp.end() || fields.size() > kMaxModules) return;
  MarshalValue what = found->second->expression.field(0);
  if (what.is(constraint_tag(modules_[module].format))) what = what.field(0).field(0);
  if (!what.is(kStructure)) return;
  const ModuleId inner = module_of(*found->second);
  for (Field& one : fields_of(inner)) {
    fields.push_back({inner, one});
    add_nested_in(inner, one, fields);
  }
}

SourceModules::ModuleId SourceModules::module_in(ModuleId module, const Field& field) {
  const auto found = modules_[module].by_stamp.find(field.stamp);
  if (field.type.is(kAlias) || found == modules_[module].by_stamp.end()) return kNoModule;
  ModuleId behind = kNoModule;
  if (Item* implemented = item_named(Kind::kModule, module, field.name)) {
    behind = module_of(*implemented);
  }
  return of_type(field.type, module, name_below(module, field.name), behind);
}

}  // namespace memprofd
