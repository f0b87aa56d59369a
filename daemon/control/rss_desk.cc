// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rss_desk.h"

#include <fmt/core.h>

#include <future>
#include <memory>
#include <utility>

#include "daemon/control/look.h"

namespace memprofd {

// The thread that looks may hang in a file of the program: nobody waits for it then.
absl::StatusOr<RssReport> RssDesk::look(int pid, RssOptions options) {
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> over = done->get_future();
  auto look = Look<absl::StatusOr<RssReport>>::start(
      [pid, options](const std::stop_token& stop) { return account_rss(pid, options, stop); },
      [done] { done->set_value(); });
  if (!look.ok()) return look.status();
  const bool answered = over.wait_for(kLookBudget) == std::future_status::ready;
  return answered ? look->take() : look_took_too_long(pid);
}

absl::StatusOr<RssReport> RssDesk::ask(int pid, RssOptions options) {
  const std::pair key(pid, options.owners);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(answers_, [now = Clock::now()](const auto& answer) {
      return now - answer.second.made > kFresh;
    });
    if (const auto found = answers_.find(key); found != answers_.end()) return found->second.report;
    if (looks_ >= kMaxLooks) {
      return absl::ResourceExhaustedError(
          fmt::format("the memory of {} programs is being looked at, and that is the limit: ask "
                      "again in a moment",
                      kMaxLooks));
    }
    ++looks_;
  }
  absl::StatusOr<RssReport> report = look(pid, options);
  const std::lock_guard lock(mutex_);
  --looks_;
  if (report.ok()) answers_[key] = {*report, Clock::now()};
  return report;
}

}  // namespace memprofd
