// SPDX-License-Identifier: Apache-2.0
// Published values as metrics, under the program's own names.
#pragma once

#include <cstddef>
#include <string>

#include "daemon/export/metrics/metric_families.h"
#include "daemon/values/publication.h"

namespace memprofd {

// Maximum number of names with series of their own: of one target, and of all targets in one
// scrape.
inline constexpr std::size_t kReportedNames = 200;
inline constexpr std::size_t kAllReportedNames = 1000;

// room: the number of names that may still be exported in this scrape; it is reduced. The first
// names get series, and the number of the others is exported.
void add_published_metrics(const Publication& report, std::uint64_t now_ns, std::size_t& room,
                           MetricFamilies& out);

}  // namespace memprofd
