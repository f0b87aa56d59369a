// SPDX-License-Identifier: Apache-2.0
// Advice: actions that would return memory to the system, with the largest amount; and where to
// search further.
#pragma once

#include "daemon/rss/rss_report.h"

namespace memprofd {

// Fills in advice and hints of the report from the rest of it.
void advise(RssReport& report);

}  // namespace memprofd
