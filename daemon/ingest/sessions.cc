// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/sessions.h"

#include <algorithm>

namespace memprofd {

void Sessions::request(std::uint32_t generation, double rate) {
  if (sessions_.size() == kMax) sessions_.erase(sessions_.begin() + 1);
  sessions_.push_back({generation, rate});
}

Sessions::Arrival Sessions::see(std::uint32_t generation) {
  if (runs(generation)) return Arrival::kRunning;
  const auto requested = sessions_.begin() + (running_ ? 1 : 0);
  const auto it = std::find_if(requested, sessions_.end(), [&](const Session& session) {
    return session.generation == generation;
  });
  // A rate of 0 requests no sampling, so such a session has no records.
  if (it == sessions_.end() || !(it->rate > 0)) return Arrival::kUnknown;
  sessions_.erase(sessions_.begin(), it);
  running_ = true;
  return Arrival::kBegins;
}

}  // namespace memprofd
