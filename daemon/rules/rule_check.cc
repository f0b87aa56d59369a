// SPDX-License-Identifier: Apache-2.0
#include "daemon/rules/rule_check.h"

#include <fmt/core.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/aggregate/survival_curve.h"
#include "daemon/query/leak_evidence.h"
#include "daemon/query/leaks.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/query/range_counter.h"
#include "daemon/query/roll_up.h"
#include "daemon/query/select.h"
#include "daemon/util/estimate.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr double kLongLived = 0.01;                     // share of the bytes that may live longer
constexpr std::uint64_t kGrowthNs = 3'600'000'000'000;  // time over which a running program is
                                                        // judged
constexpr std::uint64_t kMaxIntervals = 1000;           // of a run
// Largest relative error of a large block's size: half a step of a fine bucket (size_bucket.h).
constexpr double kSizeError = 0.5 / 1024;
// Expected number of samples at a limit. With fewer than kMinSamples a program that exceeds the
// limit tenfold often has none.
constexpr double kMinSamples = 0.3, kGoodSamples = 10;
// A program may have next to nothing, now and in the baseline.
constexpr double kNegligible = 256 << 10;

Filter filter_of(const MemoryRule& rule) {
  Filter filter{.site_frame = SiteFrame::kApplication};
  if (!rule.pattern.empty()) filter.require.push_back(rule.pattern);
  if (rule.module.empty()) return filter;
  // Allows the prefix that dune gives to the modules of a library.
  filter.patterns.push_back(
      absl::StrCat("^(?:[A-Za-z0-9_']+__)?", RE2::QuoteMeta(rule.module), "[.]"));
  return filter;
}

std::string site_text(const Location& site) {
  const std::string place = location_text(site.file, site.line);
  return absl::StrCat(printable(site.function), place.empty() ? "" : "  ", place);
}

std::string largest_site(const TargetProfile& profile, Measure measure) {
  const GroupResult sites =
      roll_up(profile, {.order = measure, .limit = 1, .with_callstack = false});
  return sites.groups.empty() ? std::string() : site_text(sites.groups[0].location);
}

// A rate with kGoodSamples at the limit, rounded up to one digit.
double good_rate(double limit_bytes) {
  const double rate = kGoodSamples * kBytesPerWord / limit_bytes;
  const double digit = std::pow(10, std::floor(std::log10(rate)));
  return std::min(1.0, std::ceil(rate / digit) * digit);
}

// Compares an amount of bytes with the limit.
void judge(const Estimate& amount, double rate, double quantile, RuleOutcome& outcome) {
  const MemoryRule& rule = outcome.rule;
  const double grain = grain_words(rate) * kBytesPerWord;
  outcome.measured = amount.bytes();
  outcome.measured_stderr = amount.stderr_bytes();
  outcome.at_least = lower_limit_of(outcome.measured, outcome.measured_stderr, grain, quantile) -
                     kSizeError * outcome.measured;
  if (amount.samples == 0) outcome.at_most = amount.limits_bytes(grain_words(rate)).upper;
  if (rule.from_baseline) {
    const double before = upper_limit_of(rule.limit, rule.limit_stderr, rule.limit_grain, quantile);
    outcome.at_least = difference_limits(rule.limit, {rule.limit, before}, outcome.measured,
                                         {outcome.at_least, outcome.measured})
                           .lower;
  }
  const bool broken = outcome.at_least > (rule.from_baseline ? 0 : rule.limit);
  outcome.verdict = broken ? RuleVerdict::kBroken : RuleVerdict::kHolds;
  if (broken) return;
  if (rule.from_baseline) {
    const double rough = std::max(grain, rule.limit_grain);
    if (kMinSamples * rough <= std::max({rule.limit, outcome.measured, kNegligible})) return;
    outcome.verdict = RuleVerdict::kUnknown;
    outcome.why_unknown = absl::StrCat(
        "a sample of ", grain >= rough ? "this run" : "the baseline", " stands for ",
        format_bytes(rough), ", too much to compare with it; use a higher --sampling-rate there");
    return;
  }
  if (rule.limit <= 0 || rule.limit >= kMinSamples * grain) return;
  outcome.verdict = RuleVerdict::kUnknown;
  outcome.why_unknown =
      fmt::format("a sample stands for {}, too much for this limit; use --sampling-rate {:.1g}",
                  format_bytes(grain), good_rate(rule.limit));
}

