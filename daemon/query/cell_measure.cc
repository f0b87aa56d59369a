// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/cell_measure.h"

namespace memprofd {
absl::Status check_summable(Measure measure) {
  if (measure_row(measure).is_sum()) return absl::OkStatus();
  return absl::InvalidArgumentError("lifetimes have no history; ask for sites in a range instead");
}

}  // namespace memprofd
