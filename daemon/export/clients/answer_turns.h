// SPDX-License-Identifier: Apache-2.0
// Limits how many answers are made at once: each takes a processor, and memory that no budget
// counts. Others wait. The user with the fewest running answers is next, and of several the one
// that came first. Each waiting request occupies a thread and a connection, so their number is
// limited too, also per user (util/user_slots.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/user_slots.h"

namespace memprofd {

struct AnswerLimits {
  std::size_t at_once = 4;
  std::size_t waiting = 32;
  std::chrono::milliseconds patience{20'000};
};

// Thread-safe.
class AnswerTurns {
 public:
  explicit AnswerTurns(AnswerLimits limits = {})
      : limits_(limits), slots_(limits.waiting, "questions wait for an answer already") {}
  AnswerTurns(const AnswerTurns&) = delete;
  AnswerTurns& operator=(const AnswerTurns&) = delete;

  // A turn ends with the answer.
  class Turn {
   public:
    Turn(Turn&& other) noexcept
        : turns_(std::exchange(other.turns_, nullptr)), user_(std::move(other.user_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->leave(user_);
    }

   private:
    friend class AnswerTurns;
    Turn(AnswerTurns& turns, std::string user) : turns_(&turns), user_(std::move(user)) {}

    AnswerTurns* turns_;
    std::string user_;
  };

  // Waits for a turn; kResourceExhausted if none comes in time, or too many requests wait already.
  // The turns must outlive it. user: empty for a user who may take all places.
  absl::StatusOr<Turn> take(const std::string& user = "");
  // For memprofd itself, without waiting: nothing if anyone has a turn or waits for one.
  std::optional<Turn> take_if_idle();
  // Number of waiting requests.
  std::size_t waiting() const;

 private:
  bool is_next(std::uint64_t number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Turn begin(const std::string& user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void leave(const std::string& user);

  const AnswerLimits limits_;
  UserSlots slots_;  // of waiting requests
  mutable Mutex mutex_;
  Condition changed_;
  std::size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  // users with running answers
  std::map<std::string, std::size_t> taken_of_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  // Waiting requests, in order of arrival.
  std::map<std::uint64_t, std::string> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
