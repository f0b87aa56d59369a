// SPDX-License-Identifier: Apache-2.0
// What would give memory back to the system, and how much at most; and where to look further.
#pragma once

#include "daemon/rss/rss_report.h"

namespace memprofd {

// Fills in advice and hints of the report from the rest of it.
void advise(RssReport& report);

}  // namespace memprofd
