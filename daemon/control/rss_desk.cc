// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rss_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "daemon/control/look.h"

namespace memprofd {

// The thread that looks may hang in a file of the program: nobody waits for it then.
absl::StatusOr<RssReport> RssDesk::look(const AskedProcess& process, RssOptions options) {
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> over = done->get_future();
  auto look = Look<absl::StatusOr<RssReport>>::start(
      [process, options](const std::stop_token& stop) {
        return account_rss(process, options, stop);
      },
      [done] { done->set_value(); });
  if (!look.ok()) return look.status();
  const bool answered = over.wait_for(kLookBudget) == std::future_status::ready;
  return answered ? look->take() : look_took_too_long(process.pid);
}

absl::StatusOr<RssReport> RssDesk::ask(const AskedProcess& process, RssOptions options) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(answers_,
                  [now = Clock::now()](const auto& answer) { return now - answer.made > kFresh; });
    const auto found = std::ranges::find_if(answers_, [&](const Answer& answer) {
      return answer.process == process && answer.owners == options.owners;
    });
    if (found != answers_.end()) return found->report;
    if (looks_ >= kMaxLooks) {
      return absl::ResourceExhaustedError(
          fmt::format("the memory of {} programs is being looked at, and that is the limit: ask "
                      "again in a moment",
                      kMaxLooks));
    }
    ++looks_;
  }
  absl::StatusOr<RssReport> report = look(process, options);
  const std::lock_guard lock(mutex_);
  --looks_;
  if (report.ok()) answers_.push_back({process, options.owners, *report, Clock::now()});
  return report;
}

}  // namespace memprofd
