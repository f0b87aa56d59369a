// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_asker.h"

#include <sys/eventfd.h>

#include <utility>

namespace memprofd::ctl {

TopAsker::TopAsker(std::unique_ptr<Questions> source)
    : source_(std::move(source)),
      ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

TopAsker::~TopAsker() {
  {
    const MutexLock lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  source_->interrupt();
  thread_.join();
}

void TopAsker::ask(const TopViewState& view_state, std::uint64_t number) {
  busy_ = true;
  {
    const MutexLock lock(mutex_);
    question_.emplace();
    question_->view_state = view_state;
    question_->number = number;
  }
  changed_.notify_one();
}

std::optional<TopAnswer> TopAsker::take() {
  const MutexLock lock(mutex_);
  if (!answer_) return std::nullopt;
  eventfd_t count = 0;
  ::eventfd_read(ready_.get(), &count);
  busy_ = false;
  return std::exchange(answer_, std::nullopt);
}

void TopAsker::run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!end_ && !question_) changed_.wait(mutex_);
    if (end_) return;
    const TopAnswer question = *std::exchange(question_, std::nullopt);
    lock.unlock();
    TopAnswer answer = ask_top(*source_, question.view_state);
    answer.number = question.number;
    lock.lock();
    answer_ = std::move(answer);
    ::eventfd_write(ready_.get(), 1);
  }
}

}  // namespace memprofd::ctl
