// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/block_names.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/snapshot/types/unit_block.h"
#include "daemon/util/utf8.h"

namespace memprofd {

std::vector<FieldName> block_names(SourceModules& modules, SourceTypes& types,
                                   const std::string& unit, std::size_t fields) {
  std::vector<UnitField> block = unit_block(modules, unit);
  if (block.empty()) block = unit_block(modules, absl::StrReplaceAll(unit, {{".", "__"}}));
  const bool is_whole = block.size() == fields;
  const std::string own = SourceModules::unit_text(unit);
  std::vector<FieldName> names(std::min(block.size(), fields));
  std::map<std::string, int> times;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const UnitField& one = block[i];
    if (one.field.name.empty() || !(is_whole || one.sure == UnitField::Sure::kExported)) continue;
    const std::string& module = modules.name_of(one.module);
    const bool is_inner = one.sure == UnitField::Sure::kNested && module.starts_with(own + ".");
    names[i] = {valid_utf8(absl::StrCat(is_inner ? module : own, ".", one.field.name)),
                valid_utf8(types.text(types.of_field(one.module, one.field)))};
    ++times[names[i].name];
  }
  for (FieldName& one : names) {
    if (times[one.name] != 1) one = {};
  }
  return names;
}

}  // namespace memprofd
