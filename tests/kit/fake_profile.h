// SPDX-License-Identifier: Apache-2.0
// A TargetProfile built by hand. Return addresses are numbers; one sample stands for one word, with
// an error of one word.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/history/profile.h"

namespace memprofd::testing {

// Addresses missing in the table are functions of that number.
class TableSymbolizer : public Symbolizer {
 public:
  std::map<std::uint64_t, std::vector<Location>> table;
  int calls = 0;

  std::vector<Location> look_up(std::uint64_t address, std::int32_t) override {
    ++calls;
    const auto found = table.find(address);
    if (found != table.end()) return found->second;
    return {{.function = absl::StrCat("0x", absl::Hex(address))}};
  }
};

// Never freed.
inline const Callstack* callstack_of(std::vector<std::uint64_t> entries) {
  static std::deque<Callstack> kept;
  return &kept.emplace_back(Callstack{.entries = std::move(entries)});
}

inline constexpr SampleWeight kSample{.words = 1, .variance_words2 = 1, .skew_words3 = 1};

struct FakeProfile {
  FakeProfile() { profile.symbolizer = symbolizer; }

  // Allocated and live samples of blocks of 7 words, 8 with the header.
  ProfileRow& add(std::vector<std::uint64_t> entries, std::uint32_t allocated,
                  std::uint32_t live = 0) {
    ProfileRow& row = profile.rows.emplace_back();
    row.id = ClassId(static_cast<std::uint32_t>(profile.rows.size()));
    row.alloc_class.size = SizeBucket::of(7);
    row.callstack = callstack_of(std::move(entries));
    if (allocated > 0) row.counters.add_allocated(allocated, kSample, 8);
    if (live > 0) row.counters.add_live(live, kSample, 8);
    return row;
  }
  void name(std::uint64_t address, Location location) {
    symbolizer->table[address] = {std::move(location)};
  }

  std::shared_ptr<TableSymbolizer> symbolizer = std::make_shared<TableSymbolizer>();
  TargetProfile profile;
};

// Matches all functions with this name.
class HideFunction : public LocationMatcher {
 public:
  explicit HideFunction(std::string function) : function_(std::move(function)) {}
  bool matches(const Location& location) const override { return location.function == function_; }

 private:
  std::string function_;
};

}  // namespace memprofd::testing
