// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/forked_children.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/discover/proc_fs.h"

namespace memprofd {

bool ForkedChildren::add(ForkedChild child) {
  if (waiting_.size() >= kMaxWaiting) return false;
  waiting_.push_back(std::move(child));
  return true;
}

std::optional<ForkedChild> ForkedChildren::next(std::chrono::steady_clock::time_point now) {
  if (looked_at_) return std::nullopt;
  const ProcFs proc;
  while (!waiting_.empty() && now - waiting_.front().seen_at >= kPatience) {
    ForkedChild child = std::move(waiting_.front());
    waiting_.pop_front();
    if (proc.exists(child.pid) && proc.exe(child.pid).value_or("") == child.exe) {
      looked_at_ = child;
      return child;
    }
  }
  return std::nullopt;
}

void ForkedChildren::look_over(int pid) {
  if (looked_at_ && looked_at_->pid == pid) looked_at_.reset();
}

bool ForkedChildren::any_of(int parent) const {
  if (looked_at_ && looked_at_->parent == parent) return true;
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const ForkedChild& child) { return child.parent == parent; });
}

bool in_initial_pid_namespace() {
  constexpr char kInitial[] = "pid:[4026531836]";  // PROC_PID_INIT_INO
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error) == kInitial;
}

}  // namespace memprofd
