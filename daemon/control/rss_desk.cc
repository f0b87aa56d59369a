// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rss_desk.h"

#include <utility>

#include "daemon/util/asker.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::StatusOr<RssReport> RssDesk::ask(int pid, RssOptions options) {
  const std::pair key(pid, options.owners);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(answers_, [now = Clock::now()](const auto& answer) {
      return now - answer.second.made > kFresh;
    });
    if (const auto found = answers_.find(key); found != answers_.end()) return found->second.report;
  }
  ASSIGN_OR_RETURN(const auto place, places_.take(Asker::current()));
  // The thread that looks may hang in a file of the program: nobody waits for it then.
  ASSIGN_OR_RETURN(absl::StatusOr<RssReport> report,
                   looks_.ask(key, pid, [pid, options](const std::stop_token& stop) {
                     return account_rss(pid, options, stop);
                   }));
  const std::lock_guard lock(mutex_);
  if (report.ok()) answers_[key] = {*report, Clock::now()};
  return report;
}

}  // namespace memprofd
