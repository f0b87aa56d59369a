// `memprofctl top`: the same frame again and again, on a full screen or as plain
// text.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "daemon/ctl/client.h"

namespace memprofd::ctl {

struct TopOptions {
  int pid = 0;
  pb::SiteOrder order = pb::SITE_ORDER_LIVE;
  pb::Filter filter;
  std::uint32_t limit = 20;  // sites in plain mode; a screen shows what fits
  double interval_seconds = 1;
  std::uint64_t iterations = 0;  // 0: until the target has ended (plain) or q is pressed
  bool plain = false;
};

absl::Status run_top(Client& client, const TopOptions& options);

}  // namespace memprofd::ctl
