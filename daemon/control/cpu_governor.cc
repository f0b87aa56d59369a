// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/cpu_governor.h"

#include <utility>
#include <vector>

#include "daemon/control/self_stats.h"
#include "daemon/util/log.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::chrono::seconds kWindow{1};
// Time for which clients may exceed the limit before a warning; attaching to many programs at once
// takes less.
constexpr double kOthersSeconds = 60;

}  // namespace

void CpuGovernor::check(const std::map<int, std::unique_ptr<TargetController>>& targets) {
  const auto now = std::chrono::steady_clock::now();
  if (now - began_at_ < kWindow) return;
  const double cpu_seconds = own_cpu_seconds();
  const double seconds = std::chrono::duration<double>(now - began_at_).count();
  const bool begun = began_at_ != std::chrono::steady_clock::time_point();
  std::vector<CpuBound::Target> taken;
  std::vector<TargetController*> sessions;
  for (const auto& [pid, session] : targets) {
    if (!session->attached()) continue;
    taken.push_back(session->cpu_taken());
    sessions.push_back(session.get());
  }
  if (begun) {
    const double limit = bound_.judge(seconds, cpu_seconds - cpu_seconds_, taken);
    for (TargetController* session : sessions) session->limit_cpu(limit);
    log_who_else(seconds);
  }
  began_at_ = now;
  cpu_seconds_ = cpu_seconds;
}

// Logs once, because only the clients can reduce this load.
void CpuGovernor::log_who_else(double seconds) {
  const bool over = bound_.cores() != 0 && bound_.other_cores() > bound_.cores();
  others_over_seconds_ = over ? others_over_seconds_ + seconds : 0;
  if (others_over_seconds_ < kOthersSeconds || std::exchange(logged_others_, true)) return;
  log_warning(
      "memprofd uses {} of a processor for clients alone, more than --cpu.max ({}); ask and scrape "
      "less often, or raise it",
      format_share(bound_.other_cores(), 1), format_share(bound_.cores(), 1));
}

}  // namespace memprofd
