// SPDX-License-Identifier: Apache-2.0
// The measures of a group of blocks. A measure's row contains everything that the command line, the
// API and the page need.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace memprof::v1 {
enum Measure : int;
}

namespace memprofd {

// The table of rows and the columns of a terminal, from left to right, have the same order.
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

// The unit of a measure.
enum class Unit {
  kBytes,
  kBlocks,   // for allocated and live blocks only
  kSamples,  // samples of allocations
  kSeconds,  // median lifetime of the blocks
};

// Fields of the messages Site and Target whose sum is an estimate of these blocks.
std::span<const char* const> estimate_fields(Blocks blocks);

struct MeasureRow {
  Measure measure;
  ::memprof::v1::Measure proto;
  std::string_view word;     // for the command line; the API has _ for -
  std::string_view title;    // for use within a sentence: "died young"
  std::string_view column;   // heading on a terminal
  char key;                  // key that selects this order in `memprofctl top`
  std::string_view help;     // help text of the key
  std::string_view meaning;  // one line, for the page
  Blocks blocks;
  Unit unit;

  // True if the value accumulates over a span of time and can be shown per second; false for a
  // property of a moment or of blocks.
  constexpr bool is_flow() const { return blocks != Blocks::kLive && unit != Unit::kSeconds; }
  // True if the value of a whole heap is the sum over its parts.
  constexpr bool is_sum() const { return unit != Unit::kSeconds; }
  // True if the value requires the fate of blocks, which observe mode does not follow.
  constexpr bool needs_followed_blocks() const { return blocks != Blocks::kAllocated; }
  // "died_young".
  std::string api_word() const;
  // "Died young".
  std::string label() const;
};

// All rows, in the order of Measure.
std::span<const MeasureRow> measures();
const MeasureRow& measure_row(Measure measure);
// Maps "unspecified" to live. Returns null for a value that the enum does not define.
const MeasureRow* find_measure(::memprof::v1::Measure order);
// Like find_measure, for code that must answer every request: returns the row of live for an
// undefined value.
const MeasureRow& measure_row(::memprof::v1::Measure order);

}  // namespace memprofd