// Compares the live or allocated bytes of a range with the limit.
absl::Status check_amount(const ProfileSnapshot& snapshot, const TimeRange& range, double quantile,
                          RuleOutcome& outcome) {
  ASSIGN_OR_RETURN(const TargetProfile profile,
                   select(snapshot, range, filter_of(outcome.rule), Lifetimes::kLeftOut));
  const Measure measure =
      outcome.rule.kind == RuleKind::kAllocated ? Measure::kAllocated : Measure::kLive;
  Estimate amount;
  for (const ProfileRow& row : profile.rows) {
    amount += measure == Measure::kLive ? row.counters.live : row.counters.allocated;
  }
  judge(amount, snapshot.info.sampling_rate, quantile, outcome);
  outcome.largest_site = largest_site(profile, measure);
  return absl::OkStatus();
}

// Compares the bytes allocated per interval with the limit. For a run this chooses the interval
// that exceeds the limit by most, and divides the error probability by the number of intervals.
absl::Status check_intervals(const ProfileSnapshot& snapshot, const RuleCheck& check,
                             RuleOutcome& outcome) {
  const auto per_ns = static_cast<std::uint64_t>(outcome.rule.per_seconds * 1e9);
  const RangeCounter counter(snapshot);
  const std::uint64_t begin_ns = counter.begin_ns(), end_ns = counter.now_ns();
  if (check.running || end_ns - begin_ns <= per_ns) {
    const std::uint64_t from_ns = end_ns - begin_ns > per_ns ? end_ns - per_ns : begin_ns;
    return check_amount(snapshot, {from_ns, end_ns}, quantile_of_chance(check.chance), outcome);
  }
  const std::uint64_t intervals = (end_ns - begin_ns) / std::max<std::uint64_t>(per_ns, 1);
  if (intervals > kMaxIntervals) {
    return absl::InvalidArgumentError(
        absl::StrCat("per is less than a thousandth of the run; write per: ",
                     format_duration_argument(static_cast<double>(end_ns - begin_ns) / 1e9 /
                                              static_cast<double>(kMaxIntervals)),
                     " or more"));
  }
  const double quantile = quantile_of_chance(check.chance / static_cast<double>(intervals));
  std::optional<RuleOutcome> worst;
  for (std::uint64_t from_ns = begin_ns; from_ns + per_ns <= end_ns; from_ns += per_ns) {
    RuleOutcome one{.rule = outcome.rule};
    RETURN_IF_ERROR(check_amount(snapshot, {from_ns, from_ns + per_ns}, quantile, one));
    if (!worst || one.at_least > worst->at_least) worst = std::move(one);
  }
  outcome = *std::move(worst);
  return absl::OkStatus();
}

