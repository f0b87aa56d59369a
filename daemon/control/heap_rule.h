// SPDX-License-Identifier: Apache-2.0
// Rules for automatic snapshots of a target's heap (--snapshot.when):
//
//     live>2GiB     estimated live memory has risen above this
//     live+500MiB   it has grown by this since the last snapshot, or since the rule first saw it
//     majors=100    this number of major collections have ended since then
//     at=03:00      once a day, at that time of the machine's clock
//     point         the program requests it (Memprof_agent.snapshot)
//     end           the program calls exit
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memprofd {

struct HeapRule {
  enum class Kind { kAbove, kGrown, kMajors, kTime, kPoint, kEnd };
  Kind kind = Kind::kAbove;
  std::string text;         // text of the option
  double bytes = 0;         // kAbove, kGrown
  std::uint64_t count = 0;  // kMajors
  int hour = 0, minute = 0;
};

// kInvalidArgument: the message lists the valid forms.
absl::StatusOr<HeapRule> parse_heap_rule(std::string_view text);

// The numbers of a sampled target that rules compare.
struct HeapMoment {
  double live_bytes = 0;
  std::optional<std::uint64_t> major_collections;  // nullopt: unknown
  std::tm time{};                                  // local time of the machine
};

// A rule of the first four kinds, and its state for one target.
class HeapRuleState {
 public:
  explicit HeapRuleState(const HeapRule& rule) : rule_(&rule) {}  // rule must outlive this

  // Returns true if a snapshot is due. Call it at each check, in the order of time.
  bool is_due(const HeapMoment& now);
  // Call this when a snapshot was taken because of the last is_due().
  void taken();

 private:
  bool crossed(bool is_there);
  bool has_come(const std::tm& time) const;

  const HeapRule* rule_;
  HeapMoment last_;
  std::optional<double> base_bytes_;
  std::optional<std::uint64_t> base_majors_;
  std::optional<int> day_;  // day of the year of the last snapshot
  bool is_armed_ = true;    // no snapshot since the condition was last false
};

}  // namespace memprofd
