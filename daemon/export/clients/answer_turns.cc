// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/clients/answer_turns.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

// Ordered by the number of the user's running answers, then by arrival.
bool AnswerTurns::is_next(std::uint64_t number) const {
  const auto rank = [this](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = taken_of_.find(entry.second);
    return std::pair(found == taken_of_.end() ? 0 : found->second, entry.first);
  };
  return std::ranges::min_element(waiting_, {}, rank)->first == number;
}

AnswerTurns::Turn AnswerTurns::begin(const std::string& user) {
  ++taken_;
  ++taken_of_[user];
  return {*this, user};
}

absl::StatusOr<AnswerTurns::Turn> AnswerTurns::take(const std::string& user) {
  ASSIGN_OR_RETURN(const auto slot, slots_.take(user));
  MutexLock lock(mutex_);
  const std::uint64_t number = next_++;
  waiting_.emplace(number, user);
  const auto until = std::chrono::steady_clock::now() + limits_.patience;
  bool came = false;
  do {
    came = taken_ < limits_.at_once && is_next(number);
  } while (!came && changed_.wait_until(mutex_, until));
  waiting_.erase(number);
  std::optional<Turn> turn;
  if (came) turn.emplace(begin(user));
  lock.unlock();
  changed_.notify_all();  // the next one may have its turn as well
  if (came) return *std::move(turn);
  return absl::ResourceExhaustedError(
      absl::StrCat("memprofd has been busy with other questions for ",
                   limits_.patience.count() / 1000, " s: ask again later"));
}

std::optional<AnswerTurns::Turn> AnswerTurns::take_if_idle() {
  const MutexLock lock(mutex_);
  if (taken_ > 0 || !waiting_.empty()) return std::nullopt;
  return begin("");
}

std::size_t AnswerTurns::waiting() const {
  const MutexLock lock(mutex_);
  return waiting_.size();
}

void AnswerTurns::leave(const std::string& user) {
  {
    const MutexLock lock(mutex_);
    --taken_;
    const auto own = taken_of_.find(user);
    if (--own->second == 0) taken_of_.erase(own);
  }
  changed_.notify_all();
}

}  // namespace memprofd
