// SPDX-License-Identifier: Apache-2.0
// Names of a program's values in its source, of its modules in the order of ModuleBlocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/snapshot/types/block_names.h"

namespace memprofd {

class FieldNames {
 public:
  FieldNames() = default;
  explicit FieldNames(std::vector<std::vector<FieldName>> modules) : modules_(std::move(modules)) {}

  // Without a name where it is not known.
  const FieldName& of(std::size_t module, std::size_t field) const {
    static const FieldName kUnknown;
    const bool is_there = module < modules_.size() && field < modules_[module].size();
    return is_there ? modules_[module][field] : kUnknown;
  }

 private:
  std::vector<std::vector<FieldName>> modules_;
};

}  // namespace memprofd
