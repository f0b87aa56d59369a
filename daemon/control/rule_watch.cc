// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rule_watch.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {

absl::StatusOr<std::vector<MemoryRule>> RuleWatch::read(const RuleWatchOptions& options) {
  ASSIGN_OR_RETURN(std::vector<MemoryRule> rules, read_rules(options.file));
  const auto asks = std::ranges::find(rules, true, &MemoryRule::snapshot);
  if (asks == rules.end() || options.takes_snapshots) return rules;
  return absl::InvalidArgumentError(
      absl::StrCat("--rules ", options.file, ": the rule ", asks->name,
                   " asks for a snapshot; give --snapshot.directory, too"));
}

absl::StatusOr<std::unique_ptr<RuleWatch>> RuleWatch::open(SnapshotSource& source,
                                                           RuleWatchOptions options,
                                                           std::shared_ptr<RuleBook> book) {
  ASSIGN_OR_RETURN(std::vector<MemoryRule> rules, read(options));
  return std::unique_ptr<RuleWatch>(
      new RuleWatch(source, std::move(options), std::move(book), std::move(rules)));
}

RuleWatch::RuleWatch(SnapshotSource& source, RuleWatchOptions options,
                     std::shared_ptr<RuleBook> book, std::vector<MemoryRule> rules)
    : source_(source),
      options_(std::move(options)),
      book_(std::move(book)),
      rules_(std::move(rules)),
      thread_({"rule-watch", "to check rules"}, [this] {
        check_all();
        return options_.interval;
      }) {}

absl::Status RuleWatch::reload() {
  ASSIGN_OR_RETURN(std::vector<MemoryRule> rules, read(options_));
  const MutexLock lock(mutex_);
  rules_ = std::move(rules);
  return absl::OkStatus();
}

void RuleWatch::check_all() {
  std::vector<MemoryRule> rules;
  {
    const MutexLock lock(mutex_);
    rules = rules_;
  }
  const bool with_growth = turns_++ % kGrowthTurns == 0;
  std::set<RuleBook::Target> targets;
  std::set<std::string> names;
  for (const MemoryRule& rule : rules) names.insert(rule.name);
  for (const ProfileSnapshotPtr& target : source_.snapshots()) {
    if (target->info.state != TargetState::kSampling) continue;
    targets.emplace(target->info.pid, target->attached_ns);
    for (const MemoryRule& rule : rules) {
      if (!thread_.is_running()) return;
      if (!is_of_program(rule, target->info.comm)) continue;
      if (rule.kind != RuleKind::kGrowth || with_growth) check(*target, rule);
    }
  }
  book_->keep_only(targets, names);
}

void RuleWatch::check(const ProfileSnapshot& target, const MemoryRule& rule) {
  const RuleOutcome outcome = check_rule(target, rule, kCheck);
  const std::optional<RuleVerdict> before =
      book_->note({target.info.pid, target.attached_ns}, outcome);
  const std::string comm = printable(target.info.comm);
  if (outcome.verdict == RuleVerdict::kBroken && before != RuleVerdict::kBroken) {
    log_warning("pid {}: {} breaks the rule {}: {}: {}", target.info.pid, comm, rule.name,
                printable(rule_text(rule, true)), outcome_text(outcome));
  } else if (outcome.verdict == RuleVerdict::kHolds && before == RuleVerdict::kBroken) {
    log_info("pid {}: {} keeps the rule {} again: {}", target.info.pid, comm, rule.name,
             outcome_text(outcome));
  }
}

}  // namespace memprofd
