// SPDX-License-Identifier: Apache-2.0
// The accounting of a process's memory as a message.
#pragma once

#include "daemon/rss/rss_report.h"
#include "memprof/v1/rss.pb.h"

namespace memprofd {

// Strings become valid UTF-8.
::memprof::v1::GetRssResponse to_proto(const RssReport& report);

}  // namespace memprofd
