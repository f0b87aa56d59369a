// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rss_service.h"

#include <algorithm>
#include <utility>

#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::StatusOr<RssReport> RssService::ask(const RequestedProcess& process, RssOptions options) {
  {
    const MutexLock lock(mutex_);
    std::erase_if(answers_,
                  [now = Clock::now()](const auto& answer) { return now - answer.made > kFresh; });
    const auto found = std::ranges::find_if(answers_, [&](const Answer& answer) {
      return answer.process == process && answer.owners == options.owners;
    });
    if (found != answers_.end()) return found->report;
  }
  ASSIGN_OR_RETURN(const auto slot, slots_.take(ScopedUser::current()));
  // Inspects on another thread, so that memprofd does not hang if a file of the program does.
  ASSIGN_OR_RETURN(absl::StatusOr<RssReport> report,
                   inspections_.ask({process, options.owners}, process.pid,
                                    [process, options](const std::stop_token& stop) {
                                      return account_rss(process, options, stop);
                                    }));
  const MutexLock lock(mutex_);
  if (report.ok()) answers_.push_back({process, options.owners, *report, Clock::now()});
  return report;
}

}  // namespace memprofd
