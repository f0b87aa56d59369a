// SPDX-License-Identifier: Apache-2.0
// Which rules the targets of memprofd keep: written by the thread that checks them, read by metrics
// and by who takes heap snapshots.
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
  // A target, from one attach on: pid and ProfileSnapshot::attached_ns.
  using Target = std::pair<int, std::uint64_t>;
  struct State {
    RuleVerdict verdict = RuleVerdict::kUnknown;
    bool wants_snapshot = false;
  };

  // What it was before; nothing: the rule is new, or was unknown.
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
  // Forgets other targets, and rules that are no longer there.
  void keep_only(const std::set<Target>& targets, const std::set<std::string>& rules) {
    const MutexLock lock(mutex_);
    std::erase_if(targets_, [&](const auto& of) { return !targets.contains(of.first); });
    for (auto& [target, states] : targets_) {
      std::erase_if(states, [&](const auto& state) { return !rules.contains(state.first); });
    }
  }
  // By the names of rules.
  std::map<std::string, State> of(const Target& target) const {
    const MutexLock lock(mutex_);
    const auto found = targets_.find(target);
    return found == targets_.end() ? std::map<std::string, State>() : found->second;
  }
  // The name of a broken rule that a heap snapshot has to be taken for.
  std::optional<std::string> wants_snapshot(const Target& target) const {
    for (const auto& [rule, state] : of(target)) {
      if (state.wants_snapshot) return rule;
    }
    return std::nullopt;
  }
  // One was taken: it serves all rules.
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