absl::Status check_growth(const ProfileSnapshot& snapshot, const RuleCheck& check,
                          RuleOutcome& outcome) {
  if (!snapshot.gc.valid) {
    return absl::FailedPreconditionError(
        "growth is measured between major collections, which cannot be counted in this program");
  }
  const RangeCounter counter(snapshot);
  TimeRange range;
  if (check.running && counter.now_ns() - counter.begin_ns() > kGrowthNs) {
    range.begin_ns = counter.now_ns() - kGrowthNs;
  }
  ASSIGN_OR_RETURN(const LeakAnswer answer, find_leaks(snapshot, range, filter_of(outcome.rule),
                                                       {.false_discoveries = check.chance}));
  if (answer.suspects.empty() && !answer.has_enough_steps) {
    return absl::FailedPreconditionError(
        "too few major collections have ended to look for growth between them");
  }
  const double share =
      outcome.rule.per_seconds > 0 ? outcome.rule.per_seconds / answer.compared_seconds : 1;
  double variance = 0, most = 0;
  for (const LeakSuspect& suspect : answer.suspects) {
    if (suspect.in_steps && suspect.confidence < 1 - check.chance) continue;  // too few steps
    outcome.measured += suspect.growth_bytes * share;
    variance += std::pow(suspect.growth_bytes_stderr * share, 2);
    if (suspect.growth_bytes <= most) continue;
    most = suspect.growth_bytes;
    outcome.largest_site = site_text(suspect.group.location);
  }
  outcome.measured_stderr = std::sqrt(variance);
  outcome.at_least =
      std::max(0.0, outcome.measured - quantile_of_chance(check.chance) * outcome.measured_stderr);
  outcome.verdict =
      outcome.at_least > outcome.rule.limit ? RuleVerdict::kBroken : RuleVerdict::kHolds;
  return absl::OkStatus();
}

// The rows and the sum of their counters, with lifetimes and ages.
absl::StatusOr<std::pair<TargetProfile, Counters>> with_lifetimes(const ProfileSnapshot& snapshot,
                                                                  const MemoryRule& rule) {
  ASSIGN_OR_RETURN(TargetProfile profile, select(snapshot, {}, filter_of(rule)));
  Counters all;
  for (const ProfileRow& row : profile.rows) all += row.counters;
  return std::pair(std::move(profile), std::move(all));
}

absl::Status check_lifetime(const ProfileSnapshot& snapshot, double quantile,
                            RuleOutcome& outcome) {
  ASSIGN_OR_RETURN(const auto counted, with_lifetimes(snapshot, outcome.rule));
  const auto& [profile, all] = counted;
  outcome.verdict = RuleVerdict::kHolds;
  const SurvivalCurve curve(all, quantile);
  if (curve.empty()) return absl::OkStatus();
  const SurvivalCurve::Quantile longest = curve.quantile(1 - kLongLived);
  outcome.measured = longest.ns.value_or(curve.watched_ns()) / 1e9;
  outcome.at_least = longest.lower_ns / 1e9;
  if (outcome.at_least > outcome.rule.limit) outcome.verdict = RuleVerdict::kBroken;
  outcome.largest_site = largest_site(profile, Measure::kLive);
  return absl::OkStatus();
}

// Returns the lower limit of the oldest bucket, because a block's age is known only by bucket.
double oldest_seconds(const Counters& counters) {
  int oldest = -1;
  for (const AgeCounts::Entry& age : counters.ages.entries()) {
    oldest = std::max(oldest, age.bucket());
  }
  return oldest < 0 ? 0 : LifetimeHistogram::value_at(oldest, 0) / 1e9;
}

absl::Status check_age(const ProfileSnapshot& snapshot, RuleOutcome& outcome) {
  ASSIGN_OR_RETURN(auto counted, with_lifetimes(snapshot, outcome.rule));
  auto& [profile, all] = counted;
  outcome.measured = outcome.at_least = oldest_seconds(all);
  const bool broken = outcome.at_least > outcome.rule.limit;
  outcome.verdict = broken ? RuleVerdict::kBroken : RuleVerdict::kHolds;
  const auto oldest = std::ranges::max_element(
      profile.rows, {}, [](const ProfileRow& row) { return oldest_seconds(row.counters); });
  if (oldest == profile.rows.end()) return absl::OkStatus();
  profile.rows = {*oldest};
  outcome.largest_site = largest_site(profile, Measure::kLive);
  return absl::OkStatus();
}

