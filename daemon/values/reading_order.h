// SPDX-License-Identifier: Apache-2.0
// The order in which modules are read, since limits and time may end the reading: those of the
// application first, then those of packages, then the standard library, each by address.
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/snapshot/module_blocks.h"

namespace memprofd {

// Indices into modules.
std::vector<std::size_t> reading_order(const std::vector<ModuleBlocks::Module>& modules);

}  // namespace memprofd
