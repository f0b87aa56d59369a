// SPDX-License-Identifier: Apache-2.0
// Published values over time, as text.
#pragma once

#include <string>

#include "daemon/ctl/render/render_table.h"
#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

// One row per number: its course, first, last, minimum and maximum; for counters the growth per
// second. Then phases and lines of the log.
std::string past_values_text(const ::memprof::v1::GetValueHistoryResponse& values,
                             const Style& style);

}  // namespace memprofd::ctl
