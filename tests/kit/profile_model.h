// SPDX-License-Identifier: Apache-2.0
// Profiles built by hand: a symbolizer with given names, and rows with round numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/events.h"
#include "daemon/history/profile.h"

namespace memprofd::testing {

// Unknown addresses are "f<address>" in "f.ml", line = address.
class ModelSymbolizer : public Symbolizer {
 public:
  std::map<std::pair<std::uint64_t, std::int32_t>, std::vector<Location>> known;
  std::map<std::string, std::string, std::less<>> build_ids;  // by library; "": the program's

  std::string build_id(std::string_view library) override {
    const auto it = build_ids.find(library);
    return it == build_ids.end() ? "" : it->second;
  }
  std::vector<Location> look_up(std::uint64_t address, std::int32_t alloc_idx) override {
    for (const std::int32_t idx : {alloc_idx, -1}) {
      const auto it = known.find({address, idx});
      if (it != known.end()) return it->second;
    }
    return {{.function = "f" + std::to_string(address),
             .file = "f.ml",
             .line = static_cast<std::uint32_t>(address),
             .start_column = 4,
             .end_column = 9,
             .library = "server"}};
  }
};

class HiddenFunctions : public LocationMatcher {
 public:
  explicit HiddenFunctions(std::vector<std::string> names) : names_(std::move(names)) {}
  bool matches(const Location& location) const override {
    return std::find(names_.begin(), names_.end(), location.function) != names_.end();
  }

 private:
  std::vector<std::string> names_;
};

// A repeated frame: f, run(3) means f four times.
constexpr std::uint64_t run(std::uint32_t more) { return MEMPROF_RUN_MARK | more; }

// One sample stands for 100 words. A row's block has 9 words and a header, so one sample stands for
// 10 blocks of 80 bytes.
class ProfileModel {
 public:
  static constexpr double kRate = 0.01;
  static constexpr double kBlockWords = 9;

  explicit ProfileModel(int pid = 42, std::string comm = "server") {
    profile.pid = pid;
    profile.comm = std::move(comm);
    profile.exe = "/usr/bin/server";
    profile.runtime_version = "4.14.1";
    profile.sampling_rate = kRate;
    profile.range = {1'700'000'000'000'000'000, 1'700'000'010'000'000'000};
    profile.symbolizer = symbolizer;
  }

  // allocated and live are in samples; entries are innermost first.
  ProfileRow& add(std::vector<std::uint64_t> entries, std::uint32_t allocated,
                  std::uint32_t live = 0, std::int32_t alloc_idx = -1) {
    ProfileRow& row = profile.rows.emplace_back();
    row.callstack =
        &callstacks.emplace_back(Callstack{.entries = std::move(entries), .alloc_idx = alloc_idx});
    row.counters.add_allocated(allocated, weight_of_word(kRate), kBlockWords + 1);
    if (live > 0) row.counters.add_live(live, weight_of_word(kRate), kBlockWords + 1);
    return row;
  }
  void name(std::uint64_t address, std::vector<Location> locations, std::int32_t alloc_idx = -1) {
    symbolizer->known[{address, alloc_idx}] = std::move(locations);
  }
  void hide(std::vector<std::string> functions) {
    profile.hidden = std::make_shared<HiddenFunctions>(std::move(functions));
  }

  std::shared_ptr<ModelSymbolizer> symbolizer = std::make_shared<ModelSymbolizer>();
  std::deque<Callstack> callstacks;  // callstacks of the rows
  TargetProfile profile;
};

}  // namespace memprofd::testing
