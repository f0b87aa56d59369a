// SPDX-License-Identifier: Apache-2.0
// The resident memory of a program, as a table.
#pragma once

#include <string>

#include "daemon/ctl/render/render_table.h"
#include "memprof/v1/rss.pb.h"

namespace memprofd::ctl {

// limit: the number of largest files and arenas to show; 0: all.
std::string rss_text(const ::memprof::v1::GetRssResponse& response, std::size_t limit,
                     const Style& style);

}  // namespace memprofd::ctl
