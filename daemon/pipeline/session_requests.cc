// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/session_requests.h"

#include <utility>

namespace memprofd {
namespace {

// An agent that is not loaded yet begins at 0. One that still samples for an earlier memprofd
// discards what no one reads, so its positions are unknown.
std::optional<std::vector<BufferPosition>> positions_of(const AgentControl* agent) {
  std::vector<BufferPosition> positions;
  if (agent == nullptr) return positions;
  const auto status = agent->status();
  const auto tails = agent->tails();
  if (!status.ok() || status->state == MEMPROF_AGENT_SAMPLING || !tails.ok()) return std::nullopt;
  for (const AgentTail& tail : *tails) {
    positions.resize(tail.buffer + 1);
    positions.back() = {tail.first_seq, tail.sampled};
  }
  return positions;
}

}  // namespace

void SessionRequests::add(std::uint32_t generation, double rate,
                          const std::shared_ptr<AttachedTarget>& target) {
  Request request{generation, rate, std::nullopt};
  if (!std::exchange(any_, true)) request.positions = positions_of(target->agent());
  const MutexLock lock(mutex_);
  requests_.push_back(std::move(request));
}

std::vector<SessionRequests::Request> SessionRequests::take() {
  const MutexLock lock(mutex_);
  return std::exchange(requests_, {});
}

}  // namespace memprofd
