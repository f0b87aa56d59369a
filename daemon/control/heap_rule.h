// SPDX-License-Identifier: Apache-2.0
// When memprofd takes a snapshot of a target's heap by itself (--snapshot.when):
//
//     live>2GiB     what is live, as sampling has it, has come above that
//     live+500MiB   it has grown by that since the snapshot before, or since the rule first saw it
//     majors=100    so many major collections have ended since then
//     at=03:00      once a day, at that time of the machine's clock
//     point         the program says so (Memprof_agent.snapshot)
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
  std::string text;         // as it was given
  double bytes = 0;         // kAbove, kGrown
  std::uint64_t count = 0;  // kMajors
  int hour = 0, minute = 0;
};

// kInvalidArgument, with what can be written.
absl::StatusOr<HeapRule> parse_heap_rule(std::string_view text);

// The numbers of a sampled target that rules compare.
struct HeapMoment {
  double live_bytes = 0;
  std::optional<std::uint64_t> major_collections;  // nothing: not known
  std::tm time{};                                  // of the machine's clock
};

// A rule of the first four kinds, and its state for one target.
class HeapRuleState {
 public:
  explicit HeapRuleState(const HeapRule& rule) : rule_(&rule) {}  // which outlives it

  // At each look, in turn.
  bool is_due(const HeapMoment& now);
  // A snapshot was taken for it at the last look.
  void taken();

 private:
  bool crossed(bool is_there);
  bool has_come(const std::tm& time) const;

  const HeapRule* rule_;
  HeapMoment last_;
  std::optional<double> base_bytes_;
  std::optional<std::uint64_t> base_majors_;
  std::optional<int> day_;  // of the year, on which it was taken
  bool is_armed_ = true;    // not taken since it was true for the last time
};

}  // namespace memprofd
