// SPDX-License-Identifier: Apache-2.0
// Asks the daemon in a thread of its own, so that a slow answer does not delay keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/ctl/questions.h"
#include "daemon/ctl/top/top_question.h"
#include "daemon/util/fd.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd::ctl {

class TopAsker {
 public:
  explicit TopAsker(std::unique_ptr<Questions> source);
  // Abandons the current question.
  ~TopAsker();

  // Must not be called while busy(). number: that of the answer.
  void ask(const TopViewState& view_state, std::uint64_t number);
  // True from ask() until take() has returned the answer.
  bool busy() const { return busy_; }
  // Returns nothing until there is an answer.
  std::optional<TopAnswer> take();
  // Becomes readable when there is an answer.
  int fd() const { return ready_.get(); }

 private:
  void run();

  const std::unique_ptr<Questions> source_;
  const UniqueFd ready_;  // eventfd
  bool busy_ = false;

  Mutex mutex_;
  Condition changed_;
  std::optional<TopAnswer> question_ ABSL_GUARDED_BY(mutex_);  // only view_state and number are set
  std::optional<TopAnswer> answer_ ABSL_GUARDED_BY(mutex_);
  bool end_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // declared last, because it uses all others
};

}  // namespace memprofd::ctl
