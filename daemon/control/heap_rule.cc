// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/heap_rule.h"

#include "absl/strings/str_cat.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::string_view kLive = "live", kMajors = "majors=", kAt = "at=";

// Parses a time of day: "03:00".
bool parse_time(std::string_view text, HeapRule& rule) {
  if (text.size() != 5 || text[2] != ':') return false;
  const auto hour = parse_number<unsigned>(text.substr(0, 2));
  const auto minute = parse_number<unsigned>(text.substr(3));
  if (!hour || !minute || *hour > 23 || *minute > 59) return false;
  rule.kind = HeapRule::Kind::kTime;
  rule.hour = static_cast<int>(*hour);
  rule.minute = static_cast<int>(*minute);
  return true;
}

// Parses a limit, ">2GiB", or an increase, "+500MiB".
bool parse_live(std::string_view text, HeapRule& rule) {
  if (text.empty() || (text[0] != '>' && text[0] != '+')) return false;
  const auto bytes = parse_size(text.substr(1));
  if (!bytes.ok() || *bytes == 0) return false;
  rule.kind = text[0] == '>' ? HeapRule::Kind::kAbove : HeapRule::Kind::kGrown;
  rule.bytes = static_cast<double>(*bytes);
  return true;
}

bool parse_into(std::string_view text, HeapRule& rule) {
  if (text == "point" || text == "end") {
    rule.kind = text == "end" ? HeapRule::Kind::kEnd : HeapRule::Kind::kPoint;
    return true;
  }
  if (text.starts_with(kLive)) return parse_live(text.substr(kLive.size()), rule);
  if (text.starts_with(kAt)) return parse_time(text.substr(kAt.size()), rule);
  if (!text.starts_with(kMajors)) return false;
  const auto count = parse_number<std::uint64_t>(text.substr(kMajors.size()));
  rule.kind = HeapRule::Kind::kMajors;
  rule.count = count.value_or(0);
  return rule.count > 0;
}

}  // namespace

absl::StatusOr<HeapRule> parse_heap_rule(std::string_view text) {
  HeapRule rule{.text = std::string(text)};
  if (parse_into(text, rule)) return rule;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", rule.text,
      "\" is not a condition: write live>2GiB, live+500MiB, majors=100, at=03:00, point "
      "or end"));
}

// Returns true when the condition begins to hold, but not again while it holds.
bool HeapRuleState::crossed(bool is_there) {
  if (!is_there) is_armed_ = true;
  return is_there && is_armed_;
}

bool HeapRuleState::has_come(const std::tm& time) const {
  return time.tm_hour == rule_->hour && time.tm_min == rule_->minute && day_ != time.tm_yday;
}

bool HeapRuleState::is_due(const HeapMoment& now) {
  last_ = now;
  if (!base_bytes_) base_bytes_ = now.live_bytes;
  if (!base_majors_) base_majors_ = now.major_collections;
  switch (rule_->kind) {
    case HeapRule::Kind::kAbove:
      return crossed(now.live_bytes > rule_->bytes);
    case HeapRule::Kind::kGrown:
      return now.live_bytes - *base_bytes_ >= rule_->bytes;
    case HeapRule::Kind::kMajors:
      return now.major_collections && *now.major_collections >= *base_majors_ + rule_->count;
    case HeapRule::Kind::kTime:
      return has_come(now.time);
    case HeapRule::Kind::kPoint:
    case HeapRule::Kind::kEnd:
      return false;
  }
  return false;
}

void HeapRuleState::taken() {
  is_armed_ = false;
  base_bytes_ = last_.live_bytes;
  base_majors_ = last_.major_collections;
  day_ = last_.time.tm_yday;
}

}  // namespace memprofd
