// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/clients/answer_turns.h"

#include <algorithm>
#include <ranges>

#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::Status AnswerTurns::check_place(const std::string& user) const {
  if (waiting_.size() >= limits_.waiting) {
    return absl::ResourceExhaustedError(absl::StrCat(
        waiting_.size(),
        " questions wait for an answer already, and that is the limit: ask again later"));
  }
  if (user.empty()) return absl::OkStatus();
  const auto own = static_cast<std::size_t>(std::ranges::count(std::views::values(waiting_), user));
  if (4 * own < 3 * limits_.waiting) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(own, " questions of ", user,
                   " wait for an answer already, and that is the limit: ask again later"));
}

absl::StatusOr<AnswerTurns::Turn> AnswerTurns::take(const std::string& user) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(check_place(user));
  const std::uint64_t number = next_++;
  waiting_.emplace(number, user);
  const bool came = changed_.wait_for(lock, limits_.patience, [&] {
    return taken_ < limits_.at_once && waiting_.begin()->first == number;
  });
  waiting_.erase(number);
  if (came) ++taken_;
  lock.unlock();
  changed_.notify_all();  // who is next now may have his turn as well
  if (came) return Turn(*this);
  return absl::ResourceExhaustedError(
      absl::StrCat("memprofd has been busy with other questions for ",
                   limits_.patience.count() / 1000, " s: ask again later"));
}

std::size_t AnswerTurns::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void AnswerTurns::leave() {
  {
    const std::lock_guard lock(mutex_);
    --taken_;
  }
  changed_.notify_all();
}

}  // namespace memprofd
