// SPDX-License-Identifier: Apache-2.0
// Published values: a registry in the program's memory (memprof_values_abi.h) with points, timers,
// phases, values and log lines, read from outside while the program continues to write. Accepts any
// contents of that memory. Changes nothing in the program except the time until which it is
// observed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/values/durations.h"
#include "daemon/values/tick_clock.h"
#include "daemon/values/value.h"

namespace memprofd {

struct PublishedValue {
  enum class Kind { kPoint, kTimer, kPhase, kValue, kTag, kRequest };
  Kind kind = Kind::kPoint;
  std::string name;
  std::string unit;
  std::vector<std::pair<std::string, std::string>> labels;
  std::uint32_t slot = 0;
  std::uint32_t cell = 0;  // cell of a timer, phase or request
  std::int64_t hits = 0;   // hits of a point
  // A timer or phase has these.
  std::uint64_t starts = 0;
  std::uint64_t stops = 0;
  double seconds = 0;      // total so far, including open intervals
  double max_seconds = 0;  // longest interval that was stopped with its token
  DurationsPtr durations;  // durations of these intervals; null: none, or the program has an older
                           // library
  // The counts of a point, timer or phase for one domain; only if requested.
  struct PerDomainCounts {
    std::uint32_t lane =
        0;  // the domain's index; MEMPROF_VALUES_SHARED_LANE: of all others and of C code
    std::int64_t hits = 0;
    std::uint64_t starts = 0, stops = 0;
    double seconds = 0, max_seconds = 0;
  };
  std::vector<PerDomainCounts> lanes;
  // A value has these.
  memprof_value_type type = MEMPROF_VALUE_ANY;
  memprof_value_source source = MEMPROF_VALUE_SET;
  std::uint64_t root = 0;
  std::uint32_t control = 0;                // settings by viewers: MEMPROF_CONTROL_...
  std::uint32_t period_ms = 0;              // interval between calls of a function
  std::uint64_t no_mark = 0;                // for a tag: the placeholder in its weak arrays
  Value value;                              // for kOcaml and kAddress: still to be read
  std::optional<std::uint64_t> changed_ns;  // CLOCK_MONOTONIC, of what the program has set

  // Intervals of a timer or phase that have not ended.
  std::uint64_t running() const { return starts - std::min(starts, stops); }
  // now_ns: CLOCK_MONOTONIC.
  std::optional<double> age_seconds(std::uint64_t now_ns) const {
    if (!changed_ns) return std::nullopt;
    return static_cast<double>(now_ns - std::min(now_ns, *changed_ns)) / 1e9;
  }
  // Switched off by a viewer: it is not read.
  bool is_off() const { return (control & MEMPROF_CONTROL_OFF) != 0; }
  // True if its value is in the OCaml heap and still has to be read.
  bool is_on_heap() const { return has_value() && source == MEMPROF_VALUE_OCAML && !is_off(); }
  bool has_value() const { return kind == Kind::kValue || kind == Kind::kTag; }
  bool has_times() const { return kind == Kind::kTimer || kind == Kind::kPhase; }
  // "requests{route=/a}"
  std::string full_name() const;

  bool is_torn = false;  // written at each try: its words may be of two moments
};

struct PublishedLine {
  std::uint64_t number = 0;
  double seconds_ago = 0;
  memprof_log_kind kind = MEMPROF_LOG_LINE;
  std::string text;  // the line, or the phase's or pause's name
  bool is_cut = false;
};

struct Publication {
  std::vector<PublishedValue> all;   // in the order of their creation
  std::vector<PublishedLine> lines;  // the last ones, in order
  std::uint64_t refused = 0;         // names for which there was no room
  std::uint64_t lost_lines = 0;      // lines that could not be written
  std::uint64_t malformed = 0;       // invalid slots
  std::uint32_t waiting = 0;         // threads that wait in a pause
};

// address: of struct memprof_values. kFailedPrecondition, in one line, if there is no registry, or
// one of another build; otherwise the errors of the memory.
absl::StatusOr<Publication> read_publication(const MemoryReader& memory, std::uint64_t address,
                                             const TickMoment& now, bool by_lane = false);

// Registers a viewer with the program, for a minute from now on. Returns true if there was none
// before.
absl::StatusOr<bool> observe_report(const WritableMemory& memory, std::uint64_t address,
                                    std::uint64_t now_ns);

// True if it is a registry of this build's kind.
bool is_known(const memprof_values_head& head);

// Resumes everything that waits in a pause now, and returns its number.
absl::StatusOr<std::uint32_t> resume_report(const WritableMemory& memory, std::uint64_t address);

}  // namespace memprofd
