#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// One picture of `top`: lines about the target, the title of the table, a line a
// site.
struct TopFrame {
  std::vector<std::string> header;
  std::string title;
  std::vector<std::string> sites;
};

// previous (null for the first frame) gives the rates of allocation. width cuts
// lines; 0 does not.
TopFrame top_frame(const pb::ListSitesResponse& now, const pb::ListSitesResponse* previous,
                   pb::SiteOrder order, std::size_t width);

}  // namespace memprofd::ctl
