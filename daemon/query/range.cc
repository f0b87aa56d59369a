// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/range.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/query/range_ages.h"
#include "daemon/query/range_counter.h"

namespace memprofd {
namespace {

bool any(const Counters& counters) {
  return counters.allocated.words + counters.live.words + counters.promoted.words +
             counters.deallocated[0].words + counters.deallocated[1].words >
         0;
}

double objects(const Estimate& estimate, const ProfileRow& row) {
  return estimate.words / row.alloc_class.block_words();
}

RangeRows assemble(const ProfileSnapshot& snapshot, const TimeRange& range,
                   std::vector<Counters> counters) {
  RangeRows result{range, {}};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!any(counters[i])) continue;
    const ProfileRow& row = snapshot.rows[i];
    result.rows.push_back({row.id, row.alloc_class, row.callstack, std::move(counters[i])});
  }
  return result;
}

void set_ages(std::vector<AgeCounts> ages, std::vector<Counters>& counters) {
  for (std::size_t i = 0; i < counters.size(); ++i) counters[i].ages = std::move(ages[i]);
}

std::vector<Counters> count_all(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                                const TimeRange& range, Lifetimes lifetimes) {
  std::vector<Counters> counters =
      counter.flows(range.begin_ns, range.end_ns, lifetimes == Lifetimes::kCounted);
  const std::vector<Portion> live = counter.live_at(range.end_ns);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    counters[i].live = live[i].estimate();
    counters[i].live_objects = objects(counters[i].live, snapshot.rows[i]);
    // Residency is known for the present only.
    if (range.end_ns >= counter.now_ns()) counters[i].resident = snapshot.rows[i].counters.resident;
  }
  if (lifetimes == Lifetimes::kLeftOut) return counters;
  set_ages(ages_at(counter, snapshot, range.end_ns, live), counters);
  add_late_entries(counter, range, counters);
  return counters;
}

// Adds the blocks forgotten in a range to those live at its end.
void carry(const RangeCounter& counter, const ProfileSnapshot& snapshot, const TimeRange& range,
           std::vector<Counters>& counters) {
  const std::vector<Portion> forgotten = counter.forgotten(range.begin_ns, range.end_ns);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const Estimate carried = forgotten[i].estimate();
    counters[i].live += carried;
    counters[i].live_objects += objects(carried, snapshot.rows[i]);
  }
}

// Live blocks that pass the filter, by row.
std::vector<Portion> alive(const RangeCounter& counter, const TimeRange& range,
                           const LifetimeFilter& filter) {
  const auto min_ns = static_cast<std::uint64_t>(std::max(0.0, filter.min_seconds) * 1e9);
  const std::uint64_t after_ns = filter.allocated_in_range ? range.begin_ns : counter.begin_ns();
  std::uint64_t until_ns = range.end_ns > min_ns ? range.end_ns - min_ns : 0;
  if (min_ns > 0) until_ns = counter.resolve({until_ns, range.end_ns}).begin_ns;
  if (until_ns <= after_ns) return {};
  return counter.survivors(after_ns, until_ns, range.end_ns);
}

// Returns everything born in the range if the filter has no fate and no lifetime limits. This
// includes blocks that are no longer followed and so count neither as live nor as dead.
Estimate allocated(const Counters& passed, const Counters* born, const LifetimeFilter& filter) {
  const bool all = filter.fate == Fate::kAny && filter.min_seconds <= 0 && filter.max_seconds <= 0;
  if (born != nullptr && all) return born->allocated;
  Estimate sum = passed.live;
  for (const Estimate& heap : passed.deallocated) sum += heap;
  return sum;
}

// Counts the ages of blocks that pass and have not died, if lifetimes of all blocks are requested.
// If only dead blocks or a maximum lifetime are requested, ages do not count.
void count_ages(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                const TimeRange& range, const LifetimeFilter& filter,
                std::vector<Counters>& counters) {
  if (filter.fate == Fate::kDead || filter.max_seconds > 0) return;
  const AgeFilter ages{{filter.min_seconds * 1e9}, filter.allocated_in_range};
  set_ages(ages_at_end(counter, snapshot, range, ages), counters);
  if (filter.fate == Fate::kAlive) return;
  std::vector<AgeCounts> forgotten = forgotten_ages(counter, snapshot, range, ages);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    counters[i].forgotten = std::move(forgotten[i]);
  }
  if (!filter.allocated_in_range) add_late_entries(counter, range, counters);
}

