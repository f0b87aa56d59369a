// SPDX-License-Identifier: Apache-2.0
// The rules that memprofd's targets keep or break. The thread that checks them writes here; metrics
// and the code that takes heap snapshots read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/rules/rule_check.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Thread-safe.
class RuleBook {
 public:
  // Identifies a target since one attach: pid and ProfileSnapshot::attached_ns.
  using Target = std::pair<int, std::uint64_t>;
  struct State {
    RuleVerdict verdict = RuleVerdict::kUnknown;
    bool wants_snapshot = false;
  };

  // Stores an outcome and returns the previous verdict; nullopt: the rule is new, or was unknown.
  std::optional<RuleVerdict> note(const Target& target, const RuleOutcome& outcome) {
    const MutexLock lock(mutex_);
    State& state = targets_[target][outcome.rule.name];
    const RuleVerdict before = state.verdict;
    const bool is_new_violation =
        outcome.verdict == RuleVerdict::kBroken && before != RuleVerdict::kBroken;
    state.verdict = outcome.verdict;
    if (outcome.verdict != RuleVerdict::kBroken) state.wants_snapshot = false;
    if (is_new_violation) state.wants_snapshot = outcome.rule.snapshot;
    return before == RuleVerdict::kUnknown ? std::nullopt : std::optional(before);
  }
  // Forgets all other targets, and rules that no longer exist.
  void keep_only(const std::set<Target>& targets, const std::set<std::string>& rules) {
    const MutexLock lock(mutex_);
    std::erase_if(targets_, [&](const auto& of) { return !targets.contains(of.first); });
    for (auto& [target, states] : targets_) {
      std::erase_if(states, [&](const auto& state) { return !rules.contains(state.first); });
    }
  }
  // The states of a target by rule name.
  std::map<std::string, State> of(const Target& target) const {
    const MutexLock lock(mutex_);
    const auto found = targets_.find(target);
    return found == targets_.end() ? std::map<std::string, State>() : found->second;
  }
  // The name of a broken rule that requires a heap snapshot.
  std::optional<std::string> wants_snapshot(const Target& target) const {
    for (const auto& [rule, state] : of(target)) {
      if (state.wants_snapshot) return rule;
    }
    return std::nullopt;
  }
  // Notes that a snapshot was taken, which serves all rules.
  void snapshot_taken(const Target& target) {
    const MutexLock lock(mutex_);
    const auto found = targets_.find(target);
    if (found == targets_.end()) return;
    for (auto& [name, state] : found->second) state.wants_snapshot = false;
  }

 private:
  mutable Mutex mutex_;
  std::map<Target, std::map<std::string, State>> targets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
