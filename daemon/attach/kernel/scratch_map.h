// SPDX-License-Identifier: Apache-2.0
// The slots that walks of the kernel work in (struct memprof_scratch): one map for all targets. A
// walk has a slot for some microseconds, so that a few more than there are processors serve any
// number of targets; a map for each would be a quarter of the kernel's memory that an idle target
// takes.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

struct ScratchMap {
  UniqueFd fd;
  std::uint32_t slots = 0;

  // The map with slots of this size, which exists while any target uses it. Any thread. Returns the
  // kernel's errors.
  static absl::StatusOr<std::shared_ptr<const ScratchMap>> of(std::uint32_t slot_bytes);
};

}  // namespace memprofd
