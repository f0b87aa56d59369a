// SPDX-License-Identifier: Apache-2.0
// Immutable views of targets, published by the ingest thread and shared by all readers.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/aggregate/aggregator.h"
#include "daemon/aggregate/counters.h"
#include "daemon/discover/gc_stats.h"
#include "daemon/discover/memory_status.h"
#include "daemon/history/history_view.h"
#include "daemon/history/profile.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/history/value_history.h"
#include "daemon/model/target_info.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/drops.h"

namespace memprofd {

class EventLog;

struct ProfileSnapshot {
  TargetInfo info;
  std::uint64_t time_ns = 0;      // CLOCK_REALTIME of this snapshot
  std::uint64_t attached_ns = 0;  // CLOCK_REALTIME of the attach
  TargetCounters counters;
  DropCounters drops;
  GcStats gc;
  std::optional<MemoryStatus> memory;      // of the whole process; unset once it has ended
  std::uint64_t live_samples_tracked = 0;  // entries in the live set
  double missing_words = 0;  // the most that lost events stand for and that counters lack so far
  double forgotten_seconds = 0;  // since counters.forgotten_live was followed; 0: never
  std::uint64_t stacks_interned = 0;
  std::uint64_t ring_bytes_used = 0;
  std::uint64_t ring_bytes_total = 0;
  std::vector<ProfileRow> rows;            // classes with samples, by id
  std::vector<LiveOfSession> live;         // live memory of each session, by rate
  std::shared_ptr<const void> callstacks;  // owns the callstacks of rows
  HistoryView history;                     // empty: no history
  ValueHistoryViewPtr values;              // null: the target publishes no values
  // Never null. All snapshots of the target share it.
  std::shared_ptr<Symbolizer> symbolizer;
  std::shared_ptr<EventLog> events;  // shared by all snapshots of the target; null: none

  // Start and end of the data on the clock of ranges: the time of the attach, and that plus the
  // time since. Later adjustments of the system clock do not affect them.
  std::uint64_t begin_ns() const { return history.empty() ? attached_ns : history.begin_ns; }
  std::uint64_t now_ns() const { return history.empty() ? time_ns : history.newest_ns(); }
  // Offset from that clock to the system clock.
  std::int64_t clock_set_by_ns() const { return static_cast<std::int64_t>(time_ns - now_ns()); }
  // The part of live memory outside of the heap, held by custom blocks.
  Estimate live_external() const {
    Estimate external;
    for (const ProfileRow& row : rows) {
      if (row.alloc_class.source == Source::kCustom) external += row.counters.live;
    }
    return external;
  }
  // Native memory allocated since profiling of the native heap began, and the live part of it.
  struct NativeHeap {
    Estimate allocated, live, resident;
  };
  NativeHeap native_heap() const {
    NativeHeap native_heap;
    for (const ProfileRow& row : rows) {
      if (row.alloc_class.source != Source::kMalloc) continue;
      native_heap.allocated += row.counters.allocated;
      native_heap.live += row.counters.live;
      native_heap.resident += row.counters.resident;
    }
    return native_heap;
  }
  // Bytes that died, by heap kind.
  std::array<Estimate, kHeapKinds> deallocated_by_heap_kind() const {
    std::array<Estimate, kHeapKinds> died;
    for (const ProfileRow& row : rows) {
      for (const Heap heap : {Heap::kMinor, Heap::kMajor}) {
        const HeapKind heap_kind = heap_kind_of(heap, row.alloc_class.source);
        died[static_cast<int>(heap_kind)] += row.counters.deallocated[static_cast<int>(heap)];
      }
    }
    return died;
  }
  // Since the attach and now.
  UnseenWords unseen_words() const {
    return {counters.all_allocated().grain_or(info.sampling_rate),
            counters.live.grain_or(info.sampling_rate), missing_words};
  }
  // Age at a time of CLOCK_REALTIME; 0 if that clock was set back since.
  std::chrono::nanoseconds age(std::uint64_t realtime_ns) const {
    return std::chrono::nanoseconds(realtime_ns - std::min(realtime_ns, time_ns));
  }
};

}  // namespace memprofd
