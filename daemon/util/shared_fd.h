// SPDX-License-Identifier: Apache-2.0
// A file descriptor with several owners. It stays open, and refers to the same file, until the last
// owner is gone.
#pragma once

#include <memory>

#include "daemon/util/fd.h"

namespace memprofd {

using SharedFd = std::shared_ptr<const UniqueFd>;

}  // namespace memprofd
