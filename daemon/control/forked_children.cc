// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/forked_children.h"

#include <algorithm>
#include <filesystem>

namespace memprofd {

bool ForkedChildren::add(const ForkFamilyPtr& family, ForkedChild child) {
  if (family->waiting_.size() >= ForkFamily::kMaxWaiting) return false;
  if (!family->in_use()) families_.push_back(family);
  family->waiting_.push_back(std::move(child));
  return true;
}

std::optional<std::pair<ForkFamilyPtr, ForkedChild>> ForkedChildren::next(
    std::chrono::steady_clock::time_point now) {
  if (inspections() >= kMaxInspections) return std::nullopt;
  for (auto here = families_.begin(); here != families_.end();) {
    const ForkFamilyPtr family = *here;
    if (auto child = take(*family, now)) {
      families_.splice(families_.end(), families_, here);
      return std::pair(family, *std::move(child));
    }
    here = family->in_use() ? std::next(here) : families_.erase(here);
  }
  return std::nullopt;
}

std::optional<ForkedChild> ForkedChildren::take(ForkFamily& family,
                                                std::chrono::steady_clock::time_point now) {
  if (family.inspected_) return std::nullopt;
  auto& waiting = family.waiting_;
  while (!waiting.empty() && now - waiting.front().seen_at >= kPatience) {
    ForkedChild child = std::move(waiting.front());
    waiting.pop_front();
    if (proc_.exists(child.pid) && proc_.exe(child.pid).value_or("") == child.exe) {
      family.inspected_ = child;
      return child;
    }
  }
  return std::nullopt;
}

void ForkedChildren::inspection_over(int pid, bool given_up) {
  for (auto here = families_.begin(); here != families_.end(); ++here) {
    ForkFamily& family = **here;
    if (!family.inspected_ || family.inspected_->pid != pid) continue;
    family.inspected_.reset();
    if (given_up) ++family.given_up_;
    if (!family.in_use()) families_.erase(here);
    return;
  }
}

bool ForkedChildren::any_of(int parent) const {
  const auto is_of = [&](const ForkedChild& child) { return child.parent == parent; };
  return std::any_of(families_.begin(), families_.end(), [&](const ForkFamilyPtr& family) {
    return (family->inspected_ && is_of(*family->inspected_)) ||
           std::any_of(family->waiting_.begin(), family->waiting_.end(), is_of);
  });
}

bool ForkedChildren::waiting() const {
  return std::any_of(families_.begin(), families_.end(),
                     [](const ForkFamilyPtr& family) { return !family->waiting_.empty(); });
}

int ForkedChildren::inspections() const {
  return static_cast<int>(
      std::count_if(families_.begin(), families_.end(),
                    [](const ForkFamilyPtr& family) { return family->inspected_.has_value(); }));
}

bool in_initial_pid_namespace() {
  constexpr char kInitial[] = "pid:[4026531836]";  // PROC_PID_INIT_INO
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error) == kInitial;
}

}  // namespace memprofd
