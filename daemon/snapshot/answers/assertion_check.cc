// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/assertion_check.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/path_tree.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/util/estimate.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

bool is_due(const AssertionMark& mark, const ShortestPaths& paths) {
  switch (mark.until) {
    case AssertionMark::Until::kNow:
    case AssertionMark::Until::kOtherIsGone:
      return true;
    case AssertionMark::Until::kOther:
      return !paths.is_reachable(mark.other);
    case AssertionMark::Until::kForever:
      return false;
  }
  return false;
}

// A violating block, and the sum that it represents.
struct Violation {
  std::uint32_t block = 0;
  SampledSum sum;
};

// Paths to the violating blocks, those with the most blocks first.
std::vector<AssertionOutcome::Holder> holders_of(const HeapImage& image,
                                                 const BlockClasses& classes,
                                                 const ShortestPaths& paths,
                                                 const std::vector<Violation>& violations) {
  PathTree tree(image, classes, paths);
  for (const Violation& one : violations) tree.add(one.block, one.sum);
  tree.sum_up();
  std::vector<std::uint32_t> ends;
  for (std::uint32_t step = 1; step < tree.steps().size(); ++step) {
    if (tree.steps()[step].here.blocks > 0) ends.push_back(step);
  }
  std::ranges::stable_sort(ends, std::greater<>(),
                           [&](std::uint32_t step) { return tree.steps()[step].here.blocks; });
  ends.resize(std::min(ends.size(), AssertionOutcome::kMaxHolders));
  std::vector<AssertionOutcome::Holder> holders;
  for (const std::uint32_t end : ends) {
    std::string path;
    for (std::uint32_t step = end; step != 0; step = tree.steps()[step].parent) {
      path = absl::StrCat(tree.text(step), path);
    }
    holders.push_back({printable(path), tree.steps()[end].here.blocks});
  }
  return holders;
}

void judge_marks(AssertionOutcome& outcome) {
  outcome.verdict = outcome.violating > 0 ? AssertionVerdict::kViolated : AssertionVerdict::kHolds;
  if (outcome.violating > 0) return;
  const HeapAssertion& assertion = outcome.assertion;
  if (!assertion.is_whole) {
    outcome.why_not_checked = "its marked values could not all be read";
  } else if (assertion.unchecked > 0) {
    outcome.why_not_checked =
        absl::StrCat(format_count(assertion.unchecked),
                     assertion.unchecked == 1 ? " marked value is not a block of the heap"
                                              : " marked values are not blocks of the heap",
                     ", or beyond the first ", format_count(kMaxAssertionMarks));
  } else {
    return;
  }
  outcome.verdict = AssertionVerdict::kNotChecked;
}

std::vector<Violation> check_region(const HeapImage& image, const ShortestPaths& paths,
                                    double quantile, AssertionOutcome& outcome) {
  const HeapAssertion& region = outcome.assertion;
  std::vector<Violation> left;
  SampledSum all;
  for (const SampledBlock& sampled : image.sampled) {
    if (sampled.age_ns == SampledBlock::kNoAge || sampled.age_ns > region.begin_age_ns ||
        sampled.age_ns < region.end_age_ns ||
        state_of(paths, sampled) != SampledState::kReachable) {
      continue;
    }
    left.push_back({sampled.block, sum_of(image, sampled)});
    all += left.back().sum;
  }
  outcome.violating = all.blocks;
  outcome.bytes = all.estimate.bytes();
  outcome.bytes_stderr = all.estimate.stderr_bytes();
  outcome.at_least =
      lower_limit_of(outcome.bytes, outcome.bytes_stderr,
                     grain_words(image.info.sampling_rate) * kBytesPerWord, quantile);
  if (outcome.at_least > static_cast<double>(region.max_bytes)) {
    outcome.verdict = AssertionVerdict::kViolated;
  } else if (!region.is_whole) {
    outcome.verdict = AssertionVerdict::kNotChecked;
    outcome.why_not_checked = "its run began before the program was sampled";
  }
  return left;
}

std::string of_values(std::uint64_t values) {
  return absl::StrCat(format_count(values), values == 1 ? " value" : " values");
}

std::string holders_text(const AssertionOutcome& outcome) {
  std::string text;
  for (const auto& holder : outcome.holders) {
    absl::StrAppend(&text, "; ", format_count(holder.values), " by ", holder.path);
  }
  return text;
}

}  // namespace

std::vector<AssertionOutcome> check_assertions(const HeapImage& image, const ShortestPaths& paths,
                                               double quantile) {
  std::vector<AssertionOutcome> outcomes;
  if (image.assertions.empty()) return outcomes;
  const BlockClasses classes(image);
  std::vector<std::vector<Violation>> violations(image.assertions.size());
  for (const HeapAssertion& assertion : image.assertions) {
    outcomes.push_back({.assertion = assertion});
  }
  for (const AssertionMark& mark : image.marks) {
    if (!paths.is_reachable(mark.block) || !is_due(mark, paths)) continue;
    ++outcomes[mark.assertion].violating;
    violations[mark.assertion].push_back({mark.block, {.blocks = 1}});
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].assertion.kind == AssertionKind::kRegion) {
      violations[i] = check_region(image, paths, quantile, outcomes[i]);
    } else {
      judge_marks(outcomes[i]);
    }
    if (outcomes[i].verdict == AssertionVerdict::kViolated) {
      outcomes[i].holders = holders_of(image, classes, paths, violations[i]);
    }
  }
  return outcomes;
}

std::string assertion_text(const HeapAssertion& assertion) {
  const std::string name = printable(assertion.name);
  switch (assertion.kind) {
    case AssertionKind::kUnreachable:
      return absl::StrCat(name, " is unreachable");
    case AssertionKind::kDiesBefore:
      return absl::StrCat(name, " dies first");
    case AssertionKind::kRegion:
      return absl::StrCat(name,
                          " leaves <= ", format_bytes(static_cast<double>(assertion.max_bytes)));
  }
  return name;
}

std::string outcome_text(const AssertionOutcome& outcome) {
  const HeapAssertion& assertion = outcome.assertion;
  std::string text;
  if (assertion.kind == AssertionKind::kRegion) {
    text = format_estimate(outcome.bytes, outcome.bytes_stderr);
    if (outcome.verdict == AssertionVerdict::kViolated) {
      absl::StrAppend(&text, ", certainly at least ", format_bytes(outcome.at_least));
    }
  } else if (outcome.verdict == AssertionVerdict::kViolated) {
    text = absl::StrCat(
        of_values(outcome.violating), outcome.violating == 1 ? " is reachable" : " are reachable",
        assertion.kind == AssertionKind::kDiesBefore ? " after the other died" : "");
  } else {
    text = "no value is reachable too long";
  }
  if (outcome.verdict == AssertionVerdict::kNotChecked) {
    text = absl::StrCat("not checked: ", outcome.why_not_checked);
  }
  if (assertion.not_due > 0) {
    absl::StrAppend(&text, "; not checked yet: ", of_values(assertion.not_due),
                    assertion.not_due == 1 ? " that is" : " that are", " not due");
  }
  return absl::StrCat(text, holders_text(outcome));
}

}  // namespace memprofd
