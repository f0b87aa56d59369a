// SPDX-License-Identifier: Apache-2.0
// The slots in which walks of the kernel work (struct memprof_scratch): one map for all targets. A
// walk uses a slot for some microseconds, so a few more slots than processors serve any number of
// targets. A map for each target would be a quarter of the kernel memory of an idle target.
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
