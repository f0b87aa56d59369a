// SPDX-License-Identifier: Apache-2.0
// A file descriptor with several owners: the file stays open, and the same file, as long as
// any of them lives.
#pragma once

#include <memory>

#include "daemon/util/fd.h"

namespace memprofd {

using SharedFd = std::shared_ptr<const UniqueFd>;

}  // namespace memprofd
