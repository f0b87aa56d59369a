// SPDX-License-Identifier: Apache-2.0
// How many answers are made at once: each takes a processor, and memory that no budget counts.
// Others wait, and are served in the order in which they have come; each has a thread meanwhile,
// and a connection, so that there may be only so many. Of these places each user leaves a quarter
// to the others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace memprofd {

struct AnswerLimits {
  std::size_t at_once = 4;
  std::size_t waiting = 32;
  std::chrono::milliseconds patience{20'000};
};

// Thread-safe.
class AnswerTurns {
 public:
  explicit AnswerTurns(AnswerLimits limits = {}) : limits_(limits) {}
  AnswerTurns(const AnswerTurns&) = delete;
  AnswerTurns& operator=(const AnswerTurns&) = delete;

  // Ends with the answer.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->leave();
    }

   private:
    friend class AnswerTurns;
    explicit Turn(AnswerTurns& turns) : turns_(&turns) {}

    AnswerTurns* turns_;
  };

  // Waits for it; kResourceExhausted when it does not come in time, or too many wait already. The
  // turns must outlive it. user: empty: who may have all places.
  absl::StatusOr<Turn> take(const std::string& user = "");
  // How many wait now.
  std::size_t waiting() const;

 private:
  absl::Status check_place(const std::string& user) const;
  void leave();

  const AnswerLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t taken_ = 0;   // guarded by mutex_
  std::uint64_t next_ = 0;  // guarded by mutex_
  // Users by the numbers of those who have come; guarded by mutex_.
  std::map<std::uint64_t, std::string> waiting_;
};

}  // namespace memprofd