std::vector<Counters> count_filtered(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                                     const TimeRange& range, const LifetimeFilter& filter,
                                     Lifetimes lifetimes) {
  LifetimeSpan span{filter.min_seconds * 1e9};
  if (filter.max_seconds > 0) span.max_ns = filter.max_seconds * 1e9;
  std::vector<RangeCounter::Deaths> dead;
  std::vector<Portion> live;
  if (filter.fate != Fate::kAlive) {
    dead = counter.deaths(range.begin_ns, range.end_ns, span,
                          filter.allocated_in_range ? range.begin_ns : 0);
  }
  if (filter.fate != Fate::kDead && filter.max_seconds <= 0) live = alive(counter, range, filter);
  std::vector<Counters> born;
  if (filter.allocated_in_range) born = counter.flows(range.begin_ns, range.end_ns, false);
  SampleRounding of_live;
  std::array<SampleRounding, kHeaps> of_dead;
  std::vector<Counters> result(snapshot.rows.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    Counters& counters = result[i];
    const ProfileRow& row = snapshot.rows[i];
    if (!born.empty() && born[i].allocated.samples == 0) continue;
    if (!live.empty()) counters.live = live[i].estimate(of_live);
    if (!dead.empty()) {
      for (int heap = 0; heap < kHeaps; ++heap) {
        counters.deallocated[heap] = dead[i].by_heap[heap].estimate(of_dead[heap]);
      }
      counters.deaths = std::move(dead[i].counts);
    }
    counters.allocated = allocated(counters, born.empty() ? nullptr : &born[i], filter);
    if (row.alloc_class.heap == Heap::kMinor) {
      counters.promoted = counters.deallocated[static_cast<int>(Heap::kMajor)];
    }
    counters.live_objects = objects(counters.live, row);
    counters.allocated_objects = objects(counters.allocated, row);
  }
  if (lifetimes == Lifetimes::kCounted) count_ages(counter, snapshot, range, filter, result);
  return result;
}

// Returns the counts at the peak, which may lie inside a window. Ages are those at the nearest
// window limit.
RangeRows until_peak(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                     Lifetimes lifetimes) {
  const PeakLive& peak = *snapshot.history.peak;
  std::vector<Counters> counters(snapshot.rows.size());
  for (const PeakLive::Class& of : peak.classes) {
    if (const int row = counter.row_of(of.id); row >= 0) counters[row] = of.counters;
  }
  for (Counters& at_peak : counters) at_peak.resident = {};  // residency was not read then
  if (lifetimes == Lifetimes::kCounted) {
    const std::uint64_t limit_ns = counter.resolve({0, peak.time_ns}).end_ns;
    set_ages(ages_at(counter, snapshot, limit_ns, counter.live_at(limit_ns)), counters);
  }
  return assemble(snapshot, {counter.begin_ns(), peak.time_ns, true}, std::move(counters));
}

}  // namespace

RangeRows rows_in_range(const ProfileSnapshot& snapshot, const TimeRange& asked,
                        const LifetimeFilter& lifetime, Lifetimes lifetimes,
                        std::uint64_t carried_since_ns) {
  const RangeCounter counter(snapshot);
  if (asked.until_peak && snapshot.history.peak != nullptr && lifetime.takes_all()) {
    return until_peak(counter, snapshot, lifetimes);
  }
  const TimeRange range = counter.resolve(asked);
  if (!lifetime.takes_all()) {
    return assemble(snapshot, range, count_filtered(counter, snapshot, range, lifetime, lifetimes));
  }
  const bool carries = carried_since_ns != 0 && carried_since_ns < range.end_ns;
  if (range.begin_ns <= counter.begin_ns() && range.end_ns >= counter.now_ns() && !carries) {
    return {range, snapshot.rows};
  }
  std::vector<Counters> counters = count_all(counter, snapshot, range, lifetimes);
  if (carries) carry(counter, snapshot, {carried_since_ns, range.end_ns}, counters);
  return assemble(snapshot, range, std::move(counters));
}

void count_lifetimes(const ProfileSnapshot& snapshot, const TimeRange& range,
                     std::span<ProfileRow* const> rows) {
  if (rows.empty()) return;
  ProfileSnapshot few;  // rows_in_range() uses only the members set below
  few.time_ns = snapshot.time_ns;
  few.attached_ns = snapshot.attached_ns;
  few.history = snapshot.history;
  auto next = snapshot.rows.begin();
  for (const ProfileRow* row : rows) {
    next = std::find_if(next, snapshot.rows.end(),
                        [&](const ProfileRow& of_all) { return of_all.id == row->id; });
    few.rows.push_back(*next);
  }
  RangeRows counted = rows_in_range(few, range, {});
  auto with = counted.rows.begin();
  for (ProfileRow* row : rows) {
    while (with->id != row->id) ++with;  // rows without any count are in neither
    row->counters = std::move(with->counters);
  }
}

}  // namespace memprofd
