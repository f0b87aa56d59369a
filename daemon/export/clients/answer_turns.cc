// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/clients/answer_turns.h"

#include "absl/strings/str_cat.h"

namespace memprofd {

absl::StatusOr<AnswerTurns::Turn> AnswerTurns::take() {
  std::unique_lock lock(mutex_);
  if (waiting_.size() >= limits_.waiting) {
    return absl::ResourceExhaustedError(absl::StrCat(
        waiting_.size(),
        " questions wait for an answer already, and that is the limit: ask again later"));
  }
  const std::uint64_t number = next_++;
  waiting_.insert(number);
  const bool came = changed_.wait_for(lock, limits_.patience, [&] {
    return taken_ < limits_.at_once && *waiting_.begin() == number;
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