absl::Status check_into(const ProfileSnapshot& snapshot, const RuleCheck& check,
                        RuleOutcome& outcome) {
  const MemoryRule& rule = outcome.rule;
  if (rule.kind != RuleKind::kAllocated) {
    RETURN_IF_ERROR(check_follows_blocks(snapshot, "live bytes and lifetimes"));
  }
  const double quantile = quantile_of_chance(check.chance);
  switch (rule.kind) {
    case RuleKind::kLive:
      return check_amount(snapshot, {}, quantile, outcome);
    case RuleKind::kPeak:
      return check_amount(snapshot, {.until_peak = true}, quantile, outcome);
    case RuleKind::kAllocated:
      return rule.per_seconds > 0 ? check_intervals(snapshot, check, outcome)
                                  : check_amount(snapshot, {}, quantile, outcome);
    case RuleKind::kGrowth:
      return check_growth(snapshot, check, outcome);
    case RuleKind::kLifetime:
      return check_lifetime(snapshot, quantile, outcome);
    case RuleKind::kAge:
      return check_age(snapshot, outcome);
  }
  return absl::InternalError("a rule of no kind");
}

// Indexed by RuleVerdict.
constexpr const char* kVerdictNames[] = {"ok", "broken", "unknown"};
static_assert(static_cast<int>(RuleVerdict::kHolds) == 0 &&
              static_cast<int>(RuleVerdict::kBroken) == 1 &&
              static_cast<int>(RuleVerdict::kUnknown) == 2);

}  // namespace

CheckResult result_of(const RuleOutcome& outcome) {
  return {rule_text(outcome.rule, false), outcome.verdict, outcome_text(outcome)};
}

CheckResult result_of(const AssertionOutcome& outcome) {
  const RuleVerdict verdict = outcome.verdict == AssertionVerdict::kViolated ? RuleVerdict::kBroken
                              : outcome.verdict == AssertionVerdict::kNotChecked
                                  ? RuleVerdict::kUnknown
                                  : RuleVerdict::kHolds;
  return {assertion_text(outcome.assertion), verdict, outcome_text(outcome)};
}

const char* verdict_name(RuleVerdict verdict) { return kVerdictNames[static_cast<int>(verdict)]; }

RuleVerdict verdict_named(std::string_view name) {
  if (name == verdict_name(RuleVerdict::kHolds)) return RuleVerdict::kHolds;
  return name == verdict_name(RuleVerdict::kBroken) ? RuleVerdict::kBroken : RuleVerdict::kUnknown;
}

double quantile_of_chance(double chance) {
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (chance_beyond(middle) > chance ? low : high) = middle;
  }
  return high;
}

RuleOutcome check_rule(const ProfileSnapshot& snapshot, const MemoryRule& rule,
                       const RuleCheck& check) {
  RuleOutcome outcome{.rule = rule};
  if (const absl::Status status = check_into(snapshot, check, outcome); !status.ok()) {
    outcome.verdict = RuleVerdict::kUnknown;
    outcome.why_unknown = std::string(status.message());
  }
  return outcome;
}

std::string outcome_text(const RuleOutcome& outcome) {
  if (outcome.verdict == RuleVerdict::kUnknown) return outcome.why_unknown;
  const MemoryRule& rule = outcome.rule;
  const auto text = [&](double value) {
    return is_time_limit(rule.kind) ? format_duration(value) : format_bytes(value);
  };
  std::string out = is_time_limit(rule.kind)
                        ? format_duration(outcome.measured)
                        : format_estimate(outcome.measured, outcome.measured_stderr);
  if (outcome.at_most > 0) absl::StrAppend(&out, ", at most ", format_bytes(outcome.at_most));
  if (rule.from_baseline) absl::StrAppend(&out, ", baseline and tolerance ", text(rule.limit));
  if (outcome.verdict == RuleVerdict::kHolds) return out;
  absl::StrAppend(&out,
                  rule.from_baseline ? ", certainly more by at least " : ", certainly at least ",
                  text(outcome.at_least));
  if (!outcome.largest_site.empty()) {
    absl::StrAppend(&out, rule.kind == RuleKind::kAge ? "; the oldest: " : "; most of it: ",
                    outcome.largest_site);
  }
  return out;
}

}  // namespace memprofd
