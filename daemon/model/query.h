// SPDX-License-Identifier: Apache-2.0
// Queries: one model for command line, gRPC and HTTP. Fields mean the same as those of the same
// name in proto/memprof/v1/profiler.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/model/group_key.h"
#include "daemon/model/heap.h"

namespace memprofd {

// A range of CLOCK_REALTIME, half open. 0 means the attach for the start, now for the end.
struct TimeRange {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  bool until_peak = false;  // overrides the others: from the attach to the peak of live bytes

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

enum class Fate { kAny, kDead, kAlive };

// The frame of a callstack that names the allocation site.
enum class SiteFrame {
  kInnermost,
  kApplication,  // the innermost that is not is_library_code; if all are, the innermost
};

// Selects blocks by their fate. Default: all.
struct LifetimeFilter {
  double min_seconds = 0;
  double max_seconds = 0;  // 0: any
  Fate fate = Fate::kAny;
  bool allocated_in_range = false;

  bool takes_all() const {
    return min_seconds <= 0 && max_seconds <= 0 && fate == Fate::kAny && !allocated_in_range;
  }
};

struct Filter {
  // RE2 patterns, searched in function, file and "file:line". Empty patterns are ignored.
  std::vector<std::string> patterns;  // for the site; all must match
  std::vector<std::string> require;
  std::vector<std::string> forbid;
  std::vector<std::string> hide;
  std::uint64_t min_size_bytes = 0;
  std::uint64_t max_size_bytes = 0;  // 0: any
  LifetimeFilter lifetime;
  std::optional<HeapKind> heap;
  std::optional<Source> source;
  std::vector<std::uint32_t> threads;  // empty: all
  std::vector<std::uint32_t> domains;  // empty: all
  SiteFrame site_frame = SiteFrame::kInnermost;
};

}  // namespace memprofd
