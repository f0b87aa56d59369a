// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/unit_block.h"

#include <map>
#include <utility>

namespace memprofd {

std::vector<UnitField> unit_block(SourceModules& modules, const std::string& unit) {
  using Field = SourceModules::Field;
  const SourceModules::ModuleId interface = modules.interface_of(unit);
  const SourceModules::ModuleId implementation = modules.unit(unit);
  std::vector<UnitField> block;
  if (interface == SourceModules::kNoModule) return block;
  std::vector<Field> defined;
  if (implementation != interface) defined = modules.fields_of(implementation);
  // Of several definitions of an item, the last one is exported.
  std::map<std::pair<Field::What, std::string>, std::size_t> last;
  for (std::size_t i = 0; i < defined.size(); ++i) last[{defined[i].what, defined[i].name}] = i;
  std::vector<bool> is_exported(defined.size());
  for (Field& field : modules.fields_of(interface)) {
    const auto found = last.find({field.what, field.name});
    if (found != last.end()) is_exported[found->second] = true;
    // A module has the fields of its signature.
    const bool is_better = found != last.end() && field.what == Field::What::kValue;
    block.push_back({UnitField::Sure::kExported, is_better ? implementation : interface,
                     is_better ? defined[found->second] : field});
  }
  for (std::size_t i = 0; i < defined.size(); ++i) {
    if (is_exported[i]) continue;
    block.push_back({UnitField::Sure::kDefined, implementation, std::move(defined[i])});
  }
  if (implementation == interface) return block;
  for (auto& [module, field] : modules.nested_fields_of(implementation)) {
    block.push_back({UnitField::Sure::kNested, module, std::move(field)});
  }
  return block;
}

}  // namespace memprofd
