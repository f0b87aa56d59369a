// SPDX-License-Identifier: Apache-2.0
// Published values of one moment in the form that history stores: numbers, one per series, and log
// lines.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace memprofd {

// The quantity of an observation that a series records.
enum class ValueQuantity {
  kHits,     // hits of a point
  kSeconds,  // running time of a timer or phase, including open intervals
  kStops,    // intervals that have ended
  kRunning,  // intervals that are still open
  kNumber,   // numeric value
  kSize,     // bindings, elements, or bytes of a string; live values of a tag
  kBuckets,  // buckets of a table, like the next ones
  kEmptyBuckets,
  kLongestChain,
  kBytes,  // bytes of a tag
};
inline constexpr int kValueQuantities = static_cast<int>(ValueQuantity::kBytes) + 1;

// True if it never decreases while the program runs.
constexpr bool is_count(ValueQuantity quantity) {
  return quantity == ValueQuantity::kHits || quantity == ValueQuantity::kSeconds ||
         quantity == ValueQuantity::kStops;
}

using ValueLabels = std::vector<std::pair<std::string, std::string>>;

// "requests{route=/a}"
std::string name_with_labels(const std::string& name, const ValueLabels& labels);

struct ValueSeries {
  enum class Kind { kPoint, kTimer, kPhase, kValue, kTag };
  Kind kind = Kind::kPoint;
  ValueQuantity quantity = ValueQuantity::kHits;
  std::string name;
  ValueLabels labels;
  std::string unit;

  // The unit does not identify a series.
  bool operator<(const ValueSeries& other) const { return key() < other.key(); }
  std::string full_name() const { return name_with_labels(name, labels); }
  std::size_t memory_bytes() const;

 private:
  std::tuple<Kind, ValueQuantity, const std::string&, const ValueLabels&> key() const {
    return {kind, quantity, name, labels};
  }
};

struct ValueLine {
  enum class Kind { kText, kPhaseBegins, kPhaseEnds, kPause };
  Kind kind = Kind::kText;
  bool is_cut = false;
  std::uint64_t number = 0;  // position in the program's log, from 0 on
  std::uint64_t time_ns = 0;
  std::string text;  // or name of the phase or pause
};

struct ValueSample {
  std::uint64_t time_ns = 0;
  std::vector<std::pair<ValueSeries, double>> numbers;
  std::vector<ValueLine> lines;  // lines currently in the program's log, in order
};

}  // namespace memprofd
