// SPDX-License-Identifier: Apache-2.0
// Contents of a module: items to which paths lead, and fields of its block.
#include <utility>

#include "daemon/snapshot/types/module_nodes.h"
#include "daemon/snapshot/types/source_modules.h"

namespace memprofd {

using namespace nodes;

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
  if (found == modules_[module].by_stamp.end() || fields.size() > kMostModules) return;
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
