// SPDX-License-Identifier: Apache-2.0
// Advice: actions that would return memory to the system, with the maximum amount; and hints where
// to search further.
#pragma once

#include "daemon/rss/rss_report.h"

namespace memprofd {

// Fills in advice and hints from the rest of the report.
void advise(RssReport& report);

}  // namespace memprofd
