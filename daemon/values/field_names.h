// SPDX-License-Identifier: Apache-2.0
// Names of a program's values in its source, of its modules in the order of ModuleBlocks.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "daemon/snapshot/types/guarded_types.h"

namespace memprofd {

class FieldNames {
 public:
  FieldNames() = default;
  explicit FieldNames(GuardedTypes::Names names) : names_(std::move(names)) {}

  // Returns an empty name if the field's name is unknown.
  const FieldName& of(std::size_t module, std::size_t field) const {
    static const FieldName kUnknown;
    const auto& modules = names_.of_units;
    const bool is_there = module < modules.size() && field < modules[module].size();
    return is_there ? modules[module][field] : kUnknown;
  }
  const std::vector<std::string>& other_builds() const { return names_.other_builds; }
  bool unverified() const { return names_.unverified; }

 private:
  GuardedTypes::Names names_;
};

}  // namespace memprofd
