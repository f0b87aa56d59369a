// SPDX-License-Identifier: Apache-2.0
// The measures of a group of blocks. The row of a measure has everything that the command line, the
// API and the page need.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace memprof::v1 {
enum Measure : int;
}

namespace memprofd {

// In the order of the table, which is that of columns from left to right.
enum class Measure {
  kLive,
  kAllocated,
  kPromoted,
  kDiedYoung,
  kDiedOld,
  kLifetime,
  kSamples,
  kLiveObjects,
  kAllocatedObjects,
};

// The blocks that a measure counts.
enum class Blocks {
  kAllocated,
  kPromoted,
  kLive,
  kDiedYoung,  // deallocated in the minor heap
  kDiedOld,    // deallocated in the major heap
  kDied,       // deallocated in either
};

// The unit in which it counts them.
enum class Unit {
  kBytes,
  kBlocks,   // of allocated and live ones only
  kSamples,  // of allocation
  kSeconds,  // the median of their lifetimes
};

// The fields of the messages Site and Target whose sum is an estimate of such blocks.
std::span<const char* const> estimate_fields(Blocks blocks);

struct MeasureRow {
  Measure measure;
  ::memprof::v1::Measure proto;
  std::string_view word;     // of the command line; the API has _ for -
  std::string_view title;    // within a sentence: "died young"
  std::string_view column;   // above a column of a terminal
  char key;                  // sorts by it in `memprofctl top`
  std::string_view help;     // of the key
  std::string_view meaning;  // one line, for the page
  Blocks blocks;
  Unit unit;

  // True if it is counted over a span of time, so that it can be shown per second; false for a
  // property of a moment or of blocks.
  constexpr bool is_flow() const { return blocks != Blocks::kLive && unit != Unit::kSeconds; }
  // True if the value of a whole heap is the sum over its parts.
  constexpr bool is_sum() const { return unit != Unit::kSeconds; }
  // True if it needs the fate of blocks, which is unknown in observe mode.
  constexpr bool needs_followed_blocks() const { return blocks != Blocks::kAllocated; }
  // "died_young".
  std::string api_word() const;
  // "Died young".
  std::string label() const;
};

// All of them, in the order of Measure.
std::span<const MeasureRow> measures();
const MeasureRow& measure_row(Measure measure);
// Unspecified is live; null: the message's enum has no such value.
const MeasureRow* find_measure(::memprof::v1::Measure order);
// For code that must answer any request: the row of live for an unknown value.
const MeasureRow& measure_row(::memprof::v1::Measure order);

}  // namespace memprofd
